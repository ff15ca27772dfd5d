"""Small floating-point formats: how many bits they have, what their greatest number is, and their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import frexp

from rlxlang.types.dtype import DType

# Bits of the significand after the point and of the exponent of the dtypes that arithmetic runs in.
_ARITHMETIC = {"F32": (23, 8), "F64": (52, 11)}
_GENERIC = re.compile(r"f(\d{1,3})m(\d{1,3})e(\d{1,3})")


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Numbers ±1.m · 2^e of a sign, a significand and an exponent of few bits, with gradual underflow and without infinity.

    Args:
        mantissa_bits: Bits of the significand after the point, 0 to 52.
        exponent_bits: Bits of the exponent, 2 to 11; its bias is 2^(bits−1) − 1.
        max: The greatest number.
    """

    mantissa_bits: int
    exponent_bits: int
    max: float

    @property
    def bits(self) -> int:
        """All bits, the sign included."""
        return 1 + self.mantissa_bits + self.exponent_bits

    @property
    def min_exponent(self) -> int:
        """The exponent of the least normal number; below it the spacing stays."""
        return 2 - (1 << self.exponent_bits - 1)

    @property
    def max_exponent(self) -> int:
        """The exponent of the greatest number: 2^max_exponent ≤ max."""
        return frexp(self.max)[1] - 1

    @property
    def smallest(self) -> float:
        """The least number above 0."""
        return float(2.0 ** (self.min_exponent - self.mantissa_bits))

    def fits(self, dtype: DType) -> bool:
        """Whether F32 or F64 has all its numbers, so that arithmetic of that type rounds to it exactly."""
        mantissa, exponent = _ARITHMETIC[dtype.name]
        return self.mantissa_bits <= mantissa and self.exponent_bits <= exponent


_NAMED: dict[str, FloatFormat] = {
    **dict.fromkeys(("f16", "half"), FloatFormat(10, 5, 65504.0)),
    "bf16": FloatFormat(7, 8, float((2 - 2.0**-7) * 2.0**127)),
    **dict.fromkeys(("f8e4m3", "f8", "fp8", "e4m3"), FloatFormat(3, 4, 448.0)),
    **dict.fromkeys(("bf8", "e5m2", "f8e5m2"), FloatFormat(2, 5, 57344.0)),
    **dict.fromkeys(("nvf4", "fp4", "f4", "e2m1"), FloatFormat(1, 2, 6.0)),
    "f6e3m2": FloatFormat(2, 3, 28.0),
    "f6e2m3": FloatFormat(3, 2, 7.5),
}
FORMAT_NAMES = tuple(_NAMED)


def find_format(spec: str) -> FloatFormat | None:
    """The format of a name or of `fXmYeZ`: X bits in all, Y of the significand, Z of the exponent; None for anything else.

    The names are those of the OCP formats, whose greatest number uses the highest exponent. The generic form keeps the highest
    exponent free, as IEEE 754 does: its greatest number is (2 − 2^−Y) · 2^bias.
    """
    text = spec.strip().lower()
    if text in _NAMED:
        return _NAMED[text]
    match = _GENERIC.fullmatch(text)
    if match is None:
        return None
    total, mantissa, exponent = (int(part) for part in match.groups())
    if total != 1 + mantissa + exponent or not (0 <= mantissa <= 52 and 2 <= exponent <= 11):
        return None
    bias = 2 ** (exponent - 1) - 1
    return FloatFormat(mantissa, exponent, float((2 - 2.0**-mantissa) * 2.0**bias))
