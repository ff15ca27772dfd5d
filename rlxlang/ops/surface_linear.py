"""What users call of linear algebra: any real dtype, leading axes that broadcast, vectors on the right side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_bool, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, promoted, stretch
from rlxlang.ops.linear import product, turned
from rlxlang.types import DType, ShapeContext, TypeProblem, broadcast_shapes, float_dtype

_ONE = (tensor("a"),)
_BOTH = (tensor("a"), tensor("b"))


def _matrix(b: Builder, op: str, value: Value) -> Node:
    """A stack of matrices in F32 or F64."""
    node = as_node(b, value)
    if len(node.shape) < 2:
        raise TypeProblem("E0404", f"`{op}` takes a matrix, or a stack of matrices, and {node.type} is given")
    if node.dtype.name == "C64":
        raise TypeProblem("E0301", f"`{op}` takes real matrices, and {node.type} is given")
    return emit.widen(b, emit.cast(b, node, float_dtype(node.dtype)))


def _result_dtype(b: Builder, *values: Value) -> DType:
    return float_dtype(promoted(b, "this", values)[0].dtype)


def _items(b: Builder, node: Node, count: int, dtype: DType) -> tuple[Node, ...]:
    found = (b.emit("item", node, index=k) for k in range(count))
    return tuple(emit.cast(b, x, dtype) if x.dtype.is_float else x for x in found)


def _of_one(op: str) -> Callable[..., Node]:
    def build(b: Builder, a: Value) -> Node:
        return emit.cast(b, b.emit(op, _matrix(b, op, a)), _result_dtype(b, a))

    return build


def _several(op: str, count: int) -> Callable[..., tuple[Node, ...]]:
    def build(b: Builder, a: Value) -> tuple[Node, ...]:
        return _items(b, b.emit(op, _matrix(b, op, a)), count, _result_dtype(b, a))

    return build


def _sides(b: Builder, op: str, a: Value, right: Value) -> tuple[Node, Node, bool, DType]:
    """Both sides of a system with equal leading axes; whether the right one was a vector."""
    left, other = promoted(b, op, (a, right))
    dtype = float_dtype(left.dtype)
    if len(left.shape) < 2 or not other.shape:
        raise TypeProblem(
            "E0404", f"`{op}` takes a matrix and a matrix or vector, and {left.type} and {other.type} are given"
        )
    if dtype.name == "C64":
        raise TypeProblem("E0301", f"`{op}` takes real matrices, and {left.type} is given")
    is_vector = len(other.shape) == 1
    if is_vector:
        other = emit.reshape(b, other, (*other.shape, 1))
    left, other = (emit.widen(b, emit.cast(b, n, dtype)) for n in (left, other))
    lead = broadcast_shapes(ShapeContext(), (left.shape[:-2], other.shape[:-2]), f"the leading axes of `{op}`")
    left, other = stretch(b, left, (*lead, *left.shape[-2:])), stretch(b, other, (*lead, *other.shape[-2:]))
    return left, other, is_vector, dtype


def _finished(b: Builder, x: Node, is_vector: bool, dtype: DType) -> Node:
    return emit.cast(b, emit.reshape(b, x, x.shape[:-1]) if is_vector else x, dtype)


def _solve(builder: Builder, /, a: Value, b: Value) -> Node:
    left, right, is_vector, dtype = _sides(builder, "solve", a, b)
    return _finished(builder, builder.emit("solve", left, right), is_vector, dtype)


def _triangular_solve(builder: Builder, /, a: Value, b: Value, lower: Any, transpose: Any, unit_diagonal: Any) -> Node:
    op = "triangular_solve"
    left, right, is_vector, dtype = _sides(builder, op, a, b)
    options = {
        "lower": static_bool(op, lower, "lower"),
        "transpose": static_bool(op, transpose, "transpose"),
        "unit_diagonal": static_bool(op, unit_diagonal, "unit_diagonal"),
    }
    return _finished(builder, builder.emit(op, left, right, **options), is_vector, dtype)


def _lstsq(builder: Builder, /, a: Value, b: Value) -> Node:
    """Through an orthogonal factorisation of A (tall) or Aᵀ (wide, where the solution of least norm is meant)."""
    left, right, is_vector, dtype = _sides(builder, "lstsq", a, b)
    m, n = left.shape[-2:]
    is_wide = isinstance(m, int) and isinstance(n, int) and m < n
    q, r = _items(builder, builder.emit("qr", turned(builder, left) if is_wide else left), 2, left.dtype)
    options = {"lower": False, "transpose": is_wide, "unit_diagonal": False}
    if is_wide:
        x = product(builder, q, builder.emit("triangular_solve", r, right, **options))
    else:
        x = builder.emit("triangular_solve", r, product(builder, turned(builder, q), right), **options)
    return _finished(builder, x, is_vector, dtype)


def _qr(b: Builder, a: Value) -> tuple[Node, Node]:
    node, dtype = _matrix(b, "qr", a), _result_dtype(b, a)
    m, n = node.shape[-2:]
    if not (isinstance(m, int) and isinstance(n, int) and m < n):
        q, r = _items(b, b.emit("qr", node), 2, dtype)
        return q, r
    # A wide matrix: its first columns decide Q, the others are turned by it.
    axis = len(node.shape) - 1
    q, r = _items(b, b.emit("qr", emit.slice_axis(b, node, axis, 0, m)), 2, node.dtype)
    rest = product(b, turned(b, q), emit.slice_axis(b, node, axis, m, n))
    return emit.cast(b, q, dtype), emit.cast(b, emit.concat(b, [r, rest], axis), dtype)


def _eigvalsh(b: Builder, a: Value) -> Node:
    return _items(b, b.emit("eigh", _matrix(b, "eigvalsh", a)), 1, _result_dtype(b, a))[0]


def _kron(builder: Builder, /, a: Value, b: Value) -> Node:
    left, right = promoted(builder, "kron", (a, b))
    rank = max(len(left.shape), len(right.shape))
    left, right = (emit.reshape(builder, n, ((1,) * (rank - len(n.shape)) + tuple(n.shape))) for n in (left, right))
    wide = [d for p, q in zip(left.shape, right.shape, strict=True) for d in (p, q)]
    first = [d for p in left.shape for d in (p, 1)]
    second = [d for q in right.shape for d in (1, q)]
    spread = [
        emit.broadcast_to(builder, emit.reshape(builder, n, s), wide) for n, s in ((left, first), (right, second))
    ]
    shape = [p * q for p, q in zip(left.shape, right.shape, strict=True)]
    return emit.reshape(builder, builder.emit("mul", *spread), shape)


def _options(*names: tuple[str, bool]) -> Sequence[Parameter]:
    return [Parameter(name, "bool", default) for name, default in names]


surface("inv", _ONE, _of_one("inv"), "Inverses of square matrices.")
surface("solve", _BOTH, _solve, "x with a·x = b, for a vector or a matrix b.")
surface("cholesky", _ONE, _of_one("cholesky"), "Lower triangular L with L·Lᵀ = a, of the symmetric part of a.")
surface(
    "triangular_solve",
    (*_BOTH, *_options(("lower", True), ("transpose", False), ("unit_diagonal", False))),
    _triangular_solve,
    "x with t·x = b, t the lower (upper) triangle of a; with `transpose` its transpose.",
)
surface("lu", _ONE, _several("lu", 3), "Order of the rows p, L and U with take(a, p) = L·U, of a square matrix.")
surface("det", _ONE, _of_one("det"), "Determinants of square matrices.")
surface("slogdet", _ONE, _several("slogdet", 2), "Sign and logarithm of the absolute value of determinants.")
surface("qr", _ONE, _qr, "q with orthonormal columns and r upper triangular, q·r = a.")
surface("svd", _ONE, _several("svd", 3), "u, singular values in descending order and vᵀ, with u·diag(s)·vᵀ = a.")
surface(
    "eigh", _ONE, _several("eigh", 2), "Eigenvalues in ascending order and eigenvectors, of the symmetric part of a."
)
surface("eigvalsh", _ONE, _eigvalsh, "Eigenvalues in ascending order, of the symmetric part of a.")
surface("lstsq", _BOTH, _lstsq, "x of least squares |a·x - b|; of least norm for a wide matrix a. Full rank.")
surface("expm", _ONE, _of_one("expm"), "Matrix exponentials.")
surface("kron", _BOTH, _kron, "Kronecker product.")
