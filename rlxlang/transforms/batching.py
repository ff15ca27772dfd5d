"""vmap: the graph that does what the given one does, for a whole batch at once, by one rule per op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops.random import lane_keys
from rlxlang.transforms.errors import wanted_inputs
from rlxlang.transforms.replay import expand, unique_name
from rlxlang.types import Dim, DimLike, TupleType


def move_axis(b: Builder, node: Node, source: int, target: int) -> Node:
    """The tensor with its axis `source` moved to `target`."""
    if source == target:
        return node
    perm = [k for k in range(node.tensor.rank) if k != source]
    perm.insert(target, source)
    return b.emit("transpose", node, perm=tuple(perm))


def batch_nodes(
    b: Builder, graph: Graph, env: dict[Node, tuple[Node, Any]], size: DimLike
) -> dict[Node, tuple[Node, Any]]:
    """Emit every node of `graph` for batched operands.

    Args:
        b: The builder of the result.
        graph: A graph without ops whose `batch` rule is through their decomposition.
        env: For each input its new node and the position of its batch axis (None: not batched); filled in place and returned. Nodes with
            several results have a tuple of positions.
        size: Size of the batch.
    """
    for guard in graph.guards:
        b.require(guard)
    for node in graph.nodes:
        if node in env:
            continue
        operands = [env[i] for i in node.inputs]
        with b.at(node.origin.through("vmap")):
            if node.op.name == "item":
                source: Any
                source, axes = operands[0]  # some rules give a tuple of results instead of a node with several
                k = node.attrs["index"]
                part = source[k] if isinstance(source, tuple) else b.emit("item", source, index=k)
                env[node] = (part, None if axes is None else axes[k])
            elif all(axis is None for _, axis in operands):
                env[node] = (b.emit(node.op, *[n for n, _ in operands], **node.attrs), None)
            else:
                result, axis = node.op.batch(b, node, [n for n, _ in operands], [a for _, a in operands], size)  # type: ignore[operator]
                if isinstance(node.type, TupleType) and isinstance(axis, int):
                    axis = (axis,) * len(node.type.items)
                env[node] = (result, axis)
    return env


def vmap(
    graph: Graph,
    batched: Mapping[str, int],
    size: int | None = None,
    out_axes: Mapping[str, int] | int = 0,
) -> Graph:
    """The graph applied to every entry of a new batch axis of some inputs and params.

    Args:
        graph: The function of one entry.
        batched: For each batched input or param the position of its batch axis (negative: from the end); all others are shared.
        size: Size of the batch; a new dynamic axis `?vmap` when left out, so that one compilation serves every size.
        out_axes: Position of the batch axis in the outputs, for all or by name. Outputs that depend on no batched input are broadcast.

    Raises:
        RlxTransformError: Unknown names, no names at all, positions out of range, a negative size.
    """
    names = list(batched)
    entries = wanted_inputs(graph, names, "vmap")
    if not names:
        raise RlxTransformError("`vmap` needs at least one batched input", code="E0500")
    if size is not None and size < 0:
        raise RlxTransformError(f"`vmap`: the batch size is {size}", code="E0500")
    if any(e.kind == "seed" for e in entries):
        raise RlxTransformError(
            "`vmap`: the lanes of a batch share one seed and have numbers of their own by themselves", code="E0500"
        )
    graph, _ = expand(graph, "batch", [e.node for e in graph.inputs if e.name in batched or e.kind == "seed"])
    extent: DimLike = size if size is not None else Dim.axis(unique_name("?vmap", graph.axes()))
    b = Builder()
    env: dict[Node, tuple[Node, Any]] = {}
    inputs = []
    for entry in graph.inputs:
        shape, axis = list(entry.node.shape), None
        if entry.name in batched:
            axis = _position(batched[entry.name], len(shape) + 1, f"in_axes of `{entry.name}`")
            shape.insert(axis, extent)
        node = b.input(entry.name, entry.node.dtype, tuple(shape), entry.kind)
        if entry.kind == "seed":
            env[entry.node] = (lane_keys(b, node, extent), 0)
        else:
            env[entry.node] = (node, axis)
        inputs.append(declare(node, entry.init, entry.doc))
    batch_nodes(b, graph, env, extent)
    outputs = []
    for output in graph.outputs:
        node, axis = env[output.node]
        where = out_axes if isinstance(out_axes, int) else out_axes.get(output.name, 0)
        target = _position(where, output.node.tensor.rank + 1, f"out_axes of `{output.name}`")
        if axis is None:
            node, axis = b.emit("broadcast_to", node, shape=(extent, *node.shape)), 0
        outputs.append(GraphOutput(output.name, move_axis(b, node, axis, target), output.role))
    return b.finish(graph.name, inputs, outputs)


def _position(axis: int, rank: int, what: str) -> int:
    if not -rank <= axis < rank:
        raise RlxTransformError(f"`vmap`: {what} is {axis}, the result has {rank} axes", code="E0500")
    return axis % rank


def body_vmap(body: Graph, batched: list[bool], size: DimLike) -> tuple[Graph, list[bool]]:
    """The body of a scan over a batch: batched inputs and outputs have the batch axis in front.

    Returns:
        The new body and, for each output, whether it is batched.
    """
    roots = [i.node for i, on in zip(body.inputs, batched, strict=True) if on]
    body, _ = expand(body, "batch", roots)
    b = Builder()
    env: dict[Node, tuple[Node, Any]] = {}
    inputs = []
    for entry, on in zip(body.inputs, batched, strict=True):
        shape = (size, *entry.node.shape) if on else entry.node.shape
        node = b.input(entry.name, entry.node.dtype, shape, entry.kind)
        env[entry.node] = (node, 0 if on else None)
        inputs.append(declare(node))
    batch_nodes(b, body, env, size)
    outputs, flags = [], []
    for output in body.outputs:
        node, axis = env[output.node]
        flags.append(axis is not None)
        outputs.append(GraphOutput(output.name, node if axis is None else move_axis(b, node, axis, 0)))
    return b.finish(body.name, inputs, outputs), flags
