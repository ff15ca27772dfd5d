"""What users call of elementwise ops: operators, comparisons, selection, functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rlxlang.ir import OPS, Builder, Node, Parameter, Surface
from rlxlang.ops import emit
from rlxlang.ops.arguments import dtype_argument, static_number, surface, tensor
from rlxlang.ops.broadcasting import (
    Value,
    as_float,
    as_node,
    binary,
    broadcast,
    common_dtype,
    operands,
    require_value,
)
from rlxlang.ops.complex_numbers import imaginary_part, real_part
from rlxlang.ops.rules import require_kinds
from rlxlang.types import BOOL, C64, I32, DType, TypeProblem, float_dtype

Build = Callable[..., Node]

_PAIR = (tensor("x"), tensor("y"))


def _is_bool(values: tuple[Value, ...]) -> bool:
    return all(isinstance(v, bool) or (isinstance(v, Node) and v.dtype == BOOL) for v in values)


# ----------------------------------------------------------------------------------------- operators


def _sum_like(name: str, on_bool: str) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Node:
        return binary(b, on_bool if _is_bool((x, y)) else name, x, y)

    return build


def _sub(b: Builder, x: Value, y: Value) -> Node:
    if _is_bool((x, y)):
        raise TypeProblem("E0301", "`-` is not defined for Bool", (), "`^` is true where the two differ")
    return binary(b, "sub", x, y)


def _div(b: Builder, x: Value, y: Value) -> Node:
    return binary(b, "div", x, y, float_dtype(common_dtype("/", (x, y))))


def _whole(name: str) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Node:
        dtype = common_dtype(name, (x, y))
        return binary(b, name, x, y, I32 if dtype == BOOL else dtype)

    return build


def _ordered(name: str) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Node:
        return binary(b, name, x, y)

    return build


def _float_pair(name: str) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Node:
        return binary(b, name, x, y, float_dtype(common_dtype(name, (x, y))))

    return build


def power(b: Builder, x: Value, y: Value) -> Node:
    """`x ** y`: small literal powers are products, which are exact and differentiable everywhere."""
    if isinstance(y, (int, float)) and not isinstance(y, bool) and isinstance(x, Node):
        integral = x.dtype.is_integer or x.dtype == BOOL
        if integral and isinstance(y, int) and y < 0:
            raise TypeProblem("E0350", f"an integer tensor to the power {y}", (), "write 1.0 / x for the reciprocal")
        node = emit.cast(b, x, I32) if x.dtype == BOOL else x
        if isinstance(y, int) or not integral:
            if y == 0:
                return b.full_like(node, 1)
            if y == 1:
                return node
            if y == 2:
                return emit.square(b, node)
            if y == 3:
                return emit.mul(b, emit.square(b, node), node)
            if y == -1:
                return b.emit("recip", node)
            if y == 0.5:
                return b.emit("sqrt", node)
    return _whole("pow")(b, x, y)


def _neg(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    if node.dtype == BOOL:
        raise TypeProblem("E0301", "unary `-` is not defined for Bool", (), "`!x` is the opposite")
    return b.emit("neg", node)


surface("add", _PAIR, _sum_like("add", "bit_or"), "Sum; on Bool: or.")
surface("sub", _PAIR, _sub, "Difference.")
surface("mul", _PAIR, _sum_like("mul", "bit_and"), "Product; on Bool: and.")
surface("div", _PAIR, _div, "Quotient; integers give F32.")
surface("floor_div", _PAIR, _whole("floor_div"), "Floor of the quotient (`a div b`); an integer by 0 gives 0.")
surface("mod", _PAIR, _whole("mod"), "Remainder with the sign of the divisor (`a % b`).")
surface("rem", _PAIR, _whole("rem"), "Remainder with the sign of the dividend.")
surface("pow", _PAIR, power, "Power (`x ** y`).")
surface(
    "pow_scalar",
    (tensor("x"), Parameter("exponent", "float")),
    lambda b, x, exponent: power(b, x, exponent),
    "Power by a number.",
)
surface("neg", (tensor("x"),), _neg, "Negation (`-x`).")
surface("maximum", _PAIR, _ordered("maximum"), "The larger of two; NaN wins, ties share the gradient.")
surface("minimum", _PAIR, _ordered("minimum"), "The smaller of two; NaN wins, ties share the gradient.")
surface(
    "atan2",
    (tensor("y"), tensor("x")),
    lambda b, y, x: _float_pair("atan2")(b, y, x),
    "Angle of the point (x, y) in radians.",
)
surface("hypot", _PAIR, _float_pair("hypot"), "sqrt(x² + y²) without overflow.")


def _fma(b: Builder, a: Value, y: Value, c: Value) -> Node:
    values = (a, y, c)
    dtype = common_dtype("fma", values)
    if not dtype.is_float:
        return _sum_like("add", "bit_or")(b, _sum_like("mul", "bit_and")(b, a, y), c)
    return b.emit("fma", *operands(b, "fma", values, dtype))


surface("fma", (tensor("a"), tensor("b"), tensor("c")), lambda builder, /, a, b, c: _fma(builder, a, b, c), "a·b + c.")
surface("square", (tensor("x"),), lambda b, x: power(b, as_node(b, x), 2), "x · x.")
surface(
    "lerp",
    (tensor("a"), tensor("b"), tensor("t")),
    lambda builder, /, a, b, t: _lerp(builder, a, b, t),
    "a + t·(b - a).",
)


def _lerp(b: Builder, start: Value, stop: Value, t: Value) -> Node:
    dtype = float_dtype(common_dtype("lerp", (start, stop, t)))
    x, y, weight = operands(b, "lerp", (start, stop, t), dtype)
    return emit.add(b, x, emit.mul(b, weight, emit.sub(b, y, x)))


# ----------------------------------------------------------------------------------------- bits and logic


def _bits(name: str, sign: str) -> Build:
    def build(b: Builder, x: Value, y: Value) -> Node:
        dtype = common_dtype(name, (x, y))
        if not (dtype.is_integer or dtype == BOOL):
            raise TypeProblem("E0301", f"`{sign}` takes Bool or integers, and {dtype} is given")
        return binary(b, name, x, y, dtype)

    return build


def _bit_not(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    if not (node.dtype.is_integer or node.dtype == BOOL):
        raise TypeProblem("E0301", f"`!` takes Bool or integers, and {node.dtype} is given")
    return b.emit("bit_not", node)


def truth(b: Builder, x: Value) -> Node:
    """A value as Bool: whether it is not 0."""
    node = as_node(b, x)
    return emit.cast(b, node, BOOL)


surface("bit_and", _PAIR, _bits("bit_and", "&"), "Bitwise and; logical on Bool (`a & b`).")
surface("bit_or", _PAIR, _bits("bit_or", "|"), "Bitwise or; logical on Bool (`a | b`).")
surface("bit_xor", _PAIR, _bits("bit_xor", "^"), "Bitwise exclusive or; logical on Bool (`a ^ b`).")
surface("bit_not", (tensor("x"),), _bit_not, "Bitwise complement; logical on Bool (`!a`).")
surface("shift_left", _PAIR, _whole("shift_left"), "Bits moved up; the count is taken modulo the width.")
surface("shift_right", _PAIR, _whole("shift_right"), "Bits moved down; the count is taken modulo the width.")
for _word in ("and", "or", "xor"):
    surface(
        f"logical_{_word}",
        _PAIR,
        lambda b, x, y, name=f"bit_{_word}": binary(b, name, truth(b, x), truth(b, y)),
        f"Logical {_word} of truth values (`!= 0`).",
    )
surface("logical_not", (tensor("x"),), lambda b, x: b.emit("bit_not", truth(b, x)), "Whether a value is 0.")

# ----------------------------------------------------------------------------------------- comparisons, selection

for _name, _words in (
    ("eq", "equal"), ("ne", "not equal"), ("lt", "less"), ("le", "less or equal"),
    ("gt", "greater"), ("ge", "greater or equal"),
):  # fmt: skip
    surface(
        _name,
        _PAIR,
        _ordered(_name),
        f"Whether x is {_words} to y, elementwise."
        if "equal" in _words
        else f"Whether x is {_words} than y, elementwise.",
    )


def _float_test(name: str, for_integers: bool) -> Build:
    def build(b: Builder, x: Value) -> Node:
        node = as_node(b, x)
        if node.dtype.is_float:
            return b.emit(name, node)
        if node.dtype == C64:
            parts = (b.emit(name, part(b, node)) for part in (real_part, imaginary_part))
            return b.emit("bit_and" if for_integers else "bit_or", *parts)
        return b.full(for_integers, BOOL, node.shape)

    return build


surface("isnan", (tensor("x"),), _float_test("isnan", False), "Whether a value is NaN.")
surface("isinf", (tensor("x"),), _float_test("isinf", False), "Whether a value is inf or -inf.")
surface("isfinite", (tensor("x"),), _float_test("isfinite", True), "Whether a value is neither NaN nor infinite.")


def where(b: Builder, condition: Value, x: Value, y: Value, name: str = "where") -> Node:
    """`x` where the condition holds, else `y`; all three broadcast together."""
    for value in (condition, x, y):
        require_value(name, value)
    branches = [as_node(b, v, common_dtype(name, (x, y))) for v in (x, y)]
    dtype = common_dtype(name, (x, y))
    parts = broadcast(b, name, [truth(b, condition), *(emit.cast(b, v, dtype) for v in branches)])
    return b.emit("select", *parts)


_CHOICE = (tensor("condition"), tensor("x"), tensor("y"))
surface("where", _CHOICE, where, "x where the condition holds, else y.", "where_")
SELECT_FUNCTION: Surface = surface("select", _CHOICE, where, "x where the condition holds, else y.")


def _masked_fill(b: Builder, x: Value, mask: Value, value: Value) -> Node:
    node = as_node(b, x)
    filled = value if isinstance(value, Node) else as_node(b, value, node.dtype)
    return where(b, mask, emit.cast(b, filled, node.dtype), node, "masked_fill")


surface(
    "masked_fill",
    (tensor("x"), tensor("mask"), tensor("value")),
    _masked_fill,
    "The value where the mask holds, else x.",
)


def _extreme_number(dtype: DType, sign: int) -> Any:
    if dtype.is_float:
        return sign * math.inf
    if dtype == BOOL:
        return sign > 0
    return dtype.integer_range[1 if sign > 0 else 0]


def _clamp(b: Builder, x: Value, min: Value | None = None, max: Value | None = None) -> Node:
    bounds = tuple(v for v in (min, max) if v is not None)
    if not bounds:
        return as_node(b, x)
    dtype = common_dtype("clamp", (x, *bounds))
    require_kinds("clamp", dtype, ("float", "int", "uint", "bool"))
    low = b.full(_extreme_number(dtype, -1), dtype) if min is None else min
    high = b.full(_extreme_number(dtype, 1), dtype) if max is None else max
    return b.emit("clamp", *operands(b, "clamp", (x, low, high), dtype))


_NO_BOUND = None
surface(
    "clamp",
    (tensor("x"), tensor("min", _NO_BOUND), tensor("max", _NO_BOUND)),
    _clamp,
    "x limited to min … max; the derivative is 1 at the bounds.",
    "clip",
)
surface("clamp_min", (tensor("x"), tensor("min")), lambda b, x, min: _clamp(b, x, min), "x, at least min.")
surface("clamp_max", (tensor("x"), tensor("max")), lambda b, x, max: _clamp(b, x, None, max), "x, at most max.")

# ----------------------------------------------------------------------------------------- functions of one number


_OF_COMPLEX = ("exp", "log", "sqrt", "recip", "sin", "cos", "tan", "sinh", "cosh", "tanh")


def _float_function(name: str) -> Build:
    return lambda b, x: b.emit(name, as_float(b, name, x, is_complex_allowed=name in _OF_COMPLEX))


for _name in (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "recip", "sin", "cos", "tan", "asin", "acos",
    "asinh",
    "acosh",
    "atanh",
    "cbrt",
    "atan", "sinh", "cosh", "tanh", "sigmoid", "softplus", "log_sigmoid", "erf", "erfc", "gelu", "gelu_approx", "silu",
    "mish", "softsign", "hard_sigmoid", "hard_swish", "relu6", "hard_tanh", "tanhshrink", "selu",
):  # fmt: skip
    surface(_name, (tensor("x"),), _float_function(_name), OPS[_name].doc, *(("swish",) if _name == "silu" else ()))


def _keeping_integers(name: str, on_integers: Callable[[Builder, Node], Node], bool_allowed: bool) -> Build:
    def build(b: Builder, x: Value) -> Node:
        node = as_node(b, x)
        if node.dtype.is_float:
            return b.emit(name, node)
        if node.dtype.kind == "complex" or (node.dtype == BOOL and not bool_allowed):
            raise TypeProblem("E0301", f"`{name}` is not defined for {node.dtype}")
        return on_integers(b, node)

    return build


def _abs(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    if node.dtype == C64:
        return b.emit("hypot", real_part(b, node), imaginary_part(b, node))
    return _keeping_integers("abs", lambda b, x: b.emit("abs", x), False)(b, node)


surface("abs", (tensor("x"),), _abs, OPS["abs"].doc)
surface("sign", (tensor("x"),), _keeping_integers("sign", lambda b, x: b.emit("sign", x), False), OPS["sign"].doc)
for _name in ("round", "floor", "ceil", "trunc"):
    surface(_name, (tensor("x"),), _keeping_integers(_name, lambda b, x: x, True), OPS[_name].doc)


def _relu_of_integers(b: Builder, x: Node) -> Node:
    return x if x.dtype == BOOL else b.emit("maximum", x, b.zeros_like(x))


surface("relu", (tensor("x"),), _keeping_integers("relu", _relu_of_integers, True), OPS["relu"].doc)


def _with_number(name: str, option: str, default: float) -> None:
    surface(
        name,
        (tensor("x"), Parameter(option, "float", default)),
        lambda b, x, **options: b.emit(
            name, as_float(b, name, x), **{k: float(static_number(name, v, k)) for k, v in options.items()}
        ),
        OPS[name].doc,
    )


_with_number("elu", "alpha", 1.0)
_with_number("celu", "alpha", 1.0)
_with_number("leaky_relu", "slope", 0.01)
_with_number("softcap", "cap", 30.0)
_with_number("softshrink", "width", 0.5)
_with_number("hardshrink", "width", 0.5)


def _cast(b: Builder, x: Value, dtype: Any) -> Node:
    target = dtype_argument("cast", dtype)
    if isinstance(x, Node) and x.dtype == C64 and target not in (C64, BOOL):
        raise TypeProblem(
            "E0301", f"`cast` of C64 to {target} would drop the imaginary part", (), "write `real(x)`, or `abs(x)`"
        )
    if not isinstance(x, Node):
        return emit.cast(b, as_node(b, x), target)
    return emit.cast(b, x, target)


surface("cast", (tensor("x"), Parameter("dtype", "dtype")), _cast, "Conversion to another element type.")


def _stop_gradient(b: Builder, x: Value) -> Node:
    return b.emit("stop_gradient", as_node(b, x))


surface("stop_gradient", (tensor("x"),), _stop_gradient, "x, taken as a constant by derivatives.", "detach")
