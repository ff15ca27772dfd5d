"""Norms and clipping of gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim import clip_by_global_norm, global_grad_clip_scale, l2_norm


def test_norm_of_large_and_small_values() -> None:
    assert l2_norm(np.float32([3, 4])) == 5
    assert l2_norm(np.full(4, 1e30, np.float32)) == pytest.approx(2e30, rel=1e-6)  # squares exceed float32
    assert l2_norm(np.zeros((0, 3), np.float32)) == 0


def test_clip_scales_all_together_in_place() -> None:
    a, b = np.float32([3, 0]), np.float32([[0], [4]])
    assert clip_by_global_norm({"a": a, "b": b}, 1.0) == 5
    np.testing.assert_allclose(a, [0.6, 0], rtol=1e-6)
    np.testing.assert_allclose(b, [[0], [0.8]], rtol=1e-6)
    assert a.dtype == np.float32


@pytest.mark.parametrize("limit", [5.0, 6.0, 0.0, -1.0, math.inf])
def test_nothing_to_clip(limit: float) -> None:
    a = np.float32([3, 4])
    assert clip_by_global_norm([a], limit) == 5
    assert a.tolist() == [3, 4]
    assert global_grad_clip_scale([a], limit) == 1


def test_scale() -> None:
    assert global_grad_clip_scale([np.float32([3]), np.float32([4])], 2.5) == 0.5
    with pytest.raises(RlxValueError):
        global_grad_clip_scale([np.float32([3])], math.nan)
