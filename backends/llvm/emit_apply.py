"""Scalar functions of the kernel IR in vector code."""

from __future__ import annotations

from rlxlang.backends.llvm import vmath
from rlxlang.backends.llvm.vector import VectorEmitter
from rlxlang.backends.llvm.vector_division import floor_divide, integer_power, modulo, remainder
from rlxlang.diagnostics.errors import RlxBackendError
from rlxlang.types import DType

ELEMENTS = {
    "F16": "half", "BF16": "bfloat", "F32": "float", "F64": "double", "I8": "i8", "I16": "i16", "I32": "i32",
    "I64": "i64", "U8": "i8", "U16": "i16", "U32": "i32", "U64": "i64", "Bool": "i1",
}  # fmt: skip
"""LLVM type of a value of each dtype in registers; a Bool is `i8` in memory."""

_SIMPLE = frozenset(("add", "sub", "mul", "neg", "abs", "minimum", "maximum", "fma", "sqrt", "floor", "ceil"))
_SIMPLE_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "where", "and", "or", "xor", "not", "cast"))
_MODERATE = frozenset(
    ("div", "recip", "rsqrt", "sign", "trunc", "round", "binade", "shl", "shr", "isnan", "isinf", "isfinite")
)
_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def element(dtype: DType) -> str:
    """LLVM type of a value in registers.

    Raises:
        RlxBackendError: The dtype (C64) has no kernels.
    """
    found = ELEMENTS.get(dtype.name)
    if found is None:
        raise RlxBackendError(f"the CPU backend has no kernels for {dtype}")
    return found


def cost(function: str) -> int:
    """Rough number of instructions, for choosing unrolling and parallel grain."""
    if function in _SIMPLE or function in _SIMPLE_COMPARISONS:
        return 1
    return 3 if function in _MODERATE else 16


def emit_apply(v: VectorEmitter, function: str, args: list[str], source: DType, target: DType) -> str:
    """Emit one function of `rlxlang.kernels.FUNCTIONS`.

    Args:
        v: The emitter.
        function: Its name.
        args: Operands in lanes.
        source: Dtype of the last operand (all have it, but for the condition of `where`).
        target: Dtype of the result.

    Raises:
        RlxBackendError: The function does not exist for the dtype.
    """
    if function == "cast":
        return v.convert(
            element(source),
            element(target),
            args[0],
            signed=source.kind != "uint",
            to_signed=target.kind != "uint",
        )
    elem = element(source)
    if function == "where":
        return v.select(elem, args[0], args[1], args[2])
    if function in _PREDICATES:
        return _compare(v, function, source, args[0], args[1])
    if source.is_float:
        return _float(v, function, source, args)
    return _integer(v, function, source, args)


def _compare(v: VectorEmitter, function: str, dtype: DType, a: str, b: str) -> str:
    if dtype.is_float:
        return v.compare(_PREDICATES[function], element(dtype), a, b)
    sign = "" if function in ("eq", "ne") else ("s" if dtype.kind == "int" else "u")
    return v.compare(sign + function, element(dtype), a, b)


def _float(v: VectorEmitter, function: str, dtype: DType, args: list[str]) -> str:
    elem, a = element(dtype), args[0]
    if function in ("add", "sub", "mul"):
        return {"add": v.add, "sub": v.sub, "mul": v.mul}[function](elem, a, args[1])
    if function == "div":
        return v.div(elem, a, args[1])
    if function == "fma":
        return v.fma(elem, a, args[1], args[2])
    if function == "isnan":
        return v.compare("uno", elem, a, a)
    if function == "isinf":
        return v.compare("oeq", elem, v.abs(elem, a), float("inf"))
    if function == "isfinite":
        return v.compare("one", elem, v.abs(elem, a), float("inf"))
    if function in vmath.UNARY and dtype.name in vmath.UNARY[function]:
        return vmath.emit_unary(v, function, dtype.name, a)
    if function in vmath.BINARY and dtype.name in vmath.BINARY[function]:
        return vmath.emit_binary(v, function, dtype.name, a, args[1])
    raise RlxBackendError(f"the CPU backend has no `{function}` of {dtype}")


def _integer(v: VectorEmitter, function: str, dtype: DType, args: list[str]) -> str:
    elem, a, signed = element(dtype), args[0], dtype.kind == "int"
    if function in ("add", "sub", "mul", "and", "or", "xor"):
        emit = {"add": v.add, "sub": v.sub, "mul": v.mul, "and": v.and_, "or": v.or_, "xor": v.xor}[function]
        return emit(elem, a, args[1])
    if function in ("minimum", "maximum"):
        if elem == "i1":
            return v.and_(elem, a, args[1]) if function == "minimum" else v.or_(elem, a, args[1])
        emit_extremum = v.minimum if function == "minimum" else v.maximum
        return emit_extremum(elem, a, args[1], signed=signed)
    if function in ("floor_div", "mod", "rem", "pow"):
        divide = {"floor_div": floor_divide, "mod": modulo, "rem": remainder, "pow": integer_power}[function]
        return divide(v, elem, a, args[1], signed=signed)
    if function == "shl":
        return v.shift_left(elem, a, args[1])
    if function == "shr":
        return v.shift_right(elem, a, args[1], signed=signed)
    if function == "not":
        return v.not_(elem, a)
    if function == "neg":
        return v.neg(elem, a)
    if function == "abs":
        return v.abs(elem, a) if signed else a
    if function == "sign":
        return _integer_sign(v, elem, a, signed)
    raise RlxBackendError(f"the CPU backend has no `{function}` of {dtype}")


def _integer_sign(v: VectorEmitter, elem: str, a: str, signed: bool) -> str:
    if not signed:
        return v.minimum(elem, a, 1, signed=False)
    return v.maximum(elem, v.minimum(elem, a, 1), -1)
