"""What users call of complex numbers; real numbers are complex ones without an imaginary part."""

from __future__ import annotations

from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.ops.arguments import surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node, operands
from rlxlang.ops.complex_numbers import from_parts, imaginary_part, real_part
from rlxlang.types import C64, F32, TypeProblem

_Z = (tensor("z"),)


def _complex(b: Builder, re: Value, im: Value = 0.0) -> Node:
    for value in (re, im):
        if isinstance(value, complex) or (isinstance(value, Node) and value.dtype == C64):
            raise TypeProblem("E0301", "the parts of `complex` are real numbers, and C64 is given")
    return from_parts(b, *operands(b, "complex", (re, im), F32))


def _number(b: Builder, op: str, z: Value) -> Node:
    return as_float(b, op, z, is_complex_allowed=True)


def _real(b: Builder, z: Value) -> Node:
    node = as_node(b, z)
    return real_part(b, node) if node.dtype == C64 else node


def _imag(b: Builder, z: Value) -> Node:
    node = as_node(b, z)
    return imaginary_part(b, node) if node.dtype == C64 else b.zeros_like(node)


def _conj(b: Builder, z: Value) -> Node:
    node = as_node(b, z)
    return b.emit("conj", node) if node.dtype == C64 else node


def _angle(b: Builder, z: Value) -> Node:
    node = _number(b, "angle", z)
    if node.dtype == C64:
        return b.emit("atan2", imaginary_part(b, node), real_part(b, node))
    wide = emit.widen(b, node)
    return emit.cast(b, b.emit("atan2", b.zeros_like(wide), wide), node.dtype)


surface(
    "complex",
    (tensor("re"), tensor("im", 0.0)),
    _complex,
    "Complex numbers (C64) of real and imaginary parts; F64 is rounded to F32.",
)
surface("real", _Z, _real, "Real parts.")
surface("imag", _Z, _imag, "Imaginary parts; 0 for real numbers.")
surface("conj", _Z, _conj, "Complex conjugates; real numbers stay.")
surface("angle", _Z, _angle, "Angles of complex numbers in radians, from -π to π.")
