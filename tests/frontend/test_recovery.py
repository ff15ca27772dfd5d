"""Syntax errors are reported once each, and the rest of the text survives."""

from __future__ import annotations

import random
import re

import pytest

from rlxlang.diagnostics import Source
from rlxlang.frontend import ast
from rlxlang.frontend.parse import parse_module

PROGRAM = """
graph "demo";
fn block2(h, w, b) { let z = gelu(linear(h, w, b)); let r = h + z; }
input x: [?, 16];   input y: [?, 16];
param w[3] @ "enc.{i}.weight": [16, 16];
const half = 0.5 : F32;
repeat i in 0..3 { let x = block2(b: b[i], h: x, w: w[i]); }
scan s = x for 4 { let t = tanh(s @ u); let s = t * half + s; }
let (lo, hi) = split(s, 1, 2);
if p { let q = 1; } else { let q = 2; }
tap n;
out loss, hi;
"""


def parse(text):
    return parse_module(Source("test.rlx", text))


def kinds(statements):
    return [type(statement).__name__ for statement in statements]


def test_each_broken_statement_is_reported_once():
    text = """graph "g";
let a = ;
let b = f(1, 2;
let c = 3
let d = 4;
fn f(x { let q = 1; let r = 2; }
fn g(x) { let = 1; let ok = 2; }
param w: [3;
let e = 5;
foo = 3;
out e
"""
    result = parse(text)
    assert [error.span.line for error in result.errors] == [2, 3, 4, 6, 7, 8, 10, 11]
    assert kinds(result.module.statements) == ["Graph", "Let", "Let", "Fn", "Let", "Out"]


def test_parsing_resumes_after_an_open_bracket():
    result = parse(
        "input x: [d // 2, 3];\nlet a = f(1,\nlet b = 2;\nrepeat 2 {\n  let c = (1;\n  let d = 4;\n}\nout b;"
    )
    assert kinds(result.module.statements) == ["Let", "RepeatTimes", "Out"]
    assert len(result.errors) == 3
    assert kinds(result.module.statements[1].body.statements) == ["Let"]


def test_the_body_of_a_broken_block_survives():
    result = parse("repeat 3 { let a = 1; let b = * ; let c = 3; } let d = 4;")
    assert len(result.errors) == 1
    loop, last = result.module.statements
    assert [let.names[0].text for let in loop.body.statements] == ["a", "c"]
    assert isinstance(last, ast.Let)


def test_open_bracket_is_shown():
    (error,) = parse("let a = f(1, 2;").errors
    assert [label.span.text for label in error.labels] == [";", "("]


def test_unclosed_brace_is_reported_at_the_brace():
    (error,) = parse("fn f(x) { let a = 1;").errors
    assert (error.code, error.span.text) == ("E0104", "{")


def test_missing_semicolon_points_after_the_statement():
    (error,) = parse("let a = 1\nlet b = 2;").errors
    assert (error.code, error.span.start, error.span.end) == ("E0103", 9, 9)


@pytest.mark.parametrize("text", ["let a = f(1)", "let a = b[0]", "let a = (b)", "let a = f(g(1))[0]", "input a: [4]"])
@pytest.mark.parametrize("word", ["let c = 1;", "out a;", "repeat 2 { let a = 1; }", "remat fn f(x) { let y = x; }"])
def test_a_semicolon_may_be_missing_behind_a_bracket(text, word):
    (error,) = parse(f"{text}\n{word}").errors
    assert (error.code, error.span.start, error.span.end) == ("E0103", len(text), len(text))


@pytest.mark.parametrize("operator", ["&&", "||", "and", "or"])
@pytest.mark.parametrize("left", ["b", "b < 0", "f(b)", "b[0]", "(b", "f(2"])
def test_operators_of_other_languages_are_marked_as_a_whole(operator, left):
    (error,) = parse(f"let a = {left} {operator} c{')' * (left.count('(') - left.count(')'))};").errors
    assert (error.code, error.span.text) == ("E0111", operator)


def test_helps_use_the_words_of_the_text():
    (chain,) = parse("let a = 0 < x + 1 <= 2;").errors
    assert chain.help == "write `0 < x + 1 & x + 1 <= 2`"
    (option,) = parse("let a = f(x, axis=1);").errors
    assert option.help == "write `axis: …`"


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("lett a = 3;", "`let`"),
        ("def f(x) { }", "fn f(x)"),
        ("elif x { }", "else if"),
        ("x += 1;", "let x = x + …"),
        ("let a = x[1:5];", "x[1..5]"),
        ("let a = x as f32;", "cast(x, F32)"),
        ("let a = x as bool;", "cast(x, Bool)"),
        ("let a = f(|x| x + 1);", "closures"),
        ("input x: [f32; 3];", "`F32`"),
        ("let a = b if c else d;", "where(c, a, b)"),
        ("let a = f(&mut x);", "leave it out"),
        ("let a = b ? c : d;", "where(c, a, b)"),
        ("out a = f(b, c > 0 ? c : d);", "where(c, a, b)"),
        ("let f = lambda a: a + 1;", "write a `fn`"),
        ("let a = [f(b) for b in c];", "`repeat` or `scan`"),
        ("let a += 1;", "let h = h + …"),
        ("let a = relu x;", "relu(…)"),
        ("let a = 2 * exp 3;", "exp(…)"),
        ("fn f(x) = x * 2;", "{ return …; }"),
    ],
)
def test_help(text, help_):
    assert help_ in parse(text).errors[0].help


@pytest.mark.parametrize("text", ["let a = d // 2;", "input x: [d // 2, 3];", "let a = f(d // 2,\n 3;"])
def test_floor_division_in_a_comment_is_named(text):
    result = parse(text)
    assert "div" in result.errors[0].help
    assert len(result.diagnostics) <= 2


@pytest.mark.parametrize("text", ["let a = d // n;\n+ 1;", "let a = d // 2\n  + 1;"])
def test_comment_that_reads_like_code_warns(text):
    assert [d.code for d in parse(text).diagnostics if not d.is_error] == ["W0901"]


@pytest.mark.parametrize(
    "text",
    ["let a = d; // 2;", "let a = d // the depth\n;", "let a = d // 3 layers\n;", "// 2;\nlet a = d;"],
)
def test_ordinary_comment_does_not_warn(text):
    assert parse(text).diagnostics == ()


def test_many_errors_are_capped():
    result = parse("let = 1;\n" * 300)
    assert len(result.errors) == 20
    assert "not shown" in result.errors[-1].notes[-1]


@pytest.mark.parametrize("cut", range(1, len(PROGRAM), 7))
def test_every_prefix_ends(cut):
    for error in parse(PROGRAM[:cut]).errors:
        assert str(error)


def test_deleted_and_doubled_characters_end():
    for k in range(0, len(PROGRAM), 5):
        parse(PROGRAM[:k] + PROGRAM[k + 1 :])
        parse(PROGRAM[:k] + PROGRAM[k] + PROGRAM[k:])


def test_random_text_ends():
    rng = random.Random(0)
    words = re.split(
        r"\|", 'let |x|=|;|{|}|(|)|[|]|..|fn |scan |"|/*|*/|//|\n|1|1.|@|as |?|~|é|#|in |for |,|:|::|if |\\'
    )
    for _ in range(400):
        text = "".join(rng.choice(words) for _ in range(rng.randrange(40)))
        for diagnostic in parse(text).diagnostics:
            assert str(diagnostic)
