"""Static arguments of surfaces: axes, sizes, counts, choices, checked and made canonical."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rlxlang.ir import REQUIRED, Builder, Node, Parameter, Surface, add_surface
from rlxlang.ops.broadcasting import describe
from rlxlang.types import Dim, DimLike, DType, TypeProblem

LARGEST_COUNT = 1 << 16  # parts of a `split`, heads with a slope of their own


def tensor(name: str = "x", default: Any = REQUIRED) -> Parameter:
    """A parameter that takes a tensor or a number."""
    return Parameter(name, "tensor", default)


def surface(
    name: str,
    parameters: Sequence[Parameter],
    build: Callable[..., Any],
    doc: str,
    *aliases: str,
    variadic: bool = False,
    method: bool = True,
    example: str = "",
) -> Surface:
    """Make a function callable by users; see `Surface`."""
    return add_surface(Surface(name, tuple(parameters), build, doc, variadic, method, example), *aliases)


_STATIC = "static are literals, configs, variables of a `repeat`, and what is computed from them"


def static_int(op: str, value: Any, name: str) -> int:
    """A static integer (E0303 for a tensor, E0306 for anything else)."""
    if isinstance(value, (Node, Dim)):
        message = f"argument `{name}` of `{op}` is a static integer, and {describe(value)} is given"
        raise TypeProblem("E0303", message, (), _STATIC)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeProblem("E0306", f"argument `{name}` of `{op}` is an integer, and {describe(value)} is given")
    return value


def static_count(op: str, value: Any, name: str) -> int:
    """A static integer that counts what is built one by one (E0350 for more than can be meant)."""
    count = static_int(op, value, name)
    if count > LARGEST_COUNT:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is at most {LARGEST_COUNT}, and {count} is given")
    return count


def static_number(op: str, value: Any, name: str) -> float:
    """A static number (E0303 for a tensor, E0306 for anything else)."""
    if isinstance(value, (Node, Dim)):
        message = f"argument `{name}` of `{op}` is a static number, and {describe(value)} is given"
        raise TypeProblem("E0303", message, (), _STATIC)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeProblem("E0306", f"argument `{name}` of `{op}` is a number, and {describe(value)} is given")
    return value


def static_radix(op: str, value: Any, name: str = "base") -> float:
    """The base of a geometric row of frequencies in F32: finite, and not so small that a frequency is not (E0350)."""
    radix = float(static_number(op, value, name))
    if not 1e-30 <= radix < math.inf:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is finite and 1e-30 or more, and {value} is given")
    return radix


def static_bool(op: str, value: Any, name: str) -> bool:
    """`true` or `false` (E0306)."""
    if not isinstance(value, bool):
        raise TypeProblem("E0306", f"argument `{name}` of `{op}` is true or false, and {describe(value)} is given")
    return value


def static_dim(op: str, value: Any, name: str) -> DimLike:
    """A size: an integer, not negative, or a dynamic size."""
    if isinstance(value, Dim):
        return value
    number = static_int(op, value, name)
    if not 0 <= number < 1 << 63:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is a size, and {number} is given")
    return number


def choice(op: str, value: Any, name: str, allowed: Sequence[str]) -> str:
    """One of several words (E0350)."""
    if value not in allowed:
        words = ", ".join(f'"{w}"' for w in allowed)
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is one of {words}, and {describe(value)} is given")
    return str(value)


def dtype_argument(op: str, value: Any, name: str = "dtype") -> DType:
    """An element type (E0306)."""
    if not isinstance(value, DType):
        raise TypeProblem(
            "E0306", f"argument `{name}` of `{op}` is a dtype such as F32, and {describe(value)} is given"
        )
    return value


def canonical_axis(op: str, axis: Any, rank: int, name: str = "axis") -> int:
    """A position `0 … rank-1` from one that may count from the end.

    Raises:
        TypeProblem: E0403 out of range, E0303 or E0306 no static integer.
    """
    k = static_int(op, axis, name)
    if not -rank <= k < rank:
        scope = f"its axes are {-rank} … {rank - 1}" if rank else "a scalar has none"
        raise TypeProblem("E0403", f"`{op}` of a tensor of rank {rank} has no axis {k}", (scope,))
    return k % rank


def canonical_axes(op: str, axes: Any, rank: int, name: str = "axes") -> tuple[int, ...]:
    """Ascending positions from an integer, a list, or none for all axes.

    Raises:
        TypeProblem: E0403 out of range or an axis twice, E0306 no integers.
    """
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, (Node, Dim)):
        hint = {"max": "maximum", "min": "minimum"}.get(op)
        if isinstance(axes, Node) and hint is not None:
            raise TypeProblem(
                "E0306",
                f"`{op}` reduces one tensor over axes",
                (),
                f"the larger or smaller of two tensors is `{hint}(a, b)`",
            )
    given = axes if isinstance(axes, tuple) else (axes,)
    found = [canonical_axis(op, k, rank, name) for k in given]
    if len(set(found)) != len(found):
        raise TypeProblem("E0403", f"`{op}`: an axis is listed twice in {list(given)}")
    return tuple(sorted(found))


def int_list(op: str, value: Any, name: str) -> tuple[int, ...]:
    """A list of static integers; one integer is a list of one."""
    given = value if isinstance(value, tuple) else (value,)
    return tuple(static_int(op, v, name) for v in given)


def guard_nonempty(b: Builder, op: str, x: Node, axes: Sequence[int]) -> None:
    """Require every one of the axes to have at least one entry.

    Raises:
        TypeProblem: E0409 an axis is statically empty.
    """
    from rlxlang.ops.rules import require_guards
    from rlxlang.types import ShapeContext

    for axis in axes:
        if x.shape[axis] == 0:
            raise TypeProblem("E0409", f"`{op}` over axis {axis}, which is empty: there is no value to take")
        context = ShapeContext()
        context.at_most(1, x.shape[axis], f"the size of the axis that `{op}` reduces")
        require_guards(b, context)
