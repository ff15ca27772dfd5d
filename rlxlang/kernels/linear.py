"""Linear algebra on stacks of matrices with NumPy (LAPACK); matrices are the last two axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxRuntimeError
from rlxlang.kernels.library import routine

Array: TypeAlias = np.ndarray[Any, Any]

NO_RESULT = "E0814"
# A gap below this many units in the last place of the largest entry counts as none.
_GAP_UNITS = 8


def _fault(message: str, help_: str = "") -> RlxRuntimeError:
    return RlxRuntimeError(message, code=NO_RESULT, helps=(help_,) if help_ else ())


def _attempt(what: str, fault: str, function: Callable[[Array], Any], a: Array, help_: str = "") -> Any:
    """`function(a)`, and NaN for matrices that hold NaN or infinities; a matrix that LAPACK refuses is named.

    Raises:
        RlxRuntimeError: E0814.
    """
    finite = np.asarray(np.isfinite(a).all(axis=(-2, -1)))
    sound = a if finite.all() else np.where(finite[..., None, None], a, np.eye(*a.shape[-2:], dtype=a.dtype))
    try:
        found = function(sound)
    except np.linalg.LinAlgError:
        raise _fault(f"`{what}`: {_which(function, sound)} {fault}", help_) from None
    if sound is not a:
        for part in found if isinstance(found, tuple) else (found,):
            part[~finite] = np.nan
    return found


def _which(function: Callable[[Array], Any], a: Array) -> str:
    """The first matrix of a stack that is refused, in words."""
    for index in np.ndindex(a.shape[:-2]):
        try:
            function(a[index])
        except np.linalg.LinAlgError:
            place = ", ".join(map(str, index))
            return f"matrix [{place}] of the batch" if index else "the matrix"
    return "the matrix"


def _transposed(a: Array) -> Array:
    found: Array = np.swapaxes(a, -1, -2)
    return found


def symmetric(a: Array) -> Array:
    """The symmetric part of matrices."""
    found: Array = (a + _transposed(a)) * a.dtype.type(0.5)
    return found


@routine("solve")
def solve(a: Array, b: Array) -> Array:
    """X with A·X = B."""
    help_ = "`lstsq` solves systems that are singular or not square"
    result = np.array(b)
    if not a.size:
        return result
    try:
        result = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        # Names the singular matrix; where there is none, NaN is the reason, and it spreads.
        result = np.matmul(_attempt("solve", "is singular", np.linalg.inv, a, help_), b)
    return result


@routine("inv")
def inverse(a: Array) -> Array:
    """The inverses of matrices."""
    result: Array = _attempt("inv", "is singular", np.linalg.inv, a)
    return result


@routine("triangular_solve")
def triangular_solve(a: Array, b: Array, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Array:
    """X with T·X = B (Tᵀ·X = B), T the given triangle of A, by substitution.

    Raises:
        RlxRuntimeError: E0814, a diagonal holds a zero.
    """
    n = a.shape[-1]
    if transpose:
        a, lower = _transposed(a), not lower
    x = np.array(b)
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    if not unit_diagonal and (diagonal == 0).any():
        index = tuple(int(k) for k in np.argwhere(diagonal == 0)[0])
        raise _fault(f"`triangular_solve`: element {index[-1]} of the diagonal is 0, the matrix is singular")
    for row in range(n) if lower else reversed(range(n)):
        known = slice(0, row) if lower else slice(row + 1, n)
        x[..., row, :] -= np.matmul(a[..., row : row + 1, known], x[..., known, :])[..., 0, :]
        if not unit_diagonal:
            x[..., row, :] /= diagonal[..., row, None]
    return x


@routine("cholesky")
def cholesky(a: Array) -> Array:
    """The lower triangular L with L·Lᵀ = A, of the symmetric part of A."""
    result: Array = _attempt("cholesky", "is not positive definite", np.linalg.cholesky, symmetric(a))
    return result


@routine("eigh")
def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues in ascending order and eigenvectors (columns), of the symmetric part of A."""
    if not a.size:
        return np.zeros(a.shape[:-1], a.dtype), np.zeros_like(a)
    found = _attempt("eigh", "has no eigenvalues that converge", lambda m: tuple(np.linalg.eigh(m)), symmetric(a))
    return found[0], found[1]


@routine("svd")
def svd(a: Array) -> tuple[Array, Array, Array]:
    """U, the singular values in descending order and Vᵀ, with as many columns as the shorter side of A."""
    k = min(a.shape[-2:])
    if not a.size:
        lead = a.shape[:-2]
        return (
            np.zeros((*lead, a.shape[-2], k), a.dtype),
            np.zeros((*lead, k), a.dtype),
            np.zeros((*lead, k, a.shape[-1]), a.dtype),
        )
    found = _attempt(
        "svd", "has no singular values that converge", lambda m: tuple(np.linalg.svd(m, full_matrices=False)), a
    )
    return found[0], found[1], found[2]


@routine("qr")
def qr(a: Array) -> tuple[Array, Array]:
    """Q with orthonormal columns and R upper triangular, for at least as many rows as columns."""
    found = np.linalg.qr(a)
    return found[0], found[1]


