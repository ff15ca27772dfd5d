"""What every placed picture must satisfy, whatever it shows."""

from __future__ import annotations

from collections.abc import Iterator

from rlxlang.pictures import measure
from rlxlang.pictures.layout import Curve, Placed, Rect
from rlxlang.pictures.scene import Box, Group, ancestors

_SLACK = 0.6  # pixels


def overlap(one: Rect, other: Rect) -> bool:
    """Whether two rectangles share more than a border."""
    return (
        min(one.right, other.right) - max(one.x, other.x) > _SLACK
        and min(one.bottom, other.bottom) - max(one.y, other.y) > _SLACK
    )


def contains(outer: Rect, inner: Rect) -> bool:
    """Whether a rectangle lies within another."""
    return (
        outer.x <= inner.x + _SLACK
        and outer.y <= inner.y + _SLACK
        and outer.right >= inner.right - _SLACK
        and outer.bottom >= inner.bottom - _SLACK
    )


def points(curve: Curve, downwards: bool) -> Iterator[tuple[float, float]]:
    """Points along an edge, a few pixels apart."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve.points
    for k in range(9):
        t = k / 8
        yield x0 + (x1 - x0) * t, y0 + (y1 - y0) * t
        yield x2 + (x3 - x2) * t, y2 + (y3 - y2) * t
    for k in range(33):
        t = k / 32
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        middle = (y1 + y2) / 2 if downwards else (x1 + x2) / 2
        if downwards:
            yield (a + b) * x1 + (c + d) * x2, a * y1 + (b + c) * middle + d * y2
        else:
            yield a * x1 + (b + c) * middle + d * x2, (a + b) * y1 + (c + d) * y2


def label_rects(placed: Placed) -> list[Rect]:
    """Where the types stand."""
    return [Rect(t.x, t.y - 8, measure.label_width(t.text), 10) for t in placed.labels]


def title_rects(placed: Placed) -> dict[Group, Rect]:
    """Where the titles of groups stand."""
    found = {}
    for group, (x, y) in placed.titles.items():
        if measure.head_texts(group):
            found[group] = Rect(x, y - 9, measure.head_width(group), 11)
    return found


class Grid:
    """Rectangles by the squares they touch, so that large pictures are checked in time."""

    def __init__(self, rects: list[tuple[Rect, object]], size: float = 120.0) -> None:
        self.size = size
        self.squares: dict[tuple[int, int], list[tuple[Rect, object]]] = {}
        for rect, what in rects:
            for square in self._of(rect):
                self.squares.setdefault(square, []).append((rect, what))

    def _of(self, rect: Rect) -> Iterator[tuple[int, int]]:
        for i in range(int(rect.x // self.size), int(rect.right // self.size) + 1):
            for j in range(int(rect.y // self.size), int(rect.bottom // self.size) + 1):
                yield i, j

    def near(self, rect: Rect) -> list[tuple[Rect, object]]:
        """Rectangles that may overlap one."""
        return list({id(r): (r, w) for square in self._of(rect) for r, w in self.squares.get(square, ())}.values())


def check_placed(placed: Placed) -> None:
    """Raise AssertionError where a picture breaks a rule."""
    page = Rect(0, 0, placed.width, placed.height)
    solid: list[tuple[Rect, object]] = [(r, b) for b, r in placed.boxes.items()]
    solid += [(r, (b, k)) for b, pills in placed.pills.items() for k, r in enumerate(pills)]
    texts = [(r, f"label {placed.labels[k].text}") for k, r in enumerate(label_rects(placed))]
    titles = title_rects(placed)
    everything = [*solid, *texts, *((r, f"title {g.title}") for g, r in titles.items())]
    grid = Grid(everything)
    for rect, what in everything:
        assert contains(page, rect), f"{what} leaves the page"
        for other, thing in grid.near(rect):
            assert other is rect or not overlap(rect, other), f"{what} overlaps {thing}"
    _check_groups(placed)
    _check_edges(placed, Grid(solid), Grid([(r, g) for g, r in titles.items()]))


def _check_groups(placed: Placed) -> None:
    for group, rect in placed.groups.items():
        for box, inner in placed.boxes.items():
            if group in ancestors(box):
                assert contains(rect, inner), f"{box.title} leaves {group.title}"
                assert all(contains(rect, pill) for pill in placed.pills[box]), f"a parameter leaves {group.title}"
            else:
                assert not overlap(rect, inner), f"{box.title} lies in {group.title}"
        for other, area in placed.groups.items():
            if other is group:
                continue
            if group in ancestors(other):
                assert contains(rect, area), f"{other.title} leaves {group.title}"
            elif other not in ancestors(group):
                assert not overlap(rect, area), f"{other.title} overlaps {group.title}"


def _check_edges(placed: Placed, boxes: Grid, titles: Grid) -> None:
    along = 1 if placed.downwards else 0
    for curve in placed.curves:
        steps = [p[along] for p in curve.points]
        assert steps == sorted(steps), "an edge goes backwards"
        for x, y in points(curve, placed.downwards):
            spot = Rect(x - 0.1, y - 0.1, 0.2, 0.2)
            for rect, what in boxes.near(spot):
                inside = rect.x + 1 < x < rect.right - 1 and rect.y + 1 < y < rect.bottom - 1
                name = what.title if isinstance(what, Box) else what
                assert not inside, f"an edge of {placed.scene.values[curve.value].type} runs through {name}"
            for rect, what in titles.near(spot):
                inside = rect.x < x < rect.right and rect.y < y < rect.bottom
                assert not inside or not isinstance(what, Group), f"an edge runs through the title {what}"
    ends = {(round(c.points[3][0], 1), round(c.points[3][1], 1)) for c in placed.curves if c.has_arrow}
    tops = {b: (r.y if placed.downwards else r.x) for b, r in placed.boxes.items()}
    for value in placed.scene.values:
        for target, _ in value.targets:
            rect = placed.boxes[target]
            span = (rect.x, rect.right) if placed.downwards else (rect.y, rect.bottom)
            assert any(
                abs((end[along]) - tops[target]) < _SLACK and span[0] <= end[1 - along] <= span[1] for end in ends
            ), f"no edge ends at {target.title}"
