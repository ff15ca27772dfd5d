"""Copying and expanding graphs: interfaces, guards and origins stay, composites become their parts only where asked."""

from __future__ import annotations

import numpy as np

from rlxlang.interp import evaluate
from rlxlang.ir import VIA_DECOMPOSITION, Builder, GraphOutput, Initializer, Node, Origin, declare
from rlxlang.ir.printer import print_graph
from rlxlang.ir.verify import verify
from rlxlang.ops import emit
from rlxlang.transforms import dependents, expand, grad, replay, replay_inputs, unique_name
from rlxlang.types import F64, Dim
from tests.transforms.models import N, graph_of, network, network_arrays, outputs_of, total


def test_a_copy_prints_alike() -> None:
    graph = network()
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    replay(b, graph, env)
    copy = b.finish(graph.name, inputs, [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs])
    assert print_graph(copy) == print_graph(graph)
    assert not set(copy.nodes) & set(graph.nodes)


def test_expansion_keeps_the_interface_and_the_value(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    for rule in ("vjp", "jvp", "batch", "lower"):
        expanded, where = expand(graph, rule)
        verify(expanded)
        assert not any(getattr(n.op, rule) is VIA_DECOMPOSITION for n in expanded.nodes)
        assert [(i.name, i.kind) for i in expanded.inputs] == [(i.name, i.kind) for i in graph.inputs]
        assert [(o.name, o.role) for o in expanded.outputs] == [(o.name, o.role) for o in graph.outputs]
        for entry, new in zip(graph.inputs, expanded.inputs, strict=True):
            assert where[entry.node] is new.node
        for left, right in zip(evaluate(graph, arrays), evaluate(expanded, arrays), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-10)


def test_only_what_depends_on_the_roots_is_expanded() -> None:
    def build(b: Builder, x: Node, y: Node) -> tuple[Node, Node]:
        return b.emit("softmax", x, axis=0), b.emit("softmax", y, axis=0)

    graph = graph_of(build, {"x": (3,), "y": (4,)}, ("a", "b"))
    expanded, _ = expand(graph, "lower", [graph.inputs[0].node])
    assert [n.op.name for n in expanded.nodes].count("softmax") == 1
    assert expanded.outputs[1].node.op.name == "softmax"
    assert expand(graph, "lower", [])[0] is graph


def test_dependents() -> None:
    graph = network()
    v = graph.inputs[2].node
    found = dependents(graph, [v])
    assert v in found
    assert graph.outputs[0].node in found
    assert graph.outputs[3].node not in found


def test_guards_initializers_and_origins_stay() -> None:
    b = Builder()
    here = Origin(via=("loads",))
    x, y = b.input("x", F64, (N,)), b.input("y", F64, (Dim.axis("?m"),), kind="param")
    with b.at(here):
        loss = total(b, b.emit("tanh", emit.mul(b, x, y)))
    inputs = [declare(x), declare(y, Initializer("zeros"), "offset")]
    derived = grad(b.finish("g", inputs, [GraphOutput("loss", loss)]), ["x"])
    assert "?n == ?m" in [str(g.guard) for g in derived.guards]
    assert (derived.inputs[1].init, derived.inputs[1].doc) == (Initializer("zeros"), "offset")
    made = [n for n in derived.nodes if n.op.name != "input"]
    assert all(n.origin.via[0] == "loads" for n in made)
    assert any(n.origin.via == ("loads", "grad") for n in made)


def test_unique_names() -> None:
    assert unique_name("x", []) == "x"
    assert unique_name("x", ["x", "x_2"]) == "x_3"


def test_arrays_of_the_model_fit(rng: np.random.Generator) -> None:
    found = outputs_of(network(), network_arrays(rng, 2))
    assert found["loss"].shape == ()
    np.testing.assert_allclose(found["p"].sum(1), 1)
