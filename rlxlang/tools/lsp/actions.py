"""Repairs for diagnostics whose help says what to write."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlxlang.diagnostics import Diagnostic, Span
from rlxlang.frontend import ast
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.rename import Edit

_QUOTED = re.compile(r"`([^`]+)`")
_REPLACEMENTS = {"and": "&", "or": "|", "=": ":", ":": ".."}


@dataclass(frozen=True, slots=True)
class Repair:
    """A title and the edits of one repair; `preferred` when nothing else is likely to be meant."""

    title: str
    edits: tuple[Edit, ...]
    preferred: bool = False


def repairs(document: Document, diagnostic: Diagnostic) -> list[Repair]:
    """What can be done about a diagnostic of a document, best first."""
    span = diagnostic.span
    if span is None or span.source.text != document.text:
        return []
    found = _nearest_names(diagnostic, span) or _missing_module(document, diagnostic)
    if not found:
        edit = _one_edit(document, diagnostic, span)
        found = [] if edit is None else [edit]
    return found


def _nearest_names(diagnostic: Diagnostic, span: Span) -> list[Repair]:
    """`did you mean …?`: the wrong name is one that the message quotes."""
    help_ = next((h for h in diagnostic.helps if h.startswith("did you mean ")), None)
    words = () if help_ is None else _QUOTED.findall(diagnostic.message)
    match = next((m for word in words if (m := _whole_word(word).search(span.text)) is not None), None)
    if help_ is None or match is None:
        return []
    place = Span(source=span.source, start=span.start + match.start(), end=span.start + match.end())
    names = _QUOTED.findall(help_)
    return [Repair(f"Replace by `{name}`", (Edit(place, name),), len(names) == 1) for name in names]


def _whole_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])")


def _missing_module(document: Document, diagnostic: Diagnostic) -> list[Repair]:
    name = _QUOTED.search(diagnostic.message)
    if diagnostic.code != "E0203" or name is None or name[1] not in stdlib_modules():
        return []
    head = document.module.statements[0] if document.module.statements else None
    after = head.span.end if isinstance(head, ast.Graph) else 0
    place = Span(source=document.source, start=after, end=after)
    text = f"\nuse {name[1]};" if after else f"use {name[1]};\n"
    return [Repair(f"Add `use {name[1]};`", (Edit(place, text),), preferred=True)]


def _one_edit(document: Document, diagnostic: Diagnostic, span: Span) -> Repair | None:
    text, written = diagnostic.message, span.text
    if diagnostic.code == "E0103":
        return Repair("Insert `;`", (Edit(span, ";"),), preferred=True)
    if diagnostic.code == "W0902" and any("begin with `_`" in h for h in diagnostic.helps):
        start = Span(source=span.source, start=span.start, end=span.start)
        return Repair(f"Call it `_{written}`", (Edit(start, "_"),)) if written.isidentifier() else None
    if diagnostic.code == "E0109" and any(h.startswith("to bind it write `let ") for h in diagnostic.helps):
        start = Span(source=span.source, start=span.start, end=span.start)
        return Repair("Insert `let`", (Edit(start, "let "),), preferred=True)
    if diagnostic.code == "E0102" and text == "typographic dash":
        return Repair("Write `-`", (Edit(span, "-"),), preferred=True)
    if diagnostic.code == "E0111" and text == "`+` has no unary form":
        return Repair("Leave out `+`", (Edit(span, ""),), preferred=True)
    if diagnostic.code == "E0111" and written in ("&&", "||"):
        return Repair(f"Write `{written[0]}`", (Edit(span, written[0]),), preferred=True)
    instead = _REPLACEMENTS.get(written)
    if instead is None:
        return None
    if written in ("and", "or") and diagnostic.code in ("E0101", "E0111"):
        return Repair(f"Write `{instead}`", (Edit(span, instead),))
    if diagnostic.code == "E0112" and text.startswith(("an option is written with", "a slice is written with")):
        return Repair(f"Write `{instead}`", (Edit(span, instead),), preferred=True)
    return None
