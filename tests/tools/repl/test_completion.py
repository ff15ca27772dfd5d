"""What Tab proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlxlang.tools.repl.commands import COMMANDS
from rlxlang.tools.repl.complete import completions
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Shell

TEXT = "config depth = 3; input image: [?n, 2]; param weight: [2] = ones(); /// Twice.\nfn double(value) { return value * 2; }"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    for name in ("model.rlx", "data.npy", "w.safetensors", "notes.txt", ".hidden.rlx"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.rlx").write_text("")
    found = Session()
    assert Shell(found, print).run(TEXT)
    return found


def proposed(session: Session, text: str) -> list[str]:
    """What a line becomes by each proposal."""
    return [text[: len(text) - p.typed] + p.text for p in completions(session, text, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":ty", [":type"]),
        (":DEV", [":device"]),
        (":load ", [":load model.rlx", ":load sub/", ":load w.safetensors"]),
        (":load sub/i", [":load sub/inner.rlx"]),
        (":load .h", [":load .hidden.rlx"]),
        (":load nowhere/", []),
        (":set im", [":set image = "]),
        (":set ?", [":set ?n = "]),
        (":set dep", [":set depth = "]),
        (":set image = randn", [":set image = randn"]),
        (":set image = ./d", [":set image = ./data.npy"]),
        (":device op", [":device opencl"]),
        (":explain E020", [f":explain E020{k}" for k in range(10)]),
        (":help ty", [":help type"]),
        (":nonsense x", []),
        (":run ", []),
    ],
)
def test_commands(session: Session, text: str, expected: list[str]) -> None:
    found = proposed(session, text)
    assert sorted(found) == expected or (text.startswith(":explain") and set(found) <= set(expected) and found)


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("dou", "double"),
        (":type ima", ":type image"),
        (":set image = zer", ":set image = zeros"),
        ("let y = image.softma", "let y = image.softmax"),
        ("softmax(image, ax", "softmax(image, axis: "),
        ("sc", "scan"),
        (":doc dou", ":doc double"),
        (":doc he_n", ":doc he_normal"),
        ("fn f(x) {\n  ret", "fn f(x) {\n  return"),
        ('use "sub/in', 'use "sub/inner.rlx'),
    ],
)
def test_the_language(session: Session, text: str, best: str) -> None:
    assert proposed(session, text)[0] == best


def test_every_command_is_proposed(session: Session) -> None:
    assert proposed(session, ":") == [f":{name}" for name in COMMANDS]


@pytest.mark.parametrize(
    "text", ["", ")", "let = ", '"open', "/* open", "\0", "x[", ":set = ", ":load ~nobody_of_this_name/", "é."]
)
def test_nothing_fails(session: Session, text: str) -> None:
    for place in range(len(text) + 1):
        completions(session, text, place)
