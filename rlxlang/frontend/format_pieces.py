"""What the formatter's two halves exchange: a flat list of texts, possible breaks and comments."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """What a piece is.

    A group is broken over lines as a whole or not at all: it is when it does not fit, or when it holds a comment
    that ends its line. `FILL` alone decides for itself.
    """

    TEXT = auto()
    OPEN = auto()  # of a group
    CLOSE = auto()
    INDENT = auto()
    DEDENT = auto()
    LINE = auto()  # a blank, or a line break where the group is broken
    SOFT = auto()  # nothing, or a line break where the group is broken
    FILL = auto()  # a blank, or a line break where the group is broken and what follows does not fit
    SPACE = auto()  # a blank
    JOINT = auto()  # a blank before `{` and `else`: after a comment they stand below the statement's first word
    COMMA = auto()  # a trailing comma where the group is broken
    HARD = auto()  # the end of a statement's line; its text is a blank line to keep, or empty
    INLINE = auto()  # a comment with something after it on its line
    TRAILING = auto()  # a comment that ends the line
    OWN = auto()  # a comment on a line of its own


class Piece(NamedTuple):
    """One piece; `text` is empty for pure layout."""

    kind: Kind
    text: str = ""


ENDS_LINE = frozenset({Kind.HARD, Kind.TRAILING, Kind.OWN})
MAY_BREAK = frozenset({Kind.LINE, Kind.SOFT, Kind.FILL}) | ENDS_LINE
