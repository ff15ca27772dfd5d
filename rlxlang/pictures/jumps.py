"""Edges that would run past too many ranks are not drawn: both ends carry a number instead, as on pages of a circuit.

A backward pass uses what a forward pass made, in reverse order; drawn, these edges would be as many lines beside each other as
the network is deep, and bends without end.
"""

from __future__ import annotations

from typing import Any

from rlxlang.pictures.layout import plan_levels
from rlxlang.pictures.ranks import rank_members
from rlxlang.pictures.scene import Box, Group, Satellite, Scene, Value, ancestors

_BENDS_EACH = 8  # bends for each member of a level that are drawn without second thoughts
_BENDS_FREE = 150


def cut_long_edges(scene: Scene) -> None:
    """Replace the longest edges of every level by numbers until there are not too many bends."""
    numbers = {id(v): k for k, v in enumerate(scene.values)}
    plans = plan_levels(scene, numbers)
    above = {b: {b, *ancestors(b)} for b in scene.boxes()}
    cut: dict[int, list[Box]] = {}
    for group, plan in plans.items():
        budget = _BENDS_FREE + _BENDS_EACH * len(group.members)
        rank = rank_members(group.members, list(plan.nets.values()), bool(plan.entries))
        last = 1 + max(rank.values(), default=0)
        lengths: list[tuple[int, int, Any]] = []
        bends = 0
        for net in plan.nets.values():
            start = rank.get(net.source, 0)
            spans = [(rank.get(t, last) - start, t) for t in net.targets]
            bends += max((s for s, _ in spans), default=1) - 1
            lengths += [(s, net.value, t) for s, t in spans if s > 2]
        if bends <= budget:
            continue
        lengths.sort(key=lambda entry: -entry[0])
        longest: dict[int, int] = {}
        for span, value, _ in lengths:
            longest[value] = max(longest.get(value, 0), span)
        for k, (span, value, target) in enumerate(lengths):
            if bends <= budget:
                break
            shorter = next((s for s, v, _ in lengths[k + 1 :] if v == value), 1)
            bends -= max(0, span - shorter)
            cut.setdefault(value, []).extend(_boxes_behind(scene.values[value], group, target, above))
    for mark, (number, boxes) in enumerate(sorted(cut.items()), start=1):
        _jump(scene.values[number], boxes, mark)


def _boxes_behind(value: Value, group: Group, target: Any, above: dict[Box, set[Any]]) -> list[Box]:
    """The boxes that an edge of a level leads to."""
    if isinstance(target, tuple):
        return [t for t, _ in value.targets if group not in above[t]]
    return [t for t, _ in value.targets if target in above[t]]


def _jump(value: Value, boxes: list[Box], mark: int) -> None:
    gone = set(boxes)
    source = value.sources[0]
    name = source.name or source.title
    for box in dict.fromkeys(boxes):
        tooltip = (f"comes from {name}, which is marked #{mark}", value.type)
        box.satellites.append(Satellite("jump", f"#{mark}", f"#{mark} {name}", "", tooltip))
    value.targets = [(t, p) for t, p in value.targets if t not in gone]
    value.type = f"{value.type}  #{mark}"
