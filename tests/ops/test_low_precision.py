"""Quantisation inside graphs: the numbers of `rlx.lowp` on every device, and gradients that pass the rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlxlang as rlx

Array = np.ndarray[Any, Any]
DEVICES = ("reference", "cpu", "opencl")


def run(text: str, device: str, **arrays: Any) -> list[Array]:
    return rlx.loads(text).run_on(device, **arrays)


SPECIAL = np.float32(
    [0.0, -0.0, np.nan, np.inf, -np.inf, 0.25, -0.75, 2.5, 3.5, 5.0, 448, 460, -1e9, 2.0**-9, 3 * 2.0**-11, 1e-40, 3e38]
)


@pytest.mark.parametrize("device", DEVICES)
def test_devices_round_as_arrays_are_rounded(device: str, rng: np.random.Generator) -> None:
    """Bit for bit, in sizes that are no multiples of vectors and blocks."""
    x = np.concatenate([SPECIAL, rng.normal(size=84).astype(np.float32)])
    text = 'input x: [?n]; out a = to_format(x, "e4m3"); out b = to_format(x, "nvf4"); out c = to_format(x, "bf16");'
    for got, name in zip(run(text, device, x=x), ("e4m3", "nvf4", "bf16"), strict=True):
        np.testing.assert_array_equal(got, rlx.lowp.quantize(x, name))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(rlx.lowp.quantize(x, name)))
    y = (rng.normal(size=(5, 37)) * 3).astype(np.float32)
    text = 'input y: [?n, ?m]; out a = mx(y, "e5m2", block: 8); out b = mx(y, "nvf4", axis: 0, block: 2); out c = nvfp4(y, group: 8);'
    first, second, third = run(text, device, y=y)
    np.testing.assert_array_equal(first, rlx.lowp.mx("e5m2", 8)(y))
    np.testing.assert_array_equal(second, rlx.lowp.mx("nvf4", 2).quantize(y, axis=0))
    np.testing.assert_allclose(third, rlx.lowp.nvfp4(8)(y), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1)])
def test_blocks_of_nothing(device: str, shape: tuple[int, int]) -> None:
    text = "input y: [?n, ?m]; out a = mx(y); out b = nvfp4(y); out c = fake_quantize(y); out d = fake_quantize(y, axis: 0, bits: 4);"
    x = np.ones(shape, np.float32)
    for got in run(text, device, y=x):
        np.testing.assert_allclose(got, x, rtol=1e-6)


def test_lanes_of_a_batch_have_scales_of_their_own(rng: np.random.Generator) -> None:
    func = rlx.loads("input x: [6, 5]; out a = nvfp4(x, axis: 0, group: 4); out b = fake_quantize(x, bits: 5);").vmap(
        ["x"], in_axes=1
    )
    x = (rng.normal(size=(6, 3, 5)) * [[[1e-3], [1.0], [50.0]]]).astype(np.float32)
    first, second = func.run(x=x)
    for lane in range(3):
        np.testing.assert_allclose(first[lane], rlx.lowp.nvfp4(4).quantize(x[:, lane], axis=0), rtol=1e-6)
        step = np.abs(x[:, lane]).max() / np.float32(15)
        np.testing.assert_allclose(second[lane], np.rint(x[:, lane] / step) * step, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_pass_the_rounding(device: str) -> None:
    x = np.float32([0.3, -5.0, 7.0, 6.0, -6.5])
    inside = np.abs(x) <= 6
    expected = {"identity": np.ones(5), "clipped": inside, "tanh": 1 - np.tanh(x / 6) ** 2}
    for how, slope in expected.items():
        func = rlx.loads(
            f'const k = [1.0, 2.0, 3.0, 4.0, 5.0]; input x: [5]; out loss = sum(to_format(x, "nvf4", ste: "{how}") * k);'
        )
        np.testing.assert_allclose(func.grad(["x"]).run_on(device, x=x)[0], slope * np.arange(1, 6), rtol=1e-6)
        along = func.jvp(["x"]).run_on(device, x=x, tangent_x=np.ones(5))[1]
        np.testing.assert_allclose(along, np.sum(slope * np.arange(1, 6)), rtol=1e-6)
    for call in (
        "mx(x, block: 2)",
        "nvfp4(x, group: 2)",
        "fake_quantize(x, bits: 3)",
        'fake_quantize(x, scale_mode: "minmax")',
    ):
        func = rlx.loads(f"const k = [1.0, 2.0, 3.0, 4.0, 5.0]; input x: [5]; out loss = sum({call} * k);")
        np.testing.assert_allclose(func.grad(["x"]).run_on(device, x=x)[0], np.arange(1, 6), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_integers_and_back(device: str, rng: np.random.Generator) -> None:
    x = (rng.normal(size=(3, 7)) * 4).astype(np.float32)
    scale, zero = np.float32([0.1, 0.5, 0.02]), np.int32([0, -3, 100])
    text = """
    input x: [?n, 7]; input s: [?n]; input z: [I32; ?n];
    out q = quantize(x, s, z, axis: 0);
    out u = quantize(x, 0.5, 128, signed: false);
    out w = quantize(x, 0.001, bits: 12);
    out back = dequantize(q, s, z, axis: 0);
    """
    q, u, w, back = run(text, device, x=x, s=scale, z=zero)
    expected = np.clip(np.rint(x / scale[:, None]) + zero[:, None], -128, 127)
    assert (q.dtype, u.dtype, w.dtype) == (np.int8, np.uint8, np.int16)
    np.testing.assert_array_equal(q, expected)
    np.testing.assert_array_equal(u, np.clip(np.rint(x / np.float32(0.5)) + 128, 0, 255))
    np.testing.assert_array_equal(w, np.clip(np.rint(x / np.float32(0.001)), -2048, 2047))
    np.testing.assert_allclose(back, (expected - zero[:, None]) * scale[:, None], rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_fake_quantisation_by_definition(device: str, rng: np.random.Generator) -> None:
    x = (rng.normal(size=(4, 9)) + 1).astype(np.float32)
    text = """
    input x: [?n, 9];
    out whole = fake_quantize(x);
    out rows = fake_quantize(x, bits: 4, axis: 0);
    out affine = fake_quantize(x, bits: 4, scale_mode: "minmax");
    out fixed = fake_quantize(x, bits: 3, scale: 0.25);
    """
    whole, rows, affine, fixed = run(text, device, x=x)
    step = np.abs(x).max() / np.float32(127)
    np.testing.assert_allclose(whole, np.rint(x / step) * step, rtol=1e-6)
    step = np.abs(x).max(axis=1, keepdims=True) / np.float32(7)
    np.testing.assert_allclose(rows, np.rint(x / step) * step, rtol=1e-6)
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = np.float32((high - low) / 15)
    zero = np.rint(-low / step)
    np.testing.assert_allclose(affine, (np.clip(np.rint(x / step + zero), 0, 15) - zero) * step, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fixed, np.clip(np.rint(x * 4), -3, 3) / 4)


@pytest.mark.parametrize("device", DEVICES)
def test_the_learned_step_has_the_gradient_of_its_paper(device: str, rng: np.random.Generator) -> None:
    """Esser et al. 2020, equations 2, 3 and 5, and the scale of section 2.2."""
    x, g = rng.normal(size=40).astype(np.float32) * 3, rng.normal(size=40).astype(np.float32)
    step = np.float32(0.4)
    func = rlx.loads("input x: [?n]; input g: [?n]; param s: []; out loss = sum(fake_quantize_lsq(x, s, bits: 4) * g);")
    loss, d_x, d_s = func.with_param("s", step).value_and_grad(["x", "s"]).run_on(device, x=x, g=g)
    v = x / step
    inside = (v >= -8) & (v <= 7)
    rounded = np.clip(np.rint(v), -8, 7)
    slope = np.where(inside, rounded - v, rounded)
    np.testing.assert_allclose(loss, np.sum(rounded * step * g), rtol=1e-4)
    np.testing.assert_allclose(d_x, g * inside, rtol=1e-5)
    np.testing.assert_allclose(d_s, np.sum(slope * g) / np.sqrt(40 * 7), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
@pytest.mark.parametrize("device", DEVICES)
def test_other_dtypes(dtype: str, device: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 8)) * 4
    func = rlx.loads(
        f'input x: [3, 8]; let h = cast(x, {dtype}); out a = cast(to_format(h, "nvf4"), F64); '
        f'out b = cast(mx(h, "e4m3", block: 4), F64); out c = to_format(h, "e4m3"); out h64 = cast(h, F64);'
    )
    a, b, c, h = func.run_on(device, x=x)
    assert c.dtype.name == {"F16": "float16", "BF16": "bfloat16", "F64": "float64"}[dtype]
    np.testing.assert_array_equal(a, rlx.lowp.quantize(h, "nvf4"))
    np.testing.assert_array_equal(b, rlx.lowp.mx("e4m3", 4)(h))


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ('to_format(x, "e4m4")', "E0350", 'no format "e4m4"'),
        ("to_format(x, 8)", "E0306", "name of a format"),
        ('to_format(x, "f20m8e11")', "E0350", "F32 lacks"),
        ('to_format(x, "e4m3", ste: "none")', "E0350", "ste"),
        ("mx(x, block: 0)", "E0350", "block"),
        ("mx(x, axis: 2)", "E0403", "axis 2"),
        ("nvfp4(sum(x))", "E0403", "axis -1"),
        ("fake_quantize(x, bits: 1)", "E0350", "2 … 16"),
        ('fake_quantize(x, scale_mode: "mean")', "E0350", "absmax"),
        ("fake_quantize_lsq(x, two)", "E0404", "scalar"),
        ("quantize(x, x, axis: 0)", "E0404", "vector"),
        ("dequantize(x, 0.5)", "E0301", "dequantize"),
        ("quantize(x, three, axis: 0)", "E0401", ""),
        ("to_format(cast(x, I32) < 1, \"e4m3\")", "", ""),
    ],
)  # fmt: skip
def test_errors(call: str, code: str, message: str) -> None:
    found = [
        d
        for d in rlx.check(f"const two = [1.0, 2.0]; const three = [1.0, 2.0, 3.0]; input x: [2, 4]; out y = {call};")
        if d.is_error
    ]
    if not code:
        assert not found
        return
    assert [d.code for d in found] == [code]
    assert message in found[0].message
