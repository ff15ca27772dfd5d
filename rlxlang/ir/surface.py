"""What users call: names, parameters and how a call becomes nodes.

The language (`softmax(x, axis: -1)`), the methods of `rlx.Tensor` and the generated documentation all read these records.
Arguments arrive evaluated: a tensor is a `Node`; a static value is a Python int, float, bool, str, a `Dim` (a dynamic size
used as a number), a `DType`, a `MaskKind`, a `RangeValue`, or a tuple of such. Where a parameter is a tensor a plain number
is allowed and stays weak until it meets a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlxlang.diagnostics import did_you_mean
from rlxlang.types import TypeProblem

KINDS = (
    "tensor",
    "tensors",
    "axis",
    "axes",
    "perm",
    "dims",
    "dim",
    "int",
    "ints",
    "float",
    "bool",
    "str",
    "dtype",
    "mask",
    "any",
)


class Missing:
    """The default of a parameter that must be given."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Missing()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, what it takes (one of `KINDS`) and its default, `REQUIRED` when it must be given."""

    name: str
    kind: str
    default: Any = REQUIRED

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of parameter {self.kind}")


@dataclass(frozen=True, slots=True)
class MaskKind:
    """An attention mask by name: `None`, `Causal`, `SlidingWindow(window)`."""

    name: str
    window: int = 0


@dataclass(frozen=True, slots=True)
class RangeValue:
    """A range `a..b by s` given as an argument or index; None where an end is open."""

    start: Any
    stop: Any
    step: int = 1
    inclusive: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A function that users call.

    Attributes:
        name: Its name in the language and on `Tensor`.
        parameters: In order; arguments may be given by position or by name.
        build: `build(builder, **arguments)` emits nodes and returns a node, or a tuple of nodes for a list value.
        doc: One sentence.
        variadic: Whether trailing positional arguments are gathered into one parameter, that of `gathering`.
        method: Whether `x.f(…)` exists (the first parameter is a tensor).
        example: A call with made-up operands for the generated documentation.
    """

    name: str
    parameters: tuple[Parameter, ...]
    build: Callable[..., Any]
    doc: str
    variadic: bool = False
    method: bool = True
    example: str = field(default="")

    @property
    def gathering(self) -> int:
        """The place of the parameter that gathers: the one of several tensors, else the last. What follows has a name in calls."""
        kinds = [p.kind for p in self.parameters]
        return kinds.index("tensors") if "tensors" in kinds else len(kinds) - 1

    def signature(self) -> str:
        """The call as documentation shows it."""
        parts = [p.name if p.default is REQUIRED else f"{p.name}: {_show(p.default)}" for p in self.parameters]
        return f"{self.name}({', '.join(parts)})"

    def bind(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, defaults filled in.

        Raises:
            TypeProblem: E0220 too many, E0221 unknown name, E0222 given twice, E0223 missing.
        """
        names = [p.name for p in self.parameters]
        values = list(positional)
        if self.variadic and len(values) > self.gathering + 1:
            values = [*values[: self.gathering], tuple(values[self.gathering :])]
        if len(values) > len(names):
            raise TypeProblem(
                "E0220",
                f"`{self.name}` takes at most {len(names)} argument{'s' * (len(names) != 1)}, {len(values)} are given",
                (f"its form is `{self.signature()}`",),
            )
        bound = dict(zip(names, values, strict=False))
        for name, value in named.items():
            if name not in names:
                raise TypeProblem(
                    "E0221",
                    f"`{self.name}` has no argument `{name}`",
                    (f"its form is `{self.signature()}`",),
                    did_you_mean(name, names),
                )
            if name in bound:
                form = (f"its form is `{self.signature()}`",)
                raise TypeProblem("E0222", f"argument `{name}` of `{self.name}` is given twice", form)
            bound[name] = value
        for parameter in self.parameters:
            if parameter.name in bound:
                continue
            if parameter.default is REQUIRED:
                raise TypeProblem(
                    "E0223",
                    f"`{self.name}` lacks its argument `{parameter.name}`",
                    (f"its form is `{self.signature()}`",),
                )
            bound[parameter.name] = parameter.default
        return bound


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    return str(value)


SURFACES: dict[str, Surface] = {}


def add_surface(surface: Surface, *aliases: str) -> Surface:
    """Make a function callable under its name and further names.

    Raises:
        ValueError: A name is taken.
    """
    for name in (surface.name, *aliases):
        if name in SURFACES:
            raise ValueError(f"function `{name}` is defined twice")
        SURFACES[name] = surface
    return surface
