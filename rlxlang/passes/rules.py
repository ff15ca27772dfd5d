"""Rewrite rules: data, one per op and idea. Every rule keeps the value bit for bit, NaN, infinities and -0.0 included.

A rule gets the builder, the op's attributes and its operands (already simplified) and gives a node, or None when it does not
apply. What is missing is missing on purpose: `x + 0` turns -0.0 into 0.0, `x · 0` and `x - x` are NaN for NaN and infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node
from rlxlang.types import TensorType, dims_equal

Replace = Callable[[Builder, Mapping[str, Any], Sequence[Node]], Node | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite: its name (shown by traces), the op it looks at, and what it gives."""

    name: str
    op: str
    replace: Replace


def number_of(node: Node) -> np.generic | None:
    """The one number that a constant tensor is filled with, seen through broadcasts and reshapes; None for anything else."""
    while node.op.name in ("broadcast_to", "reshape"):
        node = node.inputs[0]
    if node.op.name != "constant":
        return None
    array = node.attrs["data"].array
    return None if array.ndim else array[()]


def _same_shape(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(dims_equal(p, q) is True for p, q in zip(left, right, strict=True))


def _is_number(node: Node, value: float) -> bool:
    found = number_of(node)
    return found is not None and found == value and (value != 0 or not np.signbit(found))


# ------------------------------------------------------------------------------------------------ arithmetic


def _times_one(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    if _is_number(xs[1], 1):
        return xs[0]
    return xs[1] if _is_number(xs[0], 1) else None


def _right_one(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if _is_number(xs[1], 1) else None


def _minus_zero(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if _is_number(xs[1], 0) else None


def _twice(name: str) -> Replace:
    def replace(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
        return xs[0].inputs[0] if xs[0].op.name == name else None

    return replace


def _decided(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    if xs[1] is xs[2]:
        return xs[1]
    found = number_of(xs[0])
    return None if found is None else xs[1] if found else xs[2]


# ------------------------------------------------------------------------------------------------ shapes


def _same_dtype(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if xs[0].dtype == attrs["dtype"] else None


def _to_own_shape(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if _same_shape(xs[0].shape, attrs["shape"]) else None


def _twice_reshaped(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return b.emit("reshape", xs[0].inputs[0], shape=attrs["shape"]) if xs[0].op.name == "reshape" else None


def _twice_broadcast(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return b.emit("broadcast_to", xs[0].inputs[0], shape=attrs["shape"]) if xs[0].op.name == "broadcast_to" else None


def _reshaped_number(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    inner = xs[0]
    if inner.op.name != "broadcast_to" or inner.inputs[0].tensor.rank:
        return None
    return b.emit("broadcast_to", inner.inputs[0], shape=attrs["shape"])


def _in_order(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if tuple(attrs["perm"]) == tuple(range(len(attrs["perm"]))) else None


def _twice_transposed(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    if xs[0].op.name != "transpose":
        return None
    inner = xs[0].attrs["perm"]
    return b.emit("transpose", xs[0].inputs[0], perm=tuple(inner[k] for k in attrs["perm"]))


def _factors_swapped(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    """A transpose that exchanges the free axes of a product's two factors is the product the other way round."""
    product = xs[0]
    if product.op.name != "dot_general":
        return None
    (left_batch, right_batch), (left_sum, right_sum) = product.attrs["batch"], product.attrs["contract"]
    shared = len(left_batch)
    rows = product.inputs[0].tensor.rank - shared - len(left_sum)
    rank = product.tensor.rank
    swapped = (*range(shared), *range(shared + rows, rank), *range(shared, shared + rows))
    if not rows or rank == shared + rows or tuple(attrs["perm"]) != swapped:
        return None
    left, right = product.inputs
    return b.emit("dot_general", right, left, batch=(right_batch, left_batch), contract=(right_sum, left_sum))


def _whole(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    whole = all(s == 0 for s in attrs["starts"]) and all(s == 1 for s in attrs["steps"])
    return xs[0] if whole and _same_shape(attrs["stops"], xs[0].shape) else None


def _no_axes(name: str) -> Replace:
    def replace(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
        return xs[0] if not attrs[name] else None

    return replace


def _no_padding(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if all(n == 0 for n in (*attrs["low"], *attrs["high"])) else None


def _single(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    return xs[0] if len(xs) == 1 else None


def _unit_axes(b: Builder, attrs: Mapping[str, Any], xs: Sequence[Node]) -> Node | None:
    """A product or extremum over axes of size 1 only moves elements; a sum would make 0.0 of -0.0."""
    x, axes = xs[0], attrs["axes"]
    if any(x.shape[k] != 1 for k in axes):
        return None
    rest = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return b.emit("reshape", x, shape=rest) if axes else x


RULES: tuple[Rule, ...] = (
    Rule("x * 1 -> x", "mul", _times_one),
    Rule("x / 1 -> x", "div", _right_one),
    Rule("x - 0.0 -> x", "sub", _minus_zero),
    Rule("x ** 1 -> x", "pow", _right_one),
    Rule("--x -> x", "neg", _twice("neg")),
    Rule("!!x -> x", "bit_not", _twice("bit_not")),
    Rule("a select that is decided -> the branch", "select", _decided),
    Rule("cast to the own dtype -> x", "cast", _same_dtype),
    Rule("broadcast to the own shape -> x", "broadcast_to", _to_own_shape),
    Rule("broadcast of a broadcast -> one", "broadcast_to", _twice_broadcast),
    Rule("reshape to the own shape -> x", "reshape", _to_own_shape),
    Rule("reshape of a reshape -> one", "reshape", _twice_reshaped),
    Rule("reshape of a broadcast number -> the number broadcast", "reshape", _reshaped_number),
    Rule("transpose that changes nothing -> x", "transpose", _in_order),
    Rule("transpose of a transpose -> one", "transpose", _twice_transposed),
    Rule("transpose that swaps factors -> the other product", "transpose", _factors_swapped),
    Rule("slice of everything -> x", "slice", _whole),
    Rule("flip of no axes -> x", "flip", _no_axes("axes")),
    Rule("pad by nothing -> x", "pad", _no_padding),
    Rule("concat of one -> it", "concat", _single),
    Rule("max over axes of size 1 -> reshape", "max", _unit_axes),
    Rule("min over axes of size 1 -> reshape", "min", _unit_axes),
    Rule("prod over axes of size 1 -> reshape", "prod", _unit_axes),
)


def keeps_type(before: TensorType, after: TensorType) -> bool:
    """Whether a replacement has the dtype and shape of what it replaces."""
    return before.dtype == after.dtype and _same_shape(before.shape, after.shape)
