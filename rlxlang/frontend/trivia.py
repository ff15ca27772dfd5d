"""Comments: found before lexing, kept for the formatter, joined to declarations as documentation."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from rlxlang.diagnostics import Diagnostic, Source, Span, error, warning
from rlxlang.frontend import ast
from rlxlang.frontend.walk import children

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*')
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_NOT_NEWLINE = re.compile(r"[^\n]")
_NOT_BLANK = re.compile(r"\S")
# Byte order mark, no-break and zero-width spaces count as blanks.
_ODD_SPACE = re.compile("[\ufeff\u00a0\u2007\u202f\u200b]")

# `//` is Python's floor division: a comment that reads like the rest of an expression.
_LONGEST_CODE = 200  # characters of a comment; the expression below takes the square of them
_LIKE_CODE = re.compile(r"//\s*(?:(?:[A-Za-z_]\w*|\d[\w.]*|\()[\w.()\[\]+*/, -]*[;,)\]]|\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Trivia:
    """What the scan found.

    Args:
        blanked: the text with comments and odd spaces replaced by blanks; offsets and lines stay.
        comments: all comments in order.
        docs: text of `///` comments by the offset of the first character after them.
        diagnostics: unclosed comments.
    """

    blanked: str
    comments: tuple[ast.Comment, ...]
    docs: dict[int, str]
    diagnostics: tuple[Diagnostic, ...]


def scan(source: Source) -> Trivia:
    """Find the comments of a text.

    Diagnostics:
        E0105: a block comment is never closed.
    """
    text = source.text
    out: list[str] = []
    comments: list[ast.Comment] = []
    diagnostics: list[Diagnostic] = []
    position = 0
    while match := _STRING_OR_COMMENT.search(text, position):
        start, end = match.span()
        if match[0][0] == '"':
            out.append(text[position:end])
            position = end
            continue
        if match[0] == "/*":
            closed, end = _block_end(text, end)
            if not closed:
                opening = Span(source=source, start=start, end=start + 2)
                diagnostics.append(error("E0105", "comment `/*` is never closed", opening))
        comments.append(_comment(source, start, end))
        out.append(text[position:start])
        out.append(_NOT_NEWLINE.sub(" ", text[start:end]))
        position = end
    out.append(text[position:])
    blanked = _ODD_SPACE.sub(" ", "".join(out))
    return Trivia(blanked, tuple(comments), _docs(blanked, comments), tuple(diagnostics))


def _block_end(text: str, position: int) -> tuple[bool, int]:
    depth = 1
    while depth:
        edge = _BLOCK_EDGE.search(text, position)
        if edge is None:
            return False, len(text)
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return True, position


def _comment(source: Source, start: int, end: int) -> ast.Comment:
    text = source.text[start:end].removesuffix("\r")
    end = start + len(text)
    line_start = source.text.rfind("\n", 0, start) + 1
    before = _ODD_SPACE.sub(" ", source.text[line_start:start])
    return ast.Comment(
        span=Span(source=source, start=start, end=end),
        text=text,
        own_line=not before.strip(),
        is_doc=text.startswith("///") and not text.startswith("////"),
    )


def _docs(blanked: str, comments: list[ast.Comment]) -> dict[int, str]:
    lines: dict[int, list[str]] = {}
    # From the end, so that each stretch between comments is looked at once.
    following, before = None, len(blanked)
    for comment in reversed(comments):
        found = _NOT_BLANK.search(blanked, comment.span.end, before)
        following, before = found.start() if found else following, comment.span.start
        if comment.is_doc and following is not None:
            lines.setdefault(following, []).append(comment.text[3:].removeprefix(" ").rstrip())
    return {offset: "\n".join(reversed(texts)).strip("\n") for offset, texts in lines.items()}


def reads_like_code(comment: ast.Comment) -> bool:
    """Whether a comment after code may be meant as a floor division."""
    if comment.own_line or comment.is_doc or not comment.text.startswith("//"):
        return False
    return len(comment.text) <= _LONGEST_CODE and _LIKE_CODE.match(comment.text) is not None


def suspicious_comments(source: Source, comments: tuple[ast.Comment, ...]) -> list[Diagnostic]:
    """Warnings for comments right after an operand that read like its divisor.

    Diagnostics:
        W0901: comment that reads like code.
    """
    found = []
    for comment in comments:
        if not reads_like_code(comment):
            continue
        start = comment.span.start
        before = source.text[source.text.rfind("\n", 0, start) + 1 : start].rstrip()
        if before and (before[-1].isalnum() or before[-1] in "_)]"):
            place = Span(source=source, start=start, end=start + 2)
            helps = ["for floor division write `a div b`"]
            found.append(warning("W0901", "`//` starts a comment here", place, helps=helps))
    return found


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where comments belong; every comment of a module is in exactly one list.

    Args:
        leading: comments before a node, most of them on lines of their own.
        trailing: comments after a node on its last line (or inside a node that has no better place).
        dangling: comments after the last element of a container (module, body, arguments, list …).
    """

    leading: dict[ast.Node, list[ast.Comment]] = field(default_factory=dict)
    trailing: dict[ast.Node, list[ast.Comment]] = field(default_factory=dict)
    dangling: dict[ast.Node, list[ast.Comment]] = field(default_factory=dict)


