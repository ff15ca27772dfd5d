"""Whole Jacobians: a derivative graph applied to every unit vector at once by batching it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node
from rlxlang.transforms.batching import batch_nodes, move_axis
from rlxlang.transforms.forward import linearize
from rlxlang.transforms.replay import expand, replay_inputs, unique_name
from rlxlang.transforms.reverse import grad, vjp
from rlxlang.types import DimLike, TensorType


def _unit_vectors(b: Builder, type_: TensorType, start: DimLike, stop: DimLike) -> Node:
    """Unit vectors `start … stop-1` of a tensor's space, stacked along a new first axis."""
    from rlxlang.types import I32, I64

    size = type_.size
    count = stop - start
    index = I64 if not isinstance(size, int) or size > 2**31 - 1 else I32
    row = b.emit("iota", shape=(count, size), axis=0, dtype=index)
    if start != 0:
        row = b.emit("add", row, b.full_like(row, start))  # type: ignore[arg-type]
    column = b.emit("iota", shape=(count, size), axis=1, dtype=index)
    flat = b.emit("cast", b.emit("eq", row, column), dtype=type_.dtype)
    return b.emit("reshape", flat, shape=(count, *type_.shape))


def _chunks(size: DimLike, chunk: int | None) -> list[tuple[DimLike, DimLike]]:
    if chunk is None:
        return [(0, size)]
    if chunk < 1:
        raise RlxTransformError(f"`chunk` is {chunk}, it must be 1 or more")
    if not isinstance(size, int):
        raise RlxTransformError("`chunk` needs static shapes", notes=(f"the number of elements is {size}",))
    return [(k, min(k + chunk, size)) for k in range(0, size, chunk)] or [(0, 0)]


def _over_unit_vectors(
    b: Builder, graph: Graph, shared: dict[str, Node], swept: str, zero: Sequence[str], chunk: int | None
) -> list[Node]:
    """The outputs of a graph for every unit vector of its input `swept`, the batch axis first.

    Args:
        b: The builder of the result.
        graph: The graph.
        shared: New nodes of its other inputs by name.
        swept: Name of the input that takes the unit vectors.
        zero: Names of inputs that are zero.
        chunk: How many unit vectors at a time; all when left out.
    """
    entry = graph.input(swept)
    assert entry is not None
    expanded, _ = expand(graph, "batch", [entry.node])
    entry = expanded.input(swept)
    assert entry is not None
    parts: list[list[Node]] = []
    for start, stop in _chunks(entry.node.tensor.size, chunk):
        env: dict[Node, tuple[Node, Any]] = {}
        for other in expanded.inputs:
            if other.name == swept:
                env[other.node] = (_unit_vectors(b, other.node.tensor, start, stop), 0)
            elif other.name in zero:
                env[other.node] = (b.zeros_like(other.node), None)
            else:
                env[other.node] = (shared[other.name], None)
        batch_nodes(b, expanded, env, stop - start)
        parts.append([_in_front(b, *env[o.node], stop - start) for o in expanded.outputs])
    return [p[0] if len(p) == 1 else b.emit("concat", *p, axis=0) for p in map(list, zip(*parts, strict=True))]


def _in_front(b: Builder, node: Node, axis: int | None, size: DimLike) -> Node:
    if axis is None:
        return b.emit("broadcast_to", node, shape=(size, *node.shape))
    return move_axis(b, node, axis, 0)


def _differentiable_outputs(graph: Graph) -> list[GraphOutput]:
    return [o for o in graph.outputs if o.role != "tap" and o.node.dtype.is_differentiable]


def jacfwd(graph: Graph, names: Sequence[str], chunk: int | None = None) -> Graph:
    """Jacobians `jac_<output>_<name>` of shape output + input, by forward mode: one pass over the unit vectors of each input.

    Args:
        graph: The function; its taps and integer outputs have no Jacobian.
        names: Inputs or params.
        chunk: How many unit vectors at a time; all when left out.

    Raises:
        RlxTransformError: As `jvp`; a chunk that is not positive, or over dynamic shapes.
    """
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    found: dict[tuple[str, str], Node] = {}
    wanted = _differentiable_outputs(graph)
    for name in names:
        linear = linearize(graph, [name])
        tangent = linear.inputs[-1].name
        shared = {e.name: env[e.node] for e in graph.inputs}
        columns = _over_unit_vectors(b, linear, shared, tangent, (), chunk)
        shape = _input(graph, name).node.shape
        for output, column in zip(graph.outputs, columns, strict=True):
            rank = len(output.node.shape)
            last = b.emit("transpose", column, perm=(*range(1, rank + 1), 0)) if rank else column
            found[output.name, name] = b.emit("reshape", last, shape=(*output.node.shape, *shape))
    return _collect(b, graph, inputs, [(f"jac_{o.name}_{n}", found[o.name, n]) for o in wanted for n in names])


def jacrev(graph: Graph, names: Sequence[str], chunk: int | None = None) -> Graph:
    """Jacobians as `jacfwd`, by reverse mode: one pass over the unit vectors of each output."""
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    pulled = vjp(graph, names)
    wanted = _differentiable_outputs(graph)
    seeds = [e.name for e in pulled.inputs[len(graph.inputs) :]]
    gradients = Graph(pulled.name, pulled.inputs, pulled.outputs[len(graph.outputs) :], pulled.guards)
    shared = {e.name: env[e.node] for e in graph.inputs}
    results = []
    for output, seed in zip(wanted, seeds, strict=True):
        others = [s for s in seeds if s != seed]
        rows = _over_unit_vectors(b, gradients, shared, seed, others, chunk)
        for name, row in zip(names, rows, strict=True):
            shape = (*output.node.shape, *_input(graph, name).node.shape)
            results.append((f"jac_{output.name}_{name}", b.emit("reshape", row, shape=shape)))
    return _collect(b, graph, inputs, results)


def hessian(graph: Graph, names: Sequence[str]) -> Graph:
    """Second derivatives `hess_<a>_<b>` of the loss, forward over reverse, of shape a + b."""
    gradient = grad(graph, names)
    full = jacfwd(gradient, names)
    titles = [f"hess_{a}_{b}" for a in names for b in names]
    outputs: list[GraphOutput] = []
    for title, output in zip(titles, full.outputs, strict=True):
        outputs.append(GraphOutput(unique_name(title, [o.name for o in outputs]), output.node))
    return Graph(graph.name, full.inputs, tuple(outputs), full.guards)


def _input(graph: Graph, name: str) -> GraphInput:
    entry = graph.input(name)
    assert entry is not None  # the transform before has checked it
    return entry


def _collect(b: Builder, graph: Graph, inputs: list[GraphInput], results: list[tuple[str, Node]]) -> Graph:
    outputs: list[GraphOutput] = []
    for title, node in results:
        outputs.append(GraphOutput(unique_name(title, [o.name for o in outputs]), node))
    return b.finish(graph.name, inputs, outputs)
