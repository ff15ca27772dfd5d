"""Let a source checkout be imported as it stands.

The repository keeps three folders of the package at top level: ``backends/``,
``grammar/`` and ``stdlib/`` (docs/adr/0001). A wheel holds them below
``rlxlang/``, where Python finds them unaided. A checkout has them elsewhere; it
is imported when it shadows the wheel (``python -m pytest`` at the repository
root) or when nothing is installed. Importing this module bridges the gap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parent
_FOLDERS = {f"rlxlang.{name}": _PACKAGE.parent / name for name in ("backends", "grammar", "stdlib")}


class _SourceTreeFinder(MetaPathFinder):
    """Map ``rlxlang.<folder>`` to the top-level folder of the checkout."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        folder = _FOLDERS.get(fullname)
        if folder is None:
            return None
        return spec_from_file_location(
            fullname,
            folder / "__init__.py",
            submodule_search_locations=[str(folder)],
        )


if not (_PACKAGE / "backends" / "__init__.py").is_file():
    sys.meta_path.append(_SourceTreeFinder())
