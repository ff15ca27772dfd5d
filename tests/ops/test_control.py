"""scan: values, both derivatives, batching, zero steps, dynamic lengths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rlxlang.interp import evaluate
from rlxlang.ir import OPS, Builder, Graph, GraphOutput, declare
from rlxlang.ops import emit
from rlxlang.ops.control import scan
from rlxlang.transforms import grad, hvp, vmap
from rlxlang.types import F64, I32, Dim, TypeProblem


def _cell() -> Graph:
    b = Builder()
    h, n, x, w = b.input("h", F64, (2,)), b.input("n", I32, ()), b.input("x", F64, (2,)), b.input("w", F64, (2, 2))
    new = b.emit("tanh", emit.add(b, emit.dot(b, h, w, ((0,), (0,))), x))
    outputs = [GraphOutput("h", new), GraphOutput("n", emit.shift(b, n, 1)), GraphOutput("e", new)]
    return b.finish("cell", [declare(v) for v in (h, n, x, w)], outputs)


def _loss(length: int | Dim, reverse: bool) -> Graph:
    b = Builder()
    h, x, w = b.input("h", F64, (2,)), b.input("x", F64, (length, 2)), b.input("w", F64, (2, 2))
    (last, _), (stacked,) = scan(b, _cell(), [h, b.constant(np.int32(0))], [x], [w], length, reverse)
    loss = emit.add(b, emit.reduce_sum(b, emit.square(b, stacked), (0, 1)), emit.reduce_sum(b, last, (0,)))
    return b.finish("loss", [declare(v) for v in (h, x, w)], [GraphOutput("loss", loss), GraphOutput("e", stacked)])


def _numpy(h: np.ndarray, x: np.ndarray, w: np.ndarray, reverse: bool) -> tuple[float, np.ndarray]:
    emitted = np.zeros_like(x)
    steps = range(len(x))
    for k in reversed(steps) if reverse else steps:
        h = np.tanh(h @ w + x[k])
        emitted[k] = h
    return float((emitted**2).sum() + h.sum()), emitted


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"h": rng.normal(size=2), "x": rng.normal(size=(5, 2)), "w": rng.normal(size=(2, 2))}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_values_and_gradients(arrays: dict[str, np.ndarray], reverse: bool, dynamic: bool) -> None:
    graph = _loss(Dim.axis("?n") if dynamic else 5, reverse)
    loss, emitted = evaluate(graph, arrays)
    want = _numpy(**arrays, reverse=reverse)
    assert_allclose(loss, want[0])
    assert_allclose(emitted, want[1])
    found = evaluate(grad(graph, ["h", "x", "w"]), arrays)
    for name, gradient in zip(("h", "x", "w"), found, strict=True):
        numeric = np.zeros_like(arrays[name])
        for place in np.ndindex(numeric.shape):
            moved = {k: a.copy() for k, a in arrays.items()}
            moved[name][place] += 1e-6
            up = _numpy(**moved, reverse=reverse)[0]
            moved[name][place] -= 2e-6
            numeric[place] = (up - _numpy(**moved, reverse=reverse)[0]) / 2e-6
        assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)


def test_second_order(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    graph = _loss(5, False)
    way = rng.normal(size=(2, 2))
    found = evaluate(hvp(graph, ["w"]), arrays | {"tangent_w": way})[0]
    up = evaluate(grad(graph, ["w"]), arrays | {"w": arrays["w"] + 1e-6 * way})[0]
    down = evaluate(grad(graph, ["w"]), arrays | {"w": arrays["w"] - 1e-6 * way})[0]
    assert_allclose(found, (up - down) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mix", [m for m in product((False, True), repeat=3) if any(m)])
def test_batching(arrays: dict[str, np.ndarray], mix: tuple[bool, ...], rng: np.random.Generator) -> None:
    graph = grad(_loss(5, False), ["w"])
    axes = {n: int(rng.integers(0, arrays[n].ndim + 1)) for n, on in zip(arrays, mix, strict=True) if on}
    lanes = {n: [arrays[n], arrays[n] + 0.1, arrays[n] * 2] for n in axes}
    stacked = arrays | {n: np.stack(lanes[n], k) for n, k in axes.items()}
    found = evaluate(vmap(graph, axes, 3), stacked)[0]
    want = [evaluate(graph, arrays | {n: lanes[n][k] for n in axes})[0] for k in range(3)]
    assert_allclose(found, np.stack(want), rtol=1e-9, atol=1e-12)


def test_zero_steps(arrays: dict[str, np.ndarray]) -> None:
    graph = _loss(Dim.axis("?n"), False)
    empty = arrays | {"x": np.zeros((0, 2))}
    loss, emitted = evaluate(graph, empty)
    assert_allclose(loss, arrays["h"].sum())
    assert emitted.shape == (0, 2)
    gradients = evaluate(grad(graph, ["h", "w"]), empty)
    assert_array_equal(gradients[0], np.ones(2))
    assert_array_equal(gradients[1], np.zeros((2, 2)))


def test_a_carry_keeps_its_type() -> None:
    b = Builder()
    h = b.input("h", F64, (2,))
    body = b.finish("body", [declare(h)], [GraphOutput("h", emit.reshape(b, h, (2, 1)))])
    outer = Builder()
    with pytest.raises(TypeProblem) as caught:
        scan(outer, body, [outer.input("x", F64, (2,))], [], [], 3)
    assert caught.value.code == "E0603"


def test_sources_agree_in_length() -> None:
    sample = OPS["scan"].samples(np.random.default_rng(0))[0]
    b = Builder()
    nodes = [b.input(f"x{k}", F64, a.shape) for k, a in enumerate(sample.args)]
    with pytest.raises(TypeProblem) as caught:
        b.emit("scan", *nodes, **{**sample.attrs, "length": 3})
    assert caught.value.code == "E0401"
