"""Texts and places in them: every other layer points at source code with these two records."""

from __future__ import annotations

import bisect
import re
import unicodedata
from dataclasses import dataclass, field

_NEWLINE = re.compile("\n")
_BOM = "\ufeff"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
# Categories that move the cursor, reorder text or have no glyph: shown as escapes so that nothing can hide.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER = "\u200d"


def is_printable(char: str) -> bool:
    """Whether `char` may be shown as it is (joiners of emoji sequences may)."""
    if char.isascii():
        return char.isprintable()
    return char == _JOINER or unicodedata.category(char) not in _UNPRINTABLE


def escape_char(char: str) -> str:
    """The escape of one character, as the language writes it in strings."""
    return _ESCAPES.get(char) or f"\\u{{{ord(char):x}}}"


def escape(text: str, *, keep: str = "") -> str:
    """`text` with control, format and unassigned characters escaped; characters in `keep` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or is_printable(c) else escape_char(c) for c in text)


@dataclass(frozen=True, slots=True)
class Source:
    """A named text: a file, a string, a cell.

    Args:
        name: what to call it, usually a path; escaped wherever it is displayed.
        text: the decoded text; offsets count its characters.
    """

    name: str
    text: str
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = (0, *(match.end() for match in _NEWLINE.finditer(self.text)))
        object.__setattr__(self, "_starts", starts)

    @property
    def display_name(self) -> str:
        """The name, safe to print."""
        return escape(self.name) or "<text>"

    @property
    def line_count(self) -> int:
        """Number of lines, at least 1."""
        return len(self._starts)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1; a byte order mark does not count."""
        line = bisect.bisect_right(self._starts, max(offset, 0))
        column = max(offset, 0) - self._starts[line - 1] + 1
        if line == 1 and column > 1 and self.text.startswith(_BOM):
            column -= 1
        return line, column

    def line_start(self, line: int) -> int:
        """Offset of the first character of a line counted from 1."""
        return self._starts[line - 1]

    def line_text(self, line: int) -> str:
        """A line counted from 1, without its line end."""
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return self.text[start:end].removesuffix("\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open range of characters of a source; empty where something is missing.

    Raises:
        ValueError: when `0 <= start <= end` does not hold.
    """

    source: Source
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a span: {self.start}..{self.end}")

    def __repr__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"Span({self.source.display_name}:{line}:{column}, {self.start}..{self.end})"

    @property
    def text(self) -> str:
        """The characters covered."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.source.line_column(self.start)[1]

    @property
    def location(self) -> str:
        """`file:line:column`, safe to print."""
        line, column = self.source.line_column(self.start)
        return f"{self.source.display_name}:{line}:{column}"

    def to(self, other: Span) -> Span:
        """The smallest span of this source that covers both."""
        return Span(source=self.source, start=min(self.start, other.start), end=max(self.end, other.end))
