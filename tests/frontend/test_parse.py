"""The syntax tree: values, spans, comments, depth."""

from __future__ import annotations

import math
import os
import pickle
import time

import pytest

from rlxlang.diagnostics import Source
from rlxlang.frontend import ast, table
from rlxlang.frontend.parse import parse_module
from rlxlang.frontend.trivia import attach
from rlxlang.frontend.walk import dump, strip_groups, structurally_equal, walk


def parse(text):
    result = parse_module(Source("test.rlx", text))
    assert result.errors == ()
    return result.module


def value(text):
    return parse(f"let a = {text};").statements[0].value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_000", 1000),
        ("0xfF_f0", 0xFFF0),
        ("0b1010", 10),
        ("255u8", 255),
        ("1.", 1.0),
        (".5", 0.5),
        ("1.5e-3f32", 1.5e-3),
        ("2f64", 2.0),
        ("inf", math.inf),
        ("true", True),
        (r'"a\"\\\n\t\u{e9}"', 'a"\\\n\té'),
        ('"a\u00a0b"', "a\u00a0b"),
        ("9" * 5000, 10**5000 - 1),
    ],
    ids=lambda v: str(v)[:20] if not isinstance(v, int) or v < 10**9 else "big",
)
def test_literal(text, expected):
    found = value(text).value
    assert found == expected
    assert type(found) is type(expected)


def test_nan_is_a_literal_and_pi_is_a_name():
    assert math.isnan(value("nan").value)
    assert isinstance(value("pi"), ast.Ref)


def test_template():
    alias = parse(r'param w[2] @ "h.{i}\n{{x}}": [3];').statements[0].alias
    assert [p if isinstance(p, str) else p.text for p in alias.parts] == ["h.", "i", "\n{x}"]
    assert alias.placeholders[0].span.text == "i"
    assert alias.substitute({"i": "7"}) == "h.7\n{x}"


def test_if_chain_is_flat():
    (chain,) = parse("if a { let x = 1; } else if b { let x = 2; } else { let x = 3; }").statements
    assert [branch.condition.span.text for branch in chain.branches] == ["a", "b"]
    assert chain.branches[1].span.text == "if b { let x = 2; }"
    assert chain.orelse.span.text == "{ let x = 3; }"


def test_statement_forms():
    module = parse(
        'use nn::{a, b as c}; use "f.rlx" as m; use a::b; bind t, ls[]; jvp f(x; dx) { return x; }'
        "remat fn g(x, n: int = 4) { return x; } output y, z = 1;"
        "scan h = h0, c = 1 over x in xs, m in ms reverse { emit h; }"
    )
    items, file, path, bind, jvp, fn, out, scan = module.statements
    assert [(i.name.text, i.alias and i.alias.text) for i in items.items] == [("a", None), ("b", "c")]
    assert (file.target.value, file.alias.text, path.target.text) == ("f.rlx", "m", "a::b")
    assert [(i.name.text, i.is_list) for i in bind.items] == [("t", False), ("ls", True)]
    assert [name.text for name in (*jvp.params, *jvp.tangents)] == ["x", "dx"]
    assert (fn.remat, fn.formals[1].type.text, fn.formals[1].default.value) == (True, "int", 4)
    assert [(i.name.text, i.value is None) for i in out.items] == [("y", True), ("z", False)]
    assert (len(scan.carries), len(scan.sources), scan.reverse, scan.length) == (2, 2, True, None)
    assert scan.body.statements[0].name.text == "h"


def test_spans():
    a, out = parse("  let a = (x) * (y + z) ;  out a ;").statements
    assert (a.span.text, out.span.text) == ("let a = (x) * (y + z) ;", "out a ;")
    assert a.value.span.text == "(x) * (y + z)"
    assert (a.value.op_span.text, a.value.right.span.text) == ("*", "(y + z)")
    assert strip_groups(a.value.right).span.text == "y + z"


def test_lines_and_columns_count_characters():
    a, b, c = parse("let a = 1; /* 😀 */ let b = 2;\r\n\tlet c = 3;").statements
    assert [(s.span.line, s.span.column) for s in (a, b, c)] == [(1, 1), (1, 20), (2, 2)]


def test_every_child_lies_within_its_parent():
    text = 'block f(x, n: int) { param w @ "a": [F16; n]; return x.g(w[1..2, new])[0] @ -w, f(x, n: 3) as "q"; }'
    for node in walk(parse(text)):
        assert 0 <= node.span.start <= node.span.end <= len(text)
        assert node.span.text or isinstance(node, ast.Module)


def test_documentation_joins_lines():
    module = parse("/// A.\n/// B.\n// not\nconfig d = 4;\n//// no\nlet x = 1;\n/** no */ let y = 1;")
    assert [s.doc for s in module.statements] == ["A.\nB.", "", ""]


