"""The Pygments lexer: token kinds, and that every text comes back whole."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pygments.token import Error, Token

from rlxlang.frontend.highlight import RlxLexer

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
