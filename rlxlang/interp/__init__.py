"""NumPy evaluation of graphs by the reference of each op: the oracle of the tests (layer 4)."""

from __future__ import annotations

from rlxlang.interp.evaluate import apply_op, evaluate, read_sizes

__all__ = ["apply_op", "evaluate", "read_sizes"]
