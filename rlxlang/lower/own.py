"""Kernels of the ops that have one of their own: concat, pad, prefix reductions, scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rlxlang.ir import Node
from rlxlang.kernels import Const, Expr, Nest, Pass, Reduce, Running, Step, Store
from rlxlang.lower.coords import ZERO, Coord, Term, axis_coord, identity
from rlxlang.lower.folding import fold_steps
from rlxlang.lower.memory import Buffers
from rlxlang.lower.nests import vector_axis
from rlxlang.lower.roles import compute_dtype
from rlxlang.lower.values import Values, converted
from rlxlang.ops import lowering as how
from rlxlang.types import I64, DimLike, Shape

Place = Callable[[Node], int]


def copy_nest(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> Nest:
    """A map that writes a node's value, contiguous, to a buffer."""
    values = Values(buffers, place, node.shape)
    coords = identity(node.shape)
    store = Store(target, values.index(coords, node.shape), converted(values.read(node, coords), node.dtype))
    return _map(name, node.shape, (store,), node.op.name)


def own_steps(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> list[Step]:
    """The kernels that write the value of an op of its own kind to `target`."""
    record = node.op.lower
    if isinstance(record, how.Concat):
        return _concat(node, target, buffers, place, name)
    if isinstance(record, how.View):
        return _pad(node, target, buffers, place, name)
    if isinstance(record, how.Prefix):
        return [_prefix(node, target, buffers, place, name, record.op)]
    if isinstance(record, how.Fold):
        return fold_steps(node, target, buffers, place, name)
    if isinstance(record, how.ScatterAxis):
        return _scatter(node, target, buffers, place, name, record.mode)
    return [copy_nest(node, target, buffers, place, name)]


def _map(name: str, extents: Sequence[DimLike], stores: tuple[Store, ...], op: str) -> Nest:
    nest = Nest(name, tuple(extents), (), (Pass((), stores),), (), -1, (op,))
    return replace(nest, vector_axis=vector_axis(nest))


def _concat(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> list[Step]:
    axis = node.attrs["axis"]
    start: DimLike = 0
    steps: list[Step] = []
    for k, operand in enumerate(node.inputs):
        values = Values(buffers, place, operand.shape)
        coords = identity(operand.shape)
        where = tuple(c.scaled(1, start) if a == axis else c for a, c in enumerate(coords))
        value = converted(values.read(operand, coords), node.dtype)
        steps.append(
            _map(f"{name}_{k}", operand.shape, (Store(target, values.index(where, node.shape), value),), "concat")
        )
        start = start + operand.shape[axis]
    return steps


def _pad(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> list[Step]:
    operand = node.inputs[0]
    fill = Const(node.attrs["value"], compute_dtype(node.dtype))
    values = Values(buffers, place, node.shape)
    filled = Store(target, values.index(identity(node.shape), node.shape), converted(fill, node.dtype))
    steps: list[Step] = [_map(f"{name}_fill", node.shape, (filled,), "pad")]
    values = Values(buffers, place, operand.shape)
    coords = identity(operand.shape)
    where = tuple(c.scaled(1, low) for c, low in zip(coords, node.attrs["low"], strict=True))
    inside = Store(target, values.index(where, node.shape), converted(values.read(operand, coords), node.dtype))
    return [*steps, _map(name, operand.shape, (inside,), "pad")]


def _prefix(node: Node, target: int, buffers: Buffers, place: Place, name: str, op: str) -> Nest:
    *factors, operand = node.inputs
    axis = node.attrs["axis"]
    shape = operand.shape
    outer = [k for k in range(len(shape)) if k != axis]
    coords: list[Coord] = [ZERO] * len(shape)
    for position, k in enumerate(outer):
        coords[k] = axis_coord(position, shape[k])
    coords[axis] = axis_coord(len(outer), shape[axis])
    if node.attrs.get("reverse"):
        coords[axis] = coords[axis].scaled(-1, shape[axis] - 1) if shape[axis] != 1 else ZERO
    extents = [shape[k] for k in outer]
    values = Values(buffers, place, [*extents, shape[axis]])
    dtype = compute_dtype(node.dtype)
    value: Expr = converted(values.read(operand, tuple(coords)), dtype)
    factor = converted(values.read(factors[0], tuple(coords)), dtype) if factors else None
    reduce = Reduce("p", op, value, dtype, True, bool(node.attrs.get("exclusive")), factor)
    store = Store(target, values.index(tuple(coords), shape), converted(Running("p", dtype), node.dtype))
    nest = Nest(name, tuple(extents), (shape[axis],), (Pass((reduce,), (store,)),), (), -1, (node.op.name,))
    return replace(nest, vector_axis=_outer_axis(nest, values.index(tuple(coords), shape).strides))


def _outer_axis(nest: Nest, strides: Sequence[DimLike]) -> int:
    """The outer axis with stride 1, or -1: a prefix cannot run with vectors along its own axis."""
    return next((k for k in range(len(nest.outer)) if strides[k] == 1), -1)


def _scatter(node: Node, target: int, buffers: Buffers, place: Place, name: str, mode: str) -> list[Step]:
    data, indices, updates = node.inputs
    axis = node.attrs["axis"]
    steps: list[Step] = [copy_nest(data, target, buffers, place, f"{name}_data")]
    count = indices.tensor.rank
    shape: Shape = updates.shape
    inner = list(range(axis, axis + count))
    outer = [k for k in range(len(shape)) if k not in inner]
    coords: list[Coord] = [ZERO] * len(shape)
    for position, k in enumerate([*outer, *inner]):
        coords[k] = axis_coord(position, shape[k])
    extents = [shape[k] for k in outer]
    steps_inner = [shape[k] for k in inner] or [1]
    values = Values(buffers, place, [*extents, *steps_inner])
    index = converted(values.read(indices, tuple(coords[axis : axis + count])), I64)
    picked = Coord(0, (), (Term(index, node.shape[axis], 1),))
    where = (*coords[:axis], picked, *coords[axis + count :])
    value = converted(values.read(updates, tuple(coords)), node.dtype)
    store = Store(target, values.index(where, node.shape), value, mode)
    nest = Nest(name, tuple(extents), tuple(steps_inner), (Pass((), (store,)),), (), -1, (node.op.name,))
    return [*steps, replace(nest, vector_axis=_outer_axis(nest, store.index.strides))]
