"""The op table: one record per operation, one file per family (layer 3).

Importing this package fills `rlxlang.ir.OPS` and `rlxlang.ir.SURFACES`.
"""

from __future__ import annotations

from rlxlang.ops import arithmetic, comparison, contraction, function, indexing, leaf, movement, prefix, reduction

__all__ = ["arithmetic", "comparison", "contraction", "function", "indexing", "leaf", "movement", "prefix", "reduction"]
