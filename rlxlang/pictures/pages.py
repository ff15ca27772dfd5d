"""A page of its own: the picture with pan and zoom, and beside it the source, whose lines and boxes lead to each other.

Styles and the script stand in the page; nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape as html_escape

from rlxlang.diagnostics import Source, escape
from rlxlang.pictures.drawing import draw
from rlxlang.pictures.layout import Placed

_STYLE = """
:root { color-scheme: light dark; --line: #d5dce5; --page: #ffffff; --pane: #f7f9fb; --words: #1c2733; --mark: #fff1b8; }
@media (prefers-color-scheme: dark) {
  :root { --line: #2c3440; --page: #12161c; --pane: #171c24; --words: #d7dee7; --mark: #4a3d10; }
}
* { box-sizing: border-box; }
html, body { margin: 0; height: 100%; background: var(--page); color: var(--words); font: 13px Helvetica, Arial, sans-serif; }
body { display: flex; }
#view { flex: 1; min-width: 0; height: 100%; overflow: hidden; position: relative; cursor: grab; touch-action: none; }
#view.moving { cursor: grabbing; }
#view svg { position: absolute; left: 0; top: 0; transform-origin: 0 0; user-select: none; -webkit-user-select: none; }
#tools { position: absolute; right: 12px; top: 12px; display: flex; gap: 4px; }
button { font: inherit; padding: 3px 9px; border: 1px solid var(--line); border-radius: 5px; background: var(--pane); color: inherit; }
#source { width: min(42%, 46rem); height: 100%; overflow: auto; border-left: 1px solid var(--line); background: var(--pane); }
#source summary { padding: 8px 14px; font-weight: bold; cursor: pointer; position: sticky; top: 0; background: var(--pane); }
#source pre { margin: 0; padding: 0 0 12px; font: 12px/1.5 Menlo, Consolas, "DejaVu Sans Mono", monospace; }
#source pre div { padding: 0 14px 0 0; white-space: pre; }
#source pre div::before { content: attr(data-n); display: inline-block; width: 3.4em; padding-right: 1em; text-align: right; opacity: .45; }
#source div.on { background: var(--mark); }
#source div.used { cursor: pointer; }
.lit .rlx-edge, .rlx-edge.lit { stroke: #d9480f; stroke-width: 2; }
.rlx-arrow.lit, text.lit { fill: #d9480f; }
g.lit > rect, g.lit > path { stroke: #d9480f; stroke-width: 2.2; }
g[data-b] { cursor: pointer; }
@media (max-width: 700px) {
  body { flex-direction: column; }
  #source { width: 100%; height: 40%; border-left: 0; border-top: 1px solid var(--line); }
}
@media print { #tools, #source { display: none; } }
"""

_SCRIPT = """
(() => {
  "use strict";
  const view = document.getElementById("view"), picture = view.querySelector("svg");
  const values = JSON.parse(document.getElementById("values").textContent);
  const width = picture.viewBox.baseVal.width, height = picture.viewBox.baseVal.height;
  let scale = 1, x = 0, y = 0;
  const show = () => { picture.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; };
  const zoom = (factor, cx, cy) => {
    const next = Math.min(8, Math.max(0.02, scale * factor));
    x = cx - (cx - x) * next / scale; y = cy - (cy - y) * next / scale; scale = next; show();
  };
  const fit = (whole) => {
    const wide = (view.clientWidth - 24) / width, high = (view.clientHeight - 24) / height;
    scale = Math.min(1, whole ? Math.min(wide, high) : Math.max(0.35, wide));
    x = Math.max(12, (view.clientWidth - width * scale) / 2); y = 12; show();
  };
  const middle = (factor) => zoom(factor, view.clientWidth / 2, view.clientHeight / 2);
  document.getElementById("in").onclick = () => middle(1.3);
  document.getElementById("out").onclick = () => middle(1 / 1.3);
  document.getElementById("fit").onclick = () => fit(true);
  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = view.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey || !event.shiftKey)
      zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    else { x -= event.deltaX || event.deltaY; show(); }
  }, { passive: false });
  let from = null, moved = false;
  view.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    from = [event.clientX - x, event.clientY - y]; moved = false;
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const nx = event.clientX - from[0], ny = event.clientY - from[1];
    if (Math.abs(nx - x) + Math.abs(ny - y) > 3) { moved = true; view.classList.add("moving"); }
    if (moved) { x = nx; y = ny; show(); }
  });
  addEventListener("pointerup", () => { from = null; view.classList.remove("moving"); });
  addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { x += step[0]; y += step[1]; show(); }
    else if (event.key === "+") middle(1.3);
    else if (event.key === "-") middle(1 / 1.3);
    else if (event.key === "0") fit(true);
  });

  const all = (what) => picture.querySelectorAll(what);
  const boxes = new Map([...all("g[data-b]")].map((g) => [g.dataset.b, g]));
  const pieces = new Map();
  for (const part of all("[data-v]")) {
    if (!pieces.has(part.dataset.v)) pieces.set(part.dataset.v, []);
    pieces.get(part.dataset.v).push(part);
  }
  const dark = () => { for (const part of all(".lit")) part.classList.remove("lit"); };
  const light = (number) => {
    for (const part of pieces.get(String(number)) || []) part.classList.add("lit");
    for (const key of values[number].flat()) boxes.get(key)?.classList.add("lit");
  };
  picture.addEventListener("mouseover", (event) => {
    const edge = event.target.closest("[data-v]"), box = event.target.closest("g[data-b]"), pill = event.target.closest("g[data-p]");
    dark();
    if (edge) light(edge.dataset.v);
    else if (box) {
      values.forEach((ends, number) => { if (ends.flat().includes(box.dataset.b)) light(number); });
      box.classList.add("lit");
    } else if (pill)
      for (const other of all("g[data-p]")) if (other.dataset.p === pill.dataset.p) other.classList.add("lit");
  });
  picture.addEventListener("mouseleave", dark);

  const lines = new Map([...document.querySelectorAll("#source [data-line]")].map((row) => [row.dataset.line, row]));
  const places = [...all("[data-line]")];
  for (const place of places) lines.get(place.dataset.line)?.classList.add("used");
  const mark = (key, scroll) => {
    for (const row of document.querySelectorAll("#source .on")) row.classList.remove("on");
    const row = lines.get(key);
    if (!row) return;
    row.classList.add("on");
    row.closest("details").open = true;
    if (scroll) row.scrollIntoView({ block: "center" });
  };
  picture.addEventListener("click", (event) => {
    const place = event.target.closest("[data-line]");
    if (place && !moved) mark(place.dataset.line, true);
  });
  document.getElementById("source").addEventListener("click", (event) => {
    const row = event.target.closest("[data-line]");
    if (!row) return;
    dark();
    mark(row.dataset.line, false);
    const found = places.filter((place) => place.dataset.line === row.dataset.line);
    for (const place of found) place.classList.add("lit");
    if (found.length) {
      const box = found[0].getBoundingClientRect(), frame = view.getBoundingClientRect();
      x += frame.left + frame.width / 2 - (box.left + box.width / 2); y += frame.top + frame.height / 2 - (box.top + box.height / 2);
      show();
    }
  });
  fit(false);
})();
"""

# Colours of tokens by the first word of their kind that is here; of middle lightness, for light and dark pages.
_COLOURS = {
    "Keyword": "#9a5fd6", "Name.Function": "#3b86c8", "Name.Namespace": "#3b86c8", "Literal.String": "#3d9a57",
    "Literal.Number": "#b5762a", "Comment": "#808a90",
}  # fmt: skip


def page(placed: Placed) -> str:
    """The page."""
    sources: dict[Source, int] = {}
    scene = placed.scene
    for box in scene.boxes():  # the text of the model itself comes first: that of its inputs and outputs
        if box.kind in ("input", "output", "tap") and box.span is not None:
            sources.setdefault(box.span.source, len(sources))
    picture = draw(placed, "auto", sources)
    values = [[[s.key for s in v.sources], [t.key for t, _ in v.targets]] for v in scene.values]
    name = html_escape(scene.name)
    texts = "".join(_text(source, number) for source, number in sources.items())
    aside = f'<div id="source">{texts}</div>' if sources else '<div id="source" hidden></div>'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n<body>\n'
        f'<div id="view">\n{picture}<div id="tools"><button id="out" title="smaller">−</button>'
        f'<button id="in" title="larger">+</button><button id="fit" title="all of it">fit</button></div>\n</div>\n{aside}\n'
        f'<script type="application/json" id="values">{_json(values)}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _text(source: Source, number: int) -> str:
    rows = "".join(
        f'<div data-line="{number}:{k}" data-n="{k}">{line or " "}</div>'
        for k, line in enumerate(_coloured_lines(source.text), start=1)
    )
    name = html_escape(source.display_name)
    return f"<details{' open' if number == 0 else ''}><summary>{name}</summary><pre>{rows}</pre></details>\n"


def _coloured_lines(text: str) -> Iterator[str]:
    """The lines of a text of the language as HTML."""
    from pygments import lex

    from rlxlang.frontend.highlight import RlxLexer

    line: list[str] = []
    for kind, piece in lex(text, RlxLexer(stripnl=False, ensurenl=False)):
        name = str(kind).removeprefix("Token.")
        colour = next((c for prefix, c in _COLOURS.items() if f"{name}.".startswith(f"{prefix}.")), "")
        first, *more = piece.split("\n")
        line.append(_span(first, colour))
        for part in more:
            yield "".join(line)
            line = [_span(part, colour)]
    yield "".join(line)


def _span(text: str, colour: str) -> str:
    shown = html_escape(escape(text, keep="\t"))
    return f'<span style="color:{colour}">{shown}</span>' if colour and shown else shown
