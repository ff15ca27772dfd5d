"""Sorting of rows: a step of its own, as no loop over independent points computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlxlang.types import DimLike

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """The first `count` of every row of a matrix in sorted order, and where they were.

    The order is stable in either direction. NaN counts as larger than every number, and -0 as equal to 0.

    Attributes:
        name: Name of the step.
        rows: Number of rows.
        length: Entries of a row; they lie side by side.
        count: How many are kept of each, at most `length`.
        source: Buffer of the matrix [rows, length].
        values: Buffer for the entries [rows, count], or -1 when nobody reads them.
        indices: Buffer for their positions [rows, count], I32 or I64, or -1.
        scratch: A private buffer of U64, two words for each entry of a row and four where entries have 64 bits; a backend that
            sorts otherwise leaves it alone.
        descending: Largest first.
        ops: Names of the graph ops inside.
    """

    name: str
    rows: DimLike
    length: DimLike
    count: DimLike
    source: int
    values: int
    indices: int
    scratch: int
    descending: bool
    ops: tuple[str, ...] = ()


def sorted_positions(x: Array, descending: bool) -> Array:
    """The stable order of every row of an array (its last axis): NaN last, or first when descending."""
    x = x.astype(np.float32) if x.dtype.name in ("float16", "bfloat16") else x
    if not descending:
        return np.argsort(x, -1, kind="stable")
    # From the other end equal entries would come out in reverse: read the row backwards, too.
    backwards = np.argsort(x[..., ::-1], -1, kind="stable")
    found: Array = x.shape[-1] - 1 - backwards[..., ::-1]
    return found


def first_sorted(x: Array, count: int, descending: bool) -> tuple[Array, Array]:
    """The first entries of every sorted row, and their positions."""
    positions = sorted_positions(x, descending)[..., :count]
    return np.take_along_axis(x, positions, -1), positions
