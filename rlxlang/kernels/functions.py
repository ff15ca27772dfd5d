"""The scalar functions of the kernel IR: names, arity, and their meaning in NumPy.

A backend implements every function for the dtypes listed with it. Arguments and result have one dtype unless said:
comparisons give Bool, `where` takes a Bool first, `cast` converts from the dtype of its argument to that of the result.
F16 and BF16 never reach arithmetic: lowering computes them in F32 and casts at loads and stores. Integer arithmetic wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One function: name, number of arguments, the kinds of dtype it exists for (`f` float, `i` int, `u` uint, `b` bool)."""

    name: str
    arity: int
    kinds: str
    result: str = "same"
    doc: str = ""


_ROWS = (
    ("add", 2, "fiu", "same", "Sum; integers wrap."),
    ("sub", 2, "fiu", "same", "Difference; integers wrap."),
    ("mul", 2, "fiu", "same", "Product; integers wrap."),
    ("div", 2, "f", "same", "IEEE quotient."),
    ("floor_div", 2, "fiu", "same", "np.floor_divide for floats; integers give 0 for a zero divisor, MIN for MIN / -1."),
    ("mod", 2, "fiu", "same", "Remainder with the sign of the divisor: np.remainder for floats; integers give 0 for a zero divisor."),
    ("rem", 2, "fiu", "same", "Remainder with the sign of the dividend: np.fmod for floats; integers give 0 for a zero divisor."),
    ("neg", 1, "fiu", "same", "Negation."),
    ("abs", 1, "fiu", "same", "Absolute value."),
    ("sign", 1, "fiu", "same", "-1, 0, 1; NaN stays, as np.sign."),
    ("minimum", 2, "fiub", "same", "Smaller value; NaN wins, as np.minimum."),
    ("maximum", 2, "fiub", "same", "Larger value; NaN wins, as np.maximum."),
    ("pow", 2, "fiu", "same", "Power: C pow for floats; integers wrap, a negative exponent truncates (±1, else 0; 0 gives 0)."),
    ("atan2", 2, "f", "same", "Angle of (y, x) in radians."),
    ("fma", 3, "f", "same", "a·b + c, rounded once where the device can."),
    ("exp", 1, "f", "same", ""), ("exp2", 1, "f", "same", ""), ("expm1", 1, "f", "same", ""),
    ("log", 1, "f", "same", ""), ("log1p", 1, "f", "same", ""), ("log2", 1, "f", "same", ""), ("log10", 1, "f", "same", ""),
    ("sqrt", 1, "f", "same", ""), ("rsqrt", 1, "f", "same", "1 / sqrt(x)."), ("recip", 1, "f", "same", "1 / x."),
    ("sin", 1, "f", "same", ""), ("cos", 1, "f", "same", ""), ("tan", 1, "f", "same", ""),
    ("asin", 1, "f", "same", ""), ("acos", 1, "f", "same", ""), ("atan", 1, "f", "same", ""),
    ("sinh", 1, "f", "same", ""), ("cosh", 1, "f", "same", ""), ("tanh", 1, "f", "same", ""),
    ("sigmoid", 1, "f", "same", "1 / (1 + exp(-x)), no overflow."),
    ("softplus", 1, "f", "same", "log(1 + exp(x)), no overflow."),
    ("log_sigmoid", 1, "f", "same", "-softplus(-x)."),
    ("erf", 1, "f", "same", ""), ("erfc", 1, "f", "same", ""),
    ("floor", 1, "f", "same", ""), ("ceil", 1, "f", "same", ""), ("trunc", 1, "f", "same", ""),
    ("round", 1, "f", "same", "To the nearest integer, half to even."),
    ("binade", 1, "f", "same", "The greatest power of two not above |x|; 0 for denormals and 0, inf and NaN stay."),
    ("eq", 2, "fiub", "bool", ""), ("ne", 2, "fiub", "bool", ""), ("lt", 2, "fiub", "bool", ""),
    ("le", 2, "fiub", "bool", ""), ("gt", 2, "fiub", "bool", ""), ("ge", 2, "fiub", "bool", ""),
    ("where", 3, "fiub", "second", "Second where the first is true, else the third."),
    ("and", 2, "iub", "same", "Bitwise; logical on Bool."), ("or", 2, "iub", "same", "Bitwise; logical on Bool."),
    ("xor", 2, "iub", "same", "Bitwise; logical on Bool."), ("not", 1, "iub", "same", "Bitwise; logical on Bool."),
    ("shl", 2, "iu", "same", "Shift left; the count is taken modulo the width."),
    ("shr", 2, "iu", "same", "Shift right, arithmetic for signed types; the count is taken modulo the width."),
    ("isnan", 1, "f", "bool", ""), ("isinf", 1, "f", "bool", ""), ("isfinite", 1, "f", "bool", ""),
    ("cast", 1, "fiub", "given", "Float to int saturates, NaN gives 0; int to int wraps; to Bool is != 0; floats round to even."),
)  # fmt: skip

FUNCTIONS: dict[str, ScalarFunction] = {row[0]: ScalarFunction(*row) for row in _ROWS}

# Associative reductions, with the value that changes nothing (None: the lowest / highest value of the dtype).
REDUCTIONS: tuple[str, ...] = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")

Meaning = Callable[..., Any]
