"""The order within each rank, with few crossings: sweeps by medians and exchanges of neighbours (Gansner et al. 1993).

Crossings are counted between the ports of cells, not their middles, in O(E log V) (Barth, Jünger and Mutzel 2002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlxlang.pictures.cells import Cell

_SWEEPS = 16
_LARGE = 3000  # wires; a level with more of them gets fewer sweeps
_MOST_EXCHANGES = 6  # rounds of exchanges in a sweep, one in a large level


def order(layers: list[list[Cell]], wishes: Mapping[int, Mapping[Any, float]] | None = None) -> int:
    """Reorder the cells of every layer in place; gives the number of crossings that are left.

    Args:
        layers: Cells by rank.
        wishes: Layers, by number, that keep the order in which these numbers, by item, put their cells.
    """
    fixed = wishes or {}
    wires = [w for layer in layers for c in layer for w in c.above]
    for wire in wires:
        wire.leaves = wire.upper.outlet_fraction(wire.outlet)
        wire.arrives = wire.lower.inlet_fraction(wire.inlet)
    sweeps, rounds = (_SWEEPS, _MOST_EXCHANGES) if len(wires) <= _LARGE else (4, 1)
    _first_order(layers)
    for number, places in fixed.items():
        layers[number].sort(key=lambda cell: places.get(cell.item, 0.0))
        _number(layers[number])
    best = [list(layer) for layer in layers]
    fewest = crossings(layers)
    for sweep in range(sweeps):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        for k in range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1):
            if k not in fixed:
                _by_median(layers[k], downwards)
        _exchange([layer for k, layer in enumerate(layers) if k not in fixed], rounds)
        found = crossings(layers)
        if found < fewest:
            fewest, best = found, [list(layer) for layer in layers]
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept
        _number(layer)
    return fewest


def _number(layer: Sequence[Cell]) -> None:
    for k, cell in enumerate(layer):
        cell.place = k


def _first_order(layers: list[list[Cell]]) -> None:
    """Depth first from the top, so that what hangs together lies together."""
    seen: set[Cell] = set()
    found: list[list[Cell]] = [[] for _ in layers]
    depth = {c: k for k, layer in enumerate(layers) for c in layer}
    for layer in layers:
        for start in layer:
            todo = [start]
            while todo:
                cell = todo.pop()
                if cell in seen:
                    continue
                seen.add(cell)
                found[depth[cell]].append(cell)
                todo.extend(w.lower for w in reversed(cell.below))
    for layer, new in zip(layers, found, strict=True):
        layer[:] = new
        _number(layer)


def _by_median(layer: list[Cell], downwards: bool) -> None:
    """Sort a layer by the medians of neighbours in the layer before; cells without any keep their places."""
    keyed: list[tuple[float, int, Cell]] = []
    fixed: list[tuple[int, Cell]] = []
    for k, cell in enumerate(layer):
        wires = cell.above if downwards else cell.below
        if not wires:
            fixed.append((k, cell))
            continue
        if downwards:
            ports = sorted(w.upper.place + w.leaves - w.arrives / 2 for w in wires)
        else:
            ports = sorted(w.lower.place + w.arrives - w.leaves / 2 for w in wires)
        keyed.append((_median(ports), k, cell))
    keyed.sort(key=lambda entry: entry[:2])
    new = [cell for _, _, cell in keyed]
    for k, cell in fixed:
        new.insert(k, cell)
    layer[:] = new
    _number(layer)


def _median(values: Sequence[float]) -> float:
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    if len(values) == 2:
        return (values[0] + values[1]) / 2
    left, right = values[middle - 1] - values[0], values[-1] - values[middle]
    if left + right == 0:
        return (values[middle - 1] + values[middle]) / 2
    return (values[middle - 1] * right + values[middle] * left) / (left + right)


def _exchange(layers: Sequence[list[Cell]], rounds: int) -> None:
    """Exchange neighbours as long as that removes crossings."""
    for _ in range(rounds):
        improved = False
        for layer in layers:
            for k in range(len(layer) - 1):
                left, right = layer[k], layer[k + 1]
                if _between(left, right) > _between(right, left):
                    layer[k], layer[k + 1] = right, left
                    left.place, right.place = k + 1, k
                    improved = True
        if not improved:
            return


def _between(left: Cell, right: Cell) -> int:
    """Crossings of the wires of two neighbours with each other when one stands left of the other."""
    count = 0
    if left.above and right.above:
        count += _inversions(
            [w.upper.place + w.leaves for w in left.above], [w.upper.place + w.leaves for w in right.above]
        )
    if left.below and right.below:
        count += _inversions(
            [w.lower.place + w.arrives for w in left.below], [w.lower.place + w.arrives for w in right.below]
        )
    return count


def _inversions(left: list[float], right: list[float]) -> int:
    if len(left) == 1 and len(right) == 1:
        return left[0] > right[0]
    left.sort()
    right.sort()
    count = k = 0
    for port in left:
        while k < len(right) and right[k] < port:
            k += 1
        count += k
    return count


def crossings(layers: Sequence[Sequence[Cell]]) -> int:
    """The number of pairs of wires that cross, ports counted."""
    return sum(_crossings_below(layer) for layer in layers[:-1])


def _crossings_below(layer: Sequence[Cell]) -> int:
    ends = sorted((w.upper.place + w.leaves, w.lower.place + w.arrives) for cell in layer for w in cell.below)
    if len(ends) < 2:
        return 0
    ports = {port: k for k, port in enumerate(sorted({low for _, low in ends}))}
    tree = [0] * (len(ports) + 1)
    count = 0
    for seen, (_, low) in enumerate(ends):
        k = ports[low] + 1
        at_most, j = 0, k
        while j:
            at_most += tree[j]
            j &= j - 1
        count += seen - at_most
        while k <= len(ports):
            tree[k] += 1
            k += k & -k
    return count
