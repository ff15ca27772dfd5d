"""What every scalar function of the kernel IR means, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics.errors import InternalError
from rlxlang.types import DType

Array: TypeAlias = "np.ndarray[Any, Any]"

# These have no exact result; F32 computes them in F64 and rounds, so that the reference is right to half an ulp.
WIDENED = frozenset({
    "pow", "atan2", "fma", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "sigmoid", "softplus", "log_sigmoid", "erf", "erfc",
})  # fmt: skip

# What F16 and BF16 may meet; lowering computes everything else in F32.
_HALF_FUNCTIONS = frozenset({"cast", "where"})


def cast(x: Array, dtype: DType) -> Array:
    """Convert as `cast` does: float to int saturates with NaN giving 0, int to int wraps, to Bool is `!= 0`."""
    if dtype.kind == "bool":
        return np.asarray(x != 0)
    if not dtype.is_integer or x.dtype.kind in "iub":
        with np.errstate(all="ignore"):
            return np.asarray(x.astype(dtype.numpy))
    low, high = dtype.integer_range
    wide = x.astype(np.float64)
    # high + 1 is a power of two, so both bounds are exact.
    inside = (wide >= float(low)) & (wide < float(high + 1))
    result = np.where(inside, wide, 0.0).astype(dtype.numpy)
    result = np.where(wide >= float(high + 1), dtype.numpy.type(high), result)
    return np.asarray(np.where(wide < float(low), dtype.numpy.type(low), result))


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    ufunc = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(ufunc(x)).astype(np.float64)


def _pow(base: Array, exponent: Array) -> Array:
    if base.dtype.kind == "f":
        return np.asarray(np.power(base, exponent))
    if base.dtype.kind == "u":
        return _integer_power(base, exponent)
    parity = np.where(exponent & 1, base, np.ones_like(base))
    negative = np.where(np.isin(base, (1, -1)), parity, 0)
    return np.where(exponent < 0, negative, _integer_power(base, np.maximum(exponent, 0))).astype(base.dtype)


def _integer_power(base: Array, exponent: Array) -> Array:
    base, exponent = np.broadcast_arrays(base, exponent)
    result, factor, left = np.ones_like(base), base.copy(), exponent.copy()
    while np.any(left):
        result = np.where(left & 1, result * factor, result)
        factor = factor * factor
        left = left >> 1
    return result


def _binade(x: Array) -> Array:
    power = np.ldexp(np.ones_like(x), np.frexp(x)[1] - 1)
    normal = np.abs(x) >= np.finfo(x.dtype).tiny
    return np.where(np.isfinite(x), np.where(normal, power, x.dtype.type(0)), np.abs(x))


def _count(x: Array) -> Array:
    return np.asarray(x & (x.dtype.itemsize * 8 - 1)).astype(x.dtype)


def _not(x: Array) -> Array:
    return np.asarray(np.invert(x))  # logical on Bool


def _sign(x: Array) -> Array:
    return np.asarray(np.sign(x))


MEANINGS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floor_div": np.floor_divide,
    "mod": np.remainder,
    "rem": np.fmod,
    "neg": np.negative,
    "abs": np.abs,
    "sign": _sign,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "pow": _pow,
    "atan2": np.arctan2,
    "fma": lambda a, b, c: a * b + c,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "recip": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "log_sigmoid": lambda x: -_softplus(-x),
    "erf": _elementwise(math.erf),
    "erfc": _elementwise(math.erfc),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "binade": _binade,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": _not,
    "shl": lambda x, n: np.left_shift(x, _count(n)),
    "shr": lambda x, n: np.right_shift(x, _count(n)),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "cast": cast,
}


def apply(function: str, args: tuple[Array, ...], dtype: DType) -> Array:
    """Evaluate a scalar function on arrays that broadcast together.

    Args:
        function: A name of `rlxlang.kernels.FUNCTIONS`.
        args: Arrays of the dtypes that the function takes.
        dtype: Type of the result.

    Raises:
        InternalError: The arguments disagree in dtype, or F16 or BF16 reach arithmetic.

    Source: elementary.
    """
    same = args[1:] if function == "where" else args
    if len({a.dtype for a in same}) > 1:
        raise InternalError(f"`{function}` of {', '.join(str(a.dtype) for a in same)}", stage="lower")
    operand = same[0]
    if operand.dtype.itemsize == 2 and operand.dtype.kind not in "iu" and function not in _HALF_FUNCTIONS:
        raise InternalError(f"`{function}` of {operand.dtype}, which is for memory only", stage="lower")
    with np.errstate(all="ignore"):
        if function == "cast":
            return cast(operand, dtype)
        if function in WIDENED and operand.dtype == np.float32:
            args = tuple(a.astype(np.float64) for a in args)
        return np.asarray(MEANINGS[function](*args)).astype(dtype.numpy)
