"""Derivatives in two halves: `vjp_fn` and `linearize_fn`."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx

DEVICES = [str(d) for d in rlx.devices()]
X = np.array([[0.5, -1.0, 2.0], [1.0, 0.3, -0.7]], np.float32)
W = np.array([[1.0, 0.5], [-0.5, 2.0], [0.3, -1.0]], np.float32)


@pytest.fixture
def model() -> rlx.Func:
    """Return tanh(x w) and its sum over rows, of a dynamic number of rows."""

    def build(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
        y = (s.input("x", ["?n", 3]) @ s.param("w", [3, 2])).tanh()
        return {"y": y, "total": y.sum(0)}

    return rlx.Func("model", build).with_param("w", W)


def _close(found: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_one_forward_pass_serves_several_cotangents(model: rlx.Func, device: str) -> None:
    outputs, pullback = model.vjp_fn(["x", "w"]).run_on(device, x=X)
    y = np.tanh(X @ W)
    _close(outputs[0], y)
    _close(outputs[1], y.sum(0))
    assert pullback.input_names() == ["ct_y", "ct_total"]
    assert pullback.output_names() == ["d_x", "d_w"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        a, c = rng.normal(size=(2, 2)), rng.normal(size=2)
        back = (a + c) * (1 - y**2)
        d_x, d_w = pullback.run_on(device, ct_y=a, ct_total=c)
        _close(d_x, back @ W.T)
        _close(d_w, X.T @ back)
    assert "tanh" not in {n.op.name for n in pullback.graph.nodes}


@pytest.mark.parametrize("device", DEVICES)
def test_the_linear_half(model: rlx.Func, device: str) -> None:
    outputs, tangent = model.linearize_fn(["x"]).run_on(device, x=X)
    slope = 1 - np.tanh(X @ W) ** 2
    for v in (X, -2 * X, np.ones_like(X)):
        ty, tt = tangent.run_on(device, tangent_x=v)
        _close(ty, slope * (v @ W))
        _close(tt, (slope * (v @ W)).sum(0))
    assert len(outputs) == 2
    assert tangent.output_names() == ["tangent_y", "tangent_total"]
    assert "tanh" not in {n.op.name for n in tangent.graph.nodes}


def test_calls_own_what_they_keep(model: rlx.Func) -> None:
    x = X.copy()
    forward = model.vjp_fn(["x", "w"])
    (y, _), first = forward(x)
    (_, _), second = forward(x=X[:1])
    x[:] = 0
    y[:] = 0  # a caller owns the outputs
    slope = 1 - np.tanh(X @ W) ** 2
    _close(first(ct_y=np.ones((2, 2)), ct_total=np.zeros(2))[1], X.T @ slope)
    _close(second(np.ones((1, 2)), np.zeros(2))[0], slope[:1] @ W.T)
    with pytest.raises(rlx.RlxShapeError):
        second(np.ones((2, 2)), np.zeros(2))
    assert first.traced is second.traced  # one compilation


def test_the_second_half_is_a_function_like_others(model: rlx.Func) -> None:
    _, pullback = model.vjp_fn(["x"])(X)
    slope = 1 - np.tanh(X @ W) ** 2
    rows = pullback.vmap(["ct_total"]).run(ct_y=np.zeros((2, 2)), ct_total=np.eye(2))[0]
    _close(rows, np.stack([(slope * unit) @ W.T for unit in np.eye(2)]))
    hvp = rlx.Func("f", lambda s: (s.input("x", [3]) ** 3.0).sum()).grad(["x"]).linearize_fn(["x"])
    gradient, product = hvp([1, 2, 3])
    _close(gradient, np.array([3, 12, 27]))
    _close(product([1, 1, 0]), np.array([6, 12, 0]))


def test_sizes_that_only_an_input_tells() -> None:
    func = rlx.Func("f", lambda s: s.input("x", ["?n", "?m"]).reshape([-1]).exp())
    _, pullback = func.vjp_fn(["x"])(X)
    _close(pullback(np.ones(6)), np.exp(X))


def test_random_numbers_are_those_of_the_forward_pass() -> None:
    func = rlx.loads("input x: [64]; out y = dropout(x, 0.5) * x;")
    x = np.ones(64, np.float32)
    for seed in (0, 1):
        y, pullback = func.vjp_fn(["x"])(x, seed=seed)
        _close(pullback(np.ones(64)), 2 * y)
    _close(y, func(x, seed=1))


def test_remat_is_computed_again_and_keeps_inputs_alone(model: rlx.Func) -> None:
    _, plain = model.vjp_fn(["x"])(X)
    _, saving = model.remat().vjp_fn(["x"])(X)
    assert sorted(saving.param_names()) == ["w", "x"]
    assert "tanh" in {n.op.name for n in saving.graph.nodes}
    ct = {"ct_y": np.ones((2, 2)), "ct_total": np.ones(2)}
    _close(saving.run(ct)[0], plain.run(ct)[0])


def test_faults(model: rlx.Func) -> None:
    with pytest.raises(rlx.RlxTransformError, match="`z`"):
        model.vjp_fn(["z"])
    with pytest.raises(rlx.RlxTransformError, match='write \\["x"\\]'):
        model.linearize_fn("x")  # type: ignore[arg-type]
    with pytest.raises(rlx.RlxRuntimeError, match="`x`"):
        model.vjp_fn(["x"])()
    integer = rlx.Func("f", lambda s: s.input("i", [3], "I32").cast("F32"))
    with pytest.raises(rlx.RlxTransformError, match="`i`"):
        integer.vjp_fn(["i"])
