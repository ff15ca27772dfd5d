"""Let a source checkout be imported as it stands.

The repository keeps three folders of the package at top level: ``backends/``,
``grammar/`` and ``stdlib/`` (docs/adr/0001). A wheel holds them below
``rlxlang/``, where Python finds them unaided. A checkout has them elsewhere; it
is imported when it shadows the wheel (``python -m pytest`` at the repository
root) or when nothing is installed. Importing this module bridges the gap.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

# Plain strings and a plain class: pathlib and importlib.abc would double the cost of `import rlxlang`.
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_FOLDERS = {
    f"rlxlang.{name}": os.path.join(os.path.dirname(_PACKAGE), name) for name in ("backends", "grammar", "stdlib")
}


class _SourceTreeFinder:
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
        file = os.path.join(folder, "__init__.py")
        return spec_from_file_location(fullname, file, submodule_search_locations=[folder])


if not os.path.isfile(os.path.join(_PACKAGE, "backends", "__init__.py")):
    sys.meta_path.append(_SourceTreeFinder())
