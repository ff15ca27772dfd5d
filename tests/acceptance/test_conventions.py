"""Derivative conventions, from a text to numbers: on every device, in reverse and in forward mode."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rlxlang as rlx

DEVICES = ("cpu", "opencl", "reference")
NAN, INF = np.nan, np.inf


# name -> expression of x, values of x, gradient of its sum. Every gradient was worked out by hand.
CASES: dict[str, tuple[str, list[float], list[float]]] = {
    "relu at 0": ("relu(x)", [-1, 0, 2], [0, 0, 1]),
    "abs at 0": ("abs(x)", [-3, 0, 3], [-1, 0, 1]),
    "ties of maximum": ("maximum(x, 1.0)", [0, 1, 2], [0, 0.5, 1]),
    "ties of minimum": ("minimum(x, 1.0)", [0, 1, 2], [1, 0.5, 0]),
    "ties with itself": ("maximum(x, x)", [4], [1]),
    "ties of max": ("max(x)", [1, 3, 3, 3], [0, 1 / 3, 1 / 3, 1 / 3]),
    "ties of min": ("min(x)", [2, 2], [0.5, 0.5]),
    "clamp at its bounds": ("clamp(x, -1.0, 1.0)", [-2, -1, 0, 1, 2], [0, 1, 1, 1, 0]),
    "sqrt behind a zero": ("sqrt(x) * 0.0", [0, 4], [0, 0]),
    "log behind a zero": ("log(x) * 0.0", [0, 4], [0, 0]),
    "norm at 0": ("norm(x)", [0, 0], [0, 0]),
    "norm": ("norm(x)", [3, 4], [0.6, 0.8]),
    "std of equals": ("std(x)", [2, 2, 2], [0, 0, 0]),
    "square": ("x ** 2", [-3, 0, 2], [-6, 0, 4]),
    "cube": ("x ** 3", [-2, 0, 2], [12, 0, 12]),
    "power by a float": ("x ** 2.0", [-3, 0], [-6, 0]),
    "prod with one zero": ("prod(x)", [2, 0, 3], [0, 6, 0]),
    "prod with two zeros": ("prod(x)", [0, 5, 0], [0, 0, 0]),
    "cumprod with a zero": ("cumprod(x, 0)", [2, 0, 3], [1, 2 + 6, 0]),
    "cummax": ("cummax(x, 0)", [1, 3, 2, 3, 5], [1, 3, 0, 0, 1]),
    "nan not taken": ("where(x > 0.0, log(x), 0.0)", [-1, 0, 2], [0, 0, 0.5]),
    "inf not taken": ("where(x == 0.0, 0.0, 1.0 / x)", [0, 2], [0, -0.25]),
    "softplus at 0": ("softplus(x)", [0, 1e4, -1e4], [0.5, 1, 0]),
    "softmax of a masked row": ("softmax(x) * 2.0", [-INF, -INF], [0, 0]),
    "logsumexp of a masked row": ("logsumexp(x, 0)", [-INF, -INF], [0, 0]),
    "gather of duplicates": ("x[[0, 0, 1]] * 3.0", [1, 2], [6, 3]),
    "through integers": ("cast(cast(x, DType::I32), DType::F32)", [1.5, 2], [0, 0]),
    "round": ("round(x)", [0.3, 0.7], [1, 1]),
    "floor": ("floor(x)", [0.3, 0.7], [0, 0]),
    "remainder": ("x % 2.0", [-3.5, 3.5], [1, 1]),
    "remainder by x": ("7.0 % x", [2, -2], [-3, 4]),
    "sign": ("sign(x)", [-1, 0, 1], [0, 0, 0]),
    "stop_gradient": ("stop_gradient(x) * x", [3], [3]),
    "relu6": ("relu6(x)", [0, 3, 6], [0, 1, 0]),
    "leaky_relu at 0": ("leaky_relu(x, 0.25)", [-1, 0, 1], [0.25, 0.25, 1]),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, device: str) -> None:
    expression, at, want = CASES[name]
    model = rlx.loads(f"input x: [?n]; let y = {expression}; out loss = sum(y);")
    x = np.array(at, np.float32)
    (got,) = model.grad(["x"]).run_on(device, x=x)
    assert_allclose(got, np.array(want, np.float32), rtol=2e-6, atol=1e-7)
    if name.endswith("behind a zero"):  # forward: the infinite slope comes first, and then meets the zero
        return
    # Forward mode along each axis gives the same numbers.
    forward = model.jvp(["x"]).jit(device)
    for k, value in enumerate(want):
        direction = np.zeros_like(x)
        direction[k] = 1
        assert_allclose(forward.run(x=x, tangent_x=direction)[1], np.float32(value), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_stable_losses(device: str) -> None:
    hard = rlx.loads("input z: [?n, 2]; input y: [I32; ?n]; out loss = mean(softmax_cross_entropy(z, y));")
    run = hard.value_and_grad(["z"]).jit(device)
    loss, slope = run.run(z=np.float32([[1e4, -1e4], [0, 0]]), y=np.int32([1, 0]))
    assert_allclose(loss, (2e4 + np.log(2)) / 2, rtol=1e-6)
    assert_allclose(slope, np.float32([[0.5, -0.5], [-0.25, 0.25]]), rtol=1e-6)

    soft = rlx.loads("input z: [?n]; input y: [?n]; out loss = bce_with_logits(z, y);")
    loss, slope = soft.value_and_grad(["z"]).run_on(device, z=np.float32([0, 1e4, -1e4]), y=np.float32([0, 1, 1]))
    assert_allclose(loss, (np.log(2) + 1e4) / 3, rtol=1e-6)  # the op takes the mean
    assert_allclose(slope, np.float32([0.5, 0, -1]) / 3, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_a_masked_attention_row(device: str) -> None:
    model = rlx.loads("""
        input q: [1, 2, 4]; input k: [1, 3, 4]; input v: [1, 3, 4]; input mask: [2, 3];
        let y = q.attention_masked(k, v, mask, 1, 4);
        out loss = sum(y * y);
        tap y;
    """)
    generator = np.random.default_rng(0)
    q, k, v = (generator.normal(size=(1, n, 4)).astype(np.float32) for n in (2, 3, 3))
    mask = np.array([[0, 0, 0], [-INF, -INF, -INF]], np.float32)
    y = model.run_on(device, q=q, k=k, v=v, mask=mask)[1]
    assert_array_equal(y[0, 1], np.zeros(4))
    for slope in model.grad(["q", "k", "v"]).run_on(device, q=q, k=k, v=v, mask=mask):
        assert np.isfinite(slope).all()
    slope = model.grad(["q"]).run_on(device, q=q, k=k, v=v, mask=mask)[0]
    assert_array_equal(slope[0, 1], np.zeros(4))


@pytest.mark.parametrize("device", DEVICES)
def test_infinities_and_nan_are_values(device: str) -> None:
    func = rlx.loads("input x: [?n]; out a = max(x); out b = argmax(x); out c = softmax(x); out d = mean(x);")
    a, b, c, d = func.run_on(device, x=np.float32([1, NAN, 3, NAN]))
    assert np.isnan(a)
    assert b == 1
    assert np.isnan(c).all()
    assert np.isnan(d)


@pytest.mark.parametrize("device", DEVICES)
def test_no_rows(device: str) -> None:
    func = rlx.loads("""
        input x: [?n, 3];
        param w: [3, 2] = ones();
        let h = relu(x @ w);
        out loss = sum(h);
        out h; out rows = sum(h, 1); out columns = sum(h, 0); out p = softmax(h); out m = mean(h);
    """).init_params(seed=0)
    loss, h, rows, columns, p, m = func.run_on(device, x=np.zeros((0, 3), np.float32))
    assert loss == 0
    assert np.isnan(m)
    assert (h.shape, rows.shape, p.shape) == ((0, 2), (0,), (0, 2))
    assert_array_equal(columns, np.zeros(2))
    (slope,) = func.grad(["w"]).run_on(device, x=np.zeros((0, 3), np.float32))
    assert_array_equal(slope, np.zeros((3, 2)))
