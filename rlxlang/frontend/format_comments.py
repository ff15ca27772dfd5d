"""The writer of the formatter: goes along the source, so that every comment is written where it was read.

A comment stands between two tokens, and stays between them, with one exception: a comment that ends a line is moved
behind a `,` or `;` that follows. Dropped tokens (a trailing comma, a stray `;`, `vec!`) are passed over.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rlxlang.diagnostics import InternalError, Source, Span
from rlxlang.frontend import ast
from rlxlang.frontend.format_pieces import Kind, Piece

_BLANKS = re.compile(r"[ \t\r\n\f]*")
_TO_LINE_END = re.compile("[ \t\r\f\ufeff\u00a0\u2007\u202f\u200b]*(?:\n|$)")
_BLANK_LINE = re.compile(r"\n[ \t\r\f;]*\n")
_VEC = re.compile(r"vec![ \t\r\n\f]*\[")


def comment_text(comment: ast.Comment) -> str:
    """A comment as it is written out: LF line ends, no blanks at the end of a line."""
    return "\n".join(line.rstrip() for line in comment.text.split("\n"))


class Writer:
    """Writes pieces for the tokens of a source in their order, with the comments between them.

    Args:
        source: the text.
        blanked: the text without comments (`trivia.scan`).
        comments: all comments in order.
    """

    def __init__(self, source: Source, blanked: str, comments: Sequence[ast.Comment]) -> None:
        self.pieces: list[Piece] = []
        self._source = source
        self._blanked = blanked
        self._comments = comments
        self._next = 0  # index of the first comment not read
        self._position = 0  # end of the last token
        self._waiting: list[ast.Comment] = []  # read, not written
        self._pushed: set[ast.Comment] = set()  # pushed to the next line by another comment

    # -- tokens

    def layout(self, kind: Kind, text: str = "") -> None:
        """Write a piece that is no token."""
        self.pieces.append(Piece(kind, text))

    def peek(self, text: str) -> bool:
        """Whether the next token begins with `text`."""
        return self._blanked.startswith(text, self._skip(self._position))

    def token(self, text: str, *, written: str = "", ends: bool = False) -> None:
        """Read the token `text` and write it, or what is `written` instead.

        Args:
            text: the token.
            written: what to write.
            ends: whether a statement begins or the body ends after it: comments that follow are left to `gap`.

        Raises:
            InternalError: when another token is next.
        """
        start = self._skip(self._position)
        if not self._blanked.startswith(text, start):
            place = Span(source=self._source, start=start, end=start)
            raise InternalError(f"the formatter expects `{text}` here", span=place, stage="format")
        if text not in (",", ";"):
            self._leading()
        self._put(start + len(text), written or text, ends=ends)

    def leaf(self, span: Span, text: str) -> None:
        """Read everything up to the end of `span` and write `text`."""
        self._leading()
        self._put(span.end, text)

    def dotted(self, name: ast.Name) -> None:
        """Read and write `.name`: in one piece, since `2. /**/ f()` is no method of 2."""
        self.leaf(name.span, "." + name.text)

    def move_to(self, offset: int) -> None:
        """Pass over everything before `offset`: stray `;`."""
        self._position = max(self._position, offset)

    def drop(self, text: str) -> None:
        """Pass over the token `text` if it is next."""
        start = self._skip(self._position)
        if self._blanked.startswith(text, start):
            self._position = start + len(text)
            self._gather(self._skip(self._position))

    def close(self, closer: str, *, comma: bool, soft: bool, indented: bool) -> None:
        """Read and write the end of a bracket, and the comments before it.

        Args:
            closer: the bracket.
            comma: whether to write a trailing comma where the group is broken.
            soft: whether the bracket begins a line there.
            indented: whether what it closes was indented.
        """
        self.drop(",")
        waiting, self._waiting = self._waiting, []
        cut = _first(self._forces(comment) for comment in waiting)
        for comment in waiting[:cut]:
            self._write(comment)
        if comma:
            self.layout(Kind.COMMA)
        for comment in waiting[cut:]:
            kind = Kind.TRAILING if self._is_trailing(comment) else Kind.OWN
            self.layout(kind, comment_text(comment))
        if indented:
            self.layout(Kind.DEDENT)
        if soft or waiting[cut:]:
            self.layout(Kind.SOFT)
        self.token(closer)

    def after(self) -> None:
        """Write the comments that follow the last token on its line."""
        stop = self._skip(self._position)
        following = self._blanked[stop : stop + 1]
        if following == "." and self._blanked[stop + 1 : stop + 2] != ".":
            stop = self._skip(stop + 1)
        elif match := _VEC.match(self._blanked, stop):
            stop = match.end() - 1
        self._gather(stop)
        gap = self._waiting
        if not gap:
            return
        if following and following in ",;)]}":
            cut = _first(self._forces(comment) for comment in gap)
            # A `///` behind the `;` would document the next statement.
            if following == ";":
                cut = max([cut, *(k + 1 for k, comment in enumerate(gap) if comment.is_doc)])
        else:
            cut = max([0, *(k + 1 for k, comment in enumerate(gap) if self._is_trailing(comment))])
        for comment in gap[:cut]:
            self._write(comment)
        self._waiting = gap[cut:]

    def _put(self, end: int, text: str, *, ends: bool = False) -> None:
        self.pieces.append(Piece(Kind.TEXT, text))
        self._position = end
        if not ends:
            self.after()

    def _leading(self) -> None:
        waiting, self._waiting = self._waiting, []
        for comment in waiting:
            self._write(comment)

    def _skip(self, position: int, stop: int = sys.maxsize) -> int:
        match = _BLANKS.match(self._blanked, position, stop)
        return match.end() if match else position

    # -- between statements

    def gap(self, stop: int, *, first: bool) -> bool:
        """Write the comments before a statement or a `}` that begins at `stop`, each on a line of its own.

        Args:
            stop: offset of the statement or brace.
            first: whether no line stands before it in its body.

        Returns:
            Whether that is still so.
        """
        self._gather(stop)
        comments, self._waiting = self._waiting, []
        at = 0
        while at < len(comments) and self.pieces and self._follows_code(comments[at]):
            at += 1
        for k, comment in enumerate(comments[:at]):
            self.layout(Kind.INLINE if k + 1 < at else Kind.TRAILING, comment_text(comment))
            self._position = max(self._position, comment.span.end)
        documents = False
        for here, following in zip(comments[at:], [*comments[at + 1 :], None], strict=False):
            self.hard(here.span.start, first=first)
            self.layout(Kind.OWN, comment_text(here))
            self._position = max(self._position, here.span.end)
            first = False
            documents = documents or here.is_doc
            before = stop if following is None else following.span.start
            if documents and self._blanked.startswith(";", self._skip(self._position, before), before):
                # Without this `;` the comment would document the next statement.
                self.layout(Kind.HARD)
                self.token(";", ends=True)
                documents = False
        return first

    def hard(self, start: int, *, first: bool) -> None:
        """End the line; a blank line before `start` is kept unless this is the `first` of a body."""
        blank = not first and _BLANK_LINE.search(self._blanked, self._position, max(start, self._position))
        self.layout(Kind.HARD, "\n" if blank else "")

    # -- comments

    def _gather(self, stop: int) -> None:
        """Read the comments before `stop`."""
        start = self._next
        while self._next < len(self._comments) and self._comments[self._next].span.start < stop:
            self._next += 1
        self._waiting += self._comments[start : self._next]
        for before, comment in pairwise(self._waiting):
            if self._forces(before):
                self._pushed.add(comment)

    def _is_own(self, comment: ast.Comment) -> bool:
        """Whether the comment begins a line, as written or because the one before it ends one."""
        return comment.own_line or comment in self._pushed

    def _write(self, comment: ast.Comment) -> None:
        kind = Kind.INLINE
        if self._forces(comment):
            kind = Kind.OWN if self._is_own(comment) else Kind.TRAILING
        self.layout(kind, comment_text(comment))

    def _forces(self, comment: ast.Comment) -> bool:
        """Whether the line ends after the comment."""
        if comment.text.startswith("//") or "\n" in comment.text:
            return True
        return _TO_LINE_END.match(self._source.text, comment.span.end) is not None

    def _follows_code(self, comment: ast.Comment) -> bool:
        """Whether the comment belongs to the statement before it on its line."""
        return not comment.is_doc and not self._is_own(comment)

    def _is_trailing(self, comment: ast.Comment) -> bool:
        return self._forces(comment) and not self._is_own(comment)


def _first(flags: Iterable[bool]) -> int:
    """Index of the first true one, or their number."""
    count = 0
    for flag in flags:
        if flag:
            break
        count += 1
    return count
