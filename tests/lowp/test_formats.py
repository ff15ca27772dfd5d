"""Formats of few bits in NumPy, against ml_dtypes, against all numbers of a format, and against their definitions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.types import FloatFormat

Array = np.ndarray[Any, Any]


def patterns(rng: np.random.Generator, count: int = 40_000) -> Array:
    """Random bits, numbers around 1, ties and special values."""
    bits = rng.integers(0, 2**32, count, np.uint32, endpoint=False).view(np.float32)
    small = rng.normal(size=count).astype(np.float32) * np.float32(2.0) ** rng.integers(-12, 12, count).astype(
        np.float32
    )
    ties = rng.integers(-(2**7), 2**7, count).astype(np.float32) * np.float32(2.0) ** rng.integers(-20, 12, count)
    special = np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 448, 464, 480, 6, 7, 65504, 65520, 1e-45, 3e38])
    return np.concatenate([bits, small, ties.astype(np.float32), special])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("nvf4", ml_dtypes.float4_e2m1fn),
        ("f6e3m2", ml_dtypes.float6_e3m2fn),
        ("f6e2m3", ml_dtypes.float6_e2m3fn),
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
    ],
)
def test_formats_that_other_libraries_have(name: str, dtype: Any, rng: np.random.Generator) -> None:
    x = patterns(rng)
    fmt = rlx.lowp.parse_format(name)
    limited = np.clip(x, np.float32(-fmt.max), np.float32(fmt.max))
    numbers = limited[~np.isnan(x)]
    expected = numbers.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(rlx.lowp.quantize(x, name)[~np.isnan(x)], expected)
    assert np.isnan(rlx.lowp.quantize(x, name)[np.isnan(x)]).all()


def numbers_of(fmt: FloatFormat) -> list[tuple[Fraction, int]]:
    """All numbers of a format from 0 on, each with its place, which is even where its significand is."""
    found = [Fraction(k) * Fraction(2) ** (fmt.min_exponent - fmt.mantissa_bits) for k in range(2**fmt.mantissa_bits)]
    for exponent in itertools.count(fmt.min_exponent):
        spacing = Fraction(2) ** (exponent - fmt.mantissa_bits)
        row = [spacing * (2**fmt.mantissa_bits + k) for k in range(2**fmt.mantissa_bits)]
        found += [number for number in row if number <= Fraction(fmt.max)]
        if row[-1] >= Fraction(fmt.max):
            return [(number, place) for place, number in enumerate(found)]
    raise AssertionError


@pytest.mark.parametrize("spec", ["f4m1e2", "f5m2e2", "f6m2e3", "f7m4e2", "f8m3e4", "f9m5e3", "nvf4", "e4m3", "f6e2m3"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_nearest_number(spec: str, dtype: Any, rng: np.random.Generator) -> None:
    """Every number, every tie between two, and what is a little beside it."""
    fmt = rlx.lowp.parse_format(spec)
    table = numbers_of(fmt)
    middle = [(a + b) / 2 for (a, _), (b, _) in itertools.pairwise(table)]
    exact = np.array([float(v) for v, _ in table] + [float(m) for m in middle], np.float64).astype(dtype)
    x = np.concatenate([exact, np.nextafter(exact, dtype(0)), np.nextafter(exact, dtype(np.inf))])
    x = np.concatenate([x, -x, [dtype(fmt.max * 1.5)]])
    got = rlx.lowp.quantize(x, spec)
    assert got.dtype == x.dtype
    # All are short binary fractions, so that differences in F64 are exact. Of two that are equally near, the one at an even place.
    distance = np.abs(np.array([float(v) for v, _ in table])[:, None] - np.abs(x.astype(np.float64)))
    odd = np.array([place % 2 for _, place in table])[:, None]
    nearest = np.lexsort((np.broadcast_to(odd, distance.shape), distance), axis=0)[0]
    np.testing.assert_array_equal(np.abs(got).astype(np.float64), np.array([float(v) for v, _ in table])[nearest])
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


def test_names_and_generic_formats() -> None:
    parse = rlx.lowp.parse_format
    greatest = {
        "e4m3": 448,
        "f8": 448,
        "fp8": 448,
        "f8e4m3": 448,
        "bf8": 57344,
        "e5m2": 57344,
        "f8e5m2": 57344,
        "nvf4": 6,
    }
    greatest |= {"fp4": 6, "f4": 6, "e2m1": 6, "f6e3m2": 28, "f6e2m3": 7.5, "f16": 65504, "half": 65504}
    assert {name: parse(name).max for name in greatest} == greatest
    assert parse("bf16").max == float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    assert parse("F16M10E5") == parse("f16")
    assert parse("f4m1e2").max == 3
    assert parse("f6m2e3").max == 14
    assert parse(parse("e4m3")) is parse("e4m3")
    assert [parse(n).bits for n in ("nvf4", "f6e3m2", "e4m3", "bf16")] == [4, 6, 8, 16]
    assert parse("nvf4").smallest == 0.5
    assert parse("e4m3").max_exponent == 8


@pytest.mark.parametrize("spec", ["e4m4", "", "f8m3e5", "f3m2e0", "f60m57e2", "f16m3e12", "fXmYeZ", 8, None])
def test_other_specifications_are_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match="no floating-point format") as caught:
        rlx.lowp.parse_format(spec)
    assert isinstance(caught.value, rlx.RlxValueError)


def test_in_place() -> None:
    w = np.float32([[0.3, -2.4], [100.0, 0.1]])
    assert rlx.lowp.quantize_slice(w, "nvf4") is w
    np.testing.assert_array_equal(w, [[0.5, -2], [6, 0]])
    view = np.float32([0.3, 9, -2.4])[::2]
    rlx.lowp.quantize_slice(view, "nvf4")
    np.testing.assert_array_equal(view, [0.5, -2])


def test_under_one_scale(rng: np.random.Generator) -> None:
    w = (rng.normal(size=(7, 5)) * 1e-4).astype(np.float32)
    scale = np.abs(w).max().astype(np.float64) / 448
    expected = (w / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    got = w.copy()
    rlx.lowp.quantize_slice_scaled(got, "e4m3")
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert np.abs(got).max() == np.abs(w).max()
    special = np.float32([np.inf, 2, -np.inf, np.nan, 0])
    rlx.lowp.quantize_slice_scaled(special, "nvf4")
    np.testing.assert_array_equal(special, np.float32([2, 2, -2, np.nan, 0]))
    np.testing.assert_array_equal(rlx.lowp.quantize_slice_scaled(np.zeros(3, np.float32), "e4m3"), np.zeros(3))


def test_what_holds_no_floats_is_refused() -> None:
    with pytest.raises(rlx.RlxTypeError, match="floats, and int64"):
        rlx.lowp.quantize([1, 2], "e4m3")
    with pytest.raises(rlx.RlxTypeError, match="writes to an array"):
        rlx.lowp.quantize_slice([1.0], "e4m3")  # type: ignore[arg-type]
    fixed = np.zeros(2, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(rlx.RlxTypeError, match="cannot be written"):
        rlx.lowp.quantize_slice_scaled(fixed, "e4m3")


# --------------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize(
    ("name", "dtype", "greatest"),
    [
        ("e4m3", ml_dtypes.float8_e4m3fn, 8),
        ("e5m2", ml_dtypes.float8_e5m2, 15),
        ("nvf4", ml_dtypes.float4_e2m1fn, 2),
    ],
)
@pytest.mark.parametrize("shape", [(64,), (3, 40), (2, 5)])
def test_mx_is_the_arithmetic_of_its_specification(
    name: str, dtype: Any, greatest: int, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    got = rlx.lowp.mx(name, block=16)(x)
    limit = rlx.lowp.parse_format(name).max
    for row, result in zip(x.reshape(-1, shape[-1]), got.reshape(-1, shape[-1]), strict=True):
        for start in range(0, len(row), 16):
            block = row[start : start + 16].astype(np.float64)
            power = np.clip(np.floor(np.log2(np.abs(block).max())) - greatest, -127, 127)
            scale = 2.0**power
            elements = np.clip(block / scale, -limit, limit).astype(dtype).astype(np.float64)
            np.testing.assert_array_equal(result[start : start + 16], (elements * scale).astype(np.float32))


def test_nvfp4_is_the_arithmetic_of_its_report(rng: np.random.Generator) -> None:
    x = (rng.normal(size=(3, 40)) * 0.02).astype(np.float32)
    got = rlx.lowp.nvfp4().quantize(x)
    whole = np.abs(x).max().astype(np.float64) / (6 * 448)
    for row, result in zip(x, got, strict=True):
        for start in range(0, 40, 16):
            block = row[start : start + 16].astype(np.float64)
            local = float(np.float32(np.abs(block).max() / 6 / whole).astype(ml_dtypes.float8_e4m3fn)) * whole
            elements = np.clip(block / local, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
            np.testing.assert_allclose(result[start : start + 16], elements * local, rtol=1e-6)


def test_blocks_along_other_axes_and_of_special_values() -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    fmt = rlx.lowp.mx("nvf4", block=2)
    np.testing.assert_array_equal(fmt.quantize(x, axis=0), fmt.quantize(x.T).T)
    np.testing.assert_array_equal(fmt.quantize(x, axis=-2), fmt.quantize(x, axis=0))
    assert fmt(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert fmt(np.zeros((4, 0), np.float32)).shape == (4, 0)
    assert fmt(np.float32(3)) == 3
    for blocks in (fmt, rlx.lowp.nvfp4(2)):
        np.testing.assert_array_equal(blocks(np.zeros(5, np.float32)), np.zeros(5))
        assert np.isnan(blocks(np.float32([np.nan, 1, 2, 3]))).tolist() == [True, True, False, False]
    with pytest.raises(rlx.RlxShapeError, match="no axis 2"):
        fmt.quantize(x, axis=2)
    with pytest.raises(rlx.RlxValueError, match="block"):
        rlx.lowp.mx("nvf4", block=0)
    with pytest.raises(rlx.RlxValueError, match="F32 holds"):
        rlx.lowp.mx("f20m8e11")


def test_a_quantizer_of_a_training_step(rng: np.random.Generator) -> None:
    """The update is applied to the exact parameters, the outputs are those of the rounded ones."""
    model = rlx.loads("input x: [2, 4]; param w: [3, 4]; out loss = sum(x @ w.t());")
    w, x = rng.normal(size=(3, 4)).astype(np.float32), np.ones((2, 4), np.float32)
    model = model.with_param("w", w)
    new, (loss,) = model.train_step_all_at_on_qat("cpu", rlx.optim.Sgd(0.5), None, 0, 0.0, rlx.lowp.nvfp4(2), {"x": x})
    np.testing.assert_allclose(loss, 2 * rlx.lowp.nvfp4(2)(w).sum(), rtol=1e-5)
    np.testing.assert_allclose(new.param_binding("w"), w - 0.5 * 2, rtol=1e-6)
