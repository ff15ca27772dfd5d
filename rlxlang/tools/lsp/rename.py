"""Renaming: every place of a variable, in every text that means it, or the reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.checks import DTYPES, UNBINDABLE
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.index import FUNCTIONS, Definition, Use
from rlxlang.tools.lsp.workspace import Workspace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AXIS = re.compile(r"\??[A-Za-z_][A-Za-z0-9_]*")


class Refused(Exception):
    """Why something cannot be renamed."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text in place of a span."""

    span: Span
    text: str


def renamable(workspace: Workspace, document: Document, offset: int) -> tuple[Span, str]:
    """The name at an offset that can be renamed, and where it stands.

    Raises:
        Refused: There is none.
    """
    occurrences = document.index.at(offset)
    if not occurrences:
        raise Refused("there is no name here")
    occurrence = occurrences[0]
    if _local_name(occurrence) is None:
        _roots(workspace, document, occurrence)
    return occurrence.span, occurrence.name


def rename(workspace: Workspace, document: Document, offset: int, name: str) -> list[Edit]:
    """The edits that give what stands at an offset another name.

    Raises:
        Refused: It cannot have that name, or no other name at all.
    """
    renamable(workspace, document, offset)
    occurrence = document.index.at(offset)[0]
    local = _local_name(occurrence)
    roots = [local] if local is not None else _roots(workspace, document, occurrence)
    is_axis = roots[0].kind == "axis"
    if is_axis and not name.startswith("?"):
        name = f"?{name}"
    if not (_AXIS if is_axis else _NAME).fullmatch(name) or name == "_":
        raise Refused(f"`{name}` is not a name")
    if not is_axis and (name in UNBINDABLE or name in DTYPES or name == "none"):
        raise Refused(f"`{name}` is a word of the language")
    if name == occurrence.name:
        return []
    _refuse_clashes(workspace, roots, name)
    spans = document.index.occurrences(local) if local is not None else workspace.occurrences(occurrence, document)
    edits = [Edit(span, name) for span in spans if span.text == occurrence.name]  # an alias keeps its name
    edits += _companions(workspace, roots, occurrence.name, name)
    places = {(edit.span.source.name, edit.span.start): edit for edit in edits}
    return [places[key] for key in sorted(places)]


def _local_name(occurrence: Definition | Use) -> Definition | None:
    """The definition of a name that this text alone gives to something of another text, with `as`."""
    definition = occurrence if isinstance(occurrence, Definition) else occurrence.found[0] if occurrence.found else None
    node = None if definition is None else definition.node
    return definition if isinstance(node, (ast.Use, ast.UseItem)) and node.alias is not None else None


def _roots(workspace: Workspace, document: Document, occurrence: Definition | Use) -> list[Definition]:
    """What an occurrence means, if that may be renamed.

    Raises:
        Refused: It belongs to the language, to the standard library, or is not known.
    """
    if isinstance(occurrence, Use) and occurrence.role in ("op", "option", "dtype", "type", "initializer", "constant"):
        raise Refused(f"`{occurrence.name}` belongs to the language")
    roots = workspace.resolve(occurrence, document)
    if not roots:
        raise Refused(f"it is not known what `{occurrence.name}` means")
    for root in roots:
        if root.kind == "module" and isinstance(root.node, ast.Use) and root.node.alias is None:
            raise Refused("a module is named by its file; give it a name with `as`")
        if _in_library(workspace, root):
            raise Refused(f"`{root.name}` belongs to the standard library")
    return roots


def _in_library(workspace: Workspace, definition: Definition) -> bool:
    home = definition.span.source.name
    folder = home.rpartition("/")[0]
    return (
        folder.endswith("stdlib")
        and definition.span.source.name.rpartition("/")[2].removesuffix(".rlx") in stdlib_modules()
    )


def _refuse_clashes(workspace: Workspace, roots: list[Definition], new: str) -> None:
    """Refuse a name that something else in sight of one of the places has.

    Raises:
        Refused: The meaning of the text would change.
    """
    mine: set[Definition] = set()
    for root in roots:
        home = workspace.owner_document(root)
        if home is None:
            continue
        mine |= set(home.index.variable(root))
    for definition in list(mine):
        home = workspace.owner_document(definition)
        if home is None:
            continue
        functions = definition.kind in FUNCTIONS
        for other in home.index.definitions:
            if other.name != new or other in mine or (other.kind in FUNCTIONS) != functions:
                continue
            if other.kind == "axis" and definition.kind == "axis":
                raise Refused(f"`{new}` is another axis")
            if (other.kind == "axis") != (definition.kind == "axis"):
                continue
            apart = other.visible[0] > definition.visible[1] or definition.visible[0] > other.visible[1]
            if not apart:
                raise Refused(f"`{new}` is bound at line {other.span.line}")


def _companions(workspace: Workspace, roots: list[Definition], old: str, new: str) -> list[Edit]:
    """In a derivative rule without `return` the result for parameter `x` is called `dx`."""
    edits: list[Edit] = []
    for root in roots:
        rule = root.node
        if not isinstance(rule, ast.Vjp) or any(isinstance(s, ast.Return) for s in rule.body.statements):
            continue
        home = workspace.owner_document(root)
        if home is None:
            continue
        inside = (rule.body.span.start, rule.body.span.end)
        for definition in home.index.of_kind("let"):
            if definition.name == f"d{old}" and inside[0] <= definition.span.start < inside[1]:
                edits += [Edit(span, f"d{new}") for span in home.index.occurrences(definition)]
    return edits
