"""From pieces to lines: which groups fit, and where every line begins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rlxlang.frontend.format_pieces import ENDS_LINE, MAY_BREAK, Kind, Piece

WIDTH = 100
STEP = 2
# Deeper nesting does not move further right, so the output stays linear in the size of the text.
MAX_INDENT = 60

_NO_SPACE_AFTER = "([ "
_NO_SPACE_BEFORE = ",;)]."


def render(pieces: Sequence[Piece]) -> str:
    """Lay out the pieces.

    A group stays on its line when it fits together with what follows it up to the next possible break (after Oppen,
    "Prettyprinting", 1980); the widths of all groups come from running sums, so the work is linear.
    """
    return _Renderer(pieces).run()


def _broken(pieces: Sequence[Piece]) -> tuple[set[int], dict[int, int]]:
    """Openings of the groups that hold the end of a line, and where what an opening or a `FILL` begins ends.

    A group ends with its closing, what follows a `FILL` with the next break of the same group or with the group.
    """
    broken: set[int] = set()
    ends: dict[int, int] = {}
    around: list[int] = []
    fills: list[int | None] = []
    for at, piece in enumerate(pieces):
        if fills and fills[-1] is not None and piece.kind in (Kind.FILL, Kind.LINE, Kind.SOFT, Kind.CLOSE):
            ends[fills[-1]] = at
            fills[-1] = None
        if piece.kind is Kind.OPEN:
            around.append(at)
            fills.append(None)
        elif piece.kind is Kind.CLOSE:
            inner = around.pop()
            fills.pop()
            ends[inner] = at
            if inner in broken and around:
                broken.add(around[-1])
        elif piece.kind is Kind.FILL and fills:
            fills[-1] = at
        elif around and piece.kind in ENDS_LINE:
            broken.add(around[-1])
    return broken, ends


def _flat_width(piece: Piece) -> int:
    if piece.kind is Kind.INLINE:
        return len(piece.text) + 2
    if piece.kind in (Kind.LINE, Kind.FILL, Kind.SPACE, Kind.JOINT):
        return 1
    return len(piece.text) if piece.kind is Kind.TEXT else 0


def _widths_to_break(pieces: Sequence[Piece]) -> list[int]:
    """For every piece the width from there to the next place where a line may end."""
    found = [0] * (len(pieces) + 1)
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if piece.kind in MAY_BREAK:
            continue
        found[at] = found[at + 1] + (1 if piece.kind is Kind.COMMA else _flat_width(piece))
    return found


class _Renderer:
    """One pass over the pieces; the current line is `_line`, finished ones are in `_lines`."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._forced, self._ends = _broken(pieces)
        self._forced_before = [0, *accumulate(int(at in self._forced) for at in range(len(pieces)))]
        self._sums = [0, *accumulate(_flat_width(piece) for piece in pieces)]
        self._to_break = _widths_to_break(pieces)
        self._lines: list[str] = []
        self._line: list[str] = []
        self._column = 0
        self._level = 0
        self._base = 0  # the level of the statement
        self._is_broken: list[bool] = []
        self._must_break = False  # a comment has ended the line
        self._after_inline = False
        self._after_joint = False

    def run(self) -> str:
        """The text of all pieces."""
        for at, piece in enumerate(self._pieces):
            match piece.kind:
                case Kind.TEXT:
                    self._text(piece.text)
                case Kind.OPEN:
                    self._open(at)
                case Kind.CLOSE:
                    self._is_broken.pop()
                case Kind.INDENT:
                    self._level += 1
                case Kind.DEDENT:
                    self._level -= 1
                case Kind.LINE | Kind.SOFT | Kind.FILL | Kind.SPACE | Kind.JOINT:
                    self._blank(at, piece.kind)
                case Kind.COMMA:
                    if self._is_broken[-1]:
                        self._write(",")
                case Kind.HARD:
                    self._hard(piece.text)
                case Kind.INLINE:
                    self._inline(piece.text)
                case Kind.TRAILING:
                    self._trailing(piece.text)
                case Kind.OWN:
                    self._own(piece.text)
        self._end_line()
        return "\n".join([*self._lines, ""]) if self._lines else ""

    def _write(self, text: str) -> None:
        self._line.append(text)
        self._column += len(text)

    def _end_line(self) -> None:
        text = "".join(self._line).rstrip()
        if text:
            self._lines.append(text)
        self._line = []
        self._column = 0

    def _newline(self, *, continues: bool = False) -> None:
        """Begin a line; one that `continues` a statement stands deeper than its first word."""
        deeper = continues and self._level == self._base and not self._after_joint
        level = self._level + (1 if deeper else 0)
        self._end_line()
        self._must_break = self._after_inline = False
        self._write(" " * min(level * STEP, MAX_INDENT))

    def _text(self, text: str) -> None:
        if self._must_break:
            self._newline(continues=True)
        if self._after_inline and text[0] not in _NO_SPACE_BEFORE:
            self._write(" ")
        self._after_inline = self._after_joint = False
        self._write(text)

    def _open(self, at: int) -> None:
        if self._must_break:
            self._newline(continues=True)
        if self._is_broken and not self._is_broken[-1]:
            self._is_broken.append(False)
            return
        self._is_broken.append(at in self._forced or self._column + self._width(at, self._ends[at]) > WIDTH)

    def _width(self, start: int, end: int) -> int:
        """The width of the pieces up to `end`, and of what follows them up to the next possible break."""
        return self._sums[end] - self._sums[start] + self._to_break[end]

    def _blank(self, at: int, kind: Kind) -> None:
        self._after_joint = kind is Kind.JOINT
        if self._must_break:
            self._newline(continues=kind is Kind.SPACE)
            return
        broken = bool(self._is_broken) and self._is_broken[-1] and kind not in (Kind.SPACE, Kind.JOINT)
        if broken and kind is Kind.FILL:
            broken = self._column + 1 + self._to_break[at + 1] > WIDTH or self._fits_below(at)
        if broken:
            self._newline()
        elif kind is not Kind.SOFT:
            self._write(" ")
            self._after_inline = False

    def _fits_below(self, at: int) -> bool:
        """Whether what follows a `FILL` fits on a line of its own and not on this one."""
        end = self._ends[at]
        width = self._width(at + 1, end)
        is_flat = self._forced_before[end] == self._forced_before[at]
        return is_flat and self._level * STEP + width <= WIDTH < self._column + 1 + width

    def _hard(self, blank: str) -> None:
        began = bool(self._lines) or bool(self._line)
        self._newline()
        self._base = self._level
        if blank and began:
            self._lines.append("")

    # -- comments

    def _inline(self, text: str) -> None:
        if self._must_break:
            self._newline(continues=True)
        if self._line and self._line[-1][-1:] not in _NO_SPACE_AFTER:
            self._write(" ")
        self._write(text)
        self._after_inline = True

    def _trailing(self, text: str) -> None:
        if self._must_break:
            self._newline(continues=True)
        elif self._has_text():
            self._write("  " if text.startswith("//") else " ")
        self._comment(text)

    def _own(self, text: str) -> None:
        if self._must_break or self._has_text():
            self._newline(continues=True)
        self._comment(text)

    def _has_text(self) -> bool:
        return any(not part.isspace() for part in self._line if part)

    def _comment(self, text: str) -> None:
        """Write a comment after which the line ends; lines that begin with `*` are set below its first one."""
        first, *rest = text.split("\n")
        if rest and all(line.lstrip().startswith("*") for line in rest):
            rest = [" " * (self._column + 1) + line.lstrip() for line in rest]
        self._write(first)
        for line in rest:
            self._end_line_of_comment()
            self._write(line)
        self._must_break = True
        self._after_inline = False

    def _end_line_of_comment(self) -> None:
        # A blank line inside a comment is part of it.
        self._lines.append("".join(self._line).rstrip())
        self._line = []
        self._column = 0
