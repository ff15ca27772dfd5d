"""What is wrong with a value's type, without a place: the caller who knows the source span adds it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TypeProblem(Exception):
    """A type or shape that does not fit.

    Attributes:
        code: The diagnostic's code, `E0402`.
        message: One line that names the thing, the expected and the given.
        notes: Further facts, such as both shapes.
        help: What to write instead, or empty.
    """

    code: str
    message: str
    notes: tuple[str, ...] = field(default=())
    help: str = ""

    def __str__(self) -> str:
        return self.message
