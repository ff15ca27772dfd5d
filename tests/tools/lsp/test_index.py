"""Which definitions a use of a name may read, found on the syntax tree alone."""

from __future__ import annotations

import pytest

from rlxlang.tools.lsp.analysis import Document
from rlxlang.tools.lsp.index import Definition, Use

DECLARED = "input x: [?b, 4]; param w: [4, 4]; config n = 2; "


def places(text: str, marked: str) -> list[str]:
    """Line:column of the definitions for the use at `|` in a piece of a text."""
    document = Document("text.rlx", text)
    offset = text.index(marked.replace("|", "")) + marked.index("|")
    found: list[str] = []
    for occurrence in document.index.at(offset)[:1]:
        definitions = [occurrence] if isinstance(occurrence, Definition) else occurrence.found
        found += [f"{d.kind} {d.name} {d.span.line}:{d.span.column}" for d in definitions]
    return found


@pytest.mark.parametrize(
    ("text", "marked", "expected"),
    [
        # Declarations are in sight everywhere, lets from there on; the last one wins.
        ("let y = |x; input x: [4];".replace("|", ""), "y = |x", ["input x 1:18"]),
        ("let a = 1; let b = a; let a = 2;", "b = |a", ["let a 1:5"]),
        ("let a = 1; let a = a + 1; let b = a;", "b = |a", ["let a 1:16"]),
        ("let a = 1; let a = a + 1;", "= |a +", ["let a 1:5"]),
        ("let a = b; let b = 1;", "a = |b", []),
        ("input a: [2]; let a = a; let c = a;", "c = |a", ["let a 1:19"]),
        # Outputs are resolved after the whole text.
        ("let y = 1; out y; let y = 2;", "out |y", ["let y 1:23"]),
        ("out y = 1; let z = y;", "z = |y", ["out y 1:5"]),
        # Tuples, and `_` that binds nothing.
        ("let (a, _, b) = split(x, 0, 3); let c = b;", "c = |b", ["let b 1:12"]),
        # Repeats: the body reads its own binding of the iteration before.
        ("let h = 1; repeat 3 { let h = h * 2; } out h;", "= |h *", ["let h 1:5", "let h 1:27"]),
        ("let h = 1; repeat 3 { let h = h * 2; } out h;", "out |h", ["let h 1:5", "let h 1:27"]),
        ("repeat i in 0..3 { let a = i; } let i = 5; let b = i;", "a = |i", ["variable i 1:8"]),
        ("repeat i in 0..3 { let a = i; } let b = i;", "b = |i", []),
        ("repeat 2 { repeat 2 { let q = 1; } let r = q; } out r;", "r = |q", ["let q 1:27"]),
        # Scans and loops: carries come back from the end of the body, other lets stay inside.
        ("scan h = 0 for 3 { let h = h + 1; let t = h; } out h;", "= |h +", ["carry h 1:6", "let h 1:24"]),
        ("scan h = 0 for 3 { let t = 1; let h = t; } let u = t;", "u = |t", []),
        ("let h = 1; scan h = h for 3 { let h = h; } out h;", "scan h = |h", ["let h 1:5"]),
        ("scan h = 0 over r in x { let h = h + r; emit h as hs; } out hs;", "+ |r", ["slice r 1:17"]),
        ("scan h = 0 over r in x { let h = h + r; emit h as hs; } out hs;", "out |hs", ["emit hs 1:51"]),
        ("loop i = 0 while i < 9 max n { let i = i + 1; } out i;", "while |i", ["carry i 1:6", "let i 1:36"]),
        # Branches: what either of them binds.
        ("if p { let a = 1; } else { let a = 2; } out a;", "out |a", ["let a 1:12", "let a 1:32"]),
        ("let a = 0; if p { let a = 1; } out a;", "out |a", ["let a 1:23", "let a 1:5"]),
        ("if p { let a = 1; } else if q { let a = 2; } else { let b = a; }", "b = |a", []),
        # Functions: parameters, lets above the definition, values and functions apart.
        ("let k = 1; fn f(x) { return x * k; } let k = 2;", "* |k", ["let k 1:5"]),
        ("fn f(x) { return x; } let x = 1; let y = f(x: x);", "x: |x", ["let x 1:27"]),
        ("fn f(x) { return x; } let x = 1; let y = f(x: x);", "f(|x: x", ["formal x 1:6"]),
        ("let y = f(1); fn f(x) { return x; }", "= |f", ["fn f 1:18"]),
        ("let max = max(x); let y = max(max);", "y = |max", []),
        ("let max = max(x); let y = max(max);", "(|max)", ["let max 1:5"]),
        ("fn f(x, n: int = m) { return x; } config m = 3;", "= |m", ["config m 1:42"]),
        ("fn f(a) { let b = a; return b; } let c = x.f();", ".|f", ["fn f 1:4"]),
        ("fn f(x) { let y = x; } vjp f(x, g) { let dx = g * x; }", "vjp |f", ["fn f 1:4"]),
        ("fn f(x) { let y = x; } vjp f(x, g) { let dx = g * x; }", "g * |x", ["formal x 1:30"]),
        # Families, templates, axes.
        ("param w[3]: [4]; let a = w_2;", "a = |w_2", ["param w 1:7"]),
        ('config k = 1; param w @ "p.{k}": [4];', "{|k}", ["config k 1:8"]),
        ("input x: [?b, 4]; input y: [?b];", "y: [|?b", ["axis ?b 1:11"]),
        # Blocks: parameters anywhere in the body, instances with their fields.
        ("block d(x) { let y = x * w; param w: [4]; return y; }", "* |w", ["param w 1:35"]),
        ("block d(x) { param w: [4]; return x * w; } let h = d(x) as fc; let t = fc.w;", "fc.|w", ["param w 1:20"]),
        ("block d(x) { param w: [4]; return x * w; } let h = d(x) as fc; let t = fc.w;", "t = |fc", ["instance fc 1:60"]),
        ('block d(x) { param w: [4]; return x * w; } let h = d(x) as "fc"; let t = fc.w;', "fc.|w", ["param w 1:20"]),
        (
            "block d(x) { param w: [4]; return x * w; } block e(x) { return d(x) as inner; } let h = e(x) as o; let t = o.inner.w;",
            "inner.|w",
            ["param w 1:20"],
        ),
        ("block d(x) { param w: [4]; return x; } let fc = 1; let h = d(x) as fc; let t = fc.w;", "t = |fc", ["let fc 1:44"]),
        # Modules and imports of this text.
        ("use nn; let y = nn::dense(x, 4);", "= |nn", ["module nn 1:5"]),
        ("use nn::{dense as fc}; let y = fc(x, 4);", "y = |fc", ["import fc 1:19"]),
        ('use "a/b.rlx"; let y = b::f(x);', "= |b", ["module b 1:5"]),
    ],
)  # fmt: skip
def test_what_a_use_may_read(text: str, marked: str, expected: list[str]) -> None:
    assert places(text, marked) == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("let h = 1; repeat 3 { let h = h * 2; } out h;", "h", [4, 26, 30, 43]),
        ("let h = 1; let h = h + 1; out h;", "h", [4, 19]),
        ("scan h = 0 for 3 { let h = 1; } out h;", "h", [5, 23, 36]),
        ("scan h = 0 over r in x { let y = r; emit y; } out y;", "y", [29, 41, 50]),
        ("let a = 0; if p { let a = 1; } out a;", "a", [4, 22, 35]),
        ("param w[3]: [4]; let a = w_2 + w[0];", "w", [6, 25, 31]),
    ],
)
def test_one_variable(text: str, name: str, expected: list[int]) -> None:
    index = Document("text.rlx", text).index
    definition = next(d for d in index.definitions if d.name == name)
    assert [span.start for span in index.occurrences(definition)] == expected


