"""Rules of arithmetic, choices and conversions.

Every rule keeps the value bit for bit: NaN (any NaN counts as the same), infinities, -0.0 and the wrapping of integers. What is
missing is missing on purpose: `x + 0.0` turns -0.0 into 0.0, `x * 0` and `x - x` are NaN for NaN and infinities, and sums
and products are never regrouped.
"""

from __future__ import annotations

import math

import numpy as np

from rlxlang.ir import Node
from rlxlang.passes.rule import Replace, Rewriting, Rule, is_number, number_of
from rlxlang.types import DType

# ------------------------------------------------------------------------------------------------ neutral operands


def _neutral(side: str, value: float, kinds: tuple[str, ...]) -> Replace:
    """The other operand where one (`right`, or `either`) is filled with a neutral number."""

    def replace(r: Rewriting, node: Node) -> Node | None:
        x, y = node.inputs
        if x.dtype.kind not in kinds:
            return None
        if is_number(y, value):
            return x
        return y if side == "either" and is_number(x, value) else None

    return replace


_INTEGERS = ("int", "uint")
_REAL = ("float", "int", "uint")


def _divided_by_power_of_two(r: Rewriting, node: Node) -> Node | None:
    """Exact: both sides round the same real number once, if the reciprocal is a normal number."""
    x, y = node.inputs
    found = number_of(y)
    if not x.dtype.is_float or found is None:
        return None
    divisor = float(found)
    if not math.isfinite(divisor) or divisor == 1 or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    narrow = x.dtype.numpy if x.dtype.bits > 16 else np.dtype(np.float32)  # half precision is computed in F32
    least, inverse = float(np.finfo(narrow).tiny), 1 / divisor
    if not (least <= abs(inverse) <= 1 / least and abs(inverse) <= x.dtype.largest):
        return None
    if float(np.asarray(inverse).astype(x.dtype.numpy)) != inverse:
        return None
    return r.b.emit("mul", x, r.b.full_like(x, inverse))


def _regular_second_factor(r: Rewriting, node: Node) -> Node | None:
    """A product with a finite number other than 0 is 0 where the first factor is: the sign of that 0 is free."""
    found = number_of(node.inputs[1])
    if found is None or not math.isfinite(float(found)) or found == 0:
        return None
    return r.b.emit("mul", *node.inputs)


# ------------------------------------------------------------------------------------------------ signs


def _undone(name: str) -> Replace:
    def replace(r: Rewriting, node: Node) -> Node | None:
        inner = node.inputs[0]
        return inner.inputs[0] if inner.op.name == name else None

    return replace


def _negated_right(other: str) -> Replace:
    def replace(r: Rewriting, node: Node) -> Node | None:
        x, y = node.inputs
        return r.b.emit(other, x, y.inputs[0]) if y.op.name == "neg" else None

    return replace


def _both_negated(name: str) -> Replace:
    def replace(r: Rewriting, node: Node) -> Node | None:
        x, y = node.inputs
        if x.dtype.kind == "complex" or x.op.name != "neg" or y.op.name != "neg":
            return None
        return r.b.emit(name, x.inputs[0], y.inputs[0])

    return replace


# ------------------------------------------------------------------------------------------------ choices


def _same_operands(r: Rewriting, node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0] is node.inputs[1] else None


def _bool_neutral(value: bool) -> Replace:
    def replace(r: Rewriting, node: Node) -> Node | None:
        if node.dtype.kind != "bool":
            return None
        x, y = node.inputs
        return x if is_number(y, value) else y if is_number(x, value) else None

    return replace


def _decided(r: Rewriting, node: Node) -> Node | None:
    condition, x, y = node.inputs
    if x is y:
        return x
    found = number_of(condition)
    return None if found is None else x if found else y


def _inverted_condition(r: Rewriting, node: Node) -> Node | None:
    condition, x, y = node.inputs
    return r.b.emit("select", condition.inputs[0], y, x) if condition.op.name == "bit_not" else None


