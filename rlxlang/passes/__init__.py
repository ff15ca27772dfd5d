"""Passes over graphs that keep their value (layer 4)."""

from __future__ import annotations

from rlxlang.passes.simplify import simplify

__all__ = ["simplify"]
