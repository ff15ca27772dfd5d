"""Low-precision numbers in NumPy: `rlx.lowp`.

Formats and quantizers with the same arithmetic as the ops `to_format`, `mx` and `nvfp4` of compiled graphs, for arrays.
"""

from __future__ import annotations

from rlxlang.lowp.blocks import BlockFormat, mx, nvfp4
from rlxlang.lowp.formats import parse_format, quantize, quantize_slice, quantize_slice_scaled
from rlxlang.lowp.post_training import quantize_blocks, quantize_weights
from rlxlang.types import FloatFormat

__all__ = [
    "BlockFormat",
    "FloatFormat",
    "mx",
    "nvfp4",
    "parse_format",
    "quantize",
    "quantize_blocks",
    "quantize_slice",
    "quantize_slice_scaled",
    "quantize_weights",
]
