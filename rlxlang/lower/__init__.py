"""Lowering: which ops share a kernel, what a kernel computes, where values lie in memory (layer 5)."""

from __future__ import annotations

from rlxlang.lower.program import Lowered, collect_dims, lower

__all__ = ["Lowered", "collect_dims", "lower"]
