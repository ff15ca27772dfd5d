"""Exponentials, logarithms, hyperbolic functions and powers.

Sources: argument reduction after Cody and Waite 1980, "Software Manual for the Elementary Functions"; the rest is
elementary. Polynomials: `vmath_coefficients`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.backends.llvm import vmath_coefficients as coefficients
from rlxlang.backends.llvm.vmath_real import INFINITY, LOG2_E, NAN, Real

LOG10_E = 0.4342944819032518
LOG10_2_HIGH = 0.3010299956640665
LOG10_2_LOW = -8.532344317057107e-14
LOG2_E_LOW = 2.0355273740931033e-17
LOG10_E_LOW = 1.098319650216765e-17


@dataclass(frozen=True, slots=True)
class ReducedExponential:
    """exp(x) = 2**n · (1 + p).

    Attributes:
        rounded: The shifted sum whose low bits are n.
        p: exp of the reduced argument, minus 1.
    """

    rounded: str
    p: str


def _reduce(m: Real, x: str) -> ReducedExponential:
    f = m.f
    rounded = f.fma(x, LOG2_E, m.format.magic)
    n = f.sub(rounded, m.format.magic)
    r = f.fma(n, -m.format.log2_high, x)
    r = f.fma(n, -m.format.log2_low, r)
    table = coefficients.EXP_F if f.elem == "float" else m.coefficients("EXP")
    p = f.fma(f.mul(r, r), f.polynomial(r, table), r)
    return ReducedExponential(rounded, p)


def _exponent(m: Real, rounded: str) -> str:
    """The integer n that the magic sum holds."""
    magic_bits = 0x4B400000 if m.f.elem == "float" else 0x4338000000000000
    return m.i.sub(m.bits(rounded), magic_bits)


def _limits(m: Real) -> tuple[float, float]:
    """Arguments below the first give 0, above the second infinity."""
    if m.f.elem == "float":
        return -104.0, 89.0
    return (-110.0, 100.0) if m.short else (-746.0, 710.0)


def exp(m: Real, x: str, halved: bool = False) -> str:
    """Emit the exponential of x, or half of it without intermediate overflow."""
    low, high = _limits(m)
    x = m.clamp_above(m.clamp_below(x, low), high + (1.0 if halved else 0.0))
    reduced = _reduce(m, x)
    value = m.f.add(reduced.p, 1.0)
    exponent = _exponent(m, reduced.rounded)
    if halved:
        exponent = m.i.sub(exponent, 1)
    if m.short:
        return m.f.mul(value, m.power_of_two(exponent))
    return m.scale(value, exponent)


def exp_bounded(m: Real, x: str) -> str:
    """exp(x) for |x| <= 80; NaN gives some finite or infinite number."""
    reduced = _reduce(m, x)
    value = m.bits(m.f.add(reduced.p, 1.0))
    # The low bits of the magic sum are n; everything above is shifted out.
    shift = m.i.shift_left(m.bits(reduced.rounded), m.format.mantissa_bits)
    return m.number(m.i.add(value, shift))


def exp2(m: Real, x: str) -> str:
    """2**x."""
    f = m.f
    low, high = (-151.0, 129.0) if f.elem == "float" else (-1076.0, 1025.0)
    x = m.clamp_above(m.clamp_below(x, low), high)
    rounded = f.add(x, m.format.magic)
    r = f.sub(x, f.sub(rounded, m.format.magic))
    table = coefficients.EXP2_F if f.elem == "float" else m.coefficients("EXP2")
    return m.scale(f.fma(r, f.polynomial(r, table), 1.0), _exponent(m, rounded))


def expm1(m: Real, x: str) -> str:
    """exp(x) - 1, accurate near 0 (double arithmetic)."""
    f = m.f
    bounded = m.clamp_above(m.clamp_below(x, -50.0), _limits(m)[1])
    reduced = _reduce(m, bounded)
    exponent = _exponent(m, reduced.rounded)
    # Beyond 2**60 the 1 does not matter, and 2**n may overflow where 2**n (1 + p) does not.
    small = m.power_of_two(m.v.minimum(m.i.elem, exponent, 60))
    near = f.fma(reduced.p, small, f.sub(small, 1.0))
    scaled = f.add(reduced.p, 1.0)
    far = f.mul(scaled, m.power_of_two(exponent)) if m.short else m.scale(scaled, exponent)
    result = f.select(f.compare("ogt", bounded, 40.0), far, near)
    return f.select(f.compare("oeq", x, 0.0), x, result)


def log_float(m: Real, x: str) -> str:
    """log(x) in float arithmetic."""
    f, i = m.f, m.i
    tiny = f.compare("olt", x, m.format.least_normal)
    scaled = f.select(tiny, f.mul(x, 2.0**23), x)
    offset = i.sub(m.bits(scaled), m.format.sqrt_half_bits)
    exponent = m.to_float_exponent(i.shift_right(offset, 23))
    exponent = f.select(tiny, f.sub(exponent, 23.0), exponent)
    fraction = i.add(i.and_(offset, 0x7FFFFF), m.format.sqrt_half_bits)
    r = f.sub(m.number(fraction), 1.0)
    square = f.mul(r, r)
    y = f.mul(f.mul(f.polynomial(r, coefficients.LOG_F), r), square)
    y = f.fma(exponent, -0.00021219444005469057, y)
    y = f.fma(square, -0.5, y)
    return _log_specials(m, x, f.fma(exponent, 0.693359375, f.add(r, y)))


def _log_specials(m: Real, x: str, result: str) -> str:
    f = m.f
    result = f.select(f.compare("oeq", x, INFINITY), x, result)
    result = f.select(f.compare("ult", x, 0.0), NAN, result)
    return f.select(f.compare("oeq", x, 0.0), -INFINITY, result)


@dataclass(frozen=True, slots=True)
class ReducedLogarithm:
    """log(x) = exponent · log(2) + f - (half_square - tail)."""

    exponent: str
    f: str
    half_square: str
    tail: str


def _reduce_log(m: Real, x: str) -> ReducedLogarithm:
    f, i = m.f, m.i
    scaled = x
    tiny = ""
    if not m.short:
        tiny = f.compare("olt", x, m.format.least_normal)
        scaled = f.select(tiny, f.mul(x, 2.0**54), x)
    offset = i.sub(m.bits(scaled), m.format.sqrt_half_bits)
    exponent = m.to_float_exponent(i.shift_right(offset, 52))
    if tiny:
        exponent = f.select(tiny, f.sub(exponent, 54.0), exponent)
    fraction = i.add(i.and_(offset, (1 << 52) - 1), m.format.sqrt_half_bits)
    r = f.sub(m.number(fraction), 1.0)
    s = f.div(r, f.add(r, 2.0))
    square = f.mul(s, s)
    series = f.mul(square, f.polynomial(square, m.coefficients("LOG")))
    half_square = f.mul(f.mul(r, 0.5), r)
    return ReducedLogarithm(exponent, r, half_square, f.mul(s, f.add(half_square, series)))


def _combine_log(m: Real, parts: ReducedLogarithm, correction: str | None = None) -> str:
    f = m.f
    low = f.mul(parts.exponent, m.format.log2_low)
    if correction is not None:
        low = f.add(low, correction)
    inner = f.sub(f.sub(parts.half_square, f.add(parts.tail, low)), parts.f)
    return f.sub(f.mul(parts.exponent, m.format.log2_high), inner)


def log_double(m: Real, x: str) -> str:
    """log(x) in double arithmetic."""
    return _log_specials(m, x, _combine_log(m, _reduce_log(m, x)))


def log1p(m: Real, x: str) -> str:
    """log(1 + x), accurate near 0 (double arithmetic)."""
    f = m.f
    u = f.add(x, 1.0)
    # What the sum lost, exactly: x - (u - 1) where 1 dominates, 1 - (u - x) where x does.
    lost = f.select(f.compare("olt", x, 1.0), f.sub(x, f.sub(u, 1.0)), f.sub(1.0, f.sub(u, x)))
    result = _combine_log(m, _reduce_log(m, u), f.div(lost, u))
    result = _log_specials(m, u, result)
    return f.select(f.compare("oeq", x, 0.0), x, result)


def _log_of_fraction(m: Real, parts: ReducedLogarithm, factor: float, factor_low: float) -> tuple[str, str]:
    """Multiply log(fraction), split into a short high part and the rest, by a constant: (high, low)."""
    f = m.f
    # The high part keeps 21 bits fewer, so that its product with a constant of the same shape is nearly exact.
    mask = -1 << 27
    value = f.sub(parts.f, parts.half_square)
    high = m.number(m.i.and_(m.bits(value), mask))
    low = f.add(f.sub(f.sub(parts.f, high), parts.half_square), parts.tail)
    factor_high = _short(factor)
    rest = f.mul(f.add(low, high), factor_low + (factor - factor_high))
    return f.mul(high, factor_high), f.add(rest, f.mul(low, factor_high))


def _short(number: float) -> float:
    """The upper 26 bits of a number's significand."""
    scaled = number * 2.0**27
    return float(int(scaled)) / 2.0**27


