"""A placed scene as SVG: shapes, letters and a style sheet; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

from rlxlang.diagnostics import Source
from rlxlang.pictures import labels, measure, theme
from rlxlang.pictures.layout import STACK, Curve, Placed, Point, Rect
from rlxlang.pictures.metrics import text_width
from rlxlang.pictures.scene import Box, Group, Satellite

_ARROW = 6.0


def draw(placed: Placed, theme_name: str, sources: dict[Source, int] | None = None) -> str:
    """The SVG text.

    Args:
        placed: What is drawn, and where.
        theme_name: `auto`, `light`, `dark`, or `page` for a picture inside a page of unknown colours, without a style sheet.
        sources: For a picture with a script: shapes carry the keys of boxes and values, and places as number of a source and
            line; sources that are not in it are added. None leaves all that out.
    """
    return "".join(_Drawing(placed, theme_name, sources).pieces())


class _Drawing:
    def __init__(self, placed: Placed, theme_name: str, sources: dict[Source, int] | None) -> None:
        self.placed, self.theme, self.interactive = placed, theme_name, sources is not None
        self._sources = sources if sources is not None else {}

    def pieces(self) -> Iterator[str]:
        """The text, piece by piece: groups behind, then edges, boxes, labels."""
        placed = self.placed
        width, height = _n(placed.width), _n(placed.height)
        title = xml_escape(placed.scene.name)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="{theme.FONT}">\n<title>{title}</title>\n'
        )
        if self.theme != "page":
            yield f"<style>\n{theme.style_sheet(self.theme)}</style>\n"
            yield f'<rect class="rlx-page" width="{width}" height="{height}" rx="6"/>\n'
        for group, rect in placed.groups.items():
            yield from self._group(group, rect)
        for curve in placed.curves:
            yield from self._curve(curve)
        for box, rect in placed.boxes.items():
            yield from self._box(box, rect)
        for label in placed.labels:
            yield self._text(
                "rlx-t-label", label.x, label.y, label.text, measure.LABEL, extra=self._data("v", label.value)
            )
        yield "</svg>\n"

    # ------------------------------------------------------------------ pieces of SVG
    def _paint(self, name: str) -> str:
        if self.theme != "page":
            return f' class="{name}"'
        return "".join(f" {k}={quoteattr(v)}" for k, v in theme.attributes(name).items())

    def _data(self, key: str, value: object) -> str:
        return f' data-{key}="{xml_escape(str(value))}"' if self.interactive else ""

    def _text(self, name: str, x: float, y: float, text: str, size: float, *, weight: str = "", extra: str = "") -> str:
        style = f' font-weight="{weight}"' if weight else ""
        return f'<text{self._paint(name)} x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{style}{extra}>{_words(text)}</text>\n'

    def _rect(self, name: str, rect: Rect, radius: float, extra: str = "") -> str:
        return (
            f'<rect{self._paint(name)} x="{_n(rect.x)}" y="{_n(rect.y)}" width="{_n(rect.width)}" height="{_n(rect.height)}" '
            f'rx="{_n(radius)}"{extra}/>\n'
        )

    @staticmethod
    def _tooltip(lines: Iterable[str]) -> str:
        text = "\n".join(line for line in lines if line)
        return f"<title>{_words(text)}</title>\n" if text else ""

    # ------------------------------------------------------------------ groups
    def _group(self, group: Group, rect: Rect) -> Iterator[str]:
        style = "rlx-g-" + (group.kind if group.kind in ("body", "transform") else "call")
        yield f"<g{self._data('g', group.key)}{self._line(group)}>\n"
        yield self._tooltip(_group_lines(group))
        if group.times > 1:
            for k in (2, 1):
                behind = Rect(rect.x + k * STACK, rect.y + k * STACK, rect.width, rect.height)
                yield self._rect("rlx-card", behind, 8)
            if self.theme != "page":
                yield self._rect("rlx-page", rect, 8)
        yield self._rect(style, rect, 8)
        x, y = self.placed.titles[group]
        for kind, text in measure.head_texts(group):
            bold = kind != "note"
            name = {"title": "head", "note": "note", "times": "times"}[kind]
            yield self._text(f"rlx-t-{name}", x, y, text, measure.HEAD, weight="bold" if bold else "")
            x += text_width(text, measure.HEAD, bold) + 7
        yield "</g>\n"

    def _line(self, member: Box | Group) -> str:
        span = member.span
        if span is None or not self.interactive:
            return ""
        number = self._sources.setdefault(span.source, len(self._sources))
        return self._data("line", f"{number}:{span.line}")

    # ------------------------------------------------------------------ edges
    def _curve(self, curve: Curve) -> Iterator[str]:
        yield f'<path{self._paint("rlx-edge")} d="{path_of(curve, self.placed.downwards)}"{self._data("v", curve.value)}/>\n'
        if curve.has_arrow:
            yield f'<path{self._paint("rlx-arrow")} d="{_arrow(curve.points[3], self.placed.downwards)}"{self._data("v", curve.value)}/>\n'

    # ------------------------------------------------------------------ boxes
    def _box(self, box: Box, rect: Rect) -> Iterator[str]:
        yield f"<g{self._data('b', box.key)}{self._line(box)}>\n"
        yield self._tooltip(labels.tooltip(box))
        kind = box.category or "plain" if box.kind == "op" else box.kind
        round_ends = box.kind in ("input", "output", "tap", "carry", "result")
        dashed = ' stroke-dasharray="4 3"' if box.kind in ("tap", "result") else ""
        radius = rect.height / 2 if round_ends else 5.0
        yield self._rect(f"rlx-{kind}", rect, min(radius, 16.0), dashed)
        if box.kind == "output":
            inner = Rect(rect.x + 2.5, rect.y + 2.5, rect.width - 5, rect.height - 5)
            yield self._rect("rlx-output", inner, inner.height / 2, "" if self.theme == "page" else ' fill-opacity="0"')
        first = text_width(box.title, measure.TITLE, bold=True)
        total = first + (5 + text_width(box.args, measure.TITLE) if box.args else 0.0)
        x = rect.x + (rect.width - total) / 2
        y = rect.y + rect.height / 2 + (4.2 if not box.name else -2.5)
        yield self._text("rlx-t-title", x, y, box.title, measure.TITLE, weight="bold")
        if box.args:
            yield self._text("rlx-t-args", x + first + 5, y, box.args, measure.TITLE)
        if box.name:
            x = rect.x + (rect.width - text_width(box.name, measure.NAME)) / 2
            yield self._text("rlx-t-name", x, y + 14.5, box.name, measure.NAME)
        yield "</g>\n"
        for k, (satellite, pill) in enumerate(zip(box.satellites, self.placed.pills[box], strict=True)):
            yield from self._satellite(satellite, pill, rect, k)

    def _satellite(self, satellite: Satellite, pill: Rect, box: Rect, k: int) -> Iterator[str]:
        y = pill.y + pill.height / 2
        if self.placed.downwards:
            end = min(max(y, box.y + 6), box.bottom - 6)
            middle = (pill.x + box.right) / 2
            line = f"M{_n(pill.x)} {_n(y)}C{_n(middle)} {_n(y)} {_n(middle)} {_n(end)} {_n(box.right)} {_n(end)}"
        else:
            line = f"M{_n(pill.x)} {_n(y)}H{_n(pill.x - 6)}V{_n(box.bottom)}"
        yield f'<path{self._paint("rlx-edge")} d="{line}"/>\n'
        yield f"<g{self._data('p', satellite.name)}>\n{self._tooltip(satellite.tooltip)}"
        if satellite.kind == "param":
            yield f'<path{self._paint("rlx-param")} d="{_hexagon(pill)}"/>\n'
        else:
            dashed = ' stroke-dasharray="3 2"' if satellite.kind == "const" else ""
            yield self._rect(f"rlx-{satellite.kind}", pill, 4 if satellite.kind == "const" else pill.height / 2, dashed)
        style = "rlx-t-pill" if satellite.kind == "param" else "rlx-t-small"
        yield self._text(style, pill.x + measure.PILL_PAD, y + 3.7, satellite.text, measure.SMALL)
        yield "</g>\n"


def path_of(curve: Curve, downwards: bool) -> str:
    """A piece of an edge: straight to the border of the rank, a curve with ends along the flow, straight to the end."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = curve.points
    parts = [f"M{_n(x0)} {_n(y0)}"]
    if (x1, y1) != (x0, y0):
        parts.append(f"L{_n(x1)} {_n(y1)}")
    if abs(x1 - x2) < 0.05 or abs(y1 - y2) < 0.05:
        parts.append(f"L{_n(x2)} {_n(y2)}")
    elif downwards:
        middle = (y1 + y2) / 2
        parts.append(f"C{_n(x1)} {_n(middle)} {_n(x2)} {_n(middle)} {_n(x2)} {_n(y2)}")
    else:
        middle = (x1 + x2) / 2
        parts.append(f"C{_n(middle)} {_n(y1)} {_n(middle)} {_n(y2)} {_n(x2)} {_n(y2)}")
    if (x3, y3) != (x2, y2):
        parts.append(f"L{_n(x3)} {_n(y3)}")
    return "".join(parts)


