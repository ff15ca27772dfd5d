"""Scripted sessions: what is typed behind `rlx> ` and `...> `, and exactly what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlxlang.tools.repl.loop import run_lines
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Shell

SCRIPTS = Path(__file__).parent / "scripts"


def replay(script: str) -> str:
    """The script with the output of a new session in place of the one it has."""
    typed = [line for line in script.splitlines() if line.startswith(("rlx>", "...>"))]
    lines = iter(typed)
    shown: list[str] = []

    def read_line(prompt: str) -> str | None:
        line = next(lines, None)
        if line is not None:
            shown.append(prompt.rstrip() + ("" if line[5:] == "" else f" {line[5:]}") + "\n")
        return None if line is None else line[5:]

    run_lines(Shell(Session(), shown.append), read_line)
    return "".join(shown)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = script.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert replay(text) == text


def test_the_test_can_fail() -> None:
    assert replay("rlx> 1 + 1\nint 3\n") == "rlx> 1 + 1\nint 2\n"
