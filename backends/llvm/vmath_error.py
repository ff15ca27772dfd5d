"""The error function and its complement.

Source: Abramowitz and Stegun 1964, chapter 7, for the identities; the approximating forms are exp(-x**2) times a
polynomial in (x - 2) / (x + 2), after Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x".
"""

from __future__ import annotations

from rlxlang.backends.llvm import vmath_coefficients as coefficients
from rlxlang.backends.llvm.vmath_exponential import exp, exp_bounded
from rlxlang.backends.llvm.vmath_real import Real


def erf_float(m: Real, x: str) -> str:
    """Error function in float arithmetic: a polynomial below 0.925, 1 - exp(polynomial) above."""
    f = m.f
    magnitude = f.abs(x)
    bounded = m.clamp_above(magnitude, 4.0)
    logarithm = f.fma(f.polynomial(bounded, coefficients.ERFC_LOG_F), bounded, f.neg(bounded))
    large = f.copysign(f.sub(1.0, exp_bounded(m, logarithm)), x)
    small = f.fma(f.polynomial(f.mul(x, x), coefficients.ERF_F), x, x)
    # Ordered: NaN takes the polynomial, which keeps it.
    return f.select(f.compare("ogt", magnitude, 0.925), large, small)


def _small_erf(m: Real, x: str) -> str:
    """Erf for |x| <= 1."""
    f = m.f
    return f.fma(f.polynomial(f.mul(x, x), m.coefficients("ERF")), x, x)


def _complement(m: Real, magnitude: str) -> str:
    """Erfc for magnitude >= 1/2."""
    f = m.f
    bounded = m.clamp_above(magnitude, 28.0)
    t = f.div(f.sub(bounded, 2.0), f.add(bounded, 2.0))
    factor = f.div(f.polynomial(t, m.coefficients("ERFCX")), f.fma(bounded, 2.0, 1.0))
    # exp(-x**2) with the square split: an upper part whose square is exact, and a small rest.
    upper = m.number(m.i.and_(m.bits(bounded), -1 << 27))
    rest = f.mul(f.sub(bounded, upper), f.add(bounded, upper))
    power = exp(m, f.neg(f.mul(upper, upper)))
    # exp(-rest) - 1 to third order; rest is below 2**-15.
    correction = f.mul(rest, f.polynomial(rest, (-1 / 6, 0.5, -1.0)))
    return f.mul(power, f.fma(factor, correction, factor))


def erf(m: Real, x: str) -> str:
    """Error function in double arithmetic."""
    f = m.f
    magnitude = f.abs(x)
    large = f.copysign(f.sub(1.0, _complement(m, magnitude)), x)
    return f.select(f.compare("ogt", magnitude, 1.0), large, _small_erf(m, x))


def erfc(m: Real, x: str) -> str:
    """Complementary error function in double arithmetic, accurate in the upper tail."""
    f = m.f
    magnitude = f.abs(x)
    tail = _complement(m, magnitude)
    large = f.select(f.compare("olt", x, 0.0), f.sub(2.0, tail), tail)
    return f.select(f.compare("ogt", magnitude, 0.5), large, f.sub(1.0, _small_erf(m, x)))
