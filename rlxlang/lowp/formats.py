"""Arrays rounded to floating-point formats of few bits."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxTypeError, RlxValueError, did_you_mean
from rlxlang.ops.low_precision import format_attributes, np_to_format
from rlxlang.types import F32, F64, FORMAT_NAMES, FloatFormat, find_format, from_numpy

Array: TypeAlias = "np.ndarray[Any, Any]"


def parse_format(spec: object) -> FloatFormat:
    """The format of a name or of `fXmYeZ`.

    Args:
        spec: `"f16" "half" "bf16" "f8e4m3" "f8" "fp8" "e4m3" "bf8" "e5m2" "f8e5m2" "nvf4" "fp4" "f4" "e2m1" "f6e3m2" "f6e2m3"`, or
            `"fXmYeZ"` of X bits in all, Y of the significand (0 to 52) and Z of the exponent (2 to 11), X = 1 + Y + Z, whose greatest
            number is (2 − 2^−Y) · 2^bias. A format stays what it is.

    Raises:
        RlxValueError: There is no such format; it is a `ValueError`, too.

    Source:
        IEEE 754-2019; Open Compute Project 2023, "OCP 8-bit Floating Point Specification" and "Microscaling Formats Specification".

    Example:
        >>> parse_format("nvf4")
        FloatFormat(mantissa_bits=1, exponent_bits=2, max=6.0)
    """
    if isinstance(spec, FloatFormat):
        return spec
    found = find_format(spec) if isinstance(spec, str) else None
    if found is None:
        raise RlxValueError(
            f"there is no floating-point format {spec!r}",
            notes=(
                f"the names are {', '.join(FORMAT_NAMES)}",
                "a generic format is `fXmYeZ`: X bits in all, Y of the significand, Z of the exponent, X = 1 + Y + Z",
            ),
            helps=(did_you_mean(spec, FORMAT_NAMES),) if isinstance(spec, str) else (),
        )
    return found


def require_floats(what: str, x: object) -> Array:
    """An array of floats.

    Raises:
        RlxTypeError: It has another dtype.
    """
    array = np.asarray(x)
    own = from_numpy(array.dtype)
    if own is None or not own.is_float:
        raise RlxTypeError(f"`{what}` takes arrays of floats, and {array.dtype} is given")
    return array


def require_size(name: str, value: object) -> int:
    """A whole number of 1 or more.

    Raises:
        RlxValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RlxValueError(f"`{name}` is a whole number, at least 1; {value!r} is given")
    return value


def require_writable(what: str, x: object) -> Array:
    """An array of floats that can be written to.

    Raises:
        RlxTypeError: It is none.
    """
    if not isinstance(x, np.ndarray):
        raise RlxTypeError(f"`{what}` writes to an array, and a {type(x).__name__} is given")
    if not x.flags.writeable:
        raise RlxTypeError(f"`{what}` writes to its array, and this one cannot be written to")
    return require_floats(what, x)


def quantize(x: object, fmt: str | FloatFormat) -> Array:
    """An array rounded to a format: half to even, with gradual underflow, too great numbers to the greatest; NaN stays.

    Args:
        x: Floats of any shape.
        fmt: A format or its name, see `parse_format`.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        RlxTypeError: It holds no floats.
        RlxValueError: There is no such format.

    Example:
        >>> quantize(np.float32([0.3, -2.4, 100.0]), "nvf4")
        array([ 0.5, -2. ,  6. ], dtype=float32)
    """
    array, found = require_floats("quantize", x), parse_format(fmt)
    wide = np.float64 if array.dtype == np.float64 or not found.fits(F32) else np.float32
    assert found.fits(F64)
    with np.errstate(all="ignore"):
        return np_to_format(array.astype(wide, copy=False), **format_attributes(found)).astype(array.dtype, copy=False)


def quantize_slice(w: Array, fmt: str | FloatFormat) -> Array:
    """Round an array in place, and return it, as a quantizer of parameters does: `quant=lambda w: rlx.lowp.quantize_slice(w, "nvf4")`.

    Raises:
        RlxTypeError: It is no array of floats that can be written to.
        RlxValueError: There is no such format.
    """
    require_writable("quantize_slice", w)[...] = quantize(w, fmt)
    return w


def quantize_slice_scaled(w: Array, fmt: str | FloatFormat) -> Array:
    """Round an array in place under one scale, which takes its greatest |w| to the greatest number of the format; returns it.

    The scale is that of the finite elements; infinite ones become the greatest of them.

    Raises:
        RlxTypeError: It is no array of floats that can be written to.
        RlxValueError: There is no such format.
    """
    array, found = require_writable("quantize_slice_scaled", w), parse_format(fmt)
    wide = array.astype(np.float64)
    greatest = np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0)
    if greatest > 0:
        # In F64, so that neither the scale of a small tensor nor a great format leaves the range.
        array[...] = (quantize(wide * (found.max / greatest), found) * (greatest / found.max)).astype(array.dtype)
    return w
