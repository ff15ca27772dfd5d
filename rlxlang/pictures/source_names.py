"""What the source calls a value: the names bound by `let`, `out` and others, by the place of the expression."""

from __future__ import annotations

from collections.abc import Iterator

from rlxlang.diagnostics import Source, Span
from rlxlang.frontend import ast
from rlxlang.frontend.parse import parse_module
from rlxlang.frontend.walk import strip_groups, walk


class SourceNames:
    """Names by place; a text is parsed when the first of its places is asked for."""

    def __init__(self) -> None:
        self._found: dict[Source, dict[tuple[int, int], tuple[str, ...]]] = {}

    def at(self, span: Span | None) -> tuple[str, ...]:
        """The names that the value of the expression at a place is bound to; of a `scan` those of what it emits."""
        if span is None:
            return ()
        names = self._found.get(span.source)
        if names is None:
            names = self._found[span.source] = dict(_bound(span.source))
        return names.get((span.start, span.end), ())


def _bound(source: Source) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
    module = parse_module(source).module
    if module is None:  # a text that was put together, or is no module
        return
    for node in walk(module):
        if isinstance(node, ast.Let):
            yield _place(node.value), tuple(n.text for n in node.names)
        elif isinstance(node, (ast.OutItem, ast.Emit)) and node.value is not None:
            yield _place(node.value), (node.name.text,)
        elif isinstance(node, ast.Const):
            yield (node.span.start, node.span.end), (node.name.text,)
        elif isinstance(node, ast.Scan):
            emits = tuple(s.name.text for s in node.body.statements if isinstance(s, ast.Emit))
            yield (node.span.start, node.span.end), emits


def _place(value: ast.Node) -> tuple[int, int]:
    span = strip_groups(value).span
    return span.start, span.end
