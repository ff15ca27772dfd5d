"""The standard library, written in the language (package data)."""

from __future__ import annotations
