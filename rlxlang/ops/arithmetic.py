"""Arithmetic of two operands: sums, products, quotients, remainders, powers, extrema, bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import ZERO, Builder, Node
from rlxlang.kernels import Apply, Const, Expr
from rlxlang.kernels.expr import compare as compare_expr
from rlxlang.ops import emit
from rlxlang.ops.elementwise import BITS, ORDERED, REAL, constant_valued, elementwise, integers, uniform
from rlxlang.types import DType

_ANY_SIGN = ((-2.0, 2.0), (-2.0, 2.0))
_POSITIVE = (0.5, 2.0)


def _one(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    return b.full_like(result, 1)


# ----------------------------------------------------------------------------------------- sums and products


def _jvp_add(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    return emit.add_present(b, *tangents)


def _jvp_sub(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    left, right = tangents
    if right is None:
        return left
    return emit.neg(b, right) if left is None else emit.sub(b, left, right)


ADD = elementwise(
    "add", "Sum.", np.add, uniform(*_ANY_SIGN), ZERO, kinds=(*REAL, "complex"),
    jvp=_jvp_add, vjp=lambda b, node, primals, ct: (ct, ct),
)  # fmt: skip
SUB = elementwise(
    "sub", "Difference.", np.subtract, uniform(*_ANY_SIGN), ZERO, kinds=(*REAL, "complex"),
    jvp=_jvp_sub, vjp=lambda b, node, primals, ct: (ct, emit.neg(b, ct)),
)  # fmt: skip
NEG = elementwise(
    "neg", "Negation.", np.negative, uniform((-2.0, 2.0)), ZERO, kinds=(*REAL, "complex"),
    jvp=lambda b, node, primals, tangents: emit.neg(b, tangents[0]),
    vjp=lambda b, node, primals, ct: (emit.neg(b, ct),),
)  # fmt: skip


def _times(b: Builder, change: Node | None, factor: Node) -> Node | None:
    """A tangent or cotangent times the other factor; zero where that is a constant zero, although the change may be infinite."""
    data = None if change is None else emit.constant_of(factor)
    if change is None or data is None or bool(np.all(data != 0)):
        if change is None:
            return None
        return emit.mul_safe(b, change, factor) if emit.is_gated(change) else emit.mul(b, change, factor)
    return emit.mul_safe(b, factor, change) if np.any(data) else None


def _jvp_mul(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    return emit.add_present(b, _times(b, tangents[0], primals[1]), _times(b, tangents[1], primals[0]))


MUL = elementwise(
    "mul", "Product.", np.multiply, uniform(*_ANY_SIGN), ZERO, kinds=(*REAL, "complex"), jvp=_jvp_mul,
    vjp=lambda b, node, primals, ct: (_times(b, ct, primals[1]), _times(b, ct, primals[0])),
)  # fmt: skip


def _mul_safe_expr(args: tuple[Expr, ...], attrs: Mapping[str, Any], dtype: DType) -> Expr:
    zero = Const(0.0, dtype)
    return Apply("where", (compare_expr("eq", args[0], zero), zero, Apply("mul", args, dtype)), dtype)


def _jvp_mul_safe(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    left, right = tangents
    return emit.add_present(
        b,
        None if left is None else emit.mul_safe(b, left, primals[1]),
        None if right is None else emit.mul_safe(b, primals[0], right),
    )


MUL_SAFE = elementwise(
    "mul_safe",
    "Product that is 0 where the first factor is 0, whatever the second is.",
    lambda x, y: np.where(x == 0, np.zeros((), x.dtype), x * y),
    uniform(*_ANY_SIGN),
    ZERO,
    kinds=("float", "complex"),
    function=_mul_safe_expr,
    jvp=_jvp_mul_safe,
    vjp=lambda b, node, primals, ct: (emit.mul_safe(b, ct, primals[1]), emit.mul_safe(b, primals[0], ct)),
)

FMA = elementwise(
    "fma", "a·b + c.", lambda a, b, c: a * b + c, uniform(*_ANY_SIGN, (-2.0, 2.0)),
    (lambda b, xs, r: xs[1], lambda b, xs, r: xs[0], _one),
)  # fmt: skip

# ----------------------------------------------------------------------------------------- quotients


def _reciprocal(b: Builder, x: Node) -> Node:
    return emit.div(b, b.full_like(x, 1), x)


def _jvp_div(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    return emit.add_present(
        b,
        None if tangents[0] is None else _divided(b, tangents[0], primals[1]),
        None if tangents[1] is None else emit.neg(b, emit.mul_safe(b, tangents[1], emit.div(b, node, primals[1]))),
    )


def _divided(b: Builder, ct: Node, divisor: Node) -> Node:
    if emit.is_regular(divisor):
        return emit.div(b, ct, divisor)
    return emit.mul_safe(b, ct, _reciprocal(b, divisor))


DIV = elementwise(
    "div", "Quotient of floats.", np.divide, uniform((-2.0, 2.0), _POSITIVE), ZERO, kinds=("float", "complex"),
    jvp=_jvp_div,
    vjp=lambda b, node, primals, ct: (
        _divided(b, ct, primals[1]),
        emit.neg(b, emit.mul_safe(b, ct, emit.div(b, node, primals[1]))),
    ),
)  # fmt: skip


def _integer_division(function: Callable[..., Any]) -> Callable[..., Any]:
    """The NumPy function for floats; for integers 0 where the divisor is 0, without a trap for MIN / -1."""

    def reference(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
        if x.dtype.kind == "f" or x.dtype.name == "bfloat16":
            return function(x, y)
        safe = np.where(y == 0, np.ones((), y.dtype), y)
        return np.where(y == 0, np.zeros((), x.dtype), function(x, safe)).astype(x.dtype)

    return reference


FLOOR_DIV = constant_valued(
    "floor_div", "Floor of the quotient; an integer divided by 0 gives 0.", _integer_division(np.floor_divide),
    uniform((-3.2, 3.1), _POSITIVE), kinds=REAL,
)  # fmt: skip
MOD = elementwise(
    "mod", "Remainder with the sign of the divisor; an integer modulo 0 gives 0.", _integer_division(np.remainder),
    uniform((0.1, 0.4), _POSITIVE),
    (_one, lambda b, xs, r: emit.neg(b, b.emit("floor_div", *xs))), kinds=REAL, guarded=True,
)  # fmt: skip
REM = elementwise(
    "rem", "Remainder with the sign of the dividend; an integer by 0 gives 0.", _integer_division(np.fmod),
    uniform((2.1, 2.4), (0.8, 1.0)),
    (_one, lambda b, xs, r: emit.neg(b, b.emit("trunc", emit.div(b, *xs)))), kinds=REAL, guarded=True,
)  # fmt: skip

# ----------------------------------------------------------------------------------------- powers


def _power(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    # A negative exponent truncates the true value: ±1 for a base of ±1, else 0.
    positive = np.power(x, np.where(y < 0, np.zeros((), y.dtype), y))
    odd = (y & 1).astype(bool)
    inverse = np.where(x == 1, 1, np.where((x == -1) & odd, -1, np.where(x == -1, 1, 0)))
    # In the base's own type: U64 beside NumPy's int64 would meet in float64.
    return np.where(y < 0, inverse.astype(x.dtype), positive)


def _power_by_base(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x, y = operands
    slope = emit.mul(b, y, b.emit("pow", x, emit.shift(b, y, -1)))
    return emit.drop(b, emit.compare(b, "eq", y, 0), slope)  # x ** 0 is constant, also at 0 and inf


def _power_by_exponent(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x, _ = operands
    at_zero = emit.compare(b, "eq", x, 0)
    log = b.emit("log", emit.select(b, at_zero, b.full_like(x, 1), x))
    return emit.drop(b, at_zero, emit.mul(b, result, log))


POW = elementwise(
    "pow", "Power; integers wrap, a negative exponent truncates.", _power, uniform(_POSITIVE, (-2.0, 2.0)),
    (_power_by_base, _power_by_exponent), kinds=(*REAL, "complex"), guarded=True,
)  # fmt: skip


def _over_square(k: int, sign: int) -> Callable[..., Node]:
    def partial(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
        y, x = operands
        square = emit.add(b, emit.square(b, x), emit.square(b, y))
        return emit.scale(b, emit.div(b, operands[k], square), sign)

    return partial


ATAN2 = elementwise(
    "atan2", "Angle of the point (second, first) in radians.", np.arctan2, uniform(_POSITIVE, (-2.0, 2.0)),
    (_over_square(1, 1), _over_square(0, -1)), guarded=True,
)  # fmt: skip


def _hypot(b: Builder, x: Node, y: Node) -> Node:
    p, q = b.emit("abs", x), b.emit("abs", y)
    large, small = b.emit("maximum", p, q), b.emit("minimum", p, q)
    ratio = emit.div(b, small, emit.select(b, emit.compare(b, "eq", large, 0), b.full_like(x, 1), large))
    value = emit.mul(b, large, b.emit("sqrt", emit.shift(b, emit.square(b, ratio), 1)))
    # An infinite side decides even beside NaN, as in C and NumPy.
    infinite = b.emit("bit_or", emit.compare(b, "eq", p, float("inf")), emit.compare(b, "eq", q, float("inf")))
    return emit.select(b, infinite, b.full_like(x, float("inf")), value)


def _over_result(k: int) -> Callable[..., Node]:
    def partial(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
        return emit.drop(b, emit.compare(b, "eq", result, 0), emit.div(b, operands[k], result))

    return partial


HYPOT = elementwise(
    "hypot", "sqrt(x² + y²) without overflow.", np.hypot, uniform(_POSITIVE, (-2.0, 2.0)),
    (_over_result(0), _over_result(1)), decompose=_hypot,
)  # fmt: skip

# ----------------------------------------------------------------------------------------- extrema


def _extremum(name: str, wins: str, reference: Callable[..., Any]) -> None:
    def jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node:
        x, y = primals
        tx, ty = (b.zeros_like(node) if t is None else t for t in tangents)
        half = emit.scale(b, emit.add(b, tx, ty), 0.5)
        tied = emit.select(b, emit.compare(b, "eq", x, y), half, ty)
        return emit.select(b, emit.compare(b, wins, x, y), tx, tied)

    def vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
        x, y = primals
        first, tie = emit.compare(b, wins, x, y), emit.compare(b, "eq", x, y)
        half, zero = emit.scale(b, ct, 0.5), b.zeros_like(ct)
        left = emit.select(b, first, ct, emit.select(b, tie, half, zero))
        right = emit.select(b, first, zero, emit.select(b, tie, half, ct))
        return left, right

    elementwise(
        name, f"The {'larger' if wins == 'gt' else 'smaller'} operand; NaN wins, ties share the gradient.", reference,
        uniform(*_ANY_SIGN), ZERO, kinds=ORDERED, jvp=jvp, vjp=vjp,
    )  # fmt: skip


_extremum("maximum", "gt", np.maximum)
_extremum("minimum", "lt", np.minimum)

# ----------------------------------------------------------------------------------------- bits

_BIT_DOCS = (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor))
for _word, _function in _BIT_DOCS:
    constant_valued(
        f"bit_{_word}", f"Bitwise {_word}; logical on Bool.", _function, integers(-9, 9, 2), kinds=BITS, function=_word
    )
constant_valued(
    "bit_not", "Bitwise complement; logical on Bool.", np.invert, integers(-9, 9, 1), kinds=BITS, function="not"
)


def _masked_count(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    return (y & (x.dtype.itemsize * 8 - 1)).astype(x.dtype)


constant_valued(
    "shift_left", "Bits moved up; the count is taken modulo the width.",
    lambda x, y: np.left_shift(x, _masked_count(x, y)), integers(0, 40, 2), kinds=("int", "uint"), function="shl",
)  # fmt: skip
constant_valued(
    "shift_right", "Bits moved down; the count is taken modulo the width.",
    lambda x, y: np.right_shift(x, _masked_count(x, y)), integers(0, 40, 2), kinds=("int", "uint"), function="shr",
)  # fmt: skip
