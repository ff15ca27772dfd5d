"""Text of diagnostics, plain or coloured: headline, excerpt with underlined spans, notes, helps, calls."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rlxlang.diagnostics.diagnostic import Diagnostic, Frame, Label
from rlxlang.diagnostics.source import Source, escape, escape_char, is_printable

TAB_WIDTH = 4
_WINDOW = 140  # columns of a source line that are shown; longer lines are cut around the span
_MARGIN = 30  # columns kept before the span in a cut line
_CHAIN_HEAD, _CHAIN_TAIL = 6, 2  # calls shown of a long chain
_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "bold": "\x1b[1m",
    "frame": "\x1b[1;34m",
    "secondary": "\x1b[1;34m",
    "help": "\x1b[1;36m",
}
_RESET = "\x1b[0m"


class _Mark(NamedTuple):
    """A stretch to underline within one displayed line, in columns from 0; `text` may be empty."""

    start: int
    end: int
    text: str
    primary: bool


_NOTHING = _Mark(0, 0, "", primary=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """A displayed source line: what is printed, and the column at which each of its characters starts."""

    text: str
    columns: tuple[int, ...]

    def column(self, index: int) -> int:
        return self.columns[min(max(index, 0), len(self.columns) - 1)]


def display_width(text: str) -> int:
    """Terminal columns that `text` takes; wide characters take two, combining ones none."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cells(line: str) -> _Line:
    pieces: list[str] = []
    columns: list[int] = []
    column = 0
    for index, char in enumerate(line):
        columns.append(column)
        if char == "\t":
            piece = " " * (TAB_WIDTH - column % TAB_WIDTH)
        elif char == "\ufeff" and index == 0:
            piece = ""
        elif is_printable(char):
            piece = char
        else:
            piece = escape_char(char)
        pieces.append(piece)
        column += display_width(piece)
    columns.append(column)
    return _Line("".join(pieces), tuple(columns))


def _safe(text: str) -> str:
    return escape(text, keep="\n")


class _Excerpt:
    """The lines of one source that the labels touch, each with its marks."""

    def __init__(self, source: Source, labels: Iterable[Label]) -> None:
        self.source = source
        self.lines: dict[int, _Line] = {}
        self.marks: dict[int, list[_Mark]] = {}
        for label in labels:
            self._add(label)

    def _line(self, number: int) -> _Line:
        if number not in self.lines:
            self.lines[number] = _cells(self.source.line_text(number))
        return self.lines[number]

    def _add(self, label: Label) -> None:
        span = label.span
        first, _ = self.source.line_column(span.start)
        # A span that ends with a line end belongs to the line before it.
        last_offset = span.end - 1 if span.end > span.start else span.end
        last, _ = self.source.line_column(last_offset)
        for number in {first, last}:
            line = self._line(number)
            offset = self.source.line_start(number)
            length = len(self.source.line_text(number))
            start = span.start - offset if number == first else _indent(self.source.line_text(number))
            end = span.end - offset if number == last else length
            low = line.column(min(start, length))
            high = max(line.column(min(end, length)), low + 1)
            self.marks.setdefault(number, []).append(
                _Mark(low, high, label.text if number == last else "", label.primary)
            )

    def render(self, gutter: int, paint: _Painter) -> list[str]:
        out = []
        blank = paint.frame(" " * gutter + " |")
        before = 0
        for number in sorted(self.lines):
            if before and number == before + 2:
                between = _cells(self.source.line_text(number - 1)).text
                out.append(_source_row(number - 1, _cut(between, [_NOTHING])[0], gutter, paint))
            elif before and number > before + 2:
                out.append(paint.frame("..."))
            before = number
            line, marks = self.lines[number], self.marks[number]
            text, marks = _cut(line.text, marks)
            out.append(_source_row(number, text, gutter, paint))
            out.extend((blank + " " + row).rstrip() for row in _underlines(marks, paint))
        return out


