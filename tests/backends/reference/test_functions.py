from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from rlxlang.backends.reference.functions import MEANINGS, WIDENED, apply, cast
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import FUNCTIONS
from rlxlang.types import BF16, BOOL, DTYPES, F16, F32, F64, I8, I32, I64, U8, U64, DType


def test_every_function_has_a_meaning() -> None:
    assert set(MEANINGS) == set(FUNCTIONS)
    assert set(FUNCTIONS) >= WIDENED


def integers(function: str, dtype: DType, *args: list[int]) -> list[int]:
    return apply(function, tuple(np.array(a, dtype.numpy) for a in args), dtype).tolist()


def floats(function: str, *args: list[float], dtype: DType = F32) -> list[float]:
    return apply(function, tuple(np.array(a, dtype.numpy) for a in args), dtype).tolist()


def test_integer_division_never_traps() -> None:
    low = -(1 << 31)
    assert integers("floor_div", I32, [7, -7, 5, low], [2, 2, 0, -1]) == [3, -4, 0, low]
    assert integers("mod", I32, [7, -7, 5, low], [2, 2, 0, -1]) == [1, 1, 0, 0]
    assert integers("rem", I32, [7, -7, 5, low], [2, 2, 0, -1]) == [1, -1, 0, 0]
    assert integers("floor_div", U8, [7, 255], [0, 2]) == [0, 127]


def test_integer_arithmetic_wraps() -> None:
    assert integers("add", I8, [127], [1]) == [-128]
    assert integers("abs", I8, [-128]) == [-128]
    assert integers("neg", U8, [1]) == [255]
    assert integers("mul", I64, [1 << 62], [4]) == [0]


def test_integer_powers() -> None:
    assert integers("pow", I32, [2, 3, -2, 0, 0], [10, 0, 3, 0, 5]) == [1024, 1, -8, 1, 0]
    assert integers("pow", I32, [1, -1, -1, 2, 0], [-3, -3, -2, -1, -1]) == [1, -1, 1, 0, 0]
    assert integers("pow", U8, [2, 3], [9, 5]) == [0, 243]


def test_shifts_take_the_count_modulo_the_width() -> None:
    assert integers("shl", I32, [1, 1], [33, -1]) == [2, -(1 << 31)]
    assert integers("shr", I8, [-128, -128], [1, 9]) == [-64, -64]
    assert integers("shr", U8, [128], [1]) == [64]


def test_float_remainders_have_the_sign_of_the_divisor_or_dividend() -> None:
    assert floats("mod", [-7.0, 7.0], [3.0, -3.0]) == [2.0, -2.0]
    assert floats("rem", [-7.0, 7.0], [3.0, -3.0]) == [-1.0, 1.0]
    assert floats("floor_div", [-7.0, 1.0], [3.0, 0.0]) == [-3.0, math.inf]


def test_nan_wins() -> None:
    for function in ("minimum", "maximum"):
        assert np.isnan(floats(function, [math.nan, 1.0], [1.0, math.nan])).all()
    assert math.isnan(floats("sign", [math.nan])[0])


def test_stable_forms() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert floats("sigmoid", [-200.0, 0.0, 200.0], dtype=F64) == pytest.approx(
            [scipy.special.expit(-200.0), 0.5, 1.0]
        )
        assert floats("softplus", [-200.0, 0.0, 1e4], dtype=F64) == pytest.approx([math.exp(-200.0), math.log(2), 1e4])
        assert floats("log_sigmoid", [-1e4, 0.0], dtype=F64) == pytest.approx([-1e4, -math.log(2)])


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions(name: str) -> None:
    x = np.linspace(-6, 6, 101)
    np.testing.assert_allclose(apply(name, (x,), F64), getattr(scipy.special, name)(x), rtol=1e-14)


def test_round_is_half_to_even() -> None:
    assert floats("round", [0.5, 1.5, -2.5, 2.6]) == [0.0, 2.0, -2.0, 3.0]


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_casts_of_floats_to_integers_saturate(dtype: DType) -> None:
    low, high = dtype.integer_range
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.9, -0.5, float(low)])
    assert cast(x, dtype).tolist() == [0, high, low, high, low, 3, 0, low]
    assert cast(x.astype(np.float32), dtype).tolist() == [0, high, low, high, low, 3, 0, low]


def test_other_casts() -> None:
    assert cast(np.array([300, -1]), U8).tolist() == [44, 255]
    assert cast(np.array([0.0, np.nan, 0.25]), BOOL).tolist() == [False, True, True]
    assert cast(np.array([1 << 63], np.uint64), I64).tolist() == [-(1 << 63)]
    assert cast(np.array([-1]), U64).tolist() == [(1 << 64) - 1]
    assert cast(np.array([65520.0, 2049.0]), F16).tolist() == [math.inf, 2048.0]
    assert cast(np.array([1.00390625, 1.01171875], np.float32), BF16).astype(float).tolist() == [1.0, 1.015625]


def test_halves_are_for_memory() -> None:
    with pytest.raises(InternalError, match="float16"):
        apply("add", (np.ones(1, np.float16), np.ones(1, np.float16)), F16)
