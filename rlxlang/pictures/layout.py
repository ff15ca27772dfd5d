"""Places for a whole scene, from the inside outwards: a group is laid out alone and is then a box with ports for the level above.

So a group is contiguous, and nothing that is not its own lies in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rlxlang.pictures import measure
from rlxlang.pictures.cells import Cell
from rlxlang.pictures.level import Level, Net, arrange
from rlxlang.pictures.measure import Size
from rlxlang.pictures.scene import Box, Group, Member, Scene, Value, ancestors

PAD = 14.0  # inside the border of a group
TITLE_STRIP = 26.0
STACK = 4.0  # how far the cards behind a repeated group stand out
MARGIN = 12.0
_TITLE_PAD = 10.0
_ROUNDS = 3  # in which ports are put in the order of the edges outside; one for a large picture
_LARGE = 1000  # boxes

Point = tuple[float, float]


@dataclass(slots=True, eq=False)
class Rect:
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right border."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower border."""
        return self.y + self.height


@dataclass(slots=True, eq=False)
class Curve:
    """A piece of an edge: a line, a curve between the two points in the middle, and a line."""

    value: int
    points: tuple[Point, Point, Point, Point]
    has_arrow: bool


@dataclass(slots=True, eq=False)
class Text:
    """A type beside an edge, by its left end and base line."""

    value: int
    x: float
    y: float
    text: str


@dataclass(slots=True, eq=False)
class Placed:
    """A scene with places, in pixels from the upper left corner.

    Attributes:
        scene: The scene.
        downwards: Whether edges run down, else to the right.
        boxes: Rectangle of each box.
        pills: For each box the rectangles of its satellites.
        groups: Rectangle of each group but the root, and where its title starts.
        curves: Pieces of edges.
        labels: Types beside edges.
        width, height: Of the picture.
        crossings: How many pairs of edges cross.
    """

    scene: Scene
    downwards: bool
    boxes: dict[Box, Rect] = field(default_factory=dict)
    pills: dict[Box, list[Rect]] = field(default_factory=dict)
    groups: dict[Group, Rect] = field(default_factory=dict)
    titles: dict[Group, Point] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    labels: list[Text] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    crossings: int = 0


@dataclass(slots=True, eq=False)
class _Plan:
    """One group: what runs through it, and its level when that is laid out."""

    entries: dict[int, None] = field(default_factory=dict)
    exits: dict[int, None] = field(default_factory=dict)
    nets: dict[tuple[int, int], Net] = field(default_factory=dict)
    level: Level | None = None
    before: float = 0.0  # padding across on the side of the title
    after: float = 0.0  # and on the other side
    title: float = 0.0


def layout(scene: Scene, *, downwards: bool = True) -> Placed:
    """Lay out a scene."""
    values = {id(v): k for k, v in enumerate(scene.values)}
    made: dict[Box, list[Value]] = {}
    for value in scene.values:
        for source in value.sources:
            made.setdefault(source, []).append(value)
    sizes = {b: measure.box_size(b, made.get(b, []), downwards) for b in scene.boxes()}
    plans = plan_levels(scene, values)
    fewest = _arrange_all(scene, sizes, plans, downwards, {})
    best = {g: replace(p) for g, p in plans.items()}
    for _ in range(_ROUNDS if len(sizes) <= _LARGE else 1):
        if not fewest or len(plans) == 1:
            break
        crossed = _arrange_all(scene, sizes, plans, downwards, _wishes(scene, plans))
        if crossed < fewest:
            fewest, best = crossed, {g: replace(p) for g, p in plans.items()}
    plans = best
    return _Placing(scene, downwards, sizes, plans).run()


def _arrange_all(
    scene: Scene,
    sizes: dict[Box, Size],
    plans: dict[Group, _Plan],
    downwards: bool,
    wishes: dict[Group, dict[tuple[str, int], float]],
) -> int:
    """Lay out every level, inner ones first; gives the number of crossings."""
    cells: dict[Member, Cell] = {b: measure.box_cell(b, s, downwards) for b, s in sizes.items()}
    crossed = 0
    for group in reversed([scene.root, *scene.groups()]):
        plan = plans[group]
        level = plan.level = arrange(
            {m: cells[m] for m in group.members},
            list(plan.entries),
            {n: _room(scene.values[n], group, downwards) for n in plan.exits},
            list(plan.nets.values()),
            wishes.get(group),
        )
        crossed += level.crossings
        if group is not scene.root:
            cells[group] = _group_cell(group, plan, level, scene, downwards)
    return crossed


