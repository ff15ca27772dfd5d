"""Sizes as plain data and back: nested tuples of numbers and strings, for what is kept on disk."""

from __future__ import annotations

from typing import Any, TypeAlias

from rlxlang.types.dim import Atom, Axis, Compound, Dim, DimLike

Plain: TypeAlias = Any
"""What `marshal` keeps: None, numbers, strings, bytes and tuples of such."""


def dim_to_plain(dim: DimLike) -> Plain:
    """A number as itself, a polynomial as its terms."""
    if not isinstance(dim, Dim):
        return dim
    return tuple((tuple((_atom_to_plain(a), p) for a, p in monomial), c) for monomial, c in dim.terms)


def _atom_to_plain(atom: Atom) -> Plain:
    if isinstance(atom, Axis):
        return atom.name
    return (atom.kind, dim_to_plain(atom.left), dim_to_plain(atom.right))


def dim_from_plain(data: Plain) -> DimLike:
    """The size that `dim_to_plain` took apart."""
    if not isinstance(data, tuple):
        number: int = data
        return number
    return Dim(tuple((tuple((_atom_from_plain(a), p) for a, p in monomial), c) for monomial, c in data))


def _atom_from_plain(data: Plain) -> Atom:
    if isinstance(data, str):
        return Axis(data)
    kind, left, right = data
    return Compound(kind, dim_from_plain(left), dim_from_plain(right))


def shape_to_plain(shape: tuple[DimLike, ...]) -> Plain:
    """The dims of a shape."""
    return tuple(dim_to_plain(d) for d in shape)


def shape_from_plain(data: Plain) -> tuple[DimLike, ...]:
    """The shape that `shape_to_plain` took apart."""
    return tuple(dim_from_plain(d) for d in data)
