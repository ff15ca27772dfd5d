"""Formats whose numbers come in blocks with a scale of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxValueError
from rlxlang.lowp.formats import parse_format, require_floats, require_size
from rlxlang.ops.low_precision import format_attributes, np_mx, np_nvfp4
from rlxlang.types import F32, FloatFormat

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Rounds arrays in blocks along an axis; made by `mx` and `nvfp4`.

    It can be called with an array, so that it is a quantizer of parameters: `quant=rlx.lowp.nvfp4()`. Weights of `linear` have
    shape [out, in], so that the last axis is the one that is contracted.

    Attributes:
        name: As messages show it.
        block: Elements that share a scale; the last block of an axis may have less.
    """

    name: str
    block: int
    _round: Callable[..., Array]

    def quantize(self, x: object, axis: int = -1) -> Array:
        """An array of the shape and dtype of x, rounded in blocks along `axis`.

        Raises:
            RlxTypeError: It holds no floats.
            RlxShapeError: It has no such axis.
        """
        array = require_floats(self.name, x)
        if not -array.ndim <= axis < array.ndim:
            raise RlxShapeError(f"`{self.name}`: an array of shape {list(array.shape)} has no axis {axis}")
        with np.errstate(all="ignore"):
            return self._round(array, axis=axis % array.ndim)

    def __call__(self, x: object) -> Array:
        """The array rounded in blocks along its last axis; a scalar is a block."""
        array = require_floats(self.name, x)
        return self.quantize(array.reshape(1)).reshape(()) if array.ndim == 0 else self.quantize(array)


def mx(fmt: str | FloatFormat = "e4m3", block: int = 32) -> BlockFormat:
    """A microscaling format: the elements of a block share a power of two from 2^−127 to 2^127 (E8M0).

    The power is that of the greatest |x| of the block, less the exponent of the format's greatest number.

    Args:
        fmt: Format of the elements: one of F32's range.
        block: Elements that share a scale.

    Raises:
        RlxValueError: There is no such format, F32 does not hold it, or a block has no element.

    Source:
        Open Compute Project 2023, "OCP Microscaling Formats (MX) Specification", version 1.0, section 6.3.
    """
    found = parse_format(fmt)
    if not found.fits(F32):
        raise RlxValueError(f"`mx` takes formats whose numbers F32 holds, and {fmt} is given")
    options = format_attributes(found)
    return BlockFormat("mx", require_size("block", block), lambda x, axis: np_mx(x, **options, axis=axis, block=block))


def nvfp4(group: int = 16, *, tensor_scale: bool = True) -> BlockFormat:
    """E2M1 numbers whose groups share an E4M3 scale, all groups under one F32 scale.

    Args:
        group: Elements that share a scale.
        tensor_scale: Whether there is the F32 scale, which takes the greatest scale of a group to 448; without it tensors whose
            greatest numbers are far from 1 lose bits of their scales.

    Raises:
        RlxValueError: A group has no element.

    Source:
        NVIDIA 2025, "Pretraining Large Language Models with NVFP4".
    """
    return BlockFormat(
        "nvfp4",
        require_size("group", group),
        lambda x, axis: np_nvfp4(x, axis=axis, group=group, tensor_scale=tensor_scale),
    )
