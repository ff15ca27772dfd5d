"""The arithmetic in which every algorithm is written once: over NumPy arrays, and over nodes of a graph.

Operators work on both kinds of values. A Python number takes the dtype of what it meets; axes of size 1 stretch. Both
forms round after each operation in the same order, so a compiled step follows the host form to the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from rlxlang.ops.threefry import random_words

# An ndarray or a `Traced`.
Value: TypeAlias = Any
Branch: TypeAlias = Callable[..., tuple[Value, ...]]


class Arithmetic(Protocol):
    """What is no operator."""

    def sqrt(self, x: Value) -> Value:
        """The square root."""
        ...

    def abs(self, x: Value) -> Value:
        """The magnitude."""
        ...

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1."""
        ...

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger of two; `y` may be a number."""
        ...

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller of two; `y` may be a number."""
        ...

    def where_positive(self, condition: Value, x: Value, y: Value) -> Value:
        """`x` where `condition` is greater than 0, else `y`, which may be a number."""
        ...

    def sum(self, x: Value, axes: Sequence[int] | None = None) -> Value:
        """The sum over axes, which stay with size 1; over all axes, which vanish, when left out."""
        ...

    def max(self, x: Value) -> Value:
        """The greatest of all elements, of which there is one at least."""
        ...

    def like(self, x: Value, y: Value) -> Value:
        """`x` in the dtype of `y`."""
        ...

    def nonfinite(self, x: Value) -> Value:
        """How many elements are infinite or NaN."""
        ...

    def matmul(self, x: Value, y: Value) -> Value:
        """The product of two matrices."""
        ...

    def transpose(self, x: Value) -> Value:
        """A matrix with its axes swapped."""
        ...

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements under another shape."""
        ...

    def upper(self, x: Value) -> Value:
        """The upper triangle of a matrix, the diagonal included."""
        ...

    def solve_transposed(self, factor: Value, x: Value) -> Value:
        """`y` with `factorᵀ·y = x`, for an upper triangular factor."""
        ...

    def orthonormal(self, x: Value) -> Value:
        """Q of the QR decomposition of a matrix with no more columns than rows, the diagonal of R not negative."""
        ...

    def eigenvectors(self, x: Value) -> Value:
        """Eigenvectors of a symmetric matrix as columns, that of the largest eigenvalue first."""
        ...

    def descending(self, x: Value) -> Value:
        """Positions of the entries of a vector from the largest to the smallest."""
        ...

    def greatest(self, x: Value) -> Value:
        """The position of the first greatest entry of a vector, as a vector of one."""
        ...

    def take(self, x: Value, positions: Value, axis: int) -> Value:
        """The entries of an axis of a matrix at positions."""
        ...

    def signs(self, like: Value, key: Sequence[Value], salt: int) -> Value:
        """-1 or 1 at random for every element, told by a key and a 32-bit number.

        Args:
            like: Shape and dtype of the result.
            key: Two 32-bit words as four numbers below 2¹⁶, lower halves first.
            salt: Results of different numbers are independent.
        """
        ...

    def choose(self, flag: Value, then: Branch, orelse: Branch, values: Sequence[Value]) -> tuple[Value, ...]:
        """`then(*values)` where the number `flag` is greater than 0, else `orelse(*values)`; only that one is computed."""
        ...


class HostArithmetic:
    """Arithmetic of NumPy arrays."""

    def sqrt(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.sqrt(x)

    def abs(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.abs(x)

    def sign(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.sign(x)

    def maximum(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return np.maximum(x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return np.minimum(x, y)

    def where_positive(self, condition: Value, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        chosen: Value = np.where(condition > 0, x, y)
        return chosen.astype(x.dtype)

    def sum(self, x: Value, axes: Sequence[int] | None = None) -> Value:
        """See `Arithmetic`."""
        return np.sum(x) if axes is None else np.sum(x, axis=tuple(axes), keepdims=True)

    def max(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.max(x)

    def like(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return x.astype(y.dtype)

    def nonfinite(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.count_nonzero(~np.isfinite(x))

    def matmul(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return x @ y

    def transpose(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return x.T

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """See `Arithmetic`."""
        return np.reshape(x, tuple(shape))

    def upper(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.triu(x)

    def solve_transposed(self, factor: Value, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.linalg.solve(factor.T, x)

    def orthonormal(self, x: Value) -> Value:
        """See `Arithmetic`."""
        q, r = np.linalg.qr(x)
        return q * _signs(np.diagonal(r))

    def eigenvectors(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.linalg.eigh(x)[1][:, ::-1]

    def descending(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.argsort(-x, kind="stable")

    def greatest(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return np.array([np.argmax(x)])

    def take(self, x: Value, positions: Value, axis: int) -> Value:
        """See `Arithmetic`."""
        return np.take(x, positions, axis)

    def signs(self, like: Value, key: Sequence[Value], salt: int) -> Value:
        """See `Arithmetic`."""
        shape = np.shape(like)
        words = tuple(np.uint32(int(key[k]) | int(key[k + 1]) << 16) for k in (0, 2))
        places = np.arange(math.prod(shape), dtype=np.uint32)
        word = random_words((words[0], words[1]), (places, np.uint32(salt)))[0]
        return np.where(word & 1, -1, 1).astype(like.dtype).reshape(shape)

    def choose(self, flag: Value, then: Branch, orelse: Branch, values: Sequence[Value]) -> tuple[Value, ...]:
        """See `Arithmetic`."""
        return then(*values) if flag > 0 else orelse(*values)


def _signs(diagonal: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """-1 where a number is negative, else 1."""
    return np.where(diagonal < 0, -1, 1).astype(diagonal.dtype)


HOST = HostArithmetic()
