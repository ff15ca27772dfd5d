"""Printing and reading graphs: what is read back is what was printed, and faults in the text are told with their line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Constant, Graph, GraphOutput, Initializer, SourcedGuard, declare
from rlxlang.ir.parser import GraphTextProblem, parse_graph
from rlxlang.ir.printer import print_graph
from rlxlang.ir.verify import verify
from rlxlang.transforms import value_and_grad, vmap
from rlxlang.types import BOOL, DTYPES, F32, F64, Dim, DType, Guard, floor_div
from rlxlang.types.dim import maximum, minimum, mod
from tests.lower.random_graphs import RandomGraph
from tests.oracles import arrays_of, cases, dynamic_graph_of, graph_of

N, M = Dim.axis("?n"), Dim.axis("?m")


def same_text(graph: Graph) -> Graph:
    """The graph read back from its text, which prints alike and is sound."""
    text = print_graph(graph)
    again = parse_graph(text)
    assert print_graph(again) == text
    verify(again)
    return again


def test_text_of_a_model() -> None:
    b = Builder()
    x, w = b.input("x", F32, (N, 4)), b.input("layer.w", F32, (4, 3), kind="param")
    h = b.emit("dot_general", x, w, batch=((), ()), contract=((1,), (0,)))
    loss = b.emit("mean", b.emit("mul", h, b.full_like(h, 0.5)), axes=(0, 1))
    b.require(SourcedGuard(Guard(N, "<=", 1024, "the batch of `x`")))
    inputs = [declare(x), declare(w, Initializer("normal", (("std", 0.02),)), 'the "first" layer')]
    graph = b.finish("model", inputs, [GraphOutput("loss", loss), GraphOutput("h", h, "tap")])
    assert (
        print_graph(graph)
        == """\
