"""Groups as they are drawn: without those that say nothing, with shared boxes outside of them, and free of cycles.

A builder makes equal nodes once, so a mask that every layer uses lies in the first layer. Such a box moves out to the group
around all of its users. A group may be drawn as one box only if no path leaves it and comes back; where one does, the group
is opened into the group around it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlxlang.pictures.scene import Box, Group, Member, Scene, Value, adopt, ancestors
from rlxlang.pictures.source_names import SourceNames

_MOST_MOVED = 64  # boxes that a shared one takes along


def tidy(scene: Scene, *, hoist: bool = True) -> None:
    """Bring the groups of a scene into the form in which they are drawn."""
    if hoist:
        _hoist(scene)
    _drop_wrappers(scene)
    _open_cycles(scene)
    _sort(scene)


def _sort(scene: Scene) -> None:
    """Members in the order of their first boxes, in which a text lists them."""
    first: dict[int, tuple[int, ...]] = {}
    for group in reversed([scene.root, *scene.groups()]):
        for member in group.members:
            first[id(member)] = member.serial if isinstance(member, Box) else first.get(id(member), ())
        group.members.sort(key=lambda m: first[id(m)])
        first[id(group)] = first[id(group.members[0])] if group.members else ()


# --------------------------------------------------------------------------------------------- shared boxes


def _hoist(scene: Scene) -> None:
    operands: dict[int, list[Box]] = {}
    users: dict[int, list[Box]] = {}
    for value in scene.values:
        for target, _ in value.targets:
            operands.setdefault(id(target), []).extend(value.sources)
            for source in value.sources:
                users.setdefault(id(source), []).append(target)
    places: dict[tuple[object, ...], set[int]] = {}  # for the expression of a box, the groups in which it makes boxes
    boxes = sorted((b for b in scene.boxes() if b.kind == "op"), key=lambda b: b.serial)
    for box in boxes:
        places.setdefault(_place(box), set()).add(id(box.group))
    for box in boxes:
        home = box.group
        found = users.get(id(box), [])
        if home is None or home.parent is None or len(places[_place(box)]) > 1:
            continue
        around = ancestors(box)
        common = _common(around, found)
        if common is None or common is home or not any(home in ancestors(u) for u in found):
            continue
        left = around[: around.index(common)]
        if any(group.kind == "body" for group in left):
            continue
        for moved in _made_inside(box, left, operands, places):
            assert moved.group is not None
            moved.group.members.remove(moved)
            adopt(common, moved)


def _made_inside(
    box: Box, left: list[Group], operands: dict[int, list[Box]], places: dict[tuple[object, ...], set[int]]
) -> list[Box]:
    """A box and all that it needs from the groups that it leaves; nothing where some of that is made in every iteration."""
    found: dict[int, Box] = {}
    todo = [box]
    while todo:
        current = todo.pop()
        if id(current) in found or not any(group in left for group in ancestors(current)):
            continue
        if current.kind != "op" or len(places[_place(current)]) > 1 or len(found) == _MOST_MOVED:
            return []
        found[id(current)] = current
        todo += operands.get(id(current), [])
    return list(found.values())


def _place(box: Box) -> tuple[object, ...]:
    """What equals for the boxes that one expression makes in every iteration."""
    span = box.span
    return (box.title, None) if span is None else (box.title, id(span.source), span.start, span.end)


def _common(around: list[Group], boxes: Iterable[Box]) -> Group | None:
    """The innermost of some nested groups in which all boxes lie."""
    depth = 0
    rank = {id(g): k for k, g in enumerate(around)}
    for box in boxes:
        depth = max(depth, next((rank[id(g)] for g in ancestors(box) if id(g) in rank), len(around) - 1))
    return around[depth] if around else None


# --------------------------------------------------------------------------------------------- groups that say nothing


def _drop_wrappers(scene: Scene) -> None:
    """Open groups that are empty, iterations that hold one group alone, fns of one box, and a transform around everything."""
    names = SourceNames()
    gone: set[int] = set()
    for group in reversed([scene.root, *scene.groups()]):
        _expand(group, gone)
        if _says_nothing(group, names):
            gone.add(id(group))
    whole = [m for m in scene.root.members if not (isinstance(m, Box) and m.kind != "op")]
    if len(whole) == 1 and isinstance(whole[0], Group) and whole[0].kind == "transform":
        _expand(scene.root, {id(whole[0])})


def _says_nothing(group: Group, names: SourceNames) -> bool:
    if group.kind == "root" or len(group.members) > 1:
        return False
    if not group.members:
        return True
    alone = group.members[0]
    if group.kind == "iteration":
        return isinstance(alone, Group)
    if group.kind != "call":
        return False
    if isinstance(alone, Group):
        return alone.kind == "body"
    found = names.at(group.span)
    alone.name = found[0] if len(found) == 1 else alone.name
    return True


def _expand(group: Group, gone: set[int]) -> None:
    """Put what is in some of the groups of a group into the group itself."""
    if not any(id(m) in gone for m in group.members):
        return
    before, group.members = group.members, []
    for member in before:
        if isinstance(member, Group) and id(member) in gone:
            for inner in member.members:
                adopt(group, inner)
            member.members = []
        else:
            group.members.append(member)


# --------------------------------------------------------------------------------------------- cycles


def edges_by_group(scene: Scene) -> dict[int, list[tuple[Member, Member]]]:
    """For each group, by identity, the edges between its members that the values make."""
    above: dict[int, list[Member]] = {id(b): [b, *ancestors(b)] for b in scene.boxes()}
    found: dict[int, list[tuple[Member, Member]]] = {}
    for source, target in _pairs(scene.values):
        one, other = above[id(source)], above[id(target)]
        k = 1
        while k <= min(len(one), len(other)) and one[-k] is other[-k]:
            k += 1
        if k <= min(len(one), len(other)):
            found.setdefault(id(one[-k + 1]), []).append((one[-k], other[-k]))
    return found


def _pairs(values: Iterable[Value]) -> Iterable[tuple[Box, Box]]:
    for value in values:
        for source in value.sources:
            for target, _ in value.targets:
                yield source, target


def _open_cycles(scene: Scene) -> None:
    while True:
        guilty: list[Group] = []
        edges = edges_by_group(scene)
        for group in [scene.root, *scene.groups()]:
            guilty += [m for m in _on_cycles(group.members, edges.get(id(group), [])) if isinstance(m, Group)]
        if not guilty:
            return
        gone = set(map(id, guilty))
        for group in reversed([scene.root, *scene.groups()]):
            _expand(group, gone)


def _on_cycles(members: list[Member], edges: list[tuple[Member, Member]]) -> list[Member]:
    """The members that lie on cycles or between two of them (what is left when sources and sinks are taken away in turn)."""
    left = {id(m): m for m in members}
    for forward in (True, False):
        following: dict[int, list[int]] = {}
        degree = dict.fromkeys(left, 0)
        for source, target in edges:
            one, other = (id(source), id(target)) if forward else (id(target), id(source))
            if one in left and other in left and one != other:
                following.setdefault(one, []).append(other)
                degree[other] += 1
        ready = [m for m, d in degree.items() if not d]
        while ready:
            member = ready.pop()
            del left[member]
            for other in following.get(member, ()):
                degree[other] -= 1
                if not degree[other]:
                    ready.append(other)
    return list(left.values())
