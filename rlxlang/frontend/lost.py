"""What a text loses to syntax errors: the stretches that recovery skips, and the names that they seem to bind.

The rest of the text is elaborated all the same. Uses of a lost name are silent, and a name that a lost statement binds has no
value from there on; everything else that is wrong is reported in the same go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.diagnostics import Span
from rlxlang.ir import SURFACES

_NAME = re.compile(r"[A-Za-z_]\w*")
_BOUND = re.compile(
    r"\b(?:let|mut|var|input|param|config|const|bind|out|output|tap|scan|loop|for)\s+\(?([\w\s,]*)"  # let (a, b …
    r"|\b([A-Za-z_]\w*)\s*(?:[:\[][^=;{}]{0,200})?=(?!=)"  # a = …, w[3]: [4] = …
    r"|\b(?:as|emit)\s+([A-Za-z_]\w*)"
    r"|\b([A-Za-z_]\w*)\s+in\b"
    r"|^\s*[A-Za-z_]\w*\s+([A-Za-z_]\w*)"  # inptu x: …
)
_FUNCTION = re.compile(r"\b(\w+)\s+([A-Za-z_]\w*)\s*\(")
_USE = re.compile(r"\b(?:use|import|from)\b([^;]*)")
_LONGEST = 10_000  # characters of a stretch that is looked at
_DEFINING = ("fn", "block", "def", "func", "function", "class")


@dataclass(frozen=True, slots=True)
class Lost:
    """A stretch of a text that was skipped.

    Args:
        span: Where it stands.
        values: Names that it seems to bind.
        functions: Names of functions and modules that it seems to bring in.
        everything: Whether it brings in names that it does not say.
    """

    span: Span
    values: frozenset[str]
    functions: frozenset[str]
    everything: bool


def lost(span: Span, blanked: str) -> Lost:
    """What a skipped stretch would have bound.

    Args:
        span: Where it stands.
        blanked: The whole text without its comments.
    """
    if span.end - span.start > _LONGEST:
        return Lost(span, frozenset(), frozenset(), everything=True)
    text = blanked[span.start : span.end]
    values = {
        name for match in _BOUND.finditer(text) for group in match.groups() if group for name in _NAME.findall(group)
    }
    functions = {name for word, name in _FUNCTION.findall(text) if word in _DEFINING or name not in SURFACES}
    uses = _USE.findall(text)
    functions.update(name for used in uses for name in _NAME.findall(used))
    return Lost(span, frozenset(values), frozenset(functions), any("*" in used for used in uses))


def with_lost(statements: Sequence[Any], lost_parts: Sequence[Lost], within: Span) -> Iterator[Any]:
    """The statements of a text or body, and between them what was lost directly among them, in order."""
    if not lost_parts:
        yield from statements
        return
    mine = [part for part in lost_parts if _covers(within, part.span)]
    position = 0
    for statement in statements:
        while position < len(mine) and mine[position].span.start < statement.span.end:
            if not _covers(statement.span, mine[position].span):
                yield mine[position]
            position += 1
        yield statement
    yield from mine[position:]


def loses_part(body: Span, lost_parts: Sequence[Lost]) -> bool:
    """Whether something was lost within a body."""
    return any(_covers(body, part.span) for part in lost_parts)


def _covers(outer: Span, inner: Span) -> bool:
    return outer.source is inner.source and outer.start <= inner.start and inner.end <= outer.end
