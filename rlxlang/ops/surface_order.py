"""What users call of order statistics, of searching and of counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import (
    canonical_axes,
    choice,
    guard_nonempty,
    static_bool,
    static_dim,
    static_number,
    surface,
    tensor,
)
from rlxlang.ops.broadcasting import Value, as_float, as_node, integer_indices, promoted
from rlxlang.ops.compose import one
from rlxlang.types import I32, DimLike, TypeProblem

_AXES = Parameter("axes", "axes", None)
_KEEP = Parameter("keep_dim", "bool", False)
_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


# --------------------------------------------------------------------------------------------- quantiles
def _rows(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    """The reduced axes as one, the last."""
    kept = [k for k in range(len(x.shape)) if k not in axes]
    moved = emit.transpose(b, x, [*kept, *axes])
    return emit.reshape(b, moved, (*(x.shape[k] for k in kept), emit.size_of(x.shape, axes)))


def _around(b: Builder, size: DimLike, q: tuple[float, ...], method: str) -> tuple[Node, Node, Node]:
    """Positions below and above every quantile in a sorted row, and how far it lies from the lower one: vectors [q].

    The place is q·(size - 1) in F64, as in NumPy.
    """
    if isinstance(size, int):
        place = np.asarray(q, np.float64) * (size - 1)
        low, high = np.floor(place), np.ceil(place)
        if method == "nearest":
            low = high = np.round(place)
        low, high = (high, high) if method == "higher" else (low, low) if method == "lower" else (low, high)
        part = np.where(low == high, 0.0, 0.5 if method == "midpoint" else place - low)
        return b.constant(low.astype(np.int32)), b.constant(high.astype(np.int32)), b.constant(part)
    share = b.constant(np.asarray(q, np.float64))
    where = emit.mul(b, share, emit.shift(b, emit.number(b, size, share), -1))
    below, above = (b.emit(name, where) for name in ("floor", "ceil"))
    if method == "nearest":
        below = above = b.emit("round", where)
    below, above = {"higher": (above, above), "lower": (below, below)}.get(method, (below, above))
    far = emit.sub(b, where, below)
    if method == "midpoint":
        far = emit.select(b, emit.compare(b, "eq", far, 0), far, b.full_like(far, 0.5))
    elif method != "linear":
        far = b.zeros_like(far)
    return emit.cast(b, below, I32), emit.cast(b, above, I32), far


def _quantiles(b: Builder, op: str, x: Node, axes: tuple[int, ...], q: tuple[float, ...], method: str) -> Node:
    """The quantiles over axes, [q, rest …]; NaN where there is one among the entries."""
    if not axes:
        axes, x = (len(x.shape),), emit.insert_axis(b, x, len(x.shape))
    guard_nonempty(b, op, x, axes)
    rows = _rows(b, x, axes)
    last, size = len(rows.shape) - 1, rows.shape[-1]
    low, high, part = _around(b, size, q, method)
    needed = emit.constant_of(high)
    count = size if needed is None else int(needed.max(initial=-1)) + 1
    ordered = b.emit("item", b.emit("sort", rows, count=count, descending=False), index=0)
    below, above = (emit.widen(b, emit.take(b, ordered, k, last)) for k in (low, high))
    share = emit.broadcast_to(b, emit.cast(b, part, below.dtype), below.shape)
    # Where both are the same infinity, their difference would be NaN.
    gap = emit.sub(b, above, below)
    gap = emit.drop(b, b.emit("bit_and", b.emit("eq", above, below), b.emit("isinf", above)), gap)
    from_below = emit.add(b, below, emit.mul(b, gap, share))
    from_above = emit.sub(b, above, emit.mul(b, gap, emit.one_minus(b, share)))
    value = emit.select(b, emit.compare(b, "lt", share, 0.5), from_below, from_above)
    value = emit.select(b, emit.compare(b, "eq", share, 0), below, value)
    spoilt = emit.reduce(b, "any", b.emit("isnan", rows), (last,))
    spoilt = emit.insert_axis(b, spoilt, last, len(q))
    value = emit.select(b, spoilt, b.full_like(value, math.nan), value)
    return emit.move_axis(b, emit.cast(b, value, x.dtype), last, 0)


def _reduced(
    b: Builder, op: str, x: Value, q: tuple[float, ...], axes: Any, keep_dim: Any, method: str, *, single: bool
) -> Node:
    node = as_float(b, op, x)
    over = canonical_axes(op, axes, len(node.shape))
    found = _quantiles(b, op, node, over, q, method)
    rest = emit.with_unit_axes(node.shape, over) if static_bool(op, keep_dim, "keep_dim") else found.shape[1:]
    return emit.reshape(b, found, rest if single else (len(q), *rest))


def _quantile(b: Builder, x: Value, q: Any, axes: Any = None, keep_dim: Any = False, method: Any = "linear") -> Node:
    op = "quantile"
    asked = tuple(float(static_number(op, v, "q")) for v in (q if isinstance(q, tuple) else (q,)))
    for share in asked:
        if not 0 <= share <= 1:
            raise TypeProblem("E0350", f"argument `q` of `{op}` is 0 … 1, and {share} is given")
    how = choice(op, method, "method", _METHODS)
    return _reduced(b, op, x, asked, axes, keep_dim, how, single=not isinstance(q, tuple))


def _median(b: Builder, x: Value, axes: Any = None, keep_dim: Any = False) -> Node:
    return _reduced(b, "median", x, (0.5,), axes, keep_dim, "linear", single=True)


# --------------------------------------------------------------------------------------------- searching, counting
def _searchsorted(b: Builder, sorted_: Value, values: Value, side: Any = "left") -> Node:
    how = choice("searchsorted", side, "side", ("left", "right"))
    rows, asked = promoted(b, "searchsorted", (sorted_, values))
    return b.emit("searchsorted", rows, asked, right=how == "right")


def _unique_consecutive(
    b: Builder, x: Value, size: Any, fill: Any = 0, counts: Any = False
) -> Node | tuple[Node, Node]:
    op = "unique_consecutive"
    node, length = as_node(b, x), static_dim(op, size, "size")
    number = static_number(op, fill, "fill")
    values = b.emit(op, node, size=length, fill=number)
    if not static_bool(op, counts, "counts"):
        return values
    return values, b.emit("run_lengths", node, size=length)


def _bincount(b: Builder, x: Value, size: Any, weights: Value | None = None) -> Node:
    op = "bincount"
    given, length = as_node(b, x), static_dim(op, size, "size")
    numbers = integer_indices(b, op, given)
    flat = emit.reshape(b, numbers, (numbers.tensor.size,))
    wide = emit.cast(b, flat, I32) if flat.dtype.bytes < 4 else flat  # the size may need more bits
    inside = b.emit("lt", wide, emit.number(b, length, wide))
    if wide.dtype.is_signed:
        inside = b.emit("bit_and", inside, emit.compare(b, "ge", wide, 0))
    if weights is None:
        share = emit.cast(b, inside, I32)
    else:
        weight = as_node(b, weights)
        if len(weight.shape) != len(given.shape):
            raise TypeProblem("E0404", f"the weights of `{op}` have the shape of x: {given.type}, {weight.type}")
        share = emit.keep(b, inside, emit.reshape(b, weight, flat.shape))
    slots = b.full(0, share.dtype, (length,))
    if length == 0:
        return slots
    return one(b, "scatter_add", slots, emit.keep(b, inside, wide), share, 0)


surface(
    "median", (tensor(), _AXES, _KEEP), _median, "Median over axes, the mean of the middle two; NaN if there is one."
)
surface(
    "quantile",
    (tensor(), Parameter("q", "any"), _AXES, _KEEP, Parameter("method", "str", "linear")),
    _quantile,
    "Quantile q (a number 0 … 1, or a list: then a first axis) over axes; NaN if there is one. `method`: "
    "linear, lower, higher, midpoint or nearest.",
    example="quantile(x, 0.9, axes: -1)",
)
surface(
    "searchsorted",
    (tensor("sorted"), tensor("values"), Parameter("side", "str", "left")),
    lambda b, sorted, values, side="left": _searchsorted(b, sorted, values, side),
    'Where values belong in a sorted vector, or in the sorted last axis row by row: before equal entries, or with `side: "right"` behind.',
)
surface(
    "unique_consecutive",
    (tensor(), Parameter("size", "dim"), Parameter("fill", "float", 0), Parameter("counts", "bool", False)),
    _unique_consecutive,
    "The first entry of every run of equal entries of a vector: `size` of them, then `fill`; with `counts` also the lengths of the runs.",
    example="unique_consecutive(x, size: 8)",
)
surface(
    "bincount",
    (tensor(), Parameter("size", "dim"), tensor("weights", None)),
    _bincount,
    "How often each of 0 … size-1 occurs in x, other numbers not counted; with weights their sums.",
    example="bincount(x, size: 10)",
)
