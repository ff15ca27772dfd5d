"""Element types in OpenCL C: registers, memory, literals, conversions.

A value of F16 or BF16 lives in a `float` register and is exact there; memory holds its 16 bits as a `ushort`, so that no device needs
`cl_khr_fp16`. A Bool is an `int` of 0 or 1 in a register and a byte in memory.
"""

from __future__ import annotations

import math

import numpy as np

from rlxlang.diagnostics.errors import RlxBackendError
from rlxlang.types import DType

_INTEGERS = {
    "I8": "char", "I16": "short", "I32": "int", "I64": "long", "U8": "uchar", "U16": "ushort", "U32": "uint", "U64": "ulong",
}  # fmt: skip
_REGISTERS = {"F16": "float", "BF16": "float", "F32": "float", "F64": "double", "Bool": "int", **_INTEGERS}
_MEMORY = {"F16": "ushort", "BF16": "ushort", "F32": "float", "F64": "double", "Bool": "uchar", **_INTEGERS}


def register_type(dtype: DType) -> str:
    """The C type of a value.

    Raises:
        RlxBackendError: The type has no place in kernels (C64).
    """
    if dtype.name not in _REGISTERS:
        raise RlxBackendError(f"OpenCL kernels do not compute with {dtype}", code="E0702")
    return _REGISTERS[dtype.name]


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory."""
    register_type(dtype)
    return _MEMORY[dtype.name]


def unsigned_type(dtype: DType) -> str:
    """The unsigned type in which integer arithmetic of a dtype wraps without undefined behaviour."""
    return "ulong" if dtype.bits == 64 else "uint"


def suffix(dtype: DType) -> str:
    """How names of helper functions end."""
    return dtype.name.lower()


def float_literal(value: float, dtype: DType) -> str:
    """A number of a float type, exact in its bits."""
    exact = float(np.asarray(value).astype(dtype.numpy))
    wide = dtype.name == "F64"
    if math.isnan(exact):
        return "as_double(0x7ff8000000000000UL)" if wide else "as_float(0x7fc00000U)"
    if math.isinf(exact):
        text = "as_double(0x7ff0000000000000UL)" if wide else "as_float(0x7f800000U)"
        return text if exact > 0 else f"(-{text})"
    text = repr(exact) + ("" if wide else "f")
    return f"({text})" if text.startswith("-") else text


def integer_literal(value: int, dtype: DType) -> str:
    """A number of an integer type; wraps as a conversion does."""
    bits = value & ((1 << dtype.bits) - 1)
    if dtype.kind == "int" and bits >> (dtype.bits - 1):
        bits -= 1 << dtype.bits
    if dtype.bits < 64:
        return f"(({register_type(dtype)}){bits if bits != -(1 << 31) else '(-2147483647 - 1)'})"
    if dtype.kind == "uint":
        return f"{bits}UL"
    return f"({bits}L)" if bits != -(1 << 63) else "(-9223372036854775807L - 1L)"


def literal(value: int | float | bool, dtype: DType) -> str:
    """A constant of a dtype as C text."""
    if dtype.kind == "bool":
        return "1" if value else "0"
    if dtype.is_float:
        return float_literal(float(value), dtype)
    return integer_literal(int(value), dtype)


def lowest(dtype: DType) -> str:
    """Text of the value that a maximum starts from."""
    return literal(float("-inf"), dtype) if dtype.is_float else literal(_range(dtype)[0], dtype)


def highest(dtype: DType) -> str:
    """Text of the value that a minimum starts from."""
    return literal(float("inf"), dtype) if dtype.is_float else literal(_range(dtype)[1], dtype)


def _range(dtype: DType) -> tuple[int, int]:
    return (0, 1) if dtype.kind == "bool" else dtype.integer_range


def load_text(pointer: str, position: str, dtype: DType) -> str:
    """Read an element; nothing here is a `vload` of many, which PoCL does not inline."""
    if dtype.name == "F16":
        return f"vload_half({position}, (global const half*){pointer})"
    if dtype.name == "BF16":
        return f"as_float((uint){pointer}[{position}] << 16)"
    return f"({pointer}[{position}] != 0)" if dtype.kind == "bool" else f"{pointer}[{position}]"


def store_text(pointer: str, position: str, value: str, dtype: DType) -> str:
    """Write an element: a statement. BF16 needs the helper `rlx_bf16_bits`."""
    if dtype.name == "F16":
        return f"vstore_half_rte({value}, {position}, (global half*){pointer});"
    if dtype.name == "BF16":
        return f"{pointer}[{position}] = rlx_bf16_bits({value});"
    return f"{pointer}[{position}] = ({memory_type(dtype)})({value});"
