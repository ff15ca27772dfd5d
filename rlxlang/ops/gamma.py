"""The logarithm of the gamma function and its derivatives.

Arguments are moved above 10 by the recurrence, where Stirling's series (Abramowitz, Stegun 6.1.41, 6.3.18, 6.4.12) is exact to
double precision; those below 1/2 are reflected (6.1.17, 6.3.7, 6.4.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node
from rlxlang.ops.compose import one
from rlxlang.ops.elementwise import elementwise, uniform
from rlxlang.ops.function import scalar_reference

_STEPS = 10
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B2, B4 … B14


def _series(b: Builder, inverse: Node, first: Node, weight: Callable[[int], float]) -> Node:
    """Σ weight(k)·B_2k·first·inverse^(2k - 2)."""
    square = emit.square(b, inverse)
    total = b.full_like(inverse, weight(len(_BERNOULLI)) * _BERNOULLI[-1])
    for k in reversed(range(1, len(_BERNOULLI))):
        total = emit.shift(b, emit.mul(b, total, square), weight(k) * _BERNOULLI[k - 1])
    return emit.mul(b, total, first)


def _parts(b: Builder, x: Node) -> tuple[Node, Node, Node, Node]:
    """Whether to reflect, the argument to compute with, whether it is moved up, and where to."""
    reflected = emit.compare(b, "lt", x, 0.5)
    y = emit.select(b, reflected, emit.one_minus(b, x), x)
    small = emit.compare(b, "lt", y, float(_STEPS))
    return reflected, y, small, emit.select(b, small, emit.shift(b, y, _STEPS), y)


def _below(b: Builder, y: Node, small: Node, k: int, filler: float) -> Node:
    """The argument after k steps where the recurrence is used."""
    return emit.select(b, small, emit.shift(b, y, k), b.full_like(y, filler))


def _angle(b: Builder, x: Node) -> Node:
    """π times the difference from the nearest integer: exact zeros at the poles, and exact next to them."""
    return emit.scale(b, emit.sub(b, x, b.emit("round", b.emit("stop_gradient", x))), math.pi)


def _lgamma(b: Builder, x: Node) -> Node:
    wide = emit.widen(b, x)
    reflected, y, small, z = _parts(b, wide)
    product = b.full_like(y, 1)
    for k in range(_STEPS):
        product = emit.mul(b, product, _below(b, y, small, k, 1))
    log, inverse = b.emit("log", z), emit.div(b, b.full_like(z, 1), z)
    value = emit.sub(b, emit.mul(b, emit.shift(b, z, -0.5), log), z)
    value = emit.shift(b, value, 0.5 * math.log(2 * math.pi))
    value = emit.add(b, value, _series(b, inverse, inverse, lambda k: 1 / (2 * k * (2 * k - 1))))
    value = emit.sub(b, value, b.emit("log", product))
    value = emit.select(b, emit.compare(b, "eq", z, math.inf), z, value)
    sine = b.emit("abs", b.emit("sin", _angle(b, wide)))
    mirrored = emit.sub(b, emit.shift(b, emit.neg(b, b.emit("log", sine)), math.log(math.pi)), value)
    result = emit.select(b, reflected, mirrored, value)
    pole = b.emit("bit_and", reflected, emit.compare(b, "eq", sine, 0))
    pole = b.emit("bit_or", pole, emit.compare(b, "eq", wide, -math.inf))
    result = emit.select(b, pole, b.full_like(wide, math.inf), result)
    return emit.cast(b, result, x.dtype)


def _digamma(b: Builder, x: Node) -> Node:
    wide = emit.widen(b, x)
    reflected, y, small, z = _parts(b, wide)
    inverse = emit.div(b, b.full_like(z, 1), z)
    value = emit.sub(b, b.emit("log", z), emit.scale(b, inverse, 0.5))
    value = emit.sub(b, value, _series(b, inverse, emit.square(b, inverse), lambda k: 1 / (2 * k)))
    for k in range(_STEPS):
        step = emit.div(b, b.full_like(y, 1), _below(b, y, small, k, 1))
        value = emit.sub(b, value, emit.keep(b, small, step))
    value = emit.select(b, emit.compare(b, "eq", z, math.inf), z, value)
    angle = _angle(b, wide)
    cotangent = emit.div(b, b.emit("cos", angle), b.emit("sin", angle))
    mirrored = emit.sub(b, value, emit.scale(b, cotangent, math.pi))
    pole = b.emit("bit_and", reflected, emit.compare(b, "eq", angle, 0))
    result = emit.select(b, pole, b.full_like(wide, math.nan), emit.select(b, reflected, mirrored, value))
    return emit.cast(b, result, x.dtype)


def _trigamma(b: Builder, x: Node) -> Node:
    wide = emit.widen(b, x)
    reflected, y, small, z = _parts(b, wide)
    inverse = emit.div(b, b.full_like(z, 1), z)
    square = emit.square(b, inverse)
    value = emit.add(b, inverse, emit.scale(b, square, 0.5))
    value = emit.add(b, value, _series(b, inverse, emit.mul(b, square, inverse), lambda k: 1.0))
    for k in range(_STEPS):
        step = emit.square(b, emit.div(b, b.full_like(y, 1), _below(b, y, small, k, 1)))
        value = emit.add(b, value, emit.keep(b, small, step))
    sine = b.emit("sin", _angle(b, wide))
    mirrored = emit.sub(b, emit.div(b, b.full_like(sine, math.pi**2), emit.square(b, sine)), value)
    return emit.cast(b, emit.select(b, reflected, mirrored, value), x.dtype)


def _number(
    terms: Callable[[float], float], reflect: Callable[[float, float], float], pole: float
) -> Callable[[float], float]:
    """The function of one number: `terms` of arguments above 10 and, for negative ones, the step of the recurrence."""

    def function(x: float) -> float:
        if math.isnan(x):
            return x
        if x < 0.5:
            if math.isinf(x):
                return math.nan
            if x == round(x):
                return pole
            return reflect(math.pi * (x - round(x)), function(1 - x))
        total = 0.0
        while x < _STEPS:
            total += terms(-x)
            x += 1
        return total + terms(x)

    return function


def _digamma_terms(x: float) -> float:
    if x < 0:
        return 1 / x
    if math.isinf(x):
        return x
    y = 1 / x  # its powers underflow where those of a large x would overflow
    series = sum(c * y ** (2 * k) / (2 * k) for k, c in enumerate(_BERNOULLI, 1))
    return math.log(x) - 0.5 * y - series


def _trigamma_terms(x: float) -> float:
    y = 1 / x
    if x < 0:
        return y * y
    return y + 0.5 * y * y + sum(c * y ** (2 * k + 1) for k, c in enumerate(_BERNOULLI, 1))


def _mirrored_trigamma(angle: float, value: float) -> float:
    cosecant = math.pi / math.sin(angle)
    return cosecant * cosecant - value


def _math_lgamma(x: float) -> float:
    if math.isinf(x):
        return math.inf
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or beyond the largest number
        return math.inf


_digamma_of = _number(_digamma_terms, lambda angle, value: value - math.pi / math.tan(angle), math.nan)
_trigamma_of = _number(_trigamma_terms, _mirrored_trigamma, math.inf)
_RANGE = uniform((0.6, 6.0))

elementwise(
    "trigamma", "Second derivative of the logarithm of the gamma function; infinite at its poles.", scalar_reference(_trigamma_of), _RANGE,
    VIA_DECOMPOSITION, decompose=_trigamma,
)  # fmt: skip
elementwise(
    "digamma", "Derivative of the logarithm of the gamma function; NaN at its poles.", scalar_reference(_digamma_of), _RANGE,
    (lambda b, operands, result: b.emit("trigamma", operands[0]),), guarded=True, decompose=_digamma,
)  # fmt: skip
elementwise(
    "lgamma", "Logarithm of the absolute value of the gamma function; infinite at its poles.", scalar_reference(_math_lgamma), _RANGE,
    (lambda b, operands, result: b.emit("digamma", operands[0]),), guarded=True, decompose=_lgamma,
)  # fmt: skip


def _surface_of(name: str) -> Callable[..., Node]:
    return lambda b, x: b.emit(name, as_float(b, name, x))


def _threshold(b: Builder, x: Value, threshold: Any = 0.0, value: Any = 0.0) -> Node:
    node = as_node(b, x)
    limit, filler = static_number("threshold", threshold, "threshold"), static_number("threshold", value, "value")
    return one(b, "where", one(b, "gt", node, limit), node, filler)


for _name, _doc in (
    ("lgamma", "Logarithm of the absolute value of the gamma function."),
    ("digamma", "Derivative of lgamma."),
    ("trigamma", "Derivative of digamma."),
):
    surface(_name, (tensor(),), _surface_of(_name), _doc)
surface(
    "threshold",
    (tensor(), Parameter("threshold", "float", 0.0), Parameter("value", "float", 0.0)),
    _threshold,
    "x above a threshold, elsewhere a value.",
)
