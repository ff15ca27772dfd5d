"""Linear algebra: factorisations and solutions, computed by routines on whole stacks of matrices.

Matrices are the last two axes. Derivatives follow Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008), and for the singular value decomposition Townsend, "Differentiating the singular value
decomposition" (2016), rearranged so that a quotient by a vanishing gap arises only where the derivative does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.kernels import call_routine
from rlxlang.ops import emit
from rlxlang.ops.lowering import LibraryCall
from rlxlang.types import I32, DimLike, ShapeContext, TensorType, TupleType, TypeProblem, dims_equal
from rlxlang.types.dim import minimum

Pair: TypeAlias = "tuple[Node | None, ...]"


# --------------------------------------------------------------------------------------------- matrices in rules
def product(b: Builder, x: Node, y: Node) -> Node:
    """The matrix products of two stacks with equal leading axes."""
    rank = len(x.shape)
    lead = tuple(range(rank - 2))
    return emit.dot(b, x, y, ((rank - 1,), (rank - 2,)), (lead, lead))


def turned(b: Builder, x: Node) -> Node:
    """The transposed matrices."""
    rank = len(x.shape)
    return emit.transpose(b, x, (*range(rank - 2), rank - 1, rank - 2))


def symmetric(b: Builder, x: Node) -> Node:
    """The symmetric part."""
    return emit.scale(b, emit.add(b, x, turned(b, x)), 0.5)


def _compared(b: Builder, x: Node, relation: str) -> Node:
    """Where the row of an element compares so with its column."""
    rank = len(x.shape)
    return b.emit(relation, emit.iota(b, x.shape, rank - 2, I32), emit.iota(b, x.shape, rank - 1, I32))


def lower_part(b: Builder, x: Node, *, strict: bool = False) -> Node:
    """The lower triangle, without the diagonal if strict."""
    return emit.keep(b, _compared(b, x, "gt" if strict else "ge"), x)


def upper_part(b: Builder, x: Node, *, strict: bool = False) -> Node:
    """The upper triangle, without the diagonal if strict."""
    return emit.keep(b, _compared(b, x, "lt" if strict else "le"), x)


def _diagonal(b: Builder, x: Node) -> Node:
    """The diagonals of square matrices."""
    return emit.reduce_sum(b, emit.keep(b, _compared(b, x, "eq"), x), (len(x.shape) - 1,))


def _off_diagonal(b: Builder, x: Node) -> Node:
    return emit.drop(b, _compared(b, x, "eq"), x)


def _spread(b: Builder, x: Node) -> Node:
    """Diagonal matrices of vectors."""
    wide = emit.insert_axis(b, x, len(x.shape), x.shape[-1])
    return emit.keep(b, _compared(b, wide, "eq"), wide)


def _columns(b: Builder, x: Node, rows: DimLike) -> Node:
    """A vector as the value of every column."""
    return emit.insert_axis(b, x, len(x.shape) - 1, rows)


def _rows(b: Builder, x: Node, columns: DimLike) -> Node:
    """A vector as the value of every row."""
    return emit.insert_axis(b, x, len(x.shape), columns)


def _everywhere(b: Builder, x: Node, like: Node) -> Node:
    """A number for each matrix as the value of all its elements."""
    rank = len(like.shape)
    return emit.restore_axes(b, x, (rank - 2, rank - 1), like.shape)


def _inner(b: Builder, x: Node, y: Node) -> Node:
    """The sums of products of the elements of matrices."""
    rank = len(x.shape)
    return emit.reduce_sum(b, emit.mul(b, x, y), (rank - 2, rank - 1))


def _divide(b: Builder, x: Node, gap: Node, what: str) -> Node:
    return b.emit("spectral_divide", x, gap, what=what)


def _total(b: Builder, *terms: Node | None) -> Node | None:
    return emit.add_present(b, *terms)


# --------------------------------------------------------------------------------------------- rows
def _matrix(name: str, x: TensorType, *, square: bool = True) -> None:
    if x.dtype.name not in ("F32", "F64"):
        raise TypeProblem("E0301", f"`{name}` takes F32 or F64, and {x} is given")
    if x.rank < 2:
        raise TypeProblem("E0404", f"`{name}` takes matrices, and {x} is given")
    if square and dims_equal(x.shape[-1], x.shape[-2]) is False:
        raise TypeProblem("E0400", f"`{name}` takes square matrices, and {x} is given")


def _square(context: ShapeContext, name: str, x: TensorType) -> None:
    _matrix(name, x)
    context.same(x.shape[-2], x.shape[-1], f"the sides of the matrices of `{name}`")


def _batched(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Any:
    """The op on stacks with one more leading axis."""
    moved = [
        emit.insert_axis(b, x, 0, size) if axis is None else emit.move_axis(b, x, axis, 0)
        for x, axis in zip(args, axes, strict=True)
    ]
    result = b.emit(node.op, *moved, **node.attrs)
    return result, tuple(0 for _ in node.type.items) if isinstance(node.type, TupleType) else 0


def _row(
    name: str,
    doc: str,
    infer: Callable[..., Any],
    jvp: Any,
    vjp: Any,
    samples: Callable[[np.random.Generator], Sequence[Sample]],
) -> Op:
    def reference(*arrays: np.ndarray[Any, Any], **options: Any) -> Any:
        found = call_routine(name, arrays, options)
        return found if name in _SEVERAL else found[0]

    return register(Op(name, doc, infer, reference, jvp, vjp, _batched, LibraryCall(name), samples))


_SEVERAL = ("eigh", "svd", "qr", "lu", "slogdet")


def _well(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Square matrices far from singular."""
    return rng.normal(size=shape) * 0.4 + 2 * np.eye(shape[-1])


