"""grad, value_and_grad, vjp, hvp: values, names, zeros, outputs that are no loss, errors, long chains."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Node
from rlxlang.ir.verify import verify
from rlxlang.ops import emit
from rlxlang.transforms import grad, hvp, value_and_grad, vjp
from rlxlang.types import BOOL, F32, F64, I32
from tests.transforms.models import (
    N,
    close,
    difference,
    gradient_by_differences,
    graph_of,
    matmul,
    names_of,
    network,
    network_arrays,
    outputs_of,
    total,
)


def test_gradients_are_finite_differences(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    derived = value_and_grad(graph, ["v", "x", "w"])
    verify(derived)
    assert names_of(derived) == (["x", "w", "v", "t"], ["loss", "d_v", "d_x", "d_w", "p", "class", "hidden"])
    assert [o.role for o in derived.outputs] == ["out"] * 6 + ["tap"]
    found, plain = outputs_of(derived, arrays), outputs_of(graph, arrays)
    for name in ("x", "w", "v"):
        close(found[f"d_{name}"], gradient_by_differences(graph, arrays, name))
    for name in ("loss", "p", "class", "hidden"):
        np.testing.assert_array_equal(found[name], plain[name])
    only = outputs_of(grad(graph, ["w", "x"]), arrays)
    assert list(only) == ["d_w", "d_x"]
    np.testing.assert_array_equal(only["d_w"], found["d_w"])


def test_a_value_used_many_times_gets_the_sum() -> None:
    graph = graph_of(lambda b, x: emit.mul(b, x, emit.add(b, x, emit.mul(b, x, x))), {"x": ()})
    found = outputs_of(grad(graph, ["x"]), {"x": np.array(3.0)})["d_x"]
    assert found == 2 * 3 + 3 * 9


def test_the_loss_may_be_an_input_or_have_unit_axes() -> None:
    direct = grad(graph_of(lambda b, x: x, {"x": ()}), ["x"])
    assert outputs_of(direct, {"x": np.array(3.0)})["d_x"] == 1
    units = grad(graph_of(lambda b, x: emit.reshape(b, emit.square(b, x), (1, 1)), {"x": ()}), ["x"])
    assert outputs_of(units, {"x": np.array(3.0)})["d_x"] == 6


def test_what_has_no_influence_gets_zeros_of_its_type() -> None:
    def build(b: Builder, x: Node, y: Node, z: Node) -> Node:
        cut = b.emit("stop_gradient", y)
        return total(b, emit.mul(b, x, b.emit("floor", cut)))

    graph = graph_of(build, {"x": (N,), "y": (N,), "z": (2, 3)}, dtypes={"z": F32})
    arrays = {"x": np.ones(4), "y": np.ones(4), "z": np.ones((2, 3), np.float32)}
    found = outputs_of(grad(graph, ["y", "z"]), arrays)
    np.testing.assert_array_equal(found["d_y"], np.zeros(4))
    np.testing.assert_array_equal(found["d_z"], np.zeros((2, 3), np.float32))
    assert found["d_z"].dtype == np.float32


def test_no_path_through_integers(rng: np.random.Generator) -> None:
    def build(b: Builder, x: Node) -> Node:
        steps = emit.cast(b, emit.cast(b, x, I32), F64)
        return total(b, emit.mul(b, x, steps))

    x = np.array([1.5, -2.5, 3.25])
    found = outputs_of(grad(graph_of(build, {"x": (3,)}), ["x"]), {"x": x})["d_x"]
    np.testing.assert_array_equal(found, np.trunc(x))


def test_mixed_dtypes_keep_that_of_the_input(rng: np.random.Generator) -> None:
    def build(b: Builder, x: Node, w: Node) -> Node:
        return total(b, emit.mul(b, emit.cast(b, x, F64), w))

    derived = value_and_grad(graph_of(build, {"x": (3,), "w": (3,)}, dtypes={"x": F32}), ["x", "w"])
    verify(derived)
    assert [o.node.dtype for o in derived.outputs] == [F64, F32, F64]


# ------------------------------------------------------------------------------------------------ names


def test_taken_names_get_numbers() -> None:
    graph = graph_of(lambda b, x: (emit.square(b, x), x), {"x": ()}, ("d_x", "d_x_2"))
    once = value_and_grad(graph, ["x"])
    assert names_of(once)[1] == ["d_x", "d_x_3", "d_x_2"]
    square = graph_of(lambda b, x: emit.mul(b, x, emit.square(b, x)), {"x": ()})
    twice = value_and_grad(grad(square, ["x"]), ["x"])
    assert names_of(twice)[1] == ["d_x", "d_x_2"]
    found = outputs_of(twice, {"x": np.array(2.0)})
    assert (found["d_x"], found["d_x_2"]) == (12, 12)


def test_names_of_vjp() -> None:
    graph = graph_of(
        lambda b, x, ct_y: (emit.mul(b, x, ct_y), emit.cast(b, x, I32), emit.square(b, x)),
        {"x": (), "ct_y": ()},
        ("y", "k", "z"),
        taps=("z",),
    )
    pulled = vjp(graph, ["ct_y", "x"])
    assert names_of(pulled) == (["x", "ct_y", "ct_y_2"], ["y", "k", "z", "d_ct_y", "d_x"])
    found = outputs_of(pulled, {"x": np.array(3.0), "ct_y": np.array(5.0), "ct_y_2": np.array(2.0)})
    assert (found["d_x"], found["d_ct_y"]) == (10, 6)


def test_names_of_hvp() -> None:
    graph = graph_of(lambda b, w, tangent_w: emit.mul(b, emit.square(b, w), tangent_w), {"w": (), "tangent_w": ()})
    product = hvp(graph, ["w", "tangent_w"])
    assert names_of(product) == (
        ["w", "tangent_w", "tangent_w_2", "tangent_tangent_w"],
        ["hvp_w", "hvp_tangent_w"],
    )
    arrays = {"w": 3.0, "tangent_w": 5.0, "tangent_w_2": 1.0, "tangent_tangent_w": 2.0}
    found = outputs_of(product, {k: np.array(v) for k, v in arrays.items()})
    assert (found["hvp_w"], found["hvp_tangent_w"]) == (2 * 5 * 1 + 2 * 3 * 2, 2 * 3 * 1)


# ------------------------------------------------------------------------------------------------ vjp, hvp


def test_vjp_is_the_transposed_jacobian(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    pulled = vjp(graph, ["x", "w"])
    verify(pulled)
    assert names_of(pulled)[0][4:] == ["ct_loss", "ct_p"]
    cts = {"ct_loss": np.array(0.7), "ct_p": rng.normal(size=(5, 3))}
    found = outputs_of(pulled, {**arrays, **cts})
    for name in ("x", "w"):
        direction = rng.normal(size=arrays[name].shape)

        def weighted(array: np.ndarray, name: str = name) -> np.ndarray:
            values = outputs_of(graph, {**arrays, name: array})
            return cts["ct_loss"] * values["loss"] + np.sum(cts["ct_p"] * values["p"])

        close(np.sum(found[f"d_{name}"] * direction), difference(weighted, arrays[name], direction))


def test_one_node_under_two_output_names() -> None:
    graph = graph_of(lambda b, x: (emit.square(b, x),) * 2, {"x": ()}, ("a", "b"))
    found = outputs_of(vjp(graph, ["x"]), {"x": np.array(3.0), "ct_a": np.array(1.0), "ct_b": np.array(10.0)})
    assert found["d_x"] == 6 * 11


def test_hvp_is_the_difference_of_gradients(rng: np.random.Generator) -> None:
    graph, arrays = network(), network_arrays(rng)
    product = hvp(graph, ["w", "v"])
    verify(product)
    directions = {"w": rng.normal(size=(4, 3)), "v": rng.normal(size=(3, 3))}
    found = outputs_of(product, {**arrays, **{f"tangent_{k}": d for k, d in directions.items()}})
    first = grad(graph, ["w", "v"])
    step = 1e-6
    up, down = (
        outputs_of(first, {**arrays, **{k: arrays[k] + s * d for k, d in directions.items()}}) for s in (step, -step)
    )
    for name in ("w", "v"):
        close(found[f"hvp_{name}"], (up[f"d_{name}"] - down[f"d_{name}"]) / (2 * step))


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("transform", [grad, value_and_grad, vjp, hvp])
def test_wrong_names(transform: object) -> None:
    graph = graph_of(lambda b, weight, k: total(b, weight), {"weight": (3,), "k": (3,)}, dtypes={"k": BOOL})
    for names, code, words in (
        (["wieght"], "E0502", ("no input or param `wieght`", "`weight`")),
        (["weight", "weight"], "E0502", ("listed twice",)),
        ("weight", "E0502", ('["weight"]',)),
        (["weight", "k"], "E0501", ("`k` (Bool)",)),
    ):
        with pytest.raises(RlxTransformError) as caught:
            transform(graph, names)  # type: ignore[operator]
        text = str(caught.value)
        assert code in text
        for word in words:
            assert word in text


def test_all_integer_inputs_are_named() -> None:
    graph = graph_of(lambda b, i, x, j: total(b, x), {"i": (), "x": (2,), "j": ()}, dtypes={"i": I32, "j": BOOL})
    with pytest.raises(RlxTransformError, match=r"`i` \(I32\), `j` \(Bool\)"):
        grad(graph, ["i", "x", "j"])


@pytest.mark.parametrize("transform", [grad, value_and_grad, hvp])
def test_losses_of_several_elements(transform: object) -> None:
    for shape in ((3,), (N,), (0,)):
        graph = graph_of(lambda b, x: emit.square(b, x), {"x": shape}, ("energy",))
        with pytest.raises(RlxTransformError) as caught:
            transform(graph, ["x"])  # type: ignore[operator]
        text = str(caught.value)
        for word in ("E0503", "`energy`", "mean(energy)", "vjp"):
            assert word in text


def test_integer_losses() -> None:
    graph = graph_of(lambda b, x: emit.cast(b, total(b, x), I32), {"x": (3,)}, ("count",))
    with pytest.raises(RlxTransformError, match="the loss `count` is I32"):
        grad(graph, ["x"])


# ------------------------------------------------------------------------------------------------ size


def test_long_chains_are_linear_and_need_no_recursion() -> None:
    def build(b: Builder, x: Node) -> Node:
        for _ in range(3_000):
            x = b.emit("sin", x)
        return x

    graph = graph_of(build, {"x": ()})
    derived = grad(graph, ["x"])
    assert len(derived.nodes) < 4 * len(graph.nodes)
    value, slope = 0.5, 1.0
    for _ in range(3_000):
        slope *= np.cos(value)
        value = np.sin(value)
    np.testing.assert_allclose(outputs_of(derived, {"x": np.array(0.5)})["d_x"], slope, rtol=1e-9)


def test_many_readers_are_linear() -> None:
    """A value read by many: the number of nodes grows with the number of edges, not of paths."""

    def build(b: Builder, x: Node) -> Node:
        for _ in range(200):
            x = emit.add(b, b.emit("tanh", x), b.emit("sin", x))
        return x

    assert len(grad(graph_of(build, {"x": ()}), ["x"]).nodes) < 5_000


def test_what_the_loss_does_not_need_costs_nothing() -> None:
    def build(b: Builder, x: Node, w: Node) -> tuple[Node, Node]:
        return total(b, x), matmul(b, w, w)

    graph = graph_of(build, {"x": (3,), "w": (3, 3)}, ("loss", "square"))
    assert not any(n.op.name == "dot_general" for n in grad(graph, ["x", "w"]).nodes)
