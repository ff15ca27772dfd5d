"""Type-check the package as it is shipped, with its folders in one tree.

mypy does not follow setuptools' ``package-dir``; links put ``backends/``, ``grammar/``,
``stdlib/`` and ``docs/errors/`` where a wheel has them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / ".typecheck"


def main() -> int:
    """Link the folders below ``.typecheck/rlxlang`` and run mypy there; return its exit status."""
    shutil.rmtree(TREE, ignore_errors=True)
    package = TREE / "rlxlang"
    package.mkdir(parents=True)
    for source in (ROOT / "rlxlang").iterdir():
        (package / source.name).symlink_to(source)
    for name in ("backends", "grammar", "stdlib"):
        (package / name).symlink_to(ROOT / name)
    (package / "error_pages").symlink_to(ROOT / "docs" / "errors")
    (TREE / "rlx").symlink_to(ROOT / "rlx")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *config, "-p", "rlxlang", "-p", "rlx", *sys.argv[1:]]
    return subprocess.call(command, cwd=TREE)


if __name__ == "__main__":
    raise SystemExit(main())
