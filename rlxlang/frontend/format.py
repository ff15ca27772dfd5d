"""The formatter: one canonical layout for every text, which means what the text meant."""

from __future__ import annotations

from rlxlang.diagnostics import InternalError, RlxSyntaxError, Source
from rlxlang.frontend import ast
from rlxlang.frontend.format_comments import comment_text
from rlxlang.frontend.format_render import render
from rlxlang.frontend.format_tree import pieces
from rlxlang.frontend.parse import parse_module
from rlxlang.frontend.trivia import scan
from rlxlang.frontend.walk import structurally_equal, walk


def format_text(source: str, name: str = "<text>") -> str:
    """A text in its canonical layout.

    One statement a line, an indentation of two blanks, lines of at most 100 columns where they can be broken, a
    trailing comma in broken lists, at most one blank line between statements. Comments stay where they are. Forms
    with no effect are dropped: numeric suffixes, `&` before an argument, `vec!`, stray `;`; `output` becomes `out`.
    Formatting twice changes nothing more.

    Args:
        source: the text.
        name: what to call it in messages.

    Raises:
        RlxSyntaxError: when the text is not a program; with all syntax errors.
        InternalError: when the result would not be the same program (a fault of the formatter).
    """
    module = _parse(source, name)
    references = [node for node in walk(module) if isinstance(node, ast.ByValue) and node.op == "&"]
    if references:
        # `&e` means `e`.
        letters = list(source)
        for reference in references:
            letters[reference.span.start] = " "
        module = _parse("".join(letters), name)
    text = render(pieces(module, scan(module.source).blanked))
    result = parse_module(Source(name, text))
    if result.errors or result.module is None or not structurally_equal(module, result.module):
        raise InternalError("formatting would change the program", stage="format")
    if _comments(module) != _comments(result.module):
        raise InternalError("formatting would change the comments", stage="format")
    return text


def _parse(text: str, name: str) -> ast.Module:
    result = parse_module(Source(name, text))
    if result.errors or result.module is None:
        raise RlxSyntaxError(result.errors)
    return result.module


def _comments(module: ast.Module) -> list[str]:
    # Lines inside a block comment may be indented anew.
    return ["\n".join(line.strip() for line in comment_text(c).split("\n")) for c in module.comments]