def test_roles_of_names_of_the_language() -> None:
    text = "config n: int = 2; param w: [F16; n] = zeros(); let y = softmax(cast(w, DType::F32), axis: -1) + pi;"
    roles = {use.name: use.role for use in Document("text.rlx", text).index.uses}
    assert roles == {
        "int": "type", "F16": "dtype", "n": "value", "zeros": "initializer", "softmax": "op", "cast": "op", "w": "value",
        "F32": "dtype", "axis": "option", "pi": "constant",
    }  # fmt: skip


def test_statements_after_an_error_have_their_names() -> None:
    index = Document("text.rlx", "let a = ; let b = 1;\nfn f(x) { let y = ; let z = x; }\nlet c = b;").index
    assert [(d.kind, d.name) for d in index.definitions] == [
        ("let", "b"), ("fn", "f"), ("formal", "x"), ("let", "z"), ("let", "c"),
    ]  # fmt: skip
    assert [use.found[0].name for use in index.uses] == ["x", "b"]


def test_deep_texts_are_indexed_without_recursion() -> None:
    deep = "repeat 1 { " * 3000 + "let a = 1;" + " }" * 3000
    index = Document("text.rlx", f"let b = {'(' * 3000}1{')' * 3000} {'+ x' * 3000};\n{deep}\nlet c = b;").index
    last = index.uses[-1]
    assert isinstance(last, Use)
    assert last.found[0].name == "b"


def test_what_is_in_sight() -> None:
    text = "config n = 1;\nfn f(x) {\n  let y = x;\n  return y;\n}\nlet a = 1;\nscan h = a for 3 {\n  let h = h + 1;\n}\nlet b = h;\n"
    index = Document("text.rlx", text).index

    def names(marked: str) -> list[str]:
        return sorted(d.name for d in index.visible(text.index(marked)))

    assert names("return") == ["f", "n", "x", "y"]
    assert names("let a") == ["f", "n"]
    assert names("h + 1") == ["a", "f", "h", "n"]
    assert names("let b") == ["a", "f", "h", "n"]
