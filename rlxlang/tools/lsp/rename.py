"""Renaming: every place of a variable, in every text that means it, or the reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.checks import DTYPES, UNBINDABLE
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.index import FUNCTIONS, Definition, Index, Use
from rlxlang.tools.lsp.workspace import Workspace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONCE = ("fn", "block", "module", "import", "config", "input", "param", "const", "bind", "instance")
_AXIS = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*")


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
    spans = document.index.occurrences(local) if local is not None else workspace.occurrences(occurrence, document)
    edits = [Edit(span, name) for span in spans if span.text == occurrence.name]  # an alias keeps its name
    edits += _companions(workspace, roots, occurrence.name, name)
    places = {(edit.span.source.name, edit.span.start): edit for edit in edits}
    ordered = [places[key] for key in sorted(places)]
    _refuse_clashes(workspace, ordered, name)
    return ordered


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


def _refuse_clashes(workspace: Workspace, edits: list[Edit], name: str) -> None:
    """Refuse edits after which any name of the texts would mean something else.

    Raises:
        Refused: There is such a name.
    """
    by_text: dict[str, list[Edit]] = {}
    for edit in edits:
        by_text.setdefault(edit.span.source.name, []).append(edit)
    for path, own in by_text.items():
        before = workspace.document(path)
        if before is None:
            continue
        text = before.text
        for edit in reversed(own):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        after = Document(path, text)
        known = {error.message for error in before.parsed.errors}
        new = next((error for error in after.parsed.errors if error.message not in known), None)
        if new is not None:
            raise Refused(f"`{name}` cannot be the name here: {new.message}")
        place = _first_difference(before.index, after.index) or _declared_twice(after.index, name)
        if place is not None:
            raise Refused(f"`{name}` has another meaning at line {place.line}")


def _first_difference(before: Index, after: Index) -> Span | None:
    """The first place of a text whose meaning has changed with the names; None when all means what it meant."""
    for old, new in zip_longest(_meanings(before), _meanings(after)):
        if old is None or new is None or old[0] != new[0]:
            found: Span = (new or old)[1]
            return found
    return None


def _meanings(index: Index) -> list[tuple[tuple[str, tuple[int, ...]], Span]]:
    """What each use means, without names: its role, and which definitions of the text by their number."""
    numbers = {definition: k for k, definition in enumerate(index.definitions)}
    kinds = [((definition.kind, ()), definition.span) for definition in index.definitions]
    uses = [((use.role, tuple(sorted(numbers.get(d, -1) for d in use.found))), use.span) for use in index.uses]
    return [*uses, *kinds]


def _declared_twice(index: Index, name: str) -> Span | None:
    """The second of two declarations of one name where there may be only one."""
    seen: set[tuple[object, str]] = set()
    for definition in index.of_kind(*_ONCE):
        space = "functions" if definition.kind in FUNCTIONS else "modules" if definition.kind == "module" else "values"
        key = (definition.owner, space)
        if definition.name == name and key in seen:
            return definition.span
        if definition.name == name:
            seen.add(key)
    return None


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
