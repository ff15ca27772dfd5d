"""`rlx run`: the outputs of a model, as far as what is given suffices."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rlxlang.checkpoint import load_weights
from rlxlang.device import Device
from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.func import Func
from rlxlang.inputs import check_names, fault
from rlxlang.ir import Graph, Node
from rlxlang.tools.data import (
    add_model_arguments,
    add_watch_arguments,
    assignment,
    load_model,
    selected,
    value_of,
    watching,
)
from rlxlang.tools.data_sources import KINDS, add_columns, read_arrays
from rlxlang.training.data import ArrayData
from rlxlang.types import axes_of

if TYPE_CHECKING:
    from rlxlang.types import Dim

Array = np.ndarray[Any, Any]

EXAMPLES = """\
examples:
  rlx run digits.rlx --weights digits.safetensors --data digits.npz --index 3
  rlx run digits.rlx --weights digits.safetensors --data digits.npz --output out.npz
  rlx run line.rlx --input x='[1, 2, 3]' --seed 0
  rlx run line.rlx --weights line.safetensors --input x=points.npy

Outputs that need an input which is not given, as a loss needs labels, are left out.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_model_arguments(parser)
    parser.add_argument("--weights", metavar="FILE.safetensors", help="parameters, as `rlx train` saves them")
    parser.add_argument(
        "--seed", type=int, help="of the parameters, which are drawn where no --weights are given, and of the run"
    )
    parser.add_argument("--data", metavar="DATA", help=f"inputs by name: {KINDS}")
    add_columns(parser)
    parser.add_argument(
        "--input", metavar="NAME=VALUE", action="append", default=[],
        help="an input: a number, a list, or a .npy file; may be repeated",
    )  # fmt: skip
    parser.add_argument("--index", type=int, help="take this row of the data alone")
    parser.add_argument("--device", help="cpu, opencl, opencl:1 or reference (default: the fastest)")
    parser.add_argument("--output", metavar="FILE.npz", help="where the outputs go, by name")
    add_watch_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run; returns the exit code."""
    func = load_model(options)
    values = _inputs(options, func)
    part = computable(func, values)
    left_out = [name for name in func.output_names() if name not in part.output_names()]
    func = _with_params(options, func)
    needed = set(part.param_names())
    part = part.with_params({n: a for n, a in func.bindings.items() if n in needed})
    given = {n: values[n] for n in part.input_names()}
    if options.index is not None:
        given = _row(part, given, options.index)
    seed = part.traced.signature.seed
    if seed is not None:
        given[seed.name] = options.seed or 0
    device = Device.parse(options.device) if options.device else None
    with watching(options):
        outputs = part.run_on(device, given) if device else part.run(given)
    for name, array in zip(part.output_names(), outputs, strict=True):
        print(described(name, array))
    if left_out:
        print(f"left out, since they need {_missing(func, values)}: {', '.join(left_out)}")
    if options.output:
        try:
            np.savez(options.output, **dict(zip(part.output_names(), outputs, strict=True)))  # type: ignore[arg-type]
        except OSError as problem:
            raise RlxRuntimeError(f"`{options.output}` cannot be written: {problem.strerror or problem}") from problem
        print(f"saved to {options.output}")
    return 0


def _inputs(options: argparse.Namespace, func: Func) -> dict[str, object]:
    """Values of inputs by name, from the file and the command line."""
    values: dict[str, object] = {}
    if options.data:
        arrays, _ = selected(func, read_arrays(options.data, func, options.columns), options.data)
        values.update(arrays)
    for text in options.input:
        name, value = assignment(text, "--input")
        check_names([name], func.input_names(), "input", func.name)
        values[name] = value_of(value, name)
    return values


def _missing(func: Func, values: Mapping[str, object]) -> str:
    return ", ".join(f"`{n}`" for n in func.input_names() if n not in values)


def computable(func: Func, given: Iterable[str]) -> Func:
    """The part of a function that needs only the given inputs: all outputs that can be computed from them.

    Raises:
        RlxRuntimeError: E0803 no output can be computed.
    """
    graph = func.graph
    known = set(given)
    missing = {e.node for e in graph.feeds if e.name not in known}
    if not missing:
        return func
    reached: set[Node] = set(missing)
    for node in graph.nodes:
        if any(i in reached for i in node.inputs):
            reached.add(node)
    outputs = tuple(o for o in graph.outputs if o.node not in reached)
    if not outputs:
        names = ", ".join(f"`{e.name}` ({e.node.type})" for e in graph.feeds if e.name not in known)
        raise fault("E0803", f"no output of `{graph.name}` can be computed without {names}")
    needed = set(Graph("", (), outputs).nodes)
    inputs = tuple(e for e in graph.inputs if e.node in needed)
    axes = {a for e in inputs for a in e.node.tensor.axes()}
    guards = tuple(g for g in graph.guards if {*_axes(g.guard.left), *_axes(g.guard.right)} <= axes)
    return Func.from_graph(Graph(graph.name, inputs, outputs, guards))


def _axes(dim: Dim | int) -> tuple[str, ...]:
    return () if isinstance(dim, int) else tuple(axes_of(dim))


def _with_params(options: argparse.Namespace, func: Func) -> Func:
    if options.weights:
        return load_weights(func, options.weights)
    if options.seed is not None:
        return func.init_params(seed=options.seed)
    if [n for n in func.param_names() if n not in func.bindings]:
        raise fault(
            "E0809",
            f"`{func.name}` has parameters, and no values are given for them",
            helps=("give them by `--weights FILE.safetensors`, or draw them by `--seed 0`",),
        )
    return func


def _row(func: Func, values: Mapping[str, object], index: int) -> dict[str, object]:
    """One row of the data, with the batch axis kept."""
    data = ArrayData(func.graph, values, 1)
    if not -data.rows <= index < data.rows:
        raise RlxValueError(f"`--index {index}`: the data have {data.rows:,} rows")
    row = index % data.rows
    cut = data.cut_by_name()
    return {n: np.asarray(v)[row : row + 1] if cut[n] else v for n, v in values.items()}


def described(name: str, array: Array) -> str:
    """An output in text; for `logits` the classes and, of a single row, the probability."""
    kind = f"{array.dtype} {list(array.shape)}"
    if name == "logits" and array.ndim and array.shape[-1] and array.dtype.kind == "f":
        best = np.argmax(array, axis=-1)
        if best.size == 1:
            wide = np.exp(array.reshape(-1).astype(np.float64) - array.max())
            return f"{name} ({kind}): class {int(best.item())}, probability {wide.max() / wide.sum():.4f}"
        return f"{name} ({kind}): classes {_text(best)}"
    return f"{name} ({kind}): {_text(array)}"


def _text(array: Array) -> str:
    body = np.array2string(array, threshold=40, edgeitems=3, precision=6, separator=", ")
    return f"\n{body}" if "\n" in body else body