def attach(module: ast.Module) -> Attachment:
    """Give every comment its place: after an element on its line, else before the next, else last in a container."""
    where = Attachment()
    below: dict[ast.Node, tuple[list[ast.Node], list[int]]] = {}
    for comment in module.comments:
        home, elements = _home(module, comment, below)
        starts = [element.span.start for element in elements]
        at = bisect_right(starts, comment.span.start)
        before = elements[at - 1] if at else None
        after = elements[at] if at < len(elements) else None
        if before is not None and _same_place(module.source.text, before, comment):
            where.trailing.setdefault(before, []).append(comment)
        elif after is not None:
            where.leading.setdefault(after, []).append(comment)
        else:
            where.dangling.setdefault(home, []).append(comment)
    return where


def _same_place(text: str, before: ast.Node, comment: ast.Comment) -> bool:
    """Whether the comment is inside `before`, or ends its line."""
    if comment.span.start < before.span.end:
        return True
    return not comment.is_doc and "\n" not in text[before.span.end : comment.span.start]


def _home(
    module: ast.Module,
    comment: ast.Comment,
    below: dict[ast.Node, tuple[list[ast.Node], list[int]]],
) -> tuple[ast.Node, list[ast.Node]]:
    """The innermost container around a comment, and its elements."""
    home: ast.Node = module
    elements: list[ast.Node] = list(module.statements)
    node: ast.Node = module
    while True:
        inside = _elements(node, comment.span.start)
        if inside is not None:
            home, elements = node, inside
        if node not in below:
            nodes = sorted(children(node), key=lambda child: child.span.start)
            below[node] = nodes, [child.span.start for child in nodes]
        nodes, starts = below[node]
        at = bisect_right(starts, comment.span.start) - 1
        if at < 0 or nodes[at].span.end < comment.span.end:
            return home, elements
        node = nodes[at]


def _elements(node: ast.Node, position: int) -> list[ast.Node] | None:
    """The elements of a container, None where `position` is not among them or the node is no container."""
    match node:
        case ast.Module() | ast.Body():
            return list(node.statements)
        case ast.Call() if position >= node.func.span.end:
            return list(node.args)
        case ast.Method() if position >= node.name.span.end:
            return list(node.args)
        case ast.Index() if position >= node.value.span.end:
            return list(node.items)
        case ast.ListExpr():
            return list(node.items)
        case ast.Shape():
            return [part for part in (node.dtype, *node.dims) if part is not None]
        case ast.Use() if node.items is not None and position >= node.target.span.end:
            return list(node.items)
        case ast.Fn() | ast.Block() if node.name.span.end <= position < node.body.span.start:
            return list(node.formals)
        case ast.Vjp() if node.name.span.end <= position < node.body.span.start:
            return list(node.params)
        case ast.Jvp() if node.name.span.end <= position < node.body.span.start:
            return [*node.params, *node.tangents]
    return None
