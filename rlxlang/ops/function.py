"""Functions of one number: exponentials, logarithms, roots, trigonometry, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rlxlang.ir import ZERO, Builder, Node
from rlxlang.ops import emit
from rlxlang.ops.elementwise import FLOAT, REAL, constant_valued, elementwise, uniform
from rlxlang.ops.rules import Partial

_WIDE = uniform((-2.0, 2.0))
_POSITIVE = uniform((0.5, 2.0))
_INSIDE = uniform((-0.8, 0.8))
_FIELD = ("float", "complex")

Chain = Callable[[Builder, Node, Node], Node]


def _of(derivative: Chain) -> tuple[Partial]:
    """The partials of a function of one operand from `derivative(b, x, y)`."""
    return (lambda b, operands, result: derivative(b, operands[0], result),)


def _inverse(b: Builder, x: Node) -> Node:
    return emit.div(b, b.full_like(x, 1), x)


def scalar_reference(function: Callable[[float], float]) -> Callable[..., Any]:
    """A NumPy function, in the operand's own type, from one of Python floats."""
    vector = np.vectorize(function, otypes=[np.float64])

    def reference(x: np.ndarray[Any, Any]) -> Any:
        return vector(np.asarray(x, np.float64)).astype(x.dtype)

    return reference


# ----------------------------------------------------------------------------------------- exponentials, logarithms

elementwise("exp", "e to the power x.", np.exp, _WIDE, _of(lambda b, x, y: y), kinds=_FIELD, guarded=True)
elementwise(
    "exp2", "2 to the power x.", np.exp2, _WIDE, _of(lambda b, x, y: emit.scale(b, y, math.log(2))), guarded=True
)
elementwise(
    "expm1", "exp(x) - 1, exact near 0.", np.expm1, _WIDE, _of(lambda b, x, y: emit.shift(b, y, 1)), guarded=True
)
elementwise(
    "log", "Natural logarithm.", np.log, _POSITIVE, _of(lambda b, x, y: _inverse(b, x)), kinds=_FIELD, guarded=True
)
elementwise(
    "log1p", "log(1 + x), exact near 0.", np.log1p, _POSITIVE,
    _of(lambda b, x, y: _inverse(b, emit.shift(b, x, 1))), guarded=True,
)  # fmt: skip
elementwise(
    "log2", "Logarithm to base 2.", np.log2, _POSITIVE,
    _of(lambda b, x, y: _inverse(b, emit.scale(b, x, math.log(2)))), guarded=True,
)  # fmt: skip
elementwise(
    "log10", "Logarithm to base 10.", np.log10, _POSITIVE,
    _of(lambda b, x, y: _inverse(b, emit.scale(b, x, math.log(10)))), guarded=True,
)  # fmt: skip

# ----------------------------------------------------------------------------------------- roots

elementwise(
    "sqrt", "Square root.", np.sqrt, _POSITIVE,
    _of(lambda b, x, y: emit.div(b, b.full_like(x, 0.5), y)), kinds=_FIELD, guarded=True,
)  # fmt: skip
elementwise(
    "rsqrt", "1 / sqrt(x).", lambda x: 1 / np.sqrt(x), _POSITIVE,
    _of(lambda b, x, y: emit.scale(b, emit.div(b, y, x), -0.5)), guarded=True,
)  # fmt: skip
elementwise(
    "recip",
    "1 / x.",
    lambda x: 1 / x,
    _POSITIVE,
    _of(lambda b, x, y: emit.neg(b, emit.square(b, y))),
    kinds=_FIELD,
    guarded=True,
)
elementwise(
    "root", "Square root whose derivative at 0 is 0: the subgradient of a norm.", np.sqrt, _POSITIVE,
    _of(lambda b, x, y: emit.drop(b, emit.compare(b, "eq", y, 0), emit.div(b, b.full_like(x, 0.5), y))),
    function="sqrt",
)  # fmt: skip

# ----------------------------------------------------------------------------------------- trigonometry