def _distinct(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """A symmetric matrix with well separated eigenvalues."""
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    found: np.ndarray[Any, Any] = (q * np.arange(1.0, n + 1)) @ q.T
    return found


# --------------------------------------------------------------------------------------------- solve, inv
def _infer_solve(context: ShapeContext, a: TensorType, x: TensorType, **options: Any) -> TensorType:
    name = "triangular_solve" if options else "solve"
    _square(context, name, a)
    _matrix(name, x, square=False)
    if a.dtype != x.dtype:
        raise TypeProblem("E0302", f"the dtypes of `{name}` differ: {a.dtype} and {x.dtype}")
    if a.rank != x.rank:
        raise TypeProblem("E0404", f"the ranks of `{name}` differ: {a} and {x}")
    context.same(a.shape[-1], x.shape[-2], f"the rows of the right side of `{name}`", "E0402")
    for p, q in zip(a.shape[:-2], x.shape[:-2], strict=True):
        context.same(p, q, f"the batch sizes of `{name}`")
    return x


def _solve_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node:
    a, (da, dx) = primals[0], tangents
    right = _total(b, dx, None if da is None else emit.neg(b, product(b, da, node)))
    assert right is not None
    return b.emit("solve", a, right)


def _solve_vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
    right = b.emit("solve", turned(b, primals[0]), ct)
    return emit.neg(b, product(b, right, turned(b, node))), right


_row(
    "solve",
    "X with A·X = B for square A.",
    _infer_solve,
    _solve_jvp,
    _solve_vjp,
    lambda rng: [
        Sample((_well(rng, 3, 3), rng.normal(size=(3, 2))), {}),
        Sample((_well(rng, 2, 4, 4), rng.normal(size=(2, 4, 1))), {}),
        Sample((_well(rng, 1, 1), rng.normal(size=(1, 3))), {}),
        Sample((np.zeros((0, 0)), np.zeros((0, 2))), {}),
        Sample((np.zeros((0, 2, 2)), np.zeros((0, 2, 2))), {}),
    ],
)


def _infer_same(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, a: TensorType) -> TensorType:
        _square(context, name, a)
        return a

    return infer


def _square_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((_well(rng, 3, 3),), {}),
        Sample((_well(rng, 2, 2, 2),), {}),
        Sample((_well(rng, 1, 1),), {}),
        Sample((np.zeros((0, 3, 3)),), {}),
        Sample((np.zeros((2, 0, 0)),), {}),
    ]


_row(
    "inv",
    "Inverses of square matrices.",
    _infer_same("inv"),
    lambda b, node, primals, tangents: emit.neg(b, product(b, product(b, node, tangents[0]), node)),
    lambda b, node, primals, ct: (emit.neg(b, product(b, product(b, turned(b, node), ct), turned(b, node))),),
    _square_samples,
)


def _triangle(b: Builder, x: Node, attrs: Any) -> Node:
    part = lower_part if attrs["lower"] else upper_part
    return part(b, x, strict=attrs["unit_diagonal"])


