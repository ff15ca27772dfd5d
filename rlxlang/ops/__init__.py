"""The op table: one record per operation, one file per family (layer 3).

Importing this package fills `rlxlang.ir.OPS` and `rlxlang.ir.SURFACES`.
"""

from __future__ import annotations

from rlxlang.ops import (
    activation,
    arithmetic,
    attention,
    comparison,
    contraction,
    control,
    custom,
    einsum,
    function,
    indexing,
    inverse_hyperbolic,
    leaf,
    loss,
    movement,
    normalization,
    prefix,
    reduction,
    rotary,
    softmax,
    statistics,
    surface_arithmetic,
    surface_contraction,
    surface_indexing,
    surface_make,
    surface_reduction,
    surface_shape,
    surface_slice,
)
from rlxlang.ops.surface_slice import METHODS

__all__ = [
    "METHODS",
    "activation",
    "arithmetic",
    "attention",
    "comparison",
    "contraction",
    "control",
    "custom",
    "einsum",
    "function",
    "indexing",
    "inverse_hyperbolic",
    "leaf",
    "loss",
    "movement",
    "normalization",
    "prefix",
    "reduction",
    "rotary",
    "softmax",
    "statistics",
    "surface_arithmetic",
    "surface_contraction",
    "surface_indexing",
    "surface_make",
    "surface_reduction",
    "surface_shape",
    "surface_slice",
]
