"""A line that begins with a colon, and what all commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlxlang.diagnostics import RlxRuntimeError, Source, Span, error, error_class
from rlxlang.tools.repl import show

if TYPE_CHECKING:
    from rlxlang.tools.repl.shell import Shell

# What inputs and parameters are called: run-time names and members of families, too.
NAME = r"[A-Za-z_][\w.]*(?:\[\d+\])?"


@dataclass(frozen=True, slots=True)
class Line:
    """A command as typed.

    Attributes:
        source: The line.
        start: Where its arguments begin.
    """

    source: Source
    start: int

    @property
    def rest(self) -> str:
        """The arguments, without the blanks around them."""
        return self.source.text[self.start :].strip()

    def fail(self, code: str, message: str, help_: str = "") -> Exception:
        """The exception for arguments that make no sense."""
        text = self.source.text.rstrip()
        start = min(self.start, len(text))
        span = Span(source=self.source, start=start, end=max(start, len(text)))
        return error_class(code)(error(code, message, span, helps=(help_,)))


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        run: What it does.
        form: How it is written.
        doc: What it does, in a line.
        argument: What its argument is, for completion.
    """

    run: Callable[[Shell, Line], None]
    form: str
    doc: str
    argument: str = ""


def path_of(text: str) -> Path:
    """A path as typed, perhaps in quotes, perhaps from the home folder."""
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    try:
        return Path(bare).expanduser()
    except RuntimeError:  # no such user
        return Path(bare)


def write_text(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        RlxRuntimeError: It cannot be written.
    """
    if path.is_dir():
        raise RlxRuntimeError(f"`{path}` cannot be written: it is a folder")
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise RlxRuntimeError(f"`{path}` cannot be written: {why}") from None


def state(shell: Shell, name: str) -> str:
    """What an input or parameter holds."""
    session = shell.session
    entry = session.interface.input(name)
    array = session.values.arrays.get(name)
    if array is not None:
        return f"set, {show.type_text(array)}"
    if entry is not None and entry.kind == "param":
        if name in session.bound:
            return "bound"
        return f"starts with {entry.init}" if entry.init is not None else "no value"
    return "no value"
