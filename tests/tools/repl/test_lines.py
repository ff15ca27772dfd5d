"""Sessions without a terminal: pipes, interrupts, exit codes."""

from __future__ import annotations

import io
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rlxlang.checkpoint import write_tensors
from rlxlang.tools.cli import main
from rlxlang.tools.repl import interrupt
from rlxlang.tools.repl.interrupt import interruptible, is_busy
from rlxlang.tools.repl.loop import make_robust, run_lines, stream_reader
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import Leave, Shell

MODEL = "config k = 2;\ninput x: [?n];\nparam w: [] = ones();\nlet y = x * w * k;\n"


def piped(monkeypatch: pytest.MonkeyPatch, text: str, *options: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["repl", *options])


def test_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert piped(monkeypatch, "1 + 1\nfn f(x) {\n return x; }\r\nf(4)\n2 *") == 1
    shown = capsys.readouterr().out
    assert shown.startswith("int 2\nint 4\nerror[E0110]")


@pytest.mark.parametrize(
    ("text", "code"), [("1", 0), ("", 0), ("nope\n1", 1), ("exit\nnope", 0), (":nope", 1), ("1 / 0", 1)]
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, text: str, code: int) -> None:
    assert piped(monkeypatch, text) == code


def test_a_model_with_configs_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, weights = tmp_path / "model.rlx", tmp_path / "model.safetensors"
    model.write_text(MODEL)
    write_tensors(weights, {"w": np.float32(5.0)}, {"format": "rlxlang-weights"})
    text = ":set x = [1, 2]\ny\n"
    assert piped(monkeypatch, text, str(model), "--set", "k=3", "--weights", str(weights)) == 0
    assert capsys.readouterr().out == (
        "model.rlx: 4 statements, 1 input, 1 param\nmodel.safetensors: 1 param\n[F32; 2] [15. 30.]\n"
    )


@pytest.mark.parametrize("content", [b"let y = ;", b"\xff\xfe", None])
def test_a_bad_model_leaves_an_empty_session(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.rlx"
    if content is not None:
        model.write_bytes(content)
    assert piped(monkeypatch, ":names\n", str(model)) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("error[E01")
    assert shown.endswith("nothing is defined yet\n")


def test_text_that_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b'"\xff"\n\x00\n1\n'), "utf-8")
    monkeypatch.setattr("sys.stdin", stream)
    assert main(["repl"]) == 1
    assert capsys.readouterr().out.endswith("int 1\n")


def test_an_encoding_without_the_characters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    make_robust(sys.stdin, out)
    out.write("…")
    out.seek(0)
    assert out.buffer.read() == b"\\u2026"


def test_prompts_are_shown_at_a_terminal_only() -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((Keyboard("a\n"), "rlx> "), (io.StringIO("a\n"), "")):
        out = io.StringIO()
        read = stream_reader(stream, out)
        assert read("rlx> ") == "a"
        assert out.getvalue() == expected
        assert read("") is None


def test_control_c_at_the_prompt_drops_what_was_typed() -> None:
    events = iter(["let y = (1", KeyboardInterrupt, "2", None])
    shown: list[str] = []

    def read_line(prompt: str) -> str | None:
        event = next(events)
        if event is KeyboardInterrupt:
            raise KeyboardInterrupt
        assert event is None or isinstance(event, str)
        return event

    run_lines(Shell(Session(), shown.append), read_line)
    assert "".join(shown) == "\nint 2\n"


# ------------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("problem", "shown"),
    [
        (KeyboardInterrupt(), "interrupted\n"),
        (KeyboardInterrupt("why"), "interrupted: why\n"),
        (MemoryError(), "error[E0800]: out of memory\n"),
        (MemoryError("1 TiB"), "error[E0800]: out of memory: 1 TiB\n"),
        (RecursionError(), "error[E0607]: the text is nested too deeply\n"),
        (OSError(2, "No such file", "a.npy"), "error[E0800]: `a.npy`: No such file\n"),
        (UnicodeError("bad"), "error[E0127]: not valid text: bad\n"),
    ],
)
def test_every_failure_becomes_a_message(problem: BaseException, shown: str) -> None:
    said: list[str] = []
    shell = Shell(Session(), said.append)
    with shell.guarded():
        raise problem
    assert "".join(said) == shown
    assert shell.failed


def test_a_fault_of_the_compiler_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    shell = Shell(Session(), said.append)
    monkeypatch.setattr("rlxlang.tools.repl.session.Session.evaluate", lambda *a: {}["missing"])
    assert shell.run("1")
    assert said[0].startswith("error[E0001]: KeyError: 'missing'")
    assert "RLX_DEBUG=1" in said[0]
    monkeypatch.setenv("RLX_DEBUG", "1")
    assert shell.run("1")
    assert said[1].startswith("Traceback")


@pytest.mark.parametrize("problem", [Leave(), BrokenPipeError()])
def test_what_is_no_failure_goes_on(problem: Exception) -> None:
    with pytest.raises(type(problem)), Shell(Session(), print).guarded():
        raise problem


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        "-" * 5000 + "1",
        "relu(" * 1000 + "ones([1])" + ")" * 1000,
        "[" * 2000 + "]" * 2000,
        "if true {" * 300 + "}" * 300,
        "1" + " + 1" * 2000,
        "2 ** " * 2000 + "1",
        "let x = 1; " * 500,
    ],
    ids=lambda text: text[:5],
)
def test_deep_nesting_ends_nothing(text: str) -> None:
    said: list[str] = []
    shell = Shell(Session(), said.append)
    assert shell.run(text)
    assert shell.run("1")
    assert said.pop() == "int 1\n"
    assert not any("E0001" in line for line in said)


# ------------------------------------------------------------------------------------------------ interrupts


def interrupted_while(work: object) -> str:
    """What an interrupt says that comes while `work` runs."""
    started = threading.Event()

    def begin() -> None:
        started.set()
        work()  # type: ignore[operator]

    def send() -> None:
        started.wait()
        time.sleep(0.05)
        signal.raise_signal(signal.SIGINT) if sys.platform == "win32" else signal.pthread_kill(
            threading.main_thread().ident or 0, signal.SIGINT
        )

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        interruptible(begin)
    thread.join()
    return str(caught.value)


def test_results_and_failures_pass() -> None:
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_python_code_is_ended() -> None:
    rounds = []

    def endless() -> None:
        while True:
            rounds.append(0)
            time.sleep(0.001)

    assert interrupted_while(endless) == ""
    count = len(rounds)
    time.sleep(0.02)
    assert len(rounds) == count
    assert not is_busy()


def test_what_cannot_be_ended_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "_PATIENCE", 0.01)
    release = threading.Lock()
    release.acquire()
    assert "cannot be stopped" in interrupted_while(release.acquire)
    assert is_busy()
    release.release()
    deadline = time.monotonic() + 5
    while is_busy() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_busy()


def test_a_thread_other_than_the_main_one_works_by_itself() -> None:
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(interruptible(lambda: threading.current_thread().name)), name="own"
    )
    thread.start()
    thread.join()
    assert found == ["own"]
