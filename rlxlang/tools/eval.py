"""`rlx eval`: loss and metrics of a trained model over data."""

from __future__ import annotations

import argparse
import json

import numpy as np

from rlxlang.checkpoint import load_weights
from rlxlang.diagnostics import RlxRuntimeError
from rlxlang.tools.classification import classes_of
from rlxlang.tools.data import Arrays, add_model_arguments, load_model, require_writable, selected
from rlxlang.tools.data_sources import KINDS, add_columns, read_arrays
from rlxlang.tools.run import computable
from rlxlang.training import evaluate
from rlxlang.training.data import ArrayData

EXAMPLES = """\
examples:
  rlx eval digits.rlx --weights digits.safetensors --data digits.npz
  rlx eval digits.rlx --weights digits.safetensors --data digits.npz --metrics accuracy,f1,top3 --format json
  rlx eval digits.rlx --weights digits.safetensors --data new.csv --predictions found.npz

A model with `logits` and integer labels is a classifier: precision, recall and F1 of each class are told as well.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument(
        "--weights", metavar="FILE.safetensors", required=True, help="parameters, as `rlx train` saves them"
    )
    parser.add_argument("--data", metavar="DATA", required=True, help=f"inputs by name: {KINDS}")
    add_columns(parser)
    parser.add_argument(
        "--metrics", metavar="NAMES", help="accuracy, top5, f1, auc, perplexity, mse, mae, with commas between"
    )
    parser.add_argument("--batch-size", type=int, help="rows computed at once (default: 1024)")
    parser.add_argument("--device", help="cpu, opencl, opencl:1 or reference (default: the fastest)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers of the model (default: %(default)s)")
    parser.add_argument("--predictions", metavar="FILE.npz", help="where the outputs for all rows go, by name")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Evaluate; returns the exit code."""
    if options.predictions:
        require_writable(options.predictions)
    func = load_weights(load_model(options), options.weights)
    arrays, ignored = selected(func, read_arrays(options.data, func, options.columns), options.data)
    names = None if options.metrics is None else metric_names(options.metrics)
    found = evaluate(func, arrays, options.batch_size, metrics=names, device=options.device, seed=options.seed)
    classes = classes_of(func, arrays, options.seed)
    rows = ArrayData(func.graph, arrays, 1).rows
    if options.predictions:
        _predict(options, arrays)
    if options.format == "json":
        report = {"model": func.name, "rows": rows, "metrics": found}
        if classes is not None:
            report |= {"classes": classes.figures(), "confusion": classes.confusion.tolist()}
        print(json.dumps(report))
        return 0
    if ignored:
        print(f"not an input, so not used: {', '.join(ignored)}")
    print(f"{func.name}, {rows:,} rows of {options.data}")
    for name, value in found.items():
        print(f"{name}: {value:.6g}")
    if classes is not None:
        print(f"\n{classes.tables()}")
    if options.predictions:
        print(f"\noutputs saved to {options.predictions}")
    return 0


def metric_names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _predict(options: argparse.Namespace, arrays: Arrays) -> None:
    func = load_weights(load_model(options), options.weights)
    part = computable(func, arrays)
    part = part.with_params({n: func.bindings[n] for n in part.param_names()})
    given: dict[str, object] = {n: arrays[n] for n in part.input_names()}
    seed = part.traced.signature.seed
    if seed is not None:
        given[seed.name] = options.seed
    outputs = part.run_on(options.device, given) if options.device else part.run(given)
    try:
        np.savez(options.predictions, **dict(zip(part.output_names(), outputs, strict=True)))  # type: ignore[arg-type]
    except OSError as problem:
        raise RlxRuntimeError(f"`{options.predictions}` cannot be written: {problem.strerror or problem}") from problem
