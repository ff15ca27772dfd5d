"""vmap is a loop: positions of batch axes, dynamic and static sizes, shared operands, names of axes, compositions, errors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, Node
from rlxlang.ir.verify import verify
from rlxlang.ops import emit
from rlxlang.transforms import grad, hvp, jvp, value_and_grad, vmap
from rlxlang.types import Dim, TensorType
from tests.transforms.models import Array, N, graph_of, matmul, names_of, network, outputs_of, total


def loop(graph: Graph, arrays: Mapping[str, Array], axes: Mapping[str, int], count: int) -> dict[str, Array]:
    """The outputs of every lane, stacked in front."""
    lanes = [
        outputs_of(graph, {n: np.take(a, k, axes[n]) if n in axes else a for n, a in arrays.items()})
        for k in range(count)
    ]
    return {name: np.stack([lane[name] for lane in lanes]) for name in lanes[0]}


def assert_same(found: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    assert list(found) == list(want)
    for name, value in want.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12)


def batch(rng: np.random.Generator, mapped: Mapping[str, int], count: int) -> dict[str, Array]:
    """Arrays for `network`, with a batch axis in some."""
    shapes = {"x": [5, 4], "w": [4, 3], "v": [3, 3], "t": [5]}
    for name, axis in mapped.items():
        rank = len(shapes[name]) + 1
        shapes[name].insert(axis % rank, count)
    arrays: dict[str, Array] = {n: rng.normal(size=s) for n, s in shapes.items() if n != "t"}
    return arrays | {"t": rng.integers(0, 3, shapes["t"]).astype(np.int32)}


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize(
    "mapped", [{"x": 0}, {"w": 0}, {"x": 1, "t": 1}, {"x": -1, "w": -2, "v": 2, "t": 0}, {"t": -1}, {"v": -3}], ids=str
)
def test_vmap_is_a_loop(mapped: dict[str, int], size: int | None, rng: np.random.Generator) -> None:
    graph = network()
    mapped_graph = vmap(graph, mapped, size)
    verify(mapped_graph)
    assert names_of(mapped_graph) == names_of(graph)
    assert [o.role for o in mapped_graph.outputs] == [o.role for o in graph.outputs]
    arrays = batch(rng, mapped, 3)
    assert_same(outputs_of(mapped_graph, arrays), loop(graph, arrays, mapped, 3))


def test_one_graph_serves_every_batch(rng: np.random.Generator) -> None:
    graph = network()
    mapped = vmap(graph, {"x": 0, "t": 0})
    for count in (1, 2, 7):
        arrays = batch(rng, {"x": 0, "t": 0}, count)
        assert_same(outputs_of(mapped, arrays), loop(graph, arrays, {"x": 0, "t": 0}, count))


def test_an_empty_batch() -> None:
    graph = graph_of(lambda b, x: total(b, emit.square(b, x)), {"x": (3,)}, ("y",))
    assert outputs_of(vmap(graph, {"x": 0}), {"x": np.zeros((0, 3))})["y"].shape == (0,)
    assert vmap(graph, {"x": 0}, 0).outputs[0].node.shape == (0,)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_positions_in_the_outputs(axis: int, rng: np.random.Generator) -> None:
    graph = graph_of(lambda b, x, w: (matmul(b, x, w), w), {"x": (2, 3), "w": (3, 4)}, ("y", "w_again"))
    arrays = {"x": rng.normal(size=(5, 2, 3)), "w": rng.normal(size=(3, 4))}
    found = outputs_of(vmap(graph, {"x": 0}, out_axes=axis), arrays)
    np.testing.assert_allclose(found["y"], np.moveaxis(arrays["x"] @ arrays["w"], 0, axis))
    np.testing.assert_array_equal(found["w_again"], np.stack([arrays["w"]] * 5, axis))
    single = outputs_of(vmap(graph, {"x": 0}, out_axes={"y": axis}), arrays)
    np.testing.assert_array_equal(single["y"], found["y"])
    assert single["w_again"].shape == (5, 3, 4)


def test_names_of_new_axes() -> None:
    graph = graph_of(lambda b, x: emit.square(b, x), {"x": (N,)}, ("y",))
    once = vmap(graph, {"x": 0})
    twice = vmap(once, {"x": 1})
    first, second = Dim.axis("?vmap"), Dim.axis("?vmap_2")
    assert once.inputs[0].node.shape == (first, N)
    assert twice.inputs[0].node.shape == (first, second, N)
    assert twice.outputs[0].node.shape == (second, first, N)


def test_kinds_initializers_and_documents_stay() -> None:
    graph = network()
    mapped = vmap(graph, {"w": 0}, 4)
    assert [(i.kind, i.doc, i.init) for i in mapped.inputs] == [(i.kind, i.doc, i.init) for i in graph.inputs]
    assert mapped.inputs[1].node.type == TensorType(graph.inputs[1].node.dtype, (4, 4, 3))


def test_guards_stay() -> None:
    def build(b: Builder, x: Node, y: Node) -> Node:
        return emit.add(b, x, y)

    graph = graph_of(build, {"x": (N,), "y": (Dim.axis("?m"),)}, ("z",))
    assert [str(g.guard) for g in graph.guards] == ["?n == ?m"]
    assert "?n == ?m" in [str(g.guard) for g in vmap(graph, {"x": 0}).guards]


@pytest.mark.parametrize("chosen", [c for k in (1, 2, 3) for c in itertools.combinations("xwv", k)], ids="".join)
def test_vmap_of_derivatives(chosen: tuple[str, ...], rng: np.random.Generator) -> None:
    """Derivatives for each lane, with operands batched and shared in every combination."""
    mapped = {n: k % 2 for k, n in enumerate(chosen)}
    arrays = batch(rng, mapped, 3)
    for derived in (value_and_grad(network(), ["w", "x"]), grad(network(), ["v"])):
        assert_same(outputs_of(vmap(derived, mapped), arrays), loop(derived, arrays, mapped, 3))
    second = hvp(network(), ["w"])
    arrays["tangent_w"] = rng.normal(size=(4, 3))
    assert_same(outputs_of(vmap(second, mapped), arrays), loop(second, arrays, mapped, 3))


def test_gradient_of_vmap_is_the_sum_over_lanes(rng: np.random.Generator) -> None:
    graph = graph_of(lambda b, x, w: total(b, b.emit("tanh", matmul(b, x, w))), {"x": (2, 3), "w": (3, 4)}, ("loss",))
    mapped = vmap(graph, {"x": 0})
    whole = graph_of(
        lambda b, x, w: _summed(b, mapped, {"x": x, "w": w}), {"x": (Dim.axis("?vmap"), 2, 3), "w": (3, 4)}
    )
    arrays = {"x": rng.normal(size=(5, 2, 3)), "w": rng.normal(size=(3, 4))}
    found = outputs_of(grad(whole, ["w", "x"]), arrays)
    lanes = loop(grad(graph, ["w", "x"]), arrays, {"x": 0}, 5)
    np.testing.assert_allclose(found["d_w"], lanes["d_w"].sum(0))
    np.testing.assert_allclose(found["d_x"], lanes["d_x"])


def _summed(b: Builder, graph: Graph, given: Mapping[str, Node]) -> Node:
    """The sum of the first output of a graph, emitted into a builder."""
    env = {e.node: given[e.name] for e in graph.inputs}
    for node in graph.nodes:
        if node not in env:
            env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    return total(b, env[graph.outputs[0].node])


def test_jvp_of_vmap_is_vmap_of_jvp(rng: np.random.Generator) -> None:
    graph = graph_of(lambda b, x: b.emit("softmax", emit.square(b, x), axis=0), {"x": (4,)}, ("y",))
    arrays = {"x": rng.normal(size=(3, 4)), "tangent_x": rng.normal(size=(3, 4))}
    one = outputs_of(jvp(vmap(graph, {"x": 0}), ["x"]), arrays)
    two = outputs_of(vmap(jvp(graph, ["x"]), {"x": 0, "tangent_x": 0}), arrays)
    assert_same(one, two)


def test_vmap_of_vmap(rng: np.random.Generator) -> None:
    graph = graph_of(lambda b, x, y: total(b, emit.mul(b, x, b.emit("exp", y))), {"x": (4,), "y": (4,)}, ("z",))
    table = vmap(vmap(graph, {"y": 0}), {"x": 0})
    x, y = rng.normal(size=(2, 4)), rng.normal(size=(3, 4))
    np.testing.assert_allclose(outputs_of(table, {"x": x, "y": y})["z"], x @ np.exp(y).T)


@pytest.mark.parametrize(
    ("mapped", "options", "words"),
    [
        ({}, {}, "at least one batched input"),
        ({"z": 0}, {}, "no input or param `z`"),
        ({"x": 3}, {}, "in_axes of `x` is 3"),
        ({"x": -4}, {}, "in_axes of `x` is -4"),
        ({"x": 0}, {"out_axes": 2}, "out_axes of `y` is 2"),
        ({"x": 0}, {"out_axes": {"y": -3}}, "out_axes of `y` is -3"),
        ({"x": 0}, {"size": -1}, "the batch size is -1"),
    ],
)  # fmt: skip
def test_errors(mapped: dict[str, int], options: dict[str, object], words: str) -> None:
    graph = graph_of(lambda b, x: emit.reduce_sum(b, x, (1,)), {"x": (2, 3)}, ("y",))
    with pytest.raises(RlxTransformError, match=words):
        vmap(graph, mapped, **options)  # type: ignore[arg-type]


def test_long_chains_are_linear_and_need_no_recursion() -> None:
    def build(b: Builder, x: Node) -> Node:
        for _ in range(3_000):
            x = b.emit("sin", x)
        return x

    graph = graph_of(build, {"x": ()}, ("y",))
    assert len(vmap(graph, {"x": 0}).nodes) == len(graph.nodes)
