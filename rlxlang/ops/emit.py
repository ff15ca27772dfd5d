"""Short names for emitting ops, so that derivative and batching rules read like mathematics.

Every function takes the builder first and emits strict ops: operands of elementwise ops have equal shapes and element types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node
from rlxlang.types import F32, DimLike, DType, Shape, product


def add(b: Builder, x: Node, y: Node) -> Node:
    """`x + y`."""
    return b.emit("add", x, y)


def sub(b: Builder, x: Node, y: Node) -> Node:
    """`x - y`."""
    return b.emit("sub", x, y)


def mul(b: Builder, x: Node, y: Node) -> Node:
    """`x · y`."""
    return b.emit("mul", x, y)


def div(b: Builder, x: Node, y: Node) -> Node:
    """`x / y` of floats."""
    return b.emit("div", x, y)


def neg(b: Builder, x: Node) -> Node:
    """`-x`."""
    return b.emit("neg", x)


def mul_safe(b: Builder, x: Node, y: Node) -> Node:
    """`x · y`, and 0 where `x` is 0 whatever `y` is: a zero cotangent stays zero where a derivative is unbounded."""
    return mul(b, x, y) if is_regular(y) else b.emit("mul_safe", x, y)


def is_regular(node: Node) -> bool:
    """Whether a node is a constant without zeros, infinities and NaN."""
    data = constant_of(node)
    return data is not None and bool(np.all(np.isfinite(data)) and np.all(data != 0))


def constant_of(node: Node) -> np.ndarray[Any, Any] | None:
    """The data behind a constant, seen through broadcasts and casts of shape, or None when the node is not constant."""
    while node.op.name in ("broadcast_to", "reshape"):
        node = node.inputs[0]
    return node.attrs["data"].array if node.op.name == "constant" else None


def scale(b: Builder, x: Node, factor: float | int) -> Node:
    """`factor · x` for a number."""
    return x if factor == 1 else mul(b, x, b.full_like(x, factor))


def shift(b: Builder, x: Node, amount: float | int) -> Node:
    """`x + amount` for a number."""
    return x if amount == 0 else add(b, x, b.full_like(x, amount))


def one_minus(b: Builder, x: Node) -> Node:
    """`1 - x`."""
    return sub(b, b.full_like(x, 1), x)


def square(b: Builder, x: Node) -> Node:
    """`x · x`."""
    return mul(b, x, x)


def unary(b: Builder, name: str, x: Node) -> Node:
    """The op `name` of one operand without attributes."""
    return b.emit(name, x)


def compare(b: Builder, name: str, x: Node, y: Node | float | int) -> Node:
    """A comparison (`eq ne lt le gt ge`) with a node or a number."""
    return b.emit(name, x, y if isinstance(y, Node) else b.full_like(x, y))


def select(b: Builder, condition: Node, x: Node, y: Node) -> Node:
    """`x` where the condition holds, else `y`."""
    return b.emit("select", condition, x, y)


def keep(b: Builder, condition: Node, x: Node) -> Node:
    """`x` where the condition holds, else 0."""
    return select(b, condition, x, b.zeros_like(x))


def drop(b: Builder, condition: Node, x: Node) -> Node:
    """0 where the condition holds, else `x`."""
    return select(b, condition, b.zeros_like(x), x)


_CARRIED = frozenset({"mul", "mul_safe", "neg", "cast", "broadcast_to", "reshape", "transpose", "slice", "barrier"})
_HOPS = 16


def is_gated(change: Node) -> bool:
    """Whether a tangent or cotangent was set to zero where a choice fell on another value: it comes from `keep` or `drop`.

    What it is multiplied by may be infinite or NaN there. Looked for behind products and moves, a few nodes deep; a safe product
    so deep is taken for one of such a change.
    """
    for _ in range(_HOPS):
        if change.op.name == "select":
            branches = (constant_of(x) for x in change.inputs[1:])
            return any(x is not None and not np.any(x) for x in branches)
        if change.op.name not in _CARRIED:
            return False
        change = change.inputs[0]
    return change.op.name == "mul_safe"


def cast(b: Builder, x: Node, dtype: DType) -> Node:
    """`x` converted to an element type."""
    return x if x.dtype == dtype else b.emit("cast", x, dtype=dtype)


def widen(b: Builder, x: Node) -> Node:
    """F16 and BF16 as F32, in which their sums and exponentials are computed; other types as they are."""
    return cast(b, x, F32) if x.dtype.name in ("F16", "BF16") else x


def reshape(b: Builder, x: Node, shape: Sequence[DimLike]) -> Node:
    """`x` under another shape with as many elements."""
    return x if x.shape == tuple(shape) else b.emit("reshape", x, shape=tuple(shape))


def transpose(b: Builder, x: Node, perm: Sequence[int]) -> Node:
    """`x` with axis `perm[k]` at position k."""
    return x if tuple(perm) == tuple(range(len(x.shape))) else b.emit("transpose", x, perm=tuple(perm))


def broadcast_to(b: Builder, x: Node, shape: Sequence[DimLike]) -> Node:
    """`x` stretched to a shape: axes added in front, axes of static size 1 repeated."""
    return x if x.shape == tuple(shape) else b.emit("broadcast_to", x, shape=tuple(shape))


def move_axis(b: Builder, x: Node, source: int, target: int) -> Node:
    """`x` with the axis `source` at position `target` and the others in order."""
    rest = [k for k in range(len(x.shape)) if k != source]
    rest.insert(target, source)
    return transpose(b, x, rest)


def insert_axis(b: Builder, x: Node, axis: int, size: DimLike = 1) -> Node:
    """`x` repeated `size` times along a new axis at position `axis`."""
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    return broadcast_to(b, reshape(b, x, shape), (*x.shape[:axis], size, *x.shape[axis:]))


def with_unit_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """The shape with the given axes set to 1."""
    gone = set(axes)
    return tuple(1 if k in gone else d for k, d in enumerate(shape))


def without_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """The shape without the given axes."""
    gone = set(axes)
    return tuple(d for k, d in enumerate(shape) if k not in gone)


def restore_axes(b: Builder, x: Node, axes: Iterable[int], shape: Shape) -> Node:
    """A reduced tensor stretched again over the reduced axes of `shape`."""
    return broadcast_to(b, reshape(b, x, with_unit_axes(shape, axes)), shape)


def reduce(b: Builder, name: str, x: Node, axes: Iterable[int]) -> Node:
    """The reduction `name` over axes, which vanish; floats over no axes stay as they are."""
    over = tuple(sorted(axes))
    return b.emit(name, x, axes=over) if over or not x.dtype.is_float else x


def reduce_sum(b: Builder, x: Node, axes: Iterable[int]) -> Node:
    """The sum over axes, which vanish."""
    return reduce(b, "sum", x, axes)


def reduce_max(b: Builder, x: Node, axes: Iterable[int]) -> Node:
    """The maximum over axes, which vanish."""
    return reduce(b, "max", x, axes)


def sum_keeping(b: Builder, x: Node, axes: Iterable[int]) -> Node:
    """The sum over axes, repeated along them: a tensor of the shape of `x`."""
    over = tuple(axes)
    return restore_axes(b, reduce_sum(b, x, over), over, x.shape)


def slice_axis(b: Builder, x: Node, axis: int, start: DimLike, stop: DimLike, step: int = 1) -> Node:
    """Entries `start … stop-1` of one axis."""
    rank = len(x.shape)
    if start == 0 and stop == x.shape[axis] and step == 1:
        return x
    return b.emit(
        "slice",
        x,
        starts=tuple(start if k == axis else 0 for k in range(rank)),
        stops=tuple(stop if k == axis else x.shape[k] for k in range(rank)),
        steps=tuple(step if k == axis else 1 for k in range(rank)),
    )


def pad_axis(b: Builder, x: Node, axis: int, low: DimLike, high: DimLike, value: float | int = 0) -> Node:
    """`x` with `low` entries before and `high` entries after one axis."""
    rank = len(x.shape)
    if low == 0 and high == 0:
        return x
    return b.emit(
        "pad",
        x,
        low=tuple(low if k == axis else 0 for k in range(rank)),
        high=tuple(high if k == axis else 0 for k in range(rank)),
        value=value,
    )


def concat(b: Builder, parts: Sequence[Node], axis: int) -> Node:
    """The parts joined along an axis."""
    return parts[0] if len(parts) == 1 else b.emit("concat", *parts, axis=axis)


def iota(b: Builder, shape: Sequence[DimLike], axis: int, dtype: DType) -> Node:
    """The position along `axis` at every place of `shape`."""
    return b.emit("iota", shape=tuple(shape), axis=axis, dtype=dtype)


def number(b: Builder, value: DimLike | float, like: Node) -> Node:
    """A number or a size as a tensor of the type of `like`."""
    if isinstance(value, (int, float)):
        return b.full_like(like, value)
    return broadcast_to(b, b.emit("dim_size", dim=value, dtype=like.dtype), like.shape)


def size_of(shape: Shape, axes: Iterable[int]) -> DimLike:
    """The number of elements along axes."""
    return product(shape[k] for k in axes)


def dot(
    b: Builder,
    x: Node,
    y: Node,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> Node:
    """The batched product that sums over pairs of axes; see the op `dot_general`."""
    return b.emit("dot_general", x, y, batch=batch, contract=contract)


def take(b: Builder, x: Node, indices: Node, axis: int) -> Node:
    """Entries of `x` along an axis."""
    return b.emit("take", x, indices, axis=axis)


def scatter_add(b: Builder, x: Node, indices: Node, updates: Node, axis: int) -> Node:
    """`x` with updates added to entries along an axis."""
    return b.emit("scatter_add", x, indices, updates, axis=axis)


def add_present(b: Builder, *terms: Node | None) -> Node | None:
    """The sum of the terms that are not None (zero); None when all are."""
    total: Node | None = None
    for term in terms:
        if term is not None:
            total = term if total is None else add(b, total, term)
    return total
