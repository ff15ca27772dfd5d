"""Where a node comes from: the source span, and the chain of calls and transforms that made it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlxlang.diagnostics import Frame, Span


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a node in the user's text.

    Attributes:
        span: The expression that made the node, or None for nodes built from Python.
        chain: Calls around it, innermost first (`fn`, `block`, `repeat`).
        via: Transforms that produced it, outermost last: `("grad", "vmap")`.
    """

    span: Span | None = None
    chain: tuple[Frame, ...] = ()
    via: tuple[str, ...] = ()

    def through(self, transform: str) -> Origin:
        """The origin of a node that `transform` derived from a node of this origin."""
        return replace(self, via=(*self.via, transform)) if not self.via or self.via[-1] != transform else self


UNKNOWN = Origin()