def log2(m: Real, x: str) -> str:
    """Base-2 logarithm (double arithmetic); exact for powers of two."""
    parts = _reduce_log(m, x)
    high, low = _log_of_fraction(m, parts, LOG2_E, LOG2_E_LOW)
    total = m.f.add(parts.exponent, high)
    low = m.f.add(low, m.f.add(m.f.sub(parts.exponent, total), high))
    return _log_specials(m, x, m.f.add(total, low))


def log10(m: Real, x: str) -> str:
    """Base-10 logarithm (double arithmetic)."""
    parts = _reduce_log(m, x)
    high, low = _log_of_fraction(m, parts, LOG10_E, LOG10_E_LOW)
    leading = m.f.mul(parts.exponent, LOG10_2_HIGH)
    total = m.f.add(leading, high)
    low = m.f.add(low, m.f.add(m.f.sub(leading, total), high))
    low = m.f.add(low, m.f.mul(parts.exponent, LOG10_2_LOW))
    return _log_specials(m, x, m.f.add(total, low))


def tanh(m: Real, x: str) -> str:
    """Hyperbolic tangent: a polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above."""
    f = m.f
    magnitude = f.abs(x)
    square = f.mul(x, x)
    table = coefficients.TANH_F if f.elem == "float" else m.coefficients("TANH")
    small = f.fma(f.mul(f.polynomial(square, table), square), x, x)
    power = exp_bounded(m, m.clamp_above(f.add(magnitude, magnitude), 20.0 if f.elem == "float" else 40.0))
    large = f.fma(f.reciprocal_of_moderate(f.add(power, 1.0)), -2.0, 1.0)
    # Unordered: NaN takes the polynomial, which keeps it. The sign comes last, so -0 stays.
    return f.copysign(f.select(f.compare("ult", magnitude, 0.625), small, large), x)


