"""Scalar expressions of the kernel IR: what one point of an iteration domain computes.

A kernel iterates over a domain of axes `0 … n-1`, the outer axes first and then the inner ones. An expression is evaluated at
every point; backends turn it into vector code. Expressions are immutable and shared: the same object means the same value,
computed once per point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from rlxlang.types import BOOL, DimLike, DType


@dataclass(frozen=True, slots=True)
class Gathered:
    """A part of an index that is read at run time.

    The value counts from the end once when negative and is then clamped to `0 … size-1`, so that no access leaves the
    buffer; `stride` elements per step.
    """

    value: Expr
    size: DimLike
    stride: DimLike


@dataclass(frozen=True, slots=True)
class Index:
    """A position in a buffer: `offset + Σ strides[k]·axis[k] + Σ gathered`, counted in elements.

    `strides` has one entry per domain axis; 0 means that the position does not depend on that axis.
    """

    offset: DimLike
    strides: tuple[DimLike, ...]
    gathered: tuple[Gathered, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A number; `value` is a Python int, float or bool (the bits of a float are those of its `dtype`)."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One element of a buffer. Where `where` is false nothing is read and the value is `fill` (a number of the dtype)."""

    buffer: int
    index: Index
    dtype: DType
    where: Expr | None = None
    fill: int | float | bool = 0


@dataclass(frozen=True, slots=True, eq=False)
class AxisValue:
    """The position on a domain axis, as an I64."""

    axis: int
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class SizeValue:
    """The value of a size, as an I64."""

    dim: DimLike
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A scalar function of `rlxlang.kernels.functions`; `dtype` is that of the result."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """The result of the reduction `name` at this outer point; usable after the pass that computes it."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The value of the prefix reduction `name` up to and including this inner point, inside its own pass."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """The contracted value at this point, in the epilogue of a `Contract`."""

    dtype: DType


Expr: TypeAlias = Const | Load | AxisValue | SizeValue | Apply | Reduced | Running | Accumulator


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below one."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Load):
        below = tuple(g.value for g in expr.index.gathered)
        return below if expr.where is None else (*below, expr.where)
    return ()


def walk(*roots: Expr) -> Iterator[Expr]:
    """Every expression below the roots once, operands before users."""
    done: set[int] = set()
    todo: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while todo:
        expr, ready = todo.pop()
        if id(expr) in done:
            continue
        if ready:
            done.add(id(expr))
            yield expr
            continue
        todo.append((expr, True))
        todo.extend((c, False) for c in reversed(children(expr)) if id(c) not in done)


def compare(function: str, left: Expr, right: Expr) -> Apply:
    """A comparison (`eq ne lt le gt ge`) of two values of one dtype."""
    return Apply(function, (left, right), BOOL)
