"""Passes over graphs that keep their value (layer 4)."""

from __future__ import annotations

from rlxlang.passes.rule import Rewriting, Rule
from rlxlang.passes.rules import RULES
from rlxlang.passes.simplify import simplify

__all__ = ["RULES", "Rewriting", "Rule", "simplify"]
