"""Pooling and resizing against loops: padding, ties, NaN, integers, partial windows, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rlxlang.types import F32, Dim, TensorType, TypeProblem
from tests.ops.calls import build, call, pull

Array = np.ndarray[Any, Any]


def pooled(x: Array, k: int, s: int, p: int, function: Any, fill: float, counts: tuple[int, int]) -> Array:
    """Square windows over the last two axes, one at a time."""
    high = max((max(counts) - 1) * s + k, max(x.shape[2:]) + 2 * p)
    padded = np.pad(x, ((0, 0), (0, 0), (p, high), (p, high)), constant_values=fill)
    out = np.zeros((*x.shape[:2], *counts))
    for i, j in np.ndindex(*counts):
        out[:, :, i, j] = function(padded[:, :, i * s : i * s + k, j * s : j * s + k], axis=(2, 3))
    return out


@pytest.mark.parametrize(("k", "s", "p"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 2, 1), (3, 3, 0), (1, 2, 0)])
def test_pools_are_loops(k: int, s: int, p: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6)) - 3
    counts = ((7 + 2 * p - k) // s + 1, (6 + 2 * p - k) // s + 1)
    assert_array_equal(call("max_pool2d", x, k, s, p), pooled(x, k, s, p, np.max, -np.inf, counts))
    assert_allclose(call("avg_pool2d", x, k, s, p), pooled(x, k, s, p, np.mean, 0, counts), atol=1e-12)
    covered = pooled(np.ones(x.shape), k, s, p, np.sum, 0, counts)
    want = pooled(x, k, s, p, np.sum, 0, counts) / covered
    assert_allclose(call("avg_pool2d", x, k, s, p, count_include_pad=False), want, atol=1e-12)
    assert_array_equal(call("pool2d", x, k, s, p), call("max_pool2d", x, k, s, p))
    assert_array_equal(call("pool2d", x, k, s, p, kind="avg"), call("avg_pool2d", x, k, s, p))


def test_ceil_takes_the_partial_window_too() -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 7, 6))
    got = call("max_pool2d", x, 2, 2, ceil=True)
    assert_array_equal(got, pooled(x, 2, 2, 0, np.max, -np.inf, (4, 3)))
    # A window that would begin behind the data does not count.
    assert call("max_pool1d", np.ones((1, 1, 3)), 1, 3, ceil=True).shape == (1, 1, 1)


def test_integers_stay_integers_and_padding_never_wins() -> None:
    x = (-5 - np.arange(16, dtype=np.int32)).reshape(1, 1, 4, 4)
    got = call("max_pool2d", x, (2, 2), (2, 2), (1, 1))
    assert got.dtype == np.int32
    assert_array_equal(got[0, 0], [[-5, -6, -8], [-9, -10, -12], [-17, -18, -20]])


def test_ties_share_the_gradient_and_nan_wins() -> None:
    x = np.array([[[[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]]])
    assert_allclose(pull("max_pool2d", x, (2, 2), 1), [[[[1 / 3, 1 / 3, 0], [0, 1 / 3, 1]]]])
    x[0, 0, 1, 2] = np.nan
    assert_array_equal(call("max_pool2d", x, (2, 2), 1), [[[[1.0, np.nan]]]])


def test_gradient_goes_to_the_largest_entry_of_each_window() -> None:
    rng = np.random.default_rng(2)
    x, ct = -1 - np.abs(rng.standard_normal((2, 3, 7, 6))), rng.standard_normal((2, 3, 4, 3))
    want = np.zeros(x.shape)
    for n, c, i, j in np.ndindex(*ct.shape):
        top, left = max(2 * i - 1, 0), max(2 * j - 1, 0)
        window = x[n, c, top : 2 * i + 2, left : 2 * j + 2]
        a, b = np.unravel_index(window.argmax(), window.shape)
        want[n, c, top + a, left + b] += ct[n, c, i, j]
    assert_allclose(pull("max_pool2d", x, 3, 2, 1, ct=ct), want, atol=1e-12)


def test_one_and_three_axes() -> None:
    x = np.arange(24.0).reshape(1, 1, 2, 3, 4)
    assert_array_equal(call("max_pool3d", x, (2, 3, 2)), x.max((2, 3)).reshape(2, 2).max(1).reshape(1, 1, 1, 1, 2))
    assert_array_equal(call("avg_pool1d", x.reshape(1, 1, 24), 4), x.reshape(1, 1, 6, 4).mean(-1))
    assert_array_equal(call("max_pool1d", x.reshape(1, 1, 24), 3, 1, 0, 2)[0, 0], np.arange(4.0, 24))


def test_adaptive_and_global_pools() -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 7, 6))
    got = call("adaptive_avg_pool", x, (3, 2))
    for i, j in np.ndindex(3, 2):
        cell = x[:, :, i * 7 // 3 : -(-(i + 1) * 7 // 3), j * 3 : j * 3 + 3]
        assert_allclose(got[:, :, i, j], cell.mean((2, 3)), atol=1e-12)
    assert_allclose(call("global_avg_pool", x), x.mean((2, 3)), atol=1e-12)
    assert_array_equal(call("global_max_pool", x, keep_dim=True), x.max((2, 3), keepdims=True))


def interpolated(x: Array, size: int, align: bool) -> Array:
    """Linear interpolation of the last axis."""
    n = x.shape[-1]
    at = np.arange(size) * (n - 1) / (size - 1) if align else (np.arange(size) + 0.5) * n / size - 0.5
    return np.stack([np.interp(at, np.arange(n), row) for row in x.reshape(-1, n)]).reshape(*x.shape[:-1], size)


@pytest.mark.parametrize("align", [False, True])
def test_bilinear_interpolates_each_axis(align: bool) -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 4, 5))
    want = np.swapaxes(interpolated(np.swapaxes(interpolated(x, 8, align), 2, 3), 7, align), 2, 3)
    assert_allclose(call("resize", x, (7, 8), "bilinear", align), want, atol=1e-12)


def test_nearest_takes_the_floor() -> None:
    x = np.arange(10, dtype=np.int32).reshape(1, 1, 2, 5)
    assert_array_equal(call("resize", x, (4, 3))[0, 0], x[0, 0][[0, 0, 1, 1]][:, [0, 1, 3]])


def test_bicubic_reproduces_lines_inside_and_corners() -> None:
    x = np.arange(9.0).reshape(1, 1, 9)
    got = call("resize", x, (18,), "bicubic")[0, 0]
    # The weights add up to one everywhere, and are those of Keys' kernel at a quarter.
    a, t = -0.75, np.array([1.25, 0.25, 0.75, 1.75])
    near, far = lambda d: (a + 2) * d**3 - (a + 3) * d**2 + 1, lambda d: a * (d**3 - 5 * d**2 + 8 * d - 4)
    weights = np.array([far(t[0]), near(t[1]), near(t[2]), far(t[3])])
    assert_allclose(weights.sum(), 1)
    assert_allclose(got[9], weights @ x[0, 0, 3:7], atol=1e-12)
    corners = call("resize", x, (5,), "bicubic", True)[0, 0]
    assert_allclose(corners, [0, 2, 4, 6, 8], atol=1e-12)


def test_pixels_move_between_channels_and_space() -> None:
    x = np.arange(32.0).reshape(1, 8, 2, 2)
    got = call("pixel_shuffle", x, 2)
    for c, h, w in np.ndindex(2, 4, 4):
        assert got[0, c, h, w] == x[0, c * 4 + (h % 2) * 2 + w % 2, h // 2, w // 2]
    assert_array_equal(call("pixel_unshuffle", got, 2), x)


X = TensorType(F32, (2, 4, 8, 8))


@pytest.mark.parametrize(
    ("name", "arguments", "options", "code"),
    [
        ("max_pool2d", (TensorType(F32, (4, 8, 8)), 2), {}, "E0404"),
        ("max_pool2d", (X, 9), {}, "E0405"),
        ("max_pool2d", (X, 2, 2, 2), {}, "E0350"),
        ("max_pool2d", (X, 0), {}, "E0350"),
        ("max_pool2d", (np.ones((1, 1, 2, 2), bool), 2), {}, "E0301"),
        ("pool2d", (X, 2), {"kind": "median"}, "E0350"),
        ("avg_pool2d", (X, 2), {"ceil": 1}, "E0306"),
        ("adaptive_avg_pool", (X, 0), {}, "E0350"),
        ("global_avg_pool", (TensorType(F32, (2, 3, 0)),), {}, "E0409"),
        ("resize", (X, 4, "cubic"), {}, "E0350"),
        ("resize", (TensorType(F32, (1, 1, Dim.axis("?h"))), 4), {}, "E0404"),
        ("pixel_shuffle", (X, 3), {}, "E0407"),
    ],
)
def test_errors_have_codes(name: str, arguments: tuple[Any, ...], options: dict[str, Any], code: str) -> None:
    with pytest.raises(TypeProblem) as caught:
        build(name, *arguments, **options)
    assert caught.value.code == code
