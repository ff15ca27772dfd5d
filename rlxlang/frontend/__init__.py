"""From text to typed graphs: parsing, checking, expansion, elaboration, formatting."""

from __future__ import annotations
