"""What users call to take parts of tensors: ranges, single positions, splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import Builder, Node, Parameter, RangeValue, Surface
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, static_count, static_dim, static_int, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, describe
from rlxlang.ops.rules import require_guards
from rlxlang.types import Dim, DimLike, ShapeContext, TypeProblem, floor_div, shape_text
from rlxlang.types.dim import minimum

_X = tensor("x")
_AXIS = Parameter("axis", "axis")


def _bound(value: Any, dim: DimLike, default: DimLike, op: str) -> DimLike:
    """A slice bound, counted from the start; past a static axis it is clamped."""
    if value is None:
        return default
    if not isinstance(value, Dim):
        static_int(op, value, "bound")
        if value < 0:
            value = value + dim
            if isinstance(value, int):
                value = max(value, 0)
    return minimum(value, dim) if isinstance(value, int) and isinstance(dim, int) else value


def slice_range(b: Builder, x: Node, axis: int, bounds: RangeValue, op: str = "slice") -> Node:
    """The entries of one axis that a range names; a negative step runs backwards."""
    step = static_int(op, bounds.step, "step")
    dim = x.shape[axis]
    if step == 0:
        raise TypeProblem("E0350", f"the step of `{op}` is 0")
    if step < 0:
        return _backwards(b, x, axis, bounds, -step, op)
    start = _bound(bounds.start, dim, 0, op)
    stop = _stop(bounds, dim, op)
    if isinstance(start, int) and isinstance(stop, int):
        stop = max(start, stop)
    return emit.slice_axis(b, x, axis, start, stop, step)


def _stop(bounds: RangeValue, dim: DimLike, op: str) -> DimLike:
    if not bounds.inclusive or bounds.stop is None:
        return _bound(bounds.stop, dim, dim, op)
    after = bounds.stop + 1
    return dim if after == 0 else _bound(after, dim, dim, op)


def _backwards(b: Builder, x: Node, axis: int, bounds: RangeValue, step: int, op: str) -> Node:
    """`start` down to `stop` as a forward slice of the flipped axis."""
    dim = x.shape[axis]
    flipped = b.emit("flip", x, axes=(axis,))
    start = _bound(bounds.start, dim, dim - 1, op)
    first = dim - 1 - start
    if bounds.stop is None:
        last: DimLike = dim
    else:
        last = dim - 1 - _bound(bounds.stop, dim, 0, op) + (1 if bounds.inclusive else 0)
    if isinstance(first, int) and isinstance(last, int):
        first = max(first, 0)
        last = max(first, last)
    return emit.slice_axis(b, flipped, axis, first, last, step)


def _narrow(b: Builder, x: Value, axis: Any, start: Any, len: Any) -> Node:
    node = as_node(b, x)
    rank = node.tensor.rank
    k = canonical_axis("narrow", axis, rank)
    first = start if isinstance(start, Dim) else static_int("narrow", start, "start")
    if isinstance(first, int) and first < 0:
        first = node.shape[k] + first
    count = static_dim("narrow", len, "len")
    return emit.slice_axis(b, node, k, first, first + count)


def _slice(b: Builder, x: Value, ranges: Any) -> Node:
    """One range per axis, or three lists worth of bounds given as ranges."""
    node = as_node(b, x)
    given = ranges if isinstance(ranges, tuple) else (ranges,)
    if len(given) > len(node.shape):
        raise TypeProblem("E0404", f"`slice` of a tensor of rank {len(node.shape)} with {len(given)} ranges")
    for axis, bounds in enumerate(given):
        if not isinstance(bounds, RangeValue):
            raise TypeProblem("E0306", f"`slice` takes ranges such as 1..5, and {describe(bounds)} is given")
        node = slice_range(b, node, axis, bounds)
    return node


def pick(b: Builder, x: Node, axis: int, index: Any, op: str = "select") -> Node:
    """The entries at one static or dynamic position of an axis, which vanishes."""
    dim = x.shape[axis]
    place = index
    if not isinstance(place, Dim):
        place = static_int(op, index, "index")
        if isinstance(dim, int) and not -dim <= place < dim:
            raise TypeProblem("E0406", f"index {place} is out of range for axis {axis} of {shape_text(x.shape)}")
        if place < 0:
            place = dim + place
    part = emit.slice_axis(b, x, axis, place, place + 1)
    return emit.reshape(b, part, emit.without_axes(x.shape, (axis,)))


def _select_index(b: Builder, x: Value, axis: Any, index: Any) -> Node:
    node = as_node(b, x)
    return pick(b, node, canonical_axis("select", axis, len(node.shape)), index)


def _split(b: Builder, x: Value, axis: Any, sizes: Any) -> tuple[Node, ...]:
    node = as_node(b, x)
    k = canonical_axis("split", axis, len(node.shape))
    found = []
    start: DimLike = 0
    for size in _sizes(b, node.shape[k], sizes):
        found.append(emit.slice_axis(b, node, k, start, start + size))
        start = start + size
    return tuple(found)


def _sizes(b: Builder, dim: DimLike, parts: Any) -> Sequence[DimLike]:
    context = ShapeContext()
    if isinstance(parts, tuple):
        given = [static_dim("split", p, "sizes") for p in parts]
        context.same(sum(given), dim, "the sum of the sizes of `split` and the axis", "E0405")
        require_guards(b, context)
        return given
    count = static_count("split", parts, "sizes")
    if count < 1:
        raise TypeProblem("E0350", f"`split` into {count} parts")
    if isinstance(dim, int):
        longer = dim % count
        return [dim // count + (1 if p < longer else 0) for p in range(count)]
    context.divides(count, dim, f"the axis that `split` cuts into {count} parts")
    require_guards(b, context)
    return [floor_div(dim, count)] * count


def _chunk(b: Builder, x: Value, chunks: Any, axis: Any = 0) -> tuple[Node, ...]:
    return _split(b, x, axis, static_count("chunk", chunks, "chunks"))


surface(
    "narrow",
    (_X, _AXIS, Parameter("start", "dim"), Parameter("len", "dim")),
    _narrow,
    "`len` entries of an axis from `start`.",
)
surface(
    "slice",
    (_X, Parameter("ranges", "any")),
    _slice,
    "Entries within a range for each of the first axes.",
    variadic=True,
)
surface(
    "split",
    (_X, _AXIS, Parameter("sizes", "any")),
    _split,
    "Parts along an axis: of given sizes, or that many near-equal ones.",
)
surface(
    "chunk",
    (_X, Parameter("chunks", "int"), Parameter("axis", "axis", 0)),
    _chunk,
    "That many near-equal parts along an axis.",
)

# Methods of tensors that differ from the function of the same name.
METHODS: dict[str, Surface] = {
    "select": Surface(
        "select",
        (_X, _AXIS, Parameter("index", "dim")),
        _select_index,
        "The entries at one position of an axis, which vanishes.",
    )
}
