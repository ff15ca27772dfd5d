"""The builder interns equal nodes, tells constants apart by their bits, and keeps guards with their places."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.diagnostics import Source, Span
from rlxlang.ir import OPS, Builder, Constant, GraphOutput, Op, Origin, declare, register, topological
from rlxlang.types import BOOL, F32, I32, Dim, TypeProblem


def test_equal_nodes_are_one() -> None:
    b = Builder()
    x = b.input("x", F32, (3,))
    assert b.emit("neg", x) is b.emit("neg", x)
    assert b.emit("add", x, x) is not b.emit("mul", x, x)
    assert b.input("x", F32, (3,)) is not x


def test_attributes_of_different_kinds_stay_apart() -> None:
    b = Builder()
    one, true, real = (b.constant(v) for v in (np.int32(1), np.bool_(True), np.float32(1)))
    assert len({id(n) for n in (one, true, real)}) == 3
    assert [n.dtype for n in (one, true, real)] == [I32, BOOL, F32]
    x = b.input("x", F32, (3,))
    low = b.emit("pad", x, low=(1,), high=(0,), value=0.0)
    assert low is not b.emit("pad", x, low=(1,), high=(0,), value=-0.0)


def test_constants_are_equal_by_their_bits() -> None:
    zero, negative = np.float32(0.0), np.float32(-0.0)
    assert Constant(np.array(zero)) == Constant(np.array(zero))
    assert Constant(np.array(zero)) != Constant(np.array(negative))
    assert Constant(np.zeros((2, 1), np.float32)) != Constant(np.zeros((1, 2), np.float32))
    nan = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert Constant(nan[:1]) != Constant(nan[1:])


def test_constants_do_not_follow_their_array() -> None:
    array = np.ones(3, np.float32)
    node = Builder().constant(array)
    array[0] = 5
    assert node.attrs["data"].array.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        node.attrs["data"].array[0] = 2


def test_guards_are_kept_once_with_the_first_place() -> None:
    b = Builder()
    x, y = b.input("x", F32, (Dim.axis("?n"),)), b.input("y", F32, (Dim.axis("?m"),))
    source = Source("m.rlx", "x + y; x * y;")
    first = Span(source=source, start=0, end=5)
    with b.at(Origin(first)):
        b.emit("add", x, y)
    with b.at(Origin(Span(source=source, start=7, end=12))):
        b.emit("add", x, y)
    assert [g.origin.span for g in b.guards.values()] == [first]


def test_refused_operands_leave_no_node() -> None:
    b = Builder()
    x, y = b.input("x", F32, (3,)), b.input("y", F32, (4,))
    with pytest.raises(TypeProblem, match=r"\[3\] and \[4\]"):
        b.emit("add", x, y)
    graph = b.finish("g", [declare(x)], [GraphOutput("y", x)])
    assert [n.op.name for n in graph.nodes] == ["input"]


def test_graphs_list_operands_before_users_and_only_what_is_needed() -> None:
    b = Builder()
    x = b.input("x", F32, (3,))
    y = b.emit("tanh", x)
    b.emit("exp", x)
    z = b.emit("add", y, x)
    graph = b.finish("g", [declare(x)], [GraphOutput("z", z)])
    assert graph.nodes == (x, y, z) == topological([z])
    assert graph.input("x") is graph.inputs[0]
    assert graph.input("w") is None


def test_axes_of_a_graph_stand_in_order_of_appearance() -> None:
    b = Builder()
    x = b.input("x", F32, (Dim.axis("?z"), Dim.axis("?a")))
    w = b.input("w", F32, (Dim.axis("?k"),), "param")
    graph = b.finish("g", [declare(x), declare(w)], [GraphOutput("x", x)])
    assert graph.axes() == ("?z", "?a", "?k")
    assert [i.name for i in graph.params] == ["w"]
    assert [i.name for i in graph.feeds] == ["x"]


def test_deep_graphs_need_no_recursion() -> None:
    b = Builder()
    x = b.input("x", F32, (3,))
    node = x
    for _ in range(50_000):
        node = b.emit("neg", b.emit("tanh", node))
    assert len(topological([node])) == 100_001


def test_the_table_refuses_a_second_row_and_rules_without_a_decomposition() -> None:
    row = OPS["add"]
    with pytest.raises(ValueError, match="twice"):
        register(row)
    from rlxlang.ir import VIA_DECOMPOSITION

    with pytest.raises(ValueError, match="decomposition"):
        Op("odd", "", row.infer, row.reference, VIA_DECOMPOSITION, row.vjp, row.batch, row.lower, row.samples)