def _wishes(scene: Scene, plans: dict[Group, _Plan]) -> dict[Group, dict[tuple[str, int], float]]:
    """An order for the ports of each group: that in which the edges outside of it come and go."""
    found: dict[Group, dict[tuple[str, int], float]] = {}
    for group in scene.groups():
        assert group.parent is not None
        outside, plan = plans[group.parent].level, plans[group]
        assert outside is not None
        wishes = {("in", n): outside.arrivals.get((group, n), 0.0) for n in plan.entries}
        found[group] = wishes | {("out", n): outside.departures.get((group, n), 0.0) for n in plan.exits}
    return found


def _room(value: Value, group: Group, downwards: bool) -> float:
    """How far to the side the type of a value reaches where it leaves a group."""
    if value.border is not group:
        return 0.0
    return 5.0 + measure.label_width(value.type) if downwards else measure.LABEL + 4


def plan_levels(scene: Scene, values: dict[int, int]) -> dict[Group, _Plan]:
    """For each group the values that run through it, and from which member to which."""
    plans = {g: _Plan() for g in [scene.root, *scene.groups()]}
    above = {b: [b, *ancestors(b)] for b in scene.boxes()}

    def run(group: Any, number: int, source: Any, outlet: int, target: Any) -> None:
        net = plans[group].nets.setdefault(
            (id(source) if not isinstance(source, tuple) else -1, number), Net(number, source, outlet)
        )
        if target not in net.targets:
            net.targets.append(target)

    for value in scene.values:
        number = values[id(value)]
        for source in value.sources:
            for target, _ in value.targets:
                one, other = above[source], above[target]
                k = 1
                while one[-k] is other[-k]:
                    k += 1
                i, j = len(one) - k, len(other) - k
                for step in range(i):
                    plans[one[step + 1]].exits[number] = None  # type: ignore[index]
                    run(one[step + 1], number, one[step], number if step else value.outlet, ("out", number))
                run(one[i + 1], number, one[i], number if i else value.outlet, other[j])
                for step in range(j):
                    plans[other[step + 1]].entries[number] = None  # type: ignore[index]
                    run(other[step + 1], number, ("in", number), number, other[step])
    return plans


def _group_cell(group: Group, plan: _Plan, level: Level, scene: Scene, downwards: bool) -> Cell:
    """A group as a box with ports; decides on which side of its edges the title stands."""
    title = measure.head_width(group) + 2 * _TITLE_PAD if measure.head_texts(group) else 0.0
    stack = 2 * STACK if group.times > 1 else 0.0
    labels = [scene.values[n].type for n in plan.exits if scene.values[n].border is group]
    if downwards:
        before = after = PAD
        if title and level.entries:
            first, last = min(level.entries.values()), max(level.entries.values())
            left = max(0.0, title - PAD - first)
            right = max(0.0, title - PAD - (level.across - last))
            if left <= right:
                before += left
                plan.title = _TITLE_PAD
            else:
                after += right
                plan.title = before + level.across + after - title + _TITLE_PAD
        else:
            plan.title = _TITLE_PAD
        after += max(0.0, title - (before + level.across + after))
        along = (TITLE_STRIP if title else PAD) + level.along + PAD
    else:
        before, after = TITLE_STRIP if title else PAD, PAD
        plan.title = _TITLE_PAD
        along = max(level.along + 2 * PAD, title)
    plan.before, plan.after = before, after
    width = before + level.across + after
    cell = Cell(group, 0.0, width + stack, along + stack, 0.0, 0.0, is_free=False)
    cell.inlets = {n: before + x for n, x in level.entries.items()}
    cell.outlets = {n: before + x for n, x in level.exits.items()}
    if labels:
        cell.tail = measure.STRIP if downwards else max(map(measure.label_width, labels)) + 10
        cell.height += cell.tail
        if downwards:
            ends = [
                cell.outlets[n] + 5 + measure.label_width(scene.values[n].type)
                for n in plan.exits
                if scene.values[n].border is group
            ]
            cell.right = max(cell.right, *ends)
    shift = width / 2
    cell.left, cell.right = cell.left + shift, cell.right - shift
    cell.inlets = {n: x - shift for n, x in cell.inlets.items()}
    cell.outlets = {n: x - shift for n, x in cell.outlets.items()}
    return cell


