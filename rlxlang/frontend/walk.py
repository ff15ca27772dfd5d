"""Walks over syntax trees of any depth, comparison and printing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from rlxlang.frontend.ast import Group, Node

_HIDDEN = ("span", "op_span", "source", "comments")
_field_names_of: dict[type[Node], tuple[str, ...]] = {}


def _field_names(cls: type[Node]) -> tuple[str, ...]:
    names = _field_names_of.get(cls)
    if names is None:
        names = tuple(field.name for field in fields(cls) if field.name not in _HIDDEN)
        _field_names_of[cls] = names
    return names


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in source order (comments are not among them)."""
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, Node):
                    yield item


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, in source order; any depth."""
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(reversed(tuple(children(current))))


def strip_groups(expr: Node) -> Node:
    """What stands inside any number of parentheses."""
    while isinstance(expr, Group):
        expr = expr.inner
    return expr


def structurally_equal(left: Node, right: Node) -> bool:
    """Whether two trees say the same: spans, comments and the spelling of literals do not count."""
    todo: list[tuple[object, object]] = [(left, right)]
    while todo:
        a, b = todo.pop()
        if type(a) is not type(b):
            return False
        if isinstance(a, Node):
            todo.extend((getattr(a, name), getattr(b, name)) for name in _field_names(type(a)) if name != "suffix")
        elif isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            todo.extend(zip(a, b, strict=True))
        elif a != b and not (a != a and b != b):  # NaN equals NaN here
            return False
    return True


def dump(node: Node) -> str:
    """The tree as one line, for tests and debugging: `Let(names=(Name(text='a'),), …)`."""
    out: list[str] = []
    todo: list[object] = [node]
    while todo:
        item = todo.pop()
        if isinstance(item, _Glue):
            out.append(item.text)
        elif isinstance(item, Node):
            out.append(type(item).__name__ + "(")
            parts: list[object] = []
            for name in _field_names(type(item)):
                parts += [_Glue((", " if parts else "") + name + "="), getattr(item, name)]
            todo.extend(reversed([*parts, _Glue(")")]))
        elif isinstance(item, tuple):
            inner: list[object] = []
            for element in item:
                inner += [element, _Glue(", ")]
            todo.extend(reversed([_Glue("("), *inner[:-1], _Glue(")")]))
        else:
            out.append(repr(item))
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Glue:
    """Punctuation between the parts of a dump."""

    text: str
