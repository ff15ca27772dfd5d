"""Discrete Fourier transforms with NumPy (pocketfft), in single precision.

Complex arrays come as C64, or as F32 with a last axis of 2 that holds real and imaginary parts; results have the latter form.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rlxlang.kernels.library import routine

Array: TypeAlias = np.ndarray[Any, Any]


def joined(x: Array) -> Array:
    """Pairs of numbers as complex numbers."""
    return x if x.dtype.kind == "c" else np.ascontiguousarray(x).view(np.complex64)[..., 0]


def parted(x: Array) -> Array:
    """Complex numbers as pairs of numbers."""
    pairs: Array = np.ascontiguousarray(x[..., None], np.complex64).view(np.float32)
    return pairs


def transform(x: Array, axes: tuple[int, ...], *, inverse: bool) -> Array:
    """The Fourier transform of complex numbers over axes, none of them empty; the inverse one is divided by their size."""
    found: Array = (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes)
    return found.astype(np.complex64, copy=False)


def transform_real(x: Array, axis: int) -> Array:
    """The first half of the spectrum of real numbers, from frequency 0 to n div 2."""
    found: Array = np.fft.rfft(x, axis=axis)
    return found.astype(np.complex64, copy=False)


def restore_real(x: Array, n: int, axis: int) -> Array:
    """The n real numbers whose spectrum begins with n div 2 + 1 given values."""
    found: Array = np.fft.irfft(x, n, axis)
    return found.astype(np.float32, copy=False)


@routine("fft")
def _fft(x: Array, *, axes: tuple[int, ...], inverse: bool) -> Array:
    return parted(transform(joined(x), axes, inverse=inverse))


@routine("rfft")
def _rfft(x: Array, *, axis: int) -> Array:
    return parted(transform_real(x, axis))


@routine("irfft")
def _irfft(x: Array, n: Array, *, axis: int) -> Array:
    return restore_real(joined(x), int(n), axis)
