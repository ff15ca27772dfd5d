"""The formatter: the layout it gives, and that nothing else changes."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlxlang
from rlxlang.diagnostics import InternalError, RlxSyntaxError, RlxTypeError, Source
from rlxlang.frontend import format as formatter
from rlxlang.frontend.format import format_text
from rlxlang.frontend.format_expressions import float_text, int_text
from rlxlang.frontend.format_render import WIDTH
from rlxlang.frontend.parse import parse_module
from rlxlang.frontend.walk import structurally_equal
from rlxlang.resources import grammar_text

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("grammar_cases", Path(__file__).parent / "grammar_cases.py")
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

MODELS = [file for folder in ("examples", "benchmarks", "stdlib") for file in sorted((ROOT / folder).rglob("*.rlx"))]


def test_whole_program(golden):
    golden("format_program.rlx", format_text(cases.GPT + cases.CORE_PROGRAM.replace('graph "demo";', "")))


@pytest.mark.parametrize("text", cases.GOOD, ids=range(len(cases.GOOD)))
def test_good_programs_are_fixed_points_after_one_pass(text):
    # That the tree and the comments stay is checked by format_text itself.
    once = format_text(text)
    assert format_text(once) == once
    assert once == "" or once.endswith("\n")
    assert "\r" not in once
    assert not re.search(r"[ \t]$", once, re.M)


@pytest.mark.parametrize("file", MODELS, ids=[str(file.relative_to(ROOT)) for file in MODELS])
def test_models_of_the_repository_are_formatted(file):
    text = file.read_text("utf-8")
    assert format_text(text) == text


LAYOUT = [
    # -- one line
    ("let a=b-1;", "let a = b - 1;\n"),
    ("let a = x[0 .. n - 1];", "let a = x[0..n - 1];\n"),
    ("let a = x[ .. by 2,new,...];", "let a = x[.. by 2, new, ...];\n"),
    ("let a = f(x,axis:-1,);", "let a = f(x, axis: -1);\n"),
    ("let ( q , ) = f( );", "let (q) = f();\n"),
    ("let a = - x**2;", "let a = -x ** 2;\n"),
    ("const m = [[1,0],[0,1]]:F32;", "const m = [[1, 0], [0, 1]] : F32;\n"),
    ('param w[n]@"h.{i}":[F16;?,d]=zeros();', 'param w[n] @ "h.{i}": [F16; ?, d] = zeros();\n'),
    ("input n: [ I32 ; ];", "input n: [I32;];\n"),
    ("use nn :: { a,b as c, };use m::*;", "use nn::{a, b as c};\nuse m::*;\n"),
    ("repeat 4{}", "repeat 4 {}\n"),
    ("jvp f(x,;dx){return 1;}", "jvp f(x; dx) {\n  return 1;\n}\n"),
    ("jvp f(;){return 1;}", "jvp f(;) {\n  return 1;\n}\n"),
    # -- forms without effect
    ("output y;", "out y;\n"),
    ("let a = f(&x, &w[0], &[1]);", "let a = f(x, w[0], [1]);\n"),
    ("let a = f(~eps, vec! [1, 2]);", "let a = f(~eps, [1, 2]);\n"),
    ("let a = 2u32 + 1f32 + 3_i64 + 0XFFu8 + 1. + .5 + 1E5f64;", "let a = 2 + 1.0 + 3 + 0xFF + 1.0 + 0.5 + 1e5;\n"),
    ("let a = 1;; ;let b = 2;", "let a = 1;\nlet b = 2;\n"),
    ("fn f(x) { return x; };", "fn f(x) {\n  return x;\n}\n"),
    # -- blank lines
    ("\n\n\nlet a = 1;\n\n\n\nlet b = 2;\n\n\n", "let a = 1;\n\nlet b = 2;\n"),
    ("if p {\n\n  let a = 1;\n\n\n  let b = 2;\n\n}", "if p {\n  let a = 1;\n\n  let b = 2;\n}\n"),
    ("// a\n\n// b\nlet a = 1;\n\n// c\n", "// a\n\n// b\nlet a = 1;\n\n// c\n"),
    ("let a = 1;\r\n\r\nlet b = 2; // c\r\n", "let a = 1;\n\nlet b = 2;  // c\n"),
    # -- branches
    (
        "if p{let a=1;}else if q{let a=2;}else{let a=3;}",
        "if p {\n  let a = 1;\n} else if q {\n  let a = 2;\n} else {\n  let a = 3;\n}\n",
    ),
    # -- comments
    ("let a = 1;// c", "let a = 1;  // c\n"),
    ("/* a */ let a = 1; /* b */ // c", "/* a */\nlet a = 1; /* b */  // c\n"),
    ("let a = f(x, /* n */ 3);", "let a = f(x, /* n */ 3);\n"),
    ("let a = f(/* none */);", "let a = f(/* none */);\n"),
    ("let a = f(x, // first\n y);", "let a = f(\n  x,  // first\n  y,\n);\n"),
    ("let a = f(x // first\n, y // second\n);", "let a = f(\n  x,  // first\n  y,  // second\n);\n"),
    ("let a = f(\n// own\nx,\n// last\n);", "let a = f(\n  // own\n  x,\n  // last\n);\n"),
    ("let a = [ // open\n1];", "let a = [  // open\n  1,\n];\n"),
    ("let a = x // left\n+ y;", "let a = x  // left\n  + y;\n"),
    ("let a = x\n// own\n+ y;", "let a = x\n  // own\n  + y;\n"),
    ("let a = 1 // before\n;", "let a = 1;  // before\n"),
    ("let a // name\n = 1;", "let a  // name\n  = 1;\n"),
    (
        "repeat 2 { // head\n let a = 1; // one\n // last\n}",
        "repeat 2 {  // head\n  let a = 1;  // one\n  // last\n}\n",
    ),
    ("if p { } // end\n// own\nelse { }", "if p {}  // end\n// own\nelse {}\n"),
    ("/* a /* b */ c */", "/* a /* b */ c */\n"),
    (
        "fn f(x) {\n    /*\n     * a\n     * b\n     */\n return x; }",
        "fn f(x) {\n  /*\n   * a\n   * b\n   */\n  return x;\n}\n",
    ),
    # -- docs stay with what they document
    ("let a = 1; /// doc\nlet b = 2;", "let a = 1;\n/// doc\nlet b = 2;\n"),
    ("let a = 1 /// no doc\n; let b = 2;", "let a = 1  /// no doc\n  ;\nlet b = 2;\n"),
    ("/// no doc\n; let b = 2;", "/// no doc\n;\nlet b = 2;\n"),
]


@pytest.mark.parametrize(("text", "expected"), LAYOUT, ids=range(len(LAYOUT)))
def test_layout(text, expected):
    assert format_text(text) == expected
    assert format_text(expected) == expected


LONG = "a_rather_long_name_of_a_value"


def broken(text):
    result = format_text(text)
    assert format_text(result) == result
    assert all(len(line) <= WIDTH for line in result.splitlines())
    return result


def test_arguments_are_broken_one_a_line():
    assert broken(f"let a = f({LONG}1, {LONG}2, g({LONG}3), n: {LONG}4);") == (
        f"let a = f(\n  {LONG}1,\n  {LONG}2,\n  g({LONG}3),\n  n: {LONG}4,\n);\n"
    )


def test_a_call_that_is_the_only_argument_shares_the_parentheses():
    assert broken(f"let a = mean(f({LONG}1, {LONG}2, {LONG}3, {LONG}4));") == (
        f"let a = mean(f(\n  {LONG}1,\n  {LONG}2,\n  {LONG}3,\n  {LONG}4,\n));\n"
    )


def test_chains_are_broken_before_operators_of_one_precedence():
    assert broken(f"let a = {LONG}1 * {LONG}2 + {LONG}3 - {LONG}4;") == (
        f"let a = {LONG}1 * {LONG}2\n  + {LONG}3\n  - {LONG}4;\n"
    )
    assert broken(f"let a = ({LONG}1 + {LONG}2 + {LONG}3 + {LONG}4) * x;") == (
        f"let a = (\n  {LONG}1\n  + {LONG}2\n  + {LONG}3\n  + {LONG}4\n)\n  * x;\n"
    )


def test_a_chain_goes_below_a_name_beside_which_its_first_operand_does_not_fit():
    first = f"f({LONG}1, {LONG}2)[i, j]"
    assert broken(f"let {LONG} = {first} + 1.0;") == f"let {LONG} =\n  {first} + 1.0;\n".replace(" + 1.0", "\n  + 1.0")
    assert broken(f"out {LONG} = {first} + 1.0;") == f"out {LONG} =\n    {first}\n    + 1.0;\n"
    assert broken(f"config {LONG}{LONG}: float = {LONG}1 * {LONG}2 + {LONG}3;") == (
        f"config {LONG}{LONG}: float =\n  {LONG}1 * {LONG}2\n  + {LONG}3;\n"
    )


def test_heads_of_loops_are_broken_before_their_clauses():
    body = "{\n  let c = c;\n}"
    assert broken(f"scan {LONG} = zeros([a, b]), c = zeros([a, b]) over x in {LONG}1, y in {LONG}2 reverse {body}") == (
        f"scan {LONG} = zeros([a, b]), c = zeros([a, b])\n  over x in {LONG}1, y in {LONG}2 reverse {body}\n"
    )
    assert broken(f"scan {LONG}1 = zeros([a, b]), {LONG}2 = zeros([{LONG}3, b]) for n {body}") == (
        f"scan {LONG}1 = zeros([a, b]),\n  {LONG}2 = zeros([{LONG}3, b])\n  for n {body}\n"
    )
    assert broken(f"loop i = 0, {LONG}1 = {LONG}2 while i < {LONG}3 max 100 {body}") == (
        f"loop i = 0, {LONG}1 = {LONG}2\n  while i < {LONG}3\n  max 100 {body}\n"
    )


def test_outputs_with_values_are_one_a_line():
    assert broken(f"out a = f({LONG}1), b = f({LONG}2), c = f({LONG}3);") == (
        f"out a = f({LONG}1),\n  b = f({LONG}2),\n  c = f({LONG}3);\n"
    )


def test_method_chains_are_broken_before_dots():
    assert broken(f"let a = x.f({LONG}).g({LONG}).h({LONG}).relu();") == (
        f"let a = x\n  .f({LONG})\n  .g({LONG})\n  .h({LONG})\n  .relu();\n"
    )


def test_numbers_of_a_list_and_names_after_a_keyword_fill_lines():
    lines = broken(f"const a = [{', '.join(map(str, range(100)))}];").splitlines()
    assert len(lines) == 7
    assert lines[1].startswith("  0, 1, 2, ")
    assert lines[-2].endswith("99,")
    assert broken(f"out {LONG}1, {LONG}2, {LONG}3, {LONG}4;").splitlines() == [
        f"out {LONG}1, {LONG}2, {LONG}3,",
        f"  {LONG}4;",
    ]


def test_the_longest_line_that_fits_stays():
    name = "n" * (WIDTH - len("let a = f(x, );"))
    assert format_text(f"let a = f(x, {name});") == f"let a = f(x, {name});\n"
    assert format_text(f"let a = f(x, {name}n);").count("\n") == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0XFf_u8", "0xFf"), ("0b1u8", "0b1"), ("0xbf16", "0xbf16"), ("0x1f32", "0x1f32"), ("1_000usize", "1_000")],
)
def test_int_text(text, expected):
    assert int_text(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.", "1.0"), (".5", "0.5"), ("1f32", "1.0"), ("1E+05", "1e+05"), ("2_bf16", "2.0"), ("inf", "inf")],
)
def test_float_text(text, expected):
    assert float_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "let a = " + " + ".join(f"x{i}" for i in range(20000)) + ";",
        "let a = " + "(" * 3000 + "1" + ")" * 3000 + ";",
        "let a = " + "f(x, " * 1000 + "1" + ")" * 1000 + ";",
        "let a = " + "-" * 3000 + "1;",
        "let a = 2" + " ** 2" * 2000 + ";",
        "let a = x" + ".relu()" * 2000 + ";",
        "repeat 2 { " * 500 + "let a = 1;" + " }" * 500,
    ],
    ids=["sum", "parentheses", "arguments", "minus", "powers", "methods", "bodies"],
)
def test_depth(text):
    assert format_text(text)


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(("text", "message"), cases.BAD[::4], ids=range(len(cases.BAD[::4])))
def test_what_does_not_parse_is_an_error(text, message):
    with pytest.raises(RlxSyntaxError, match=re.escape(message)):
        format_text(text)


def test_all_errors_are_reported_with_the_name_of_the_file():
    with pytest.raises(RlxSyntaxError) as caught:
        format_text("let a = ;\nlet b = ;\n", "two.rlx")
    assert len(caught.value.diagnostics) == 2
    assert "two.rlx:2" in str(caught.value)


def test_public_name():
    assert rlxlang.format("let a=1 ;") == "let a = 1;\n"
    with pytest.raises(RlxTypeError, match="`format` takes a text"):
        rlxlang.format(Path("a.rlx"))


@pytest.mark.parametrize(
    ("text", "what"), [("let a = 2;", "program"), ("let a = (", "program"), ("let a = 1; // c", "comments")]
)
def test_a_changed_program_is_never_returned(monkeypatch, text, what):
    monkeypatch.setattr(formatter, "render", lambda pieces: text)
    with pytest.raises(InternalError, match=f"would change the {what}"):
        format_text("let a = 1;")


# ------------------------------------------------------------------------------------------------ mutations


def terminal(name):
    found = re.search(rf"^{name}(?:\.\d)?: /(.*)/$", grammar_text(), re.M)
    assert found is not None
    return f"(?:{found[1]})"


TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|"
    + "|".join(terminal(name) for name in ("STRING", "FLOAT", "INT", "DYN", "_VEC", "NAME"))
    + r"|\.\.\.|\.\.=|\.\.|::|\*\*|[=!<>]=|\S",
    re.DOTALL,
)
BETWEEN = (
    "",
    " ",
    "\n",
    "\n\n\n",
    "\r\n",
    "\t",
    " ; ",
    " // {}\n",
    "\n// {}\n",
    " /* {} */ ",
    "\n/* {} */\n",
    " /* {} */\n",
    "\n/* {} */",
    "/* /* {} */ */",
    "/* {}\n   more */",
    "/*\n  * {}\n  */",
    " /// {}\n",
    "\n/// {}\n\n",
)


def mutated(text, rng, often):
    """A program with blanks and comments between its tokens."""
    parts = []
    for number, token in enumerate(TOKEN.findall(text)):
        parts.append(token)
        parts.append("\n" if token.startswith("//") else " ")
        while rng.random() < often:
            parts.append(rng.choice(BETWEEN).format(number))
    return "".join(parts)


@settings(max_examples=200)
@given(st.sampled_from(cases.GOOD), st.integers(0, 2**32), st.sampled_from([0.05, 0.2, 0.5]))
def test_comments_and_blanks_anywhere(text, seed, often):
    changed = mutated(text, random.Random(seed), often)
    before = parse_module(Source("mutated", changed))
    if before.errors:  # a `;` in the middle of a statement
        return
    once = format_text(changed)
    assert format_text(once) == once
    after = parse_module(Source("formatted", once)).module
    assert len(after.comments) == len(before.module.comments)
    if "///" not in changed and "///" not in text:
        # The same program as without the comments, too.
        assert structurally_equal(after, parse_module(Source("plain", format_text(text))).module)
