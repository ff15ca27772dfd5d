"""Verification finds every kind of broken graph, and shows where."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.diagnostics import InternalError
from rlxlang.ir import OPS, Builder, Graph, GraphInput, GraphOutput, Node, declare
from rlxlang.ir.verify import verify
from rlxlang.passes import simplify
from rlxlang.transforms import expand, hvp, value_and_grad, vmap
from rlxlang.types import F32, I32, Dim, TensorType
from tests.oracles import cases, graph_of

N = Dim.axis("?n")


def chain(length: int = 12) -> Graph:
    b = Builder()
    node = x = b.input("x", F32, (N,))
    for _ in range(length):
        node = b.emit("tanh", node)
    return b.finish("chain", [declare(x)], [GraphOutput("y", node)])


def test_sound_graphs_pass() -> None:
    verify(chain())
    for _, op, sample in cases():
        verify(graph_of(op, sample))


def test_transforms_and_passes_give_sound_graphs() -> None:
    b = Builder()
    x, w = b.input("x", F32, (N, 3)), b.input("w", F32, (3, 2))
    h = b.emit("softmax", b.emit("dot_general", x, w, batch=((), ()), contract=((1,), (0,))), axis=1)
    loss = b.emit("mean", b.emit("mul", h, h), axes=(0, 1))
    graph = b.finish("g", [declare(x), declare(w)], [GraphOutput("loss", loss), GraphOutput("h", h)])
    for made in (value_and_grad(graph, ["x", "w"]), hvp(graph, ["w"]), vmap(value_and_grad(graph, ["w"]), {"x": 0})):
        verify(made)
        verify(expand(made, "lower")[0])
        verify(simplify(expand(made, "lower")[0]))


def with_node(graph: Graph, k: int, **changes: object) -> Graph:
    """The graph with node k changed, and those after it built on the change."""
    new: dict[Node, Node] = {}
    for j, node in enumerate(graph.nodes):
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = replace(node, inputs=inputs, **(changes if j == k else {}))  # type: ignore[arg-type]
    outputs = tuple(GraphOutput(o.name, new[o.node]) for o in graph.outputs)
    inputs = tuple(replace(i, node=new[i.node]) for i in graph.inputs)
    return Graph(graph.name, inputs, outputs, graph.guards, tuple(new.values()))


def test_a_wrong_type_is_shown_with_the_lines_around_it() -> None:
    broken = with_node(chain(), 6, type=TensorType(F32, (3,)))
    with pytest.raises(InternalError) as caught:
        verify(broken, "fold")
    text = str(caught.value)
    assert "`tanh` is marked [F32; 3], and its shape rule gives [F32; ?n]" in text
    assert "-> %6: [F32; 3] = tanh(%5)" in text
    for line in ("   %3: ", "   %9: "):
        assert line in text
    assert "%10" not in text
    assert "stage: fold" in text


def test_a_dtype_that_the_op_refuses() -> None:
    b = Builder()
    x = b.input("x", I32, (N,))
    node = Node(OPS["tanh"], (x,), {}, TensorType(I32, (N,)))
    with pytest.raises(InternalError, match=r"`tanh` refuses its operands: .* I32 is given"):
        verify(b.finish("g", [declare(x)], [GraphOutput("y", node)]))


def test_missing_options() -> None:
    b = Builder()
    x = b.input("x", F32, (N,))
    node = Node(OPS["transpose"], (x,), {}, x.type)
    with pytest.raises(InternalError, match="`transpose` does not fit its operands and options"):
        verify(b.finish("g", [declare(x)], [GraphOutput("y", node)]))


def test_order() -> None:
    graph = chain(3)
    swapped = (graph.nodes[0], graph.nodes[2], graph.nodes[1], graph.nodes[3])
    with pytest.raises(InternalError, match="`tanh` stands before its operand 0"):
        verify(Graph("g", graph.inputs, graph.outputs, (), swapped))
    with pytest.raises(InternalError, match="lists a node twice"):
        verify(Graph("g", graph.inputs, graph.outputs, (), (*graph.nodes, graph.nodes[1])))
    with pytest.raises(InternalError, match="operand 0 of `tanh` is not in the graph"):
        verify(Graph("g", graph.inputs, graph.outputs, (), (graph.nodes[0], *graph.nodes[2:])))
    with pytest.raises(InternalError, match="the output `y` of the graph `g` is not among its nodes"):
        verify(Graph("g", graph.inputs, graph.outputs, (), graph.nodes[:-1]))


def test_names() -> None:
    b = Builder()
    x, y = b.input("x", F32, ()), b.input("x", F32, ())
    outputs = [GraphOutput("a", x)]
    with pytest.raises(InternalError, match="two inputs of the graph `g` are named `x`"):
        verify(b.finish("g", [declare(x), declare(y)], outputs))
    with pytest.raises(InternalError, match="two outputs of the graph `g` are named `a`"):
        verify(b.finish("g", [declare(x)], [*outputs, GraphOutput("a", x)]))
    with pytest.raises(InternalError, match="two inputs of the graph `g` are one node"):
        verify(b.finish("g", [declare(x), GraphInput("z", "input", x)], outputs))
    with pytest.raises(InternalError, match="the node of the param `x` of `g` is another one"):
        verify(b.finish("g", [GraphInput("x", "param", x)], outputs))
    with pytest.raises(InternalError, match="the input `x` is not declared"):
        verify(b.finish("g", [], outputs))


def test_a_foreign_op() -> None:
    graph = chain(2)
    with pytest.raises(InternalError, match="`tanh` is not the op of that name in the table"):
        verify(with_node(graph, 1, op=replace(OPS["tanh"])))


def test_faults_inside_bodies_are_found() -> None:
    op, sample = next((op, s) for name, op, s in cases() if name == "scan-0")
    graph = graph_of(op, sample)
    body = sample.attrs["body"]
    k = next(j for j, n in enumerate(body.nodes) if n.op.name == "tanh")
    broken = with_node(body, k, type=TensorType(F32, (7,)))
    scan_at = next(j for j, n in enumerate(graph.nodes) if n.op.name == "scan")
    with pytest.raises(InternalError, match="graph `body`: `tanh` is marked"):
        verify(with_node(graph, scan_at, attrs={**graph.nodes[scan_at].attrs, "body": broken}))
