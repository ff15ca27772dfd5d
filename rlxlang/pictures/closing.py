"""Groups that are drawn as one box: below a depth, so that a large model fits on a page."""

from __future__ import annotations

from rlxlang.diagnostics import RlxValueError
from rlxlang.pictures.labels import counted
from rlxlang.pictures.scene import Box, Group, Scene, Value, first_serial, walk

COMFORTABLE = 600  # boxes; above, groups are closed until there are no more
MOST = 4000  # boxes that are laid out at all


def fit(scene: Scene, depth: int | None) -> None:
    """Close groups deeper than `depth`; without a depth, as many levels as a large scene needs.

    Raises:
        RlxValueError: There are too many boxes all the same.
    """
    if depth is None:
        depth = _fitting_depth(scene)
    if depth is not None:
        close(scene, depth)
    count = len(scene.boxes())
    if count > MOST:
        raise RlxValueError(
            f"a picture of `{scene.name}` would have {count:,} boxes, and at most {MOST:,} are drawn",
            helps=(
                "put parts of it into `fn`s or `block`s: those are drawn as one box where there are too many boxes",
            ),
        )


def _fitting_depth(scene: Scene) -> int | None:
    """The largest depth at which there are not too many boxes; None when all groups may stay open."""
    boxes_at: dict[int, int] = {}
    groups_at: dict[int, int] = {}
    todo: list[tuple[Group, int]] = [(scene.root, 0)]
    while todo:
        group, depth = todo.pop()
        for member in group.members:
            if isinstance(member, Box):
                boxes_at[depth] = boxes_at.get(depth, 0) + 1
            else:
                groups_at[depth] = groups_at.get(depth, 0) + 1
                todo.append((member, depth + 1))
    if sum(boxes_at.values()) <= COMFORTABLE:
        return None
    best, count = 0, 0
    for depth in range(max(boxes_at) + 1):
        count += boxes_at.get(depth, 0)
        if count + groups_at.get(depth, 0) > COMFORTABLE:
            break
        best = depth
    return best


def close(scene: Scene, depth: int) -> None:
    """Make one box of every group that lies in more than `depth` groups."""
    stands: dict[Box, Box] = {}
    todo: list[tuple[Group, int]] = [(scene.root, 0)]
    while todo:
        group, level = todo.pop()
        for place, member in enumerate(group.members):
            if isinstance(member, Box):
                continue
            if level < depth:
                todo.append((member, level + 1))
                continue
            box = _closed(member)
            box.group, group.members[place] = group, box
            stands |= {m: box for m in walk(member) if isinstance(m, Box)}
    scene.values[:] = _renamed(scene, stands)


def _renamed(scene: Scene, stands: dict[Box, Box]) -> list[Value]:
    """Values between the boxes that are left; each result of a closed group keeps an outlet of its own."""
    found: list[Value] = []
    outlets: dict[Box, int] = {}
    for value in scene.values:
        sources = list(dict.fromkeys(stands.get(s, s) for s in value.sources))
        targets = list(dict.fromkeys((stands.get(t, t), p if t not in stands else 0) for t, p in value.targets))
        targets = [(t, p) for t, p in targets if t not in sources]
        if not targets and sources != value.sources:
            continue
        new = Value(sources, targets, value.type, value.outlet, value.border)
        if len(sources) == 1 and sources != value.sources:
            new.outlet = outlets.get(sources[0], 0)
            outlets[sources[0]] = new.outlet + 1
            new.border = None
        found.append(new)
    return found


def _closed(group: Group) -> Box:
    """The box of a closed group."""
    ops, params = contents(group)
    name = counted(ops, "op")
    if params:
        name += f" · {short_count(params)} parameters"
    args = " ".join(filter(None, (group.note, f"× {group.times}" if group.times > 1 else "")))
    box = Box("summary", group.title or group.kind, args, name, span=group.span, serial=first_serial(group))
    lines = [f"{group.title} {args}".strip(), f"{counted(ops, 'op')}, {counted(params, 'parameter')}"]
    if group.span is not None:
        lines.append(group.span.location)
    box.tooltip = tuple(lines)
    return box


def contents(group: Group) -> tuple[int, int]:
    """Numbers of ops and of parameters in a group, repetitions counted, parameters used twice counted once."""
    ops = 0
    seen: dict[str, int] = {}
    todo: list[tuple[Group, int]] = [(group, group.times)]
    while todo:
        current, times = todo.pop()
        for member in current.members:
            if isinstance(member, Group):
                todo.append((member, times * member.times))
                continue
            ops += times * (member.kind == "op")
            seen |= {
                s.name: s.elements * (times if "{i}" in s.name else 1) for s in member.satellites if s.kind == "param"
            }
    return ops, sum(seen.values())


def short_count(number: int) -> str:
    """1,234 as 1.2 k, 3,400,000 as 3.4 M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)
