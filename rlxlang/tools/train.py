"""`rlx train`: a model, arrays by name, and out come weights."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang import optim
from rlxlang.checkpoint import save_weights
from rlxlang.diagnostics import RlxValueError
from rlxlang.inputs import fault
from rlxlang.schedules import LrSchedule
from rlxlang.tools.data import (
    Arrays,
    add_model_arguments,
    add_watch_arguments,
    load_model,
    read_npz,
    require_writable,
    selected,
    split,
    watching,
)
from rlxlang.tools.plots import plot_losses, require_matplotlib
from rlxlang.trainer import Trainer
from rlxlang.trainer_progress import figures
from rlxlang.training import EpochRecord
from rlxlang.training.data import ArrayData

if TYPE_CHECKING:
    from rlxlang.func import Func

EXAMPLES = """\
examples:
  rlx train digits.rlx                                 digits.npz beside it is taken
  rlx train mlp.rlx --data mnist.npz --epochs 10 --lr 1e-3
  rlx train mlp.rlx --data mnist.npz --set hidden=512 --optimizer sgd --momentum 0.9
  rlx train mlp.rlx --data mnist.npz --out mlp.safetensors --plot loss.png

Arrays of the .npz file are matched to the inputs of the model by name. Its rows are shuffled by the
seed and the last part is held out; its loss, and for a model with `logits` and integer labels its
accuracy, are reported after every epoch.
"""

_RATES = {"sgd": 0.1, "adamw": 3e-3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument("--data", metavar="FILE.npz", help="arrays by name (default: MODEL.npz beside the model)")
    parser.add_argument("--epochs", type=int, default=30, help="walks through the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="rows of a batch (default: %(default)s)")
    parser.add_argument("--optimizer", choices=sorted(_RATES), default="adamw", help="(default: %(default)s)")
    parser.add_argument("--lr", type=float, help="greatest learning rate (default: 3e-3, sgd: 0.1)")
    parser.add_argument("--momentum", type=float, help="of sgd (default: 0.9)")
    parser.add_argument("--weight-decay", type=float, help="(default: 0.01, sgd: 0)")
    parser.add_argument(
        "--schedule", choices=("constant", "cosine", "linear", "one_cycle"), default="cosine",
        help="course of the learning rate (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--max-grad-norm", type=float, help="greatest norm of all gradients together")
    parser.add_argument("--patience", type=int, help="stop after so many epochs without improvement")
    parser.add_argument("--val-fraction", type=float, default=0.2, help="part that is held out (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of parameters, shuffling and dropout (default: %(default)s)"
    )
    parser.add_argument("--device", help="cpu, opencl, opencl:1 or reference (default: the fastest)")
    parser.add_argument("--out", metavar="FILE.safetensors", help="where the weights go (default: <model>.safetensors)")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the losses (needs matplotlib)")
    parser.add_argument("--quiet", action="store_true", help="say nothing but the result")
    add_watch_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Train; returns the exit code."""
    out = Path(options.out or f"{Path(options.model).stem}.safetensors")
    _check(options, out)
    say = _silent if options.quiet else print
    func = load_model(options)
    train, held = _data(options, func, say)
    func = func.init_params(seed=options.seed)
    steps = ArrayData(func.graph, train, options.batch_size).count * options.epochs
    opt, schedule = _optimizer(options, steps)
    trainer = Trainer(
        func,
        opt,
        schedule=schedule,
        max_grad_norm=options.max_grad_norm,
        device=options.device,
        seed=options.seed,
    )
    count = sum(math.prod(p.node.shape) for p in func.graph.params)
    say(f"{func.name}: {count:,} parameters, {type(opt).__name__}, on {trainer.device}")

    def report(trainer: Trainer, record: EpochRecord) -> None:
        say(figures(record))

    with watching(options):
        history = trainer.fit(
            train,
            options.epochs,
            options.batch_size,
            val=held,
            seed=options.seed,
            patience=options.patience,
            callbacks=(report,),
            progress=False if options.quiet else None,
        )
    save_weights(trainer.func(), out)
    say(f"weights saved to {out}")
    if options.plot:
        plot_losses(history, func.name, options.plot)
        say(f"losses drawn into {options.plot}")
    print(_result(trainer, train, held))
    return 0