def _triangular_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node:
    a, (da, dx) = primals[0], tangents
    moved = None
    if da is not None:
        triangle = _triangle(b, da, node.attrs)
        moved = emit.neg(b, product(b, turned(b, triangle) if node.attrs["transpose"] else triangle, node))
    right = _total(b, dx, moved)
    assert right is not None
    return b.emit(node.op, a, right, **node.attrs)


def _triangular_vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
    options = {**node.attrs, "transpose": not node.attrs["transpose"]}
    right = b.emit(node.op, primals[0], ct, **options)
    left, other = (node, right) if node.attrs["transpose"] else (right, node)
    return emit.neg(b, _triangle(b, product(b, left, turned(b, other)), node.attrs)), right


_row(
    "triangular_solve",
    "X with T·X = B, T one triangle of A; with `transpose` Tᵀ·X = B.",
    _infer_solve,
    _triangular_jvp,
    _triangular_vjp,
    lambda rng: [
        Sample(
            (_well(rng, 3, 3), rng.normal(size=(3, 2))),
            {"lower": lower, "transpose": transpose, "unit_diagonal": unit},
        )
        for lower, transpose, unit in (
            (True, False, False),
            (False, True, False),
            (True, True, True),
            (False, False, True),
        )
    ],
)


# --------------------------------------------------------------------------------------------- cholesky
def _half_lower(b: Builder, x: Node) -> Node:
    """The lower triangle with half of the diagonal."""
    return emit.sub(b, lower_part(b, x), emit.scale(b, emit.sub(b, x, _off_diagonal(b, x)), 0.5))


def _between(b: Builder, factor: Node, x: Node, *, transpose: bool) -> Node:
    """L⁻¹·X·L⁻ᵀ, or with `transpose` L⁻ᵀ·X·L⁻¹."""
    options = {"lower": True, "transpose": transpose, "unit_diagonal": False}
    left = b.emit("triangular_solve", factor, x, **options)
    return turned(b, b.emit("triangular_solve", factor, turned(b, left), **options))


_row(
    "cholesky",
    "Lower triangular L with L·Lᵀ = A, of the symmetric part of a positive definite A.",
    _infer_same("cholesky"),
    lambda b, node, primals, tangents: product(
        b, node, _half_lower(b, _between(b, node, symmetric(b, tangents[0]), transpose=False))
    ),
    lambda b, node, primals, ct: (
        symmetric(b, _between(b, node, _half_lower(b, product(b, turned(b, node), ct)), transpose=True)),
    ),
    lambda rng: [
        Sample((_distinct(rng, 3),), {}, mixable=False),
        Sample((np.stack([_distinct(rng, 2), _distinct(rng, 2) * 2]),), {}, mixable=False),
        Sample((np.zeros((0, 2, 2)),), {}, mixable=False),
    ],
)


# --------------------------------------------------------------------------------------------- spectra
def _infer_divide(context: ShapeContext, x: TensorType, gap: TensorType, *, what: str) -> TensorType:
    _matrix(what, x, square=False)
    context.same_shape(x.shape, gap.shape, "the shapes of a quotient by gaps")
    return x


_row(
    "spectral_divide",
    "Quotient by a gap between values of a spectrum: 0 where both vanish, an error where only the gap does.",
    _infer_divide,
    lambda b, node, primals, tangents: _divide(
        b,
        _total(
            b,
            tangents[0],
            None if tangents[1] is None else emit.neg(b, emit.mul(b, node, tangents[1])),
        )
        or b.zeros_like(node),
        primals[1],
        node.attrs["what"],
    ),
    lambda b, node, primals, ct: (
        quotient := _divide(b, ct, primals[1], node.attrs["what"]),
        emit.neg(b, emit.mul(b, quotient, node)),
    ),
    lambda rng: [Sample((rng.normal(size=(2, 3)), rng.uniform(1, 2, (2, 3))), {"what": "eigh"})],
)


def _gaps(b: Builder, w: Node) -> Node:
    """w_j - w_i, and infinity on the diagonal, where nothing is divided."""
    n = w.shape[-1]
    gaps = emit.sub(b, _columns(b, w, n), _rows(b, w, n))
    return emit.select(b, _compared(b, gaps, "eq"), b.full_like(gaps, np.inf), gaps)


def _infer_eigh(context: ShapeContext, a: TensorType) -> TupleType:
    _square(context, "eigh", a)
    return TupleType((TensorType(a.dtype, a.shape[:-1]), a))


def _items(b: Builder, node: Node) -> list[Node]:
    assert isinstance(node.type, TupleType)
    return [b.emit("item", node, index=k) for k in range(len(node.type.items))]


