"""Buffers of a program, and the plan that gives temporaries their places in one arena.

A temporary lives from the step that writes it to the last step that reads it. Buffers that never live at once share bytes:
a slot is reused by a later buffer of the same symbolic size, or of any static size that fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlxlang.kernels import Branch, Buffer, Contract, Copy, Library, Load, Loop, Sort, Step, While, bodies, roots, walk
from rlxlang.types import Dim, DimLike, DType, Shape, ceil_div, product

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Buffers:
    """The buffers made so far; ids are positions."""

    def __init__(self) -> None:
        self.all: list[Buffer] = []

    def new(
        self, kind: str, dtype: DType, shape: Shape, name: str = "", data: np.ndarray[Any, Any] | None = None
    ) -> int:
        """A further buffer; returns its id."""
        self.all.append(Buffer(len(self.all), kind, dtype, tuple(shape), name, data))
        return len(self.all) - 1

    def __getitem__(self, key: int) -> Buffer:
        return self.all[key]


def touched(step: Step) -> Iterable[tuple[int, bool]]:
    """The buffers that a step reads (False) and writes (True), loops and branches included with all of their bodies."""
    if isinstance(step, Copy):
        yield step.source, False
        yield step.target, True
        return
    if isinstance(step, Library):
        yield from ((buffer, False) for buffer in step.arguments)
        yield from ((buffer, True) for buffer in step.results)
        return
    if isinstance(step, Sort):
        yield step.source, False
        yield from ((buffer, True) for buffer in (step.values, step.indices, step.scratch) if buffer >= 0)
        return
    if isinstance(step, Loop):
        for window in step.windows:
            yield window.base, True
            yield window.view, True
        if step.index >= 0:
            yield step.index, True
    if isinstance(step, Branch):
        yield step.predicate, False
    if isinstance(step, (Loop, While, Branch)):
        for sequence in bodies(step):
            for inner in sequence:
                yield from touched(inner)
        if isinstance(step, While):
            yield step.predicate, False
        return
    if isinstance(step, Contract):
        yield step.left.buffer, False
        yield step.right.buffer, False
        yield step.target, True
        stores = step.epilogue
    else:
        stores = (*(s for p in step.passes for s in p.stores), *step.finals)
    for store in stores:
        yield store.buffer, True
    for expr in walk(*roots(step)):
        if isinstance(expr, Load):
            yield expr.buffer, False


@dataclass
class _Slot:
    size: DimLike  # bytes, a multiple of ALIGNMENT
    offset: DimLike
    free_after: int  # position of the last step of the present tenant


def plan(buffers: Buffers, steps: Sequence[Step], threads: int) -> tuple[list[Buffer], DimLike]:
    """Places of all temporaries.

    Args:
        buffers: All buffers of the program.
        steps: Its steps in order.
        threads: Copies made of `private` buffers.

    Returns:
        The buffers with offsets, and the size of the arena in bytes.
    """
    births: dict[int, int] = {}
    deaths: dict[int, int] = {}
    position = 0

    def visit(within: Sequence[Step]) -> None:
        nonlocal position
        for step in within:
            start = position
            for sequence in bodies(step):
                position += 1
                visit(sequence)
            position += 1
            # What a loop or a branch touches lives as long as all of it: a body runs again, and only one branch runs.
            for buffer, _ in touched(step):
                births.setdefault(buffer, start)
                births[buffer] = min(births[buffer], start)
                deaths[buffer] = max(deaths.get(buffer, position), position)

    visit(steps)
    slots: list[_Slot] = []
    end: DimLike = 0
    placed = list(buffers.all)
    temporary = [b for b in buffers.all if b.kind in ("temp", "private") and b.id in births]
    for buffer in sorted(temporary, key=lambda b: births[b.id]):
        copies = threads if buffer.kind == "private" else 1
        size = _padded(product(buffer.shape) * buffer.dtype.bytes * copies)
        born = births[buffer.id]
        slot = _best(slots, size, born)
        if slot is None:
            slot = _Slot(size, end, -1)
            end = end + size
            slots.append(slot)
        slot.free_after = deaths[buffer.id]
        placed[buffer.id] = replace(buffer, offset=slot.offset)
    return placed, end


def _padded(size: DimLike) -> DimLike:
    return ceil_div(size, ALIGNMENT) * ALIGNMENT


def _best(slots: Sequence[_Slot], size: DimLike, born: int) -> _Slot | None:
    best: _Slot | None = None
    for slot in slots:
        if slot.free_after > born:
            continue
        if slot.size == size:
            return slot
        if isinstance(size, Dim) or isinstance(slot.size, Dim) or slot.size < size:
            continue
        if best is None or (isinstance(best.size, int) and slot.size < best.size):
            best = slot
    return best
