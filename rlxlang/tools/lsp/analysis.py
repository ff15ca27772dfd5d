"""What is known of one text: its tree, its names, what is wrong with it, and the values that the checker computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Diagnostic, Source, Span, error, warning
from rlxlang.frontend import ast
from rlxlang.frontend.elaborate import elaborate_parsed
from rlxlang.frontend.parse import ParseResult, parse_module
from rlxlang.frontend.trivia import Trivia, scan
from rlxlang.frontend.values import Absent, BoundObject, Instance, ListValue, Poison, Unbound
from rlxlang.frontend.walk import strip_groups, walk
from rlxlang.ir import MaskKind, Node
from rlxlang.tools.lsp.index import Definition, Index
from rlxlang.tools.lsp.resolve import index_module
from rlxlang.types import Dim, DType, TensorType

ReadFile = Callable[[Path], str]
_MOST_VALUES = 16  # kept for one place: a fn has a value at every call, a repeat in every iteration
_CHECK_EVERY = 256  # observations between looks at the clock


class Stopped(Exception):
    """The elaboration took too long, or nobody waits for it any more."""


class Document:
    """A text with what can be said without elaborating it.

    Args:
        path: Its file, or any name.
        text: Its content.

    Attributes:
        source: The text with its name.
        parsed: Its tree and syntax errors.
        module: The tree; an empty one when nothing could be read.
        trivia: Its comments.
        index: Its names.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.source = Source(path, text)
        self.parsed: ParseResult = parse_module(self.source)
        whole = Span(source=self.source, start=0, end=len(text))
        self.module = self.parsed.module or ast.Module(whole, self.source, (), ())
        self.trivia: Trivia = scan(self.source)
        self.index: Index = index_module(self.module)
        self._named: dict[int, ast.Node] | None = None

    def expression_of(self, name: Span) -> ast.Node | None:
        """The call, method call or field whose name stands at a span; with the `as` that names it."""
        if self._named is None:
            self._named = {}
            for node in walk(self.module):
                inner = strip_groups(node.call) if isinstance(node, ast.Named) else node
                if isinstance(inner, (ast.Call, ast.Method, ast.Field)):
                    called = inner.func.path[-1] if isinstance(inner, ast.Call) else inner.name
                    self._named.setdefault(called.span.start, node)
        return self._named.get(name.start)

    @property
    def folder(self) -> Path:
        """Where paths of used files start."""
        return Path(self.path).parent


@dataclass(eq=False)
class Analysis:
    """A document and what elaboration says of it.

    Attributes:
        document: The text.
        diagnostics: Errors and warnings, by position.
        used: The texts of the files that were read for `use`, by path.
        complete: False when the elaboration was stopped.
    """

    document: Document
    diagnostics: tuple[Diagnostic, ...] = ()
    used: dict[str, str | None] = field(default_factory=dict)
    complete: bool = True
    _bindings: dict[tuple[int, int, str], list[Any]] = field(default_factory=dict)
    _expressions: dict[tuple[int, int], list[Any]] = field(default_factory=dict)

    def values(self, definition: Definition) -> list[Any]:
        """What a definition was bound to, in order; several for a fn that is called or a loop that is unrolled."""
        for span in (definition.span, definition.node.span, definition.bound_at):
            found = None if span is None else self._bindings.get((span.start, span.end, definition.name))
            if found:
                return found
        return []

    def expression(self, span: Span) -> list[Any]:
        """The values of the expression that covers a span."""
        return self._expressions.get((span.start, span.end), [])

    def has_run(self, body: Span) -> bool:
        """Whether an expression within a span has been evaluated."""
        return any(body.start <= start and end <= body.end for start, end in self._expressions)

    def types(self, definition: Definition) -> list[str]:
        """The distinct types of a definition as text."""
        return shown(self.values(definition))

    def types_in(self, document: Document, definition: Definition) -> list[str]:
        """The types of a definition of another version of the text: those of the last one of the same name and kind."""
        if document is self.document:
            return self.types(definition)
        same = [d for d in self.document.index.of_kind(definition.kind) if d.name == definition.name]
        return self.types(same[-1]) if same else []