graph "model" {
  %0: [F32; ?n, 4] = input "x"
  %1: [F32; 4, 3] = param "layer.w" init normal(std: 0.02) doc "the \\"first\\" layer"
  %2: [F32; ?n, 3] = dot_general(%0, %1; batch: [[], []], contract: [[1], [0]])
  %3: [F32;] = constant(; data: F32[]{0.5})
  %4: [F32; ?n, 3] = broadcast_to(%3; shape: [?n, 3])
  %5: [F32; ?n, 3] = mul(%2, %4)
  %6: [F32;] = mean(%5; axes: [0, 1])
  require ?n <= 1024 for "the batch of `x`"
  out "loss" = %6
  tap "h" = %2
}
"""
    )
    again = same_text(graph)
    assert again.inputs[1].init == Initializer("normal", (("std", 0.02),))
    assert again.guards[0].guard == graph.guards[0].guard


@pytest.mark.parametrize("case", cases(), ids=lambda c: c[0])
def test_every_op_is_read_back(case: Any) -> None:
    _, op, sample = case
    graph = graph_of(op, sample)
    again = same_text(graph)
    arrays = arrays_of(sample)
    for left, right in zip(evaluate(graph, arrays), evaluate(again, arrays), strict=True):
        np.testing.assert_array_equal(left, right)
    if not any(isinstance(v, Graph) for v in sample.attrs.values()) and all(a.ndim for a in sample.args):
        try:
            dynamic, _ = dynamic_graph_of(op, sample)
        except Exception:  # this sample's options need the static sizes
            return
        same_text(dynamic)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_are_read_back(seed: int) -> None:
    maker = RandomGraph(seed)
    graph = maker.build()
    again = same_text(graph)
    arrays = maker.arrays()
    with np.errstate(all="ignore"):
        for left, right in zip(evaluate(graph, arrays, maker.sizes), evaluate(again, arrays, maker.sizes), strict=True):
            np.testing.assert_array_equal(left, right)


def test_transformed_scans_keep_their_bodies() -> None:
    op, sample = next((op, s) for name, op, s in cases() if name == "scan-0")
    graph = graph_of(op, sample)
    b = Builder()
    inputs = [b.input(e.name, e.node.dtype, e.node.shape) for e in graph.inputs]
    first = b.emit("item", b.emit(op, *inputs, **sample.attrs), index=0)
    loss = b.emit("sum", first, axes=(0,))
    graph = b.finish("g", [declare(i) for i in inputs], [GraphOutput("loss", loss)])
    derived = vmap(value_and_grad(graph, ["x0", "x3"]), {"x0": 0})
    text = print_graph(derived)
    assert text.startswith("graph #1 ")
    assert text.count('graph "g" {') == 1
    same_text(derived)


def test_one_body_is_printed_once() -> None:
    op, sample = next((op, s) for name, op, s in cases() if name == "remat-0")
    b = Builder()
    inputs = [b.input(f"x{k}", F64, a.shape) for k, a in enumerate(sample.args)]
    one = b.emit(op, *inputs, **sample.attrs)
    two = b.emit(op, b.emit("neg", inputs[0]), *inputs[1:], **sample.attrs)
    graph = b.finish("g", [declare(i) for i in inputs], [GraphOutput("a", one), GraphOutput("b", two)])
    assert print_graph(graph).count("graph #") == 1
    again = same_text(graph)
    bodies = [n.attrs["body"] for n in again.nodes if n.op.name == "remat"]
    assert bodies[0] is bodies[1]


# ------------------------------------------------------------------------------------------------ constants, options

SPECIAL = [0.0, -0.0, 1.0, 0.1, -1e30, 1e-40, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 3), (5, 10)])
def test_constants_keep_their_bits(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    if dtype.is_integer:
        low, high = dtype.integer_range
        array = rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)
        array = np.where(rng.random(shape) < 0.3, np.array(high, dtype.numpy), array)
    else:
        with np.errstate(over="ignore"):
            array = np.resize(np.array(SPECIAL), shape).astype(dtype.numpy)
    b = Builder()
    graph = b.finish("g", [], [GraphOutput("y", b.constant(np.asarray(array), dtype))])
    again = same_text(graph)
    assert again.nodes[0].attrs["data"] == Constant(np.asarray(array))


def test_shortened_constants_cannot_be_read() -> None:
    b = Builder()
    graph = b.finish("g", [], [GraphOutput("y", b.constant(np.arange(100, dtype=np.float32)))])
    text = print_graph(graph, exact=False)
    assert "F32[100]{…}" in text
    with pytest.raises(GraphTextProblem, match="line 2"):
        parse_graph(text)


def test_options_of_every_kind() -> None:
    values = {
        "pad": -0.0,
        "big": 1e22,
        "inf": -np.inf,
        "none": None,
        "yes": True,
        "text": 'a "b" \\ ü\n',
        "dtype": BOOL,
        "empty": (),
        "nested": ((1,), (N, "x", (F32, 2.0))),
        "size": floor_div(N * 3 - 1, 2) * M - 4,
    }
    b = Builder()
    x = b.input("x", F32, ())
    y = b.emit("neg", x)
    object.__setattr__(y, "attrs", values)
    again = parse_graph(print_graph(b.finish("g", [declare(x)], [GraphOutput("y", y)])))
    found = again.nodes[1].attrs
    assert found == values
    assert [type(v) for v in found.values()] == [type(values[k]) for k in found]
    assert np.signbit(found["pad"])


def test_options_without_a_text_are_refused() -> None:
    b = Builder()
    x = b.input("x", F32, ())
    y = b.emit("neg", x)
    object.__setattr__(y, "attrs", {"odd": object()})
    graph = b.finish("g", [declare(x)], [GraphOutput("y", y)])
    with pytest.raises(TypeError, match="option of type object"):
        print_graph(graph)
    assert "odd: <object" in print_graph(graph, exact=False)


SMALL = st.integers(-4, 4)


@st.composite
def sizes(draw: st.DrawFn) -> Dim | int:
    def polynomial() -> Dim | int:
        return draw(SMALL) * N * M + draw(SMALL) * N * N + draw(SMALL) * M + draw(SMALL)

    value: Any = polynomial()
    for _ in range(draw(st.integers(0, 3))):
        other: Any = polynomial()
        kind = draw(st.sampled_from(["div", "mod", "min", "max", "times"]))
        if kind in ("div", "mod") and other == 0:
            continue
        function = {"div": floor_div, "mod": mod, "min": minimum, "max": maximum, "times": lambda p, q: p * q}[kind]
        value = function(value, other) + draw(SMALL) * N
    return value


@given(sizes())
def test_sizes_are_read_back(size: Dim | int) -> None:
    b = Builder()
    graph = b.finish("g", [], [GraphOutput("y", b.emit("dim_size", dim=size, dtype=F32))])
    assert parse_graph(print_graph(graph)).nodes[0].attrs["dim"] == size


# ------------------------------------------------------------------------------------------------ faults

HEAD = 'graph "g" {\n  %0: [F32; 2] = input "x"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: 'graph' is expected, not 'the end of the text'"),
        (HEAD + "  %1: [F32; 2] = nog(%0)\n}", "line 3: there is no op `nog`"),
        (HEAD + "  %1: [F32; 2] = neg(%2)\n}", r"line 3: '\)' is expected|line 3: %2 is no node"),
        (HEAD + '  %1: [F33; 2] = neg(%0)\n  out "y" = %1\n}', "line 3: there is no dtype `F33`"),
        (HEAD + "  %0: [F32; 2] = neg(%0)\n}", "line 3: %0 is defined twice"),
        (HEAD + '  out "y" = %0', "line 3: a node, `require`, `out` or `tap` is expected"),
        (HEAD + '  out "y" = $\n}', "line 3: '\\$' is not expected"),
        (HEAD + '  require 2 < 3 for "x"\n}', "line 3: '<' is not expected"),
        (HEAD + '  require 2 + 3 for "x"\n}', "line 3: `==`, `<=` or `divides` is expected, not 'for'"),
        (HEAD + "  %1: [F32; (?n div 0)] = neg(%0)\n}", "line 3: .n is divided by zero"),
        (HEAD + "  %1: [F32; 2] = constant(; data: F32[2]{1.0})\n}", "line 3: a constant of shape .* has 1 numbers"),
        (HEAD + "  %1: [F32; 2] = scan(%0; body: #1)\n}", "line 3: #1 is no graph"),
    ],
)  # fmt: skip
def test_faults_in_the_text_are_told_with_their_line(text: str, message: str) -> None:
    with pytest.raises(GraphTextProblem, match=message):
        parse_graph(text)


def test_long_graphs_are_printed_and_read_without_recursion() -> None:
    b = Builder()
    node = x = b.input("x", F32, (3,))
    for _ in range(20_000):
        node = b.emit("tanh", node)
    graph = b.finish("g", [declare(x)], [GraphOutput("y", node)])
    assert len(parse_graph(print_graph(graph)).nodes) == 20_001
