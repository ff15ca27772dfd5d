"""Ranks: every edge of a picture goes from one rank to a later one.

The longest path gives the first ranks (Sugiyama, Tagawa and Toda 1981). Nodes, and then connected parts that hang by edges of
length one, are moved where they shorten edges, which is what network simplex does in whole trees (Gansner et al. 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Edge = tuple[int, int, int]  # source, target, weight

_SWEEPS = 24


def ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """A rank for each of the nodes 0 … count-1, from 0, such that every edge goes to a larger one.

    Args:
        count: Number of nodes.
        edges: Of a graph without cycles; `weight` says how much a long edge costs.

    Raises:
        ValueError: The edges have a cycle.
    """
    before: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for source, target, weight in edges:
        before[target].append((source, weight))
        after[source].append((target, weight))
    order = _topological(count, before, after)
    rank = [0] * count
    for node in order:
        rank[node] = 1 + max((rank[s] for s, _ in before[node]), default=-1)
    for sweep in range(_SWEEPS):
        moved = False
        for node in reversed(order) if sweep % 2 == 0 else order:
            moved |= _pull(node, rank, before, after, at_ties=sweep == 0)
        moved |= _pull_parts(rank, before, after) if not moved else False
        if not moved:
            break
    least = min(rank, default=0)
    return [r - least for r in rank]


def _topological(
    count: int, before: Sequence[Sequence[tuple[int, int]]], after: Sequence[Sequence[tuple[int, int]]]
) -> list[int]:
    degree = [len(b) for b in before]
    ready = [n for n in range(count - 1, -1, -1) if not degree[n]]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for other, _ in reversed(after[node]):
            degree[other] -= 1
            if not degree[other]:
                ready.append(other)
    if len(order) < count:
        raise ValueError("the edges have a cycle")
    return order


def _pull(
    node: int,
    rank: list[int],
    before: Sequence[Sequence[tuple[int, int]]],
    after: Sequence[Sequence[tuple[int, int]]],
    *,
    at_ties: bool,
) -> bool:
    """Move a node to the end of its range that makes its edges shorter; a tie goes to its users where that is asked for."""
    slope = sum(w for _, w in after[node]) - sum(w for _, w in before[node])
    if after[node] and (slope > 0 or (slope == 0 and at_ties)):
        best = min(rank[t] for t, _ in after[node]) - 1
    elif before[node] and slope < 0:
        best = 1 + max(rank[s] for s, _ in before[node])
    else:
        return False
    if best == rank[node]:
        return False
    rank[node] = best
    return True


def _pull_parts(
    rank: list[int], before: Sequence[Sequence[tuple[int, int]]], after: Sequence[Sequence[tuple[int, int]]]
) -> bool:
    """Move parts that are held together by edges of length one and whose other edges, taken together, pull one way."""
    count = len(rank)
    part = [-1] * count
    parts: list[list[int]] = []
    for start in range(count):
        if part[start] >= 0:
            continue
        part[start] = len(parts)
        members, todo = [start], [start]
        while todo:
            node = todo.pop()
            for neighbours, sign in ((after[node], 1), (before[node], -1)):
                for other, _ in neighbours:
                    if part[other] < 0 and rank[other] == rank[node] + sign:
                        part[other] = part[start]
                        members.append(other)
                        todo.append(other)
        parts.append(members)
    if len(parts) < 2:
        return False
    moved = False
    for number, members in enumerate(parts):
        pull, down, up = 0, count, count
        for node in members:
            for other, weight in after[node]:
                if part[other] != number:
                    pull += weight
                    down = min(down, rank[other] - rank[node] - 1)
            for other, weight in before[node]:
                if part[other] != number:
                    pull -= weight
                    up = min(up, rank[node] - rank[other] - 1)
        step = down if pull > 0 else -up if pull < 0 else 0
        if step and abs(step) < count:
            moved = True
            for node in members:
                rank[node] += step
    return moved


def rank_members(members: Sequence[Any], nets: Sequence[Any], has_entries: bool) -> dict[Any, int]:
    """Rank of each member of a level.

    Args:
        members: Boxes and groups.
        nets: What runs between them, with `source` and `targets`; what is no member is a port of the border.
        has_entries: Whether the first rank is left to ports where values come in.
    """
    number = {m: k for k, m in enumerate(members)}
    top = len(members)
    weights: dict[tuple[int, int], int] = {}
    for net in nets:
        source = number.get(net.source, top)
        for target in net.targets:
            if target in number:
                weights[source, number[target]] = weights.get((source, number[target]), 0) + 1
    if has_entries:
        for k in range(len(members)):
            weights.setdefault((top, k), 0)
    edges = [(s, t, w) for (s, t), w in weights.items() if has_entries or s != top]
    found = ranks(len(members) + (1 if has_entries else 0), edges)
    return {m: found[k] for m, k in number.items()}