def analyse(
    document: Document, read: ReadFile, *, seconds: float = 20.0, cancelled: threading.Event | None = None
) -> Analysis:
    """Elaborate a document; whatever happens there ends as a diagnostic.

    Args:
        document: The text.
        read: Gives the text of a file that it uses.
        seconds: After this time the elaboration is stopped.
        cancelled: Stops it when set.

    Raises:
        Stopped: `cancelled` was set.
    """
    analysis = Analysis(document)
    source = document.source
    deadline = time.monotonic() + seconds
    count = 0

    def observe(span: Span, name: str, value: Any) -> None:
        nonlocal count
        count += 1
        if count % _CHECK_EVERY == 0 and (
            time.monotonic() > deadline or (cancelled is not None and cancelled.is_set())
        ):
            raise Stopped
        if span.source is not source:
            return
        if name:
            values = analysis._bindings.setdefault((span.start, span.end, name), [])
        else:
            values = analysis._expressions.setdefault((span.start, span.end), [])
        if len(values) < _MOST_VALUES and not isinstance(value, Poison):
            values.append(value)

    def recorded(path: Path) -> str:
        key = str(path.resolve())
        analysis.used[key] = None
        analysis.used[key] = text = read(path)
        return text

    try:
        elaborated = elaborate_parsed(document.parsed, base_path=document.folder, read=recorded, observe=observe)
        analysis.diagnostics = tuple(d for d in elaborated.diagnostics if d.code != "E0605" or not is_library(document))
    except Stopped:
        if cancelled is not None and cancelled.is_set():
            raise
        place = document.module.statements[0].span if document.module.statements else None
        note = warning(
            "W0900", f"checking was stopped after {seconds:g} s: the text expands to very many operations", place
        )
        analysis.diagnostics = (*document.parsed.diagnostics, note)
        analysis.complete = False
    except Exception as fault:  # a fault of ours must not end the session of an editor
        analysis.diagnostics = (*document.parsed.diagnostics, fault_of_ours(fault))
        analysis.complete = False
    return analysis


def fault_of_ours(fault: Exception) -> Diagnostic:
    """What is shown of a fault of the checker."""
    return error("E0001", f"internal error: {type(fault).__name__}: {fault}", helps=["please report it with the text"])


def is_library(document: Document) -> bool:
    """Whether a text has only what other texts may use; it needs no output then."""
    kinds = (ast.Graph, ast.Use, ast.Config, ast.Const, ast.Fn, ast.Block, ast.Vjp, ast.Jvp)
    statements = document.module.statements
    return all(isinstance(s, kinds) for s in statements) and any(isinstance(s, (ast.Fn, ast.Block)) for s in statements)


# ------------------------------------------------------------------------------------------------ values as text


def shown(values: list[Any]) -> list[str]:
    """The distinct types among values, in order."""
    if len(values) > 1 and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        numbers = list(dict.fromkeys(str(value) for value in values))
        return [f"int = {', '.join(numbers[:3])}{', …' if len(numbers) > 3 else ''}"]
    return list(dict.fromkeys(text for value in values if (text := type_text(value))))


def type_text(value: Any) -> str:
    """The type of a value, with the value itself when it is static; empty when there is nothing to say.

    `[F32; ?batch, 10]`, `int = 256`, `3 × [F32; 4]`.
    """
    match value:
        case Node():
            return str(value.type)
        case bool():
            return f"bool = {str(value).lower()}"
        case int() | float():
            text = repr(value)
            return f"{type(value).__name__} = {text if len(text) <= 40 else text[:37] + '…'}"
        case str():
            text = value if len(value) <= 40 else value[:37] + "…"
            return f'str = "{text}"'
        case Dim():
            return f"size {value}"
        case DType():
            return f"dtype {value}"
        case MaskKind():
            return f"MaskKind::{value.name}"
        case ListValue():
            inner = shown(list(value.items[:64]))
            count = len(value.items)
            return f"{count} × {inner[0]}" if len(inner) == 1 else f"({', '.join(inner[:6])})" if inner else "[]"
        case Absent():
            return "none"
        case Instance():
            return "block instance"
        case BoundObject():
            return "bound object"
        case Poison() | Unbound() | None:
            return ""
    return type(value).__name__


def tensor_type(value: Any) -> TensorType | None:
    """The type of a tensor, None for everything else."""
    return value.type if isinstance(value, Node) and isinstance(value.type, TensorType) else None