class _Painter:
    """Adds escape sequences, or nothing."""

    def __init__(self, colour: bool, severity: str) -> None:
        self.colour = colour
        self.severity = severity

    def __call__(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self.colour and text else text

    def frame(self, text: str) -> str:
        return self(text, "frame")

    def mark(self, text: str, primary: bool) -> str:
        return self(text, self.severity if primary else "secondary")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _source_row(number: int, text: str, gutter: int, paint: _Painter) -> str:
    return (paint.frame(f"{number:>{gutter}} |") + " " + text).rstrip()


def _cut(text: str, marks: list[_Mark]) -> tuple[str, list[_Mark]]:
    """Cut a very long line to a window around its most important mark."""
    if display_width(text) <= _WINDOW:
        return text, marks
    anchor = next((mark for mark in marks if mark.primary), marks[0])
    low = max(0, anchor.start - _MARGIN)
    high = low + _WINDOW
    column = 0
    kept = []
    for char in text:
        if low <= column < high:
            kept.append(char)
        column += _char_width(char)
    head, tail = ("…" if low else ""), ("…" if column > high else "")
    shift = low - len(head)
    moved = [
        _Mark(max(mark.start, low) - shift, min(mark.end, high) - shift, mark.text, mark.primary)
        for mark in marks
        if mark.start < high and mark.end > low
    ]
    return head + "".join(kept) + tail, moved


def _underlines(marks: list[_Mark], paint: _Painter) -> list[str]:
    """Rows below a source line: one with all marks, then the texts that did not fit on it."""
    marks = sorted(marks, key=lambda mark: (mark.start, mark.end))
    width = max(mark.end for mark in marks)
    chars = [" "] * width
    kinds = [False] * width
    for mark in sorted(marks, key=lambda mark: mark.primary):
        for column in range(mark.start, mark.end):
            chars[column] = "^" if mark.primary else "-"
            kinds[column] = mark.primary
    texts = [mark for mark in marks if mark.text]
    inline: _Mark | None = None
    if texts and texts[-1].end == width and all(mark.end <= texts[-1].start for mark in texts[:-1]):
        inline = texts.pop()
    rows = [_paint_marks(chars, kinds, paint)]
    if inline is not None:
        first, *rest = _safe(inline.text).split("\n")
        rows[0] += " " + paint.mark(first, inline.primary)
        rows.extend(" " * (inline.end + 1) + paint.mark(line, inline.primary) for line in rest)
    first_hanging = True
    while texts:
        hanging = texts.pop()
        stems = sorted({mark.start for mark in texts if mark.start < hanging.start})
        if first_hanging:
            rows.append(_stems(sorted({*stems, hanging.start}), paint))
            first_hanging = False
        lead = _stems(stems, paint)
        pad = " " * (hanging.start - (stems[-1] + 1 if stems else 0))
        lines = _safe(hanging.text).split("\n")
        rows.extend(lead + pad + paint.mark(line, hanging.primary) for line in lines)
    return rows


def _paint_marks(chars: list[str], kinds: list[bool], paint: _Painter) -> str:
    if not paint.colour:
        return "".join(chars)
    runs = itertools.groupby(zip(chars, kinds, strict=True))
    parts = [(cell, len(list(group))) for cell, group in runs]
    return "".join(char * count if char == " " else paint.mark(char * count, kind) for (char, kind), count in parts)


def _stems(columns: list[int], paint: _Painter) -> str:
    row = ""
    at = 0
    for column in columns:
        row += " " * (column - at) + paint.frame("|")
        at = column + 1
    return row


def _shown_chain(chain: tuple[Frame, ...]) -> list[Frame | str]:
    if len(chain) <= _CHAIN_HEAD + _CHAIN_TAIL + 1:
        return list(chain)
    hidden = len(chain) - _CHAIN_HEAD - _CHAIN_TAIL
    return [*chain[:_CHAIN_HEAD], f"{hidden} more calls", *chain[-_CHAIN_TAIL:]]


def _gutter(labels: Iterable[Label]) -> int:
    """Digits of the largest line number."""
    last = 1
    for label in labels:
        last = max(last, label.span.source.line_column(label.span.end)[0])
    return len(str(last))


def _group(labels: tuple[Label, ...]) -> dict[str, list[Label]]:
    """Labels by source, the source of the primary label first."""
    ordered = sorted(labels, key=lambda label: not label.primary)
    groups: dict[str, list[Label]] = {}
    for label in ordered:
        groups.setdefault(label.span.source.name, []).append(label)
    return groups


def _remark(kind: str, text: str, gutter: int, paint: _Painter, style: str) -> list[str]:
    first, *rest = _safe(text).split("\n")
    lead = " " * gutter + " "
    rows = [paint.frame(lead + "=") + " " + paint(kind, style) + ": " + first]
    return rows + [lead + " " * (len(kind) + 4) + line for line in rest]


def render(diagnostic: Diagnostic, *, colour: bool = False) -> str:
    """The text of one diagnostic, without a final newline.

    Args:
        diagnostic: what to show.
        colour: add ANSI escape sequences.
    """
    paint = _Painter(colour, diagnostic.severity)
    headline = paint(f"{diagnostic.severity}[{diagnostic.code}]", diagnostic.severity)
    out = [headline + paint(": " + _safe(diagnostic.message), "bold")]
    frames = _shown_chain(diagnostic.chain)
    frame_labels = [Label(frame.span) for frame in frames if isinstance(frame, Frame)]
    gutter = _gutter([*diagnostic.labels, *frame_labels])
    blank = paint.frame(" " * gutter + " |")
    arrow = "-->"
    for labels in _group(diagnostic.labels).values():
        out.append(paint.frame(" " * gutter + arrow) + " " + labels[0].span.location)
        out.append(blank)
        out.extend(_Excerpt(labels[0].span.source, labels).render(gutter, paint))
        arrow = ":::"
    remarks: list[str] = []
    for note in diagnostic.notes:
        remarks.extend(_remark("note", note, gutter, paint, "bold"))
    for line in diagnostic.helps:
        remarks.extend(_remark("help", line, gutter, paint, "help"))
    if remarks and diagnostic.labels:
        out.append(blank)
    out.extend(remarks)
    for frame in frames:
        if isinstance(frame, str):
            out.append(paint.frame(" " * gutter + ":::") + " " + frame)
            continue
        out.append(paint.frame(" " * gutter + ":::") + f" {frame.span.location}: " + _safe(frame.text))
        out.append(blank)
        out.extend(_Excerpt(frame.span.source, [Label(frame.span)]).render(gutter, paint))
    return "\n".join(out)


def render_all(diagnostics: Iterable[Diagnostic], *, colour: bool = False) -> str:
    """The texts of several diagnostics, separated by empty lines."""
    return "\n\n".join(render(diagnostic, colour=colour) for diagnostic in diagnostics)
