"""Matrices stored in few bits: the integers, the products that read them, whole functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import load_weights, save_weights

Array = np.ndarray[Any, Any]


def restored(q: Array, scale: Array, bits: int, block: int) -> Array:
    if bits == 4:
        q = np.stack([q & 15, q >> 4], axis=-1).reshape(q.shape[0], -1).astype(np.int32) - 8
    return q.astype(np.float32) * np.repeat(scale, block, axis=1)


@pytest.mark.parametrize(("bits", "levels"), [(8, 127), (4, 7)])
def test_blocks(bits: int, levels: int, rng: np.random.Generator) -> None:
    w = rng.normal(size=(5, 24)).astype(np.float32)
    w[2, :8] = 0
    q, scale = rlx.lowp.quantize_blocks(w, bits, 8)
    assert (q.dtype, q.shape) == ((np.int8, (5, 24)) if bits == 8 else (np.uint8, (5, 12)))
    found = restored(q, scale, bits, 8)
    step = np.abs(w).reshape(5, 3, 8).max(axis=2) / levels
    assert np.all(np.abs(found - w) <= np.repeat(step, 8, axis=1) / 2 * (1 + 1e-4))
    better = restored(*rlx.lowp.quantize_blocks(w, bits, 8, search=True), bits, 8)
    errors = np.sum((better - w) ** 2), np.sum((found - w) ** 2)
    assert errors[0] <= errors[1]
    assert bits == 8 or errors[0] < errors[1]


@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
@pytest.mark.parametrize("bits", [8, 4])
def test_products_read_the_blocks(device: str, bits: int, rng: np.random.Generator) -> None:
    w, x = rng.normal(size=(6, 16)).astype(np.float32), rng.normal(size=(3, 16)).astype(np.float32)
    q, scale = rlx.lowp.quantize_blocks(w, bits, 8)
    model = rlx.loads(
        f"input x: [?n, 16]; input q: [{'I8; 6, 16' if bits == 8 else 'U8; 6, 8'}]; input s: [6, 2]; "
        f"out y = dequant_matmul(x, q, s, bits: {bits}, block: 8);"
    )
    expected = restored(q, scale, bits, 8)
    np.testing.assert_allclose(model.run_on(device, x=x, q=q, s=scale)[0], x @ expected.T, rtol=1e-5, atol=1e-5)
    ct = rng.normal(size=(3, 6)).astype(np.float32)
    _, d_x, d_s = model.vjp(["x", "s"]).run_on(device, x=x, q=q, s=scale, ct_y=ct)
    np.testing.assert_allclose(d_x, ct @ expected, rtol=1e-5, atol=1e-5)
    slope = (ct.T @ x) * restored(q, np.ones_like(scale), bits, 8)
    np.testing.assert_allclose(d_s, slope.reshape(6, 2, 8).sum(axis=2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("axis", [-1, 0])
def test_whole_functions(bits: int, axis: int, rng: np.random.Generator, tmp_path: Path) -> None:
    product = "linear(h, v)" if axis == -1 else "h @ v"
    model = rlx.loads(f"""
        input x: [?n, 16];
        param w: [16, 32] = he_normal();
        param v: [{"8, 32" if axis == -1 else "32, 8"}] = he_normal();
        param b: [8] = 0.5;
        let h = relu(x @ w);
        out y = {product} + b;
    """).init_params(seed=0)
    small = rlx.lowp.quantize_weights(model, bits, 16, match=["v", "b"], axis=axis)
    assert small.param_names() == ["w", "v.q", "v.scale", "b"]
    x = rng.normal(size=(20, 16)).astype(np.float32)
    exact, near = model.run(x=x)[0], small.run(x=x)[0]
    assert 0 < np.linalg.norm(near - exact) / np.linalg.norm(exact) < {8: 0.01, 4: 0.15}[bits]
    for device in ("reference", "opencl"):
        np.testing.assert_allclose(small.run_on(device, x=x)[0], near, rtol=1e-4, atol=1e-4)
    save_weights(small, tmp_path / "small.safetensors")
    unbound = type(small).from_graph(small.graph)
    np.testing.assert_array_equal(load_weights(unbound, tmp_path / "small.safetensors").run(x=x)[0], near)


def test_what_cannot_be_stored_is_refused(rng: np.random.Generator) -> None:
    model = rlx.loads("input x: [?n, 6]; param w: [6, 6] = he_normal(); out y = x @ w;").init_params(seed=0)
    with pytest.raises(rlx.RlxNameError, match="no parameter matches u"):
        rlx.lowp.quantize_weights(model, match="u*")
    with pytest.raises(rlx.RlxShapeError, match="blocks of 4"):
        rlx.lowp.quantize_weights(model, block=4)
    with pytest.raises(rlx.RlxShapeError, match="multiple of 4"):
        rlx.lowp.quantize_blocks(np.ones((2, 6), np.float32), block=4)
    with pytest.raises(rlx.RlxShapeError, match="multiple of 3 and of 2"):
        rlx.lowp.quantize_blocks(np.ones((2, 9), np.float32), 4, 3)
    with pytest.raises(rlx.RlxValueError, match="4 or 8"):
        rlx.lowp.quantize_blocks(np.ones((2, 6), np.float32), 5, 3)
    with pytest.raises(rlx.RlxValueError, match="axis"):
        rlx.lowp.quantize_weights(model, axis=2)
