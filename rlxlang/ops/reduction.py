"""Reductions over axes: sums, products, extrema, any and all, positions of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import ZERO, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import Reduction
from rlxlang.ops.rules import batch_axes, batch_axis, require_axis, require_kinds
from rlxlang.types import BOOL, I32, I64, DType, ShapeContext, TensorType, from_numpy, product, sum_dtype

_NUMERIC = ("float", "int", "uint")


def _infer(name: str, kinds: Sequence[str], widens: bool = False) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        require_kinds(name, x.dtype, kinds)
        for axis in axes:
            require_axis(name, axis, x.rank)
        return TensorType(sum_dtype(x.dtype) if widens else x.dtype, emit.without_axes(x.shape, axes))

    return infer


def lowest(dtype: np.dtype[Any]) -> Any:
    """The value below all others of a dtype: -inf, the least integer, False."""
    own = from_numpy(dtype)
    assert own is not None
    return -np.inf if own.is_float else False if own == BOOL else own.integer_range[0]


def highest(dtype: np.dtype[Any]) -> Any:
    """The value above all others of a dtype: inf, the greatest integer, True."""
    own = from_numpy(dtype)
    assert own is not None
    return np.inf if own.is_float else True if own == BOOL else own.integer_range[1]


def _samples(rng: np.random.Generator) -> list[Sample]:
    shapes = (((4,), (0,)), ((2, 3), (0,)), ((2, 3), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), (0, 1)))
    return [Sample((rng.normal(size=s),), {"axes": axes}) for s, axes in shapes]


def _bool_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((s.args[0] > 0,), s.attrs, smooth=False) for s in _samples(rng)]


def _widened(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: np.ndarray[Any, Any], *, axes: tuple[int, ...]) -> Any:
        own = from_numpy(x.dtype)
        assert own is not None
        wide = sum_dtype(own).numpy
        # NumPy adds long columns one by one; in float64 that is exact enough to be the measure of the devices.
        exact = {"float32": np.float64, "complex64": np.complex128}.get(wide.name, wide)
        return function(x, axis=axes, dtype=exact).astype(wide)

    return reference


SUM = register(
    Op(
        "sum",
        "Sum over axes; small integers widen to 32 bits.",
        _infer("sum", (*_NUMERIC, "bool", "complex"), widens=True),
        _widened(np.sum),
        lambda b, node, primals, tangents: b.emit("sum", tangents[0], axes=node.attrs["axes"]),
        lambda b, node, primals, ct: (emit.restore_axes(b, ct, node.attrs["axes"], primals[0].shape),),
        batch_axes,
        Reduction("sum"),
        _samples,
    )
)


def _product_of_others(b: Builder, x: Node, axes: tuple[int, ...]) -> Node:
    """At every element the product of all others that are reduced with it, without division."""
    rank = len(x.shape)
    kept = [k for k in range(rank) if k not in axes]
    order = [*kept, *axes]
    moved = emit.transpose(b, x, order)
    flat = emit.reshape(b, moved, (*(x.shape[k] for k in kept), product(x.shape[k] for k in axes)))
    last = len(kept)
    before = b.emit("cumprod", flat, axis=last, exclusive=True, reverse=False)
    after = b.emit("cumprod", flat, axis=last, exclusive=True, reverse=True)
    others = emit.reshape(b, emit.mul(b, before, after), moved.shape)
    return emit.transpose(b, others, [order.index(k) for k in range(rank)])


def _jvp_prod(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    axes = node.attrs["axes"]
    return emit.reduce_sum(b, emit.mul(b, tangents[0], _product_of_others(b, primals[0], axes)), axes)


def _vjp_prod(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    axes = node.attrs["axes"]
    spread = emit.restore_axes(b, ct, axes, primals[0].shape)
    return (emit.mul(b, spread, _product_of_others(b, primals[0], axes)),)


PROD = register(
    Op(
        "prod",
        "Product over axes; small integers widen to 32 bits.",
        _infer("prod", (*_NUMERIC, "bool"), widens=True),
        _widened(np.prod),
        _jvp_prod,
        _vjp_prod,
        batch_axes,
        Reduction("prod"),
        _samples,
    )
)


def _share(b: Builder, node: Node, x: Node) -> Node:
    """The part of an extremum's cotangent that each element gets: equal shares for the tied ones, 0 for the others."""
    axes = node.attrs["axes"]
    hit = emit.cast(b, emit.compare(b, "eq", x, emit.restore_axes(b, node, axes, x.shape)), x.dtype)
    count = emit.reduce_sum(b, hit, axes)
    one = b.full_like(count, 1)
    return emit.div(b, hit, emit.restore_axes(b, b.emit("maximum", count, one), axes, x.shape))


def _jvp_extremum(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    return emit.reduce_sum(b, emit.mul(b, _share(b, node, primals[0]), tangents[0]), node.attrs["axes"])


def _vjp_extremum(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    spread = emit.restore_axes(b, ct, node.attrs["axes"], primals[0].shape)
    return (emit.mul(b, _share(b, node, primals[0]), spread),)


def _extremum(name: str, doc: str, function: Callable[..., Any], identity: Callable[..., Any]) -> Op:
    return register(
        Op(
            name,
            doc,
            _infer(name, ("float", "int", "uint", "bool")),
            lambda x, *, axes: function(x, axis=axes, initial=identity(x.dtype)),
            _jvp_extremum,
            _vjp_extremum,
            batch_axes,
            Reduction(name),
            _samples,
        )
    )


MAX = _extremum(
    "max", "Largest value over axes; NaN wins, ties share the gradient, none gives the lowest value.", np.max, lowest
)
MIN = _extremum(
    "min", "Smallest value over axes; NaN wins, ties share the gradient, none gives the highest value.", np.min, highest
)


def _logical(name: str, doc: str, function: Callable[..., Any]) -> Op:
    return register(
        Op(
            name,
            doc,
            _infer(name, ("bool",)),
            lambda x, *, axes: function(x, axis=axes),
            ZERO,
            ZERO,
            batch_axes,
            Reduction(name),
            _bool_samples,
        )
    )


ANY = _logical("any", "Whether any value is true over axes; false for none.", np.any)
ALL = _logical("all", "Whether all values are true over axes; true for none.", np.all)


def _index_dtype(size: Any) -> DType:
    return I64 if isinstance(size, int) and size > I32.integer_range[1] else I32


def _position(name: str, doc: str, function: Callable[..., Any]) -> Op:
    def infer(context: ShapeContext, x: TensorType, *, axis: int) -> TensorType:
        require_kinds(name, x.dtype, ("float", "int", "uint", "bool"))
        require_axis(name, axis, x.rank)
        return TensorType(_index_dtype(x.shape[axis]), emit.without_axes(x.shape, (axis,)))

    def reference(x: np.ndarray[Any, Any], *, axis: int) -> Any:
        if x.shape[axis] == 0:
            return np.zeros(emit.without_axes(x.shape, (axis,)), np.int32)
        return np.asarray(function(x, axis=axis)).astype(_index_dtype(x.shape[axis]).numpy)

    return register(
        Op(
            name,
            doc,
            infer,
            reference,
            ZERO,
            ZERO,
            batch_axis,
            Reduction(name),
            lambda rng: [
                Sample((rng.normal(size=s),), {"axis": a}) for s, a in (((4,), 0), ((2, 3), 0), ((2, 3, 4), 1))
            ],
        )
    )


ARGMAX = _position("argmax", "Position of the first maximum along an axis; the first NaN if any.", np.argmax)
ARGMIN = _position("argmin", "Position of the first minimum along an axis; the first NaN if any.", np.argmin)
