"""The exceptions a user can meet, and the collector that gathers many diagnostics into one of them."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

from rlxlang._version import __version__
from rlxlang.diagnostics.codes import CODES
from rlxlang.diagnostics.diagnostic import Diagnostic, error
from rlxlang.diagnostics.render import render, render_all
from rlxlang.diagnostics.source import Span


class RlxError(Exception):
    """Base of all errors; `str(e)` is the plain rendering of its diagnostics.

    Args:
        problem: a message, one diagnostic, or several.
        code: code of the diagnostic made from a message; the general code of the class when left out.
        span: place of the message.
        notes: notes of the message.
        helps: help lines of the message.
    """

    general_code: ClassVar[str] = "E0800"
    diagnostics: tuple[Diagnostic, ...]

    def __init__(
        self,
        problem: str | Diagnostic | Iterable[Diagnostic],
        *,
        code: str | None = None,
        span: Span | None = None,
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> None:
        if isinstance(problem, str):
            self.diagnostics = (error(code or self.general_code, problem, span, notes=notes, helps=helps),)
        elif isinstance(problem, Diagnostic):
            self.diagnostics = (problem,)
        else:
            self.diagnostics = tuple(problem)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return render_all(self.diagnostics)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.diagnostics,)


class RlxSyntaxError(RlxError, SyntaxError):
    """The text is not a program (E01).

    `filename`, `lineno`, `offset` and `text` are those of the first diagnostic.
    """

    general_code = "E0100"

    def __init__(
        self,
        problem: str | Diagnostic | Iterable[Diagnostic],
        *,
        code: str | None = None,
        span: Span | None = None,
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> None:
        super().__init__(problem, code=code, span=span, notes=notes, helps=helps)
        first = self.diagnostics[0] if self.diagnostics else None
        self.msg = f"{first.message} [{first.code}]" if first else ""
        place = first.span if first else None
        if place is not None:
            self.filename = place.source.display_name
            self.lineno, self.offset = place.source.line_column(place.start)
            self.end_lineno, self.end_offset = place.source.line_column(place.end)
            self.text = place.source.line_text(self.lineno)


class RlxNameError(RlxError):
    """A name, module or item that is unknown or used twice (E02)."""

    general_code = "E0200"


class RlxTypeError(RlxError, TypeError):
    """Types, dtypes or arguments that do not fit (E02, E03)."""

    general_code = "E0300"


class RlxShapeError(RlxError, ValueError):
    """Shapes or axes that do not fit (E04)."""

    general_code = "E0400"


class RlxValueError(RlxError, ValueError):
    """A value that is not allowed (E03, E06)."""

    general_code = "E0350"


class RlxTransformError(RlxError):
    """A transform that cannot be applied (E05)."""

    general_code = "E0500"


class RlxBackendError(RlxError):
    """A device that is missing or cannot run the graph (E07)."""

    general_code = "E0700"


class RlxRuntimeError(RlxError):
    """A failure during a run: guards, buffers, inputs (E08)."""

    general_code = "E0800"


class InternalError(RlxError, RuntimeError):
    """A fault of the compiler itself, never of the program (E0001).

    Args:
        problem: what happened, or ready diagnostics.
        stage: the part of the compiler that failed.
        dump: path of a file with the graph at that moment.
    """

    general_code = "E0001"

    def __init__(
        self,
        problem: str | Diagnostic | Iterable[Diagnostic],
        *,
        code: str | None = None,
        span: Span | None = None,
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
        stage: str = "",
        dump: str = "",
    ) -> None:
        facts = ["this is a bug in rlxlang, not in your program; please report it", *notes]
        if stage:
            facts.append(f"stage: {stage}")
        if dump:
            facts.append(f"graph: {dump}")
        facts.append(f"rlxlang {__version__}, Python {platform.python_version()}, {platform.platform()}")
        super().__init__(problem, code=code, span=span, notes=facts, helps=helps)


class RlxWarning(UserWarning):
    """Category of all warnings."""


_CLASSES: dict[str, type[RlxError]] = {
    cls.__name__: cls
    for cls in (
        RlxSyntaxError,
        RlxNameError,
        RlxTypeError,
        RlxShapeError,
        RlxValueError,
        RlxTransformError,
        RlxBackendError,
        RlxRuntimeError,
        InternalError,
    )
}


def error_class(code: str) -> type[RlxError]:
    """The exception class of an error code.

    Raises:
        KeyError: for the code of a warning, or no code.
    """
    return _CLASSES[CODES[code].exception]


def raise_all(diagnostics: Iterable[Diagnostic]) -> NoReturn:
    """Raise one exception with all errors among `diagnostics`, of the class of the first one.

    Raises:
        ValueError: when there is no error among them.
    """
    errors = tuple(diagnostic for diagnostic in diagnostics if diagnostic.is_error)
    if not errors:
        raise ValueError("no error to raise")
    raise error_class(errors[0].code)(errors)


def warn_all(diagnostics: Iterable[Diagnostic], *, stacklevel: int = 2) -> None:
    """Issue the warnings among `diagnostics` as `RlxWarning`."""
    for diagnostic in diagnostics:
        if not diagnostic.is_error:
            warnings.warn(render(diagnostic), RlxWarning, stacklevel=stacklevel + 1)


class Collector:
    """Gathers diagnostics: drops repetitions and sorts by position.

    Args:
        limit: how many errors, and how many warnings, are shown; the last one says how many are not.
    """

    def __init__(self, limit: int = 20) -> None:
        self.limit = limit
        self._found: dict[tuple[object, ...], Diagnostic] = {}

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep `diagnostic` unless one with its code stands at the same place already."""
        span = diagnostic.span
        place: object = diagnostic.message if span is None else (span.source.name, span.start, span.end)
        self._found.setdefault((diagnostic.code, place), diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add several."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def mark(self) -> dict[tuple[object, ...], Diagnostic]:
        """What has been gathered so far, for `rewind`."""
        return dict(self._found)

    def rewind(self, mark: dict[tuple[object, ...], Diagnostic]) -> None:
        """Forget what was gathered since `mark`."""
        self._found = dict(mark)

    @property
    def has_errors(self) -> bool:
        """Whether an error is among them."""
        return any(diagnostic.is_error for diagnostic in self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is to be shown, sorted; sources in order of appearance, unlocated diagnostics first."""
        files: dict[str, int] = {}
        for diagnostic in self._found.values():
            if diagnostic.span is not None:
                files.setdefault(diagnostic.span.source.name, len(files))

        def position(diagnostic: Diagnostic) -> tuple[int, int, int]:
            span = diagnostic.span
            return (-1, 0, 0) if span is None else (files[span.source.name], span.start, span.end)

        ordered = sorted(self._found.values(), key=position)
        errors = self._cap([d for d in ordered if d.is_error], "errors")
        warnings_ = self._cap([d for d in ordered if not d.is_error], "warnings")
        return tuple(sorted((*errors, *warnings_), key=position))

    def _cap(self, diagnostics: list[Diagnostic], what: str) -> list[Diagnostic]:
        more = len(diagnostics) - self.limit
        if more <= 0:
            return diagnostics
        shown = diagnostics[: self.limit]
        shown[-1] = shown[-1].with_notes(f"{more} more {what if more > 1 else what[:-1]} not shown")
        return shown

    def raise_if_errors(self) -> None:
        """Raise all errors as one exception, if there are any.

        Raises:
            RlxError: the class of the first error's code.
        """
        if self.has_errors:
            raise_all(self.diagnostics())
