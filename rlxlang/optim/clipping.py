"""Norms of gradients and clipping by the norm of all of them together.

Source:
    Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxValueError

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = "Mapping[str, Array] | Iterable[Array]"


def l2_norm(array: Array) -> float:
    """The square root of the sum of squares, computed in float64."""
    return math.sqrt(_squared(array))


def global_grad_clip_scale(gradients: Arrays, max_norm: float) -> float:
    """The factor, at most 1, that brings the norm of all gradients together down to `max_norm`.

    Args:
        gradients: Arrays, or a mapping to arrays.
        max_norm: Greatest norm allowed; 0 or less clips nothing.

    Raises:
        RlxValueError: `max_norm` is NaN.
    """
    return _scale(_total(_listed(gradients)), max_norm)


def clip_by_global_norm(gradients: Arrays, max_norm: float) -> float:
    """Scale gradients in place so that the norm of all together is at most `max_norm`; returns the norm before.

    Args:
        gradients: Arrays, or a mapping to arrays; written to.
        max_norm: Greatest norm allowed; 0 or less clips nothing.

    Raises:
        RlxValueError: `max_norm` is NaN.
    """
    arrays = _listed(gradients)
    total = _total(arrays)
    scale = _scale(total, max_norm)
    if scale != 1.0:
        for array in arrays:
            array *= array.dtype.type(scale)
    return total


def _listed(gradients: Arrays) -> list[Array]:
    return list(gradients.values() if isinstance(gradients, Mapping) else gradients)


def _total(arrays: list[Array]) -> float:
    return math.sqrt(sum(_squared(a) for a in arrays))


def _squared(array: Array) -> float:
    wide = np.asarray(array)
    wide = wide.astype(np.complex128 if wide.dtype.kind == "c" else np.float64).ravel()
    return float(np.vdot(wide, wide).real)


def _scale(total: float, max_norm: float) -> float:
    if math.isnan(max_norm):
        raise RlxValueError("the greatest norm of gradients is NaN")
    return max_norm / total if 0 < max_norm < total else 1.0
