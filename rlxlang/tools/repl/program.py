"""The state of a session: a text that grows statement by statement, and what it evaluates to.

A session is one program. An expression is elaborated behind its statements, so that it means what it would mean in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlxlang.diagnostics import Diagnostic, RlxError, Source, Span, error_class
from rlxlang.frontend import ast
from rlxlang.frontend.elaborate import Elaborated, elaborate_parsed
from rlxlang.frontend.parse import ParseResult
from rlxlang.frontend.values import ListValue
from rlxlang.inputs import python_array
from rlxlang.ir import Graph, GraphInput, Node
from rlxlang.tools.repl.entries import Entry, superseded

# Names that no text can write.
_VALUE, _PROBE = "<value>", "<probe>"
_MOST_ROUNDS = 100  # of dropping statements that a redefinition has made wrong


@dataclass(frozen=True, slots=True)
class Text:
    """The program of a session.

    Attributes:
        entries: Its statements, in order.
        configs: Values of configs that were set.
        binds: Values for `bind` statements.
        folder: Where paths of `use` start; None for the present folder.
    """

    entries: tuple[Entry, ...] = ()
    configs: Mapping[str, Any] = field(default_factory=dict)
    binds: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def source(self) -> str:
        """The statements as a text of the language."""
        return "".join(f"{entry.text}\n" for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Added:
    """What became of statements.

    Attributes:
        text: The new program.
        elaborated: What it means, with its declarations only.
        gone: Statements that were replaced, or that no longer hold.
        warnings: Remarks on the new statements.
    """

    text: Text
    elaborated: Elaborated
    gone: tuple[Entry, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """An expression that has been elaborated.

    Attributes:
        value: A node, a static value, a list of such.
        graph: Inputs, parameters and guards of the program.
        bound: Arrays of parameters that were bound from Python.
        warnings: Remarks on the expression.
    """

    value: Any
    graph: Graph
    bound: Mapping[str, Any]
    warnings: tuple[Diagnostic, ...]


def elaborate(text: Text, more: Sequence[ast.Statement] = (), observe: Any = None) -> Elaborated:
    """Elaborate a program with further statements behind it."""
    statements = [e.statement for e in text.entries]
    first = [s for s in statements if isinstance(s, ast.Graph)]
    rest = [s for s in statements if not isinstance(s, ast.Graph)]
    configs = {s.name.text for s in rest if isinstance(s, ast.Config)}
    binds = {i.name.text: i.is_list for s in rest if isinstance(s, ast.Bind) for i in s.items}
    source = Source("session", "")
    module = ast.Module(Span(source=source, start=0, end=0), source, (*first, *rest, *more), ())
    return elaborate_parsed(
        ParseResult(module, ()),
        {n: v for n, v in text.configs.items() if n in configs},
        {n: _bound(v, binds[n]) for n, v in text.binds.items() if n in binds},
        text.folder,
        observe=observe,
    )


def _bound(value: Any, is_list: bool) -> Any:
    """A value for a `bind` statement: `bind t[];` takes a list of arrays, `bind t;` a list of numbers as one array."""
    if not isinstance(value, list):
        return value
    if is_list:
        return [_bound(item, False) for item in value]
    array = python_array(value, "the value")
    return (
        array.astype(np.float32)
        if array.dtype == np.float64
        else array.astype(np.int32)
        if array.dtype == np.int64
        else array
    )


def check(text: Text) -> Elaborated:
    """Elaborate a program that need not have an output."""
    return elaborate(text, (_probe(),))


def names_of(text: Text) -> tuple[dict[str, Any], tuple[GraphInput, ...]]:
    """The values of the names of a program, as the last line of the text sees them; and its inputs and parameters."""
    found: dict[str, Any] = {}
    texts = {(n.span.source.name, n.span.start): n.text for e in text.entries for n in e.name_nodes}

    def observe(span: Span, name: str, value: Any) -> None:
        if name and texts.get((span.source.name, span.start)) == name:  # members of a family are observed, too
            found.pop(name, None)
            found[name] = value

    elaborated = elaborate(text, (_probe(),), observe)
    return found, elaborated.graph.inputs if elaborated.graph is not None else ()


def evaluate(text: Text, expression: ast.Expr, own: str) -> Meaning:
    """What an expression means behind a program.

    Args:
        text: The program.
        expression: The expression.
        own: Name of the source that it was typed in.

    Raises:
        RlxError: Everything that is wrong with it.
    """
    found: list[Any] = []

    def observe(span: Span, name: str, value: Any) -> None:
        if name == _VALUE:
            found.append(value)

    name = ast.Name(expression.span, _VALUE)
    let = ast.Let(expression.span, (name,), False, expression, "")
    elaborated = elaborate(text, (let, _probe()), observe)
    raise_errors(elaborated.diagnostics)
    assert elaborated.graph is not None
    return Meaning(found[-1], elaborated.graph, elaborated.bound, _remarks(elaborated.diagnostics, own))


def add(text: Text, new: Sequence[Entry], own: str) -> Added:
    """A program with further statements; earlier declarations of their names make way.

    Args:
        text: The program.
        new: The statements.
        own: Name of the source that they were typed in.

    Raises:
        RlxError: The new statements are wrong; what the older ones then lack is dropped instead.
    """
    problem: RlxError | None = None
    for in_place, forced in ((True, False), (False, False), (True, True), (False, True)):
        try:
            return _added(text, new, own, in_place, forced)
        except RlxError as found:
            problem = problem or found
    assert problem is not None
    raise problem


def _added(text: Text, new: Sequence[Entry], own: str, in_place: bool, forced: bool) -> Added:
    """One attempt: at the place of what makes way, or at the end; `forced` makes older `let`s of the same names give way."""
    kept = list(text.entries)
    gone: list[Entry] = []
    for entry in new:
        old = [e for e in kept if e.replaced_by(entry) or (forced and e.is_let and e.names == entry.names)]
        dead = superseded(kept, entry)
        first = kept.index(old[0]) if old and in_place and (entry.is_declaration or entry.is_let) else len(kept)
        gone += [e for e in old if e not in new]
        kept[first:first] = [entry]
        kept = [e for e in kept if e not in old and e not in dead]
    errors: list[Diagnostic] = []
    for _ in range(_MOST_ROUNDS):
        candidate = replace(text, entries=tuple(kept))
        elaborated = check(candidate)
        errors = [d for d in elaborated.diagnostics if d.is_error]
        if not errors:
            return Added(candidate, elaborated, tuple(gone), _remarks(elaborated.diagnostics, own))
        failing = [e for e in kept if any(_is_at(d, e) for d in errors)]
        if not failing or {_origin(d) for d in errors} & {own, ""}:
            break
        gone += failing
        kept = [e for e in kept if e not in failing]
    raise_errors([d for d in errors if _origin(d) in (own, "")] or errors)
    raise AssertionError("no error is left to raise")


def _probe() -> ast.Out:
    """An output of no interest, so that a program without one can be elaborated."""
    span = Span(source=Source("session", ""), start=0, end=0)
    return ast.Out(span, (ast.OutItem(span, ast.Name(span, _PROBE), ast.Int(span, 0, "")),), "")


def _outermost(diagnostic: Diagnostic) -> Span | None:
    return diagnostic.chain[-1].span if diagnostic.chain else diagnostic.span


def _origin(diagnostic: Diagnostic) -> str:
    span = _outermost(diagnostic)
    return "" if span is None else span.source.name


def _is_at(diagnostic: Diagnostic, entry: Entry) -> bool:
    span, own = _outermost(diagnostic), entry.statement.span
    return span is not None and span.source.name == own.source.name and own.start <= span.start <= own.end


def _remarks(diagnostics: Iterable[Diagnostic], own: str) -> tuple[Diagnostic, ...]:
    """Warnings that concern what was just typed; that a name is not used yet is none."""
    return tuple(d for d in diagnostics if not d.is_error and d.code != "W0902" and _origin(d) in (own, ""))


def raise_errors(diagnostics: Iterable[Diagnostic]) -> None:
    """Raise the errors among diagnostics, if there are any.

    Raises:
        RlxError: Of the class of the first one.
    """
    errors = [d for d in diagnostics if d.is_error]
    if errors:
        raise error_class(errors[0].code)(errors)


def nodes_of(value: Any) -> list[Node]:
    """The tensors in a value, at any depth."""
    found: list[Node] = []
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Node):
            found.append(item)
        elif isinstance(item, ListValue):
            todo.extend(reversed(item.items))
    return found
