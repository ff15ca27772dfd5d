"""The driver: values of whole graphs, equal nodes, dead nodes, bodies of loops, fuel, guards, origins, very long graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, Initializer, Node, Origin, declare
from rlxlang.ops.control import scan
from rlxlang.passes import Rewriting, Rule, simplify
from rlxlang.transforms import expand, value_and_grad
from rlxlang.types import BOOL, F32, I32, Dim
from tests.lower.random_graphs import RandomGraph

N = Dim.axis("?n")


def graph_of(build: Callable[..., Any], *shapes: tuple[Any, ...]) -> Graph:
    b = Builder()
    inputs = [b.input(f"x{k}", F32, shape) for k, shape in enumerate(shapes)]
    made = build(b, *inputs)
    results = made if isinstance(made, tuple) else (made,)
    return b.finish("g", [declare(i) for i in inputs], [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])


def ops_of(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes if n.op.name != "input"]


def test_what_rules_make_is_simplified_again() -> None:
    """exp(0·1 + 0) behind two views, on a mask that is known: one number is left."""

    def build(b: Builder, x: Node) -> Node:
        zeros = b.emit("mul", b.zeros_like(x), b.full_like(x, 1))
        ones = b.emit("exp", b.emit("transpose", b.emit("transpose", zeros, perm=(1, 0)), perm=(1, 0)))
        mask = b.emit("gt", b.full_like(x, 2), b.zeros_like(x))
        return b.emit("mul", x, b.emit("select", mask, ones, x))

    assert ops_of(simplify(graph_of(build, (N, 2)))) == []


def test_numbers_are_computed_once_and_stay_broadcast() -> None:
    graph = graph_of(lambda b, x: b.emit("mul", x, b.emit("add", b.full_like(x, 0.1), b.full_like(x, 0.2))), (N,))
    simple = simplify(graph)
    assert ops_of(simple) == ["constant", "broadcast_to", "mul"]
    number = simple.nodes[1].attrs["data"].array
    assert number.shape == ()
    assert number == np.float32(0.1) + np.float32(0.2)


def test_equal_nodes_become_one_and_dead_ones_go() -> None:
    def build(b: Builder, x: Node, y: Node) -> Node:
        b.emit("tanh", y)
        left = b.emit("exp", b.emit("neg", b.emit("neg", x)))
        return b.emit("mul", left, b.emit("exp", x))

    assert ops_of(simplify(graph_of(build, (N,), (N,)))) == ["exp", "mul"]


def test_inputs_outputs_and_what_they_carry_stay() -> None:
    b = Builder()
    x, w = b.input("x", F32, (N, 2)), b.input("w", F32, (2,), kind="param")
    outputs = [
        GraphOutput("same", b.emit("neg", b.emit("neg", x))),
        GraphOutput("known", b.emit("exp", b.full(0, F32, (2,))), "tap"),
    ]
    graph = b.finish("model", [declare(w, Initializer("normal", (("std", 0.1),)), "weights"), declare(x)], outputs)
    simple = simplify(graph)
    assert simple.name == "model"
    assert [(i.name, i.kind, i.init, i.doc) for i in simple.inputs] == [
        ("w", "param", Initializer("normal", (("std", 0.1),)), "weights"),
        ("x", "input", None, ""),
    ]
    assert [(o.name, o.role) for o in simple.outputs] == [("same", "out"), ("known", "tap")]
    assert simple.outputs[0].node is simple.inputs[1].node


def test_guards_stay_even_where_their_nodes_go() -> None:
    def build(b: Builder, x: Node, y: Node) -> Node:
        return b.emit("select", b.full(True, BOOL, x.shape), x, b.emit("reshape", y, shape=(N,)))

    graph = graph_of(build, (N,), (Dim.axis("?m"), 2))
    assert graph.guards
    simple = simplify(graph)
    assert simple.guards == graph.guards
    assert ops_of(simple) == []


def test_a_replacement_of_another_type_is_refused() -> None:
    """Sizes that only a run can compare are not exchanged, though a guard says they are equal."""

    def build(b: Builder, x: Node, y: Node) -> Node:
        return b.emit("select", b.full(False, BOOL, x.shape), x, y)

    graph = graph_of(build, (N,), (Dim.axis("?m"),))
    assert "select" in ops_of(simplify(graph))


def test_origins_stay() -> None:
    b = Builder()
    x = b.input("x", F32, (N,))
    here = Origin(via=("grad",))
    with b.at(here):
        y = b.emit("add", x, b.emit("neg", x))
    simple = simplify(b.finish("g", [declare(x)], [GraphOutput("y", y)]))
    assert simple.outputs[0].node.op.name == "sub"
    assert simple.outputs[0].node.origin == here


def test_stop_gradient_goes_only_when_asked() -> None:
    graph = graph_of(lambda b, x: b.emit("exp", b.emit("stop_gradient", x)), (N,))
    assert ops_of(simplify(graph)) == ["stop_gradient", "exp"]
    assert ops_of(simplify(graph, differentiated=True)) == ["exp"]


def test_simplifying_twice_changes_nothing_more() -> None:
    for seed in range(10):
        once = simplify(RandomGraph(seed).build())
        assert ops_of(simplify(once)) == ops_of(once)


def test_bodies_of_loops_are_simplified(rng: np.random.Generator) -> None:
    inner = Builder()
    h, x = inner.input("h", F32, (2,)), inner.input("x", F32, (2,))
    new = inner.emit("tanh", inner.emit("add", inner.emit("neg", inner.emit("neg", h)), x))
    body = inner.finish("body", [declare(h), declare(x)], [GraphOutput("h", new), GraphOutput("e", new)])

    def build(b: Builder, start: Node, stack: Node) -> tuple[Node, ...]:
        one, first = scan(b, body, [start], [stack], [], N)
        two, second = scan(b, body, one, [stack], [], N)
        return (*two, *first, *second)

    graph = graph_of(build, (2,), (N, 2))
    simple = simplify(graph)
    bodies = [n.attrs["body"] for n in simple.nodes if n.op.name == "scan"]
    assert len(bodies) == 2
    assert bodies[0] is bodies[1]
    assert ops_of(bodies[0]) == ["add", "tanh"]
    arrays = {"x0": rng.normal(size=2).astype(np.float32), "x1": rng.normal(size=(4, 2)).astype(np.float32)}
    for left, right in zip(evaluate(graph, arrays), evaluate(simple, arrays), strict=True):
        np.testing.assert_array_equal(left, right)


def test_rules_that_undo_each_other_end() -> None:
    """A pair of rules that would run for ever stops when the fuel is gone, and the value is right."""

    def to_sub(r: Rewriting, node: Node) -> Node:
        return r.b.emit("sub", node.inputs[0], r.b.emit("neg", node.inputs[1]))

    def to_add(r: Rewriting, node: Node) -> Node:
        return r.b.emit("add", node.inputs[0], r.b.emit("neg", node.inputs[1]))

    graph = graph_of(lambda b, x, y: b.emit("add", x, y), (N,), (N,))
    simple = simplify(graph, rules=(Rule("a", "add", to_sub), Rule("b", "sub", to_add)))
    arrays = {"x0": np.ones(2, np.float32), "x1": np.full(2, 3, np.float32)}
    np.testing.assert_array_equal(evaluate(simple, arrays)[0], np.full(2, 4, np.float32))


def test_constants_of_integers_wrap() -> None:
    def build(b: Builder) -> Node:
        return b.emit("add", b.full(2**31 - 1, I32, (3,)), b.full(1, I32, (3,)))

    simple = simplify(graph_of(build))
    np.testing.assert_array_equal(evaluate(simple, {})[0], np.full(3, -(2**31), np.int32))
    assert ops_of(simple) == ["constant", "broadcast_to"]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_their_value(seed: int) -> None:
    maker = RandomGraph(seed)
    graph, arrays = maker.build(), maker.arrays()
    simple = simplify(graph)
    assert len(simple.nodes) <= len(graph.nodes) + 2 * len(graph.outputs)
    with np.errstate(all="ignore"):
        before, after = evaluate(graph, arrays, maker.sizes), evaluate(simple, arrays, maker.sizes)
    for left, right in zip(before, after, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_gradients_keep_their_value(seed: int) -> None:
    maker = RandomGraph(seed, steps=12)
    graph = maker.build()
    b = Builder()
    inputs = {e.node: b.input(e.name, e.node.dtype, e.node.shape) for e in graph.inputs}
    env = dict(inputs)
    for node in graph.nodes:
        if node not in env:
            env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    floats = [env[o.node] for o in graph.outputs if o.node.dtype.is_float]
    total = None
    for node in floats:
        part = b.emit("sum", b.emit("tanh", node), axes=tuple(range(node.tensor.rank)))
        total = part if total is None else b.emit("add", total, part)
    assert total is not None
    loss = b.finish("g", [declare(n) for n in inputs.values()], [GraphOutput("loss", total)])
    derived = value_and_grad(replace(loss, guards=graph.guards), [e.name for e in graph.inputs])
    simple = simplify(expand(derived, "lower")[0], differentiated=True)
    arrays = maker.arrays()
    with np.errstate(all="ignore"):
        before, after = evaluate(derived, arrays, maker.sizes), evaluate(simple, arrays, maker.sizes)
    for left, right in zip(before, after, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)


def test_long_graphs_are_linear_and_need_no_recursion() -> None:
    def build(b: Builder, x: Node) -> Node:
        for _ in range(33_333):
            x = b.emit("neg", b.emit("tanh", b.emit("mul", x, b.full_like(x, 1))))
        return x

    assert len(simplify(graph_of(build, (3,))).nodes) == 66_667


def test_long_chains_of_views_collapse() -> None:
    def build(b: Builder, x: Node) -> Node:
        for k in range(3_000):
            x = b.emit("reshape", x, shape=((3, 2), (2, 3), (6,))[k % 3])
        return x

    assert ops_of(simplify(graph_of(build, (2, 3)))) == ["reshape"]
