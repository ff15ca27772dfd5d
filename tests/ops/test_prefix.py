"""Cumulative products and sums of exp: exact at zeros and infinities, to any order, with memory for a few copies of the operand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rlxlang.interp import evaluate
from rlxlang.transforms import jvp, vjp
from rlxlang.types import F32, TensorType
from rlxlang.types import product as size_of
from tests.ops.calls import build, call, pull

Array = np.ndarray[Any, Any]
WITH_ZEROS = np.array([2.0, 0.0, 3.0, 0.0, 5.0, -1.0])
FORMS = [(exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]


def _factors(n: int, exclusive: bool, reverse: bool) -> list[list[int]]:
    """Which entries each product is of."""
    if reverse:
        return [list(range(i + exclusive, n)) for i in range(n)]
    return [list(range(i + 1 - exclusive)) for i in range(n)]


def _without(x: Array, among: list[int], *left_out: int) -> float:
    """The product of the others; 0 where one that is left out is none of them, or twice the same."""
    if len({*left_out}) < len(left_out) or not {*left_out} <= {*among}:
        return 0.0
    return float(np.prod(x[[k for k in among if k not in left_out]]))


@pytest.mark.parametrize(("exclusive", "reverse"), FORMS)
def test_gradients_at_zeros(exclusive: bool, reverse: bool) -> None:
    x, n = WITH_ZEROS, len(WITH_ZEROS)
    among = _factors(n, exclusive, reverse)
    for i in range(n):
        found = pull("cumprod", x, 0, exclusive, reverse, ct=np.eye(n)[i])
        assert_allclose(found, [_without(x, among[i], k) for k in range(n)])


@pytest.mark.parametrize(("exclusive", "reverse"), FORMS)
def test_second_derivatives_at_zeros(exclusive: bool, reverse: bool, rng: np.random.Generator) -> None:
    x, n, weights = WITH_ZEROS, len(WITH_ZEROS), rng.normal(size=len(WITH_ZEROS))
    among = _factors(n, exclusive, reverse)
    graph, arrays = build("cumprod", x, 0, exclusive, reverse)
    twice = jvp(vjp(graph, ["x0"]), ["x0"])
    for k in range(n):
        found = evaluate(twice, {**arrays, "ct_y0": weights, "tangent_x0": np.eye(n)[k]})[-1]
        want = [sum(w * _without(x, a, k, j) for w, a in zip(weights, among, strict=True)) for j in range(n)]
        assert_allclose(found, want, atol=1e-12)


def test_sums_of_exp_at_the_ends_of_the_range() -> None:
    inf, nan = np.inf, np.nan
    rows = {
        (-inf, -inf, -1000.0, 3.0): (-inf, -inf, -1000.0, 3.0),
        (1e3, -1e3, 1e3, -inf): (1e3, 1e3, 1e3 + np.log(2), 1e3 + np.log(2)),
        (0.0, inf, 1.0, -inf): (0.0, nan, nan, nan),
        (2.0, nan, 1.0, 5.0): (2.0, nan, nan, nan),
    }
    for row, want in rows.items():
        assert_allclose(call("cumlogsumexp", np.array(row)), want)
        assert_allclose(call("cumlogsumexp", np.array(row[::-1]), reverse=True), want[::-1])
    assert_allclose(pull("cumlogsumexp", np.array([-inf, -inf, -1000.0, 3.0])), [0, 0, 1, 1])
    assert_allclose(pull("cumlogsumexp", np.full(3, -inf)), [0, 0, 0])


def test_gradients_of_sums_of_exp(rng: np.random.Generator) -> None:
    x, weights = rng.normal(size=9) * 5, rng.normal(size=9)
    sums = np.logaddexp.accumulate(x)
    shares = np.where(np.tri(9) > 0, np.exp(x - sums[:, None]), 0)
    assert_allclose(pull("cumlogsumexp", x, ct=weights), weights @ shares, rtol=1e-12)


@pytest.mark.parametrize("name", ["cumprod", "cumlogsumexp"])
def test_no_value_is_larger_than_the_operand(name: str) -> None:
    graph, _ = build(name, TensorType(F32, (3, 1000)), 1)
    for derived in (vjp(graph, ["x0"]), jvp(graph, ["x0"])):
        assert max(size_of(node.shape) for node in derived.nodes) <= 3 * 1001
