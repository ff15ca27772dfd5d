"""Elementary functions in vector code: one table from name to emitter.

Float functions are within 2 units in the last place (pow 4), double ones within 4; infinities, NaN, signed zeros and
denormals are right. Nothing is evaluated lane by lane except sines, cosines and tangents of huge arguments, and `pow` of
doubles.
"""

from __future__ import annotations

from collections.abc import Callable

from rlxlang.backends.llvm import vmath_error as error
from rlxlang.backends.llvm import vmath_exponential as exponential
from rlxlang.backends.llvm import vmath_trigonometric as trigonometric
from rlxlang.backends.llvm.vector import VectorEmitter
from rlxlang.backends.llvm.vector_division import floor_divide, modulo, remainder
from rlxlang.backends.llvm.vmath_real import (
    DOUBLE,
    FLOAT,
    Real,
    call_lanes,
    in_double,
    in_float,
    through_double,
)

UnaryEmitter = Callable[[VectorEmitter, str], str]
BinaryEmitter = Callable[[VectorEmitter, str, str], str]

ELEMENTS = {"F32": "float", "F64": "double"}


def _circular(function: Callable[[Real, str], str]) -> UnaryEmitter:
    """Float sine and cosine: in float arithmetic where multiply-adds are fused, else in double."""

    def emit(v: VectorEmitter, x: str) -> str:
        if v.target.has_fma:
            return function(Real(v, FLOAT), x)
        return through_double(function)(v, x)

    return emit


def _both(emit: Callable[[VectorEmitter, str, str], str]) -> dict[str, UnaryEmitter]:
    """One emitter `(v, elem, x)` for both formats."""

    def for_float(v: VectorEmitter, x: str) -> str:
        return emit(v, "float", x)

    def for_double(v: VectorEmitter, x: str) -> str:
        return emit(v, "double", x)

    return {"F32": for_float, "F64": for_double}


def _wide(function: Callable[[Real, str], str]) -> dict[str, UnaryEmitter]:
    """A function written for double arithmetic, float results rounded from it."""
    return {"F32": through_double(function), "F64": in_double(function)}


def _own(
    in_float_arithmetic: Callable[[Real, str], str], in_double_arithmetic: Callable[[Real, str], str]
) -> dict[str, UnaryEmitter]:
    """A function with an evaluation of its own in each arithmetic."""
    return {"F32": in_float(in_float_arithmetic), "F64": in_double(in_double_arithmetic)}


def _sign(v: VectorEmitter, elem: str, x: str) -> str:
    positive = v.select(elem, v.compare("ogt", elem, x, 0), 1, x)
    signed = v.select(elem, v.compare("olt", elem, x, 0), -1, positive)
    return v.select(elem, v.compare("oeq", elem, x, 0), 0, signed)


def _binade(v: VectorEmitter, elem: str, x: str) -> str:
    bits, exponent = ("i32", 0x7F800000) if elem == "float" else ("i64", 0x7FF0000000000000)
    power = v.bitcast(bits, elem, v.and_(bits, v.bitcast(elem, bits, x), exponent))
    return v.select(elem, v.compare("uno", elem, x, x), x, power)


UNARY: dict[str, dict[str, UnaryEmitter]] = {
    "neg": _both(lambda v, elem, x: v.neg(elem, x)),
    "abs": _both(lambda v, elem, x: v.abs(elem, x)),
    "sign": _both(_sign),
    "sqrt": _both(lambda v, elem, x: v.sqrt(elem, x)),
    "rsqrt": _both(lambda v, elem, x: v.div(elem, 1, v.sqrt(elem, x))),
    "recip": _both(lambda v, elem, x: v.div(elem, 1, x)),
    "floor": _both(lambda v, elem, x: v.floor(elem, x)),
    "ceil": _both(lambda v, elem, x: v.ceil(elem, x)),
    "trunc": _both(lambda v, elem, x: v.trunc(elem, x)),
    "round": _both(lambda v, elem, x: v.round_even(elem, x)),
    "binade": _both(_binade),
    "exp": _own(exponential.exp, exponential.exp),
    "exp2": _own(exponential.exp2, exponential.exp2),
    "expm1": _wide(exponential.expm1),
    "log": _own(exponential.log_float, exponential.log_double),
    "log1p": _wide(exponential.log1p),
    "log2": _wide(exponential.log2),
    "log10": _wide(exponential.log10),
    "tanh": _own(exponential.tanh, exponential.tanh),
    "sigmoid": _own(exponential.sigmoid, exponential.sigmoid),
    "softplus": _wide(exponential.softplus),
    "log_sigmoid": _wide(exponential.log_sigmoid),
    "sinh": _wide(exponential.sinh),
    "cosh": _wide(exponential.cosh),
    "sin": {"F32": _circular(trigonometric.sin), "F64": in_double(trigonometric.sin)},
    "cos": {"F32": _circular(trigonometric.cos), "F64": in_double(trigonometric.cos)},
    "tan": _wide(trigonometric.tan),
    "asin": _wide(trigonometric.asin),
    "acos": _wide(trigonometric.acos),
    "atan": _wide(trigonometric.atan),
    "erf": _own(error.erf_float, error.erf),
    "erfc": _wide(error.erfc),
}


def _through_double_binary(function: Callable[[Real, str, str], str]) -> BinaryEmitter:
    def emit(v: VectorEmitter, a: str, b: str) -> str:
        wide_a, wide_b = v.convert("float", "double", a), v.convert("float", "double", b)
        return v.convert("double", "float", function(Real(v, DOUBLE, short=True), wide_a, wide_b))

    return emit


def _both_binary(emit: Callable[[VectorEmitter, str, str, str], str]) -> dict[str, BinaryEmitter]:
    def for_float(v: VectorEmitter, a: str, b: str) -> str:
        return emit(v, "float", a, b)

    def for_double(v: VectorEmitter, a: str, b: str) -> str:
        return emit(v, "double", a, b)

    return {"F32": for_float, "F64": for_double}


BINARY: dict[str, dict[str, BinaryEmitter]] = {
    "pow": {
        "F32": _through_double_binary(exponential.pow_float),
        "F64": lambda v, a, b: call_lanes(v, "double", "pow", a, b),
    },
    "atan2": {
        "F32": _through_double_binary(trigonometric.atan2),
        "F64": lambda v, a, b: trigonometric.atan2(Real(v, DOUBLE), a, b),
    },
    "floor_div": _both_binary(floor_divide),
    "mod": _both_binary(modulo),
    "rem": _both_binary(remainder),
    "minimum": _both_binary(lambda v, elem, a, b: v.minimum(elem, a, b)),
    "maximum": _both_binary(lambda v, elem, a, b: v.maximum(elem, a, b)),
}


def emit_unary(v: VectorEmitter, name: str, dtype: str, x: str) -> str:
    """Emit a unary function.

    Args:
        v: The emitter.
        name: A key of `UNARY`.
        dtype: `"F32"` (lanes of float) or `"F64"` (lanes of double).
        x: The argument.

    Returns:
        The result, in lanes of the same type.

    Raises:
        KeyError: No such function or dtype.
    """
    return UNARY[name][dtype](v, x)


def emit_binary(v: VectorEmitter, name: str, dtype: str, a: str, b: str) -> str:
    """Emit a binary function (`pow atan2 floor_div mod rem minimum maximum`); see `emit_unary`."""
    return BINARY[name][dtype](v, a, b)
