"""Positions across the ranks, after Brandes and Köpf 2002, with ports.

Each cell is aligned with a median neighbour where no inner piece of a long edge is crossed, which gives blocks that are
straight from port to port. Blocks are packed in both directions by longest paths. Of the four results, up and down, left and right,
the mean of the two in the middle keeps every distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rlxlang.pictures.cells import Cell, Wire


def place(layers: Sequence[Sequence[Cell]], gap: float) -> None:
    """Set `x` of every cell; neighbours in a rank keep at least `gap` between each other.

    Args:
        layers: Cells in the order of their ranks, with their inlets.
        gap: Least distance.
    """
    cells = [c for layer in layers for c in layer]
    if not cells:
        return
    forbidden = _conflicts(layers)
    runs: list[dict[Cell, float]] = []
    for downwards in (True, False):
        for leftwards in (True, False):
            runs.append(_run(layers, forbidden, gap, downwards, leftwards))
    widths = [max(x + c.right for c, x in run.items()) - min(x - c.left for c, x in run.items()) for run in runs]
    narrow = runs[min(range(4), key=lambda k: widths[k])]
    low, high = min(x - c.left for c, x in narrow.items()), max(x + c.right for c, x in narrow.items())
    for k, run in enumerate(runs):
        at_left = k % 2 == 0
        shift = (
            low - min(x - c.left for c, x in run.items())
            if at_left
            else high - max(x + c.right for c, x in run.items())
        )
        for cell in run:
            run[cell] += shift
    for cell in cells:
        found = sorted(run[cell] for run in runs)
        cell.x = (found[1] + found[2]) / 2
    for downwards in (True, False, True, False):
        for layer in layers if downwards else reversed(layers):
            _settle(layer, gap)


def _settle(layer: Sequence[Cell], gap: float) -> None:
    """Move cells that no straight wire holds to where their wires want them, as near as the others let them.

    The distances to the wished places have the least sum of weighted squares: a chain in order, solved by pooling neighbours that
    collide (Ayer et al. 1955).
    """
    pools: list[tuple[float, float, int]] = []  # weighted sum of wishes, weight, number of cells
    offsets: list[float] = []
    for k, cell in enumerate(layer):
        before = layer[k - 1] if k else None
        offsets.append(offsets[-1] + before.right + gap + cell.left if before is not None else 0.0)
        wish, weight = _wish(cell)
        pool = ((wish - offsets[k]) * weight, weight, 1)
        while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    k = 0
    for total, weight, count in pools:
        for _ in range(count):
            layer[k].x = total / weight + offsets[k]
            k += 1


def _wish(cell: Cell) -> tuple[float, float]:
    """Where a cell wants to be, and how much."""
    ends = [(w.upper.x + w.shift, w.weight) for w in cell.above] + [(w.lower.x - w.shift, w.weight) for w in cell.below]
    if not ends:
        return cell.x, 0.1
    held = max((w for x, w in ends if abs(x - cell.x) < 0.1), default=0)
    if held >= max(w for _, w in ends):
        return cell.x, 1000.0 if held > 3 else 100.0
    most = max(w for _, w in ends)
    wishes = [x for x, w in ends if w == most]
    return sum(wishes) / len(wishes), 100.0 if cell.item is None else 1.0


def _conflicts(layers: Sequence[Sequence[Cell]]) -> set[int]:
    """Wires, by identity, that cross a piece of a long edge and may not be made straight (conflicts of type 1)."""
    found: set[int] = set()
    for k in range(len(layers) - 1):
        lower = layers[k + 1]
        left, scan = -1.0, 0
        for j, cell in enumerate(lower):
            inner = next((w for w in cell.above if w.is_inner), None)
            if inner is None and j < len(lower) - 1:
                continue
            right = inner.upper.place if inner is not None else len(layers[k])
            while scan <= j:
                for wire in lower[scan].above:
                    if not wire.is_inner and not left <= wire.upper.place <= right:
                        found.add(id(wire))
                scan += 1
            left = right
    return found


def _run(
    layers: Sequence[Sequence[Cell]], forbidden: set[int], gap: float, downwards: bool, leftwards: bool
) -> dict[Cell, float]:
    root: dict[Cell, Cell] = {}
    shift: dict[Cell, float] = {}
    last: dict[Cell, Cell] = {}  # the lowest cell of the block of a root
    for layer in layers:
        for cell in layer:
            root[cell], shift[cell], last[cell] = cell, 0.0, cell
    for layer in layers if downwards else reversed(layers):
        edge = -1 if leftwards else 1 << 30
        for cell in layer if leftwards else reversed(layer):
            for wire in _medians(cell, downwards, leftwards):
                other = wire.upper if downwards else wire.lower
                free = last[root[other]] is other
                ahead = other.place > edge if leftwards else other.place < edge
                if id(wire) in forbidden or not free or not ahead:
                    continue
                root[cell] = root[other]
                shift[cell] = shift[other] + (wire.shift if downwards else -wire.shift)
                last[root[cell]] = cell
                edge = other.place
                break
    return _pack(layers, root, shift, gap, leftwards)


def _medians(cell: Cell, downwards: bool, leftwards: bool) -> list[Wire]:
    """The wires to the median neighbours, in the order in which they are tried; only the heaviest count."""
    wires = cell.above if downwards else cell.below
    if len(wires) < 2:
        return wires
    most = max(w.weight for w in wires)
    heavy = [w for w in wires if w.weight == most]
    heavy.sort(key=lambda w: (w.upper if downwards else w.lower).place)
    low, high = (len(heavy) - 1) // 2, len(heavy) // 2
    if low == high:
        return [heavy[low]]
    return [heavy[low], heavy[high]] if leftwards else [heavy[high], heavy[low]]


def _pack(
    layers: Sequence[Sequence[Cell]], root: dict[Cell, Cell], shift: dict[Cell, float], gap: float, leftwards: bool
) -> dict[Cell, float]:
    """Blocks as far to one side as they go, and then back towards their neighbours on the other side."""
    after: dict[Cell, dict[Cell, float]] = {}
    before: dict[Cell, dict[Cell, float]] = {}
    for layer in layers:
        for left, right in pairwise(layer):
            one, other = root[left], root[right]
            if one is other:
                continue
            distance = left.right + gap + right.left + shift[left] - shift[right]
            if distance > after.setdefault(one, {}).get(other, -1e18):
                after[one][other] = distance
                before.setdefault(other, {})[one] = distance
    blocks = list(dict.fromkeys(root[c] for layer in layers for c in layer))
    if not leftwards:
        after, before = before, after
    sign = 1.0 if leftwards else -1.0
    degree = {b: len(before.get(b, ())) for b in blocks}
    ready = [b for b in reversed(blocks) if not degree[b]]
    sequence = []
    at: dict[Cell, float] = {}
    while ready:
        block = ready.pop()
        sequence.append(block)
        at[block] = max((at[o] + d for o, d in before.get(block, {}).items()), default=0.0)
        for other in after.get(block, ()):
            degree[other] -= 1
            if not degree[other]:
                ready.append(other)
    for block in reversed(sequence):
        following = after.get(block)
        if following:
            at[block] = max(at[block], min(at[o] - d for o, d in following.items()))
    return {c: sign * at[root[c]] + shift[c] for layer in layers for c in layer}
