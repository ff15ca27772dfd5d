"""Element types, their order, and the promotion rules of the language (rules of JAX with 64-bit types, two changes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


class PromotionProblem(TypeError):
    """Two element types have no common type (U64 with a signed integer)."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: The name in the language, `F32`.
        kind: One of `float`, `int`, `uint`, `bool`, `complex`.
        bits: Width of one element in memory, in bits (`Bool` takes 8).
    """

    name: str
    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether values are real floating-point numbers."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether values are integers; `Bool` is not one."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether negative values exist."""
        return self.kind in ("int", "float", "complex")

    @property
    def is_differentiable(self) -> bool:
        """Whether values have tangents: floats and complex numbers."""
        return self.kind in ("float", "complex")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays of this type (`BF16` is `ml_dtypes.bfloat16`)."""
        return _numpy_dtype(self)

    @property
    def integer_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type, both included."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        if self.kind == "uint":
            return 0, (1 << self.bits) - 1
        raise ValueError(f"{self.name} is not an integer type")

    @property
    def largest(self) -> float:
        """Greatest finite value of a float type."""
        return {
            "F64": 1.7976931348623157e308,
            "F32": 3.4028234663852886e38,
            "F16": 65504.0,
            "BF16": 3.3895313892515355e38,
        }[self.name]

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


F16 = DType("F16", "float", 16)
BF16 = DType("BF16", "float", 16)
F32 = DType("F32", "float", 32)
F64 = DType("F64", "float", 64)
I8 = DType("I8", "int", 8)
I16 = DType("I16", "int", 16)
I32 = DType("I32", "int", 32)
I64 = DType("I64", "int", 64)
U8 = DType("U8", "uint", 8)
U16 = DType("U16", "uint", 16)
U32 = DType("U32", "uint", 32)
U64 = DType("U64", "uint", 64)
BOOL = DType("Bool", "bool", 8)
C64 = DType("C64", "complex", 64)

DTYPES: dict[str, DType] = {d.name: d for d in (F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, C64)}

_NUMPY_NAMES = {
    "F16": "float16", "F32": "float32", "F64": "float64", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "Bool": "bool", "C64": "complex64",
}  # fmt: skip


@cache
def _numpy_dtype(dtype: DType) -> np.dtype[Any]:
    if dtype is BF16 or dtype.name == "BF16":
        import ml_dtypes

        wide: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return wide
    return np.dtype(_NUMPY_NAMES[dtype.name])


@cache
def _by_numpy_name() -> dict[str, DType]:
    return {name: DTYPES[own] for own, name in _NUMPY_NAMES.items()} | {"bfloat16": BF16}


def from_numpy(dtype: np.dtype[Any] | type) -> DType | None:
    """The element type of a NumPy dtype, or None when there is none (strings, objects, complex128)."""
    return _by_numpy_name().get(np.dtype(dtype).name)


_FLOAT_ORDER = {"F16": 0, "BF16": 0, "F32": 1, "F64": 2}


def promote(a: DType, b: DType) -> DType:
    """The common type of two tensor element types.

    Bool < integers < floats < C64. Integers among themselves follow NumPy's lattice, an integer with a float takes the
    float's type (F32 at least only when there is no float), F16 with BF16 gives F32.

    Raises:
        PromotionProblem: U64 with a signed integer.
    """
    if a == b:
        return a
    kinds = {a.kind, b.kind}
    if "complex" in kinds:
        return C64
    if "float" in kinds:
        if a.kind != "float":
            return b
        if b.kind != "float":
            return a
        if _FLOAT_ORDER[a.name] == _FLOAT_ORDER[b.name]:
            return F32
        return a if _FLOAT_ORDER[a.name] > _FLOAT_ORDER[b.name] else b
    if a.kind == "bool":
        return b
    if b.kind == "bool":
        return a
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if unsigned.bits == 64:
        raise PromotionProblem(f"{a} and {b} have no common integer type")
    if signed.bits > unsigned.bits:
        return signed
    return {8: I16, 16: I32, 32: I64}[unsigned.bits]


def promote_all(*dtypes: DType) -> DType:
    """The common type of one or more element types; see `promote`."""
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    return result


def weak_dtype(value: bool | int | float | complex, tensor: DType | None = None) -> DType:
    """The type that an untyped number takes beside a tensor of type `tensor`, or alone (I32, F32, Bool, C64)."""
    if isinstance(value, (bool, np.bool_)):
        return tensor or BOOL
    if isinstance(value, (int, np.integer)):
        return I32 if tensor is None or tensor.kind == "bool" else tensor
    if isinstance(value, complex):
        return C64
    return tensor if tensor is not None and tensor.kind in ("float", "complex") else F32


def sum_dtype(dtype: DType) -> DType:
    """The type of a sum, product or contraction: small integers widen to 32 bits, everything else stays."""
    if dtype.kind == "bool" or (dtype.kind == "int" and dtype.bits < 32):
        return I32
    if dtype.kind == "uint" and dtype.bits < 32:
        return U32
    return dtype


def float_dtype(dtype: DType) -> DType:
    """The type in which a function of real numbers (`exp`, `mean`) gives its result: integers and Bool give F32."""
    return dtype if dtype.is_differentiable else F32
