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
from rlxlang.types import I32, ShapeContext, TensorType, TypeProblem, from_numpy, sum_dtype

Array = np.ndarray[Any, Any]


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
    kinds = ("float", "int", "uint", "bool", *(("complex",) if name == "cumsum" else ()))
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


def neighbour(b: Builder, x: Node, axis: int, reverse: bool) -> Node:
    """Every entry's forerunner along an axis (with `reverse` its successor), 0 for the first."""
    n = x.shape[axis]
    if reverse:
        return emit.slice_axis(b, emit.pad_axis(b, x, axis, 0, 1), axis, 1, n + 1)
    return emit.slice_axis(b, emit.pad_axis(b, x, axis, 1, 0), axis, 0, n)


def _infer_recurrence(
    context: ShapeContext, factors: TensorType, values: TensorType, *, axis: int, reverse: bool
) -> TensorType:
    require_kinds("linear_recurrence", values.dtype, ("float",))
    require_axis("linear_recurrence", axis, values.rank)
    if factors.dtype != values.dtype:
        raise TypeProblem("E0302", f"the dtypes of `linear_recurrence` differ: {factors.dtype} and {values.dtype}")
    context.same_shape(factors.shape, values.shape, "the shapes of factors and values of `linear_recurrence`")
    return values


def _np_recurrence(factors: Array, values: Array, *, axis: int, reverse: bool) -> Array:
    steps = [np.moveaxis(a.astype(np.float64), axis, 0) for a in (factors, values)]
    result = np.empty_like(steps[1])
    total = np.zeros(result.shape[1:])
    for k in reversed(range(len(result))) if reverse else range(len(result)):
        total = total * steps[0][k] + steps[1][k]
        result[k] = total
    return np.moveaxis(result, 0, axis).astype(values.dtype)


def linear_recurrence(b: Builder, factors: Node, values: Node, axis: int, reverse: bool) -> Node:
    """h_i = factor_i · h_{i-1} + value_i along an axis."""
    return b.emit("linear_recurrence", factors, values, axis=axis, reverse=reverse)


def _jvp_recurrence(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    of_factors = None if tangents[0] is None else emit.mul(b, tangents[0], neighbour(b, node, axis, reverse))
    total = emit.add_present(b, tangents[1], of_factors)
    return None if total is None else linear_recurrence(b, primals[0], total, axis, reverse)


def _vjp_recurrence(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    pulled = linear_recurrence(b, neighbour(b, primals[0], axis, not reverse), ct, axis, not reverse)
    return emit.mul(b, pulled, neighbour(b, node, axis, reverse)), pulled


LINEAR_RECURRENCE = register(
    Op(
        "linear_recurrence",
        "h_i = factor_i · h_{i-1} + value_i along an axis, from h = 0 before the first (with `reverse` from the end).",
        _infer_recurrence,
        _np_recurrence,
        _jvp_recurrence,
        _vjp_recurrence,
        batch_axis,
        Prefix("sum"),
        lambda rng: [
            Sample((rng.normal(size=s), rng.normal(size=s)), {"axis": axis, "reverse": reverse})
            for s, axis, reverse in (((5,), 0, False), ((2, 3), 1, True), ((4, 2, 3), 0, False), ((2, 0), 1, True))
        ],
    )
)


def _jvp_cumprod(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    """dy_i = x_i · dy_{i-1} + y_{i-1} · dx_i: without division, so exact at zeros."""
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    before = b.emit("cumprod", primals[0], axis=axis, exclusive=True, reverse=reverse)
    moved = linear_recurrence(b, primals[0], emit.mul(b, before, tangents[0]), axis, reverse)
    return neighbour(b, moved, axis, reverse) if node.attrs["exclusive"] else moved


def _vjp_cumprod(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    """The transpose of the same recurrence, which runs the other way."""
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    before = b.emit("cumprod", primals[0], axis=axis, exclusive=True, reverse=reverse)
    given = neighbour(b, ct, axis, not reverse) if node.attrs["exclusive"] else ct
    pulled = linear_recurrence(b, neighbour(b, primals[0], axis, not reverse), given, axis, not reverse)
    return (emit.mul(b, before, pulled),)


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
