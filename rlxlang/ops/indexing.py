"""Reading and writing entries at positions that are themselves tensors.

An index below 0 counts from the end once; what is then outside `0 … size-1` is clamped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, ZERO, Bound, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import GatherAxis, ScatterAxis, TakeAlong
from rlxlang.ops.rules import Batched, batch_elementwise, require_axis, require_kinds, to_front
from rlxlang.types import I32, DimLike, Shape, ShapeContext, TensorType, TypeProblem, product

Array = np.ndarray[Any, Any]


def in_range(indices: Array, size: int) -> Array:
    """Positions `0 … size-1` from indices that may be negative or too large."""
    wide = indices.astype(np.int64)
    return np.clip(np.where(wide < 0, wide + size, wide), 0, max(size - 1, 0))


def _clamped_nodes(b: Builder, indices: Node, *, size: DimLike) -> Node:
    wide = emit.cast(b, indices, I32) if indices.dtype.bytes < 4 else indices  # the size may need more bits
    total, zero = emit.number(b, size, wide), b.zeros_like(wide)
    if wide.dtype.is_signed:
        wide = emit.select(b, emit.compare(b, "lt", wide, zero), emit.add(b, wide, total), wide)
    inside = b.emit("maximum", zero, b.emit("minimum", wide, emit.shift(b, total, -1)))
    return emit.cast(b, inside, indices.dtype)


def _infer_clamp(context: ShapeContext, indices: TensorType, *, size: DimLike) -> TensorType:
    require_kinds("clamp_index", indices.dtype, ("int", "uint"))
    return indices


CLAMP_INDEX = register(
    Op(
        "clamp_index",
        "Positions `0 … size-1` of indices that may be negative or too large.",
        _infer_clamp,
        lambda indices, *, size: in_range(indices, size).astype(indices.dtype),
        ZERO,
        ZERO,
        batch_elementwise,
        VIA_DECOMPOSITION,
        lambda rng: [
            Sample((np.array([0, 4, 5, -1, -5, -9], np.int32),), {"size": 5}, smooth=False),
            Sample((np.array([[0, 7], [200, 3]], np.uint8),), {"size": 4}, smooth=False),
        ],
        decompose=_clamped_nodes,
        bound=lambda node: Bound(0, node.attrs["size"]),
    )
)


def clamped(b: Builder, indices: Node, size: DimLike) -> Node:
    """The same as nodes."""
    return b.emit(CLAMP_INDEX, indices, size=size)


def along_axis(node: Node) -> Bound:
    """The bound of indices along the node's axis."""
    return Bound(1, node.inputs[0].shape[node.attrs["axis"]])


def _replaced(shape: Shape, axis: int, indices: Shape) -> Shape:
    return (*shape[:axis], *indices, *shape[axis + 1 :])


# --------------------------------------------------------------------------------------------- take


