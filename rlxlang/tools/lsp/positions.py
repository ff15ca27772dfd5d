"""Offsets of a text as the lines and characters of the protocol, in the units that the client counts."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]
_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    r"""The lines of a text. A line ends at `\n`, `\r\n` or `\r`, as the protocol says.

    Args:
        text: The text.
        encoding: What a character of a position counts: code units of UTF-16 unless client and server agree on others.
    """

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self.text, self.encoding = text, encoding
        ends = [match.span() for match in _LINE_END.finditer(text)]
        self.starts = [0, *(end for _, end in ends)]
        self._ends = [*(start for start, _ in ends), len(text)]
        self._plain = text.isascii() or encoding == "utf-32"

    def position(self, offset: int) -> tuple[int, int]:
        """Line and character of an offset, both from 0."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        return line, offset - start if self._plain else self._units(self.text[start:offset])

    def offset(self, line: int, character: int) -> int:
        """The offset of a position; a position behind the end of its line or of the text is that end."""
        if line < 0:
            return 0
        if line >= len(self.starts):
            return len(self.text)
        start, end = self.starts[line], self._ends[line]
        if self._plain:
            return min(start + max(character, 0), end)
        left = character
        for offset in range(start, end):
            left -= self._units(self.text[offset])
            if left < 0:
                return offset
        return end

    def line_end(self, line: int) -> int:
        """The offset of the end of a line, before its line end."""
        return self._ends[line]

    def _units(self, text: str) -> int:
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(char > "\uffff" for char in text)
