"""Sizes of boxes, their parameters and labels, for both directions of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlxlang.pictures.cells import Cell
from rlxlang.pictures.metrics import text_width
from rlxlang.pictures.scene import Box, Group, Value

TITLE, NAME, SMALL, LABEL, HEAD = 12.0, 11.0, 10.5, 10.0, 11.0  # sizes of letters, in pixels
ONE_LINE, TWO_LINES = 26.0, 40.0
PILL, PILL_GAP, PILL_PAD, ARM = 18.0, 4.0, 7.0, 12.0  # satellites, and the line from one to its box
STRIP = 18.0  # room for the type below a box
_PAD = 10.0
_WORD_GAP = 5.0
_LEAST = 46.0
_OUTLET_GAP = 14.0
_MOST_LABELS = 4  # of one box; a closed group with more results has none


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a box in pixels.

    Attributes:
        width, height: Of the box alone.
        beside: Widths of its satellites.
        labels: For each outlet its offset from the middle and its type.
    """

    width: float
    height: float
    beside: tuple[float, ...]
    labels: tuple[tuple[int, float, str], ...]

    @property
    def stack(self) -> float:
        """Height of the satellites above each other."""
        return len(self.beside) * (PILL + PILL_GAP) - PILL_GAP if self.beside else 0.0


def box_size(box: Box, values: Sequence[Value], downwards: bool) -> Size:
    """The sizes of a box with the values that it makes."""
    first = text_width(box.title, TITLE, bold=True)
    if box.args:
        first += _WORD_GAP + text_width(box.args, TITLE)
    width = max(first, text_width(box.name, NAME), _LEAST - 2 * _PAD) + 2 * _PAD
    if box.kind in ("input", "output", "tap", "carry", "result"):
        width += 8
    outlets = sorted({v.outlet: v for v in values}.values(), key=lambda v: v.outlet)
    shown = len(outlets) <= _MOST_LABELS
    texts = [v.type if shown and v.border is None else "" for v in outlets]
    steps = [(label_width(t) + _OUTLET_GAP if downwards else LABEL + 6) if t else _OUTLET_GAP for t in texts]
    total = sum(steps[:-1])
    at, labels = -total / 2, []
    for value, text, step in zip(outlets, texts, steps, strict=True):
        labels.append((value.outlet, at, text))
        at += step
    height = TWO_LINES if box.name else ONE_LINE
    if downwards:
        width = max(width, total + 2 * _PAD)
    else:
        height = max(height, total + _PAD)
    return Size(width, height, tuple(text_width(s.text, SMALL) + 2 * PILL_PAD for s in box.satellites), tuple(labels))


def label_width(text: str) -> float:
    """Width of a type beside an edge."""
    return text_width(text, LABEL)


def box_cell(box: Box, size: Size, downwards: bool) -> Cell:
    """The place that a box needs, with its satellites and labels."""
    beside = max(size.beside, default=0.0)
    has_labels = any(text for _, _, text in size.labels)
    outlets = {outlet: at for outlet, at, _ in size.labels}
    if downwards:
        right = size.width / 2 + (ARM + beside if beside else 0.0)
        right = max([right, *(at + 5 + label_width(text) for _, at, text in size.labels if text)])
        spare = max(0.0, size.stack - size.height)  # above: below the box stands the label
        tail = STRIP if has_labels else 0.0
        return Cell(box, size.width / 2, right, size.height + spare + tail, spare, tail, outlets=outlets)
    left = max([size.height / 2, *(LABEL + 4 - at for _, at, text in size.labels if text)])
    right = size.height / 2 + (ARM + size.stack if beside else 0.0)
    along = max(size.width, ARM + beside if beside else 0.0)
    tail = max([0.0, *(label_width(text) + 10 for _, _, text in size.labels if text)])
    return Cell(box, left, right, along + tail, 0.0, tail + along - size.width, outlets=outlets)


def head_texts(group: Group) -> list[tuple[str, str]]:
    """The pieces of a group's title with their style: `title`, `note`, `times`."""
    pieces = [("title", group.title), ("note", group.note), ("times", f"× {group.times}" if group.times > 1 else "")]
    return [(style, text) for style, text in pieces if text]


def head_width(group: Group) -> float:
    """Width of a group's title."""
    pieces = head_texts(group)
    return sum(text_width(t, HEAD, bold=s != "note") for s, t in pieces) + 7.0 * max(0, len(pieces) - 1)
