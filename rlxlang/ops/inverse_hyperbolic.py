"""Inverse hyperbolic functions and the cube root, as compositions with exact derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.ops.elementwise import elementwise, uniform


def _inverse(b: Builder, x: Node) -> Node:
    return emit.div(b, b.full_like(x, 1), x)


def _odd(b: Builder, x: Node, value: Node) -> Node:
    """`value`, computed for |x|, with the sign of x; a zero keeps its own."""
    return emit.select(b, emit.compare(b, "eq", x, 0), x, emit.mul(b, b.emit("sign", x), value))


def _asinh(b: Builder, x: Node) -> Node:
    """sign(x)·log1p(|x| + x² / (1 + sqrt(x² + 1))), exact near 0; by log 2|x| where x² would overflow."""
    size = b.emit("abs", x)
    large = emit.compare(b, "gt", size, 1e4)
    inner = emit.select(b, large, b.full_like(x, 1), size)
    square = emit.square(b, inner)
    root = b.emit("sqrt", emit.shift(b, square, 1))
    near = b.emit("log1p", emit.add(b, inner, emit.div(b, square, emit.shift(b, root, 1))))
    far = emit.shift(b, b.emit("log", emit.select(b, large, size, b.full_like(x, 1))), float(np.log(2)))
    return _odd(b, x, emit.select(b, large, far, near))


def _d_asinh(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    return _inverse(b, b.emit("cosh", result))  # sqrt(x² + 1) without overflow


def _acosh(b: Builder, x: Node) -> Node:
    """log1p(t + sqrt(t)·sqrt(t + 2)) with t = x - 1, exact near 1, NaN below; by log 2x where t² would overflow."""
    large = emit.compare(b, "gt", x, 1e4)
    t = emit.shift(b, emit.select(b, large, b.full_like(x, 1), x), -1)
    root = emit.mul(b, b.emit("sqrt", t), b.emit("sqrt", emit.shift(b, t, 2)))
    near = b.emit("log1p", emit.add(b, t, root))
    far = emit.shift(b, b.emit("log", emit.select(b, large, x, b.full_like(x, 1))), float(np.log(2)))
    return emit.select(b, large, far, near)


def _d_acosh(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x = operands[0]
    return emit.mul(b, b.emit("rsqrt", emit.shift(b, x, -1)), b.emit("rsqrt", emit.shift(b, x, 1)))


def _atanh(b: Builder, x: Node) -> Node:
    return emit.scale(b, emit.sub(b, b.emit("log1p", x), b.emit("log1p", emit.neg(b, x))), 0.5)


def _d_atanh(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    x = operands[0]
    return _inverse(b, emit.mul(b, emit.one_minus(b, x), emit.shift(b, x, 1)))


def _cbrt(b: Builder, x: Node) -> Node:
    """A power of |x|, then one step of Newton's iteration where that is finite and not 0."""
    size = b.emit("abs", x)
    guess = b.emit("pow", size, b.full_like(x, 1 / 3))
    regular = b.emit("bit_and", emit.compare(b, "gt", size, 0), b.emit("isfinite", size))
    safe = emit.select(b, regular, guess, b.full_like(x, 1))
    step = emit.scale(b, emit.sub(b, emit.div(b, emit.div(b, size, safe), safe), safe), 1 / 3)
    return _odd(b, x, emit.select(b, regular, emit.add(b, safe, step), guess))


def _d_cbrt(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    return _inverse(b, emit.scale(b, emit.square(b, result), 3))


def _same_dtype(function: Any) -> Any:
    return lambda x: np.asarray(function(x)).astype(x.dtype)


elementwise("asinh", "Inverse of sinh.", _same_dtype(np.arcsinh), uniform((-2.0, 2.0)), (_d_asinh,), decompose=_asinh)
elementwise(
    "acosh",
    "Inverse of cosh.",
    _same_dtype(np.arccosh),
    uniform((1.2, 3.0)),
    (_d_acosh,),
    decompose=_acosh,
    guarded=True,
)
elementwise(
    "atanh",
    "Inverse of tanh.",
    _same_dtype(np.arctanh),
    uniform((-0.8, 0.8)),
    (_d_atanh,),
    decompose=_atanh,
    guarded=True,
)
elementwise(
    "cbrt",
    "Cube root.",
    _same_dtype(np.cbrt),
    uniform((0.3, 2.0)),
    (_d_cbrt,),
    decompose=_cbrt,
    guarded=True,
)