def _arrow(end: Point, downwards: bool) -> str:
    x, y = end
    if downwards:
        return f"M{_n(x)} {_n(y)}l{_n(-_ARROW / 2)} {_n(-_ARROW)}h{_n(_ARROW)}z"
    return f"M{_n(x)} {_n(y)}l{_n(-_ARROW)} {_n(-_ARROW / 2)}v{_n(_ARROW)}z"


def _hexagon(rect: Rect) -> str:
    cut = 5.0
    middle = rect.y + rect.height / 2
    points = [(rect.x, middle), (rect.x + cut, rect.y), (rect.right - cut, rect.y), (rect.right, middle)]
    points += [(rect.right - cut, rect.bottom), (rect.x + cut, rect.bottom)]
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points) + "z"


def _group_lines(group: Group) -> list[str]:
    lines = [" ".join(text for _, text in measure.head_texts(group))]
    if group.span is not None:
        lines.append(group.span.location)
    if group.times > 1:
        lines.append(f"{group.times} equal parts in a row, drawn once")
    return lines


def _words(text: str) -> str:
    """Text of an element; characters that XML cannot hold have been escaped before, but for the surrogates and the like."""
    return xml_escape(
        "".join(
            c if c in "\n\t" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "�" for c in text
        )
    )


def _n(value: float) -> str:
    """A number with at most one decimal place."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
