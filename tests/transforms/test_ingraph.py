"""Derivatives among nodes of one builder: totals, zeros, composites, several results, leaves, errors, depth."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.diagnostics import RlxTransformError
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.transforms import gradients, jvp, vmap
from rlxlang.types import F64, I32

X, W = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.3, -0.7])


def _run(b: Builder, inputs: list[Node], results: list[Node], *arrays: np.ndarray) -> list[np.ndarray]:
    graph = b.finish("g", map(declare, inputs), [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])
    return evaluate(graph, {i.attrs["name"]: a for i, a in zip(inputs, arrays, strict=True)})


def _vectors(b: Builder) -> tuple[Node, Node]:
    return b.input("x", F64, (3,)), b.input("w", F64, (3,))


def test_derivatives_are_total() -> None:
    b = Builder()
    x, w = _vectors(b)
    k = emit.mul(b, x, w)
    y = emit.reduce_sum(b, emit.mul(b, k, emit.add(b, k, w)), (0,))  # x²w² + x w²
    dk, dw, dx = gradients(b, y, [k, w, x])
    found = _run(b, [x, w], [dk, dw, dx], X, W)
    for value, want in zip(found, [2 * X * W + W, 2 * X**2 * W + 2 * X * W, 2 * X * W**2 + W**2], strict=True):
        np.testing.assert_allclose(value, want)


def test_the_value_itself_and_what_has_no_influence() -> None:
    b = Builder()
    x, w = _vectors(b)
    y = emit.reduce_sum(b, x, (0,))
    found = _run(b, [x, w], gradients(b, y, [y, w]), X, W)
    assert found[0] == 1
    assert found[1].tolist() == [0, 0, 0]


def test_composites_are_pulled_back_through_their_parts() -> None:
    b = Builder()
    x, w = _vectors(b)
    soft = b.emit("softmax", x, axis=0)
    (dx,) = gradients(b, emit.reduce_sum(b, emit.mul(b, soft, w), (0,)), [x])
    p = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(_run(b, [x, w], [dx], X, W)[0], p * (W - (p * W).sum()))


def test_third_order() -> None:
    b = Builder()
    x, w = _vectors(b)
    y = emit.reduce_sum(b, b.emit("sin", emit.mul(b, x, w)), (0,))
    for _ in range(3):
        (d,) = gradients(b, y, [x])
        y = emit.reduce_sum(b, d, (0,))
    np.testing.assert_allclose(_run(b, [x, w], [d], X, W)[0], -(W**3) * np.cos(X * W))


def test_older_nodes_are_leaves() -> None:
    b = Builder()
    x, w = _vectors(b)
    k = emit.mul(b, x, w)
    since = b.input("mark", F64, ()).serial
    y = emit.reduce_sum(b, emit.mul(b, k, w), (0,))
    dw, dk, dx = gradients(b, y, [w, k, x], since)
    found = _run(b, [x, w], [dw, dk, dx], X, W)
    np.testing.assert_allclose(found[0], X * W)
    np.testing.assert_allclose(found[1], W)
    assert found[2].tolist() == [0, 0, 0]


def test_a_long_chain_does_not_recurse() -> None:
    b = Builder()
    x, w = _vectors(b)
    h = x
    for _ in range(5000):
        h = b.emit("sin", h)
    (dx,) = gradients(b, emit.reduce_sum(b, h, (0,)), [x])
    assert np.all(np.isfinite(_run(b, [x, w], [dx], X, W)[0]))


def test_further_transforms() -> None:
    b = Builder()
    x, w = _vectors(b)
    (dx,) = gradients(b, emit.reduce_sum(b, emit.mul(b, emit.square(b, x), w), (0,)), [x])
    graph = b.finish("g", [declare(x), declare(w)], [GraphOutput("dx", dx)])
    lanes = np.stack([X, 2 * X])
    np.testing.assert_allclose(evaluate(vmap(graph, {"x": 0}, 2), {"x": lanes, "w": W})[0], 2 * lanes * W)
    pushed = evaluate(jvp(graph, ["x"]), {"x": X, "w": W, "tangent_x": W})
    np.testing.assert_allclose(pushed[1], 2 * W * W)


@pytest.mark.parametrize(("case", "code"), [("shape", "E0503"), ("int", "E0501"), ("wrt", "E0501")])
def test_errors(case: str, code: str) -> None:
    b = Builder()
    x, n = b.input("x", F64, (3,)), b.input("n", I32, ())
    y = x if case == "shape" else n if case == "int" else emit.reduce_sum(b, x, (0,))
    with pytest.raises(RlxTransformError) as caught:
        gradients(b, y, [n if case == "wrt" else x])
    assert caught.value.diagnostics[0].code == code
