"""Programs that must parse, programs that must not, and the shape of expressions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rlxlang.diagnostics import Source
from rlxlang.frontend import ast, table
from rlxlang.frontend.parse import parse_expression, parse_module
from rlxlang.resources import grammar_text

_spec = importlib.util.spec_from_file_location("grammar_cases", Path(__file__).parent / "grammar_cases.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def parse(text):
    return parse_module(Source("test.rlx", text))


def ids(texts):
    return [f"{k}:{t if isinstance(t, str) else t[0]}"[:60].replace("\n", " ") for k, t in enumerate(texts)]


@pytest.mark.parametrize("text", cases.GOOD, ids=ids(cases.GOOD))
def test_good(text):
    result = parse(text)
    assert result.errors == ()
    assert isinstance(result.module, ast.Module)


@pytest.mark.parametrize(("text", "message"), cases.BAD, ids=ids(cases.BAD))
def test_bad(text, message):
    errors = parse(text).errors
    assert any(message in error.message for error in errors), errors
    assert all(error.span is not None and error.span.end <= len(text) for error in errors)
    assert all(str(error) for error in errors)


def show(node):
    """The expression as an S-expression."""
    match node:
        case None:
            return "_"
        case ast.Binary(op=op, left=left, right=right):
            return f"({op} {show(left)} {show(right)})"
        case ast.Unary(op=op, operand=operand):
            return f"({op} {show(operand)})"
        case ast.Group(inner=inner):
            return show(inner)
        case ast.Method(receiver=receiver, name=name, args=args):
            return " ".join(["(method", show(receiver), name.text, *map(show, args)]) + ")"
        case ast.Call(func=func, args=args):
            return " ".join(["(call", func.text, *map(show, args)]) + ")"
        case ast.Arg(value=value):
            return show(value)
        case ast.ByValue(op=op, value=value):
            return f"(by_value {op} {show(value)})"
        case ast.Index(value=value, items=items):
            return " ".join(["(index", show(value), *map(show, items)]) + ")"
        case ast.Field(value=value, name=name):
            return f"(field {show(value)} {name.text})"
        case ast.Range(start=start, stop=stop, step=step, inclusive=inclusive):
            dots = "..=" if inclusive else ".."
            return f"(range {show(start)} {dots} {show(stop)} {show(step)})"
        case ast.Named(call=call, name=name):
            return f"(named {show(call)} {name.parts[0]})"
    return node.span.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-x ** 2", "(- (** x 2))"),
        ("2 ** -x", "(** 2 (- x))"),
        ("2 ** -x ** 3", "(** 2 (- (** x 3)))"),
        ("2 ** 3 ** 2", "(** 2 (** 3 2))"),
        ("x @ w * s", "(* (@ x w) s)"),
        ("a - b - c", "(- (- a b) c)"),
        ("-x.relu()", "(- (method x relu))"),
        ("-1 .abs()", "(- (method 1 abs))"),
        ("a < b & c < d", "(& (< a b) (< c d))"),
        ("a | b ^ c & d", "(| a (^ b (& c d)))"),
        ("!a == b", "(== (! a) b)"),
        ("a + b < c * d", "(< (+ a b) (* c d))"),
        ("x ** 2 @ y", "(@ (** x 2) y)"),
        ("a div b * c", "(* (div a b) c)"),
        ("x[0..10 by 2]", "(index x (range 0 .. 10 2))"),
        ("x[..]", "(index x (range _ .. _ _))"),
        ("x[...]", "(index x ...)"),
        ("x[.., -1]", "(index x (range _ .. _ _) (- 1))"),
        ("x[1.5..2.]", "(index x (range 1.5 .. 2. _))"),
        ("x[new, ..]", "(index x new (range _ .. _ _))"),
        ("x[.. by 2]", "(index x (range _ .. _ 2))"),
        ("layers[i].cb[s]", "(index (field (index layers i) cb) s)"),
        ("dense(x, 4) as fc", "(named (call dense x 4) fc)"),
        ("MaskKind::SlidingWindow(64)", "(call MaskKind::SlidingWindow 64)"),
        ("f(~a * 2, &b)", "(call f (by_value ~ (* a 2)) (by_value & b))"),
        ("1.0 - x", "(- 1.0 x)"),
        ("x-1", "(- x 1)"),
        ("x -1", "(- x 1)"),
    ],
)
def test_shape(text, expected):
    assert show(parse(f"let a = {text};").module.statements[0].value) == expected


def test_the_grammar_has_no_conflict():
    table.build(grammar_text(), strict=True)


def test_a_keyword_competes_with_a_name_at_two_places_only():
    parser = table.build(grammar_text())
    states = parser.parser.parser._parse_table.states
    words = {t.name for t in parser.terminals if t.pattern.type == "re" and "\\b" in t.pattern.value}
    rivals = {w for actions in states.values() if "NAME" in actions for w in words if w in actions}
    assert rivals == {"NEW", "_BY"}


@pytest.mark.parametrize("text", ["gelu(linear(h, w, b))", "out", "input * max(x)", "f(x) as h"])
def test_expression(text):
    result = parse_expression(Source("e", text))
    assert result.errors == ()
    assert result.expression.span.text == text


@pytest.mark.parametrize("text", ["let a = 1;", "x y", "", "x +"])
def test_not_an_expression(text):
    assert parse_expression(Source("e", text)).errors
