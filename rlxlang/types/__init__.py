"""Element types, symbolic sizes, tensor types and guards (layer 1)."""

from __future__ import annotations

from rlxlang.types.dim import (
    Dim,
    DimLike,
    DimProblem,
    axes_of,
    ceil_div,
    dims_equal,
    evaluate,
    exact_quotient,
    floor_div,
    is_nonnegative,
    product,
    substitute,
)
from rlxlang.types.dtype import (
    BF16,
    BOOL,
    C64,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    PromotionProblem,
    float_dtype,
    from_numpy,
    promote,
    promote_all,
    sum_dtype,
    weak_dtype,
)
from rlxlang.types.float_format import FORMAT_NAMES, FloatFormat, find_format
from rlxlang.types.guard import Guard, ShapeContext, broadcast_shapes
from rlxlang.types.problem import TypeProblem
from rlxlang.types.tensor import Shape, TensorType, TupleType, ValueType, shape_text

__all__ = [
    "BF16", "BOOL", "C64", "DTYPES", "F16", "F32", "F64", "FORMAT_NAMES", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64",
    "DType", "Dim", "DimLike", "DimProblem", "FloatFormat", "Guard", "PromotionProblem", "Shape", "ShapeContext", "TensorType",
    "TupleType", "TypeProblem", "ValueType", "axes_of", "broadcast_shapes", "ceil_div", "dims_equal", "evaluate",
    "exact_quotient", "find_format", "float_dtype", "floor_div", "from_numpy", "is_nonnegative", "product", "promote",
    "promote_all", "shape_text", "substitute", "sum_dtype", "weak_dtype",
]  # fmt: skip
