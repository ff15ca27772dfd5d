"""Transforms of transforms on every device, against differences of an independent NumPy function in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rlxlang as rlx

DEVICES = ("cpu", "opencl", "reference")
Array = np.ndarray

MODEL = """
graph "composed";
input x: [3];
input k: [];
param w: [3, 4];
let h = tanh(x @ w) + exp(-k) * (x @ w);
let y = sum(h ** 3) + sum(cumsum(h, 0) ** 2) + logsumexp(h, 0) + prod(h);
out y;
tap h;
"""
GENERATOR = np.random.default_rng(5)
X, K, W = GENERATOR.normal(size=(5, 3)), GENERATOR.normal(size=5), GENERATOR.normal(size=(3, 4)) / 2
TX, TW = GENERATOR.normal(size=(5, 3)), GENERATOR.normal(size=(3, 4))


def hidden(x: Array, k: float, w: Array) -> Array:
    return np.tanh(x @ w) + np.exp(-k) * (x @ w)


def loss(x: Array, k: float, w: Array) -> float:
    h = hidden(x, k, w)
    return float((h**3).sum() + (np.cumsum(h) ** 2).sum() + np.log(np.exp(h).sum()) + np.prod(h))


def slope(f: Callable[[Array], Array | float], at: Array, step: float = 1e-4) -> Array:
    """The derivative of an array by an array: axes of the result first; fourth-order central differences."""
    at = np.asarray(at, np.float64)
    columns = []
    for k in range(at.size):
        move = np.zeros(at.size)
        move[k] = step
        move = move.reshape(at.shape)
        near = np.asarray(f(at + move)) - np.asarray(f(at - move))
        far = np.asarray(f(at + 2 * move)) - np.asarray(f(at - 2 * move))
        columns.append((8 * near - far) / (12 * step))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(stacked.shape[:-1] + at.shape)


def lanes(f: Callable[[Array, float], Array]) -> Array:
    return np.stack([f(x, k) for x, k in zip(X, K, strict=True)])


def by_x(x: Array, k: float) -> Array:
    return slope(lambda x: loss(x, k, W), x)


def check(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    assert_allclose(got, want, rtol=3e-4, atol=3e-4 * float(np.abs(want).max()))


@pytest.fixture(scope="module")
def model() -> rlx.Func:
    return rlx.loads(MODEL).with_param("w", W)


@pytest.mark.parametrize("device", DEVICES)
def test_vmap_of_second_derivatives(model: rlx.Func, device: str) -> None:
    want = lanes(lambda x, k: slope(lambda x: by_x(x, k), x, 1e-3))
    check(model.hessian(["x"]).vmap(["x", "k"]).run_on(device, x=X, k=K)[0], want)
    (got,) = model.hvp(["x"]).vmap(["x", "k", "tangent_x"]).run_on(device, x=X, k=K, tangent_x=TX)
    check(got, np.einsum("nij,nj->ni", want, TX))
    got = model.grad(["x"]).jvp(["x"]).vmap(["x", "k", "tangent_x"]).run_on(device, x=X, k=K, tangent_x=TX)
    check(got[0], lanes(by_x))
    check(got[1], np.einsum("nij,nj->ni", want, TX))


@pytest.mark.parametrize("device", DEVICES)
def test_vmap_of_grad_and_grad_of_vmap(model: rlx.Func, device: str) -> None:
    want = lanes(lambda x, k: slope(lambda w: loss(x, k, w), W))
    check(model.grad(["w"]).vmap(["x", "k"]).run_on(device, x=X, k=K)[0], want)
    check(model.grad(["w"]).vmap(["x", "k"], batch_size=5).run_on(device, x=X, k=K)[0], want)
    batched = model.vmap(["x", "k"])
    outputs = batched.vjp(["w"]).run_on(device, x=X, k=K, ct_y=np.ones(5))
    check(outputs[-1], want.sum(axis=0))
    by_k = np.diag([float(slope(lambda k, x=x: loss(x, k, W), np.float64(k))) for x, k in zip(X, K, strict=True)])
    for transform in (batched.jacrev, batched.jacfwd):
        check(transform(["k"]).run_on(device, x=X, k=K)[0], by_k)


@pytest.mark.parametrize("device", DEVICES)
def test_vmap_of_jvp_of_vmap(model: rlx.Func, device: str) -> None:
    func = model.vmap(["x"]).jvp(["w"]).vmap(["k"])
    values = func.jit(device).run_dict(x=X, k=K, tangent_w=TW)
    want = np.array([[loss(x, k, W) for x in X] for k in K])
    moved = np.array([[np.sum(slope(lambda w, x=x, k=k: loss(x, k, w), W) * TW) for x in X] for k in K])
    check(values["y"], want)
    check(values["tangent_y"], moved)


@pytest.mark.parametrize("device", DEVICES)
def test_remat_changes_no_gradient(model: rlx.Func, device: str) -> None:
    (got,) = model.remat().grad(["w"]).vmap(["x", "k"]).run_on(device, x=X, k=K)
    check(got, lanes(lambda x, k: slope(lambda w: loss(x, k, w), W)))


@pytest.mark.parametrize("device", DEVICES)
def test_four_derivatives(device: str) -> None:
    func = rlx.loads("input x: []; let y = sin(x) * exp(x); out y;")
    for _ in range(4):
        func = func.grad(["x"])
    assert_allclose(func.run_on(device, x=0.7)[0], -4 * np.sin(0.7) * np.exp(0.7), rtol=1e-5)
