"""The grammar of the language (package data)."""

from __future__ import annotations
