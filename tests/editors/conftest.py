"""Node.js and the packages of the extension, for tests that need them.

With RLX_EDITOR_TESTS=1 the packages are installed into a temporary folder, else they are taken from
`editors/vscode/node_modules` if that is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

EXTENSION = Path(__file__).resolve().parents[2] / "editors" / "vscode"

Node = Callable[..., str]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Return a function that runs a script of this folder with arguments and input; gives what it writes."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node.js is not installed")
    packages = EXTENSION / "node_modules"
    if os.environ.get("RLX_EDITOR_TESTS") == "1":
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed")
        folder = tmp_path_factory.mktemp("npm")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(EXTENSION / name, folder)
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=folder, check=True, capture_output=True, timeout=300)
        packages = folder / "node_modules"
    elif not (packages / "vscode-textmate").is_dir():
        pytest.skip("the packages of Node.js are missing: RLX_EDITOR_TESTS=1 installs them")

    def run(script: str, *arguments: str, text: str = "", with_packages: bool = True) -> str:
        environment = {**os.environ, "NODE_PATH": str(packages) if with_packages else ""}
        command = [program, str(Path(__file__).with_name(script)), *arguments]
        result = subprocess.run(
            command, input=text, env=environment, check=True, capture_output=True, text=True, timeout=120
        )
        return result.stdout

    return run
