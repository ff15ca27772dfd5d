"""The structure of a text: symbols for outlines, and what can be folded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.walk import children, walk
from rlxlang.tools.lsp.analysis import Analysis, Document
from rlxlang.tools.lsp.hover import declaration
from rlxlang.tools.lsp.index import Definition

_DEEPEST = 50


@dataclass(eq=False, slots=True)
class Symbol:
    """An entry of the outline: `kind` is that of the definition, `whole` covers `name`."""

    label: str
    kind: str
    detail: str
    whole: Span
    name: Span
    children: list[Symbol] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that can be folded: from the end of line `start` to line `stop`, from 0; `kind` is `comment` or empty."""

    start: int
    stop: int
    kind: str = ""


def symbols(document: Document, analysis: Analysis | None = None) -> list[Symbol]:
    """What a text declares, defines and binds; what a body binds is below its fn, block, loop or branch."""
    by_name = {d.span.start: d for d in document.index.definitions if d.kind not in ("axis", "module", "import")}
    top: list[Symbol] = []
    todo: list[tuple[Any, list[Symbol], int]] = [(s, top, 0) for s in reversed(document.module.statements)]
    while todo:
        statement, out, depth = todo.pop()
        bodies = _bodies(statement)
        names = [by_name[n.span.start] for n in _names(statement) if n.span.start in by_name]
        if isinstance(statement, ast.Graph):
            name = statement.name
            out.append(Symbol(f'"{name.value}"', "graph", "graph", statement.span, name.span))
        for definition in names:
            out.append(_symbol(definition, statement.span, analysis))
        inner = out
        if bodies and depth < _DEEPEST:
            if isinstance(statement, (ast.Fn, ast.Block)) and names:
                inner = out[-1].children
            elif isinstance(statement, (ast.Vjp, ast.Jvp)):
                rule = Symbol(
                    statement.name.text, "rule", type(statement).__name__.lower(), statement.span, statement.name.span
                )
                out.append(rule)
                inner = rule.children
            for body in reversed(bodies):
                todo.extend((s, inner, depth + 1) for s in reversed(body.statements))
    return top


def _symbol(definition: Definition, whole: Span, analysis: Analysis | None) -> Symbol:
    types = analysis.types(definition) if analysis is not None else []
    if definition.kind in ("fn", "block"):
        text = declaration(definition, [])
        detail = text[text.index("(") :]
    elif types:
        detail = " | ".join(types[:3])
    else:
        node = definition.node
        detail = node.shape.span.text if isinstance(node, (ast.Input, ast.Param)) else ""
    return Symbol(definition.name, definition.kind, detail, whole.to(definition.span), definition.span)


def _names(statement: Any) -> list[ast.Name]:
    match statement:
        case ast.Config() | ast.Input() | ast.Param() | ast.Const() | ast.Fn() | ast.Block() | ast.Emit():
            return [statement.name]
        case ast.Bind():
            return [item.name for item in statement.items]
        case ast.Let():
            return list(statement.names)
        case ast.Scan() | ast.Loop():
            return [carry.name for carry in statement.carries]
        case ast.Out() | ast.Tap():
            return [item.name for item in statement.items if item.value is not None]
    return []


def _bodies(statement: Any) -> list[ast.Body]:
    if isinstance(statement, ast.If):
        return [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]
    body = getattr(statement, "body", None)
    return [body] if isinstance(body, ast.Body) else []


def folds(document: Document) -> list[Fold]:
    """Bodies, statements and lists of several lines, and blocks of comments."""
    found: dict[int, Fold] = {}

    def add(span: Span, kind: str = "", *, keep_last: bool = False) -> None:
        start, stop = span.line - 1, span.source.line_column(span.end)[0] - 1
        stop -= 1 if keep_last else 0
        if stop > start and (start not in found or found[start].stop < stop):
            found[start] = Fold(start, stop, kind)

    for node in walk(document.module):
        if isinstance(node, ast.Body):
            add(node.span, keep_last=True)
        elif isinstance(node, (ast.Let, ast.Const, ast.Call, ast.Method, ast.ListExpr)):
            add(node.span, keep_last=node.span.text.rstrip(";").endswith(("]", ")")))
    comments = list(document.trivia.comments)
    k = 0
    while k < len(comments):
        last = k
        while (
            last + 1 < len(comments)
            and comments[last + 1].own_line
            and comments[k].own_line
            and comments[last + 1].span.line == comments[last].span.source.line_column(comments[last].span.end)[0] + 1
        ):
            last += 1
        add(comments[k].span.to(comments[last].span), "comment")
        k = last + 1
    return [found[line] for line in sorted(found)]


def around(document: Document, offset: int) -> list[Span]:
    """The parts of a text around an offset, innermost first: names, expressions, statements, bodies, the whole."""
    found: list[Span] = []
    node: ast.Node | None = document.module
    while node is not None:
        if not found or (node.span.start, node.span.end) != (found[-1].start, found[-1].end):
            found.append(node.span)
        node = next((c for c in children(node) if c.span.start <= offset <= c.span.end), None)
    return found[::-1]
