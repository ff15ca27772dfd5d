"""Order statistics, searching, counting and shuffling against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rlxlang.ir import Builder, GraphOutput, declare
from rlxlang.types import F32, F64, Dim, TypeProblem
from tests.devices.running import DEVICES, Runner
from tests.ops.calls import build, call, pull

Array = np.ndarray[Any, Any]
X = np.random.default_rng(5).normal(size=(3, 4, 5))
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
SHARES = (0.0, 0.1, 0.25, 0.5, 0.7, 0.95, 1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("axes", "given"), [(None, None), (1, 1), ((0, 2), (0, -1))])
def test_quantiles(method: str, axes: Any, given: Any) -> None:
    for keep in (False, True):
        want = np.quantile(X, SHARES, axis=axes, keepdims=keep, method=method)
        assert_allclose(call("quantile", X, SHARES, given, keep, method), want, rtol=1e-14)
    assert_allclose(call("quantile", X, 0.3, given, False, method), np.quantile(X, 0.3, axis=axes, method=method))


def test_quantiles_of_every_length() -> None:
    """Also halves between two places, which `nearest` rounds to the even one."""
    for n in range(1, 12):
        x = np.random.default_rng(n).permutation(n).astype(np.float64)
        for method in METHODS:
            assert_allclose(
                call("quantile", x, SHARES, None, False, method), np.quantile(x, SHARES, method=method), atol=1e-14
            )
        assert_allclose(call("median", x), np.median(x))


def _dynamic(op: str, *arguments: Any, **options: Any) -> Any:
    from rlxlang.ir import SURFACES

    b = Builder()
    x = b.input("x", F32, (Dim.axis("?m"), Dim.axis("?n")))
    surface = SURFACES[op]
    result = surface.build(b, **surface.bind([x, *arguments], options))
    results = result if isinstance(result, tuple) else (result,)
    return b.finish("dynamic", [declare(x)], [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])


@pytest.mark.parametrize("device", DEVICES)
def test_quantiles_of_a_dynamic_axis(device: str, rng: np.random.Generator) -> None:
    for method in METHODS if device == "cpu" else ("linear", "nearest"):
        runner = Runner(_dynamic("quantile", SHARES, axes=1, method=method), device)
        for n in (1, 2, 3, 11, 300):
            x = rng.normal(size=(2, n)).astype(np.float32)
            want = np.quantile(x.astype(np.float64), SHARES, axis=1, method=method)
            assert_allclose(runner({"x": x})[0], want, rtol=1e-5, atol=1e-6)


def test_special_values_of_quantiles() -> None:
    inf, nan = np.inf, np.nan
    assert_array_equal(call("median", np.array([[1.0, nan, 2], [inf, inf, 0], [-inf, 0, inf]]), 1), [nan, inf, 0])
    assert_array_equal(call("median", np.array([[inf, inf], [-inf, 1.0], [-inf, inf]]), 1), [inf, -inf, nan])
    assert call("median", np.array([3, 1, 2, 4], np.int32)).dtype == np.float32
    assert_array_equal(call("median", np.array(7.0)), 7.0)
    assert call("quantile", X, (), 0).shape == (0, 4, 5)


def test_gradients_of_quantiles_go_to_the_entries_between_which_they_lie() -> None:
    x = np.array([4.0, 1.0, 3.0, 2.0])
    assert_allclose(pull("median", x), [0, 0, 0.5, 0.5])
    assert_allclose(pull("median", np.full(4, 2.0)), [0, 0.5, 0.5, 0])
    assert_allclose(pull("quantile", x, 0.75), [0.25, 0, 0.75, 0])
    assert_allclose(pull("quantile", x, 0.75, None, False, "lower"), [0, 0, 1, 0])


@pytest.mark.parametrize(
    ("name", "arguments", "options", "code"),
    [
        ("median", (np.zeros((2, 0)), 1), {}, "E0409"),
        ("quantile", (X, 1.5), {}, "E0350"),
        ("quantile", (X, 0.5, 0, False, "cubic"), {}, "E0350"),
        ("searchsorted", (np.zeros(3), np.zeros(2)), {"side": "middle"}, "E0350"),
        ("searchsorted", (np.zeros((2, 3)), np.zeros(2)), {}, "E0404"),
        ("bincount", (np.array([0.5]), -1), {}, "E0350"),
        ("unique_consecutive", (np.zeros((2, 2)), 3), {}, "E0404"),
    ],
)
def test_refused(name: str, arguments: tuple[Any, ...], options: dict[str, Any], code: str) -> None:
    with pytest.raises(TypeProblem) as caught:
        call(name, *arguments, **options)
    assert caught.value.code == code


def test_searchsorted() -> None:
    row = np.array([-5, -1, -1, 0, 7, 7, 7, 9], np.int64)
    asked = np.arange(-7, 12, dtype=np.int64).reshape(-1, 1)
    for side in ("left", "right"):
        assert_array_equal(call("searchsorted", row, asked, side=side), np.searchsorted(row, asked, side))
    flags = np.array([False, True, True])
    assert_array_equal(call("searchsorted", flags, np.array([True, False])), [1, 0])
    assert_array_equal(call("searchsorted", np.zeros(0), np.zeros(3)), [0, 0, 0])


@pytest.mark.parametrize("device", DEVICES)
def test_searchsorted_in_rows_of_any_length(device: str, rng: np.random.Generator) -> None:
    b = Builder()
    m, n, k = (Dim.axis(f"?{a}") for a in "mnk")
    rows, asked = b.input("rows", F64, (m, n)), b.input("asked", F64, (m, k))
    outputs = [b.emit("searchsorted", rows, asked, right=right) for right in (False, True)]
    graph = b.finish("s", [declare(rows), declare(asked)], [GraphOutput(f"y{i}", o) for i, o in enumerate(outputs)])
    runner = Runner(graph, device)
    for size in (1, 2, 31, 1000):
        given = np.sort(rng.integers(0, size, (3, size)).astype(np.float64), 1)
        values = rng.integers(-1, size + 1, (3, 7)).astype(np.float64)
        values[0, 0], given[1, -1] = np.nan, np.nan
        found = runner({"rows": given, "asked": values})
        for right, got in zip((False, True), found, strict=True):
            side = "right" if right else "left"
            want = np.stack([np.searchsorted(r, v, side) for r, v in zip(given, values, strict=True)])
            assert_array_equal(got, want)


def test_counting() -> None:
    x = np.array([[1, 5, 1], [0, -1, 9]], np.int32)
    assert_array_equal(call("bincount", x, 6), [1, 2, 0, 0, 0, 1])
    assert call("bincount", x, 6).dtype == np.int32
    assert_array_equal(call("bincount", np.array([3, 3, 255], np.uint8), 300)[[3, 255, 299]], [2, 1, 0])
    assert_array_equal(call("bincount", np.zeros(0, np.int32), 2), [0, 0])
    assert call("bincount", x, 0).shape == (0,)
    weights = np.array([[1.0, 2, 4], [8, 16, 32]])
    assert_array_equal(call("bincount", x, 6, weights), [8, 5, 0, 0, 0, 2])
    assert_array_equal(pull("bincount", x, 6, weights, ct=np.arange(6.0)), [[1, 5, 1], [0, 0, 0]])


def test_runs() -> None:
    x = np.array([4, 4, 2, 2, 2, 4], np.int32)
    assert_array_equal(call("unique_consecutive", x, 5, fill=-1), [4, 2, 4, -1, -1])
    values, lengths = call("unique_consecutive", x, 2, counts=True)
    assert_array_equal(values, [4, 2])
    assert_array_equal(lengths, [2, 3])


def test_permutations_are_fair_and_the_same_everywhere() -> None:
    draws = np.stack([call("permutation", 4, key=k) for k in range(240)])
    assert_array_equal(np.sort(draws, 1), np.tile(np.arange(4), (240, 1)))
    counts = np.stack([np.bincount(column, minlength=4) for column in draws.T])
    assert counts.min() > 30  # 60 are expected, with a deviation of 7
    assert call("permutation", 4, key=1).dtype == np.int32
    x = np.arange(12).reshape(3, 4)
    order = call("permutation", 4, key=5)
    assert_array_equal(call("permutation", x, 1, key=5), x[:, order])
    graph, arrays = build("permutation", np.arange(1000, dtype=np.int32), key=3)
    want = call("permutation", 1000, key=3)
    for device in DEVICES:
        assert_array_equal(Runner(graph, device)(arrays)[0], want)


def test_entries_repeated_by_counts() -> None:
    x, counts = np.arange(6.0).reshape(3, 2), np.array([2, 0, 3], np.int32)
    assert_array_equal(call("repeat_interleave", x, counts, size=5), np.repeat(x, counts, 0))
    assert_array_equal(call("repeat_interleave", x, counts, size=3), np.repeat(x, counts, 0)[:3])
    assert_array_equal(call("repeat_interleave", x, counts, size=7)[5:], x[[2, 2]])
    assert_array_equal(call("repeat_interleave", x.T, counts, 1, size=5), np.repeat(x.T, counts, 1))
    assert_array_equal(pull("repeat_interleave", x, counts, size=5), [[2, 2], [0, 0], [3, 3]])
    with pytest.raises(TypeProblem) as caught:
        call("repeat_interleave", x, counts)
    assert caught.value.code == "E0223"
