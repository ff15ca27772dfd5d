"""Kernels that add up overlapping windows.

The positions of an axis with stride s fall into s phases. Within one phase the windows that cover a position, and the places
of their entries, are affine in it, so each phase is a map that gathers its terms: no write meets another, and the order of
the sum is the same on every device and at any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product as combinations
from math import prod

from rlxlang.ir import Node
from rlxlang.kernels import Apply, Const, Expr, Nest, Pass, Step, Store
from rlxlang.lower.coords import ZERO, Coord, axis_coord, coord_value, identity, size_expr
from rlxlang.lower.memory import Buffers
from rlxlang.lower.nests import vector_axis
from rlxlang.lower.roles import compute_dtype
from rlxlang.lower.values import Values, converted
from rlxlang.types import BOOL, I64, DimLike, ceil_div

Place = Callable[[Node], int]
LARGEST_UNROLLED = 64  # phases, or terms of one phase, that become code of their own


def fold_steps(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> list[Step]:
    """The kernels that write the value of a `fold` node to `target`."""
    sizes, strides = node.attrs["sizes"], node.attrs["strides"]
    terms = prod(-(-k // s) for k, s in zip(sizes, strides, strict=True))
    if prod(strides) > LARGEST_UNROLLED or terms > LARGEST_UNROLLED:
        return _scattered(node, target, buffers, place, name)
    phases = list(combinations(*(range(s) for s in strides)))
    return [_phase(node, target, buffers, place, f"{name}_{k}", phase) for k, phase in enumerate(phases)]


def _finished(nest: Nest) -> Nest:
    return replace(nest, vector_axis=vector_axis(nest))


def _phase(node: Node, target: int, buffers: Buffers, place: Place, name: str, phase: Sequence[int]) -> Nest:
    """The map over the positions whose remainder by the stride is `phase`, on every folded axis."""
    attrs, shape = node.attrs, node.shape
    operand = node.inputs[0]
    extents: list[DimLike] = list(shape)
    for axis, stride, rest in zip(attrs["axes"], attrs["strides"], phase, strict=True):
        extents[axis] = ceil_div(shape[axis] - rest, stride)
    coords = identity(extents)
    where = list(coords)
    for axis, stride, rest in zip(attrs["axes"], attrs["strides"], phase, strict=True):
        where[axis] = coords[axis].scaled(stride, rest)
    dtype = compute_dtype(node.dtype)
    total: Expr | None = None
    for tap in combinations(*(range(k) for k in attrs["sizes"])):
        source = list(coords)
        limits: list[tuple[Coord, DimLike]] = []
        steps = zip(attrs["axes"], attrs["strides"], attrs["dilations"], phase, tap, strict=True)
        for axis, stride, dilation, rest, entry in steps:
            behind = rest - entry * dilation
            if behind % stride:
                break
            source[axis] = coords[axis].scaled(1, behind // stride)
            limits.append((source[axis], operand.shape[axis]))
        else:
            inside = _inside(limits)
            values = Values(buffers, place, extents, guard=inside)
            value = values.read(operand, (*source, *(Coord(e) for e in tap)))
            if inside is not None:
                value = Apply("where", (inside, value, Const(0, dtype)), dtype)
            total = value if total is None else Apply("add", (total, value), dtype)
    result = Const(0, dtype) if total is None else total
    index = Values(buffers, place, extents).index(where, shape)
    store = Store(target, index, converted(result, node.dtype))
    return _finished(Nest(name, tuple(extents), (), (Pass((), (store,)),), (), -1, ("fold",)))


def _inside(limits: Sequence[tuple[Coord, DimLike]]) -> Expr | None:
    """Whether every coordinate lies in its axis; None when the domain itself ensures it."""
    total: Expr | None = None
    for coord, size in limits:
        if coord == ZERO and size == 1:
            continue
        position = coord_value(coord)
        for test in (
            Apply("ge", (position, Const(0, I64)), BOOL),
            Apply("lt", (position, size_expr(size)), BOOL),
        ):
            total = test if total is None else Apply("and", (total, test), BOOL)
    return total


def _scattered(node: Node, target: int, buffers: Buffers, place: Place, name: str) -> list[Step]:
    """Zeros, then every entry added where it belongs: for windows of very many entries."""
    attrs, shape = node.attrs, node.shape
    operand = node.inputs[0]
    rank = len(shape)
    values = Values(buffers, place, shape)
    zero = converted(Const(0, compute_dtype(node.dtype)), node.dtype)
    cleared = Store(target, values.index(identity(shape), shape), zero)
    clear = _finished(Nest(f"{name}_zeros", shape, (), (Pass((), (cleared,)),), (), -1, ("fold",)))
    outer = [k for k in range(rank) if k not in attrs["axes"]]
    order = [*outer, *range(rank, operand.tensor.rank), *attrs["axes"]]
    coords = [ZERO] * operand.tensor.rank
    for position, axis in enumerate(order):
        coords[axis] = axis_coord(position, operand.shape[axis])
    extents = [operand.shape[k] for k in order]
    values = Values(buffers, place, extents)
    where = list(coords[:rank])
    steps = zip(attrs["axes"], coords[rank:], attrs["strides"], attrs["dilations"], strict=True)
    for axis, entry, stride, dilation in steps:
        where[axis] = coords[axis].scaled(stride).plus(entry.scaled(dilation))
    value = converted(values.read(operand, tuple(coords)), node.dtype)
    store = Store(target, values.index(where, shape), value, "add")
    split = len(outer)
    added = Nest(name, tuple(extents[:split]), tuple(extents[split:]), (Pass((), (store,)),), (), -1, ("fold",))
    along = next((k for k in range(split) if store.index.strides[k] == 1), -1)
    return [clear, replace(added, vector_axis=along)]