def _check(options: argparse.Namespace, out: Path) -> None:
    """Refuse before the work is done what would fail after it."""
    for path in filter(None, (out, options.plot)):
        require_writable(path)
    if options.plot:
        require_matplotlib(options.plot)
    if not 0 <= options.val_fraction < 1:
        raise RlxValueError(f"`--val-fraction` is in [0, 1), {options.val_fraction} is given")
    if options.epochs < 0:
        raise RlxValueError(f"`--epochs` is at least 0, {options.epochs} is given")


def _silent(*_: Any) -> None:
    return


def _data(options: argparse.Namespace, func: Func, say: Any) -> tuple[Arrays, Arrays | None]:
    """Training and held-out arrays, the latter None when nothing is held out."""
    path = Path(options.data) if options.data else Path(options.model).with_suffix(".npz")
    if not options.data and not path.exists():
        raise fault(
            "E0803",
            f"no data: `--data` is not given and there is no `{path}`",
            helps=(f"rlx train {options.model} --data FILE.npz",),
        )
    arrays, ignored = selected(func, read_npz(path), path)
    whole = ArrayData(func.graph, arrays, options.batch_size)
    train, held = split(arrays, whole.cut_by_name(), options.val_fraction, options.seed)
    if not _rows(train, whole):
        raise RlxValueError(f"`{path}` has {whole.rows} rows, which leaves none to train on")
    count = _rows(held, whole)
    say(f"data: {path}, {whole.rows - count:,} rows to train on, {count:,} held out")
    if ignored:
        say(f"not an input, so not used: {', '.join(ignored)}")
    _check_labels(func, arrays, path)
    return train, held if count else None


def _check_labels(func: Func, arrays: Arrays, path: Path) -> None:
    """Refuse labels that are no class: a run clamps them, so training would learn from wrong ones."""
    inputs = {entry.node: entry.name for entry in func.graph.feeds}
    for node in func.graph.nodes:
        if node.op.name != "softmax_cross_entropy" or (name := inputs.get(node.inputs[1])) not in arrays:
            continue
        classes, labels = node.inputs[0].shape[-1], arrays[name]
        if not isinstance(classes, int):
            continue
        wrong = labels[((labels < 0) | (labels >= classes)) & (labels != node.attrs["ignore_index"])]
        if wrong.size:
            raise RlxValueError(
                f"`{name}` of `{path}` holds the label {wrong[0]}, there are {classes} classes",
                helps=(f"labels count from 0: 0 to {classes - 1}",),
            )


def _rows(arrays: Arrays, data: ArrayData) -> int:
    return next((arrays[n].shape[0] for n, cut in data.cut_by_name().items() if cut), 0)


def _optimizer(options: argparse.Namespace, steps: int) -> tuple[optim.Optimizer, LrSchedule]:
    name = options.optimizer
    rate = _RATES[name] if options.lr is None else options.lr
    if options.momentum is not None and name != "sgd":
        raise RlxValueError(f"`--momentum` belongs to sgd, the optimizer is {name}")
    opt: optim.Optimizer
    if name == "sgd":
        momentum = 0.9 if options.momentum is None else options.momentum
        opt = optim.Sgd(rate, momentum=momentum, weight_decay=options.weight_decay or 0.0)
    else:
        opt = optim.AdamW(rate, weight_decay=0.01 if options.weight_decay is None else options.weight_decay)
    schedules = {
        "constant": lambda: LrSchedule.constant(rate),
        "cosine": lambda: LrSchedule.cosine(rate, 0.01 * rate, steps),
        "linear": lambda: LrSchedule.linear(rate, 0.0, steps),
        "one_cycle": lambda: LrSchedule.one_cycle(rate, steps),
    }
    return opt, schedules[options.schedule]()


def _result(trainer: Trainer, train: Arrays, held: Arrays | None) -> str:
    """The last line: how good the model is on what it has not seen."""
    data, name = (train, "training") if held is None else (held, "held-out")
    found = trainer.evaluate(data)
    if "accuracy" not in found:
        return f"{name} loss {found['loss']:.4g}"
    return f"{name} accuracy {100 * found['accuracy']:.2f} %, loss {found['loss']:.4g}"