class _Placing:
    """Turns levels into places, from the root inwards; `_at` makes points of (across, along)."""

    def __init__(self, scene: Scene, downwards: bool, sizes: dict[Box, Size], plans: dict[Group, _Plan]) -> None:
        self.placed = Placed(scene, downwards)
        self.sizes, self.plans, self.downwards = sizes, plans, downwards
        self._number = {(b, v.outlet): k for k, v in enumerate(scene.values) for b in v.sources}
        self._at: Callable[[float, float], Point] = (lambda a, b: (a, b)) if downwards else (lambda a, b: (b, a))

    def run(self) -> Placed:
        """Place everything."""
        placed, root = self.placed, self.placed.scene.root
        level = self.plans[root].level
        assert level is not None
        placed.width, placed.height = self._at(level.across + 2 * MARGIN, level.along + 2 * MARGIN)
        todo: list[tuple[Group, float, float]] = [(root, MARGIN, MARGIN)]
        while todo:
            group, across, along = todo.pop()
            level = self.plans[group].level
            assert level is not None
            placed.crossings += level.crossings
            self._edges(level, across, along)
            for member in group.members:
                a, b = level.at[member]
                if isinstance(member, Box):
                    self._box(member, across + a, along + b)
                else:
                    todo.append(self._group(member, across + a, along + b))
        return placed

    def _edges(self, level: Level, across: float, along: float) -> None:
        for segment in level.segments:
            points = [self._at(across + a, along + b) for a, b in segment.points]
            one, two, three, four = points
            self.placed.curves.append(Curve(segment.value, (one, two, three, four), segment.is_end))

    def _line(self, value: int, a: float, start: float, end: float) -> None:
        one, two = self._at(a, start), self._at(a, end)
        self.placed.curves.append(Curve(value, (one, one, two, two), False))

    def _group(self, group: Group, across: float, along: float) -> tuple[Group, float, float]:
        """Place a group by its anchor; gives it with the corner of its content."""
        plan, placed = self.plans[group], self.placed
        level = plan.level
        assert level is not None
        width = plan.before + level.across + plan.after
        has_title = bool(measure.head_texts(group))
        lead = (TITLE_STRIP if has_title else PAD) if self.downwards else PAD
        length = lead + level.along + PAD
        if not self.downwards and has_title:
            length = max(length, measure.head_width(group) + 2 * _TITLE_PAD)
        left = across - width / 2
        x, y = self._at(left, along)
        w, h = self._at(width, length)
        placed.groups[group] = Rect(x, y, w, h)
        placed.titles[group] = (x + plan.title, y + 17.0)
        for number, a in level.entries.items():
            self._line(number, left + plan.before + a, along, along + lead)
        values = placed.scene.values
        tail = 2 * STACK if group.times > 1 else 0.0
        for number, a in level.exits.items():
            value = values[number]
            self._line(number, left + plan.before + a, along + lead + level.along, along + length + tail)
            if value.border is group:
                self._label(number, left + plan.before + a, along + length + tail, value.type)
        return group, left + plan.before, along + lead

    def _label(self, value: int, a: float, start: float, text: str) -> None:
        """The type of a value beside the edge that starts at (a, start)."""
        x, y = self._at(a, start)
        place = (x + 5, y + 12) if self.downwards else (x + 5, y - 4)
        self.placed.labels.append(Text(value, *place, text))

    def _box(self, box: Box, across: float, along: float) -> None:
        size, placed = self.sizes[box], self.placed
        if self.downwards:
            spare = max(0.0, size.stack - size.height)
            rect = Rect(across - size.width / 2, along + spare, size.width, size.height)
            top = along + max(0.0, size.height - size.stack) / 2
            left = rect.right + measure.ARM
        else:
            rect = Rect(along, across - size.height / 2, size.width, size.height)
            top = rect.bottom + measure.ARM
            left = rect.x + measure.ARM
        placed.boxes[box] = rect
        step = measure.PILL + measure.PILL_GAP
        placed.pills[box] = [Rect(left, top + k * step, w, measure.PILL) for k, w in enumerate(size.beside)]
        start = rect.bottom if self.downwards else rect.right
        for outlet, at, text in size.labels:
            if text:
                self._label(self._number[box, outlet], across + at, start, text)
