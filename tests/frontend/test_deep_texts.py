"""Deep nesting and endless lines: every part of the front end works, or says in a typed error what is too much."""

from __future__ import annotations

import pytest

from rlxlang.frontend import context
from tests.frontend.fuzzing import failure

DEPTH = 500
SECONDS = 120  # a hang is meant, not a slow machine


def nested(before: str, inner: str, after: str, depth: int = DEPTH) -> str:
    return before * depth + inner + after * depth


def _chain(kind: str) -> str:
    """Fns or blocks each of which calls the one before."""
    bodies = ("v", *(f"f{k}(v)" for k in range(DEPTH - 1)))
    return (
        "".join(f"{kind} f{k}(v) {{ return {body}; }} " for k, body in enumerate(bodies)) + f"out z = f{DEPTH - 1}(x);"
    )


_X = "input x: [2, 2]; let y = x; "
_DEEP = {
    "parentheses": _X + f"let z = {nested('(', 'x', ')')}; out z;",
    "lists": f"const z = {nested('[', '1', ']')}; out y = 1;",
    "shapes": f"input x: [{nested('(', '3', ')')}]; out x;",
    "signs": _X + f"let z = {'-' * DEPTH}x; out z;",
    "negations": _X + f"let z = {'!' * DEPTH}(x > 0); out z;",
    "powers": _X + f"let z = {'x ** ' * DEPTH}1; out z;",
    "operators": _X + f"let z = {'x + (' * DEPTH}x{')' * DEPTH}; out z;",
    "calls": _X + f"let z = {nested('relu(', 'x', ')')}; out z;",
    "named arguments": _X + f"let z = {nested('relu(x: ', 'x', ')')}; out z;",
    "methods": _X + f"let z = x{'.relu()' * DEPTH}; out z;",
    "fields": _X + f"let z = x{'.relu' * DEPTH}; out z;",
    "indices": _X + f"let z = x{'[0..2]' * DEPTH}; out z;",
    "indices in indices": _X + f"let z = {nested('x[', '0', ', 0]')}; out z;",
    "repeats": _X + nested("repeat 1 { ", "let y = y + 1;", " }") + " out y;",
    "static ifs": _X + nested("if true { ", "let y = y + 1;", " }") + " out y;",
    "ifs": _X + nested("if sum(y) > 0 { ", "let y = y + 1;", " }") + " out y;",
    "else ifs": _X + "if false { let y = x; } " + "else if false { let y = x; } " * DEPTH + "else { let y = x * 2; } out y;",
    "tensor else ifs": _X + "if sum(x) > 9 { let y = x; } " + "else if sum(x) > 1 { let y = x; } " * DEPTH + "out y;",
    "scans": _X + nested("scan y = y for 1 { ", "let y = y + 1;", " }") + " out y;",
    "loops": _X + nested("loop y = y while sum(y) < 3 max 2 { ", "let y = y + 1;", " }") + " out y;",
    "fns in fns": _X + nested("fn f() { ", "let y = x;", " }") + " out y;",
    "fns": _X + _chain("fn"),
    "blocks": _X + _chain("block"),
    "comments": "/*" * DEPTH + " deep " + "*/" * DEPTH + " input x: [2]; out x;",
    "open comments": "/*" * DEPTH + " input x: [2]; out x;",
    "open parentheses": _X + f"let z = {'(' * DEPTH}x;",
    "open lists": _X + f"let z = {'[' * DEPTH}x;",
    "open braces": _X + "repeat 1 { " * DEPTH,
    "open calls": _X + f"let z = {'relu(' * DEPTH}x;",
    "closed braces": _X + "}" * DEPTH,
    "closed parentheses": _X + "let z = x" + ")" * DEPTH + ";",
    "places in a string": f'param w[2] @ "{"{i}" * DEPTH}": [2]; out w[0];',
    "braces in a string": f'param w @ "{"{" * DEPTH}": [2]; out w;',
}  # fmt: skip
_LONG = 200_000  # characters of a line; longer ones take longer, and nothing else changes
_WIDE = {
    "sum": f"input x: []; let z = {'x + ' * 1000}x; out z;",
    "list": f"const c = [{'1, ' * 2000}1]; out c;",
    "string": f'graph "{"ab" * _LONG}"; out y = 1;',
    "name": f"let {'a' * _LONG} = 1; out y = 1;",
    "number": f"let z = {'9' * _LONG}; out y = 1;",
    "fraction": f"let z = 0.{'9' * _LONG}; out y = 1;",
    "comment": f"/* {'ab' * _LONG} */ out y = 1;",
    "line comment": f"out y = 1; // {'ab' * _LONG}",
    "unclosed string": f'let z = "{"ab" * _LONG}; out y = 1;',
    "unclosed comment": f"out y = 1; /* {'ab ' * _LONG}",
    "statements": "let z = 1; " * 500 + "out z;",
    "broken statements": "let = 1; " * 500 + "out z;",
    "blanks": " " * _LONG + "out y = 1;",
    "empty lines": "\n" * 20_000 + "out y = 1;",
    "semicolons": ";" * 2000 + "out y = 1;",
    "odd characters": "é" * _LONG,
    "bidi": "\u202e" * 20_000,
    "comment lines": "// a\n" * 1000 + "out y = 1;",
}


@pytest.mark.parametrize("part", ["elaborate", "format", "highlight", "analyse"])
def test_depth(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MOST_STATEMENTS", 5000)
    for name, text in _DEEP.items():
        assert failure(text, part, SECONDS) == "", name


@pytest.mark.parametrize("part", ["elaborate", "format", "highlight", "analyse"])
def test_endless_lines(part: str) -> None:
    for name, text in _WIDE.items():
        assert failure(text, part, SECONDS) == "", name
