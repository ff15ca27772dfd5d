"""Let a source checkout be imported as it stands.

The repository keeps four folders of the package outside of it: ``backends/``,
``grammar/``, ``stdlib/`` and ``docs/errors/`` (docs/adr/0001). A wheel holds them
below ``rlxlang/``, where Python finds them unaided. A checkout has them elsewhere; it
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
_ROOT = os.path.dirname(_PACKAGE)
_FOLDERS = {
    "rlxlang.backends": os.path.join(_ROOT, "backends"),
    "rlxlang.error_pages": os.path.join(_ROOT, "docs", "errors"),
    "rlxlang.grammar": os.path.join(_ROOT, "grammar"),
    "rlxlang.stdlib": os.path.join(_ROOT, "stdlib"),
}


class _SourceTreeFinder:
    """Map each of these packages to its folder in the checkout."""

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