def _eigh_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> tuple[Node, Node]:
    w, v = _items(b, node)
    moved = product(b, product(b, turned(b, v), symmetric(b, tangents[0])), v)
    turn = _divide(b, _off_diagonal(b, moved), _gaps(b, w), "eigh")
    return _diagonal(b, moved), product(b, v, turn)


def _eigh_vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> Pair:
    w, v = _items(b, node)
    gw, gv = cotangents
    middle = None if gw is None else _spread(b, gw)
    if gv is not None:
        # Not made antisymmetric before the division: what cancels at equal eigenvalues has a limit that is not 0.
        middle = _total(b, middle, _divide(b, product(b, turned(b, v), gv), _gaps(b, w), "eigh"))
    return (None if middle is None else symmetric(b, product(b, product(b, v, middle), turned(b, v))),)


_row(
    "eigh",
    "Eigenvalues in ascending order and eigenvectors, of the symmetric part of A.",
    _infer_eigh,
    _eigh_jvp,
    _eigh_vjp,
    lambda rng: [
        Sample((_distinct(rng, 3),), {}),
        Sample((np.stack([_distinct(rng, 2), -_distinct(rng, 2)]),), {}),
        Sample((np.array([[2.5]]),), {}),
        Sample((np.zeros((0, 2, 2)),), {}),
    ],
)


def _infer_svd(context: ShapeContext, a: TensorType) -> TupleType:
    _matrix("svd", a, square=False)
    (*lead, m, n), kind = a.shape, a.dtype
    k = minimum(m, n)
    return TupleType((TensorType(kind, (*lead, m, k)), TensorType(kind, (*lead, k)), TensorType(kind, (*lead, k, n))))


def _sums(b: Builder, s: Node) -> Node:
    """s_j + s_i."""
    n = s.shape[-1]
    return emit.add(b, _columns(b, s, n), _rows(b, s, n))


def _outside(b: Builder, basis: Node, x: Node) -> Node:
    """The part of the columns of X that is orthogonal to a basis."""
    return emit.sub(b, x, product(b, basis, product(b, turned(b, basis), x)))


def _is_square(x: Node) -> bool:
    return dims_equal(x.shape[-1], x.shape[-2]) is True


def _svd_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> tuple[Node, Node, Node]:
    u, s, vt = _items(b, node)
    v, da = turned(b, vt), tangents[0]
    moved = product(b, product(b, turned(b, u), da), v)
    even = _off_diagonal(b, symmetric(b, moved))
    odd = emit.scale(b, emit.sub(b, moved, turned(b, moved)), 0.5)
    first, second = _divide(b, even, _gaps(b, s), "svd"), _divide(b, odd, _sums(b, s), "svd")
    du = product(b, u, emit.add(b, first, second))
    dv = product(b, v, emit.sub(b, first, second))
    if not _is_square(u):
        rest = _outside(b, u, product(b, da, v))
        du = emit.add(b, du, _divide(b, rest, _columns(b, s, u.shape[-2]), "svd"))
    if not _is_square(v):
        rest = _outside(b, v, product(b, turned(b, da), u))
        dv = emit.add(b, dv, _divide(b, rest, _columns(b, s, v.shape[-2]), "svd"))
    return du, _diagonal(b, moved), turned(b, dv)


def _svd_vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> Pair:
    u, s, vt = _items(b, node)
    v = turned(b, vt)
    gu, gs, gvt = cotangents
    gv = None if gvt is None else turned(b, gvt)
    middle = None if gs is None else _spread(b, gs)
    rest: Node | None = None

    for basis, given, sign in ((u, gu, 0.5), (v, gv, -0.5)):
        if given is None:
            continue
        pulled = product(b, turned(b, basis), given)
        # Not made antisymmetric before the division: what cancels at equal values has a limit that is not 0.
        even = symmetric(b, _divide(b, pulled, _gaps(b, s), "svd"))
        odd = _divide(b, emit.sub(b, pulled, turned(b, pulled)), _sums(b, s), "svd")
        middle = _total(b, middle, even, emit.scale(b, odd, sign))
    if gu is not None and not _is_square(u):
        part = _divide(b, _outside(b, u, gu), _columns(b, s, u.shape[-2]), "svd")
        rest = _total(b, rest, product(b, part, vt))
    if gv is not None and not _is_square(v):
        part = _divide(b, _outside(b, v, gv), _columns(b, s, v.shape[-2]), "svd")
        rest = _total(b, rest, product(b, u, turned(b, part)))
    core = None if middle is None else product(b, product(b, u, middle), vt)
    return (_total(b, core, rest),)


