"""Steps: what forms expand into, and the driver that runs them without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.format_comments import Writer
from rlxlang.frontend.format_pieces import Kind


@dataclass(frozen=True, slots=True)
class Leaf:
    """Read what `span` covers, write `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Dotted:
    """Read and write `.name`."""

    name: ast.Name


@dataclass(frozen=True, slots=True)
class Drop:
    """Pass over a token if it is there."""

    text: str


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a bracket; see `Writer.close`."""

    closer: str
    comma: bool = False
    soft: bool = False
    indented: bool = False


Action: TypeAlias = Callable[[Writer], None]
Step: TypeAlias = "str | Kind | Leaf | Dotted | Drop | Close | ast.Node | Action"
Steps: TypeAlias = "list[Step]"


def run(first: ast.Node, writer: Writer, expand: Callable[[ast.Node], Steps]) -> None:
    """Write a node; `expand` gives the steps of a node."""
    todo: list[Step] = [first]
    while todo:
        step = todo.pop()
        match step:
            case str():
                writer.token(step)
            case Kind():
                writer.layout(step)
            case Leaf(span, text):
                writer.leaf(span, text)
            case Dotted(name):
                writer.dotted(name)
            case Drop(text):
                writer.drop(text)
            case Close(closer, comma, soft, indented):
                writer.close(closer, comma=comma, soft=soft, indented=indented)
            case ast.Node():
                todo.extend(reversed(expand(step)))
            case _:
                step(writer)


def separated(items: Iterable[Sequence[Step]], line: Kind) -> Steps:
    """Items with commas between them, and a possible break after each comma."""
    steps: Steps = []
    for item in items:
        if steps:
            steps += [",", line]
        steps += item
    return steps


def bracket(opener: str, inner: Steps, closer: str, *, comma: bool = True) -> Steps:
    """A group in brackets: on one line, or what it holds on lines of its own between them."""
    if not inner:
        return [Kind.OPEN, opener, Close(closer), Kind.CLOSE]
    end = Close(closer, comma=comma, soft=True, indented=True)
    return [Kind.OPEN, opener, Kind.INDENT, Kind.SOFT, *inner, end, Kind.CLOSE]
