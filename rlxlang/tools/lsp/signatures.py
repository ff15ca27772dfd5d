"""The form of the function whose arguments are being typed."""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.tools.lsp import words
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.cursor import Bracket, cursor_at
from rlxlang.tools.lsp.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Signature:
    """A form, its parameters as they stand in it with what each takes, and which one is being typed (None: none of them)."""

    label: str
    doc: str
    parameters: tuple[tuple[str, str], ...]
    active: int | None


def signature(workspace: Workspace, document: Document, offset: int) -> Signature | None:
    """The signature for an offset; None outside of calls and for unknown functions."""
    cursor = cursor_at(document.text, document.trivia, offset)
    call = cursor.call
    if cursor.in_comment or call is None:
        return None
    name = call.callee[-1]
    definition = workspace.function(document, call.callee)
    if definition is not None:
        parameters = [(text, "") for text in words.function_parameters(definition)]
        label = words.function_form(definition, "::".join(call.callee))
        doc, first, gathering = definition.doc, int(call.method), None
    elif len(call.callee) == 1 and name in INITIALIZERS and cursor.keyword == "param" and not call.method:
        label, doc = words.initializer_form(name)
        parameters, first, gathering = [(p, "") for p in INITIALIZERS[name]], 0, None
    elif len(call.callee) == 1 and (form := words.op_form(name, method=call.method)) is not None:
        label, doc = form
        parameters = words.op_parameters(name)
        surface = words.surface_of(name, method=call.method)
        if surface is not None:
            parameters = [(words.parameter_text(p), words.kind_text(p)) for p in surface.parameters]
        first, gathering = int(call.method), surface.gathering if surface is not None and surface.variadic else None
    else:
        return None
    return Signature(label, doc, tuple(parameters), _active(call, parameters, first, gathering))


def _active(call: Bracket, parameters: list[tuple[str, str]], first: int, gathering: int | None) -> int | None:
    names = [text.split(":")[0].split("=")[0].strip() for text, _ in parameters]
    if call.naming in names:
        return names.index(call.naming)
    place = call.commas + first
    if gathering is not None:
        return min(place, gathering)
    return place if place < len(parameters) else None
