"""Elementwise functions of complex numbers in real and imaginary parts, safe against overflow on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from rlxlang.ir import Builder, Node
from rlxlang.ops import emit

Pair: TypeAlias = tuple[Node, Node]


def _mul(b: Builder, x: Pair, y: Pair) -> Pair:
    (p, q), (r, s) = x, y
    return (
        emit.sub(b, emit.mul(b, p, r), emit.mul(b, q, s)),
        emit.add(b, emit.mul(b, p, s), emit.mul(b, q, r)),
    )


def _is_zero(b: Builder, x: Pair) -> Node:
    return b.emit("bit_and", *(emit.compare(b, "eq", part, 0) for part in x))


def _chosen(b: Builder, condition: Node, x: Pair, y: Pair) -> Pair:
    return emit.select(b, condition, x[0], y[0]), emit.select(b, condition, x[1], y[1])


def _mul_safe(b: Builder, x: Pair, y: Pair) -> Pair:
    zero = b.zeros_like(x[0])
    return _chosen(b, _is_zero(b, x), (zero, zero), _mul(b, x, y))


def _div(b: Builder, x: Pair, y: Pair) -> Pair:
    """With the divisor scaled by its larger part (Smith 1962); by zero each part is divided by zero."""
    size = b.emit("maximum", b.emit("abs", y[0]), b.emit("abs", y[1]))
    by_zero = _is_zero(b, y)
    unit = b.full_like(size, 1), b.zeros_like(size)
    r, s = _chosen(b, by_zero, unit, (emit.div(b, y[0], size), emit.div(b, y[1], size)))
    norm = emit.add(b, emit.mul(b, y[0], r), emit.mul(b, y[1], s))
    re, im = _mul(b, x, (r, emit.neg(b, s)))
    return emit.div(b, re, norm), emit.div(b, im, norm)


def _recip(b: Builder, x: Pair) -> Pair:
    return _div(b, (b.full_like(x[0], 1), b.zeros_like(x[0])), x)


def _exp(b: Builder, x: Pair) -> Pair:
    size = b.emit("exp", x[0])
    # A real number stays real, also where its exponential is infinite.
    return emit.mul(b, size, b.emit("cos", x[1])), emit.mul_safe(b, b.emit("sin", x[1]), size)


def _log(b: Builder, x: Pair) -> Pair:
    """log|z| as log(m) + log(1 + r²)/2 with m the larger part and r the quotient of the parts."""
    p, q = (b.emit("abs", part) for part in x)
    large, small = b.emit("maximum", p, q), b.emit("minimum", p, q)
    ratio = emit.select(b, b.emit("eq", p, q), b.full_like(p, 1), emit.div(b, small, large))
    rest = emit.scale(b, b.emit("log1p", emit.square(b, ratio)), 0.5)
    return emit.add(b, b.emit("log", large), rest), b.emit("atan2", x[1], x[0])


def _sqrt(b: Builder, x: Pair) -> Pair:
    """The root with a real part that is not negative; the larger part first, so that nothing cancels."""
    is_huge = emit.compare(b, "gt", b.emit("maximum", b.emit("abs", x[0]), b.emit("abs", x[1])), 1e38)
    re, im = (emit.select(b, is_huge, emit.scale(b, part, 1 / 16), part) for part in x)
    size = b.emit("hypot", re, im)
    large = b.emit("sqrt", emit.scale(b, emit.add(b, size, b.emit("abs", re)), 0.5))
    small = emit.drop(b, emit.compare(b, "eq", large, 0), emit.div(b, emit.scale(b, b.emit("abs", im), 0.5), large))
    # Below the cut lies also what has the imaginary part -0.
    below = b.emit(
        "bit_or", emit.compare(b, "lt", im, 0), emit.compare(b, "lt", emit.div(b, b.full_like(im, 1), im), 0)
    )
    right = emit.compare(b, "ge", re, 0)
    rise = emit.select(b, right, small, large)
    root = emit.select(b, right, large, small), emit.select(b, below, emit.neg(b, rise), rise)
    return _chosen(b, is_huge, (emit.scale(b, root[0], 4), emit.scale(b, root[1], 4)), root)


def _pow(b: Builder, x: Pair, y: Pair) -> Pair:
    """exp(y·log x); 1 for y = 0, and 0 for x = 0."""
    one, zero = b.full_like(x[0], 1), b.zeros_like(x[0])
    found = _exp(b, _mul(b, y, _log(b, x)))
    return _chosen(b, _is_zero(b, y), (one, zero), _chosen(b, _is_zero(b, x), (zero, zero), found))


def _sinh(b: Builder, x: Pair) -> Pair:
    return (
        emit.mul(b, b.emit("sinh", x[0]), b.emit("cos", x[1])),
        emit.mul(b, b.emit("cosh", x[0]), b.emit("sin", x[1])),
    )


def _cosh(b: Builder, x: Pair) -> Pair:
    return (
        emit.mul(b, b.emit("cosh", x[0]), b.emit("cos", x[1])),
        emit.mul(b, b.emit("sinh", x[0]), b.emit("sin", x[1])),
    )


def _tanh(b: Builder, x: Pair) -> Pair:
    """(t + iu) / (1 + itu) with t = tanh of the real and u = tan of the imaginary part."""
    t, u = b.emit("tanh", x[0]), b.emit("tan", x[1])
    return _div(b, (t, u), (b.full_like(t, 1), emit.mul(b, t, u)))


def _turned(b: Builder, function: Callable[[Builder, Pair], Pair], x: Pair) -> Pair:
    """−i·f(i·x)."""
    re, im = function(b, (emit.neg(b, x[1]), x[0]))
    return im, emit.neg(b, re)


def _cos(b: Builder, x: Pair) -> Pair:
    return _cosh(b, (emit.neg(b, x[1]), x[0]))


def _eq(b: Builder, x: Pair, y: Pair) -> Node:
    return b.emit("bit_and", b.emit("eq", x[0], y[0]), b.emit("eq", x[1], y[1]))


def _ne(b: Builder, x: Pair, y: Pair) -> Node:
    return b.emit("bit_or", b.emit("ne", x[0], y[0]), b.emit("ne", x[1], y[1]))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mul": _mul,
    "mul_safe": _mul_safe,
    "div": _div,
    "recip": _recip,
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "pow": _pow,
    "sin": lambda b, x: _turned(b, _sinh, x),
    "cos": _cos,
    "tan": lambda b, x: _turned(b, _tanh, x),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "eq": _eq,
    "ne": _ne,
}
"""By the name of the op: pairs of real and imaginary parts to such a pair, or to a Bool."""
