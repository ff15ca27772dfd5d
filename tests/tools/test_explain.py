"""`rlx explain`: codes in any spelling, the list, JSON, and pages on terminals and in pipes."""

from __future__ import annotations

import io
import json
import sys

import pytest

from rlxlang.diagnostics import CODES, RlxNameError
from rlxlang.resources import error_page
from rlxlang.tools import explain
from rlxlang.tools.cli import main


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("word", ["E0401", "e0401", "401", "0401", "E401", " e401 "])
def test_spellings_of_a_code(word: str) -> None:
    assert explain.code_of(word) == "E0401"


def test_a_number_may_be_that_of_a_warning() -> None:
    assert explain.code_of("903") == explain.code_of("w903") == "W0903"
    assert explain.code_of("1") == "E0001"


@pytest.mark.parametrize(("word", "near"), [("E0409x", "E0409 (empty axis)"), ("E0499", "E0409")])
def test_unknown_codes(word: str, near: str) -> None:
    with pytest.raises(RlxNameError, match="there is no code") as caught:
        explain.code_of(word)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E0200"
    assert near in diagnostic.help


def test_unknown_words_end_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "broadcasting"]) == 1
    assert capsys.readouterr().err == (
        "error[E0200]: there is no code `broadcasting`\n  = help: `rlx explain` lists all codes\n"
    )


def test_a_page_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "401"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("E0401: shapes do not broadcast\n\n")
    for caption in ("Wrong:\n\n    input x", "Message:\n\n    error[E0401]: ", "Right:\n\n    input x"):
        assert caption in out
    assert "```" not in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 140


def test_several_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "e0401", "w0903"]) == 0
    out = capsys.readouterr().out
    assert out.index("E0401: ") < out.index("W0903: ")


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{code}  {row.title}" for code, row in CODES.items()]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "E0401", "--format", "json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record == {"code": "E0401", "title": "shapes do not broadcast", "page": error_page("E0401")}
    assert main(["explain", "--format", "json"]) == 0
    assert [r["code"] for r in json.loads(capsys.readouterr().out)] == list(CODES)


@pytest.mark.parametrize("code", ["E0401", "E0800", "E0127"])
def test_a_page_on_a_terminal(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["explain", code]) == 0
    text = out.getvalue()
    assert "\x1b[1;31mWrong:" in text
    assert "\x1b[1;32mRight:" in text


def test_terminals_are_told_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["explain", "E9"]) == 1
    assert err.getvalue().endswith("\nmore about it: rlx explain E0200\n")


def test_parts_of_a_page() -> None:
    found = list(explain.parts("# E0001: x\n\nSome\nprose.\n\n```rlx wrong\na;\n```\n\n```text\nm\n```\n\nEnd.\n"))
    assert [(p.language, p.role, p.text) for p in found] == [
        ("", "", "Some\nprose."),
        ("rlx", "wrong", "a;"),
        ("text", "", "m"),
        ("", "", "End."),
    ]
