"""One page for every diagnostic code (package data; installed as `rlxlang.error_pages`)."""

from __future__ import annotations
