"""`rlx train`: a model, arrays by name, and out come weights."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang.checkpoint import save_weights
from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.inputs import fault
from rlxlang.tools.data import (
    Arrays,
    add_model_arguments,
    add_watch_arguments,
    load_model,
    require_writable,
    selected,
    split,
    watching,
)
from rlxlang.tools.data_sources import KINDS, add_columns, read_arrays
from rlxlang.tools.eval import metric_names
from rlxlang.tools.optimizer_options import RATES, SCHEDULES, keywords, optimizer_of, schedule_of
from rlxlang.tools.plots import plot_losses, require_matplotlib
from rlxlang.tools.run_folder import RunFolder
from rlxlang.tools.settings import written
from rlxlang.trainer import Trainer
from rlxlang.trainer_progress import figures
from rlxlang.training import Checkpoint, CsvLog, EpochRecord
from rlxlang.training.data import ArrayData

if TYPE_CHECKING:
    from rlxlang.func import Func

EXAMPLES = """\
examples:
  rlx train digits.rlx                                 digits.npz beside it is taken
  rlx train mlp.rlx --data mnist.npz --epochs 10 --lr 1e-3
  rlx train mlp.rlx --data mnist.npz --set hidden=512 --optimizer sgd --momentum 0.9
  rlx train mlp.rlx --data flowers.csv --columns x=length,width --columns y=kind --optimizer muon
  rlx train mlp.rlx --settings run.toml --run-dir runs/a
  rlx train mlp.rlx --run-dir runs/a --resume          goes on where it was stopped
  rlx train mlp.rlx --run-dir runs/b --sweep lr=1e-3,3e-3 --sweep hidden=64,128

