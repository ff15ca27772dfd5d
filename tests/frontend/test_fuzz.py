"""A short run of the fuzzer; `tools/fuzz_frontend.py` makes long ones."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from rlxlang import loading
from rlxlang.diagnostics import render
from rlxlang.frontend import context
from tests.frontend import fuzzing
from tests.frontend.fuzzing import PARTS, Texts, failure, shrunk, valid_texts

TEXTS = 150


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MOST_STATEMENTS", 3000)
    monkeypatch.setattr(context, "MOST_OPERATIONS", 15_000)


def test_broken_texts_are_answered(pytestconfig: pytest.Config) -> None:
    texts = Texts(pytestconfig.getoption("--seed"), valid_texts())
    for number in range(TEXTS):
        text = texts.one()
        for part in ("parse", "elaborate", "format", PARTS[number % len(PARTS)]):
            # The machine may be slow; the two seconds are for the long runs.
            assert failure(text, part, seconds=20) == "", repr(text)


def test_files_of_any_bytes_are_answered(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    texts = Texts(pytestconfig.getoption("--seed"), valid_texts())
    file = tmp_path / "t.rlx"
    for _ in range(20):
        file.write_bytes(texts.data())
        for diagnostic in loading.check(file):
            assert render(diagnostic)


def test_valid_texts_are_formatted_and_kept() -> None:
    for text in valid_texts()[::15]:
        assert failure(text, "format", seconds=20) == ""


def test_what_the_fuzzer_would_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        assert "bad" not in text, "bad"

    def endless(text: str) -> None:
        while True:
            pass

    monkeypatch.setitem(fuzzing._CHECKS, "parse", broken)
    assert failure("let a = bad;", "parse").startswith("parse: AssertionError bad")
    assert shrunk("let a = 1;\nlet b = (bad + 3);\nout b;", lambda t: failure(t, "parse") != "") == "bad"
    monkeypatch.setitem(fuzzing._CHECKS, "parse", endless)
    assert failure("x", "parse", seconds=0.05) == "parse: takes more than 0.05 s"


# Each was found by the fuzzer.
@pytest.mark.parametrize(
    "text",
    [
        '"\ud800"',
        'use "\ud800"; out y = 1;',
        'use "a\0b"; out y = 1;',
        "input x: [I32; 4]; out y = bincount(x, 55555555555555555555);",
        "const c = " + "[" * 65 + "1" + "]" * 65 + "; out c;",
        "out y = " + "9" * 100_000 + ";",
        "use attention; input x: [?, 8]; out c = attention::mha(x, 1, rope_base: 0);",
    ],
)
def test_found(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in PARTS:
            assert failure(text, part, seconds=20) == ""
