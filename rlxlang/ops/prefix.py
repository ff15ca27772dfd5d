"""Prefix reductions along an axis: cumulative sums, products and extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import Prefix
from rlxlang.ops.reduction import highest, lowest
from rlxlang.ops.rules import batch_axis, require_axis, require_kinds
from rlxlang.types import I32, ShapeContext, TensorType, from_numpy, sum_dtype


def _infer(name: str, kinds: Sequence[str], widens: bool) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *, axis: int, exclusive: bool, reverse: bool) -> TensorType:
        require_kinds(name, x.dtype, kinds)
        require_axis(name, axis, x.rank)
        return x.with_dtype(sum_dtype(x.dtype)) if widens else x

    return infer


def _reference(accumulate: Callable[..., Any], identity: Callable[..., Any], widens: bool) -> Callable[..., Any]:
    def reference(x: np.ndarray[Any, Any], *, axis: int, exclusive: bool, reverse: bool) -> Any:
        own = from_numpy(x.dtype)
        assert own is not None
        x = x.astype(sum_dtype(own).numpy) if widens else x
        line = np.flip(x, axis) if reverse else x
        if exclusive and x.shape[axis]:
            first = np.full_like(np.take(line, [0], axis), identity(x.dtype))
            line = np.concatenate([first, np.delete(line, -1, axis)], axis)
        result = accumulate(line, axis=axis, dtype=x.dtype) if x.size else line
        return np.flip(result, axis) if reverse else result

    return reference


def _samples(rng: np.random.Generator) -> list[Sample]:
    cases: tuple[tuple[tuple[int, ...], int, bool, bool], ...] = (
        ((4,), 0, False, False),
        ((2, 3), 1, True, False),
        ((3, 2), 0, False, True),
        ((2, 3, 2), 1, True, True),
    )
    return [
        Sample((rng.normal(size=s),), {"axis": axis, "exclusive": exclusive, "reverse": reverse})
        for s, axis, exclusive, reverse in cases
    ]


def _row(
    name: str, doc: str, accumulate: Callable[..., Any], identity: Callable[..., Any], jvp: Any, vjp: Any, widens: bool
) -> Op:
    kinds = ("float", "int", "uint", "bool") if not widens else ("float", "int", "uint", "bool", "complex")
    return register(
        Op(
            name,
            doc,
            _infer(name, kinds, widens),
            _reference(accumulate, identity, widens),
            jvp,
            vjp,
            batch_axis,
            Prefix(name.removeprefix("cum")),
            _samples,
        )
    )


def _vjp_cumsum(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    return (b.emit("cumsum", ct, **{**node.attrs, "reverse": not node.attrs["reverse"]}),)


CUMSUM = _row(
    "cumsum",
    "Sum of the entries up to each place of an axis.",
    np.add.accumulate,
    lambda dtype: 0,
    lambda b, node, primals, tangents: b.emit("cumsum", tangents[0], **node.attrs),
    _vjp_cumsum,
    widens=True,
)


def _influence(b: Builder, node: Node, x: Node) -> Node:
    """The matrix d y_i / d x_k of a cumulative product, without division: shape of `x` with axis k and then i for the axis.

    It is the product of all factors of y_i but the k-th: a cumulative product of `x` repeated with the k-th entry set to 1,
    where it takes part in y_i.
    """
    attrs = node.attrs
    axis = attrs["axis"]
    size = x.shape[axis]
    square = (*x.shape[:axis], size, size, *x.shape[axis + 1 :])
    rows = emit.insert_axis(b, x, axis, size)  # entry j along axis + 1, repeated for every k
    k, j = emit.iota(b, square, axis, I32), emit.iota(b, square, axis + 1, I32)
    diagonal = emit.compare(b, "eq", k, j)
    without = emit.select(b, diagonal, b.full_like(rows, 1), rows)
    products = b.emit("cumprod", without, axis=axis + 1, exclusive=attrs["exclusive"], reverse=attrs["reverse"])
    before, after = (j, k) if attrs["reverse"] else (k, j)
    takes_part = emit.compare(b, "lt" if attrs["exclusive"] else "le", before, after)
    return emit.keep(b, takes_part, products)


def _jvp_cumprod(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    axis = node.attrs["axis"]
    matrix = _influence(b, node, primals[0])
    spread = emit.insert_axis(b, tangents[0], axis + 1, node.shape[axis])
    return emit.reduce_sum(b, emit.mul(b, matrix, spread), (axis,))


def _vjp_cumprod(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    axis = node.attrs["axis"]
    matrix = _influence(b, node, primals[0])
    spread = emit.insert_axis(b, ct, axis, node.shape[axis])
    return (emit.reduce_sum(b, emit.mul(b, matrix, spread), (axis + 1,)),)


CUMPROD = _row(
    "cumprod",
    "Product of the entries up to each place of an axis.",
    np.multiply.accumulate,
    lambda dtype: 1,
    _jvp_cumprod,
    _vjp_cumprod,
    widens=True,
)


def _argument(b: Builder, node: Node, x: Node) -> tuple[Node, Node]:
    """For every place the position of the running extremum, and whether there is one (not at the first of an exclusive prefix)."""
    attrs = node.attrs
    axis, size = attrs["axis"], x.shape[attrs["axis"]]
    position = emit.iota(b, x.shape, axis, I32)
    if attrs["reverse"]:
        position = emit.sub(b, emit.number(b, size - 1, position), position)
    before = b.emit(node.op, x, axis=axis, exclusive=True, reverse=attrs["reverse"])
    better = emit.compare(b, "gt" if node.op.name == "cummax" else "lt", x, before)
    fresh_nan = b.emit("bit_and", b.emit("isnan", x), b.emit("bit_not", b.emit("isnan", before)))
    candidates = emit.keep(b, b.emit("bit_or", better, fresh_nan), position)
    found = b.emit("cummax", candidates, axis=axis, exclusive=attrs["exclusive"], reverse=attrs["reverse"])
    zero = b.zeros_like(found)
    exists = emit.compare(b, "gt" if attrs["exclusive"] else "ge", position, zero)
    found = b.emit("maximum", found, zero)
    if attrs["reverse"]:
        found = emit.sub(b, emit.number(b, size - 1, found), found)
    return found, exists


def _jvp_running(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    position, exists = _argument(b, node, primals[0])
    return emit.keep(b, exists, b.emit("take_along_axis", tangents[0], position, axis=node.attrs["axis"]))


def _vjp_running(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    from rlxlang.ops.indexing import scatter_along_axis

    position, exists = _argument(b, node, primals[0])
    return (scatter_along_axis(b, b.zeros_like(ct), position, emit.keep(b, exists, ct), node.attrs["axis"]),)


CUMMAX = _row(
    "cummax",
    "Largest entry up to each place of an axis; the gradient goes to that entry.",
    np.maximum.accumulate,
    lowest,
    _jvp_running,
    _vjp_running,
    widens=False,
)
CUMMIN = _row(
    "cummin",
    "Smallest entry up to each place of an axis; the gradient goes to that entry.",
    np.minimum.accumulate,
    highest,
    _jvp_running,
    _vjp_running,
    widens=False,
)