COMMENTED = """// header
/// Hidden size.
/// Two lines.
config d = 4; // trailing config

/* before x */ input x: [2, /* mid */ 3]; // trailing x
// lead y
let y = f(
  a, // after a
  // before b
  b,
  // last in call
);
repeat 3 { // after brace
  let y = y; /* t */ // u
  // end of body
}
// end of file
"""


def test_every_comment_is_attached_once():
    module = parse(COMMENTED)
    where = attach(module)
    placed = [
        comment
        for lists in (where.leading, where.trailing, where.dangling)
        for comments in lists.values()
        for comment in comments
    ]
    assert sorted(placed, key=lambda c: c.span.start) == list(module.comments)
    assert len(placed) == 16
    config, x, y, loop = module.statements
    assert config.doc == "Hidden size.\nTwo lines."
    assert [c.text for c in where.trailing[config]] == ["// trailing config"]
    assert [c.text for c in where.leading[x]] == ["/* before x */"]
    assert [c.text for c in where.trailing[y.value.args[0]]] == ["// after a"]
    assert [c.text for c in where.leading[y.value.args[1]]] == ["// before b"]
    assert [c.text for c in where.dangling[y.value]] == ["// last in call"]
    assert [c.text for c in where.dangling[loop.body]] == ["// end of body"]
    assert [c.text for c in where.dangling[module]] == ["// end of file"]


def test_structural_equality():
    left = parse("let a = f(x, 1e3) + nan; // c")
    assert structurally_equal(left, parse("let a=f( x,1000.0f32 )+nan;"))
    assert not structurally_equal(left, parse("let a = f(x, 1e3) - nan;"))
    assert dump(value("x + 1")) == dump(value("x  +  1"))


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["x"] * 20_000),
        "(" * 5_000 + "x" + ")" * 5_000,
        "-" * 5_000 + "x",
        "[" * 3_000 + "1" + "]" * 3_000,
        "f(" * 3_000 + "x" + ")" * 3_000,
    ],
    ids=["sum", "parentheses", "minus", "lists", "calls"],
)
def test_depth(text):
    module = parse(f"let a = {text};")
    assert sum(1 for _ in walk(module)) > 3_000
    assert structurally_equal(module, module)


def test_deep_statements_and_arrays():
    parse("repeat 1 { " * 3_000 + "let a = 1;" + "}" * 3_000)
    parse("const m = " + "[" * 3_000 + "1" + "]" * 3_000 + ";")


def test_parsing_is_linear():
    def seconds(count):
        text = "let h = relu(x @ w + b);\n" * count
        start = time.process_time()
        parse(text)
        return time.process_time() - start

    seconds(10)
    assert seconds(1600) < 16 * seconds(400) + 0.5


def fresh_parser(monkeypatch, folder):
    monkeypatch.setenv("RLX_CACHE_DIR", str(folder))
    monkeypatch.setattr(table, "_parser", None)
    return table.parser()


def test_table_is_cached_privately(monkeypatch, tmp_path):
    fresh_parser(monkeypatch, tmp_path)
    (file,) = (tmp_path / "grammar").iterdir()
    assert (tmp_path / "grammar").stat().st_mode & 0o077 == 0
    monkeypatch.setattr(table, "build", None)  # a second build would fail
    again = fresh_parser(monkeypatch, tmp_path)
    assert again.parse("let a = 1;", start="program").data == "program"
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [lambda data: data[:-1] + b"x", lambda data: b"", lambda data: data[:40]])
def test_damaged_table_is_rebuilt(monkeypatch, tmp_path, damage):
    fresh_parser(monkeypatch, tmp_path)
    (file,) = (tmp_path / "grammar").iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    fresh_parser(monkeypatch, tmp_path).parse("out a;", start="program")
    assert table._read(file) is not None


def test_table_of_an_open_folder_is_not_trusted(monkeypatch, tmp_path):
    fresh_parser(monkeypatch, tmp_path)
    (tmp_path / "grammar").chmod(0o777)
    (file,) = (tmp_path / "grammar").iterdir()
    assert table._read(file) is None


def test_table_with_code_is_not_loaded(monkeypatch, tmp_path):
    import hashlib

    folder = tmp_path / "grammar"
    folder.mkdir(mode=0o700)
    data = pickle.dumps(os.getcwd)
    (folder / "t").write_bytes(table._MAGIC + hashlib.sha256(data).digest() + data)
    assert table._read(folder / "t") is None


def test_no_folder_to_cache_in(monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert fresh_parser(monkeypatch, blocker / "sub").parse("out a;", start="program") is not None
