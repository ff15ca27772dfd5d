"""Softmax and its relatives, stable for all inputs.

Rows are shifted by their maximum (0 where that is -inf). The largest exponential of a shifted row is then 1, so a sum of
exponentials is at least 1, or 0 in a row that is all -inf; `max(sum, 1)` therefore changes only such rows: their softmax
is 0, their log-softmax and logsumexp -inf, and their gradients 0. A row with +inf gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.rules import batch_axes, batch_axis, require_axis, require_kinds
from rlxlang.types import ShapeContext, TensorType

Array = np.ndarray[Any, Any]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *, axis: int) -> TensorType:
        require_kinds(name, x.dtype, ("float",))
        require_axis(name, axis, x.rank)
        return x

    return infer


def shifted(b: Builder, x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """`x` less the maximum over axes (less 0 where that is -inf), and that maximum."""
    top = emit.reduce_max(b, x, axes)
    by = emit.drop(b, emit.compare(b, "eq", top, float("-inf")), top)
    return emit.sub(b, x, emit.restore_axes(b, by, axes, x.shape)), top


def _total(b: Builder, exponentials: Node, axes: Sequence[int]) -> Node:
    total = emit.reduce_sum(b, exponentials, axes)
    return b.emit("maximum", total, b.full_like(total, 1))


def _softmax(b: Builder, x: Node, *, axis: int) -> Node:
    wide = emit.widen(b, x)
    e = b.emit("exp", shifted(b, wide, (axis,))[0])
    value = emit.mul(b, e, emit.restore_axes(b, b.emit("recip", _total(b, e, (axis,))), (axis,), x.shape))
    return emit.cast(b, value, x.dtype)


def _log_softmax(b: Builder, x: Node, *, axis: int) -> Node:
    moved, _ = shifted(b, emit.widen(b, x), (axis,))
    log = b.emit("log", _total(b, b.emit("exp", moved), (axis,)))
    return emit.cast(b, emit.sub(b, moved, emit.restore_axes(b, log, (axis,), x.shape)), x.dtype)


def _logsumexp(b: Builder, x: Node, *, axes: tuple[int, ...]) -> Node:
    if not axes:
        return x
    moved, top = shifted(b, emit.widen(b, x), axes)
    return emit.cast(b, emit.add(b, top, b.emit("log", _total(b, b.emit("exp", moved), axes))), x.dtype)


def _np_shifted(x: Array, axes: Any) -> tuple[Array, Array]:
    top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    return x - np.where(top == -np.inf, np.zeros((), x.dtype), top), top


def _np_softmax(x: Array, *, axis: int) -> Array:
    e = np.exp(_np_shifted(x, axis)[0])
    return np.asarray(e / np.maximum(np.sum(e, axis=axis, keepdims=True), 1).astype(x.dtype))


def np_log_softmax(x: Array, *, axis: int) -> Array:
    """The reference of `log_softmax`."""
    moved, _ = _np_shifted(x, axis)
    return np.asarray(moved - np.log(np.maximum(np.sum(np.exp(moved), axis=axis, keepdims=True), 1)).astype(x.dtype))


def _np_logsumexp(x: Array, *, axes: tuple[int, ...]) -> Array:
    if not axes:
        return x
    moved, top = _np_shifted(x, axes)
    value = top + np.log(np.maximum(np.sum(np.exp(moved), axis=axes, keepdims=True), 1))
    return np.asarray(np.squeeze(value, axes).astype(x.dtype))


def _samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((rng.normal(size=s) * 2,), {"axis": axis})
        for s, axis in (((4,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 4), 1))
    ]


# --------------------------------------------------------------------------------------------- derivatives


def _pull_softmax(b: Builder, y: Node, ct: Node, axis: int) -> Node:
    """y·(ct - Σ y·ct); the Jacobian is symmetric, so this serves both modes."""
    weighted = emit.mul(b, y, ct)
    return emit.sub(b, weighted, emit.mul(b, y, emit.sum_keeping(b, weighted, (axis,))))


def _alive(b: Builder, y: Node, axes: Sequence[int]) -> Node:
    """Whether a row of log-probabilities is not all -inf, at every entry."""
    alive = emit.compare(b, "ne", emit.reduce_max(b, y, axes), float("-inf"))
    return emit.restore_axes(b, alive, axes, y.shape)


def _vjp_log_softmax(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    axes = (node.attrs["axis"],)
    pulled = emit.sub(b, ct, emit.mul(b, b.emit("exp", node), emit.sum_keeping(b, ct, axes)))
    return (emit.keep(b, _alive(b, node, axes), pulled),)


def _jvp_log_softmax(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    axes = (node.attrs["axis"],)
    average = emit.sum_keeping(b, emit.mul(b, b.emit("exp", node), tangents[0]), axes)
    return emit.keep(b, _alive(b, node, axes), emit.sub(b, tangents[0], average))


def _weights(b: Builder, node: Node, x: Node) -> Node:
    """The softmax over the reduced axes, from a logsumexp; 0 in rows that are all -inf."""
    axes = node.attrs["axes"]
    if not axes:
        return b.full_like(x, 1)
    # From the shifted values, not from exp(x - node): far from zero the rounding of the result is no longer small beside 1.
    e = b.emit("exp", shifted(b, emit.widen(b, x), axes)[0])
    weights = emit.mul(b, e, emit.restore_axes(b, b.emit("recip", _total(b, e, axes)), axes, x.shape))
    return emit.cast(b, weights, x.dtype)


def _vjp_logsumexp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    x = primals[0]
    return (emit.mul(b, _weights(b, node, x), emit.restore_axes(b, ct, node.attrs["axes"], x.shape)),)


def _jvp_logsumexp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    return emit.reduce_sum(b, emit.mul(b, _weights(b, node, primals[0]), tangents[0]), node.attrs["axes"])


def _infer_logsumexp(context: ShapeContext, x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    require_kinds("logsumexp", x.dtype, ("float",))
    for axis in axes:
        require_axis("logsumexp", axis, x.rank)
    return x.with_shape(emit.without_axes(x.shape, axes))


SOFTMAX = register(
    Op(
        "softmax",
        "Exponentials along an axis divided by their sum; a row that is all -inf gives zeros.",
        _infer("softmax"),
        _np_softmax,
        lambda b, node, primals, tangents: _pull_softmax(b, node, tangents[0], node.attrs["axis"]),
        lambda b, node, primals, ct: (_pull_softmax(b, node, ct, node.attrs["axis"]),),
        batch_axis,
        VIA_DECOMPOSITION,
        _samples,
        decompose=_softmax,
    )
)
LOG_SOFTMAX = register(
    Op(
        "log_softmax",
        "Logarithm of softmax, exact where softmax underflows.",
        _infer("log_softmax"),
        np_log_softmax,
        _jvp_log_softmax,
        _vjp_log_softmax,
        batch_axis,
        VIA_DECOMPOSITION,
        _samples,
        decompose=_log_softmax,
    )
)
LOGSUMEXP = register(
    Op(
        "logsumexp",
        "Logarithm of the sum of exponentials over axes; -inf over none.",
        _infer_logsumexp,
        _np_logsumexp,
        _jvp_logsumexp,
        _vjp_logsumexp,
        batch_axes,
        VIA_DECOMPOSITION,
        lambda rng: [
            Sample((rng.normal(size=s) * 2,), {"axes": axes})
            for s, axes in (((4,), (0,)), ((3, 4), (1,)), ((2, 3, 4), (0, 2)))
        ],
        decompose=_logsumexp,
    )
)
