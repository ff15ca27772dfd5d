"""Text to syntax tree, with every error of the text at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lark import Tree
from lark.exceptions import UnexpectedInput

from rlxlang.diagnostics import Collector, Diagnostic, Source
from rlxlang.frontend import ast, checks
from rlxlang.frontend.build_ast import Builder
from rlxlang.frontend.recovery import Recovery
from rlxlang.frontend.table import parser
from rlxlang.frontend.trivia import scan, suspicious_comments


@dataclass(frozen=True, slots=True)
class ParseResult:
    """A module and what is wrong with it.

    Args:
        module: the statements that could be read; None when recovery gave up. What `ast` guarantees holds when
            there is no error.
        diagnostics: errors and warnings, by position.
    """

    module: ast.Module | None
    diagnostics: tuple[Diagnostic, ...]

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
    module, diagnostics = _parse(source, "program")
    return ParseResult(module, diagnostics)


def parse_expression(source: Source) -> ExpressionResult:
    """Parse a text that is one expression, `as` included; errors are diagnostics, never exceptions."""
    expression, diagnostics = _parse(source, "expression")
    return ExpressionResult(expression, diagnostics)


def _parse(source: Source, start: str) -> tuple[Any, tuple[Diagnostic, ...]]:
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
        return None, collector.diagnostics()
    builder = Builder(source, trivia)
    built = builder.build(tree)
    collector.extend(builder.diagnostics)
    collector.extend(checks.check(built))
    return built, collector.diagnostics()
