"""Circular functions and their inverses.

Sources: reduction by multiples of pi/2 held in several constants after Cody and Waite 1980, "Software Manual for the
Elementary Functions"; the rest is elementary. Polynomials: `vmath_coefficients`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.backends.llvm import vmath_coefficients as coefficients
from rlxlang.backends.llvm.vector import Value
from rlxlang.backends.llvm.vmath_real import INFINITY, PI, PI_LOW, Real, call_lanes

TWO_OVER_PI = 0.6366197723675814
# pi/2 as unevaluated sums: full-width terms for fused multiply-adds, 32-bit terms (exact products) without them.
HALF_PI_FLOAT = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
HALF_PI_DOUBLE = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
HALF_PI_SHORT_TERMS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
# Beyond these magnitudes the reduction loses accuracy: the C library takes over, lane by lane.
FLOAT_LIMIT = 32768.0
DOUBLE_LIMIT = 1048576.0


@dataclass(frozen=True, slots=True)
class ReducedAngle:
    """x = quadrant · pi/2 + r; `quadrant` holds the multiple in its low bits."""

    quadrant: str
    sine: str
    cosine: str


def _reduce(m: Real, x: str) -> ReducedAngle:
    """Reduce the angle, and give sine and cosine of the rest."""
    f = m.f
    is_float = f.elem == "float"
    terms: tuple[float, ...] = HALF_PI_FLOAT if is_float else HALF_PI_DOUBLE
    if not m.v.target.has_fma:
        terms = HALF_PI_SHORT_TERMS
    rounded = f.fma(x, TWO_OVER_PI, m.format.magic)
    n = f.sub(rounded, m.format.magic)
    r = x
    for term in terms:
        r = f.fma(n, -term, r)
    square = f.mul(r, r)
    sine_table = coefficients.SIN_F if is_float else m.coefficients("SIN")
    cosine_table = coefficients.COS_F if is_float else m.coefficients("COS")
    sine = f.fma(f.mul(f.polynomial(square, sine_table), square), r, r)
    half = f.mul(square, 0.5)
    leading = f.sub(1.0, half)
    lost = f.sub(f.sub(1.0, leading), half)
    cosine = f.add(leading, f.fma(f.mul(square, square), f.polynomial(square, cosine_table), lost))
    return ReducedAngle(m.bits(rounded), sine, cosine)


def _guard(m: Real, x: str, fast: str, symbol: str) -> str:
    """Take the C library's result in lanes of huge finite magnitude."""
    f, v = m.f, m.v
    magnitude = f.abs(x)
    limit = FLOAT_LIMIT if f.elem == "float" else DOUBLE_LIMIT
    huge = v.and_("i1", f.compare("ogt", magnitude, limit), f.compare("olt", magnitude, INFINITY))
    with v.function.if_(v.any_lane(huge), [(v.type(f.elem), fast)], cold=True) as branch:
        slow = call_lanes(v, f.elem, symbol + ("f" if f.elem == "float" else ""), x)
        branch.merge(f.select(huge, slow, fast))
    return branch.results[0]


def _sine_shifted(m: Real, x: str, quarter_turns: int) -> str:
    """Sine of x + quarter_turns · pi/2, for moderate x."""
    angle = _reduce(m, x)
    quadrant = m.i.add(angle.quadrant, quarter_turns) if quarter_turns else angle.quadrant
    odd = m.i.compare("ne", m.i.and_(quadrant, 1), 0)
    value = m.f.select(odd, angle.cosine, angle.sine)
    sign = m.i.shift_left(m.i.and_(quadrant, 2), 30 if m.f.elem == "float" else 62)
    return m.number(m.i.xor(m.bits(value), sign))


def sin(m: Real, x: str) -> str:
    """Sine of x radians."""
    fast = m.f.select(m.f.compare("oeq", x, 0.0), x, _sine_shifted(m, x, 0))
    return _guard(m, x, fast, "sin")


def cos(m: Real, x: str) -> str:
    """Cosine of x radians."""
    return _guard(m, x, _sine_shifted(m, x, 1), "cos")


def tan(m: Real, x: str) -> str:
    """Tangent of x radians (double arithmetic)."""
    f = m.f
    angle = _reduce(m, x)
    odd = m.i.compare("ne", m.i.and_(angle.quadrant, 1), 0)
    numerator = f.select(odd, f.neg(angle.cosine), angle.sine)
    denominator = f.select(odd, angle.sine, angle.cosine)
    fast = f.select(f.compare("oeq", x, 0.0), x, f.div(numerator, denominator))
    return _guard(m, x, fast, "tan")