Arrays of the data are matched to the inputs of the model by name. Rows are shuffled by the seed and
the last part is held out; its loss, and for a model with `logits` and integer labels its accuracy,
are reported after every epoch.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument(
        "--settings", metavar="FILE.toml", help="options from a file; those of the command line come before"
    )
    data = parser.add_argument_group("data")
    data.add_argument("--data", metavar="DATA", help=f"arrays by name: {KINDS} (default: MODEL.npz beside the model)")
    add_columns(data)
    data.add_argument("--val", metavar="DATA", help="data to hold out, in place of a part of --data")
    data.add_argument("--val-fraction", type=float, default=0.2, help="part that is held out (default: %(default)s)")
    steps = parser.add_argument_group("steps")
    steps.add_argument("--epochs", type=int, default=30, help="walks through the data (default: %(default)s)")
    steps.add_argument("--batch-size", type=int, default=32, help="rows of a batch (default: %(default)s)")
    steps.add_argument("--accumulate", type=int, default=1, help="batches of an update (default: %(default)s)")
    steps.add_argument("--optimizer", choices=sorted(RATES), default="adamw", help="(default: %(default)s)")
    steps.add_argument("--lr", type=float, help="greatest learning rate (default: 3e-3 for adamw, 0.1 for sgd …)")
    steps.add_argument("--momentum", type=float, help="of sgd (default: 0.9), muon, kronpsgd and stiefel")
    steps.add_argument("--weight-decay", type=float, help="(default: that of the optimizer)")
    steps.add_argument(
        "--opt", metavar="NAME=VALUE", action="append", default=[],
        help="another setting of the optimizer, as `betas=0.9,0.95`; may be repeated",
    )  # fmt: skip
    steps.add_argument(
        "--schedule",
        choices=tuple(SCHEDULES),
        default="cosine",
        help="course of the learning rate (default: %(default)s)",
    )
    steps.add_argument(
        "--warmup", type=int, default=0, help="steps in which the rate rises first (default: %(default)s)"
    )
    steps.add_argument("--max-grad-norm", type=float, help="greatest norm of all gradients together")
    steps.add_argument("--ema", type=float, help="decay of an average of the parameters, which is what is kept")
    steps.add_argument("--quant", metavar="FORMAT", help="round the matrices in training, as nvf4, mx:e4m3 or int8")
    steps.add_argument("--patience", type=int, help="stop after so many epochs without improvement")
    steps.add_argument(
        "--seed", type=int, default=0, help="of parameters, shuffling and dropout (default: %(default)s)"
    )
    steps.add_argument("--device", help="cpu, opencl, opencl:1 or reference (default: the fastest)")
    results = parser.add_argument_group("results")
    results.add_argument(
        "--metrics", metavar="NAMES", help="of the held-out data: accuracy, top5, f1, auc, perplexity, mse, mae"
    )
    results.add_argument(
        "--out", metavar="FILE.safetensors", help="where the weights go (default: <model>.safetensors)"
    )
    results.add_argument(
        "--run-dir", metavar="FOLDER", help="keep settings, log, checkpoints, weights and a report there"
    )
    results.add_argument("--resume", action="store_true", help="go on with the run of --run-dir")
    results.add_argument(
        "--sweep", metavar="NAME=V,V,…", action="append", default=[],
        help="train once for each value of an option or config; several make a grid, each in a folder of --run-dir",
    )  # fmt: skip
    results.add_argument("--plot", metavar="FILE.png", help="draw the losses (needs matplotlib)")
    results.add_argument("--quiet", action="store_true", help="say nothing but the result")
    add_watch_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Train; returns the exit code."""
    if options.sweep:
        from rlxlang.tools.sweep import sweep

        return sweep(options, train)
    print(train(options))
    return 0


def train(options: argparse.Namespace) -> str:
    """Train once; returns the last line, how good the model is on what it has not seen."""
    began = time.perf_counter()
    folder = None if options.run_dir is None else RunFolder(options.run_dir)
    out = Path(options.out or (f"{Path(options.model).stem}.safetensors" if folder is None else folder.weights))
    _check(options, folder, out)
    say = _silent if options.quiet else print
    func = load_model(options)
    learned, held = _data(options, func, say)
    func = func.init_params(seed=options.seed)
    updates = (
        -(-ArrayData(func.graph, learned, options.batch_size).count // max(options.accumulate, 1)) * options.epochs
    )
    trainer = _trainer(options, func, updates, folder)
    count = sum(math.prod(p.node.shape) for p in func.graph.params)
    say(f"{func.name}: {count:,} parameters, {type(trainer.opt).__name__}, on {trainer.device}")
    if options.resume:
        say(f"goes on after epoch {trainer.epoch}")

    def report(trainer: Trainer, record: EpochRecord) -> None:
        say(figures(record))

    with watching(options):
        history = trainer.fit(
            learned,
            max(options.epochs - trainer.epoch, 0),
            options.batch_size,
            val=held,
            metrics=None if options.metrics is None else metric_names(options.metrics),
            seed=options.seed,
            patience=options.patience,
            callbacks=(report,) if folder is None else (report, CsvLog(folder.log)),
            checkpoint=None if folder is None else Checkpoint(folder.checkpoints),
            progress=False if options.quiet else None,
        )
    is_averaged = options.ema is not None
    save_weights(trainer.func(ema=is_averaged), out)
    # What was trained for few bits is judged in few bits.
    trained = trainer.func(ema=is_averaged, quantized=options.quant is not None)
    say(f"weights saved to {out}")
    if options.plot:
        plot_losses(history, func.name, options.plot)
        say(f"losses drawn into {options.plot}")
    data, name = (learned, "training") if held is None else (held, "held-out")
    found = _figures(options, trained, data)
    if folder is not None:
        folder.report(options, trained, count, data, name, found, time.perf_counter() - began)
        say(f"report written to {folder.report_file}")
    accuracy = f"accuracy {100 * found['accuracy']:.2f} %, " if "accuracy" in found else ""
    others = "".join(f", {n} {v:.4g}" for n, v in found.items() if n not in ("loss", "accuracy"))
    return f"{name} {accuracy}loss {found['loss']:.4g}{others}"


def _figures(options: argparse.Namespace, func: Func, data: Arrays) -> dict[str, float]:
    """Loss and metrics of the trained model."""
    from rlxlang.training import evaluate

    names = None if options.metrics is None else metric_names(options.metrics)
    return evaluate(func, data, metrics=names, device=options.device, seed=options.seed)


def _check(options: argparse.Namespace, folder: RunFolder | None, out: Path) -> None:
    """Refuse before the work is done what would fail after it."""
    if options.resume and folder is None:
        raise RlxValueError("`--resume` goes on with the run of a folder", helps=("name it: `--run-dir FOLDER`",))
    if folder is not None:
        folder.prepare(resume=options.resume, settings=written(options, options.parser))
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


def _trainer(options: argparse.Namespace, func: Func, updates: int, folder: RunFolder | None) -> Trainer:
    """The trainer, at the start or where the run of the folder stopped."""
    settings = keywords(options.optimizer, options.opt)
    for name in ("momentum", "weight_decay"):
        if getattr(options, name) is not None:
            settings |= keywords(options.optimizer, [f"{name}={getattr(options, name)!r}"])
    opt = optimizer_of(options.optimizer, options.lr, settings)
    rate = RATES[options.optimizer] if options.lr is None else options.lr
    given = {
        "schedule": schedule_of(options.schedule, rate, updates, options.warmup),
        "max_grad_norm": options.max_grad_norm,
        "quant": options.quant,
        "device": options.device,
        "accumulate": options.accumulate,
        "ema": options.ema,
        "seed": options.seed,
    }
    if not options.resume:
        return Trainer(func, opt, **given)
    assert folder is not None
    if not folder.has_checkpoints():
        raise RlxRuntimeError(f"`{folder.checkpoints}` holds no checkpoint to go on from")
    return Trainer.resume(folder.checkpoints, func, opt, **given)


# --------------------------------------------------------------------------------------------- data


def _data(options: argparse.Namespace, func: Func, say: Any) -> tuple[Arrays, Arrays | None]:
    """Training and held-out arrays, the latter None when nothing is held out."""
    path = options.data or str(Path(options.model).with_suffix(".npz"))
    if not options.data and not Path(path).exists():
        raise fault(
            "E0803",
            f"no data: `--data` is not given and there is no `{path}`",
            helps=(f"rlx train {options.model} --data FILE.npz",),
        )
    arrays, ignored = selected(func, read_arrays(path, func, options.columns), path)
    whole = ArrayData(func.graph, arrays, options.batch_size)
    if options.val:
        train_part, held = arrays, selected(func, read_arrays(options.val, func, options.columns), options.val)[0]
        _check_labels(func, held, options.val)
        count = ArrayData(func.graph, held, options.batch_size).rows
    else:
        train_part, held = split(arrays, whole.cut_by_name(), options.val_fraction, options.seed)
        count = _rows(held, whole)
    rows = _rows(train_part, whole)
    if not rows:
        raise RlxValueError(f"`{path}` has {whole.rows} rows, which leaves none to train on")
    say(f"data: {path}, {rows:,} rows to train on, {count:,} held out")
    if ignored:
        say(f"not an input, so not used: {', '.join(ignored)}")
    _check_labels(func, arrays, path)
    return train_part, held if count else None


def _check_labels(func: Func, arrays: Arrays, path: str) -> None:
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
