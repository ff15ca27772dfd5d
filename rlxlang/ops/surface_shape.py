"""What users call to rearrange tensors."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import (
    canonical_axes,
    canonical_axis,
    choice,
    int_list,
    static_dim,
    static_int,
    static_number,
    surface,
    tensor,
)
from rlxlang.ops.broadcasting import Value, as_node, broadcast, promoted
from rlxlang.ops.rules import require_guards, require_kinds
from rlxlang.ops.surface_gather import padded_by_index
from rlxlang.types import I32, Dim, DimLike, ShapeContext, TypeProblem, floor_div, product, shape_text
from rlxlang.types.dim import exact_quotient

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


def _repeated_by(b: Builder, x: Node, counts: Node, axis: int, size: DimLike) -> Node:
    """Entry k of an axis `counts[k]` times, `size` entries together: what is missing is the last one again."""
    op = "repeat_interleave"
    require_kinds(op, counts.dtype, ("int", "uint"))
    context = ShapeContext()
    context.same_shape(counts.shape, (x.shape[axis],), f"the counts of `{op}` and axis {axis}")
    require_guards(b, context)
    wide = counts if counts.dtype.bytes >= 4 else emit.cast(b, counts, I32)
    ends = b.emit("cumsum", wide, axis=0, exclusive=False, reverse=False)
    places = b.emit("searchsorted", ends, emit.iota(b, (size,), 0, ends.dtype), right=True)
    return emit.take(b, x, places, axis)


def _repeat_interleave(b: Builder, x: Value, count: Any, axis: Any = 0, size: Any = None) -> Node:
    node = as_node(b, x)
    k = canonical_axis("repeat_interleave", axis, len(node.shape))
    if isinstance(count, Node):
        if size is None:
            raise TypeProblem("E0223", "`repeat_interleave` with counts in a tensor lacks its argument `size`")
        return _repeated_by(b, node, count, k, static_dim("repeat_interleave", size, "size"))
    if size is not None:
        raise TypeProblem("E0350", "`size` of `repeat_interleave` goes with counts in a tensor")
    times = static_dim("repeat_interleave", count, "count")
    spread = emit.insert_axis(b, node, k + 1, times)
    return emit.reshape(b, spread, (*node.shape[:k], node.shape[k] * times, *node.shape[k + 1 :]))


def _pad(
    b: Builder, x: Value, axis: Any, before: Any = None, after: Any = 0, value: Any = 0, mode: Any = "constant"
) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    number = static_number("pad", value, "value")
    how = choice("pad", mode, "mode", ("constant", "reflect", "replicate", "circular"))
    if isinstance(axis, tuple):  # pad(x, pairs): one pair of amounts per axis
        pairs = [p if isinstance(p, tuple) else (p, p) for p in axis]
        if len(pairs) != rank or any(len(p) != 2 for p in pairs):
            raise TypeProblem("E0404", f"`pad` of a tensor of rank {rank} takes {rank} pairs of amounts")
        low = tuple(static_dim("pad", p[0], "pairs") for p in pairs)
        high = tuple(static_dim("pad", p[1], "pairs") for p in pairs)
        if how == "constant":
            return b.emit("pad", node, low=low, high=high, value=number)
        for k, amounts in enumerate(zip(low, high, strict=True)):
            node = _continued(b, node, k, *amounts, how)
        return node
    k = canonical_axis("pad", axis, rank)
    if before is None:
        raise TypeProblem("E0223", "`pad` lacks its argument `before`")
    amounts = static_dim("pad", before, "before"), static_dim("pad", after, "after")
    if how != "constant":
        return _continued(b, node, k, *amounts, how)
    return emit.pad_axis(b, node, k, *amounts, number)


def _continued(b: Builder, x: Node, axis: int, low: DimLike, high: DimLike, mode: str) -> Node:
    """An axis continued by its own entries; each entry may serve once on either side, except the border of `replicate`."""
    if low == 0 and high == 0:
        return x
    size = x.shape[axis]
    context = ShapeContext()
    for amount in (low, high):
        least = {"reflect": amount + 1, "circular": amount, "replicate": 1}[mode]
        context.at_most(least, size, f"the entries that `pad` with mode {mode} needs of axis {axis}", "E0409")
    require_guards(b, context)
    return padded_by_index(b, x, axis, low, high, mode)


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
    (_X, Parameter("count", "any"), Parameter("axis", "axis", 0), Parameter("size", "dim", None)),
    _repeat_interleave,
    "Every entry of an axis repeated; with counts in a tensor each as often as its count, `size` entries together.",
)
surface(
    "pad",
    (_X, Parameter("axis", "any"), Parameter("before", "dim", None), Parameter("after", "dim", 0), Parameter("value", "float", 0),
     Parameter("mode", "str", "constant")),
    _pad,
    "A number (or with `mode` the entries of the axis itself) before and after an axis; or `pad(x, [[before, after], …])` for all axes.",
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
