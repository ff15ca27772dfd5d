"""The op table: one record per operation, one file per family (layer 3)."""

from __future__ import annotations
