"""Where an element of a value is read: one coordinate per axis, an affine function of the kernel's domain axes plus gathered parts.

Views (transpose, slice, broadcast …) move coordinates instead of data: reading an element of the view at some coordinates is
reading its operand at others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.ir import Node
from rlxlang.kernels import Apply, AxisValue, Const, Expr, Gathered, SizeValue
from rlxlang.types import BOOL, I64, Dim, DimLike, dims_equal, exact_quotient


@dataclass(frozen=True, slots=True)
class Term:
    """A run-time part of a coordinate: the clamped value of an integer expression, times `scale`."""

    value: Expr
    size: DimLike
    scale: DimLike


@dataclass(frozen=True, slots=True)
class Coord:
    """`offset + Σ scale·axis + Σ terms`; `axes` holds (domain axis, scale) pairs, ascending, scales not 0."""

    offset: DimLike = 0
    axes: tuple[tuple[int, DimLike], ...] = ()
    terms: tuple[Term, ...] = ()

    def scaled(self, scale: DimLike, offset: DimLike = 0) -> Coord:
        """`offset + scale · self`."""
        if scale == 0:
            return Coord(offset)
        return Coord(
            self.offset * scale + offset,
            tuple((a, s * scale) for a, s in self.axes),
            tuple(Term(t.value, t.size, t.scale * scale) for t in self.terms),
        )

    def plus(self, other: Coord) -> Coord:
        """The sum of two coordinates."""
        scales: dict[int, DimLike] = dict(self.axes)
        for axis, scale in other.axes:
            scales[axis] = scales.get(axis, 0) + scale
        kept = tuple(sorted((a, s) for a, s in scales.items() if s != 0))
        return Coord(self.offset + other.offset, kept, (*self.terms, *other.terms))

    def is_axis(self, axis: int) -> bool:
        """Whether this is just the position on one domain axis."""
        return self.offset == 0 and not self.terms and self.axes == ((axis, 1),)


ZERO = Coord()


def axis_coord(axis: int, extent: DimLike) -> Coord:
    """The coordinate that runs with a domain axis; constant 0 on an axis of extent 1."""
    return ZERO if extent == 1 else Coord(0, ((axis, 1),))


def identity(shape: Sequence[DimLike]) -> tuple[Coord, ...]:
    """Coordinates of a value of this shape in a domain of the same shape."""
    return tuple(axis_coord(k, n) for k, n in enumerate(shape))


def row_major(shape: Sequence[DimLike]) -> tuple[DimLike, ...]:
    """Strides in elements of a contiguous array."""
    strides: list[DimLike] = []
    step: DimLike = 1
    for dim in reversed(shape):
        strides.append(step)
        step = step * dim
    return tuple(reversed(strides))


def flat(coords: Sequence[Coord], shape: Sequence[DimLike]) -> Coord:
    """The position in a contiguous buffer of that shape."""
    total = ZERO
    for coord, stride in zip(coords, row_major(shape), strict=True):
        total = total.plus(coord.scaled(stride))
    return total


def view_coords(node: Node, coords: tuple[Coord, ...], kind: str) -> tuple[Coord, ...] | None:
    """Coordinates at which the operand of a view is read, or None when they are no affine function."""
    attrs: Mapping[str, Any] = node.attrs
    source = node.inputs[0].shape
    if kind == "identity":
        return coords
    if kind == "transpose":
        moved: list[Coord] = [ZERO] * len(source)
        for position, axis in enumerate(attrs["perm"]):
            moved[axis] = coords[position]
        return tuple(moved)
    if kind == "broadcast_to":
        lead = len(coords) - len(source)
        return tuple(ZERO if n == 1 else c for n, c in zip(source, coords[lead:], strict=True))
    if kind == "slice":
        return tuple(
            c.scaled(step, start) for c, start, step in zip(coords, attrs["starts"], attrs["steps"], strict=True)
        )
    if kind == "flip":
        axes = set(attrs["axes"])
        return tuple(
            c.scaled(-1, n - 1) if k in axes else c for k, (c, n) in enumerate(zip(coords, source, strict=True))
        )
    if kind == "windows":
        return _window_coords(attrs, coords, len(source))
    if kind == "reshape":
        return reshape_coords(node.shape, source, coords)
    raise ValueError(f"`{kind}` is no affine view")


def _window_coords(attrs: Mapping[str, Any], coords: tuple[Coord, ...], rank: int) -> tuple[Coord, ...]:
    """Entry j of window i of an axis lies at i·stride + j·dilation."""
    result = list(coords[:rank])
    steps = zip(attrs["axes"], coords[rank:], attrs["strides"], attrs["dilations"], strict=True)
    for axis, entry, stride, dilation in steps:
        result[axis] = result[axis].scaled(stride).plus(entry.scaled(dilation))
    return tuple(result)


def reshape_coords(
    target: Sequence[DimLike], source: Sequence[DimLike], coords: tuple[Coord, ...]
) -> tuple[Coord, ...] | None:
    """Coordinates of the source of a reshape; None where source axes are merged (they would need a division)."""
    result: list[Coord] = []
    k = 0
    for dim in source:
        if dim == 1:
            result.append(ZERO)
            continue
        while k < len(target) and target[k] == 1:
            k += 1
        coord = ZERO
        rest: DimLike = dim
        while True:
            if k >= len(target):
                return None
            quotient = exact_quotient(rest, target[k])
            if quotient is None:
                return None
            extent = target[k]
            coord = coord.scaled(extent).plus(coords[k])
            rest = quotient
            k += 1
            if rest == 1:
                break
        result.append(coord)
    if any(d != 1 for d in target[k:]):
        return None
    return tuple(result)


def coord_value(coord: Coord) -> Expr:
    """The coordinate as an I64 expression."""
    total: Expr | None = None if coord.offset == 0 else size_expr(coord.offset)
    for axis, scale in coord.axes:
        total = _add(total, _scale(AxisValue(axis, I64), scale))
    for term in coord.terms:
        total = _add(total, _scale(_clamped(term), term.scale))
    return total if total is not None else Const(0, I64)


def size_expr(dim: DimLike) -> Expr:
    """A size as an I64 expression."""
    return SizeValue(dim, I64) if isinstance(dim, Dim) else Const(dim, I64)


def _add(left: Expr | None, right: Expr) -> Expr:
    return right if left is None else Apply("add", (left, right), I64)


def _scale(value: Expr, scale: DimLike) -> Expr:
    return value if scale == 1 else Apply("mul", (value, size_expr(scale)), I64)


def _clamped(term: Term) -> Expr:
    size = size_expr(term.size)
    zero = Const(0, I64)
    value = Apply("cast", (term.value,), I64) if term.value.dtype != I64 else term.value
    negative = Apply("lt", (value, zero), BOOL)
    wrapped = Apply("where", (negative, Apply("add", (value, size), I64), value), I64)
    last = Apply("sub", (size, Const(1, I64)), I64)
    return Apply("maximum", (Apply("minimum", (wrapped, last), I64), zero), I64)


def gathered(coord: Coord) -> tuple[Gathered, ...]:
    """The run-time parts of a flat position, for an `Index`."""
    return tuple(Gathered(t.value, t.size, t.scale) for t in coord.terms)


def same_shape(left: Sequence[DimLike], right: Sequence[DimLike]) -> bool:
    """Whether two shapes are equal for all sizes of the axes."""
    return len(left) == len(right) and all(dims_equal(a, b) is True for a, b in zip(left, right, strict=True))
