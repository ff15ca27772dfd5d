"""Importing the package loads nothing that a small script does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"lark", "llvmlite", "matplotlib", "pyopencl", "pygments", "rich", "safetensors", "scipy", "sklearn"}


def loaded_after(program: str) -> set[str]:
    """Run ``program`` in a new interpreter and return the top-level modules it loaded."""
    show = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", f"{program}\n{show}"]
    return set(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())


def test_import_loads_no_heavy_library() -> None:
    assert not loaded_after("import rlxlang") & HEAVY


def test_public_names_load_no_heavy_library() -> None:
    program = "import rlxlang\nfor name in rlxlang.__all__: getattr(rlxlang, name)"
    assert not loaded_after(program) & HEAVY
