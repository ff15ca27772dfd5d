"""The option `precision` of products."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import choice
from rlxlang.ops.broadcasting import Value
from rlxlang.ops.low_precision import format_attributes
from rlxlang.types import BF16, F32, F64, FloatFormat

PRECISIONS = ("highest", "high", "bf16")
PRECISION = Parameter("precision", "str", "highest")
_ROUNDED = FloatFormat(7, 8, BF16.largest)


def of_precision(b: Builder, op: str, value: Value, precision: Any) -> Value:
    """An operand as a product of this precision reads it: rounded to BF16 for `bf16`; infinity stays.

    `high` promises what three products of BF16 parts give, which the products of F32 keep as well.
    """
    word = choice(op, precision, "precision", PRECISIONS)
    if word != "bf16" or not isinstance(value, Node) or value.dtype not in (F32, F64):
        return value
    rounded = b.emit("to_format", value, **format_attributes(_ROUNDED), gradient="identity")
    return emit.select(b, b.emit("isinf", value), value, rounded)
