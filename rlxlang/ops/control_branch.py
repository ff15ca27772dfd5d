"""`cond`: one of two graphs, chosen by a Bool scalar; only the chosen one runs.

Node inputs are the predicate, then the values that the two graphs close over. Both graphs take all of these values and give
results of the same types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Graph, GraphOutput, Node, Op, Sample, declare, register
from rlxlang.ops import emit
from rlxlang.ops.control import batched_transform, float_flags, forward_transform, inline, pull_transform
from rlxlang.ops.lowering import BranchOf
from rlxlang.types import BOOL, F64, DimLike, ShapeContext, TensorType, TupleType, TypeProblem


def cond(b: Builder, predicate: Node, then: Graph, orelse: Graph, closed: Sequence[Node]) -> list[Node]:
    """Emit a choice; returns the results."""
    node = b.emit("cond", predicate, *closed, then=then, orelse=orelse)
    return [b.emit("item", node, index=k) for k in range(len(then.outputs))]


def select_lanes(b: Builder, chosen: Node, x: Node, y: Node) -> Node:
    """`x` in the lanes (entries of axis 0) where the Bool vector `chosen` holds, else `y`."""
    shape = (chosen.shape[0], *(1 for _ in x.shape[1:]))
    return emit.select(b, emit.broadcast_to(b, emit.reshape(b, chosen, shape), x.shape), x, y)


# --------------------------------------------------------------------------------------------- shape rule, meaning


def _infer(context: ShapeContext, *types: TensorType, then: Graph, orelse: Graph) -> TupleType:
    predicate, *closed = types
    if predicate != TensorType(BOOL, ()):
        raise TypeProblem("E0301", f"the condition of `if` is one Bool scalar, and it is {predicate}")
    for graph in (then, orelse):
        if len(closed) != len(graph.inputs):
            raise TypeProblem("E0600", f"a branch has {len(graph.inputs)} inputs, {len(closed)} values are given")
        for given, entry in zip(closed, graph.inputs, strict=True):
            want = entry.node.tensor
            if given.dtype != want.dtype:
                raise TypeProblem("E0302", f"`{entry.name}` of `cond` is {want.dtype}, and {given.dtype} is given")
            context.same_shape(given.shape, want.shape, f"the shapes of `{entry.name}` inside and outside of `cond`")
    if len(then.outputs) != len(orelse.outputs):
        counts = f"{len(then.outputs)} and {len(orelse.outputs)}"
        raise TypeProblem("E0604", f"the branches give {counts} results")
    results = []
    for left, right in zip(then.outputs, orelse.outputs, strict=True):
        mine, theirs = left.node.tensor, right.node.tensor
        if mine.dtype != theirs.dtype:
            raise TypeProblem("E0604", f"`{left.name}` is {mine} in one branch and {theirs} in the other")
        context.same_shape(mine.shape, theirs.shape, f"the shapes of `{left.name}` in the branches", "E0604")
        results.append(mine)
    return TupleType(tuple(results))


def _reference(
    predicate: np.ndarray[Any, Any],
    *closed: np.ndarray[Any, Any],
    then: Graph,
    orelse: Graph,
    run_graph: Callable[[Graph, Sequence[Any]], list[Any]],
) -> tuple[Any, ...]:
    return tuple(run_graph(then if bool(predicate) else orelse, closed))


# --------------------------------------------------------------------------------------------- derivatives


def _jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    then, orelse = node.attrs["then"], node.attrs["orelse"]
    active = [t is not None for t in tangents[1:]]
    floats = float_flags(then.outputs)
    count = len(then.outputs)
    forward = []
    for graph in (then, orelse):
        full = forward_transform(graph, active)
        kept = tuple(o for o, on in zip(full.outputs[count:], floats, strict=True) if on)
        forward.append(Graph(full.name, full.inputs, kept, full.guards))
    found = iter(
        cond(b, primals[0], forward[0], forward[1], [*primals[1:], *(t for t in tangents[1:] if t is not None)])
    )
    return tuple(next(found) if on else None for on in floats)


def _vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    then, orelse = node.attrs["then"], node.attrs["orelse"]
    active = float_flags(then.inputs)
    if not any(active):
        return tuple(None for _ in primals)
    assert isinstance(node.type, TupleType)
    seeds = [
        b.full(0, t.dtype, t.shape) if ct is None else ct
        for ct, t in zip(cotangents, node.type.items, strict=True)
        if t.dtype.is_differentiable
    ]
    pulled = [pull_transform(graph, active) for graph in (then, orelse)]
    found = iter(cond(b, primals[0], pulled[0], pulled[1], [*primals[1:], *seeds]))
    return (None, *(next(found) if on else None for on in active))


# --------------------------------------------------------------------------------------------- batching


def _batch(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> tuple[Node, tuple[int | None, ...]] | tuple[tuple[Node, ...], tuple[int | None, ...]]:
    batched = [a is not None for a in axes[1:]]
    moved = [x if a is None else emit.move_axis(b, x, a, 0) for x, a in zip(args, axes, strict=True)]
    then, then_flags = batched_transform(node.attrs["then"], batched, size)
    orelse, else_flags = batched_transform(node.attrs["orelse"], batched, size)
    chosen = axes[0] is not None
    wanted = [chosen or p or q for p, q in zip(then_flags, else_flags, strict=True)]
    left, right = _repeated(then, then_flags, wanted, size), _repeated(orelse, else_flags, wanted, size)
    where = tuple(0 if on else None for on in wanted)
    if not chosen:
        return b.emit("cond", *moved, then=left, orelse=right), where
    # Every lane has its own answer: both branches run in all lanes.
    pairs = zip(inline(b, left, moved[1:]), inline(b, right, moved[1:]), strict=True)
    results = [select_lanes(b, moved[0], x, y) for x, y in pairs]
    return tuple(results), where


def _repeated(graph: Graph, flags: Sequence[bool], wanted: Sequence[bool], size: DimLike) -> Graph:
    """The graph with those results repeated over the batch that it does not batch by itself."""
    b = Builder()
    inputs = [b.input(i.name, i.node.dtype, i.node.shape) for i in graph.inputs]
    results = [
        emit.insert_axis(b, r, 0, size) if want and not flag else r
        for r, flag, want in zip(inline(b, graph, inputs), flags, wanted, strict=True)
    ]
    return b.finish(graph.name, map(declare, inputs), [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])


# --------------------------------------------------------------------------------------------- samples


def _samples(rng: np.random.Generator) -> list[Sample]:
    """x, w ↦ tanh(x·w), x or x - w, w."""
    b = Builder()
    x, w = b.input("x", F64, (3,)), b.input("w", F64, (3,))
    outputs = [GraphOutput("a", b.emit("tanh", emit.mul(b, x, w))), GraphOutput("c", x)]
    then = b.finish("then", map(declare, (x, w)), outputs)
    b = Builder()
    x, w = b.input("x", F64, (3,)), b.input("w", F64, (3,))
    orelse = b.finish("else", map(declare, (x, w)), [GraphOutput("a", emit.sub(b, x, w)), GraphOutput("c", w)])
    return [
        Sample((np.array(choice), rng.normal(size=3), rng.normal(size=3)), {"then": then, "orelse": orelse})
        for choice in (True, False)
    ]


COND = register(
    Op(
        "cond",
        "One of two graphs, chosen by a Bool scalar; only the chosen one runs.",
        _infer,
        _reference,
        _jvp,
        _vjp,
        _batch,
        BranchOf(),
        _samples,
    )
)
