"""One level of a picture: the boxes of one group, the groups in it as boxes with ports, and the edges between them.

The steps are those of Sugiyama, Tagawa and Toda 1981: ranks, bends where edges pass through ranks, few crossings, positions.
Edges of one value share their bends, so that a value which many use runs down as one line with branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlxlang.pictures.cells import Cell, connect, slide_inlets, spread_inlets
from rlxlang.pictures.coordinates import place
from rlxlang.pictures.ordering import order
from rlxlang.pictures.ranks import rank_members

ACROSS_GAP = 18.0  # between neighbours of a rank
PORT_GAP = 18.0  # between inlets of a box
_RANK_GAP = 18.0  # between ranks, where edges turn
_PORT_RANK_GAP = 4.0  # between a rank and ports straight below or above it
_MOST_GAP = 72.0
_BEND = 5.0  # half the room of a line


@dataclass(slots=True, eq=False)
class Net:
    """One value within one level.

    Attributes:
        value: The value, for its name in files.
        source: The member it comes from, or the port of the border.
        outlet: Where it leaves the member.
        targets: Members or ports it goes to; it comes in where its value does.
    """

    value: int
    source: Any
    outlet: int
    targets: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Segment:
    """A piece of an edge: from a point straight to the border of its rank, in a curve to the next rank, straight to its end.

    Attributes:
        value: The value that it carries.
        points: (across, along) of the start, of both ends of the curve, and of the end.
        is_end: Whether it arrives at a box.
    """

    value: int
    points: tuple[tuple[float, float], ...]
    is_end: bool


@dataclass(slots=True, eq=False)
class Level:
    """A level with places, from 0 in both directions.

    Attributes:
        at: Anchor across, and upper end, of each member.
        segments: Pieces of edges.
        across, along: Size.
        entries, exits: Place across of the ports.
        crossings: How many pairs of edges cross.
        arrivals: For a member and a value where the edge comes from, across, that ends there.
        departures: And where the edges go that start there.
    """

    at: dict[Any, tuple[float, float]]
    segments: list[Segment]
    across: float
    along: float
    entries: dict[int, float]
    exits: dict[int, float]
    crossings: int
    arrivals: dict[tuple[Any, int], float]
    departures: dict[tuple[Any, int], float]


def arrange(
    cells: dict[Any, Cell],
    entries: Sequence[int],
    exits: dict[int, float],
    nets: Sequence[Net],
    wishes: Mapping[Any, float] | None = None,
) -> Level:
    """Find places for one level.

    Args:
        cells: For each member its size and ports.
        entries: Values that come in through the border, as keys of ports.
        exits: Values that leave, with the room that their types need beside them.
        nets: What runs where; the ports are the pairs ("in", value) and ("out", value).
        wishes: For each port a number; ports on a border are put in the order of these.
    """
    ports: dict[Any, Cell] = {("in", v): _port("in", v) for v in entries} | {
        ("out", v): _port("out", v, r) for v, r in exits.items()
    }
    everything = {**cells, **ports}
    rank = rank_members(list(cells), nets, bool(entries))
    last = max(rank.values(), default=-1) + 1
    for v in entries:
        rank["in", v] = 0
    for v in exits:
        rank["out", v] = last
    count = last + (1 if exits else 0)
    layers: list[list[Cell]] = [[] for _ in range(max(count, 1))]
    for key, cell in everything.items():
        layers[rank[key]].append(cell)
    for net in nets:
        _route(net, everything, rank, layers)
    borders = ([0] if entries else []) + ([last] if exits else [])
    crossed = order(layers, dict.fromkeys(borders, wishes) if wishes is not None else None)
    spread_inlets(layers, PORT_GAP)
    place(layers, ACROSS_GAP)
    slide_inlets(layers, PORT_GAP / 2)
    return _finish(layers, cells, ports, crossed)


def _port(side: str, value: int, room: float = 0.0) -> Cell:
    return Cell((side, value), _BEND, max(_BEND, room), inlets={value: 0.0}, outlets={value: 0.0}, is_free=False)


def _route(net: Net, cells: dict[Any, Cell], rank: dict[Any, int], layers: list[list[Cell]]) -> None:
    """Wires of a net, with a bend in every rank between its source and the rank before its farthest target."""
    by_rank: dict[int, list[Any]] = {}
    for target in dict.fromkeys(net.targets):
        by_rank.setdefault(rank[target], []).append(target)
    upper, outlet, bent = cells[net.source], net.outlet, False
    for r in range(rank[net.source] + 1, max(by_rank, default=0) + 1):
        for target in by_rank.get(r, ()):
            is_end = isinstance(target, tuple) or getattr(target, "kind", "") in ("output", "tap", "result")
            weight = 1 if is_end else 2 if bent else 3
            connect(upper, outlet, cells[target], net.value, net.value, weight)
        if r < max(by_rank):
            bend = Cell(None, _BEND, _BEND, inlets={net.value: 0.0}, outlets={net.value: 0.0}, is_free=False)
            layers[r].append(bend)
            connect(upper, outlet, bend, net.value, net.value, 8 if bent else 2)
            upper, outlet, bent = bend, net.value, True


def _finish(layers: list[list[Cell]], cells: dict[Any, Cell], ports: dict[Any, Cell], crossed: int) -> Level:
    low = min((c.x - c.left for layer in layers for c in layer), default=0.0)
    high = max((c.x + c.right for layer in layers for c in layer), default=0.0)
    y = 0.0
    borders: list[tuple[float, float]] = []
    for k, layer in enumerate(layers):
        height = max((c.height for c in layer), default=0.0)
        for cell in layer:
            cell.x -= low
            cell.y = y + (height - cell.height) / 2
        borders.append((y, y + height))
        y += height + _gap_below(layer, layers[k + 1] if k + 1 < len(layers) else ())
    along = borders[-1][1] if borders else 0.0
    segments = [
        Segment(wire.net, _points(wire, borders[k], borders[k + 1]), wire.lower.is_free and wire.lower.item is not None)
        for k, layer in enumerate(layers[:-1])
        for cell in layer
        for wire in cell.below
    ]
    for k, layer in enumerate(layers):  # a bend passes straight through its rank
        for cell in layer:
            if cell.item is None and borders[k][1] > borders[k][0]:
                x, (start, end) = cell.x, borders[k]
                segments.append(Segment(cell.above[0].net, ((x, start), (x, start), (x, end), (x, end)), False))
    return Level(
        {m: (c.x, c.y) for m, c in cells.items()},
        segments,
        high - low,
        along,
        {key[1]: c.x for key, c in ports.items() if key[0] == "in"},
        {key[1]: c.x for key, c in ports.items() if key[0] == "out"},
        crossed,
        *_directions(layers),
    )


def _directions(layers: list[list[Cell]]) -> tuple[dict[tuple[Any, int], float], dict[tuple[Any, int], float]]:
    """Where edges of groups come from and go to; see `Level`."""
    arrivals: dict[tuple[Any, int], float] = {}
    leaving: dict[tuple[Any, int], list[float]] = {}
    for wire in (w for layer in layers for c in layer for w in c.below):
        if not wire.lower.is_free:
            arrivals[wire.lower.item, wire.net] = wire.upper.x + wire.upper.outlets.get(wire.outlet, 0.0)
        if not wire.upper.is_free:
            end = wire.lower.x + wire.lower.inlets.get(wire.inlet, 0.0)
            leaving.setdefault((wire.upper.item, wire.net), []).append(end)
    return arrivals, {key: sum(ends) / len(ends) for key, ends in leaving.items()}


def _gap_below(layer: Sequence[Cell], following: Sequence[Cell]) -> float:
    """Room below a rank: more where edges go far to the side, so that they are not flat."""
    farthest = max((abs(w.lower.x - w.upper.x - w.shift) for c in layer for w in c.below), default=0.0)
    ports = all(isinstance(c.item, tuple) for c in layer) or all(isinstance(c.item, tuple) for c in following)
    least = _PORT_RANK_GAP if ports and farthest < 1 else _RANK_GAP
    return min(_MOST_GAP, least + farthest / 9)


def _points(wire: Any, above: tuple[float, float], below: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    upper, lower = wire.upper, wire.lower
    x1 = upper.x + upper.outlets.get(wire.outlet, 0.0)
    x2 = lower.x + lower.inlets.get(wire.inlet, 0.0)
    start = above[1] if upper.item is None else upper.y + upper.height - upper.tail
    end = below[0] if lower.item is None else lower.y + lower.head
    return (x1, start), (x1, above[1]), (x2, below[0]), (x2, end)
