"""Nearest names, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable


def distance(left: str, right: str) -> int:
    """Edits between two words: insert, delete, replace, swap of neighbours.

    Source:
        Optimal string alignment distance; Damerau 1964, "A technique for computer detection and correction of
        spelling errors".
    """
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            best = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            current.append(best)
        before, previous = previous, current
    return previous[-1]


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Up to `limit` candidates within distance ceil(len(name) / 3), nearest first.

    Case counts only to break ties.
    """
    allowed = -(-len(name) // 3)
    folded = name.casefold()
    found = []
    for candidate in dict.fromkeys(candidates):
        if candidate == name or abs(len(candidate) - len(name)) > allowed:
            continue
        edits = distance(folded, candidate.casefold())
        if edits <= allowed and edits < max(len(name), len(candidate)):
            found.append((edits, distance(name, candidate), candidate))
    return tuple(candidate for _, _, candidate in sorted(found)[:limit])


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A help line naming the nearest candidates, or "" when none is near."""
    names = [f"`{candidate}`" for candidate in nearest(name, candidates)]
    if not names:
        return ""
    if len(names) == 1:
        return f"did you mean {names[0]}?"
    return f"did you mean {', '.join(names[:-1])} or {names[-1]}?"
