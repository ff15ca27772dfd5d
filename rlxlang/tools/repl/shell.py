"""One text in, text out: statements, expressions and commands, and every failure as a message that ends nothing."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rlxlang.diagnostics import (
    Diagnostic,
    InternalError,
    Label,
    RlxError,
    RlxRuntimeError,
    RlxWarning,
    Source,
    Span,
    error,
    render_all,
)
from rlxlang.frontend import ast
from rlxlang.tools.repl import program, show
from rlxlang.tools.repl.entries import Entry
from rlxlang.tools.repl.reading import is_complete, read
from rlxlang.tools.repl.session import Result, Session

_BIND_HELP = re.compile(r'`bind=\{"(\w+)".*')
_CONFIG_HELP = re.compile(r"give it: `(\w+)=…`")
_LEAVING = ("exit", "quit", "exit()", "quit()")
_HELP = ("help", "help()", "?")


class Leave(Exception):
    """The user has asked to leave."""


@dataclass(eq=False)
class Shell:
    """A session with an outlet.

    Attributes:
        session: What is defined.
        write: Takes the text to show, line ends included.
        colour: Whether messages have colours.
        failed: Whether anything has gone wrong so far.
        undo: Earlier programs, the last one last.
        last_code: Code of the first of the diagnostics that were shown last.
    """

    session: Session
    write: Callable[[str], object]
    colour: bool = False
    failed: bool = False

    def __post_init__(self) -> None:
        self.undo: list[program.Text] = []
        self.last_code = ""

    def say(self, text: str) -> None:
        """Show a text on lines of its own."""
        self.write(f"{text}\n")

    def wants_more(self, text: str) -> bool:
        """Whether more lines are to be read before a text is run."""
        return not is_command(text) and text.strip() not in _LEAVING and not is_complete(text)

    def run(self, text: str) -> bool:
        """Run what was typed; False when the user leaves. No failure of it is raised."""
        try:
            with self.guarded():
                self._run(text)
        except Leave:
            return False
        return True

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Show whatever fails inside as a message; only `Leave` and a closed pipe go on."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RlxWarning)
            warnings.showwarning = lambda message, *rest, **named: self.say(str(message))
            try:
                yield
            except (Leave, BrokenPipeError):
                raise
            except RlxError as problem:
                self.report(problem.diagnostics)
            except KeyboardInterrupt as problem:
                self.failed = True
                self.say(f"interrupted: {problem}" if str(problem) else "interrupted")
            except MemoryError as problem:
                self.report(
                    RlxRuntimeError(f"out of memory: {problem}" if str(problem) else "out of memory").diagnostics
                )
            except RecursionError:
                self.report([error("E0607", "the text is nested too deeply")])
            except OSError as problem:
                what = f"`{problem.filename}`: " if problem.filename else ""
                self.report(RlxRuntimeError(f"{what}{problem.strerror or problem}").diagnostics)
            except UnicodeError as problem:
                self.report([error("E0127", f"not valid text: {problem}")])
            except Exception as problem:  # the last line of defence: a session must not die of a fault in the compiler
                if os.environ.get("RLX_DEBUG"):
                    import traceback

                    self.write(traceback.format_exc())
                fault = InternalError(f"{type(problem).__name__}: {problem}", helps=("RLX_DEBUG=1 shows where",))
                self.report(fault.diagnostics)

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Show what is wrong, with the lines as they were typed."""
        found = list(diagnostics)
        self.failed = self.failed or any(d.is_error for d in found)
        if found:
            self.last_code = found[0].code
            self.say(render_all([self._as_typed(d) for d in found], colour=self.colour))

    def _as_typed(self, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic that points into what was typed: parts of a line are parsed with the rest of it blanked."""

        def moved(span: Span) -> Span:
            typed = self.session.sources.get(span.source.name)
            if typed is None:
                return span
            size = len(typed.text)  # a `;` that was supplied lies behind it
            return Span(source=typed, start=min(span.start, size), end=min(span.end, size))

        labels = tuple(Label(moved(x.span), x.text, x.primary) for x in diagnostic.labels)
        chain = tuple(replace(f, span=moved(f.span)) for f in diagnostic.chain)
        helps = diagnostic.helps
        if diagnostic.code == "E0215":
            helps = tuple(_BIND_HELP.sub(r"`:bind \1 = [1.0, 2.0]`", h) for h in helps)
        elif diagnostic.code == "E0353":
            helps = tuple(_CONFIG_HELP.sub(r"write a default, `= 1`, which `:set \1 = …` replaces", h) for h in helps)
        return replace(diagnostic, labels=labels, chain=chain, helps=helps)

    # ------------------------------------------------------------------ what was typed
    def _run(self, text: str) -> None:
        if not text.strip():
            return
        if is_command(text) or text.strip() in _HELP:
            from rlxlang.tools.repl.commands import run_command

            run_command(self, text if is_command(text) else ":help")
            return
        if text.strip() in _LEAVING:
            raise Leave
        source = self.session.source(text)
        reading = read(source)
        program.raise_errors(reading.diagnostics)
        self.report(reading.diagnostics)
        if reading.statements:
            self.add(reading.statements, source)
        if reading.expression is not None:
            self.show(self.session.evaluate(reading.expression, source.name))

    def add(self, statements: tuple[ast.Statement, ...], source: Source) -> None:
        """Define something, and say what has made way for it."""
        before = self.session.text
        added = self.session.add(statements, source)
        self.undo.append(before)
        self.report(added.warnings)
        self.tell_gone(added, statements)

    def tell_gone(self, added: program.Added, new: Iterable[ast.Statement] = ()) -> None:
        """Say which statements no longer hold, and which arrays no longer fit."""
        from rlxlang.tools.repl.entries import declared_names

        defined = {name for statement in new for name in declared_names(statement)}
        for entry in added.gone:
            if not entry.names <= defined:
                self.say(f"dropped, since it no longer holds: {_first_line(entry)}")
        for name in self.session.values.forget_misfits(self.session.interface.inputs):
            self.say(f"the value of `{name}` no longer fits and is forgotten")

    def show(self, result: Result) -> None:
        """Show a value and what is to be said about it."""
        self.report(result.warnings)
        self.say(show.value_text(result.value, result.arrays, result.sizes))

    def expression(self, source: Source, start: int, end: int | None = None) -> ast.Expr:
        """The expression that stands in a part of a line.

        Raises:
            RlxError: There is none, or it is wrong.
        """
        end = len(source.text) if end is None else end
        blanks = "".join("\n" if char == "\n" else " " for char in source.text[:start])
        part = Source(source.name, blanks + source.text[start:end])
        if not part.text.strip():
            raise RlxError(error("E0110", "an expression is missing", _at(source, end)))
        reading = read(part)
        program.raise_errors(reading.diagnostics)
        if reading.expression is None or reading.statements:
            problem = error("E0110", "an expression is expected here", Span(source=source, start=start, end=end))
            raise RlxError(problem)
        return reading.expression


def _at(source: Source, place: int) -> Span:
    return Span(source=source, start=place, end=place)


def _first_line(entry: Entry) -> str:
    first, _, rest = entry.statement.span.text.partition("\n")
    return first + (" …" if rest else "")


def is_command(text: str) -> bool:
    """Whether a text is a command rather than a part of the language."""
    return text.lstrip().startswith(":")
