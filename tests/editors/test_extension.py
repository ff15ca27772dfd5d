"""The extension of Visual Studio Code starts the language server: its own client in a stand-in for the editor."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXTENSION = Path(__file__).resolve().parents[2] / "editors" / "vscode" / "extension.js"
SERVER = [sys.executable, "-m", "rlxlang", "lsp"]


def activate(node: Callable[..., str], folder: Path, text: str, *, with_packages: bool = True, **settings: Any) -> Any:
    """What the editor is told, with the extension in a folder without packages of its own."""
    (folder / "extension.js").write_bytes(EXTENSION.read_bytes())
    options = json.dumps({key.replace("_", "."): value for key, value in settings.items()})
    return json.loads(node("editor.cjs", str(folder / "extension.js"), options, text, with_packages=with_packages))


def test_a_text_is_checked(node: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("pygls")
    found = activate(node, tmp_path, "input x: [2];\nout y = sigmod(x);", server_command=SERVER, wait=True)
    place = {"line": 1, "character": 8}
    assert found["published"][0] == [["E0202", "unknown function `sigmod`\nhelp: did you mean `sigmoid`?", place]]
    assert found["shown"] == []


def test_without_the_command_there_is_a_message(node: Callable[..., str], tmp_path: Path) -> None:
    found = activate(node, tmp_path, "", server_command=["no-such-command"])
    assert any(line.startswith("rlx: `no-such-command` does not start") for line in found["shown"])
    assert found["published"] == []


def test_without_the_packages_there_is_a_message(node: Callable[..., str], tmp_path: Path) -> None:
    found = activate(node, tmp_path, "", server_command=SERVER, with_packages=False)
    assert found["shown"] == [
        "rlx: run `npm install --omit=dev` in the folder of the extension for the language server."
    ]


def test_the_server_can_be_turned_off(node: Callable[..., str], tmp_path: Path) -> None:
    assert activate(node, tmp_path, "", server_enabled=False) == {"published": [], "shown": []}
