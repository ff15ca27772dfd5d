"""Promotion of element types, against the lattice written out."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from rlxlang.types import (
    BF16,
    BOOL,
    C64,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    PromotionProblem,
    float_dtype,
    from_numpy,
    promote,
    promote_all,
    sum_dtype,
    weak_dtype,
)

# Rows and columns: Bool U8 U16 U32 U64 I8 I16 I32 I64; "-" is an error.
_ORDER = (BOOL, U8, U16, U32, U64, I8, I16, I32, I64)
_INTEGERS = """
Bool U8  U16 U32 U64 I8  I16 I32 I64
U8   U8  U16 U32 U64 I16 I16 I32 I64
U16  U16 U16 U32 U64 I32 I32 I32 I64
U32  U32 U32 U32 U64 I64 I64 I64 I64
U64  U64 U64 U64 U64 -   -   -   -
I8   I16 I32 I64 -   I8  I16 I32 I64
I16  I16 I32 I64 -   I16 I16 I32 I64
I32  I32 I32 I64 -   I32 I32 I32 I64
I64  I64 I64 I64 -   I64 I64 I64 I64
"""


def test_integers_and_bool() -> None:
    rows = [line.split() for line in _INTEGERS.strip().splitlines()]
    for left, row in zip(_ORDER, rows, strict=True):
        for right, want in zip(_ORDER, row, strict=True):
            if want == "-":
                with pytest.raises(PromotionProblem):
                    promote(left, right)
            else:
                assert promote(left, right) == DTYPES[want], (left, right)


@pytest.mark.parametrize("integer", _ORDER)
@pytest.mark.parametrize("real", [F16, BF16, F32, F64])
def test_an_integer_takes_the_type_of_a_float(integer: DType, real: DType) -> None:
    assert promote(integer, real) == real
    assert promote(real, integer) == real


def test_floats() -> None:
    assert promote(F16, BF16) == F32
    assert promote(BF16, F32) == F32
    assert promote(F16, F64) == F64
    assert all(promote(C64, d) == C64 for d in DTYPES.values())


def test_promotion_is_symmetric_and_idempotent() -> None:
    for left, right in itertools.product(DTYPES.values(), repeat=2):
        try:
            found = promote(left, right)
        except PromotionProblem:
            continue
        assert found == promote(right, left)
        assert promote(found, left) == found
    assert promote_all(BOOL, I8, F16) == F16


def test_numbers_are_weak() -> None:
    assert weak_dtype(2, F16) == F16
    assert weak_dtype(2, BOOL) == I32
    assert weak_dtype(2.5, I64) == F32
    assert weak_dtype(2.5, F64) == F64
    assert weak_dtype(True, U8) == U8
    assert (weak_dtype(1), weak_dtype(1.0), weak_dtype(True), weak_dtype(1j)) == (I32, F32, BOOL, C64)


def test_sums_widen_small_integers() -> None:
    assert [sum_dtype(d) for d in (BOOL, I8, I16, I32, I64)] == [I32, I32, I32, I32, I64]
    assert [sum_dtype(d) for d in (U8, U16, U32, U64)] == [U32, U32, U32, U64]
    assert sum_dtype(F16) == F16
    assert float_dtype(I64) == F32
    assert float_dtype(BF16) == BF16


def test_numpy_dtypes_there_and_back() -> None:
    for dtype in DTYPES.values():
        assert from_numpy(dtype.numpy) == dtype
        assert dtype.numpy.itemsize == dtype.bytes
    assert BF16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert from_numpy(np.dtype("complex128")) is None
    assert from_numpy(np.dtype("U4")) is None


def test_ranges() -> None:
    assert I8.integer_range == (-128, 127)
    assert U16.integer_range == (0, 65535)
    assert F16.largest == 65504
    with pytest.raises(ValueError, match="F32"):
        _ = F32.integer_range
