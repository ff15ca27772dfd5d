"""Arrays that live as long as a training run: contiguous, aligned to cache lines, written in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

ALIGNMENT = 64


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised C-contiguous array whose address is a multiple of 64 bytes."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(tuple(shape))


def aligned_copy(array: Array) -> Array:
    """A writable copy whose address is a multiple of 64 bytes."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned_zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Zeros at an address that is a multiple of 64 bytes."""
    zeros = aligned_empty(shape, dtype)
    zeros[...] = 0
    return zeros
