"""The command `rlx` and what its subcommands share (the top layer)."""

from __future__ import annotations
