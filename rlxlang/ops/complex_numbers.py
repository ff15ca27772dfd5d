"""Complex numbers from two real ones and back: complex, real, imag, conj.

A cotangent g of complex numbers z stands for the linear map dz ↦ Re(Σ g·dz): of a real loss L it is ∂L/∂re − i·∂L/∂im, the
convention of JAX. So the pull-back of a holomorphic map multiplies by its derivative, without conjugation, and steepest
descent goes along −conj(g).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import ComplexParts
from rlxlang.ops.rules import batch_elementwise, jvp_linear
from rlxlang.types import C64, F32, DType, ShapeContext, TensorType, TypeProblem

Array = np.ndarray[Any, Any]


def from_parts(b: Builder, re: Node, im: Node) -> Node:
    """`re + i·im` of two F32 tensors."""
    return b.emit("complex", re, im)


def real_part(b: Builder, z: Node) -> Node:
    """Real parts of a C64 tensor."""
    return b.emit("real", z)


def imaginary_part(b: Builder, z: Node) -> Node:
    """Imaginary parts of a C64 tensor."""
    return b.emit("imag", z)


def as_complex(b: Builder, re: Node) -> Node:
    """An F32 tensor as complex numbers."""
    return from_parts(b, re, b.zeros_like(re))


def _infer_complex(context: ShapeContext, re: TensorType, im: TensorType) -> TensorType:
    for x in (re, im):
        if x.dtype != F32:
            raise TypeProblem("E0301", f"the parts of `complex` are F32, and {x} is given")
    shape = context.same_shape(re.shape, im.shape, "the shapes of the parts of `complex`")
    return TensorType(C64, shape)


def _join(re: Array, im: Array) -> Array:
    found = np.empty(np.shape(re), np.complex64)
    found.real, found.imag = re, im
    return found


def _numbers(rng: np.random.Generator, *shape: int) -> Array:
    return _join(rng.normal(size=shape), rng.normal(size=shape))


_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (), (2, 0))


register(
    Op(
        "complex",
        "Complex numbers of real and imaginary parts.",
        _infer_complex,
        _join,
        jvp_linear,
        lambda b, node, primals, ct: (real_part(b, ct), emit.neg(b, imaginary_part(b, ct))),
        batch_elementwise,
        ComplexParts(),
        lambda rng: [
            Sample((rng.normal(size=s).astype(np.float32), rng.normal(size=s).astype(np.float32)), {}) for s in _SHAPES
        ],
    )
)


def _row(name: str, doc: str, reference: Callable[[Array], Array], result: DType, vjp: Callable[..., Node]) -> None:
    def infer(context: ShapeContext, z: TensorType) -> TensorType:
        if z.dtype != C64:
            raise TypeProblem("E0301", f"`{name}` takes C64, and {z} is given")
        return z.with_dtype(result)

    def pull(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
        return (vjp(b, ct),)

    register(
        Op(
            name,
            doc,
            infer,
            reference,
            jvp_linear,
            pull,
            batch_elementwise,
            ComplexParts(),
            lambda rng: [Sample((_numbers(rng, *s),), {}) for s in _SHAPES],
        )
    )


_row("real", "Real parts.", lambda z: np.array(z.real), F32, lambda b, ct: as_complex(b, ct))
_row(
    "imag",
    "Imaginary parts.",
    lambda z: np.array(z.imag),
    F32,
    lambda b, ct: from_parts(b, b.zeros_like(ct), emit.neg(b, ct)),
)
_row("conj", "Complex conjugates.", np.conj, C64, lambda b, ct: b.emit("conj", ct))
