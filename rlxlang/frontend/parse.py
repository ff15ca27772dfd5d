"""Text to syntax tree, with every error of the text at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lark import Tree
from lark.exceptions import UnexpectedInput

from rlxlang.diagnostics import Collector, Diagnostic, Source, Span
from rlxlang.frontend import ast, checks
from rlxlang.frontend.build_ast import Builder
from rlxlang.frontend.lost import Lost, loses_part, lost
from rlxlang.frontend.recovery import Recovery
from rlxlang.frontend.table import parser
from rlxlang.frontend.trivia import scan, suspicious_comments

# Errors of the tree builder after which the statement is still in the tree.
_WHOLE = frozenset(("E0107", "E0108", "E0114", "E0126"))


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A module and what is wrong with it.

    Args:
        module: the statements that could be read; None when recovery gave up. What `ast` guarantees holds when
            there is no error.
        diagnostics: errors and warnings, by position.
        lost: what was skipped after syntax errors, by position.
        is_vague: whether statements may be missing in the tree that are not among `lost`.
    """

    module: ast.Module | None
    diagnostics: tuple[Diagnostic, ...]
    lost: tuple[Lost, ...] = ()
    is_vague: bool = False

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors among the diagnostics."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.is_error)


@dataclass(frozen=True, slots=True)
class ExpressionResult:
    """An expression (None when it could not be read) and what is wrong with it."""

    expression: ast.Expr | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors among the diagnostics."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.is_error)


def parse_module(source: Source) -> ParseResult:
    """Parse a whole text; syntax errors are diagnostics, never exceptions."""
    return ParseResult(*_parse(source, "program"))


def parse_expression(source: Source) -> ExpressionResult:
    """Parse a text that is one expression, `as` included; errors are diagnostics, never exceptions."""
    expression, diagnostics, _, _ = _parse(source, "expression")
    return ExpressionResult(expression, diagnostics)


def _parse(source: Source, start: str) -> tuple[Any, tuple[Diagnostic, ...], tuple[Lost, ...], bool]:
    trivia = scan(source)
    recovery = Recovery(parser(), source, trivia)
    try:
        tree = parser().parse(trivia.blanked, start=start, on_error=recovery)
    except UnexpectedInput:
        tree = None
    collector = Collector()
    collector.extend(trivia.diagnostics)
    collector.extend(recovery.diagnostics)
    if not recovery.told_floor_division:
        collector.extend(suspicious_comments(source, trivia.comments))
    if not isinstance(tree, Tree):
        return None, collector.diagnostics(), (), True
    builder = Builder(source, trivia)
    built = builder.build(tree)
    collector.extend(builder.diagnostics)
    skipped = tuple(lost(span, trivia.blanked) for span in sorted(recovery.skipped, key=lambda span: span.start))
    unclosed = [d.span for d in recovery.diagnostics if d.code == "E0104" and d.span is not None]
    collector.extend(d for d in checks.check(built) if not _follows(d, skipped, unclosed))
    vague = bool(unclosed) or any(
        d.is_error and d.code not in _WHOLE for d in (*trivia.diagnostics, *builder.diagnostics)
    )
    return built, collector.diagnostics(), skipped, vague


def _follows(found: Diagnostic, skipped: Sequence[Lost], unclosed: Sequence[Span]) -> bool:
    """Whether a structural error only says again that something is missing."""
    if found.span is None:
        return False
    if found.code in ("E0116", "E0118", "E0119") and any(brace.start <= found.span.start for brace in unclosed):
        return True
    return found.code == "E0119" and loses_part(found.span, skipped)
