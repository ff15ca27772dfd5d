"""Evaluation of a graph, node by node, by what the op table says each op means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import InternalError, RlxRuntimeError, RlxShapeError, RlxTypeError
from rlxlang.ir import Graph, Node
from rlxlang.types import F32, Dim, TensorType, TupleType, axes_of
from rlxlang.types import evaluate as evaluate_dim

Array = np.ndarray[Any, Any]
Observe = Callable[[Node, Sequence[Any], Any, Mapping[str, int]], None]
"""Is told of every op after it ran: the node, its operands, its value and the sizes; nodes in bodies once for every step."""


def read_sizes(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The size of every dynamic axis that stands alone in the shape of an input.

    Raises:
        RlxRuntimeError: E0803 an array is missing.
        RlxShapeError: E0805 it has another rank; E0808 two axes of one name disagree.
    """
    sizes: dict[str, int] = {}
    for entry in graph.inputs:
        if entry.name not in arrays:
            raise RlxRuntimeError(f"the {entry.kind} `{entry.name}` is not given", code="E0803")
        given = np.shape(arrays[entry.name])
        if len(given) != entry.node.tensor.rank:
            raise RlxShapeError(
                f"`{entry.name}` is {entry.node.tensor} and an array of shape {list(given)} is given", code="E0805"
            )
        for dim, actual in zip(entry.node.shape, given, strict=True):
            names = axes_of(dim) if isinstance(dim, Dim) else ()
            if len(names) == 1 and dim == Dim.axis(names[0]):
                known = sizes.setdefault(names[0], actual)
                if known != actual:
                    raise RlxShapeError(f"`{names[0]}` is {known}, and {actual} in `{entry.name}`", code="E0808")
    return sizes


def concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with every size replaced by its number."""
    if isinstance(value, Dim):
        return evaluate_dim(value, sizes)
    if isinstance(value, tuple):
        return tuple(concrete(v, sizes) for v in value)
    return value


def _check_inputs(graph: Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
    for entry in graph.inputs:
        want = tuple(evaluate_dim(d, sizes) for d in entry.node.shape)
        array = np.asarray(arrays[entry.name])
        if array.shape != want:
            raise RlxShapeError(
                f"`{entry.name}` is {entry.node.tensor}, and an array of shape {list(array.shape)} is given",
                code="E0805",
                notes=(f"its shape here is {list(want)}",),
            )
        if array.dtype != entry.node.dtype.numpy:
            message = f"`{entry.name}` is {entry.node.tensor}, and an array of {array.dtype} is given"
            raise RlxTypeError(message, code="E0806")


def _check_guards(graph: Graph, sizes: Mapping[str, int]) -> None:
    for sourced in graph.guards:
        guard = sourced.guard
        if not guard.holds(sizes):
            left, right = evaluate_dim(guard.left, sizes), evaluate_dim(guard.right, sizes)
            raise RlxRuntimeError(
                f"{guard.what}: {guard} does not hold",
                code="E0801",
                span=sourced.origin.span,
                notes=(f"{guard.left} is {left}, {guard.right} is {right}",),
            )


def _widened(array: Any) -> Any:
    """Half precision as F32, in which it is computed."""
    half = isinstance(array, np.ndarray) and array.dtype.name in ("float16", "bfloat16")
    return array.astype(F32.numpy) if half else array


def _finished(value: Any, type_: TensorType, sizes: Mapping[str, int], name: str) -> Array:
    """A reference's result as an array of the node's type."""
    want = tuple(evaluate_dim(d, sizes) for d in type_.shape)
    if value is None:  # nothing was emitted in zero steps
        return np.zeros(want, type_.dtype.numpy)
    array = np.asarray(value)
    if array.shape != want:
        message = f"the reference of `{name}` gives shape {list(array.shape)}, its shape rule {list(want)}"
        raise InternalError(message, stage="interpreter")
    return array if array.dtype == type_.dtype.numpy else array.astype(type_.dtype.numpy)


def _apply(node: Node, operands: list[Any], sizes: Mapping[str, int], observe: Observe | None) -> Any:
    attrs = {k: concrete(v, sizes) for k, v in node.attrs.items()}
    if node.op.name == "item":
        return operands[0][attrs["index"]]
    if node.op.name == "scan":
        body = attrs["body"]
        result = node.op.reference(*operands, **attrs, run_body=lambda arrays: run_nodes(body, arrays, sizes, observe))
    elif node.op.name in ("while", "cond", "custom", "remat"):
        result = node.op.reference(*operands, **attrs, run_graph=lambda g, given: run_graph(g, given, sizes, observe))
    else:
        result = node.op.reference(*map(_widened, operands), **attrs)
    if isinstance(node.type, TupleType):
        return tuple(_finished(r, t, sizes, node.op.name) for r, t in zip(result, node.type.items, strict=True))
    return _finished(result, node.type, sizes, node.op.name)


def apply_op(node: Node, operands: Sequence[Array], type_: TensorType) -> Array:
    """What the op of a node without bodies makes of static operands, as an array of this type."""
    result = node.op.reference(*map(_widened, operands), **{k: concrete(v, {}) for k, v in node.attrs.items()})
    return _finished(result, type_, {}, node.op.name)


def run_graph(
    graph: Graph, values: Sequence[Array], sizes: Mapping[str, int], observe: Observe | None = None
) -> list[Array]:
    """The outputs of a body for values of its inputs by position."""
    return run_nodes(graph, {e.name: v for e, v in zip(graph.inputs, values, strict=True)}, sizes, observe)


def run_nodes(
    graph: Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int], observe: Observe | None = None
) -> list[Array]:
    """The outputs for checked arrays and known sizes; values are dropped after their last use."""
    last: dict[Node, int] = {}
    for position, node in enumerate(graph.nodes):
        for operand in node.inputs:
            last[operand] = position
    outputs = {o.node for o in graph.outputs}
    env: dict[Node, Any] = {e.node: np.asarray(arrays[e.name]) for e in graph.inputs}
    for position, node in enumerate(graph.nodes):
        if node not in env:
            operands = [env[i] for i in node.inputs]
            env[node] = _apply(node, operands, sizes, observe)
            if observe is not None:
                observe(node, operands, env[node], sizes)
        for operand in set(node.inputs):
            if last[operand] == position and operand not in outputs:
                del env[operand]
    return [env[o.node] for o in graph.outputs]


def evaluate(
    graph: Graph,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    observe: Observe | None = None,
) -> list[Array]:
    """The outputs of a graph for arrays of its inputs and params, by name.

    Args:
        graph: What to compute.
        arrays: One array of the declared dtype for every input and param.
        sizes: Sizes of the dynamic axes; read from the arrays when left out.
        observe: See `Observe`.

    Raises:
        RlxError: E0801 a guard fails, E0803 an array is missing, E0805, E0806, E0808 one does not fit.
    """
    known = {**read_sizes(graph, arrays), **(sizes or {})}
    _check_inputs(graph, arrays, known)
    _check_guards(graph, known)
    with np.errstate(all="ignore"):
        return run_nodes(graph, arrays, known, observe)
