"""The record of one error or warning. Text is composed where the facts are; `render` lays it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rlxlang.diagnostics.codes import CODES
from rlxlang.diagnostics.source import Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Label:
    """A span with a brief remark; the primary one is the place of the mistake, others give context."""

    span: Span
    text: str = ""
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of a call chain, for example "in `f` called here".

    Args:
        span: the call.
        text: what messages say of it.
        name: the fn, or the instance of the block (`encoder.0`), that is called; empty for a loop.
        function: the fn or block whose definition that is.
    """

    span: Span
    text: str
    name: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning.

    Args:
        code: a key of `CODES`.
        severity: "error" or "warning".
        message: the one line that is shown if only one can be.
        labels: places, at most one of them primary; none for an unlocated diagnostic.
        notes: facts, such as both shapes.
        helps: what to write instead.
        chain: calls around the place, innermost first.

    Raises:
        ValueError: for an unknown code, a severity that does not fit it, or two primary labels.
    """

    code: str
    severity: Severity
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    chain: tuple[Frame, ...] = ()

    def __post_init__(self) -> None:
        row = CODES.get(self.code)
        if row is None:
            raise ValueError(f"unknown diagnostic code {self.code!r}")
        if row.is_warning != (self.severity == "warning"):
            raise ValueError(f"{self.code} cannot have severity {self.severity!r}")
        if sum(label.primary for label in self.labels) > 1:
            raise ValueError("a diagnostic has at most one primary label")

    def __str__(self) -> str:
        from rlxlang.diagnostics.render import render  # render knows this module

        return render(self)

    @property
    def is_error(self) -> bool:
        """Whether this is an error rather than a warning."""
        return self.severity == "error"

    @property
    def primary(self) -> Label | None:
        """The primary label, else the first one, else None."""
        for label in self.labels:
            if label.primary:
                return label
        return self.labels[0] if self.labels else None

    @property
    def span(self) -> Span | None:
        """The span of the primary label."""
        label = self.primary
        return label.span if label else None

    @property
    def help(self) -> str:
        """All help lines as one text, possibly empty."""
        return "\n".join(self.helps)

    def with_notes(self, *notes: str) -> Diagnostic:
        """The same with notes added."""
        return replace(self, notes=self.notes + notes)

    def with_helps(self, *helps: str) -> Diagnostic:
        """The same with help lines added."""
        return replace(self, helps=self.helps + helps)

    def with_labels(self, *labels: Label) -> Diagnostic:
        """The same with labels added."""
        return replace(self, labels=self.labels + labels)

    def with_chain(self, *frames: Frame) -> Diagnostic:
        """The same with outer calls added after those it has."""
        return replace(self, chain=self.chain + frames)


def _make(
    severity: Severity,
    code: str,
    message: str,
    span: Span | None,
    label: str,
    secondary: Iterable[tuple[Span, str]],
    notes: Iterable[str],
    helps: Iterable[str],
    chain: Iterable[Frame],
) -> Diagnostic:
    first = (Label(span, label, primary=True),) if span is not None else ()
    others = tuple(Label(place, text) for place, text in secondary)
    return Diagnostic(
        code=code,
        severity=severity,
        message=message,
        labels=first + others,
        notes=tuple(notes),
        helps=tuple(line for line in helps if line),
        chain=tuple(chain),
    )


def error(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    secondary: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    helps: Iterable[str] = (),
    chain: Iterable[Frame] = (),
) -> Diagnostic:
    """An error at `span` (None: unlocated); empty help lines are left out."""
    return _make("error", code, message, span, label, secondary, notes, helps, chain)


def not_utf8(name: str, problem: UnicodeDecodeError) -> Diagnostic:
    """The error E0127 for a file that was read as text."""
    line = problem.object[: problem.start].count(b"\n") + 1
    message = f"{name} is not valid UTF-8 at byte {problem.start}, in line {line}"
    return error("E0127", message, helps=["save it as UTF-8"])


def warning(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    secondary: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    helps: Iterable[str] = (),
    chain: Iterable[Frame] = (),
) -> Diagnostic:
    """A warning at `span` (None: unlocated); empty help lines are left out."""
    return _make("warning", code, message, span, label, secondary, notes, helps, chain)
