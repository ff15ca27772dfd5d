"""Keys of graphs in the disk cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.graph_key import graph_key
from rlxlang.ir import Builder, Constant, Graph, GraphOutput, MaskKind, Op, declare
from rlxlang.ir.op import UNDEFINED
from rlxlang.types import F32, TensorType


def graph(build: Callable[[rlx.GraphScope], rlx.Tensor]) -> Graph:
    return rlx.Func("f", build).graph


def base(s: rlx.GraphScope) -> rlx.Tensor:
    return (s.input("x", ["?n", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1)


def test_equal_graphs_have_one_key() -> None:
    assert graph_key(graph(base)) == graph_key(graph(base))
    assert graph_key(graph(base), "cpu") != graph_key(graph(base), "opencl")
    assert graph_key(graph(base), "a", "b") != graph_key(graph(base), "ab")
    moved = rlx.loads("\n\ninput x: [2]; out y = x + 1;").graph
    assert graph_key(moved) == graph_key(rlx.loads("input x: [2]; out y = x + 1;").graph)


@pytest.mark.parametrize(
    "other",
    [
        lambda s: (s.input("x", ["?n", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(0),
        lambda s: (s.input("x", ["?n", 3]) * 2.5 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.input("x", ["?n", 3]) * -2.0 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.input("x", ["?n", 3]) * 2.0 + s.constant([3.0, 2.0, 1.0])).sum(1),
        lambda s: (s.input("x", ["?n", 3]) * 2.0 - s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.input("x", ["?m", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.input("y", ["?n", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.input("x", ["?n", 3], "F64") * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: (s.param("x", ["?n", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1),
        lambda s: {"y": (s.input("x", ["?n", 3]) * 2.0 + s.constant([1.0, 2.0, 3.0])).sum(1)},
    ],
)
def test_every_difference_counts(other: Callable[[rlx.GraphScope], rlx.Tensor]) -> None:
    assert graph_key(graph(other)) != graph_key(graph(base))


def odd_graph(value: object) -> Graph:
    op = Op(
        "odd",
        "",
        lambda c, x, *, value: TensorType(F32, ()),
        lambda x, *, value: x,
        UNDEFINED,
        UNDEFINED,
        UNDEFINED,
        None,
        lambda r: (),
    )
    b = Builder()
    x = b.input("x", F32, ())
    return b.finish("g", [declare(x)], [GraphOutput("y", b.emit(op, x, value=value))])


def test_attributes() -> None:
    body = graph(base)
    other = graph(lambda s: s.input("x", [3]).sum(0))
    large = np.zeros(10_000)
    changed = large.copy()
    changed[5000] = 1
    values = [
        0, 0.0, -0.0, False, None, "0", (0,), ((0,), 0), MaskKind("None"), MaskKind("SlidingWindow", 3),
        Constant(large), Constant(changed), Constant(large.astype(np.float32)), body, (body,), (body, other), (other, body),
    ]  # fmt: skip
    keys = [graph_key(odd_graph(v)) for v in values]
    assert None not in keys
    assert len(set(keys)) == len(values)
    assert graph_key(odd_graph(object())) is None
    for value in values:
        assert "odd(%0" in str(rlx.Func.from_graph(odd_graph(value)))


def test_text() -> None:
    text = str(rlx.Func("f", base))
    for word in ('graph "f" {', '[F32; ?n, 3] = input "x"', "{1.0, 2.0, 3.0}", "axes: [1]", 'out "out" ='):
        assert word in text
    assert "F32[100]{…}" in str(rlx.Func("g", lambda s: s.constant(np.zeros(100, np.float32)) + s.input("x", [100])))


def test_a_deep_graph() -> None:
    def chain(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [1])
        for k in range(5000):
            x = x + float(k)
        return x

    deep = graph(chain)
    assert len(str(rlx.Func.from_graph(deep)).splitlines()) > 10_000
    assert graph_key(deep) is not None
