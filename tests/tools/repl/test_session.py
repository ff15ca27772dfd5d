"""Scripted sessions: what is typed behind `rlx> ` and `...> `, and exactly what comes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlxlang.tools.repl.commands import ALIASES, COMMANDS
from rlxlang.tools.repl.loop import run_lines
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Shell

SCRIPTS = Path(__file__).parent / "scripts"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "repl.md"
BLOCK = re.compile(r"(?<=^```repl\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


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


def compare(file: Path, old: str, new: str, request: pytest.FixtureRequest) -> None:
    """Compare, or write the new text with `--update-golden`."""
    if request.config.getoption("--update-golden"):
        file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    else:
        assert new == old


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    text = script.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    compare(script, text, replay(text), request)


def test_the_page(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The blocks of the page are one session."""
    monkeypatch.setenv("COLUMNS", "100")
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    new = replay("".join(blocks))
    for block in blocks:
        typed = [line for line in block.splitlines() if line.startswith(("rlx>", "...>"))]
        following = new.split("\n")
        count = next(k for k, _ in enumerate(following) if _typed(following[:k]) == len(typed) and _ends(following, k))
        compare(PAGE, block, "\n".join(following[:count]) + "\n", request)
        new = "\n".join(following[count:])


def _typed(lines: list[str]) -> int:
    return sum(line.startswith(("rlx>", "...>")) for line in lines)


def _ends(lines: list[str], k: int) -> bool:
    """Whether what the line before typed has printed all: another is typed at `k`, or nothing is left."""
    return lines[k].startswith("rlx>") or lines[k:] == [""]


def test_the_page_lists_the_commands() -> None:
    page = PAGE.read_text("utf-8")
    listed = re.findall(r"^\| `(:.*?)` \| (.*) \|$", page, re.MULTILINE)
    assert listed == [(c.form, c.doc) for c in COMMANDS.values()]
    assert all(f"`:{alias}`" in page for alias in ALIASES if alias)


def test_the_test_can_fail() -> None:
    assert replay("rlx> 1 + 1\nint 3\n") == "rlx> 1 + 1\nint 2\n"