def _stretched(rng: np.random.Generator, m: int, n: int) -> np.ndarray[Any, Any]:
    """A matrix with well separated singular values."""
    u, _ = np.linalg.qr(rng.normal(size=(m, min(m, n))))
    v, _ = np.linalg.qr(rng.normal(size=(n, min(m, n))))
    found: np.ndarray[Any, Any] = (u * np.arange(1.0, min(m, n) + 1)) @ v.T
    return found


_row(
    "svd",
    "U, singular values in descending order, and Vᵀ, with the columns of the shorter side of A.",
    _infer_svd,
    _svd_jvp,
    _svd_vjp,
    lambda rng: [
        Sample((_stretched(rng, 3, 3),), {}),
        Sample((_stretched(rng, 4, 2),), {}),
        Sample((_stretched(rng, 2, 4),), {}),
        Sample((np.stack([_stretched(rng, 3, 2)] * 2),), {}),
        Sample((np.zeros((0, 3, 2)),), {}),
    ],
)


# --------------------------------------------------------------------------------------------- qr, lu
def _infer_qr(context: ShapeContext, a: TensorType) -> TupleType:
    _matrix("qr", a, square=False)
    *lead, m, n = a.shape
    context.at_most(n, m, "the columns and the rows of the matrices of `qr`", "E0400")
    return TupleType((a, TensorType(a.dtype, (*lead, n, n))))


def _right_solve(b: Builder, x: Node, r: Node, *, transpose: bool = False) -> Node:
    """X·R⁻¹ (X·R⁻ᵀ) for upper triangular R."""
    options = {"lower": False, "transpose": not transpose, "unit_diagonal": False}
    return turned(b, b.emit("triangular_solve", r, turned(b, x), **options))


def _qr_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> tuple[Node, Node]:
    q, r = _items(b, node)
    moved = _right_solve(b, tangents[0], r)
    inner = product(b, turned(b, q), moved)
    low = lower_part(b, inner, strict=True)
    turn = emit.sub(b, low, turned(b, low))
    dq = emit.add(b, product(b, q, emit.sub(b, turn, inner)), moved)
    return dq, product(b, emit.sub(b, inner, turn), r)


def _qr_vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> Pair:
    q, r = _items(b, node)
    gq, gr = cotangents
    upper = None if gr is None else product(b, r, turned(b, gr))
    across = None if gq is None else emit.neg(b, product(b, turned(b, gq), q))
    middle = _total(b, upper, across)
    if middle is None:
        return (None,)
    mirrored = emit.add(b, lower_part(b, middle), turned(b, lower_part(b, middle, strict=True)))
    total = _total(b, gq, product(b, q, mirrored))
    assert total is not None
    return (_right_solve(b, total, r, transpose=True),)


_row(
    "qr",
    "Q with orthonormal columns and R upper triangular, Q·R = A, for at least as many rows as columns.",
    _infer_qr,
    _qr_jvp,
    _qr_vjp,
    lambda rng: [
        Sample((_well(rng, 3, 3),), {}),
        Sample((rng.normal(size=(4, 2)),), {}),
        Sample((rng.normal(size=(2, 3, 2)),), {}),
        Sample((np.zeros((0, 3, 2)),), {}),
    ],
)


def _infer_lu(context: ShapeContext, a: TensorType) -> TupleType:
    _square(context, "lu", a)
    return TupleType((TensorType(I32, a.shape[:-1]), a, a))


def _ordered(b: Builder, rows: Node, like: Node) -> Node:
    """The permutation matrices that bring rows into an order."""
    n = rows.shape[-1]
    wanted = _rows(b, rows, n)
    hit = b.emit("eq", wanted, emit.iota(b, wanted.shape, len(wanted.shape) - 1, I32))
    return emit.cast(b, hit, like.dtype)


def _lu_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> tuple[None, Node, Node]:
    rows, low, up = _items(b, node)
    moved = product(b, _ordered(b, rows, low), tangents[0])
    options = {"lower": True, "transpose": False, "unit_diagonal": True}
    inner = _right_solve(b, b.emit("triangular_solve", low, moved, **options), up)
    return None, product(b, low, lower_part(b, inner, strict=True)), product(b, upper_part(b, inner), up)


