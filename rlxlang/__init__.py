"""rlxlang: a language for differentiable tensor programs, embedded in Python."""

from __future__ import annotations

from rlxlang import _source_tree as _source_tree
from rlxlang._version import __version__

__all__ = ["__version__"]
