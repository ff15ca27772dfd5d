"""The canonical form of expressions."""

from __future__ import annotations

import re
from typing import Literal, cast

from rlxlang.frontend import ast
from rlxlang.frontend.format_pieces import Kind
from rlxlang.frontend.format_steps import Close, Dotted, Drop, Leaf, Step, Steps, bracket, separated

# Operators of one band form a chain, which is broken at all of its operators or at none.
_BANDS = (
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("@", "*", "/", "%", "div"),
)
_BAND = {op: band for band, ops in enumerate(_BANDS) for op in ops}
# A chain with so many method calls is broken before its dots, a shorter one inside its arguments.
_CHAINED_CALLS = 3

_SUFFIX = re.compile(r"_?(?:[iu](?:8|16|32|64|size)|bf16|f16|f32|f64)$")
_POINT_LAST = re.compile(r"\.(?![0-9])")


def expression(node: ast.Node) -> Steps:
    """The steps of an expression or of a part of one.

    Raises:
        TypeError: for anything else.
    """
    match node:
        case ast.Name():
            return [Leaf(node.span, node.text)]
        case ast.Int():
            return [Leaf(node.span, int_text(node.span.text))]
        case ast.Float():
            return [Leaf(node.span, float_text(node.span.text))]
        case ast.Bool() | ast.Str() | ast.Template() | ast.Ellipsis() | ast.NewAxis():
            return [Leaf(node.span, node.span.text)]
        case ast.Dyn():
            return [Leaf(node.span, "?" + node.label)]
        case ast.Ref():
            return [Leaf(node.span, node.text)]
        case ast.Arg():
            return [node.value] if node.name is None else [node.name, ":", Kind.SPACE, node.value]
        case ast.Call():
            return [node.func, *arguments(node.args)]
        case ast.Method() | ast.Field() | ast.Index():
            return _postfix(node)
        case ast.Unary():
            return [node.op, node.operand]
        case ast.Binary():
            return _binary(node)
        case ast.Group():
            return _group(node)
        case ast.Named():
            return [node.call, Kind.SPACE, "as", Kind.SPACE, node.name]
        case ast.ListExpr():
            return [Drop("vec!"), *_list(node)]
        case ast.ByValue():
            return [node.op, node.value]
        case ast.Range():
            return _range(node)
        case ast.Shape():
            return _shape(node)
    raise TypeError(f"no expression: {type(node).__name__}")


# ------------------------------------------------------------------------------------------------ numbers


def int_text(text: str) -> str:
    """An integer literal without its suffix, `0x` and `0b` in lower case."""
    prefix = text[:2].lower()
    if prefix not in ("0x", "0b"):
        return _SUFFIX.sub("", text)
    # `b` and `f` are digits too: only a suffix of integers can follow these.
    return prefix + re.sub(r"_?[iu](?:8|16|32|64|size)$", "", text[2:])


def float_text(text: str) -> str:
    """A float literal without its suffix, with a digit on both sides of the point."""
    if text in ("inf", "nan"):
        return text
    bare = _SUFFIX.sub("", text).lower()
    if bare.startswith("."):
        bare = "0" + bare
    bare = _POINT_LAST.sub(".0", bare)
    # `1f32` is a float only by its suffix.
    return bare if "." in bare or "e" in bare else bare + ".0"


# ------------------------------------------------------------------------------------------------ brackets


def arguments(args: tuple[ast.Arg, ...]) -> Steps:
    """Arguments in parentheses; a call or list that is the only one shares them."""
    if len(args) == 1 and isinstance(args[0].value, ast.Call | ast.ListExpr):
        return ["(", args[0], Close(")")]
    return bracket("(", separated(([arg] for arg in args), Kind.LINE), ")")


def _list(node: ast.ListExpr) -> Steps:
    line = Kind.FILL if all(_is_scalar(item) for item in node.items) else Kind.LINE
    return bracket("[", separated(([item] for item in node.items), line), "]")


def _is_scalar(node: ast.Node) -> bool:
    if isinstance(node, ast.Unary):
        node = node.operand
    return isinstance(node, ast.Int | ast.Float | ast.Bool | ast.Dyn)


def _shape(node: ast.Shape) -> Steps:
    dims = separated(([dim] for dim in node.dims), Kind.LINE)
    if node.dtype is None:
        return bracket("[", dims, "]")
    between: Steps = [Kind.LINE] if dims else []
    return bracket("[", [node.dtype, ";", *between, *dims], "]", comma=bool(dims))


def _group(node: ast.Group) -> Steps:
    if isinstance(node.inner, ast.Binary):
        return bracket("(", _binary(node.inner, "grouped"), ")", comma=False)
    return ["(", node.inner, Close(")")]


def _range(node: ast.Range) -> Steps:
    steps: Steps = [] if node.start is None else [cast("ast.Node", node.start)]
    steps.append("..=" if node.inclusive else "..")
    if node.stop is not None:
        steps.append(cast("ast.Node", node.stop))
    if node.step is not None:
        steps += [Kind.SPACE, "by", Kind.SPACE, cast("ast.Node", node.step)]
    return steps


# ------------------------------------------------------------------------------------------------ chains


def assigned(value: ast.Node) -> Steps:
    """What follows `=`: a chain of operators goes to the next line when its first operand does not fit beside the name."""
    chain = isinstance(value, ast.Binary) and value.op in _BAND
    return ["=", *_binary(cast("ast.Binary", value), "assigned")] if chain else ["=", Kind.SPACE, value]


def _binary(node: ast.Binary, place: Literal["alone", "grouped", "assigned"] = "alone") -> Steps:
    band = _BAND.get(node.op)
    if band is None:  # `**`
        return [node.left, Kind.SPACE, node.op, Kind.SPACE, node.right]
    links: list[ast.Binary] = []
    left: ast.Node = node
    while isinstance(left, ast.Binary) and _BAND.get(left.op) == band:
        links.append(left)
        left = left.left
    steps: Steps = []
    for link in reversed(links):
        steps += [Kind.LINE, link.op, Kind.SPACE, link.right]
    if place == "grouped":
        return [Kind.OPEN, left, *steps, Kind.CLOSE]
    before: Steps = [Kind.INDENT, Kind.FILL, Kind.DEDENT] if place == "assigned" else []
    # Brackets of the first operand close below the beginning of the statement.
    return [Kind.OPEN, *before, left, Kind.INDENT, *steps, Kind.DEDENT, Kind.CLOSE]


def _postfix(node: ast.Node) -> Steps:
    links: list[ast.Method | ast.Field | ast.Index] = []
    while isinstance(node, ast.Method | ast.Field | ast.Index):
        links.append(node)
        node = node.receiver if isinstance(node, ast.Method) else node.value
    broken = sum(isinstance(link, ast.Method) for link in links) >= _CHAINED_CALLS
    steps: Steps = []
    for link in reversed(links):
        match link:
            case ast.Method():
                steps += [Kind.SOFT] if broken else []
                steps += [Dotted(link.name), *arguments(link.args)]
            case ast.Field():
                steps.append(Dotted(link.name))
            case ast.Index():
                items: list[list[Step]] = [[item] for item in link.items]
                steps += bracket("[", separated(items, Kind.LINE), "]")
    return [Kind.OPEN, node, Kind.INDENT, *steps, Kind.DEDENT, Kind.CLOSE] if broken else [node, *steps]
