"""From text to typed graphs: parsing, checking, expansion, elaboration (layer 6)."""

from __future__ import annotations

from rlxlang.frontend.elaborate import Elaborated, elaborate_expression, elaborate_source

__all__ = ["Elaborated", "elaborate_expression", "elaborate_source"]
