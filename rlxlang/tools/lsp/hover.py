"""What an editor shows for the place under the cursor: the declaration, its type as the checker infers it, its text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.tools.lsp import words
from rlxlang.tools.lsp.analysis import Analysis, Document, shown
from rlxlang.tools.lsp.index import Definition, Use
from rlxlang.tools.lsp.workspace import Workspace

_LONGEST = 120  # characters of a value that is shown


@dataclass(frozen=True, slots=True)
class Hover:
    """A text in Markdown and the place that it is about."""

    text: str
    span: Span


def hover(workspace: Workspace, analysis: Analysis, offset: int) -> Hover | None:
    """What is known of the name at an offset; None when there is no name, or nothing to say."""
    document = analysis.document
    for occurrence in document.index.at(offset):
        text = describe(workspace, analysis, occurrence)
        if text:
            return Hover(text, occurrence.span)
    return None


def describe(workspace: Workspace, analysis: Analysis, occurrence: Definition | Use) -> str:
    """An occurrence in Markdown."""
    document = analysis.document
    if isinstance(occurrence, Use) and not occurrence.found:
        text = _builtin(analysis, occurrence)
        if text:
            return text
    definitions = workspace.resolve(occurrence, document)
    if not definitions:
        return ""
    definition = definitions[-1] if isinstance(occurrence, Use) else definitions[0]
    types = _types(workspace, analysis, occurrence, definition, document)
    parts = [_code(declaration(definition, types, occurrence.name))]
    if definition.doc:
        parts.append(definition.doc)
    if definition.kind == "param" and isinstance(definition.node, ast.Param) and definition.node.alias is not None:
        parts.append(f"bound as {definition.node.alias.span.text}")
    if isinstance(occurrence, Use) and definition.kind in ("fn", "block"):
        results = shown(_call_values(analysis, occurrence))
        if results:
            parts.append("gives " + " or ".join(f"`{r}`" for r in results[:4]))
    home = definition.span.source.name
    if home != document.path:
        parts.append(f"in `{Path(home).name}`")
    return "\n\n".join(parts)


def declaration(definition: Definition, types: list[str], name: str = "") -> str:
    """One line of code that says what a name is."""
    node, name = definition.node, definition.name
    match definition.kind:
        case "fn" | "block":
            return words.function_form(definition)
        case "module":
            return f"use {node.target.span.text}" if isinstance(node, ast.Use) else f"use {name}"
        case "import":
            return f"use {definition.target.span.text if definition.target else ''}::{{{definition.item}}}"
        case "instance":
            return f"{node.span.text if isinstance(node, ast.Named) else name}"
        case "axis":
            return f"{name}  // a dynamic axis"
        case "config":
            value = types[0] if types else _config_type(node)
            return f"config {name}: {value}" if value else f"config {name}"
    family = f"[{node.family.span.text}]" if isinstance(node, (ast.Input, ast.Param)) and node.family else ""
    text = f"{_word(definition.kind)} {name}{family}".strip()
    if types:
        text += f": {' | '.join(types[:4])}{' | …' if len(types) > 4 else ''}"
    elif isinstance(node, (ast.Input, ast.Param)):
        text += f": {node.shape.span.text}"
    elif isinstance(node, ast.Formal) and node.type is not None:
        text += f": {node.type.text}"
    if isinstance(node, ast.Param) and node.init is not None:
        text += f" = {_short(node.init.span.text)}"
    return text


def _types(
    workspace: Workspace, analysis: Analysis, occurrence: Definition | Use, definition: Definition, document: Document
) -> list[str]:
    if isinstance(occurrence, Use) and occurrence.role in ("value", "field"):
        here = shown(analysis.expression(occurrence.span) or _call_values(analysis, occurrence))
        if here and definition.kind != "config":
            return here
    found = analysis.types(definition)
    if found or definition.span.source is document.source:
        return found
    return []


def _builtin(analysis: Analysis, use: Use) -> str:
    """What the language itself says about a word."""
    match use.role:
        case "op":
            form = words.op_form(use.name, method=use.method)
            if form is None:
                return ""
            text = f"{_code(form[0])}\n\n{form[1]}"
            results = shown(_call_values(analysis, use))
            return text + (f"\n\ngives {' or '.join(f'`{r}`' for r in results[:4])}" if results else "")
        case "initializer":
            form = words.initializer_form(use.name)
            return f"{_code(form[0])}\n\n{form[1]}"
        case "option" if isinstance(use.base, Use):
            for parameter in words.op_options(use.base.name, method=False):
                if parameter.name == use.name:
                    return f"{_code(words.parameter_text(parameter))}\n\noption of `{use.base.name}`: {words.kind_text(parameter)}"
            return f"option of `{use.base.name}`"
        case "dtype":
            return f"{_code(use.name)}\n\n{words.DTYPE_DOCS[use.name]}" if use.name in words.DTYPE_DOCS else ""
        case "type":
            return f"{_code(use.name)}\n\n{words.TYPE_DOCS[use.name]}" if use.name in words.TYPE_DOCS else ""
        case "constant":
            return (
                f"{_code(use.name)}\n\n{words.CONSTANT_DOCS[use.name]}".strip()
                if use.name in words.CONSTANT_DOCS
                else ""
            )
    return ""


def _call_values(analysis: Analysis, use: Use) -> list[object]:
    """What the call of a name, or the field of that name, gave."""
    call = analysis.document.expression_of(use.span)
    return [] if call is None else analysis.expression(call.span)


def _config_type(node: ast.Node) -> str:
    if not isinstance(node, ast.Config):
        return ""
    kind = node.type.text if node.type is not None else ""
    default = "" if node.default is None else f" = {_short(node.default.span.text)}"
    return f"{kind}{default}".strip()


def _word(kind: str) -> str:
    return {"variable": "repeat", "slice": "scan", "emit": "emit", "formal": "", "tangent": ""}.get(kind, kind)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _code(text: str) -> str:
    return f"```rlx\n{text}\n```"
