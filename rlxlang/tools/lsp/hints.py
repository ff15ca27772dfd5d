"""Inlay hints: the types of bindings, and the names of parameters in calls of fns and blocks."""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.frontend import ast
from rlxlang.frontend.walk import walk
from rlxlang.tools.lsp.analysis import Analysis
from rlxlang.tools.lsp.workspace import Workspace

_TYPED = ("let", "out", "emit", "carry", "slice", "formal", "tangent", "bind")
_MOST_TYPES = 2  # of one name; more are left out


@dataclass(frozen=True, slots=True)
class Hint:
    """A text to show at an offset; `kind` is `type` or `parameter`."""

    offset: int
    text: str
    kind: str


def hints(workspace: Workspace, analysis: Analysis, start: int, stop: int) -> list[Hint]:
    """The hints between two offsets, in order."""
    found = _types(analysis, start, stop)
    with workspace.still():
        found += _parameters(workspace, analysis, start, stop)
    return sorted(found, key=lambda hint: hint.offset)


def _types(analysis: Analysis, start: int, stop: int) -> list[Hint]:
    found: list[Hint] = []
    for definition in analysis.document.index.of_kind(*_TYPED):
        place = definition.span.end
        if not start <= place <= stop or (definition.kind == "formal" and getattr(definition.node, "type", None)):
            continue
        if isinstance(definition.node, ast.Emit) and definition.node.value.span == definition.span:
            continue  # `emit y;`
        types = analysis.types(definition)
        if 0 < len(types) <= _MOST_TYPES:
            found.append(Hint(place, f": {' | '.join(types)}", "type"))
    return found


def _parameters(workspace: Workspace, analysis: Analysis, start: int, stop: int) -> list[Hint]:
    """`x:` before the arguments of fns and blocks that are given by position, unless the argument is called the same."""
    document = analysis.document
    found: list[Hint] = []
    callees = {
        u.span.start: u for u in document.index.uses if u.role in ("function", "item") and start <= u.span.start <= stop
    }
    for node in walk(document.module) if callees else ():
        if not isinstance(node, (ast.Call, ast.Method)):
            continue
        name = node.name if isinstance(node, ast.Method) else node.func.path[-1]
        use = callees.get(name.span.start)
        function = next(iter(workspace.resolve(use, document)), None) if use is not None else None
        if function is None or not isinstance(function.node, (ast.Fn, ast.Block)):
            continue
        formals = [formal.name.text for formal in function.node.formals][isinstance(node, ast.Method) :]
        if len(formals) < 2:
            continue
        for formal, argument in zip(formals, node.args, strict=False):
            same = isinstance(argument.value, ast.Ref) and argument.value.text == formal
            if argument.name is None and not same and start <= argument.span.start <= stop:
                found.append(Hint(argument.span.start, f"{formal}: ", "parameter"))
    return found
