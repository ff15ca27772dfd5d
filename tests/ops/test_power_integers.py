"""Integer powers keep every bit, in every integer type and on every device."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_unsigned_powers_do_not_pass_through_floats(device: str) -> None:
    func = rlx.loads("input x: [U64; ?n]; input y: [U64; ?n]; out z = x ** y;")
    x, y = np.array([3, 2**63 + 1, 7, 0], np.uint64), np.array([40, 1, 3, 0], np.uint64)
    (got,) = func.run_on(device, x=x, y=y)
    assert got.dtype == np.uint64
    assert got.tolist() == [3**40, 2**63 + 1, 343, 1]


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_signed_powers_wrap_and_negative_exponents_truncate(device: str) -> None:
    func = rlx.loads("input x: [I32; ?n]; input y: [I32; ?n]; out z = x ** y;")
    x, y = np.array([2, -1, -1, 1, 5, 0, 3], np.int32), np.array([31, -3, -2, -7, -1, -1, 20], np.int32)
    (got,) = func.run_on(device, x=x, y=y)
    wrapped = (3**20 + 2**31) % 2**32 - 2**31
    assert got.tolist() == [-(2**31), -1, 1, 1, 0, 0, wrapped]
