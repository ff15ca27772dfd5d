"""Equal groups in a chain, the layers of a deep network, are drawn once and marked with their number.

Groups are equal when they hold the same ops with the same options, types and wiring; names of parameters may differ. Groups
that follow each other in one group are folded when each gets from the one before what that got from the one before it, or the
same value as all, or what an equally folded chain gets or makes in the same step (a backward pass reads the forward pass); and
when nothing but the next one and such chains uses what they make, but for the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlxlang.pictures.scene import Box, Group, Scene, Value, adopt, walk

_DIGITS = re.compile(r"\d+")


@dataclass(slots=True, eq=False)
class _Family:
    """Groups that may be folded, in order, with the boxes of each in order."""

    groups: list[Group]
    boxes: list[list[Box]]


def fold_repeats(scene: Scene) -> None:
    """Fold what can be folded; the first of equal groups stays and says for how many it stands."""
    while True:  # from the inside outwards: layers made of layers
        families = _families(scene)
        if not families:
            return
        _sink_outputs(scene, families)
        families = _valid(scene, families)
        if not families:
            return
        _fold(scene, families)


# --------------------------------------------------------------------------------------------- which groups are equal


def _families(scene: Scene) -> list[_Family]:
    signatures = _signatures(scene)
    found = []
    for group in [scene.root, *scene.groups()]:
        row: list[Group] = []
        runs: list[list[Group]] = []
        for member in group.members:
            if not isinstance(member, Group):
                continue
            if row and signatures[id(member)] == signatures[id(row[0])] and member.times == 1:
                row.append(member)
            else:
                row = [member]
                runs.append(row)
        found += [
            _Family(r, [_boxes(g) for g in r]) for r in runs if len(r) > 1 and r[0].kind not in ("body", "transform")
        ]
    return found


def _boxes(group: Group) -> list[Box]:
    return [m for m in walk(group) if isinstance(m, Box)]


def _signatures(scene: Scene) -> dict[int, int]:
    """For each group a number that equal groups share."""
    operands: dict[int, list[tuple[int, Box, int, int]]] = {}
    types: dict[int, list[tuple[int, str]]] = {}
    for number, value in enumerate(scene.values):
        for source in value.sources:
            types.setdefault(id(source), []).append((value.outlet, value.type))
            for target, position in value.targets:
                operands.setdefault(id(target), []).append((position, source, value.outlet, number))
    known: dict[object, int] = {}
    found: dict[int, int] = {}
    for group in reversed(scene.groups()):
        inner = _boxes(group)
        local = {id(b): k for k, b in enumerate(inner)}
        ports: dict[int, int] = {}
        parts: list[object] = [group.kind if group.kind != "block" else group.note, group.times]
        for member in group.members:
            if isinstance(member, Group):
                parts.append((member.title if member.kind != "iteration" else "", found[id(member)]))
        for box in inner:
            wires = []
            for position, source, outlet, number in sorted(operands.get(id(box), []), key=lambda o: (o[0], o[2], o[3])):
                if id(source) in local:
                    wires.append((position, local[id(source)], outlet))
                else:
                    wires.append((position, -1, ports.setdefault(number, len(ports))))
            beside = tuple((s.kind, s.dims, "" if s.kind == "param" else s.name) for s in box.satellites)
            title = box.title if box.kind not in ("output", "tap") else ""
            parts.append(
                (box.kind, title, box.args, box.name, beside, tuple(wires), tuple(sorted(types.get(id(box), ()))))
            )
        found[id(group)] = known.setdefault(tuple(parts), len(known))
    return found


# --------------------------------------------------------------------------------------------- which may be folded


def _sink_outputs(scene: Scene, families: Sequence[_Family]) -> None:
    """Outputs that every one of equal groups has go into the groups, so that they are folded with them."""
    by_source: dict[int, list[Box]] = {}
    for value in scene.values:
        if len(value.sources) == 1:
            ends = [t for t, _ in value.targets if t.kind in ("output", "tap") and t.group is scene.root]
            by_source.setdefault(id(value.sources[0]), []).extend(ends)
    moved: set[int] = set()
    for family in families:
        for same in zip(*family.boxes, strict=True):
            outputs = [by_source.get(id(b), []) for b in same]
            if not outputs[0] or len({tuple(o.kind for o in found) for found in outputs}) > 1:
                continue
            for box, found in zip(same, outputs, strict=True):
                for output in found:
                    if output.group is scene.root and box.group is not None:
                        moved.add(id(output))
                        adopt(box.group, output)
        family.boxes = [_boxes(g) for g in family.groups]
    scene.root.members = [m for m in scene.root.members if id(m) not in moved]


class _Places:
    """In which groups of which families each box lies."""

    def __init__(self, families: Iterable[_Family]) -> None:
        self.number: dict[int, int] = {}
        self._of: dict[int, dict[int, tuple[_Family, int, int]]] = {}
        for family in families:
            self.number[id(family)] = len(self.number)
            for k, boxes in enumerate(family.boxes):
                for n, box in enumerate(boxes):
                    self._of.setdefault(id(box), {})[id(family)] = (family, k, n)

    def of(self, box: Box) -> dict[int, tuple[_Family, int, int]]:
        """For each family that the box lies in: the family, the number of the group, the number in the group."""
        return self._of.get(id(box), {})


def _valid(scene: Scene, families: list[_Family]) -> list[_Family]:
    """The families that may be folded together."""
    while True:
        places = _Places(families)
        wrong = {id(f) for value in scene.values for f in _refusing(value, places)}
        wrong |= _unequal_entries(scene, families, places)
        if not wrong:
            return families
        families = [f for f in families if id(f) not in wrong]


def _refusing(value: Value, places: _Places) -> Iterable[_Family]:
    """The families whose groups, but for the last one, hand this value to somebody who would not see it any more."""
    for source in value.sources:
        for key, (family, k, _) in places.of(source).items():
            if k == len(family.groups) - 1:
                continue
            for target, _ in value.targets:
                there = places.of(target)
                if key in there:
                    if there[key][1] not in (k, k + 1):
                        yield family
                        break
                elif not any(_in_step(family, k, f, j) for f, j, _ in there.values()) and not _follows(
                    value, key, k, target, places
                ):
                    yield family
                    break


def _in_step(one: _Family, k: int, other: _Family, j: int) -> bool:
    """Whether group j of a family belongs to group k of another, counted forwards or backwards."""
    count = len(one.groups)
    return len(other.groups) == count and j in (k, count - 1 - k)


def _follows(value: Value, key: int, k: int, target: Box, places: _Places) -> bool:
    """Whether a value of group k of a family is used where the next group, which gets it too, has its counterpart in a later family."""
    family = next(
        (f for t, _ in value.targets for q, (f, j, _) in places.of(t).items() if q == key and j == k + 1), None
    )
    if family is None:
        return False
    return any(
        _in_step(family, k + 1, f, j) and places.number[q] > places.number[key]
        for q, (f, j, _) in places.of(target).items()
    )


def _unequal_entries(scene: Scene, families: Sequence[_Family], places: _Places) -> set[int]:
    """The families whose groups get what they get in different manners."""
    entries: dict[int, list[dict[tuple[int, int, int], object]]] = {id(f): [{} for _ in f.groups] for f in families}
    for number, value in enumerate(scene.values):
        for target, position in value.targets:
            for key, (family, k, n) in places.of(target).items():
                for which, source in enumerate(value.sources):
                    what = _manner(value, places.of(source), family, k, places)
                    if what is not None:
                        entries[key][k][n, position, which] = what or ("shared", number)
    return {key for key, found in entries.items() if not _are_alike(found)}


def _manner(
    value: Value, origin: dict[int, tuple[_Family, int, int]], family: _Family, k: int, places: _Places
) -> tuple[object, ...] | None:
    """How group k of a family gets a value: None from itself, () from outside of all families in step with it."""
    own = origin.get(id(family))
    if own is not None:
        if own[1] == k:
            return None
        return ("before", own[2], value.outlet) if own[1] == k - 1 else ("other", k)
    shared = [
        (places.number[q], n, position)
        for target, position in value.targets
        for q, (other, j, n) in places.of(target).items()
        if places.number[q] < places.number[id(family)]
        and _in_step(family, k, other, j)
        and origin.get(q, (other, -1, 0))[1] != j
    ]
    if shared:
        return ("with", *min(shared))
    for other, j, n in origin.values():
        if _in_step(family, k, other, j):
            return ("beside", id(other), n, value.outlet)
    return ()


def _are_alike(entries: Sequence[dict[tuple[int, int, int], object]]) -> bool:
    first, second = entries[0], entries[1]
    if first.keys() != second.keys() or any(e != second for e in entries[2:]):
        return False
    return all(isinstance(w, tuple) and (w[0] == "before" or w == first[p]) for p, w in second.items())


# --------------------------------------------------------------------------------------------- folding


def _fold(scene: Scene, families: list[_Family]) -> None:
    stands: dict[int, Box] = {}
    places = _Places(families)
    for family in families:
        for k, boxes in enumerate(family.boxes):
            for n, box in enumerate(boxes):
                if k and id(box) not in stands:
                    stands[id(box)] = family.boxes[0][n]

    def shown(box: Box) -> Box:
        while id(box) in stands:
            box = stands[id(box)]
        return box

    merged: dict[tuple[object, ...], Value] = {}
    for value in scene.values:
        sources = list(dict.fromkeys(map(shown, value.sources)))
        key = (*map(id, sources), value.outlet)
        into = merged.setdefault(key, Value(sources, [], value.type, value.outlet, value.border))
        seen = {(id(t), p) for t, p in into.targets}
        for target, position in value.targets:
            is_handed_on = any(
                _is_next(places, s, target) or _is_for_next(value, s, target, places) for s in value.sources
            )
            new = (shown(target), position)
            if not is_handed_on and (id(new[0]), position) not in seen and new[0] not in sources:
                seen.add((id(new[0]), position))
                into.targets.append(new)
    scene.values[:] = merged.values()
    for family in families:
        first, outer = family.groups[0], family.groups[0].parent
        if outer is None or first not in outer.members:
            continue  # inside a group that is folded itself
        _name(family)
        first.times = len(family.groups)
        gone = set(map(id, family.groups[1:]))
        outer.members = [m for m in outer.members if id(m) not in gone]


def _is_next(places: _Places, source: Box, target: Box) -> bool:
    """Whether two boxes lie in different groups of one family."""
    there = places.of(target)
    return any(key in there and there[key][1] != k for key, (_, k, _) in places.of(source).items())


def _is_for_next(value: Value, source: Box, target: Box, places: _Places) -> bool:
    """Whether a value is used in a later family only as what the next group of its own family gets."""
    families = places.of(source)
    if any(_in_step(f, k, g, j) for f, k, _ in families.values() for g, j, _ in places.of(target).values()):
        return False
    return any(_follows(value, key, k, target, places) for key, (_, k, _) in families.items())


def _name(family: _Family) -> None:
    """Names that count through the groups: `layers.0…11`, `h.{i}.w`."""
    first, last = family.groups[0], family.groups[-1]
    first.title = _range(first.title, last.title)
    for box, other in zip(family.boxes[0], family.boxes[1], strict=True):
        if box.kind in ("output", "tap"):
            box.title = _pattern(box.title, other.title)
        for satellite, twin in zip(box.satellites, other.satellites, strict=True):
            satellite.name = _pattern(satellite.name, twin.name)
            satellite.shown = _pattern(satellite.shown, twin.shown)


def _range(first: str, last: str) -> str:
    """`layers.0` and `layers.11` as `layers.0…11`."""
    one, other = _DIGITS.findall(first), _DIGITS.findall(last)
    if _DIGITS.sub("#", first) != _DIGITS.sub("#", last) or len(one) != len(other):
        return f"{first} … {last}"
    numbers = iter(zip(one, other, strict=True))

    def both(_: re.Match[str]) -> str:
        a, b = next(numbers)
        return a if a == b else f"{a}…{b}"

    return _DIGITS.sub(both, first)


def _pattern(first: str, second: str) -> str:
    """`h.0.w` and `h.1.w` as `h.{i}.w`."""
    one, other = _DIGITS.findall(first), _DIGITS.findall(second)
    if _DIGITS.sub("#", first) != _DIGITS.sub("#", second) or len(one) != len(other):
        return first
    numbers = iter(zip(one, other, strict=True))

    def both(match: re.Match[str]) -> str:
        a, b = next(numbers)
        return a if a == b else "{i}"

    return _DIGITS.sub(both, first)
