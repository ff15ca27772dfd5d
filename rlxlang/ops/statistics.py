"""Composite reductions: mean, variance, standard deviation, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.rules import batch_axes, require_axis, require_kinds
from rlxlang.types import ShapeContext, TensorType

Array = np.ndarray[Any, Any]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *, axes: tuple[int, ...], **_: Any) -> TensorType:
        require_kinds(name, x.dtype, ("float",))
        for axis in axes:
            require_axis(name, axis, x.rank)
        return x.with_shape(emit.without_axes(x.shape, axes))

    return infer


def _samples(*options: dict[str, Any]) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        shapes = (((4,), (0,)), ((3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), (0, 1)))
        return [Sample((rng.normal(size=s),), {"axes": a, **o}) for s, a in shapes for o in options or ({},)]

    return samples


def _row(
    name: str, doc: str, reference: Callable[..., Any], decompose: Callable[..., Node], *options: dict[str, Any]
) -> Op:
    return register(
        Op(
            name,
            doc,
            _infer(name),
            reference,
            VIA_DECOMPOSITION,
            VIA_DECOMPOSITION,
            batch_axes,
            VIA_DECOMPOSITION,
            _samples(*options),
            decompose=decompose,
        )
    )


def mean_over(b: Builder, x: Node, axes: Sequence[int], less: int = 0) -> Node:
    """The sum over axes divided by the number of entries, less `less`; NaN for none."""
    total = emit.reduce_sum(b, x, axes)
    count = emit.size_of(x.shape, axes)
    if isinstance(count, int):
        return emit.div(b, total, b.full_like(total, max(count - less, 0)))
    return emit.div(b, total, emit.number(b, count - less, total))


def centred(b: Builder, x: Node, axes: Sequence[int]) -> Node:
    """`x` less its mean over axes."""
    return emit.sub(b, x, emit.restore_axes(b, mean_over(b, x, axes), axes, x.shape))


def _mean(b: Builder, x: Node, *, axes: tuple[int, ...]) -> Node:
    return emit.cast(b, mean_over(b, emit.widen(b, x), axes), x.dtype)


def _var(b: Builder, x: Node, *, axes: tuple[int, ...], ddof: int) -> Node:
    deviation = centred(b, emit.widen(b, x), axes)
    return emit.cast(b, mean_over(b, emit.square(b, deviation), axes, ddof), x.dtype)


def _std(b: Builder, x: Node, *, axes: tuple[int, ...], ddof: int) -> Node:
    wide = emit.widen(b, x)
    return emit.cast(b, b.emit("root", _var(b, wide, axes=axes, ddof=ddof)), x.dtype)


def _norm(b: Builder, x: Node, *, axes: tuple[int, ...], p: float) -> Node:
    wide = emit.widen(b, x)
    size = b.emit("abs", wide)
    if p == 2:
        value = b.emit("root", emit.reduce_sum(b, emit.square(b, wide), axes))
    elif p == 1:
        value = emit.reduce_sum(b, size, axes)
    elif p == math.inf:
        value = emit.reduce_max(b, size, axes) if axes else size
        value = b.emit("maximum", value, b.zeros_like(value)) if axes else value
    elif p == -math.inf:
        value = emit.reduce(b, "min", size, axes)
    elif p == 0:
        value = emit.reduce_sum(b, emit.cast(b, emit.compare(b, "ne", wide, 0), wide.dtype), axes)
    else:
        # The largest entry is taken out, so that no power overflows; where all are 0 the gradient is 0.
        top = emit.reduce_max(b, b.emit("stop_gradient", size), axes) if axes else b.emit("stop_gradient", size)
        empty = emit.compare(b, "le", top, 0)
        top = emit.select(b, empty, b.full_like(top, 1), top)
        ratio = emit.div(b, size, emit.restore_axes(b, top, axes, x.shape) if axes else top)
        total = emit.reduce_sum(b, b.emit("pow", ratio, b.full_like(ratio, p)), axes)
        total = emit.select(b, empty, b.full_like(total, 1), total)
        root = b.emit("pow", total, b.full_like(total, 1 / p))
        value = emit.drop(b, empty, emit.mul(b, top, root))
    return emit.cast(b, value, x.dtype)


def _np_norm(x: Array, *, axes: tuple[int, ...], p: float) -> Any:
    size = np.abs(x)
    if p == math.inf:
        return np.max(size, axis=axes, initial=0.0)
    if p == -math.inf:
        return np.min(size, axis=axes, initial=np.inf)
    if p == 0:
        return np.sum(x != 0, axis=axes).astype(x.dtype)
    return (np.sum(size**p, axis=axes, dtype=np.float64) ** (1 / p)).astype(x.dtype)


def _np_mean(x: Array, *, axes: tuple[int, ...]) -> Any:
    count = math.prod(x.shape[k] for k in axes)
    return np.divide(np.sum(x, axis=axes, dtype=np.float64), count).astype(x.dtype)


def _np_var(x: Array, *, axes: tuple[int, ...], ddof: int) -> Any:
    count = math.prod(x.shape[k] for k in axes)
    wide = x.astype(np.float64)
    centre = np.divide(np.sum(wide, axis=axes, keepdims=True), count)
    return np.divide(np.sum(np.square(wide - centre), axis=axes), max(count - ddof, 0)).astype(x.dtype)


MEAN = _row("mean", "Mean over axes; NaN over none.", _np_mean, _mean)
VAR = _row("var", "Variance over axes, from centred squares.", _np_var, _var, {"ddof": 0}, {"ddof": 1})
STD = _row(
    "std", "Standard deviation over axes; the gradient of a constant vector is 0.",
    lambda x, *, axes, ddof: np.sqrt(_np_var(x, axes=axes, ddof=ddof)), _std, {"ddof": 0}, {"ddof": 1},
)  # fmt: skip
NORM = _row(
    "norm", "The p-norm over axes; its gradient at 0 is 0.", _np_norm, _norm,
    {"p": 2.0}, {"p": 1.0}, {"p": math.inf}, {"p": 3.0},
)  # fmt: skip
