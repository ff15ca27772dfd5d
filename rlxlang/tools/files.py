"""Which files a command is about."""

from __future__ import annotations

import os
from pathlib import Path

_LEFT_OUT = (
    "__pycache__",
    "node_modules",
    "site-packages",
    "build",
    "dist",
)  # folders of what others wrote, or of copies


def models_in(path: Path) -> list[Path]:
    """A file, or all models in a folder and the folders below, in order, but for hidden folders, environments and what is built."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for folder, below, files in os.walk(path):
        inside = Path(folder)
        below[:] = [n for n in below if not n.startswith(".") and n not in _LEFT_OUT]
        below[:] = [n for n in below if not (inside / n / "pyvenv.cfg").exists()]
        found += [inside / name for name in files if name.endswith(".rlx")]
    return sorted(found)
