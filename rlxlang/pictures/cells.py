"""Cells: what stands in the ranks of one level, boxes and groups of it, ports on its borders, and bends of long edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(slots=True, eq=False)
class Cell:
    """A place in a rank.

    Attributes:
        item: What stands there; None for a bend.
        left, right: How far it reaches to both sides of its anchor.
        height: Along the direction of flow.
        head, tail: How far from its upper end edges come in, and from its lower end they leave.
        inlets: Where edges come in, from the anchor, by key; for a box they are set when the order is known.
        outlets: Where edges leave.
        is_free: Whether the inlets may be put in any order.
        above, below: Wires to the neighbouring ranks.
        place: Its number within the rank.
        x, y: Anchor and upper end, when they are known.
    """

    item: Any = None
    left: float = 0.0
    right: float = 0.0
    height: float = 0.0
    head: float = 0.0
    tail: float = 0.0
    inlets: dict[int, float] = field(default_factory=dict)
    outlets: dict[int, float] = field(default_factory=dict)
    is_free: bool = True
    above: list[Wire] = field(default_factory=list)
    below: list[Wire] = field(default_factory=list)
    place: int = 0
    x: float = 0.0
    y: float = 0.0

    def inlet_fraction(self, key: int) -> float:
        """How far to the right an inlet lies, in -0.45 … 0.45; 0 where it may be anywhere."""
        return 0.0 if self.is_free else self._fraction(self.inlets.get(key, 0.0))

    def outlet_fraction(self, key: int) -> float:
        """How far to the right an outlet lies, in -0.45 … 0.45."""
        return self._fraction(self.outlets.get(key, 0.0))

    def _fraction(self, offset: float) -> float:
        width = self.left + self.right
        return 0.9 * ((offset + self.left) / width - 0.5) if width else 0.0


@dataclass(slots=True, eq=False)
class Wire:
    """A piece of an edge between neighbouring ranks.

    Attributes:
        upper, outlet: Where it starts.
        lower, inlet: Where it ends.
        net: The value that it carries.
        weight: How much it is worth that it is straight.
        leaves, arrives: How far to the right in the cells its ends lie, in -0.45 … 0.45; see `Cell.inlet_fraction`.
    """

    upper: Cell
    outlet: int
    lower: Cell
    inlet: int
    net: int
    weight: int = 2
    leaves: float = 0.0
    arrives: float = 0.0

    @property
    def shift(self) -> float:
        """Where the lower cell stands, seen from the upper one, when the wire is straight."""
        return self.upper.outlets.get(self.outlet, 0.0) - self.lower.inlets.get(self.inlet, 0.0)

    @property
    def is_inner(self) -> bool:
        """Whether it lies between two bends of a long edge."""
        return self.upper.item is None and self.lower.item is None


def connect(upper: Cell, outlet: int, lower: Cell, inlet: int, net: int, weight: int) -> Wire:
    """A new wire, known to both its ends."""
    wire = Wire(upper, outlet, lower, inlet, net, weight)
    upper.below.append(wire)
    lower.above.append(wire)
    return wire


def spread_inlets(layers: Sequence[Sequence[Cell]], gap: float) -> None:
    """Inlets of boxes side by side in the order in which their edges come in."""
    for layer in layers:
        for cell in layer:
            if cell.item is None or not cell.is_free:
                continue
            wires = sorted(cell.above, key=lambda w: (w.upper.place, w.upper.outlets.get(w.outlet, 0.0)))
            keys = list(dict.fromkeys(w.inlet for w in wires))
            room = max(0.0, 2 * min(cell.left, cell.right) - 16.0)
            step = min(gap, room / (len(keys) - 1)) if len(keys) > 1 else 0.0
            cell.inlets = {key: (k - (len(keys) - 1) / 2) * step for k, key in enumerate(keys)}


def slide_inlets(layers: Sequence[Sequence[Cell]], gap: float) -> None:
    """Inlets of boxes move under the ends of their wires where the boxes are wide enough, so that small bends vanish."""
    for layer in layers:
        for cell in layer:
            if cell.item is None or not cell.is_free or not cell.above:
                continue
            room = min(cell.left, cell.right) - 7.0
            wishes = {w.inlet: w.upper.x + w.upper.outlets.get(w.outlet, 0.0) - cell.x for w in cell.above}
            keys = list(cell.inlets)
            moved = [wishes[k] if abs(wishes[k]) <= room and k in wishes else cell.inlets[k] for k in keys]
            if all(b - a >= gap for a, b in pairwise(moved)):
                cell.inlets = dict(zip(keys, moved, strict=True))
