"""Products with operands of few bits, matrices made of codebook entries, and learned splines, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlxlang as rlx

Array = np.ndarray[Any, Any]
DEVICES = ("reference", "cpu", "opencl")
device = pytest.mark.parametrize("device", DEVICES)


@device
def test_scaled_products(device: str, rng: np.random.Generator) -> None:
    a, b = rng.integers(-128, 128, (2, 5, 300)).astype(np.int8), rng.integers(-128, 128, (300, 4)).astype(np.int8)
    rows, columns = rng.uniform(0.5, 2, (2, 5)).astype(np.float32), rng.uniform(0.5, 2, 4).astype(np.float32)
    model = rlx.loads("""
        input a: [I8; ?n, 5, 300]; input b: [I8; 300, 4]; input r: [?n, 5]; input c: [4];
        out y = scaled_matmul(a, b, r, c);
        out z = scaled_matmul(a, b);
        out h = scaled_matmul(cast(a, BF16), cast(b, BF16), 0.5);
    """)
    y, z, h = model.run_on(device, a=a, b=b, r=rows, c=columns)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert {v.dtype for v in (y, z, h)} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(z, exact.astype(np.float32))
    np.testing.assert_allclose(y, exact * rows[..., None] * columns, rtol=1e-6)
    np.testing.assert_allclose(h, exact * 0.5, rtol=1e-4, atol=1.0)


@device
def test_matrices_made_of_a_codebook(device: str, rng: np.random.Generator) -> None:
    codebook, indices = rng.normal(size=(7, 3)).astype(np.float32), rng.integers(-7, 7, (4, 5)).astype(np.int32)
    x, ct = rng.normal(size=(2, 15)).astype(np.float32), rng.normal(size=(2, 4)).astype(np.float32)
    model = rlx.loads("""
        input x: [?n, 15]; input i: [I32; 4, 5]; input c: [7, 3];
        out y = synth_matmul(x, i, c, entry_dim: 3, num_entries: 7);
        tap w = synth_reconstruct(i, c);
    """)
    w = codebook[indices].reshape(4, 15)
    y, found = model.run_on(device, x=x, i=indices, c=codebook)
    np.testing.assert_array_equal(found, w)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5, atol=1e-5)
    _, _, d_x, d_c = model.vjp(["x", "c"]).run_on(device, x=x, i=indices, c=codebook, ct_y=ct)
    np.testing.assert_allclose(d_x, ct @ w, rtol=1e-5, atol=1e-5)
    expected = np.zeros_like(codebook)
    np.add.at(expected, indices % 7, (ct.T @ x).reshape(4, 5, 3))
    np.testing.assert_allclose(d_c, expected, rtol=1e-4, atol=1e-5)


@device
def test_splines(device: str, rng: np.random.Generator) -> None:
    low, high, knots = -2.0, 1.0, 7
    places = np.linspace(low, high, knots)
    values = rng.normal(size=(3, knots)).astype(np.float32)
    x = np.concatenate([rng.uniform(-4, 3, (6, 3)), [[-2.0, 1.0, -0.5]]]).astype(np.float32)
    model = rlx.loads(f"""
        input x: [?n, 3]; input v: [3, {knots}]; input w: [{knots}];
        out y = spline_activation(x, v, low: {low}, high: {high});
        out z = spline_activation(x, w, {low}, {high});
        out s = spline_activation(x[0, 0], w, {low}, {high});
    """)

    def spline(x: float, v: Array) -> float:
        if x < low:
            return float(v[0] + (x - low) * (v[1] - v[0]) / (places[1] - places[0]))
        if x > high:
            return float(v[-1] + (x - high) * (v[-1] - v[-2]) / (places[1] - places[0]))
        return float(np.interp(x, places, v))

    y, z, s = model.run_on(device, x=x, v=values, w=values[1])
    np.testing.assert_allclose(
        y, [[spline(t, values[c]) for c, t in enumerate(row)] for row in x], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(z, [[spline(t, values[1]) for t in row] for row in x], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(s, z[0, 0], rtol=1e-6)
    # At a knot the derivative is that of the piece to its right; beyond both ends that of the last pieces.
    at = np.float32([[-9.0, -2.0, -0.5], [9.0, 1.0, 0.99]])
    slopes = np.diff(values, axis=1) / (places[1] - places[0])
    _, _, _, d_x, d_v = model.vjp(["x", "v"]).run_on(
        device, x=at, v=values, w=values[1], ct_y=np.ones((2, 3)), ct_z=np.zeros((2, 3)), ct_s=0.0
    )
    expected = [[slopes[0, 0], slopes[1, 0], slopes[2, 3]], [slopes[0, 5], slopes[1, 5], slopes[2, 5]]]
    np.testing.assert_allclose(d_x, expected, rtol=1e-4, atol=1e-5)
    # The spline is linear in its values: each derivative is the spline of a unit vector.
    units = [[sum(spline(row[c], unit) for row in at) for unit in np.eye(knots)] for c in range(3)]
    np.testing.assert_allclose(d_v, units, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("dequant_matmul(x, q, 0.5, bits: 4)", "E0301", "from U8, and I8"),
        ("dequant_matmul(x, q, 0.5, bits: 5)", "E0350", "4 or 8"),
        ("dequant_matmul(x, q, s, block: 3)", "E0401", "blocks"),
        ("dequant_matmul(x, x, 0.5)", "E0301", "from I8 or U8"),
        ("synth_matmul(x, q, s, num_entries: 9)", "E0401", "num_entries"),
        ("synth_matmul(x, s, q)", "E0402", ""),
        ("spline_activation(x, 1.0)", "E0404", "values"),
        ("spline_activation(x, s, low: 1.0, high: 1.0)", "E0350", "low"),
        ("spline_activation(x, s)", "E0401", "channels"),
        ("scaled_matmul(x, sum(s))", "E0404", "matrices"),
    ],
)
def test_errors(call: str, code: str, message: str) -> None:
    text = f"input x: [?n, 8]; input q: [I8; 3, 8]; input s: [3, 2]; out y = {call};"
    found = [d for d in rlx.check(text) if d.is_error]
    assert [d.code for d in found] == [code]
    assert message in found[0].message


@device
def test_products_of_a_precision(device: str, rng: np.random.Generator) -> None:
    """Operands rounded to BF16, products summed in F32; the gradient is that of the rounded operands, unrounded itself."""
    x, w = rng.normal(size=(5, 40)).astype(np.float32), rng.normal(size=(3, 40)).astype(np.float32)
    x[0, 0] = np.inf
    model = rlx.loads("""
        input x: [?n, 40]; input w: [3, 40];
        out y = linear(x, w, precision: "bf16");
        out z = matmul(x, w.t(), precision: "bf16");
        out h = matmul_t(x, w, precision: "high");
        out d = tensordot(x, w.t(), 1, precision: "bf16");
        out e = einsum("nk,mk->nm", x, w, precision: "bf16");
    """)
    near = [v.astype(ml_dtypes.bfloat16).astype(np.float32) for v in (x, w)]
    y, z, h, d, e = model.run_on(device, x=x, w=w)
    for found in (y, z, d, e):
        np.testing.assert_allclose(found, near[0] @ near[1].T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(h, x @ w.T, rtol=1e-4, atol=1e-5)
    assert np.isinf(y[0]).all()
    ct = rng.normal(size=(5, 3)).astype(np.float32)
    zeros = {f"ct_{n}": np.zeros((5, 3)) for n in ("z", "h", "d", "e")}
    d_x = model.vjp(["x"]).run_on(device, x=x, w=w, ct_y=ct, **zeros)[-1]
    np.testing.assert_allclose(d_x[1:], (ct @ near[1])[1:], rtol=1e-4, atol=1e-5)


def test_a_precision_that_is_none() -> None:
    (error,) = rlx.check('input x: [2, 2]; out y = matmul(x, x, precision: "low");')
    assert error.code == "E0350"
    assert '"bf16"' in error.message
