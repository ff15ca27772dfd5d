"""Colours and styles of pictures: a table of classes, written as a style sheet or as attributes."""

from __future__ import annotations

from collections.abc import Mapping

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"

# Class of a box -> stroke, fill on a light and on a dark page.
_BOXES = {
    "linear": ("#4f83e8", "#e8f0fe", "#1a2a49"),
    "activation": ("#3fa267", "#e5f6eb", "#153122"),
    "norm": ("#9068dc", "#f1ebfd", "#291f44"),
    "reduce": ("#dd8433", "#fdf0e1", "#382612"),
    "move": ("#94a0ae", "#f3f5f7", "#22282f"),
    "random": ("#d6579a", "#fde9f3", "#381b2b"),
    "loss": ("#d95555", "#fdeaea", "#3b1c1c"),
    "plain": ("#8494a8", "#ffffff", "#1b232e"),
    "summary": ("#6b7a90", "#e9edf3", "#262f3c"),
    "input": ("#2e8fc6", "#d8edfb", "#0f2f44"),
    "output": ("#2b9a58", "#d6f3e0", "#0f3a23"),
    "tap": ("#2b9a58", "#eefaf2", "#10291b"),
    "carry": ("#6f72dd", "#e9e9fd", "#22234a"),
    "result": ("#6f72dd", "#f3f3fe", "#1b1c3a"),
    "param": ("#d39e17", "#fff3d0", "#3a2f10"),
    "const": ("#94a0ae", "#f3f5f7", "#22282f"),
    "seed": ("#d6579a", "#fde9f3", "#381b2b"),
    "jump": ("#7b8896", "#ffffff", "#1b232e"),
}
# Class of a group -> stroke, fill on a light and on a dark page.
_GROUPS = {
    "call": ("#a9b6c6", "#647d9c0f", "#9fb4d00f"),
    "body": ("#8f91e6", "#6f72dd12", "#8f91e61a"),
    "transform": ("#dc9a9a", "#d9555510", "#e0767614"),
}
_PAGE = ("#ffffff", "#12161c")
_TEXT = {"title": ("#1c2733", "#e6ebf1"), "args": ("#475669", "#b4c0ce"), "name": ("#2f5fb8", "#8db4f5")}
_TEXT |= {
    "label": ("#64748b", "#94a3b8"),
    "head": ("#3b4a5c", "#c3cfdc"),
    "note": ("#64748b", "#94a3b8"),
    "times": ("#c2410c", "#fb923c"),
}
_TEXT |= {"pill": ("#5b4a12", "#e8d9a6"), "small": ("#475669", "#b4c0ce")}
_EDGE = ("#8190a3", "#74839a")
_PAGE_STROKE = "#8190a3"


def style_sheet(theme: str) -> str:
    """The style sheet of a picture: `light`, `dark`, or `auto` for both, chosen by the page."""
    if theme == "auto":
        return f"{_rules(0)}@media (prefers-color-scheme: dark) {{\n{_rules(1)}}}\n"
    return _rules(1 if theme == "dark" else 0)


def _rules(dark: int) -> str:
    rows = [f".rlx-page{{fill:{_PAGE[dark]}}}"]
    rows += [f".rlx-{name}{{stroke:{stroke};fill:{fills[dark]}}}" for name, (stroke, *fills) in _BOXES.items()]
    rows += [f".rlx-g-{name}{{stroke:{stroke};fill:{fills[dark]}}}" for name, (stroke, *fills) in _GROUPS.items()]
    rows += [f".rlx-card{{stroke:{_GROUPS['call'][0]};fill:{('#eef1f5', '#1a212b')[dark]}}}"]
    rows += [f".rlx-t-{name}{{fill:{colours[dark]}}}" for name, colours in _TEXT.items()]
    rows += [f".rlx-edge{{stroke:{_EDGE[dark]};fill:none}}", f".rlx-arrow{{fill:{_EDGE[dark]}}}"]
    return "".join(f"{row}\n" for row in rows)


def attributes(name: str) -> Mapping[str, str]:
    """The same for a picture inside a page whose colours are not known: strokes, a trace of fill, letters as the page has them."""
    if name == "rlx-edge":
        return {"stroke": _PAGE_STROKE, "fill": "none"}
    if name == "rlx-arrow":
        return {"fill": _PAGE_STROKE}
    kind = name.removeprefix("rlx-")
    if kind.startswith("t-"):
        return {"fill": "currentColor"} | ({} if kind in ("t-title", "t-times", "t-head") else {"fill-opacity": "0.75"})
    if kind.startswith("g-") or kind == "card":
        stroke = _GROUPS.get(kind.removeprefix("g-"), _GROUPS["call"])[0]
        return {"stroke": stroke, "fill": stroke, "fill-opacity": "0.06"}
    stroke = _BOXES[kind][0]
    return {"stroke": stroke, "fill": stroke, "fill-opacity": "0.14"}


def stroke_of(kind: str) -> str:
    """The colour of a class of boxes, for formats without style sheets."""
    return _BOXES[kind][0]


def fill_of(kind: str) -> str:
    """Its fill on a light page."""
    return _BOXES[kind][1]