elementwise("sin", "Sine of an angle in radians.", np.sin, _WIDE, _of(lambda b, x, y: b.emit("cos", x)), kinds=_FIELD)
elementwise(
    "cos",
    "Cosine of an angle in radians.",
    np.cos,
    _WIDE,
    _of(lambda b, x, y: emit.neg(b, b.emit("sin", x))),
    kinds=_FIELD,
)
elementwise(
    "tan", "Tangent of an angle in radians.", np.tan, uniform((-1.2, 1.2)),
    _of(lambda b, x, y: emit.shift(b, emit.square(b, y), 1)), kinds=_FIELD,
)  # fmt: skip


def _circle(b: Builder, x: Node) -> Node:
    """1 / sqrt(1 - x²), the factored form exact near ±1."""
    return b.emit("rsqrt", emit.mul(b, emit.one_minus(b, x), emit.shift(b, x, 1)))


elementwise("asin", "Arc sine in radians.", np.arcsin, _INSIDE, _of(lambda b, x, y: _circle(b, x)), guarded=True)
elementwise(
    "acos", "Arc cosine in radians.", np.arccos, _INSIDE, _of(lambda b, x, y: emit.neg(b, _circle(b, x))), guarded=True
)
elementwise(
    "atan",
    "Arc tangent in radians.",
    np.arctan,
    _WIDE,
    _of(lambda b, x, y: _inverse(b, emit.shift(b, emit.square(b, x), 1))),
)
elementwise(
    "sinh", "Hyperbolic sine.", np.sinh, _WIDE, _of(lambda b, x, y: b.emit("cosh", x)), kinds=_FIELD, guarded=True
)
elementwise(
    "cosh", "Hyperbolic cosine.", np.cosh, _WIDE, _of(lambda b, x, y: b.emit("sinh", x)), kinds=_FIELD, guarded=True
)
elementwise(
    "tanh",
    "Hyperbolic tangent.",
    np.tanh,
    _WIDE,
    _of(lambda b, x, y: emit.one_minus(b, emit.square(b, y))),
    kinds=_FIELD,
)

# ----------------------------------------------------------------------------------------- logistic, error function


def _sigmoid(x: np.ndarray[Any, Any]) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def _softplus(x: np.ndarray[Any, Any]) -> Any:
    return np.logaddexp(x, np.zeros((), x.dtype)).astype(x.dtype)


elementwise(
    "sigmoid", "1 / (1 + exp(-x)), without overflow.", _sigmoid, _WIDE,
    _of(lambda b, x, y: emit.mul(b, y, emit.one_minus(b, y))),
)  # fmt: skip
elementwise(
    "softplus", "log(1 + exp(x)), without overflow.", _softplus, _WIDE, _of(lambda b, x, y: b.emit("sigmoid", x))
)
elementwise(
    "log_sigmoid", "log(sigmoid(x)), without overflow.", lambda x: -_softplus(-x), _WIDE,
    _of(lambda b, x, y: b.emit("sigmoid", emit.neg(b, x))),
)  # fmt: skip


def _gauss(factor: float) -> Chain:
    return lambda b, x, y: emit.scale(b, b.emit("exp", emit.neg(b, emit.square(b, x))), factor)


elementwise("erf", "Error function.", scalar_reference(math.erf), _WIDE, _of(_gauss(2 / math.sqrt(math.pi))))
elementwise(
    "erfc", "1 - erf(x), exact for large x.", scalar_reference(math.erfc), _WIDE, _of(_gauss(-2 / math.sqrt(math.pi)))
)

# ----------------------------------------------------------------------------------------- rounding, sign

elementwise(
    "abs",
    "Absolute value; the derivative at 0 is 0.",
    np.abs,
    _WIDE,
    _of(lambda b, x, y: b.emit("sign", x)),
    kinds=REAL,
)
constant_valued("sign", "-1, 0 or 1; NaN stays.", np.sign, _WIDE, kinds=REAL)
constant_valued("floor", "Largest integer not above.", np.floor, _WIDE, kinds=FLOAT)
constant_valued("ceil", "Smallest integer not below.", np.ceil, _WIDE, kinds=FLOAT)
constant_valued("trunc", "Integer part, towards 0.", np.trunc, _WIDE, kinds=FLOAT)
elementwise(
    "round", "Nearest integer, half to even; the gradient passes straight through.", np.round, _WIDE, ZERO,
    jvp=lambda b, node, primals, tangents: tangents[0], vjp=lambda b, node, primals, ct: (ct,),
)  # fmt: skip
