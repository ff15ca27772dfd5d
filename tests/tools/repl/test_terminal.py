"""The prompt with keys from a pipe and a screen that shows nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Shell

pytest.importorskip("prompt_toolkit")

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from rlxlang.tools.repl import terminal
from rlxlang.tools.repl.terminal import prompt_session

ENTER, TAB, UP, CTRL_C, CTRL_D, RIGHT = "\r", "\t", "\x1b[A", "\x03", "\x04", "\x1b[C"


Until = Callable[[Buffer], bool]


class Terminal:
    """A session and the keys for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        self.session = Session()
        self.shell = Shell(self.session, self.shown.append)
        self.prompts: list[PromptSession[str]] = []
        monkeypatch.setattr(terminal, "prompt_session", self._prompt_session)

    def _prompt_session(self, *args: Any, **options: Any) -> PromptSession[str]:
        self.prompts.append(prompt_session(*args, **options))
        return self.prompts[-1]

    def type(self, *keys: str | Until, with_history: bool = False) -> str:
        """Press keys, then leave; gives what is shown. Completion and history take their time: a predicate waits for them."""
        self.shown.clear()
        self.prompts.clear()
        with create_pipe_input() as keyboard:

            def press() -> None:
                for key in (*keys, CTRL_D):
                    if isinstance(key, str):
                        keyboard.send_text(key)
                    else:
                        _wait(lambda key=key: self.prompts and key(self.prompts[-1].default_buffer))  # type: ignore[misc]

            thread = threading.Thread(target=press)
            thread.start()
            terminal.run_terminal(self.shell, with_history=with_history, input_=keyboard, output=DummyOutput())
            thread.join()
        return "".join(self.shown)


def _wait(until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not until() and time.monotonic() < deadline:
        time.sleep(0.002)


def text_is(text: str) -> Until:
    return lambda buffer: buffer.text == text


def proposes(buffer: Buffer) -> bool:
    """Whether a list of proposals is open."""
    return buffer.complete_state is not None and len(buffer.complete_state.completions) > 1


def remembers(count: int) -> Until:
    """Whether the buffer offers so many earlier lines; they are loaded in the background."""
    return lambda buffer: len(buffer._working_lines) > count


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "cache"))
    return Terminal(monkeypatch)


def test_lines_are_run(prompt: Terminal) -> None:
    assert prompt.type("1 + 2", ENTER, "2 *", ENTER, "3", ENTER) == "int 3\nint 6\n"


def test_several_lines_are_indented_and_a_brace_goes_back(prompt: Terminal) -> None:
    lines = ("fn f(x) {", "repeat 2 {", "let x = x * 2;", "}", "return x;", "}", "f(3)", ":list")
    shown = prompt.type(*(key for line in lines for key in (line, ENTER)))
    assert shown == "int 12\nfn f(x) {\n  repeat 2 {\n    let x = x * 2;\n  }\n  return x;\n}\n"


def test_an_empty_line_runs_a_text_that_is_not_complete(prompt: Terminal) -> None:
    assert "error[E0110]" in prompt.type("1 +", ENTER, ENTER)


def test_enter_in_the_middle_of_a_complete_text_runs_it(prompt: Terminal) -> None:
    assert prompt.type("1 + 2", "\x1b[D\x1b[D", ENTER) == "int 3\n"


def test_control_c_drops_the_line(prompt: Terminal) -> None:
    assert prompt.type("1 +", ENTER, "2", CTRL_C, "5", ENTER) == "int 5\n"


def test_control_d_deletes_in_a_line_and_leaves_at_an_empty_one(prompt: Terminal) -> None:
    assert prompt.type("12", "\x1b[D", CTRL_D, ENTER) == "int 1\n"


@pytest.mark.parametrize("word", ["exit", "quit()", ":quit", ":q"])
def test_leaving(prompt: Terminal, word: str) -> None:
    assert prompt.type(word, ENTER, "1", ENTER) == ""


def test_errors_do_not_end_it(prompt: Terminal) -> None:
    shown = prompt.type("nope", ENTER, ":nope", ENTER, "1", ENTER)
    assert "error[E0201]" in shown
    assert "error[E0200]" in shown
    assert shown.endswith("int 1\n")


def test_the_only_completion_is_written(prompt: Terminal) -> None:
    assert prompt.type("let some_long_name = 4", ENTER, "some_l", TAB, text_is("some_long_name"), ENTER) == "int 4\n"
    assert prompt.type(":typ", TAB, text_is(":type"), " some_long_name", ENTER) == "int\n"


def test_enter_takes_a_proposal_over(prompt: Terminal) -> None:
    shown = prompt.type("let name_a = 1; let name_b = 2", ENTER, "name_", TAB, proposes, TAB, ENTER, "+ 1", ENTER)
    assert shown == "int 2\n"


def test_earlier_lines(prompt: Terminal) -> None:
    assert prompt.type("1 + 1", ENTER, remembers(1), UP, ENTER) == "int 2\nint 2\n"


def test_lines_of_an_earlier_session(prompt: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prompt.type("fn f(x) {", ENTER, "return x; }", ENTER, "f(7)", ENTER, with_history=True) == "int 7\n"
    file = terminal.history_file()
    if os.name == "posix":
        assert file.stat().st_mode & 0o077 == 0
    again = Terminal(monkeypatch)
    assert again.type(remembers(2), UP, UP, UP, UP, ENTER, "f(8)", ENTER, with_history=True) == "int 8\n"


@pytest.mark.parametrize("content", [b"\xff\xfe broken", None])
def test_a_history_that_cannot_be_kept_is_no_harm(prompt: Terminal, content: bytes | None) -> None:
    file = terminal.history_file()
    file.parent.mkdir()
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert prompt.type("1", ENTER, with_history=True) == "int 1\n"


def test_where_the_history_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RLX_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert terminal.history_file() == tmp_path / "rlxlang" / "repl_history"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert terminal.history_file() == Path.home() / ".local" / "state" / "rlxlang" / "repl_history"


def test_colours() -> None:
    def coloured(text: str, number: int = 0) -> list[tuple[str, str]]:
        line = terminal._InputLexer().lex_document(Document(text))(number)
        return [(part[0], part[1]) for part in line if part[1].strip()]

    assert coloured("let x = 1")[0] == ("class:pygments.keyword.declaration", "let")
    assert coloured(":type relu(x)")[:2] == [
        ("class:pygments.keyword", ":type"),
        ("class:pygments.name.function", "relu"),
    ]
    assert coloured(":", 0) == [("class:pygments.keyword", ":")]
    assert coloured("fn f() {\n  return 1;", 1)[0][1] == "return"


def test_without_the_toolkit_lines_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlxlang.tools import repl

    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    assert not repl._has_toolkit()
    assert "pip install 'rlxlang[repl]'" in capsys.readouterr().err


def test_the_command_takes_a_terminal(prompt: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlxlang.tools.cli import main

    taken: list[dict[str, Any]] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(terminal, "run_terminal", lambda shell, **options: taken.append(options))
    assert main(["repl", "--no-history"]) == 0
    assert taken == [{"with_history": False}]