def _infer_take(context: ShapeContext, x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_kinds("take", indices.dtype, ("int", "uint"))
    require_axis("take", axis, x.rank)
    return x.with_shape(_replaced(x.shape, axis, indices.shape))


def _jvp_take(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    return None if tangents[0] is None else emit.take(b, tangents[0], primals[1], node.attrs["axis"])


def _vjp_take(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None]:
    x, indices = primals
    return emit.scatter_add(b, b.zeros_like(x), indices, ct, node.attrs["axis"]), None


def _merged_rows(b: Builder, x: Node, axis: int) -> Node:
    """`x` with its first axis (a batch) and its indexed `axis` merged into one in front."""
    moved = emit.move_axis(b, x, axis, 1)
    return emit.reshape(b, moved, (moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def _merged_indices(b: Builder, indices: Node, size: DimLike) -> Node:
    """Indices, batched in front, into the merged axis of `_merged_rows`."""
    indices = emit.cast(b, indices, I32) if indices.dtype.bytes < 4 else indices  # all lanes need more bits
    lane = emit.iota(b, indices.shape, 0, indices.dtype)
    return emit.add(b, clamped(b, indices, size), emit.mul(b, lane, emit.number(b, size, lane)))


def _batch_take(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    axis = node.attrs["axis"]
    x, indices = args
    if axes[1] is None:
        return emit.take(b, to_front(b, x, axes[0], size), indices, axis + 1), 0
    if axes[0] is None:
        return emit.take(b, x, indices, axis), axis + axes[1]
    x, indices = to_front(b, x, axes[0], size), to_front(b, indices, axes[1], size)
    length = x.shape[axis + 1]
    rows = emit.take(b, _merged_rows(b, x, axis + 1), _merged_indices(b, indices, length), 0)
    return emit.transpose(b, rows, _axes_back(len(indices.shape) - 1, axis, len(rows.shape))), 0


def _axes_back(count: int, axis: int, rank: int) -> tuple[int, ...]:
    """The order that brings [batch, indices…, rest…] to [batch, rest before axis…, indices…, rest after…]."""
    middle = tuple(range(1, 1 + count))
    before = tuple(range(1 + count, 1 + count + axis))
    return (0, *before, *middle, *range(1 + count + axis, rank))


TAKE = register(
    Op(
        "take",
        "Entries along an axis at the positions of an integer tensor, whose axes replace it.",
        _infer_take,
        lambda x, indices, *, axis: np.take(x, in_range(indices, x.shape[axis]), axis),
        _jvp_take,
        _vjp_take,
        _batch_take,
        GatherAxis(),
        lambda rng: [
            Sample((rng.normal(size=(5,)), np.array([0, 4, 4, -1], np.int32)), {"axis": 0}),
            Sample((rng.normal(size=(2, 5, 3)), np.array([[1, 0, 9], [-2, 3, -9]], np.int32)), {"axis": 1}),
            Sample((rng.normal(size=(2, 3)), np.array(1, np.int64)), {"axis": 1}),
        ],
        bound=along_axis,
    )
)

# --------------------------------------------------------------------------------------------- take_along_axis


def _infer_along(context: ShapeContext, x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    require_kinds("take_along_axis", indices.dtype, ("int", "uint"))
    require_axis("take_along_axis", axis, x.rank)
    if x.rank != indices.rank:
        raise TypeProblem("E0404", f"`take_along_axis` of rank {x.rank} takes indices of that rank, not {indices.rank}")
    context.same_shape(
        emit.without_axes(x.shape, (axis,)),
        emit.without_axes(indices.shape, (axis,)),
        f"the shapes of data and indices of `take_along_axis` beside axis {axis}",
    )
    return x.with_shape(indices.shape)


def scatter_along_axis(b: Builder, x: Node, indices: Node, updates: Node, axis: int) -> Node:
    """`x` with updates added at one position along an axis per place: the transpose of `take_along_axis`."""
    shape = x.shape
    flat = b.zeros_like(indices)
    for k in range(len(shape)):
        place = clamped(b, indices, shape[k]) if k == axis else emit.iota(b, indices.shape, k, indices.dtype)
        stride = product(shape[k + 1 :])
        flat = emit.add(b, flat, emit.mul(b, place, emit.number(b, stride, place)))
    total = (product(shape),)
    count = (product(indices.shape),)
    result = emit.scatter_add(
        b, emit.reshape(b, x, total), emit.reshape(b, flat, count), emit.reshape(b, updates, count), 0
    )
    return emit.reshape(b, result, shape)


def _jvp_along(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    return None if tangents[0] is None else b.emit("take_along_axis", tangents[0], primals[1], axis=node.attrs["axis"])


def _vjp_along(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None]:
    x, indices = primals
    return scatter_along_axis(b, b.zeros_like(x), indices, ct, node.attrs["axis"]), None


def _batch_along(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    x, indices = (to_front(b, a, k, size) for a, k in zip(args, axes, strict=True))
    return b.emit("take_along_axis", x, indices, axis=node.attrs["axis"] + 1), 0


TAKE_ALONG_AXIS = register(
    Op(
        "take_along_axis",
        "One entry along an axis per place: the result is shaped as the indices.",
        _infer_along,
        lambda x, indices, *, axis: np.take_along_axis(x, in_range(indices, x.shape[axis]), axis),
        _jvp_along,
        _vjp_along,
        _batch_along,
        TakeAlong(),
        lambda rng: [
            Sample((rng.normal(size=(4,)), np.array([3, 3, 0, -1, 7], np.int32)), {"axis": 0}),
            Sample((rng.normal(size=(2, 4)), np.array([[1], [-1]], np.int32)), {"axis": 1}),
            Sample((rng.normal(size=(3, 2)), np.array([[1, 0], [2, 2]], np.int32)), {"axis": 0}),
        ],
        bound=along_axis,
    )
)

# --------------------------------------------------------------------------------------------- scatter


def infer_scatter(
    context: ShapeContext, x: TensorType, indices: TensorType, updates: TensorType, *, axis: int
) -> TensorType:
    """The shape rule of all scatters: the type of the data."""
    require_kinds("scatter", indices.dtype, ("int", "uint"))
    require_axis("scatter", axis, x.rank)
    if x.dtype != updates.dtype:
        raise TypeProblem("E0302", f"the dtypes of data and updates of `scatter` differ: {x.dtype} and {updates.dtype}")
    want = _replaced(x.shape, axis, indices.shape)
    context.same_shape(want, updates.shape, "the shape that `scatter` needs and that of its updates")
    return x


def rows_first(x: Array, indices: Array, updates: Array, axis: int) -> tuple[Array, Array, Array]:
    """A copy of the data with the axis in front, flat positions, and updates with one row per position."""
    data = np.array(np.moveaxis(x, axis, 0))
    flat = in_range(indices, x.shape[axis]).reshape(-1)
    for k in range(indices.ndim):
        updates = np.moveaxis(updates, axis + k, k)
    return data, flat, updates.reshape((len(flat), *data.shape[1:]))


def _reference_add(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    data, flat, rows = rows_first(x, indices, updates, axis)
    if data.size:
        np.add.at(data, flat, rows)
    return np.moveaxis(data, 0, axis)


def _reference_set(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    data, flat, rows = rows_first(x, indices, updates, axis)
    if data.size:
        for position, row in zip(flat, rows, strict=True):
            data[position] = row
    return np.moveaxis(data, 0, axis)


def _jvp_scatter(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    x, indices, updates = primals
    tx, _, tu = tangents
    if tx is None and tu is None:
        return None
    tx = b.zeros_like(x) if tx is None else tx
    tu = b.zeros_like(updates) if tu is None else tu
    return b.emit(node.op, tx, indices, tu, axis=node.attrs["axis"])


def _vjp_add(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None, Node]:
    return ct, None, emit.take(b, ct, primals[1], node.attrs["axis"])


def _vjp_set(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None, Node]:
    x, indices, updates = primals
    axis = node.attrs["axis"]
    kept = b.emit("scatter_set", ct, indices, b.zeros_like(updates), axis=axis)
    # Of equal indices the last one wrote: find the winners by scattering the positions of the updates.
    count = product(indices.shape)
    order = emit.iota(b, (count,), 0, I32)
    flat = emit.reshape(b, clamped(b, indices, x.shape[axis]), (count,))
    slots = b.full(0, I32, (x.shape[axis],))
    last = emit.take(b, b.emit("scatter_set", slots, flat, order, axis=0), flat, 0)
    won = emit.reshape(b, emit.compare(b, "eq", last, order), indices.shape)
    tail = len(x.shape) - axis - 1
    spread = emit.broadcast_to(b, emit.reshape(b, won, (*indices.shape, *(1,) * tail)), updates.shape)
    return kept, None, emit.keep(b, spread, emit.take(b, ct, indices, axis))


def batch_scatter(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    """The batching rule of all scatters; batched indices address rows of all lanes together."""
    axis = node.attrs["axis"]
    x, updates = to_front(b, args[0], axes[0], size), to_front(b, args[2], axes[2], size)
    if axes[1] is None:
        return b.emit(node.op, x, args[1], updates, axis=axis + 1), 0
    indices = to_front(b, args[1], axes[1], size)
    length = x.shape[axis + 1]
    count = len(indices.shape) - 1
    order = _axes_back(count, axis, len(updates.shape))
    back = tuple(sorted(range(len(order)), key=lambda k: order[k]))
    rows = emit.transpose(b, updates, back)
    merged = b.emit(node.op, _merged_rows(b, x, axis + 1), _merged_indices(b, indices, length), rows, axis=0)
    split = emit.reshape(b, merged, (size, length, *merged.shape[1:]))
    return emit.move_axis(b, split, 1, axis + 1), 0


def samples_scatter(rng: np.random.Generator) -> list[Sample]:
    """Samples of all scatters: equal, negative and too large positions."""
    return [
        Sample((rng.normal(size=(4,)), np.array([1, 1, -1], np.int32), rng.normal(size=(3,))), {"axis": 0}),
        Sample((rng.normal(size=(2, 4)), np.array([0, 3], np.int32), rng.normal(size=(2, 2))), {"axis": 1}),
        Sample(
            (rng.normal(size=(3, 2)), np.array([[2, 0], [2, 8]], np.int32), rng.normal(size=(2, 2, 2))), {"axis": 0}
        ),
        Sample((rng.normal(size=(3, 2)), np.array(1, np.int32), rng.normal(size=(2,))), {"axis": 0}),
    ]


SCATTER_ADD = register(
    Op(
        "scatter_add",
        "Data with updates added to entries along an axis; equal positions add up.",
        infer_scatter,
        _reference_add,
        _jvp_scatter,
        _vjp_add,
        batch_scatter,
        ScatterAxis("add"),
        samples_scatter,
        bound=along_axis,
    )
)
SCATTER_SET = register(
    Op(
        "scatter_set",
        "Data with entries along an axis replaced by updates; the last of equal positions wins.",
        infer_scatter,
        _reference_set,
        _jvp_scatter,
        _vjp_set,
        batch_scatter,
        ScatterAxis("set"),
        samples_scatter,
        bound=along_axis,
    )
)
