"""Offsets and positions: three encodings, three line ends, characters outside of the basic plane."""

from __future__ import annotations

import pytest

from rlxlang.tools.lsp.positions import Encoding, Lines

TEXT = "let é = 1;\r\n// 🙂🙂 b\nx\ry\n"


@pytest.mark.parametrize(
    ("encoding", "place", "expected"),
    [
        ("utf-16", "é", (0, 4)),
        ("utf-16", "= 1", (0, 6)),
        ("utf-8", "= 1", (0, 7)),
        ("utf-32", "= 1", (0, 6)),
        ("utf-16", "b\n", (1, 8)),
        ("utf-8", "b\n", (1, 12)),
        ("utf-32", "b\n", (1, 6)),
        ("utf-16", "x\r", (2, 0)),
        ("utf-16", "y\n", (3, 0)),
    ],
)
def test_position_and_back(encoding: Encoding, place: str, expected: tuple[int, int]) -> None:
    lines = Lines(TEXT, encoding)
    offset = TEXT.index(place)
    assert lines.position(offset) == expected
    assert lines.offset(*expected) == offset


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_every_offset_outside_of_line_ends_comes_back(encoding: Encoding) -> None:
    lines = Lines(TEXT, encoding)
    for offset in range(len(TEXT) + 1):
        if TEXT[offset - 1 : offset + 1] != "\r\n":
            assert lines.offset(*lines.position(offset)) == offset


def test_positions_beyond_a_line_or_the_text_are_its_end() -> None:
    lines = Lines(TEXT)
    assert lines.offset(0, 99) == TEXT.index("\r\n")
    assert lines.offset(99, 0) == len(TEXT)
    assert lines.offset(-1, 0) == 0
    assert lines.offset(1, 4) == TEXT.index("🙂")  # between the code units of a pair: before the character
    assert lines.position(99) == (4, 0)


def test_other_separators_end_no_line() -> None:
    assert Lines("a\u2028b\x0bc\x0cd").position(6) == (0, 6)