def _lu_vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> Pair:
    rows, low, up = _items(b, node)
    _, gl, gu = cotangents
    below = None if gl is None else lower_part(b, product(b, turned(b, low), gl), strict=True)
    above = None if gu is None else upper_part(b, product(b, gu, turned(b, up)))
    middle = _total(b, below, above)
    if middle is None:
        return (None,)
    options = {"lower": True, "transpose": True, "unit_diagonal": True}
    left = b.emit("triangular_solve", low, _right_solve(b, middle, up, transpose=True), **options)
    return (product(b, turned(b, _ordered(b, rows, low)), left),)


_row(
    "lu",
    "Order of the rows, L and U with A[rows] = L·U: elimination with partial pivoting.",
    _infer_lu,
    _lu_jvp,
    _lu_vjp,
    lambda rng: [
        Sample((_well(rng, 3, 3)[::-1].copy(),), {}),
        Sample((_well(rng, 2, 2, 2),), {}),
        Sample((np.zeros((0, 2, 2)),), {}),
    ],
)


# --------------------------------------------------------------------------------------------- determinants, exponential
def _infer_number(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, a: TensorType) -> TensorType:
        _square(context, name, a)
        return TensorType(a.dtype, a.shape[:-2])

    return infer


def _cofactors(b: Builder, a: Node) -> Node:
    return turned(b, b.emit("adjugate", a))


_row(
    "det",
    "Determinants.",
    _infer_number("det"),
    lambda b, node, primals, tangents: _inner(b, _cofactors(b, primals[0]), tangents[0]),
    lambda b, node, primals, ct: (emit.mul(b, _everywhere(b, ct, primals[0]), _cofactors(b, primals[0])),),
    _square_samples,
)


def _adjugate_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    inverse, moved = b.emit("inv", primals[0]), product(b, node, tangents[0])
    trace = emit.reduce_sum(b, _diagonal(b, moved), (len(node.shape) - 2,))
    return emit.sub(b, emit.mul(b, _everywhere(b, trace, node), inverse), product(b, moved, inverse))


def _adjugate_vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    inverse, mirrored = b.emit("inv", primals[0]), turned(b, node)
    first = emit.mul(b, _everywhere(b, _inner(b, ct, inverse), node), mirrored)
    return (emit.sub(b, first, product(b, mirrored, product(b, ct, turned(b, inverse)))),)


_row(
    "adjugate",
    "Transposed cofactors: the determinant times the inverse, also of singular matrices.",
    _infer_same("adjugate"),
    _adjugate_jvp,
    _adjugate_vjp,
    _square_samples,
)


def _infer_slogdet(context: ShapeContext, a: TensorType) -> TupleType:
    _square(context, "slogdet", a)
    kind = TensorType(a.dtype, a.shape[:-2])
    return TupleType((kind, kind))


def _slogdet_vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> Pair:
    if cotangents[1] is None:
        return (None,)
    inverse = turned(b, b.emit("inv", primals[0]))
    return (emit.mul(b, _everywhere(b, cotangents[1], inverse), inverse),)


_row(
    "slogdet",
    "Signs, and logarithms of the absolute values, of determinants.",
    _infer_slogdet,
    lambda b, node, primals, tangents: (
        None,
        _inner(b, turned(b, b.emit("inv", primals[0])), tangents[0]),
    ),
    _slogdet_vjp,
    lambda rng: [Sample((_well(rng, 3, 3),), {}), Sample((-_well(rng, 2, 3, 3),), {})],
)


def _frechet(b: Builder, a: Node, direction: Node) -> Node:
    """The derivative of the exponential along a direction: a corner of the exponential of a block matrix (Najfeld, Havel 1995)."""
    rank, n = len(a.shape), a.shape[-1]
    top = emit.concat(b, [a, direction], rank - 1)
    bottom = emit.concat(b, [b.zeros_like(a), a], rank - 1)
    whole = b.emit("expm", emit.concat(b, [top, bottom], rank - 2))
    rows = emit.slice_axis(b, whole, rank - 2, 0, n)
    return emit.slice_axis(b, rows, rank - 1, n, n + n)


_row(
    "expm",
    "Matrix exponentials.",
    _infer_same("expm"),
    lambda b, node, primals, tangents: _frechet(b, primals[0], tangents[0]),
    lambda b, node, primals, ct: (_frechet(b, turned(b, primals[0]), ct),),
    lambda rng: [Sample((rng.normal(size=(3, 3)),), {}), Sample((rng.normal(size=(2, 2, 2)) * 4,), {})],
)
