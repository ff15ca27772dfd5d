"""One statement of a session: its names, its text, and what it replaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlxlang.diagnostics import Source
from rlxlang.frontend import ast
from rlxlang.frontend.statements import top_level_names
from rlxlang.frontend.trivia import scan

# Of values, or of functions: the language keeps them apart.
Name: TypeAlias = tuple[str, str]

_DECLARATIONS = (ast.Config, ast.Input, ast.Param, ast.Const, ast.Bind)
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A statement of a session.

    Attributes:
        statement: Its tree.
        text: Its text with the comments before it, as `:save` writes it.
        names: The names that it defines.
        words: Every word of its text.
    """

    statement: ast.Statement
    text: str
    names: frozenset[Name]
    words: frozenset[str]

    @property
    def is_declaration(self) -> bool:
        """Whether it declares a value that the whole program sees."""
        return isinstance(self.statement, _DECLARATIONS)

    @property
    def is_let(self) -> bool:
        """Whether it binds names for the statements below it."""
        return isinstance(self.statement, (ast.Let, ast.RepeatTimes, ast.RepeatRange, ast.Scan, ast.Loop, ast.If))

    @property
    def reads(self) -> frozenset[str]:
        """Words that may read what the statements above it have bound; an output of a plain name reads the last binding."""
        if isinstance(self.statement, (ast.Out, ast.Tap)):
            return frozenset().union(*(_words(i.value.span.text) for i in self.statement.items if i.value is not None))
        return self.words

    @property
    def name_nodes(self) -> list[ast.Name]:
        """Where its names stand, for statements that are seen everywhere below."""
        return _name_nodes(self.statement)

    def text_with(self, configs: Mapping[str, Any]) -> str:
        """Its text, with the value of a config that was set as its default."""
        statement = self.statement
        if not isinstance(statement, ast.Config) or statement.name.text not in configs:
            return self.text
        value = configs[statement.name.text]
        shown = (
            str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)
        )
        kind = f": {statement.type.text}" if statement.type is not None else ""
        place = self.text.rfind(statement.span.text.rstrip("; "))
        return f"{self.text[: max(place, 0)]}config {statement.name.text}{kind} = {shown};"

    def replaced_by(self, new: Entry) -> bool:
        """Whether a new statement takes the place of this one.

        A declaration replaces the declaration of its name, and a `let` that would hide it; a `let` hides what is above it.
        """
        if isinstance(self.statement, ast.Graph):
            return isinstance(new.statement, ast.Graph)
        if isinstance(new.statement, (ast.Out, ast.Tap)):
            return isinstance(self.statement, (ast.Out, ast.Tap)) and bool(self.names & new.names)
        if isinstance(self.statement, (ast.Out, ast.Tap)) or new.is_let:
            return False
        return bool(self.names & new.names)


def entries_of(statements: Sequence[ast.Statement], source: Source) -> list[Entry]:
    """The statements of a text, each with the comments in front of it."""
    found = []
    blanked = scan(source).blanked
    start = 0
    for position, statement in enumerate(statements):
        end = statement.span.end
        if position == len(statements) - 1 and not blanked[end:].strip(" \t\r\n;"):
            end = len(source.text)
        text = source.text[start:end].strip()
        code = blanked[start:end].rstrip()
        if not code.endswith((";", "}")):
            text = _with_semicolon(source.text[start:end], len(code)).strip()
        start = end
        words = _words(blanked[statement.span.start : statement.span.end])
        found.append(Entry(statement, text.lstrip("; \n"), declared_names(statement), words))
    return found


def _with_semicolon(text: str, place: int) -> str:
    return f"{text[:place]};{text[place:]}"


def declared_names(statement: ast.Statement) -> frozenset[Name]:
    """The names that a statement defines at top level."""
    match statement:
        case ast.Config() | ast.Input() | ast.Param() | ast.Const():
            return frozenset({("value", statement.name.text)})
        case ast.Bind():
            return frozenset(("value", item.name.text) for item in statement.items)
        case ast.Fn() | ast.Block():
            return frozenset({("function", statement.name.text)})
        case ast.Vjp() | ast.Jvp():
            return frozenset({(type(statement).__name__.lower(), statement.name.text)})
        case ast.Use():
            return frozenset(_used_names(statement))
        case ast.Out() | ast.Tap():
            return frozenset(("output", item.name.text) for item in statement.items)
        case ast.Graph():
            return frozenset({("graph", "")})
        case _:
            return frozenset(("value", name) for name in top_level_names([statement]))


def _used_names(statement: ast.Use) -> Iterable[Name]:
    target = statement.target
    path = target.value if isinstance(target, ast.Str) else "::".join(n.text for n in target.path)
    if statement.items is not None:
        for item in statement.items:
            yield "import", (item.alias or item.name).text
    elif statement.wildcard:
        yield "wildcard", path
    else:
        stem = path.rpartition("/")[2].removesuffix(".rlx").rpartition("::")[2]
        yield "module", statement.alias.text if statement.alias else stem


def _name_nodes(statement: Any) -> list[ast.Name]:
    match statement:
        case ast.Config() | ast.Input() | ast.Param() | ast.Const():
            return [statement.name]
        case ast.Bind():
            return [item.name for item in statement.items]
        case ast.Let():
            return list(statement.names)
        case ast.Out() | ast.Tap():
            return [item.name for item in statement.items if item.value is not None]
        case ast.Scan():
            emits = [s.name for s in statement.body.statements if isinstance(s, ast.Emit)]
            return [*(c.name for c in statement.carries), *emits]
        case ast.Loop():
            return [c.name for c in statement.carries]
        case ast.RepeatTimes() | ast.RepeatRange():
            return _inner_names(statement.body.statements)
        case ast.If():
            bodies = [*(b.body for b in statement.branches), *((statement.orelse,) if statement.orelse else ())]
            return [name for body in bodies for name in _inner_names(body.statements)]
        case _:
            return []


def _inner_names(statements: Iterable[Any]) -> list[ast.Name]:
    return [name for s in statements for name in _name_nodes(s)]


def superseded(entries: Sequence[Entry], new: Entry) -> list[Entry]:
    """`let`s that a new one hides before anything has read them: a line that is typed again is no second line."""
    if not isinstance(new.statement, ast.Let):
        return []
    value = new.statement.value
    read = _words((value.call if isinstance(value, ast.Named) else value).span.text)
    found = []
    for place, old in enumerate(entries):
        if not isinstance(old.statement, ast.Let) or not old.names <= new.names:
            continue
        made = {name for _, name in old.names} | _instance_words(old.statement.value)
        if not made & read and not any(made & e.reads for e in entries[place + 1 :]):
            found.append(old)
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def _instance_words(value: ast.Expr) -> frozenset[str]:
    """The name after `as`, through which parameters are read."""
    return _words(value.name.span.text) if isinstance(value, ast.Named) else frozenset()
