"""The op table: one record per operation, one file per family (layer 3).

Importing this package fills `rlxlang.ir.OPS` and `rlxlang.ir.SURFACES`.
"""

from __future__ import annotations

from rlxlang.ops import (
    activation,
    arithmetic,
    comparison,
    contraction,
    function,
    indexing,
    leaf,
    movement,
    prefix,
    reduction,
    surface_arithmetic,
)

__all__ = [
    "activation", "arithmetic", "comparison", "contraction", "function", "indexing", "leaf", "movement", "prefix", "reduction",
    "surface_arithmetic",
]  # fmt: skip
