"""jvp and linearize: values, names, zeros, integers, long chains."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Node
from rlxlang.ir.verify import verify
from rlxlang.ops import emit
from rlxlang.transforms import grad, jvp, linearize, vjp
from rlxlang.types import I32
from tests.transforms.models import N, close, difference, graph_of, names_of, network, network_arrays, outputs_of, total


def test_tangents_are_finite_differences(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    pushed = jvp(graph, ["w", "x"])
    verify(pushed)
    outputs = ["loss", "p", "class", "hidden"]
    assert names_of(pushed) == (
        ["x", "w", "v", "t", "tangent_w", "tangent_x"],
        [*outputs, *(f"tangent_{o}" for o in outputs)],
    )
    assert [o.role for o in pushed.outputs] == ["out", "out", "out", "tap"] * 2
    directions = {n: rng.normal(size=arrays[n].shape) for n in ("w", "x")}
    found = outputs_of(pushed, {**arrays, **{f"tangent_{n}": d for n, d in directions.items()}})
    step = 1e-6
    up, down = (
        outputs_of(graph, {**arrays, **{n: arrays[n] + s * d for n, d in directions.items()}}) for s in (step, -step)
    )
    for name in ("loss", "p", "hidden"):
        close(found[f"tangent_{name}"], (up[name] - down[name]) / (2 * step))
    assert found["tangent_class"].dtype == np.int32
    assert not found["tangent_class"].any()


def test_linearize_is_linear_and_has_no_primal_outputs(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    linear = linearize(graph, ["w"])
    verify(linear)
    assert names_of(linear)[1] == ["tangent_loss", "tangent_p", "tangent_class", "tangent_hidden"]

    def at(direction: np.ndarray) -> np.ndarray:
        return outputs_of(linear, {**arrays, "tangent_w": direction})["tangent_p"]

    one, two = rng.normal(size=(2, 4, 3))
    np.testing.assert_allclose(at(2 * one - 3 * two), 2 * at(one) - 3 * at(two), rtol=1e-9, atol=1e-12)


def test_zero_tangents_where_nothing_flows() -> None:
    def build(b: Builder, x: Node, y: Node) -> tuple[Node, ...]:
        return emit.square(b, x), emit.square(b, y), b.emit("stop_gradient", x), b.emit("floor", x)

    graph = graph_of(build, {"x": (N,), "y": (3,)}, ("a", "b", "c", "d"))
    arrays = {"x": np.full(2, 3.0), "y": np.ones(3), "tangent_x": np.ones(2)}
    found = outputs_of(jvp(graph, ["x"]), arrays)
    np.testing.assert_array_equal(found["tangent_a"], [6, 6])
    for name, shape in (("b", (3,)), ("c", (2,)), ("d", (2,))):
        np.testing.assert_array_equal(found[f"tangent_{name}"], np.zeros(shape))


def test_taken_names_get_numbers() -> None:
    graph = graph_of(
        lambda b, x, tangent_x: (emit.mul(b, x, tangent_x), x), {"x": (), "tangent_x": ()}, ("y", "tangent_y")
    )
    pushed = jvp(graph, ["x"])
    assert names_of(pushed) == (
        ["x", "tangent_x", "tangent_x_2"],
        ["y", "tangent_y", "tangent_y_2", "tangent_tangent_y"],
    )
    found = outputs_of(pushed, {"x": np.array(2.0), "tangent_x": np.array(5.0), "tangent_x_2": np.array(3.0)})
    assert (found["tangent_y_2"], found["tangent_tangent_y"]) == (15, 3)


def test_tangents_of_tangents(rng: np.random.Generator) -> None:
    """The second derivative of x³ along one direction, by jvp of jvp."""
    graph = graph_of(lambda b, x: emit.mul(b, x, emit.square(b, x)), {"x": ()}, ("y",))
    twice = jvp(jvp(graph, ["x"]), ["x"])
    assert names_of(twice)[0] == ["x", "tangent_x", "tangent_x_2"]
    found = outputs_of(twice, {"x": np.array(2.0), "tangent_x": np.array(1.0), "tangent_x_2": np.array(1.0)})
    assert found["tangent_tangent_y"] == 12


def test_forward_and_reverse_agree(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    direction, ct_p = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    pushed = outputs_of(jvp(graph, ["w"]), {**arrays, "tangent_w": direction})["tangent_p"]
    pulled = outputs_of(vjp(graph, ["w"]), {**arrays, "ct_loss": np.array(0.0), "ct_p": ct_p})["d_w"]
    np.testing.assert_allclose(np.sum(pushed * ct_p), np.sum(pulled * direction), rtol=1e-10)


def test_forward_over_reverse_is_reverse_over_forward(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    given = {**arrays, "tangent_w": rng.normal(size=(4, 3))}
    one = outputs_of(linearize(grad(graph, ["w"]), ["w"]), given)["tangent_d_w"]
    two = outputs_of(grad(linearize(graph, ["w"]), ["w"]), given)["d_w"]
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    first = grad(graph, ["w"])
    close(one, difference(lambda w: outputs_of(first, {**arrays, "w": w})["d_w"], arrays["w"], given["tangent_w"]))


def test_errors() -> None:
    graph = graph_of(lambda b, x, k: total(b, x), {"x": (3,), "k": ()}, dtypes={"k": I32})
    for names, words in ((["k"], r"E0501.*`jvp`: `k` \(I32\)"), (["z"], "E0502.*`z`"), (["x", "x"], "listed twice")):
        with pytest.raises(RlxTransformError, match=words):
            jvp(graph, names)


def test_long_chains_are_linear_and_need_no_recursion() -> None:
    def build(b: Builder, x: Node) -> Node:
        for _ in range(3_000):
            x = b.emit("sin", x)
        return x

    graph = graph_of(build, {"x": ()})
    assert len(jvp(graph, ["x"]).nodes) < 4 * len(graph.nodes)
