"""What users call to rearrange tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import Builder, Node, Parameter, RangeValue, Surface
from rlxlang.ops import emit
from rlxlang.ops.arguments import (
    canonical_axes,
    canonical_axis,
    int_list,
    static_dim,
    static_int,
    static_number,
    surface,
    tensor,
)
from rlxlang.ops.broadcasting import Value, as_node, broadcast, describe, promoted
from rlxlang.ops.rules import require_guards
from rlxlang.types import Dim, DimLike, ShapeContext, TypeProblem, floor_div, product, shape_text
from rlxlang.types.dim import exact_quotient, minimum

_X = tensor("x")
_AXIS = Parameter("axis", "axis")


def dims_argument(op: str, dims: Any) -> tuple[Any, ...]:
    """A list of sizes; one size is a list of one."""
    given = dims if isinstance(dims, tuple) else (dims,)
    for d in given:
        if not isinstance(d, Dim):
            static_int(op, d, "dims")
    return given


def reshape(b: Builder, x: Value, dims: Any) -> Node:
    """The elements under other dims, one of which may be -1 for what is left."""
    node = as_node(b, x)
    given = dims_argument("reshape", dims)
    open_places = [k for k, d in enumerate(given) if isinstance(d, int) and d < 0]
    if len(open_places) > 1 or any(given[k] != -1 for k in open_places):
        raise TypeProblem("E0350", f"`reshape` to {shape_text(given)}: sizes are not negative, and one may be -1")
    if open_places:
        rest = product(d for k, d in enumerate(given) if k not in open_places)
        missing = _left_over(b, node, rest, given)
        given = tuple(missing if k in open_places else d for k, d in enumerate(given))
    return emit.reshape(b, node, given)


def _left_over(b: Builder, node: Node, rest: DimLike, given: tuple[Any, ...]) -> DimLike:
    total = node.tensor.size
    exact = exact_quotient(total, rest)
    if exact is not None:
        return exact
    text = f"`reshape` of {shape_text(node.shape)} to {shape_text(given)}"
    if rest == 0:
        raise TypeProblem("E0405", f"{text}: -1 stands for no definite size beside a size of 0")
    if isinstance(total, int) and isinstance(rest, int):
        raise TypeProblem("E0405", f"{text}: {total} elements are not a multiple of {rest}")
    context = ShapeContext()
    context.divides(rest, total, f"the number of elements of {text}")
    require_guards(b, context)
    return floor_div(total, rest)


def _transpose(b: Builder, x: Value, perm: Any = None) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    if perm is None:
        return emit.transpose(b, node, tuple(reversed(range(rank))))
    order = [canonical_axis("transpose", k, rank, "perm") for k in int_list("transpose", perm, "perm")]
    if sorted(order) != list(range(rank)):
        raise TypeProblem("E0403", f"`transpose` of a tensor of rank {rank}: {order} does not list every axis once")
    return emit.transpose(b, node, order)


def _t(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    if len(node.shape) < 2:
        raise TypeProblem("E0404", f"`t` takes a matrix or a batch of them, and {node.type} is given")
    return emit.move_axis(b, node, len(node.shape) - 1, len(node.shape) - 2)


def _flatten(b: Builder, x: Value, start: Any = 0, stop: Any = -1) -> Node:
    node = as_node(b, x)
    if not node.shape:
        return emit.reshape(b, node, (1,))
    rank = len(node.shape)
    first, last = canonical_axis("flatten", start, rank, "start"), canonical_axis("flatten", stop, rank, "stop")
    if first > last:
        raise TypeProblem("E0350", f"`flatten`: the first axis {first} comes after the last {last}")
    merged = product(node.shape[first : last + 1])
    return emit.reshape(b, node, (*node.shape[:first], merged, *node.shape[last + 1 :]))


def _unsqueeze(b: Builder, x: Value, axis: Any) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    places = canonical_axes("unsqueeze", axis, rank + (len(axis) if isinstance(axis, tuple) else 1), "axis")
    shape: list[DimLike] = list(node.shape)
    for k in places:
        shape.insert(k, 1)
    return emit.reshape(b, node, tuple(shape))


def _squeeze(b: Builder, x: Value, axis: Any = None) -> Node:
    node = as_node(b, x)
    if axis is None:
        return _squeeze_all(b, node)
    places = canonical_axes("squeeze", axis, len(node.shape), "axis")
    for k in places:
        if node.shape[k] != 1:
            raise TypeProblem(
                "E0405", f"`squeeze`: axis {k} of {shape_text(node.shape)} has size {node.shape[k]}, not 1"
            )
    return emit.reshape(b, node, emit.without_axes(node.shape, places))


def _squeeze_all(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    return emit.reshape(b, node, tuple(d for d in node.shape if d != 1))


def _broadcast_to(b: Builder, x: Value, dims: Any) -> Node:
    node = as_node(b, x)
    given = dims_argument("broadcast_to", dims)
    extra = len(given) - len(node.shape)
    shape = tuple(
        node.shape[k - extra] if d == -1 and k >= extra else static_dim("broadcast_to", d, "dims")
        for k, d in enumerate(given)
    )
    return emit.broadcast_to(b, node, shape)


# ----------------------------------------------------------------------------------------- parts of tensors


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
    count = static_int("split", parts, "sizes")
    if count < 1:
        raise TypeProblem("E0350", f"`split` into {count} parts")
    if isinstance(dim, int):
        longer = dim % count
        return [dim // count + (1 if p < longer else 0) for p in range(count)]
    context.divides(count, dim, f"the axis that `split` cuts into {count} parts")
    require_guards(b, context)
    return [floor_div(dim, count)] * count


def _chunk(b: Builder, x: Value, chunks: Any, axis: Any = 0) -> tuple[Node, ...]:
    return _split(b, x, axis, static_int("chunk", chunks, "chunks"))


# ----------------------------------------------------------------------------------------- joining, repeating


def _concat(b: Builder, xs: Any, axis: Any = 0) -> Node:
    nodes = _parts(b, "concat", xs)
    rank = len(nodes[0].shape)
    if rank == 0:
        raise TypeProblem("E0404", "`concat` of scalars", (), "`stack([a, b])` makes a vector of scalars")
    return emit.concat(b, nodes, canonical_axis("concat", axis, rank))


def _parts(b: Builder, op: str, xs: Any) -> list[Node]:
    given = xs if isinstance(xs, tuple) else (xs,)
    if not given:
        raise TypeProblem("E0223", f"`{op}` needs at least one tensor")
    return promoted(b, op, given)


def stack(b: Builder, xs: Any, axis: Any = 0) -> Node:
    """Tensors of one shape along a new axis."""
    nodes = _parts(b, "stack", xs)
    rank = len(nodes[0].shape)
    k = canonical_axis("stack", axis, rank + 1)
    for other in nodes[1:]:
        context = ShapeContext()
        context.same_shape(nodes[0].shape, other.shape, "the shapes of the parts of `stack`")
        require_guards(b, context)
    return emit.concat(b, [emit.insert_axis(b, n, k) for n in nodes], k)


def _tile(b: Builder, x: Value, counts: Any) -> Node:
    node = as_node(b, x)
    given = [static_dim("tile", c, "counts") for c in (counts if isinstance(counts, tuple) else (counts,))]
    rank = max(len(given), len(node.shape))
    shape = (*(1,) * (rank - len(node.shape)), *node.shape)
    times = [*[1] * (rank - len(given)), *given]
    split = tuple(d for d in shape for d in (1, d))
    target = tuple(d for n, size in zip(times, shape, strict=True) for d in (n, size))
    spread = emit.broadcast_to(b, emit.reshape(b, node, split), target)
    return emit.reshape(b, spread, tuple(n * d for n, d in zip(times, shape, strict=True)))


def _repeat_interleave(b: Builder, x: Value, count: Any, axis: Any = 0) -> Node:
    node = as_node(b, x)
    k = canonical_axis("repeat_interleave", axis, len(node.shape))
    times = static_dim("repeat_interleave", count, "count")
    spread = emit.insert_axis(b, node, k + 1, times)
    return emit.reshape(b, spread, (*node.shape[:k], node.shape[k] * times, *node.shape[k + 1 :]))


def _pad(b: Builder, x: Value, axis: Any, before: Any = None, after: Any = 0, value: Any = 0) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    number = static_number("pad", value, "value")
    if isinstance(axis, tuple):  # pad(x, pairs): one pair of amounts per axis
        pairs = [p if isinstance(p, tuple) else (p, p) for p in axis]
        if len(pairs) != rank or any(len(p) != 2 for p in pairs):
            raise TypeProblem("E0404", f"`pad` of a tensor of rank {rank} takes {rank} pairs of amounts")
        low = tuple(static_dim("pad", p[0], "pairs") for p in pairs)
        high = tuple(static_dim("pad", p[1], "pairs") for p in pairs)
        return b.emit("pad", node, low=low, high=high, value=number)
    k = canonical_axis("pad", axis, rank)
    if before is None:
        raise TypeProblem("E0223", "`pad` lacks its argument `before`")
    return emit.pad_axis(b, node, k, static_dim("pad", before, "before"), static_dim("pad", after, "after"), number)


def _flip(b: Builder, x: Value, axes: Any = None) -> Node:
    node = as_node(b, x)
    over = canonical_axes("flip", axes, len(node.shape))
    return b.emit("flip", node, axes=over) if over else node


def _roll(b: Builder, x: Value, axis: Any, shift: Any) -> Node:
    node = as_node(b, x)
    k = canonical_axis("roll", axis, len(node.shape))
    by = static_int("roll", shift, "shift")
    dim = node.shape[k]
    if isinstance(dim, int):
        by = by % dim if dim else 0
        if by == 0:
            return node
        parts = [emit.slice_axis(b, node, k, dim - by, dim), emit.slice_axis(b, node, k, 0, dim - by)]
        return emit.concat(b, parts, k)
    cut = (dim - by) % dim
    return emit.concat(b, [emit.slice_axis(b, node, k, cut, dim), emit.slice_axis(b, node, k, 0, cut)], k)


def _diff(b: Builder, x: Value, axis: Any = -1) -> Node:
    node = as_node(b, x)
    k = canonical_axis("diff", axis, len(node.shape))
    dim = node.shape[k]
    return emit.sub(b, emit.slice_axis(b, node, k, 1, dim), emit.slice_axis(b, node, k, 0, dim - 1))


def _moveaxis(b: Builder, x: Value, source: Any, target: Any) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    return emit.move_axis(
        b, node, canonical_axis("moveaxis", source, rank), canonical_axis("moveaxis", target, rank, "target")
    )


def _swapaxes(b: Builder, x: Value, a: Any, c: Any) -> Node:
    node = as_node(b, x)
    order = list(range(len(node.shape)))
    p, q = canonical_axis("swapaxes", a, len(order)), canonical_axis("swapaxes", c, len(order))
    order[p], order[q] = q, p
    return emit.transpose(b, node, order)


def _meshgrid(b: Builder, xs: Any) -> tuple[Node, ...]:
    nodes = [as_node(b, x) for x in (xs if isinstance(xs, tuple) else (xs,))]
    for node in nodes:
        if len(node.shape) != 1:
            raise TypeProblem("E0404", f"`meshgrid` takes vectors, and {node.type} is given")
    count = len(nodes)
    lines = [emit.reshape(b, n, tuple(n.shape[0] if j == k else 1 for j in range(count))) for k, n in enumerate(nodes)]
    return tuple(broadcast(b, "meshgrid", lines))


_DIMS = Parameter("dims", "dims")
surface(
    "reshape",
    (_X, _DIMS),
    reshape,
    "The elements in row-major order under other dims, one of which may be -1.",
    "view",
    variadic=True,
)
surface(
    "transpose",
    (_X, Parameter("perm", "perm", None)),
    _transpose,
    "Axes in another order; reversed without one.",
    "permute",
    variadic=True,
)
surface("t", (_X,), _t, "The last two axes swapped.")
surface(
    "flatten",
    (_X, Parameter("start", "axis", 0), Parameter("stop", "axis", -1)),
    _flatten,
    "Axes start … stop merged into one.",
)
surface("unsqueeze", (_X, Parameter("axis", "axes")), _unsqueeze, "A new axis of size 1.", "expand_dims")
surface("squeeze", (_X, Parameter("axis", "axes", None)), _squeeze, "Without axes of size 1.")
surface("squeeze_all", (_X,), _squeeze_all, "Without all axes of size 1.")
surface("broadcast_to", (_X, _DIMS), _broadcast_to, "Stretched to a shape; -1 keeps a size.", "expand", variadic=True)
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
surface(
    "concat",
    (Parameter("xs", "tensors"), Parameter("axis", "axis", 0)),
    _concat,
    "Tensors joined along an axis.",
    "cat",
    method=False,
)
surface(
    "stack",
    (Parameter("xs", "tensors"), Parameter("axis", "axis", 0)),
    stack,
    "Tensors of one shape along a new axis.",
    method=False,
)
surface("tile", (_X, Parameter("counts", "dims")), _tile, "The whole repeated along each axis.", variadic=True)
surface(
    "repeat_interleave",
    (_X, Parameter("count", "dim"), Parameter("axis", "axis", 0)),
    _repeat_interleave,
    "Every entry of an axis repeated.",
)
surface(
    "pad",
    (_X, Parameter("axis", "any"), Parameter("before", "dim", None), Parameter("after", "dim", 0), Parameter("value", "float", 0)),
    _pad,
    "A number before and after an axis; or `pad(x, [[before, after], …])` for all axes.",
)  # fmt: skip
surface("flip", (_X, Parameter("axes", "axes", None)), _flip, "Reversed order along axes.")
surface("roll", (_X, _AXIS, Parameter("shift", "int")), _roll, "Entries moved along an axis, around its end.")
surface("diff", (_X, Parameter("axis", "axis", -1)), _diff, "Differences of neighbours along an axis.")
surface(
    "moveaxis",
    (_X, Parameter("source", "axis"), Parameter("target", "axis")),
    _moveaxis,
    "One axis at another position.",
)
surface(
    "swapaxes",
    (_X, Parameter("a", "axis"), Parameter("b", "axis")),
    lambda builder, /, x, a, b: _swapaxes(builder, x, a, b),
    "Two axes exchanged.",
)
surface(
    "meshgrid",
    (Parameter("xs", "tensors"),),
    _meshgrid,
    "Vectors spread over a common grid.",
    variadic=True,
    method=False,
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