def sigmoid(m: Real, x: str) -> str:
    """1 / (1 + exp(-x)), from exp(-|x|) so that nothing overflows."""
    f = m.f
    power = exp(m, f.neg(f.abs(x)))
    negative = f.compare("olt", x, 0.0)
    total = f.add(power, 1.0)
    quotient = f.div(f.select(negative, power, 1.0), total)
    # Take back what rounding 1 + power added; 1 / total is 1 - quotient or quotient.
    excess = f.sub(f.sub(total, 1.0), power)
    inverse = f.select(negative, f.sub(1.0, quotient), quotient)
    return f.fma(f.mul(quotient, inverse), excess, quotient)


def _log1p_exp_of_negative_magnitude(m: Real, x: str) -> str:
    return log1p(m, exp(m, m.f.neg(m.f.abs(x))))


def softplus(m: Real, x: str) -> str:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) (double arithmetic)."""
    return m.f.add(m.clamp_below(x, 0.0), _log1p_exp_of_negative_magnitude(m, x))


def log_sigmoid(m: Real, x: str) -> str:
    """-softplus(-x) = min(x, 0) - log1p(exp(-|x|)) (double arithmetic)."""
    return m.f.sub(m.clamp_above(x, 0.0), _log1p_exp_of_negative_magnitude(m, x))


def sinh(m: Real, x: str) -> str:
    """Hyperbolic sine (double arithmetic)."""
    f = m.f
    magnitude = f.abs(x)
    square = f.mul(x, x)
    small = f.fma(f.mul(f.polynomial(square, m.coefficients("SINH")), square), x, x)
    half = exp(m, magnitude, halved=True)
    large = f.sub(half, f.div(0.25, half))
    return f.copysign(f.select(f.compare("ult", magnitude, 1.0), small, large), x)


def cosh(m: Real, x: str) -> str:
    """Hyperbolic cosine (double arithmetic)."""
    half = exp(m, m.f.abs(x), halved=True)
    return m.f.add(half, m.f.div(0.25, half))


def pow_float(m: Real, x: str, y: str) -> str:
    """C's pow for operands that are floats, in double arithmetic: exp(y log|x|), sign and special cases apart."""
    f, v = m.f, m.v
    magnitude = f.abs(x)
    power = exp(m, f.mul(y, log_double(m, magnitude)))
    integral = f.compare("oeq", v.trunc(f.elem, y), y)
    half = f.mul(y, 0.5)
    odd = v.and_("i1", integral, f.compare("une", v.trunc(f.elem, half), half))
    negative = m.i.compare("slt", m.bits(x), 0)
    power = f.select(v.and_("i1", odd, negative), f.neg(power), power)
    below = v.and_("i1", f.compare("olt", x, 0.0), f.compare("one", x, -INFINITY))
    power = f.select(v.and_("i1", below, v.not_("i1", integral)), NAN, power)
    # |x| = 1 to an infinite power is 1, as are 1 to any power (NaN too) and anything to the power 0.
    unit = v.and_("i1", f.compare("oeq", magnitude, 1.0), f.compare("oeq", f.abs(y), INFINITY))
    one = v.or_("i1", f.compare("oeq", x, 1.0), f.compare("oeq", y, 0.0))
    return f.select(v.or_("i1", unit, one), 1.0, power)
