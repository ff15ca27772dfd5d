"""What expressions of the language evaluate to while a graph is built.

A *static* value is known now: an int, float, bool, str, `none`, a `Dim` (a dynamic size used as a number), a `DType`, a `MaskKind`.
A tensor is a node of the graph. Lists (`[a, b]`, families, the results of `split`) are `ListValue`s. An `Instance`
is what a named call of a block has made. `POISON` stands for the
value of something already reported as wrong: whatever touches it is silent and poison too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rlxlang.diagnostics import Span
from rlxlang.ir import MaskKind, Node, RangeValue
from rlxlang.types import Dim, DType, TensorType


class Poison:
    """The value of an expression with an error that has been reported."""

    def __repr__(self) -> str:
        return "<poison>"


POISON = Poison()


class Absent:
    """The value of `none`: an argument that is not given."""

    def __repr__(self) -> str:
        return "none"


NONE = Absent()


@dataclass(frozen=True, slots=True)
class ListValue:
    """Several values in order; `family` is the name of the declared family it stands for, or empty.

    `leaves` counts the values that are no lists, at any depth.
    """

    items: tuple[Value, ...]
    family: str = ""
    leaves: int = field(init=False, default=0, compare=False)

    def __post_init__(self) -> None:
        count = sum(i.leaves if isinstance(i, ListValue) else 1 for i in self.items)
        object.__setattr__(self, "leaves", count)


@dataclass(frozen=True, slots=True)
class Unbound:
    """A name that exists in the text and has no value here, with the reason and what to do."""

    reason: str
    help: str = ""


@dataclass(eq=False, slots=True)
class Instance:
    """What one call of a block has made: its parameters and the blocks called in it. The root stands for the text itself.

    Attributes:
        path: Its name, `encoder.0`, in front of the names of its parameters; empty for the root.
        span: Where it got that name.
        values: Its parameters and families by the names they have in the block.
        children: The blocks called in it, by name.
        counts: How often each block has been called in it without a name.
    """

    path: str = ""
    span: Span | None = None
    values: dict[str, Any] = field(default_factory=dict)
    children: dict[str, Instance] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def join(self, name: str) -> str:
        """A name within its namespace."""
        return f"{self.path}.{name}" if self.path else name


@dataclass(frozen=True, slots=True, eq=False)
class BoundObject:
    """A dict or an object given to `bind`; `read` gives the value of a field, None when it has none."""

    path: str
    read: Callable[[str], Any]
    fields: tuple[str, ...] = ()


Value: TypeAlias = (
    "int | float | bool | str | Absent | Dim | DType | MaskKind | RangeValue | Node | ListValue | Instance | BoundObject"
    " | Poison | Unbound"
)


@dataclass(eq=False, slots=True)
class Binding:
    """A name's value, where it was bound, and whether anything has read it."""

    value: Any
    span: Span | None = None
    used: bool = False


def is_number(value: Any) -> bool:
    """Whether a value is a static number or a size (bools included)."""
    return isinstance(value, (bool, int, float, Dim))


def is_static(value: Any) -> bool:
    """Whether a value is known while the graph is built."""
    return isinstance(value, (bool, int, float, str, Dim, DType, MaskKind, Absent))


def describe(value: Any) -> str:
    """A value as messages name it: `a tensor [F32; 4]`, `the number 3`."""
    if isinstance(value, Node):
        return f"a tensor {value.type}" if isinstance(value.type, TensorType) else "several values"
    if isinstance(value, ListValue):
        return f"a family of {len(value.items)}" if value.family else f"a list of {len(value.items)}"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, Dim):
        return f"the size `{value}`"
    if isinstance(value, str):
        return f'the string "{value}"'
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, RangeValue):
        return "a range"
    if isinstance(value, Instance):
        return f"the block instance `{value.path}`"
    if isinstance(value, BoundObject):
        return f"the bound object `{value.path}`"
    return f"`{value}`"
