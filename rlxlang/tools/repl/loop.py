"""Sessions without a terminal, or without prompt_toolkit: lines in, text out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from rlxlang.tools.repl.shell import Shell

PROMPT, CONTINUATION = "rlx> ", "...> "


def run_lines(shell: Shell, read_line: Callable[[str], str | None]) -> None:
    """Run a session until the lines end.

    Args:
        shell: The session.
        read_line: Gives the next line for a prompt, None at the end; may raise KeyboardInterrupt.
    """
    lines: list[str] = []
    while True:
        try:
            line = read_line(CONTINUATION if lines else PROMPT)
            if line is None:
                break
            lines.append(line)
            text = "\n".join(lines)
            if line.strip() and shell.wants_more(text):
                continue
            lines = []
            if not shell.run(text):
                return
        except KeyboardInterrupt:
            lines = []
            shell.say("")
    if lines:
        shell.run("\n".join(lines))


def stream_reader(stream: TextIO, out: TextIO) -> Callable[[str], str | None]:
    """Reads lines of a stream; prompts are shown only when it is a terminal."""
    shown = stream.isatty()

    def read_line(prompt: str) -> str | None:
        if shown:
            out.write(prompt)
            out.flush()
        line = stream.readline()
        return line.rstrip("\r\n") if line else None

    return read_line


def make_robust(*streams: TextIO) -> None:
    """Let characters that an encoding does not have be shown as escapes, and bytes that are no text be replaced."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace" if stream is sys.stdin else "backslashreplace")
