"""Widths of texts without a font at hand: the advance widths of Helvetica, which Arial and Liberation Sans share."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Thousandths of the size of the font, for the characters from the space to the tilde.
_REGULAR = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556,
    278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,
    611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833,
    556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_BOLD = (
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556,
    333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667,
    611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889,
    611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
)  # fmt: skip
_OTHERS = {"·": 333, "×": 584, "…": 1000, "≤": 549, "→": 1000, "↑": 600, "−": 584, "–": 556}


@lru_cache(maxsize=4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Width of a text in pixels.

    Args:
        text: One line.
        size: Of the font, in pixels.
        bold: Whether it is set in bold letters.
    """
    table = _BOLD if bold else _REGULAR
    return sum(_advance(c, table) for c in text) * size / 1000


def _advance(char: str, table: tuple[int, ...]) -> int:
    code = ord(char)
    if 32 <= code < 127:
        return table[code - 32]
    if char in _OTHERS:
        return _OTHERS[char]
    if unicodedata.combining(char) or char == "\u200d":
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 1100
    return 722
