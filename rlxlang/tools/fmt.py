"""`rlx fmt`: write models in the canonical layout, or say which are not."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rlxlang.diagnostics import Diagnostic, RlxError, RlxTypeError, error, not_utf8, render_all
from rlxlang.tools.cli import FAILED, OK, USAGE, wants_colour
from rlxlang.tools.files import models_in

EXAMPLES = """\
examples:
  rlx fmt model.rlx
  rlx fmt models/ --check      every .rlx file below; exit code 1 if one would change
  rlx fmt model.rlx --diff     what would change
  cat model.rlx | rlx fmt -    from standard input to standard output
"""

_STDIN = "-"
_STDIN_NAME = "<stdin>"


def format_source(source: str) -> str:
    """A text of the language in its canonical layout; see `rlxlang.frontend.format.format_text`.

    Args:
        source: the text.

    Raises:
        RlxTypeError: when it is no text.
        RlxSyntaxError: when it is not a program; with all syntax errors.
    """
    # The front end imports Lark, the public names load nothing heavy.
    from rlxlang.frontend.format import format_text

    if not isinstance(source, str):
        raise RlxTypeError(f"`format` takes a text, {type(source).__name__} is given")
    return format_text(source)


class _Text(NamedTuple):
    """A text before and after; `file` is None for standard input."""

    name: str
    file: Path | None
    before: str
    after: str

    @property
    def changes(self) -> bool:
        return self.before != self.after


class _Unreadable(Exception):
    """A file that cannot be read or written."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="models, folders of them, or `-` for standard input")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file would change")
    parser.add_argument("--diff", action="store_true", help="write nothing but the changes, as a unified diff")


def run(options: argparse.Namespace) -> int:
    """Format; returns the exit code: 1 for errors, and with `--check` or `--diff` where something would change."""
    if _STDIN in options.files and len(options.files) > 1:
        print("rlx fmt: `-` stands alone", file=sys.stderr)
        return USAGE
    code = OK
    looks_only: bool = options.check or options.diff
    for name, file in _files(options.files):
        try:
            text = _formatted(name, file)
            if looks_only:
                _show(text, diff=options.diff)
                code = FAILED if text.changes else code
            else:
                _write(text)
        except RlxError as problem:
            _report(problem.diagnostics)
            code = FAILED
        except _Unreadable as problem:
            _report((problem.diagnostic,))
            code = FAILED
    return code


def _files(names: list[str]) -> Iterator[tuple[str, Path | None]]:
    """Every file once, in order."""
    seen: set[Path] = set()
    for name in names:
        if name == _STDIN:
            yield _STDIN_NAME, None
            continue
        path = Path(name)
        for file in models_in(path):
            if file not in seen:
                seen.add(file)
                yield str(file), file


def _formatted(name: str, file: Path | None) -> _Text:
    from rlxlang.frontend.format import format_text

    try:
        data = sys.stdin.buffer.read() if file is None else file.read_bytes()
        before = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _Unreadable(not_utf8(name, problem)) from None
    except OSError as problem:
        raise _Unreadable(error("E0128", f"{name} cannot be read: {problem.strerror or problem}")) from None
    return _Text(name, file, before, format_text(before, name))


def _show(text: _Text, *, diff: bool) -> None:
    if not text.changes:
        return
    if not diff:
        print(f"would change {text.name}")
        return
    before, after = text.before.splitlines(keepends=True), text.after.splitlines(keepends=True)
    for line in difflib.unified_diff(before, after, text.name, text.name):
        whole = line.endswith("\n")
        sys.stdout.write(line if whole else line + "\n\\ No newline at end of file\n")


def _write(text: _Text) -> None:
    if text.file is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.after.encode("utf-8"))
        return
    if not text.changes:
        return
    try:
        _replace(text.file, text.after.encode("utf-8"))
    except OSError as problem:
        raise _Unreadable(error("E0128", f"{text.name} cannot be written: {problem.strerror or problem}")) from None
    print(f"changed {text.name}")


def _replace(file: Path, data: bytes) -> None:
    """Replace a file as a whole; a link stays a link, the mode stays."""
    target = file.resolve()
    mode = target.stat().st_mode & 0o7777
    if not os.access(target, os.W_OK):
        raise PermissionError(0, "Permission denied")
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _report(diagnostics: tuple[Diagnostic, ...]) -> None:
    sys.stdout.flush()
    print(render_all(diagnostics, colour=wants_colour(sys.stderr)), file=sys.stderr)