def _atan_of_ratio(m: Real, numerator: str, denominator: Value) -> str:
    """atan(numerator / denominator) for a nonnegative ratio of at most 1."""
    f = m.f
    ratio = f.div(numerator, denominator) if isinstance(denominator, str) else numerator
    # Above tan(pi/8): atan(q) = pi/4 + atan((q - 1) / (q + 1)).
    upper = f.compare("ogt", ratio, 0.41421356237309503)
    shifted = f.div(f.sub(ratio, 1.0), f.add(ratio, 1.0))
    y = f.select(upper, shifted, ratio)
    square = f.mul(y, y)
    tail = f.mul(f.mul(f.polynomial(square, m.coefficients("ATAN")), square), y)
    low = f.select(upper, PI_LOW / 4, 0.0)
    high = f.select(upper, PI / 4, 0.0)
    return f.add(high, f.add(y, f.add(tail, low)))


def atan(m: Real, x: str) -> str:
    """Arc tangent in radians (double arithmetic)."""
    f = m.f
    magnitude = f.abs(x)
    inverted = f.compare("ogt", magnitude, 1.0)
    inner = _atan_of_ratio(m, f.select(inverted, f.div(1.0, magnitude), magnitude), 1.0)
    outer = f.add(f.sub(PI / 2, inner), PI_LOW / 2)
    return f.copysign(f.select(inverted, outer, inner), x)


def atan2(m: Real, y: str, x: str) -> str:
    """Angle of the point (x, y) in (-pi, pi], with C's special cases (double arithmetic)."""
    f, v = m.f, m.v
    height, width = f.abs(y), f.abs(x)
    swapped = f.compare("ogt", height, width)
    smaller = f.select(swapped, width, height)
    larger = f.select(swapped, height, width)
    both_zero = f.compare("oeq", larger, 0.0)
    both_infinite = f.compare("oeq", smaller, INFINITY)
    smaller = f.select(both_infinite, 1.0, smaller)
    larger = f.select(v.or_("i1", both_zero, both_infinite), 1.0, larger)
    angle = _atan_of_ratio(m, smaller, larger)
    angle = f.select(swapped, f.add(f.sub(PI / 2, angle), PI_LOW / 2), angle)
    leftwards = m.i.compare("slt", m.bits(x), 0)
    angle = f.select(leftwards, f.add(f.sub(PI, angle), PI_LOW), angle)
    # A NaN in either operand may have been dropped by the selections above.
    angle = f.select(f.compare("uno", x, y), f.add(x, y), angle)
    return f.copysign(angle, y)


@dataclass(frozen=True, slots=True)
class ReducedArcsine:
    """asin of the reduced argument is `root + tail`; `outer` lanes have |x| > 1/2 and root = sqrt((1 - |x|) / 2)."""

    outer: str
    root: str
    tail: str


def _reduce_arcsine(m: Real, x: str) -> ReducedArcsine:
    f = m.f
    magnitude = f.abs(x)
    outer = f.compare("ogt", magnitude, 0.5)
    square = f.select(outer, f.mul(f.sub(1.0, magnitude), 0.5), f.mul(x, x))
    root = f.select(outer, f.sqrt(square), magnitude)
    tail = f.mul(f.mul(f.polynomial(square, m.coefficients("ASIN")), square), root)
    return ReducedArcsine(outer, root, tail)


def asin(m: Real, x: str) -> str:
    """Arc sine in radians; NaN outside [-1, 1] (double arithmetic)."""
    f = m.f
    parts = _reduce_arcsine(m, x)
    inner = f.add(parts.root, parts.tail)
    outer = f.add(f.sub(PI / 2, f.add(inner, inner)), PI_LOW / 2)
    return f.copysign(f.select(parts.outer, outer, inner), x)


def acos(m: Real, x: str) -> str:
    """Arc cosine in radians; NaN outside [-1, 1] (double arithmetic)."""
    f = m.f
    parts = _reduce_arcsine(m, x)
    inner = f.add(parts.root, parts.tail)
    twice = f.add(inner, inner)
    outer = f.select(f.compare("olt", x, 0.0), f.add(f.sub(PI, twice), PI_LOW), twice)
    signed_root, signed_tail = f.copysign(parts.root, x), f.copysign(parts.tail, x)
    middle = f.sub(PI / 2, f.add(signed_root, f.sub(signed_tail, PI_LOW / 2)))
    return f.select(parts.outer, outer, middle)
