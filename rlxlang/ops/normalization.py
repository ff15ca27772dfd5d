"""Layer and RMS normalisation over the last axis, in F32 for half precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Node, Op, Parameter, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axes, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, describe
from rlxlang.ops.rules import Batched, require_kinds, to_front
from rlxlang.ops.statistics import centred, mean_over
from rlxlang.types import DimLike, ShapeContext, TensorType, TypeProblem

Array = np.ndarray[Any, Any]


def _infer(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *scales: TensorType, eps: float) -> TensorType:
        require_kinds(name, x.dtype, ("float",))
        if x.rank < 1:
            raise TypeProblem("E0404", f"`{name}` normalises the last axis, and a scalar is given")
        for scale in scales:
            if scale.dtype != x.dtype:
                raise TypeProblem("E0302", f"the dtypes of `{name}` differ: {x.dtype} and {scale.dtype}")
            context.same_shape(x.shape[-1:], scale.shape, f"the last axis and the scale of `{name}`")
        return x

    return infer


def _over_rows(b: Builder, vector: Node, x: Node) -> Node:
    return emit.broadcast_to(b, vector, x.shape)


def _inverse_root(b: Builder, power: Node, eps: float) -> Node:
    return b.emit("rsqrt", emit.shift(b, power, eps))


def _normalised(b: Builder, x: Node, eps: float, centre: bool) -> tuple[Node, Node]:
    """Rows of `x` scaled to unit power (after removing their mean), and the factor at every entry."""
    last = (len(x.shape) - 1,)
    deviation = centred(b, x, last) if centre else x
    factor = _inverse_root(b, mean_over(b, emit.square(b, deviation), last), eps)
    spread = emit.restore_axes(b, factor, last, x.shape)
    return emit.mul(b, deviation, spread), spread


def _decompose(centre: bool) -> Callable[..., Node]:
    def decompose(b: Builder, x: Node, gamma: Node, *beta: Node, eps: float) -> Node:
        wide = emit.widen(b, x)
        value = emit.mul(b, _normalised(b, wide, eps, centre)[0], _over_rows(b, emit.widen(b, gamma), wide))
        if beta:
            value = emit.add(b, value, _over_rows(b, emit.widen(b, beta[0]), wide))
        return emit.cast(b, value, x.dtype)

    return decompose


def _project(b: Builder, unit: Node, factor: Node, change: Node, centre: bool) -> Node:
    """The derivative of normalisation applied to a change of the rows; it is symmetric, so it serves both modes.

    With u the normalised rows it is factor·(v - mean(v) - u·mean(u·v)), without mean(v) for RMS.
    """
    last = (len(unit.shape) - 1,)
    along = emit.restore_axes(b, mean_over(b, emit.mul(b, unit, change), last), last, unit.shape)
    inner = emit.sub(b, change, emit.mul(b, unit, along))
    if centre:
        inner = emit.sub(b, inner, emit.restore_axes(b, mean_over(b, change, last), last, unit.shape))
    return emit.mul(b, factor, inner)


def _vjp(centre: bool) -> Callable[..., Any]:
    def vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, ...]:
        x, gamma = emit.widen(b, primals[0]), emit.widen(b, primals[1])
        wide = emit.widen(b, ct)
        unit, factor = _normalised(b, x, node.attrs["eps"], centre)
        dx = _project(b, unit, factor, emit.mul(b, wide, _over_rows(b, gamma, x)), centre)
        rows = range(len(x.shape) - 1)
        scales = [emit.reduce_sum(b, emit.mul(b, wide, unit), rows), emit.reduce_sum(b, wide, rows)]
        found = [dx, *scales[: len(primals) - 1]]
        return tuple(emit.cast(b, d, node.dtype) for d in found)

    return vjp


def _jvp(centre: bool) -> Callable[..., Any]:
    def jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
        x, gamma = emit.widen(b, primals[0]), emit.widen(b, primals[1])
        unit, factor = _normalised(b, x, node.attrs["eps"], centre)
        moved = [None if t is None else emit.widen(b, t) for t in tangents]
        terms: list[Node | None] = []
        if moved[0] is not None:
            # The derivative of u·γ by x: γ times the projection of the tangent.
            terms.append(emit.mul(b, _over_rows(b, gamma, x), _project(b, unit, factor, moved[0], centre)))
        if moved[1] is not None:
            terms.append(emit.mul(b, unit, _over_rows(b, moved[1], x)))
        if len(moved) > 2 and moved[2] is not None:
            terms.append(_over_rows(b, moved[2], x))
        total = emit.add_present(b, *terms)
        return None if total is None else emit.cast(b, total, node.dtype)

    return jvp


def _batch(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    if all(a is None for a in axes[1:]):
        return b.emit(node.op, to_front(b, args[0], axes[0], size), *args[1:], **node.attrs), 0
    # Every lane has its own scale: normalise with ones, then scale and shift.
    x = to_front(b, args[0], axes[0], size)
    ones = b.full(1, node.dtype, x.shape[-1:])
    value = b.emit(node.op, x, ones, *([b.zeros_like(ones)] if len(args) > 2 else []), **node.attrs)
    for k, name in ((1, "mul"), (2, "add")):
        if k >= len(args):
            continue
        own = args[k]
        if axes[k] is not None:
            front = to_front(b, own, axes[k], size)
            own = emit.reshape(b, front, (front.shape[0], *(1,) * (len(x.shape) - 2), front.shape[1]))
        value = b.emit(name, value, emit.broadcast_to(b, own, x.shape))
    return value, 0


def _reference(centre: bool) -> Callable[..., Any]:
    def mean(x: Array) -> Array:  # NumPy's own warns of rows without entries
        return np.asarray(np.sum(x, axis=-1, keepdims=True) / x.dtype.type(x.shape[-1]))

    def reference(x: Array, gamma: Array, *beta: Array, eps: float) -> Array:
        deviation = x - mean(x) if centre else x
        unit = deviation / np.sqrt(mean(np.square(deviation)) + np.asarray(eps, x.dtype))
        return np.asarray(unit * gamma + (beta[0] if beta else 0)).astype(x.dtype)

    return reference


def _samples(counts: Sequence[int]) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        return [
            Sample((rng.normal(size=s), *(rng.normal(size=s[-1:]) for _ in range(n))), {"eps": 1e-5})
            for s in ((5,), (3, 4), (2, 3, 4))
            for n in counts
        ]

    return samples


def _row(name: str, doc: str, centre: bool, counts: Sequence[int]) -> Op:
    return register(
        Op(
            name,
            doc,
            _infer(name),
            _reference(centre),
            _jvp(centre),
            _vjp(centre),
            _batch,
            VIA_DECOMPOSITION,
            _samples(counts),
            decompose=_decompose(centre),
        )
    )


LAYER_NORM = _row(
    "layer_norm", "Last axis centred and scaled to unit variance, then times gamma plus beta.", True, (2,)
)
RMS_NORM = _row("rms_norm", "Last axis scaled to unit mean square, then times gamma (plus beta).", False, (1, 2))


def _scale(b: Builder, op: str, value: Any, name: str, x: Node, filler: float) -> Node:
    if value is None:
        return b.full(filler, x.dtype, x.shape[-1:])
    if not isinstance(value, Node):
        hint = f"write `eps: {value}`" if isinstance(value, float) else ""
        raise TypeProblem("E0304", f"argument `{name}` of `{op}` is a tensor, and {describe(value)} is given", (), hint)
    node = emit.cast(b, value, x.dtype)
    return emit.broadcast_to(b, node, x.shape[-1:]) if not node.shape or node.shape == (1,) else node


def _norm_surface(name: str, always_beta: bool) -> Callable[..., Node]:
    def build(b: Builder, x: Value, gamma: Any = None, beta: Any = None, eps: Any = 1e-5) -> Node:
        node = as_float(b, name, x)
        if not node.shape:
            raise TypeProblem("E0404", f"`{name}` normalises the last axis, and a scalar is given")
        small = float(static_number(name, eps, "eps"))
        scales = [_scale(b, name, gamma, "gamma", node, 1)]
        if always_beta or beta is not None:
            scales.append(_scale(b, name, beta, "beta", node, 0))
        return b.emit(name, node, *scales, eps=small)

    return build


_EPS = Parameter("eps", "float", 1e-5)
surface(
    "layer_norm",
    (tensor("x"), tensor("gamma", None), tensor("beta", None), _EPS),
    _norm_surface("layer_norm", True),
    LAYER_NORM.doc,
)
surface(
    "rms_norm",
    (tensor("x"), tensor("gamma", None), tensor("beta", None), _EPS),
    _norm_surface("rms_norm", False),
    RMS_NORM.doc,
)


def _l2_normalize(b: Builder, x: Value, axes: Any = -1, eps: Any = 1e-12) -> Node:
    node = as_float(b, "l2_normalize", x)
    over = canonical_axes("l2_normalize", axes, len(node.shape))
    length = b.emit("norm", node, axes=over, p=2.0)
    floor = b.full_like(length, float(static_number("l2_normalize", eps, "eps")))
    return emit.div(b, node, emit.restore_axes(b, b.emit("maximum", length, floor), over, node.shape))


surface(
    "l2_normalize",
    (tensor("x"), Parameter("axes", "axes", -1), Parameter("eps", "float", 1e-12)),
    _l2_normalize,
    "x divided by its 2-norm over axes.",
)
