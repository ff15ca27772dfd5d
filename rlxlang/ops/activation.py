"""Activation functions: composite elementwise ops, with derivative rules where the decomposition's would be worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Node, Op, Sample, register
from rlxlang.kernels import Apply, Const
from rlxlang.ops import emit
from rlxlang.ops.elementwise import ORDERED, REAL, elementwise, uniform
from rlxlang.ops.function import scalar_reference
from rlxlang.ops.rules import batch_elementwise, infer_elementwise

Array = np.ndarray[Any, Any]

_ROOT_HALF = math.sqrt(0.5)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715
_WIDE = uniform((-3.0, 3.0))
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017


def _off_kinks(*kinks: float) -> Callable[[np.random.Generator], list[Sample]]:
    """Samples in -4 … 4 that keep away from points without a derivative."""

    def samples(rng: np.random.Generator) -> list[Sample]:
        found = []
        for shape in ((6,), (2, 5)):
            x = rng.uniform(-4, 4, size=shape)
            for kink in kinks:
                x = np.where(np.abs(x - kink) < 0.05, x + 0.2, x)
            found.append(Sample((x,), {}))
        return found

    return samples


# --------------------------------------------------------------------------------------------- relu, clamp

RELU = elementwise(
    "relu",
    "max(x, 0); the derivative at 0 is 0.",
    lambda x: np.maximum(x, np.zeros((), x.dtype)),
    _off_kinks(0),
    (),
    kinds=REAL,
    function=lambda args, attrs, dtype: Apply("maximum", (args[0], Const(0, dtype)), dtype),
    jvp=lambda b, node, primals, tangents: emit.keep(b, emit.compare(b, "gt", primals[0], 0), tangents[0]),
    vjp=lambda b, node, primals, ct: (emit.keep(b, emit.compare(b, "gt", primals[0], 0), ct),),
)


def _clamp_regions(b: Builder, x: Node, low: Node, high: Node) -> tuple[Node, Node]:
    """Where x or low is larger, and where the result is the upper bound."""
    from_x = emit.compare(b, "ge", x, low)
    return from_x, emit.compare(b, "gt", emit.select(b, from_x, x, low), high)


def _jvp_clamp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node:
    tx, low, high = (b.zeros_like(node) if t is None else t for t in tangents)
    from_x, over = _clamp_regions(b, *primals)
    return emit.select(b, over, high, emit.select(b, from_x, tx, low))


def _vjp_clamp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node, Node]:
    from_x, over = _clamp_regions(b, *primals)
    inside = emit.drop(b, over, ct)
    return emit.keep(b, from_x, inside), emit.drop(b, from_x, inside), emit.keep(b, over, ct)


CLAMP = elementwise(
    "clamp",
    "x limited to low … high; the derivative is 1 at the bounds.",
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    uniform((-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)),
    (),
    kinds=ORDERED,
    function=lambda args, attrs, dtype: Apply("minimum", (Apply("maximum", (args[0], args[1]), dtype), args[2]), dtype),
    jvp=_jvp_clamp,
    vjp=_vjp_clamp,
)

# --------------------------------------------------------------------------------------------- gelu, silu


def _normal_cdf(b: Builder, x: Node) -> Node:
    return emit.scale(b, emit.shift(b, b.emit("erf", emit.scale(b, x, _ROOT_HALF)), 1), 0.5)


def _gelu(b: Builder, x: Node) -> Node:
    return emit.mul(b, x, _normal_cdf(b, x))


def _d_gelu(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x = operands[0]
    density = emit.scale(b, b.emit("exp", emit.scale(b, emit.square(b, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return emit.add(b, _normal_cdf(b, x), emit.mul(b, x, density))


elementwise(
    "gelu", "x·Φ(x), the Gaussian error linear unit (Hendrycks & Gimpel 2016).",
    scalar_reference(lambda v: v * 0.5 * math.erfc(-v * _ROOT_HALF)),
    _WIDE, (_d_gelu,), decompose=_gelu,
)  # fmt: skip


def _gelu_gate(b: Builder, x: Node) -> Node:
    """(1 + tanh(u)) / 2 as the logistic function of 2u: fewer operations, and the small values of the left tail keep their digits."""
    argument = emit.shift(b, emit.scale(b, emit.square(b, x), 2 * _TANH_SCALE * _TANH_CUBIC), 2 * _TANH_SCALE)
    return b.emit("sigmoid", emit.mul(b, x, argument))


def _gelu_approx(b: Builder, x: Node) -> Node:
    return emit.mul(b, x, _gelu_gate(b, x))


def _d_gelu_approx(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x = operands[0]
    gate = _gelu_gate(b, x)
    inner = emit.shift(b, emit.scale(b, emit.square(b, x), 6 * _TANH_SCALE * _TANH_CUBIC), 2 * _TANH_SCALE)
    slope = emit.mul(b, emit.mul(b, gate, emit.one_minus(b, gate)), inner)
    return emit.add(b, gate, emit.mul(b, x, slope))


elementwise(
    "gelu_approx", "gelu with tanh in place of the error function.",
    lambda x: 0.5 * x * (1 + np.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x**3))), _WIDE, (_d_gelu_approx,),
    decompose=_gelu_approx,
)  # fmt: skip


def _silu(b: Builder, x: Node) -> Node:
    return emit.mul(b, x, b.emit("sigmoid", x))


def _d_silu(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x = operands[0]
    s = b.emit("sigmoid", x)
    return emit.mul(b, s, emit.shift(b, emit.mul(b, x, emit.one_minus(b, s)), 1))


def _np_sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


elementwise("silu", "x·sigmoid(x).", lambda x: x * _np_sigmoid(x), _WIDE, (_d_silu,), decompose=_silu)

# --------------------------------------------------------------------------------------------- through decomposition


def _composite(
    name: str,
    doc: str,
    reference: Callable[..., Any],
    decompose: Callable[..., Any],
    samples: Callable[[np.random.Generator], list[Sample]] = _WIDE,
    attrs: dict[str, Any] | None = None,
) -> Op:
    def sampled(rng: np.random.Generator) -> list[Sample]:
        return [Sample(s.args, dict(attrs or {}), s.smooth) for s in samples(rng)]

    return register(
        Op(
            name,
            doc,
            infer_elementwise(name, ("float",)),
            reference,
            VIA_DECOMPOSITION,
            VIA_DECOMPOSITION,
            batch_elementwise,
            VIA_DECOMPOSITION,
            sampled,
            decompose=decompose,
        )
    )


def _between(b: Builder, x: Node, low: float, high: float) -> Node:
    """Whether x is strictly inside: derivatives at the kinks are 0."""
    return b.emit("bit_and", emit.compare(b, "gt", x, low), emit.compare(b, "lt", x, high))


def _piece(b: Builder, x: Node, inside: Node, value: Node, low: float, high: float) -> Node:
    """`value` inside, else one of two constants; NaN stays."""
    outer = emit.select(b, emit.compare(b, "gt", x, 0), b.full_like(x, high), b.full_like(x, low))
    nan = b.emit("isnan", x)
    return emit.select(b, b.emit("bit_or", inside, nan), value, outer)


_composite(
    "relu6", "x limited to 0 … 6; the derivative is 0 at the kinks.", lambda x: np.clip(x, 0, 6),
    lambda b, x: _piece(b, x, _between(b, x, 0, 6), x, 0, 6), _off_kinks(0, 6),
)  # fmt: skip
_composite(
    "hard_tanh", "x limited to -1 … 1; the derivative is 0 at the kinks.", lambda x: np.clip(x, -1, 1),
    lambda b, x: _piece(b, x, _between(b, x, -1, 1), x, -1, 1), _off_kinks(-1, 1),
)  # fmt: skip


def _hard_sigmoid(b: Builder, x: Node) -> Node:
    line = emit.scale(b, emit.shift(b, x, 3), 1 / 6)
    return _piece(b, x, _between(b, x, -3, 3), line, 0, 1)


def _hard_swish(b: Builder, x: Node) -> Node:
    curve = emit.mul(b, x, emit.scale(b, emit.shift(b, x, 3), 1 / 6))
    # Above 3 the slope is 1; at the kinks ±3 it is 0.
    above = emit.compare(b, "gt", x, 3)
    at_kink = emit.compare(b, "eq", x, 3)
    inside = b.emit("bit_or", _between(b, x, -3, 3), b.emit("isnan", x))
    outside = emit.select(b, above, x, emit.select(b, at_kink, b.full_like(x, 3), b.zeros_like(x)))
    return emit.select(b, inside, curve, outside)


_composite(
    "hard_sigmoid", "(x + 3) / 6 limited to 0 … 1; the derivative is 0 at the kinks.",
    lambda x: np.clip((x + 3) / 6, 0, 1).astype(x.dtype), _hard_sigmoid, _off_kinks(-3, 3),
)  # fmt: skip
_composite(
    "hard_swish", "x·hard_sigmoid(x); the derivative is 0 at the kinks.",
    lambda x: np.where(x <= -3, 0, x * np.clip((x + 3) / 6, 0, 1)).astype(x.dtype), _hard_swish, _off_kinks(-3, 3),
)  # fmt: skip
_composite(
    "mish", "x·tanh(softplus(x)) (Misra 2019).", lambda x: x * np.tanh(np.logaddexp(x, np.zeros((), x.dtype))),
    lambda b, x: emit.mul(b, x, b.emit("tanh", b.emit("softplus", x))),
)  # fmt: skip
_composite(
    "softsign", "x / (1 + |x|).", lambda x: x / (1 + np.abs(x)),
    lambda b, x: emit.div(b, x, emit.shift(b, b.emit("abs", x), 1)), _off_kinks(0),
)  # fmt: skip
_composite("tanhshrink", "x - tanh(x).", lambda x: x - np.tanh(x), lambda b, x: emit.sub(b, x, b.emit("tanh", x)))


def _negative_branch(b: Builder, x: Node, width: float) -> Node:
    """exp(x / width) - 1 of the negative part, so that no overflow reaches the gradient of the branch not taken."""
    positive = emit.compare(b, "gt", x, 0)
    part = emit.drop(b, positive, x)
    return b.emit("expm1", emit.scale(b, part, 1 / width))


def _elu_like(alpha: float, width: float, scale: float) -> Callable[..., Node]:
    def build(b: Builder, x: Node) -> Node:
        below = emit.scale(b, _negative_branch(b, x, width), alpha)
        return emit.scale(b, emit.select(b, emit.compare(b, "gt", x, 0), x, below), scale)

    return build


def _np_elu(x: Array, alpha: float, width: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / width)).astype(x.dtype)


_composite(
    "elu", "x for x > 0, else alpha·(exp(x) - 1).", lambda x, *, alpha: _np_elu(x, alpha),
    lambda b, x, *, alpha: _elu_like(alpha, 1.0, 1.0)(b, x), _off_kinks(0), {"alpha": 1.3},
)  # fmt: skip
_composite(
    "celu", "x for x > 0, else alpha·(exp(x / alpha) - 1).", lambda x, *, alpha: _np_elu(x, alpha, alpha),
    lambda b, x, *, alpha: _elu_like(alpha, alpha, 1.0)(b, x), _off_kinks(0), {"alpha": 1.3},
)  # fmt: skip
_composite(
    "selu", "The self-normalising elu (Klambauer et al. 2017).",
    lambda x: (_SELU_SCALE * _np_elu(x, _SELU_ALPHA)).astype(x.dtype), _elu_like(_SELU_ALPHA, 1.0, _SELU_SCALE), _off_kinks(0),
)  # fmt: skip
_composite(
    "leaky_relu", "x for x > 0, else slope·x.", lambda x, *, slope: np.where(x > 0, x, slope * x).astype(x.dtype),
    lambda b, x, *, slope: emit.select(b, emit.compare(b, "gt", x, 0), x, emit.scale(b, x, slope)),
    _off_kinks(0), {"slope": 0.1},
)  # fmt: skip
_composite(
    "softcap", "cap·tanh(x / cap).", lambda x, *, cap: cap * np.tanh(x / cap),
    lambda b, x, *, cap: emit.scale(b, b.emit("tanh", emit.scale(b, x, 1 / cap)), cap), attrs={"cap": 2.0},
)  # fmt: skip


def _softshrink(b: Builder, x: Node, *, width: float) -> Node:
    above = emit.compare(b, "gt", x, width)
    below = emit.compare(b, "lt", x, -width)
    nan = b.emit("isnan", x)
    low = emit.select(b, below, emit.shift(b, x, width), emit.keep(b, nan, x))
    return emit.select(b, above, emit.shift(b, x, -width), low)


def _hardshrink(b: Builder, x: Node, *, width: float) -> Node:
    outside = emit.compare(b, "gt", b.emit("abs", x), width)
    return emit.keep(b, b.emit("bit_or", outside, b.emit("isnan", x)), x)


_composite(
    "softshrink", "x moved towards 0 by width, 0 in between.",
    lambda x, *, width: np.where(x > width, x - width, np.where(x < -width, x + width, 0 * x)).astype(x.dtype),
    _softshrink, _off_kinks(-0.5, 0.5), {"width": 0.5},
)  # fmt: skip
_composite(
    "hardshrink", "x outside -width … width, 0 inside.",
    lambda x, *, width: np.where(np.abs(x) <= width, 0, x).astype(x.dtype), _hardshrink, _off_kinks(-0.5, 0.5), {"width": 0.5},
)  # fmt: skip
