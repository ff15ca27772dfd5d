"""The Pygments lexer: token kinds, and that every text comes back whole."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pygments.token import Error, Token

from rlxlang.diagnostics import Source
from rlxlang.frontend.highlight import RlxLexer
from rlxlang.frontend.parse import parse_module
from rlxlang.resources import grammar_text
from rlxlang.tools.lsp import words

_ROOT = Path(__file__).resolve().parents[2]


def kinds(text: str) -> list[tuple[str, str]]:
    return [
        (str(kind).removeprefix("Token."), part)
        for kind, part in RlxLexer().get_tokens(text)
        if part.strip() and kind in Token
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("let y = x;", [("Keyword.Declaration", "let"), ("Name", "y"), ("Operator", "="), ("Name", "x"), ("Punctuation", ";")]),
        ("remat fn f(x)", [("Keyword.Declaration", "remat"), ("Keyword.Declaration", "fn"), ("Name.Function", "f")]),
        ("use nn::dense;", [("Keyword.Namespace", "use"), ("Name.Namespace", "nn"), ("Operator", "::"), ("Name", "dense")]),
        ("F16 ?batch ? pi", [("Keyword.Type", "F16"), ("Name.Variable", "?batch"), ("Name.Variable", "?"), ("Keyword.Constant", "pi")]),
        ("1_000 0xff 1e-6 .5 2u32", [("Literal.Number.Integer", "1_000"), ("Literal.Number.Hex", "0xff"), ("Literal.Number.Float", "1e-6"),
         ("Literal.Number.Float", ".5"), ("Literal.Number.Integer", "2u32")]),
        ("0..4", [("Literal.Number.Integer", "0"), ("Operator", ".."), ("Literal.Number.Integer", "4")]),
        ("a div b", [("Name", "a"), ("Operator.Word", "div"), ("Name", "b")]),
        ("/* a /* b */ c */ x", [("Comment.Multiline", "/*"), ("Comment.Multiline", " a "), ("Comment.Multiline", "/*")]),
        ("/// doc", [("Literal.String.Doc", "/// doc")]),
        ("// note", [("Comment.Single", "// note")]),
        ('"h.{i}"', [("Literal.String", '"'), ("Literal.String", "h."), ("Literal.String.Interpol", "{i}"), ("Literal.String", '"')]),
        ("x.max(1)", [("Name", "x"), ("Punctuation", "."), ("Name.Function", "max")]),
        ("repeat i in 0..3 {", [("Keyword", "repeat"), ("Name", "i"), ("Keyword", "in"), ("Literal.Number.Integer", "0")]),
        ("x[.. by 2]", [("Name", "x"), ("Punctuation", "["), ("Operator", ".."), ("Keyword", "by"), ("Literal.Number.Integer", "2")]),
        ("x[new, 0]", [("Name", "x"), ("Punctuation", "["), ("Keyword", "new")]),
    ],
)  # fmt: skip
def test_kinds(text: str, want: list[tuple[str, str]]) -> None:
    assert kinds(text)[: len(want)] == want


# Every keyword of the grammar in a text where it is one.
KEYWORDS = {
    "as": "let h = nn::dense(x, 4) as fc;", "bind": "bind t;", "block": "block f(x) { let y = x; }", "by": "let y = x[0..4 by 2];",
    "config": "config n = 4;", "const": "const c = 1.0;", "div": "let y = n div 2;", "else": "if a { let b = 1; } else { let b = 2; }",
    "emit": "scan s = x for 3 { let s = s; emit s as ss; }", "fn": "fn f(x) { return (x); }", "for": "scan s = x for 3 { let s = s; }",
    "graph": 'graph "g";', "if": "if (a > b) { let c = 1; }", "in": "repeat i in 0..3 { let h = h; }", "input": "input x: [2];",
    "jvp": "jvp f(x; d) { let dy = d; }", "let": "let y = x;", "loop": "loop i = 0 while i < 3 { let i = i + 1; }",
    "max": "loop i = 0 while i < 3 max 9 { let i = i + 1; }", "new": "let y = x[new, ..];", "out": "out y;", "output": "output y;",
    "over": "scan s = x over t in xs { let s = t; }", "param": "param w: [2];", "remat": "remat fn f(x) { let y = x; }",
    "repeat": "repeat (n) { let h = h; }", "return": "fn f(x) { return (x); }", "reverse": "scan s = x over t in xs reverse { let s = t; }",
    "scan": "scan s = x for 3 { let s = s; }", "tap": "tap y;", "use": "use nn;", "vec": "let y = vec![1, 2];",
    "vjp": "vjp f(x, g) { let dx = g; }", "while": "loop i = 0 while i < 3 { let i = i + 1; }",
}  # fmt: skip


@pytest.mark.parametrize(("word", "text"), KEYWORDS.items())
def test_keywords(word: str, text: str) -> None:
    assert parse_module(Source("", text)).diagnostics == ()
    found = [kind for kind, part in kinds(text) if part == word]
    assert len(found) == 1
    assert found[0].startswith(("Keyword", "Operator.Word"))


def test_every_keyword_of_the_grammar_is_known_to_all_tools() -> None:
    grammar = set(re.findall(r"^_?[A-Z]+\.\d: /(\w+)(?:\\b|!)", grammar_text(), re.MULTILINE))
    assert grammar == set(KEYWORDS)
    # The editor proposes no forms that exist for older texts alone, and `new` as a part of an index.
    assert grammar == {*words.STATEMENTS, *words.JOINING, "new", "output", "vec"}


@pytest.mark.parametrize(
    "text", ["let y = repeat(x);", "let y = x.max(1);", "let max = 3;", "let y = f(by: 2);", "let y = over;"]
)
def test_names_that_are_no_keywords_there(text: str) -> None:
    assert not [part for kind, part in kinds(text) if kind.startswith("Keyword") and part != "let"]


@pytest.mark.parametrize("file", sorted((_ROOT / "examples").rglob("*.rlx")), ids=lambda p: p.name)
def test_examples_have_no_unknown_token(file: Path) -> None:
    text = file.read_text("utf-8")
    found = list(RlxLexer(ensurenl=False, stripnl=False).get_tokens(text))
    assert "".join(part for _, part in found) == text
    assert not [part for kind, part in found if kind is Error]


@pytest.mark.parametrize("text", ['"open', "/* open", "\\ é \0", "1.foo 1..", "}{][", '"{x} {{ } \\q"'])
def test_broken_texts_come_back_whole(text: str) -> None:
    assert "".join(part for _, part in RlxLexer(ensurenl=False, stripnl=False).get_tokens(text)) == text


def test_the_entry_point() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pygments.lexers"] == {"rlx": "rlxlang.frontend.highlight:RlxLexer"}
