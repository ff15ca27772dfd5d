"""Semantic tokens: what each name is, beyond what a grammar of tokens can tell."""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.index import FUNCTIONS, Definition, Use
from rlxlang.tools.lsp.workspace import Workspace

TYPES = ("namespace", "type", "parameter", "variable", "property", "enumMember", "function", "method", "typeParameter")
MODIFIERS = ("declaration", "readonly", "defaultLibrary")
_DECLARATION, _READONLY, _LIBRARY = 1, 2, 4


@dataclass(frozen=True, slots=True)
class SemanticToken:
    """A name: `type` is a place in `TYPES`, `modifiers` a set of bits in the order of `MODIFIERS`."""

    start: int
    end: int
    type: int
    modifiers: int


def tokens(workspace: Workspace, document: Document) -> list[SemanticToken]:
    """The tokens of a document in order, none of them inside another."""
    with workspace.still():
        return _tokens(workspace, document)


def _tokens(workspace: Workspace, document: Document) -> list[SemanticToken]:
    places: dict[int, SemanticToken] = {}
    for use in document.index.uses:
        found = _of_use(workspace, document, use)
        if found is not None:
            places[use.span.start] = SemanticToken(use.span.start, use.span.end, *found)
    for definition in document.index.definitions:
        if definition.kind == "module" and definition.span.text != definition.name:
            continue  # a file named by a string
        kind, modifiers = _of_definition(workspace, document, definition)
        place = definition.span
        places.setdefault(place.start, SemanticToken(place.start, place.end, kind, modifiers | _DECLARATION))
    ordered: list[SemanticToken] = []
    for start in sorted(places):
        token = places[start]
        if token.end > token.start and (not ordered or ordered[-1].end <= start):
            ordered.append(token)
    return ordered


def _of_use(workspace: Workspace, document: Document, use: Use) -> tuple[int, int] | None:
    match use.role:
        case "op":
            return TYPES.index("method" if use.method else "function"), _LIBRARY
        case "initializer":
            return TYPES.index("function"), _LIBRARY
        case "dtype" | "type":
            return TYPES.index("type"), _LIBRARY
        case "constant":
            return TYPES.index("enumMember"), _LIBRARY | _READONLY
        case "option" | "argument":
            return TYPES.index("parameter"), 0
        case "field":
            return TYPES.index("property"), 0
        case "axis":
            return TYPES.index("typeParameter"), 0
        case "module":
            return None if '"' in use.span.text else (TYPES.index("namespace"), 0)
    found = workspace.resolve(use, document)
    return _of_definition(workspace, document, found[-1]) if found else None


def _of_definition(workspace: Workspace, document: Document, definition: Definition) -> tuple[int, int]:
    if definition.kind == "import":
        outside = workspace.resolve(definition, document)
        if outside and outside[0] is not definition:
            definition = outside[0]
    if definition.kind in FUNCTIONS:
        return TYPES.index("function"), 0
    if definition.kind == "module":
        return TYPES.index("namespace"), 0
    if definition.kind == "axis":
        return TYPES.index("typeParameter"), 0
    if definition.kind in ("formal", "tangent"):
        return TYPES.index("parameter"), 0
    if definition.kind in ("config", "const"):
        return TYPES.index("variable"), _READONLY
    return TYPES.index("property" if definition.kind == "instance" else "variable"), 0
