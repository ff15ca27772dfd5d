"""A `Func` as HTML for notebooks: its source in colour, a table of its interface, a picture of its graph.

Colours are of middle lightness and backgrounds are left alone, so that light and dark pages both can be read. Nothing is
loaded from elsewhere and no style leaks: every element carries its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape as html_escape
from typing import TYPE_CHECKING

from rlxlang.diagnostics import escape
from rlxlang.func_summary import HEAD, rows, totals

if TYPE_CHECKING:
    from rlxlang.func import Func

_MOST_SOURCE = 20_000  # characters of a source that are shown
_MOST_DRAWN = 2000  # nodes of a graph that are drawn, most of them folded
_MOST_ROWS = 200  # of the table
_CELL = "text-align:left;padding:0.15em 0.8em;border:none"
_BOX = "font-family:monospace;white-space:pre;overflow-x:auto;margin:0.3em 0;line-height:1.35;text-align:left"

# Colours of tokens by the first word of their kind that is here.
_COLOURS = {
    "Keyword.Type": "#2a9d8f", "Keyword.Constant": "#b5762a", "Keyword": "#a367dc", "Name.Function": "#3b86c8",
    "Name.Namespace": "#3b86c8", "Name.Variable": "#b5762a", "Literal.String.Doc": "#808a90", "Literal.String": "#3d9a57",
    "Literal.Number": "#b5762a", "Comment": "#808a90",
}  # fmt: skip


def func_html(func: Func) -> str:
    """The function as HTML; every text in it is escaped."""
    parts = [_table(func)]
    source = _source_text(func)
    if source:
        parts.append(_folded("source", f'<div style="{_BOX}">{source_html(source)}</div>', is_open=len(source) < 2000))
    picture = _picture(func)
    if picture:
        parts.append(_folded("graph", f'<div style="overflow:auto;max-height:40em">{picture}</div>', is_open=True))
    return f'<div class="rlx-func" style="max-width:100%">{"".join(parts)}</div>'


def _folded(title: str, body: str, *, is_open: bool) -> str:
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>{body}</details>"


def _table(func: Func) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="{_CELL}">{html_escape(escape(c))}</{tag}>' for c in cells) + "</tr>"

    found = rows(func)
    body = "".join(row(r, "td") for r in found[:_MOST_ROWS])
    if len(found) > _MOST_ROWS:
        body += row(("…", f"{len(found) - _MOST_ROWS} more", "", ""), "td")
    caption = f"{html_escape(escape(func.name))}: {html_escape(escape(totals(func)))}"
    return (
        f'<table style="border-collapse:collapse"><caption style="text-align:left;caption-side:top">{caption}</caption>'
        f"<thead>{row(HEAD, 'th')}</thead><tbody>{body}</tbody></table>"
    )


def _source_text(func: Func) -> str:
    source = func.traced.source
    if source is None:
        return ""
    text = source.text.strip("\n")
    return text if len(text) <= _MOST_SOURCE else text[:_MOST_SOURCE] + "\n…"


def source_html(text: str) -> str:
    """A text of the language in colour, with neither a frame nor a background."""
    from pygments import lex

    from rlxlang.frontend.highlight import RlxLexer

    return "".join(_pieces(lex(text, RlxLexer(stripnl=False, ensurenl=False))))


def _pieces(tokens: Iterator[tuple[object, str]]) -> Iterator[str]:
    for kind, text in tokens:
        shown = html_escape(escape(text, keep="\n\t"))
        colour = _colour(str(kind).removeprefix("Token."))
        yield f'<span style="color:{colour}">{shown}</span>' if colour else shown


def _colour(kind: str) -> str:
    return next((colour for prefix, colour in _COLOURS.items() if f"{kind}.".startswith(f"{prefix}.")), "")


def _picture(func: Func) -> str:
    """The graph as SVG, where it is small enough to be looked at."""
    if len(func.graph.nodes) > _MOST_DRAWN:
        return ""
    from rlxlang.pictures import svg

    return svg(func, theme="page")