@routine("lu")
def lu(a: Array) -> tuple[Array, Array, Array]:
    """Rows in the order of elimination, L and U with A[rows] = L·U: partial pivoting (Golub and Van Loan, algorithm 3.4.1)."""
    n = a.shape[-1]
    flat = np.array(a).reshape((-1, n, n))
    rows = np.tile(np.arange(n, dtype=np.int32), (flat.shape[0], 1))
    every = np.arange(flat.shape[0])
    for k in range(n):
        pivot = k + np.argmax(np.abs(flat[:, k:, k]), axis=1)
        for array in (flat, rows):
            array[every, k], array[every, pivot] = array[every, pivot].copy(), array[every, k].copy()
        head = flat[:, k, k]
        factor = np.where(head[:, None] == 0, 0, flat[:, k + 1 :, k] / np.where(head == 0, 1, head)[:, None])
        flat[:, k + 1 :, k] = factor
        flat[:, k + 1 :, k + 1 :] -= factor[:, :, None] * flat[:, k, None, k + 1 :]
    lower = np.tril(flat, -1) + np.eye(n, dtype=a.dtype)
    return rows.reshape(a.shape[:-1]), lower.reshape(a.shape), np.triu(flat).reshape(a.shape)


@routine("det")
def det(a: Array) -> Array:
    """Determinants."""
    return np.asarray(np.linalg.det(a)).astype(a.dtype)


@routine("slogdet")
def slogdet(a: Array) -> tuple[Array, Array]:
    """Signs (0 for a singular matrix) and logarithms of the absolute values of determinants."""
    sign, log = np.linalg.slogdet(a)
    return np.asarray(sign).astype(a.dtype), np.asarray(log).astype(a.dtype)


@routine("adjugate")
def adjugate(a: Array) -> Array:
    """The transposed cofactors, also of singular matrices: det(U·Vᵀ)·V·diag(∏_{j≠i} s_j)·Uᵀ from the singular values."""
    n = a.shape[-1]
    if not a.size:
        return np.zeros_like(a)
    u, s, vt = svd(a)
    others = np.ones_like(s)
    for k in range(n):
        others[..., k] = np.prod(np.delete(s, k, axis=-1), axis=-1)
    sign = np.linalg.det(np.matmul(u, vt))[..., None, None]
    result: Array = np.matmul(_transposed(vt) * others[..., None, :], _transposed(u)) * sign
    return result.astype(a.dtype)


@routine("spectral_divide")
def spectral_divide(x: Array, gap: Array, *, what: str) -> Array:
    """X / gap, 0 where both vanish.

    Raises:
        RlxRuntimeError: E0814, a gap vanishes and what it divides does not: the derivative does not exist.
    """
    info = np.finfo(x.dtype)
    scale = np.max(np.abs(gap), initial=0.0, where=np.isfinite(gap))
    weight = np.max(np.abs(x), initial=0.0)
    closed = np.abs(gap) <= _GAP_UNITS * info.eps * scale
    # What is left of a numerator that vanishes exactly: rounding of products of orthonormal matrices.
    rounding = 64 * max(x.shape[-1], 1) * info.eps * weight
    if np.any(closed & (np.abs(x) > max(rounding, info.tiny))):
        values = "two eigenvalues are equal" if what == "eigh" else "two singular values are equal, or one is 0"
        raise _fault(
            f"the derivative of `{what}` does not exist here: {values}",
            "functions of the values alone, or of whole invariant subspaces, are differentiable",
        )
    result: Array = np.where(closed, 0, x / np.where(closed, 1, gap)).astype(x.dtype)
    return result


# Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): coefficients of the Padé
# approximant of degree 13, and the largest norm for which it is exact to double precision.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
    670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


@routine("expm")
def expm(a: Array) -> Array:
    """Matrix exponentials by scaling and squaring, computed in double precision."""
    m = a.astype(np.float64)
    n = a.shape[-1]
    if not a.size:
        return np.zeros_like(a)
    norm = np.max(np.sum(np.abs(m), axis=-2), axis=-1)
    finite = np.isfinite(norm)
    ratio = np.where(finite, norm, 0) / _PADE_NORM
    squarings = np.ceil(np.log2(np.maximum(ratio, 1))).astype(np.int64)
    m = np.where(finite[..., None, None], m, 0) * np.ldexp(1.0, -squarings)[..., None, None]
    eye, square = np.eye(n), np.matmul(m, m)
    fourth = np.matmul(square, square)
    sixth = np.matmul(square, fourth)
    c = _PADE
    odd = np.matmul(sixth, c[13] * sixth + c[11] * fourth + c[9] * square)
    odd = np.matmul(m, odd + c[7] * sixth + c[5] * fourth + c[3] * square + c[1] * eye)
    even = np.matmul(sixth, c[12] * sixth + c[10] * fourth + c[8] * square)
    even = even + c[6] * sixth + c[4] * fourth + c[2] * square + c[0] * eye
    result = np.linalg.solve(even - odd, even + odd)
    for step in range(int(squarings.max(initial=0))):
        result = np.where((step < squarings)[..., None, None], np.matmul(result, result), result)
    result = np.where(finite[..., None, None], result, np.nan)
    return result.astype(a.dtype)
