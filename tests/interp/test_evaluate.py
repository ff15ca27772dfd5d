"""The interpreter: sizes, guards, wrong arrays, half precision, long graphs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rlxlang.diagnostics import RlxError, RlxRuntimeError, RlxShapeError
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.ops import emit
from rlxlang.types import BF16, F16, F32, Dim


def _sum_of_two() -> Graph:
    b = Builder()
    n, m = Dim.axis("?n"), Dim.axis("?m")
    x, y = b.input("x", F32, (n, 2)), b.input("y", F32, (m, 2))
    return b.finish("g", [declare(x), declare(y)], [GraphOutput("y", emit.add(b, x, y))])


def test_guards_are_checked() -> None:
    graph = _sum_of_two()
    ones = np.ones((3, 2), np.float32)
    assert_array_equal(evaluate(graph, {"x": ones, "y": ones})[0], 2 * ones)
    with pytest.raises(RlxRuntimeError, match="E0801"):
        evaluate(graph, {"x": ones, "y": ones[:2]})


def test_wrong_arrays_are_refused() -> None:
    graph = _sum_of_two()
    ones = np.ones((3, 2), np.float32)
    for wrong, code in (
        ({"x": ones}, "E0803"),
        ({"x": ones, "y": ones[0]}, "E0805"),
        ({"x": ones, "y": np.ones((3, 4), np.float32)}, "E0805"),
        ({"x": ones, "y": np.ones((3, 2))}, "E0806"),
    ):
        with pytest.raises(RlxError, match=code):
            evaluate(graph, wrong)


def test_one_axis_has_one_size() -> None:
    b = Builder()
    n = Dim.axis("?n")
    x, y = b.input("x", F32, (n,)), b.input("y", F32, (n,))
    graph = b.finish("g", [declare(x), declare(y)], [GraphOutput("z", emit.add(b, x, y))])
    with pytest.raises(RlxShapeError, match="E0808"):
        evaluate(graph, {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)})


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_half_precision_rounds_after_every_op(dtype: object) -> None:
    b = Builder()
    x = b.input("x", dtype, (3,))
    graph = b.finish("g", [declare(x)], [GraphOutput("y", b.emit("exp", emit.add(b, x, x)))])
    given = np.array([0.1, 1.3, -2.7], np.float32).astype(dtype.numpy)
    doubled = (given.astype(np.float32) * 2).astype(dtype.numpy)
    want = np.exp(doubled.astype(np.float32)).astype(dtype.numpy)
    found = evaluate(graph, {"x": given})[0]
    assert found.dtype == dtype.numpy
    assert_array_equal(found.astype(np.float32), want.astype(np.float32))


def test_sizes_in_attributes() -> None:
    b = Builder()
    n = Dim.axis("?n")
    x = b.input("x", F32, (n, 3))
    flat = emit.reshape(b, x, (3 * n,))
    graph = b.finish(
        "g", [declare(x)], [GraphOutput("y", flat), GraphOutput("n", b.emit("dim_size", dim=3 * n, dtype=F32))]
    )
    flat_value, size = evaluate(graph, {"x": np.zeros((4, 3), np.float32)})
    assert flat_value.shape == (12,)
    assert size == 12


def test_long_chains_do_not_recurse() -> None:
    b = Builder()
    x = b.input("x", F32, ())
    y = x
    for _ in range(20_000):
        y = emit.add(b, y, x)
    graph = b.finish("g", [declare(x)], [GraphOutput("y", y)])
    assert evaluate(graph, {"x": np.array(1, np.float32)})[0] == 20_001


def test_an_input_that_is_an_output() -> None:
    b = Builder()
    x = b.input("x", F32, (2,))
    graph = b.finish("g", [declare(x)], [GraphOutput("a", x), GraphOutput("b", emit.neg(b, x))])
    a, c = evaluate(graph, {"x": np.array([1, 2], np.float32)})
    assert_array_equal(a, -c)
