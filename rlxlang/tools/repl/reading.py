"""What has been typed: whether it is complete, and whether it is an expression, statements, or both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lark.exceptions import UnexpectedInput

from rlxlang.diagnostics import Diagnostic, Source
from rlxlang.frontend import ast
from rlxlang.frontend.messages import STATEMENT_WORDS
from rlxlang.frontend.parse import parse_expression, parse_module
from rlxlang.frontend.table import parser
from rlxlang.frontend.trivia import scan

_OPENING, _CLOSING = "([{", ")]}"
# What begins like a statement of another language; the parser of statements knows what was meant.
_FOREIGN = re.compile(r"\s*[A-Za-z_]\w*\s*(?:=(?!=)|(?:\*\*|[-+*/@%])=|(?!(?:and|or|if|as|div|in|is)\b)[A-Za-z_])")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text that was typed.

    Attributes:
        statements: Its statements.
        expression: Its expression, which stands alone or after the statements.
        diagnostics: What is wrong with it, and warnings.
    """

    statements: tuple[ast.Statement, ...] = ()
    expression: ast.Expr | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def has_errors(self) -> bool:
        """Whether nothing of it can be used."""
        return any(d.is_error for d in self.diagnostics)


def is_complete(text: str) -> bool:
    """Whether a text can be read as it is, or is so wrong that more lines would not help."""
    trivia = scan(Source("", text))
    if any(d.code == "E0105" for d in trivia.diagnostics):
        return False
    blanked = trivia.blanked
    if not blanked.strip():
        return True
    stops = [_stop(blanked, "expression"), _stop(blanked + ";", "program")]
    cut = last_cut(blanked)
    if cut and blanked[cut:].strip():
        stops.append(_stop(blanked[cut:], "expression"))
        stops[-1] += 0 if stops[-1] < 0 else cut
    if any(stop < 0 for stop in stops):
        return True
    end = len(blanked.rstrip())
    return all(stop < end for stop in stops)


def read(source: Source) -> Reading:
    """Read a text: as an expression first, then as statements, then as statements with an expression behind them.

    A missing last `;` is supplied, and one behind an expression is no harm.
    """
    blanked = scan(source).blanked
    if not blanked.strip():
        return Reading(diagnostics=scan(source).diagnostics)
    bare = blanked.rstrip().rstrip(";").rstrip()
    as_expression, as_program = _stop(bare, "expression"), _stop(blanked + ";", "program")
    if bare and as_expression < 0:
        return _expression(_without_semicolon(source, len(bare)))
    if as_program < 0:
        return _statements(source)
    cut = last_cut(bare)
    if cut and _stop(blanked[:cut], "program") < 0 and (after := _stop(bare[cut:], "expression")) != 0:
        first = _statements(Source(source.name, source.text[:cut]))
        gap = "".join("\n" if char == "\n" else " " for char in source.text[:cut])
        last = _expression(Source(source.name, gap + source.text[cut : len(bare)]))
        if after < 0 or after + cut >= as_program:
            return Reading(first.statements, last.expression, (*first.diagnostics, *last.diagnostics))
    word = bare.split(maxsplit=1)[0] if bare.split() else ""
    begins = word in STATEMENT_WORDS.values() and as_program >= as_expression
    if begins or as_program > as_expression or _FOREIGN.match(bare):
        return _statements(source)
    return _expression(_without_semicolon(source, len(bare)) if bare else source)


def _without_semicolon(source: Source, end: int) -> Source:
    """The text with every `;` from `end` on blanked; offsets stay."""
    return Source(source.name, source.text[:end] + source.text[end:].replace(";", " "))


def _expression(source: Source) -> Reading:
    result = parse_expression(source)
    return Reading((), result.expression, result.diagnostics)


def _statements(source: Source) -> Reading:
    """The statements of a text; the last `;` is supplied where that makes it complete."""
    blanked = scan(source).blanked
    end = len(blanked.rstrip())
    closed = Source(source.name, f"{source.text[:end]};{source.text[end:]}")
    stop = _stop(f"{blanked[:end]};", "program")
    result = parse_module(closed if stop < end else source)
    return Reading(result.module.statements if result.module else (), None, result.diagnostics)


def _stop(text: str, start: str) -> int:
    """Where a text without comments ceases to be what the grammar calls `start`; negative when it is one."""
    try:
        parser().parse(text, start=start)
    except UnexpectedInput as problem:
        token: Any = getattr(problem, "token", None)
        if token is not None and token.type == "$END":
            return len(text)
        return int(getattr(problem, "pos_in_stream", None) or getattr(token, "start_pos", 0) or 0)
    return -1


def last_cut(blanked: str) -> int:
    """The offset behind the last `;` outside of all brackets, 0 when there is none; comments must be blanked."""
    depth, cut, in_string, place = 0, 0, False, 0
    while place < len(blanked):
        char = blanked[place]
        if in_string:
            if char == "\\":
                place += 1
            in_string = char not in '"\n'
        elif char == '"':
            in_string = True
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif char == ";" and depth == 0:
            cut = place + 1
        place += 1
    return cut