def _decided_inside(r: Rewriting, node: Node) -> Node | None:
    condition, x, y = node.inputs
    if x.op.name == "select" and x.inputs[0] is condition:
        return r.b.emit("select", condition, x.inputs[1], y)
    if y.op.name == "select" and y.inputs[0] is condition:
        return r.b.emit("select", condition, x, y.inputs[2])
    return None


# ------------------------------------------------------------------------------------------------ conversions


def _same_dtype(r: Rewriting, node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0].dtype == node.dtype else None


_FRACTION = {"F16": 11, "BF16": 8, "F32": 24, "F64": 53}
_EXPONENT = {"F16": 5, "BF16": 8, "F32": 8, "F64": 11}


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that the conversion loses nothing."""
    if narrow == wide or narrow.kind == "bool":
        return True
    if "complex" in (wide.kind, narrow.kind) or wide.kind == "bool":
        return False
    if wide.is_float and narrow.is_float:
        return _FRACTION[wide.name] >= _FRACTION[narrow.name] and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
    if narrow.is_float:
        return False
    low, high = narrow.integer_range
    if wide.is_float:
        bits = narrow.bits - (narrow.kind == "int")
        return bits <= _FRACTION[wide.name] and high <= wide.largest
    return wide.integer_range[0] <= low and high <= wide.integer_range[1]


def _through_wider(r: Rewriting, node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.op.name != "cast":
        return None
    x, middle, last = inner.inputs[0], inner.dtype, node.dtype
    if "complex" in (x.dtype.kind, middle.kind, last.kind) or not holds_all(middle, x.dtype):
        return None
    # Integers wrap and floats saturate, so the kind in front of the last conversion must not change what it does.
    if last.is_integer and middle.is_float and x.dtype.is_integer and not holds_all(last, x.dtype):
        return None
    return r.b.emit("cast", x, dtype=last)


ARITHMETIC: tuple[Rule, ...] = (
    Rule("x * 1 -> x", "mul", _neutral("either", 1, _REAL)),
    Rule("(-x) * (-y) -> x * y", "mul", _both_negated("mul")),
    Rule("x / 1 -> x", "div", _neutral("right", 1, ("float",))),
    Rule("x / 2**k -> x * 2**-k", "div", _divided_by_power_of_two),
    Rule("(-x) / (-y) -> x / y", "div", _both_negated("div")),
    Rule("integer div 1 -> x", "floor_div", _neutral("right", 1, _INTEGERS)),
    Rule("x - 0.0 -> x", "sub", _neutral("right", 0.0, _REAL)),
    Rule("x - (-y) -> x + y", "sub", _negated_right("add")),
    Rule("integer + 0 -> x", "add", _neutral("either", 0, _INTEGERS)),
    Rule("x + -0.0 -> x", "add", _neutral("either", -0.0, ("float",))),
    Rule("x + (-y) -> x - y", "add", _negated_right("sub")),
    Rule("x ** 1 -> x", "pow", _neutral("right", 1, _REAL)),
    Rule("guarded product with a number -> product", "mul_safe", _regular_second_factor),
    Rule("--x -> x", "neg", _undone("neg")),
    Rule("!!x -> x", "bit_not", _undone("bit_not")),
    Rule("x & x -> x", "bit_and", _same_operands),
    Rule("x & true -> x", "bit_and", _bool_neutral(True)),
    Rule("x | x -> x", "bit_or", _same_operands),
    Rule("x | false -> x", "bit_or", _bool_neutral(False)),
    Rule("maximum(x, x) -> x", "maximum", _same_operands),
    Rule("minimum(x, x) -> x", "minimum", _same_operands),
    Rule("a select that is decided -> the branch", "select", _decided),
    Rule("select by !c -> select by c", "select", _inverted_condition),
    Rule("select inside a select of the same condition -> one", "select", _decided_inside),
    Rule("cast to the own dtype -> x", "cast", _same_dtype),
    Rule("cast through a wider dtype -> one cast", "cast", _through_wider),
)
