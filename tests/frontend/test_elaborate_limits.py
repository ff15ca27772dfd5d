"""Long, deep, huge and broken texts: elaboration ends, with a graph or with diagnostics."""

from __future__ import annotations

import random
import re

import pytest

from rlxlang.diagnostics import render
from rlxlang.frontend import context
from tests.frontend.elaboration import elaborated, errors, graph_of, value

_MODEL = """config d = 4; config on = true; input x: [?b, d]; param w[3] @ "h.{i}": [d, d] = normal(0.02);
const m = [[1, 0, 1, 0]] : F32; let e = d * 2;
fn f(x, w, n: int = 2) { let y = x @ w; repeat n { let y = relu(y) + 1; } return y, y * 2; }
let (p, q) = f(x, w[0], n: 3); let h = x; repeat i in 0..3 { let h = h @ w[i] + m; }
scan s = h, c = 0 over r in x { let s = s + r; let c = c + 1; emit s * 2 as ss; }
if on { let z = s[0, 1..3]; } else { let z = p; }
let k = x[..., new, ..2]; let t = max(d, 3) + sum(x) / ?b - dim(x, 1);
tap k; out s, z, tt = t, ss, c, o = q; out last = concat([p, q], axis: 1);"""
_ODD = '0 -1 inf nan 1e400 99999999999999999999 ? ?n [] loop while grad use block as by new ... F16 true / div % @ ! ~ & é " vjp dim 1.5'


def test_a_long_chain() -> None:
    lines = "\n".join(f"let h{k} = tanh({'x' if k == 0 else f'h{k - 1}'});" for k in range(3000))
    assert len(graph_of(f"input x: [4];\n{lines}").nodes) == 3001


def test_a_long_sum() -> None:
    assert value("input x: [2]; out y = " + " + ".join(["x"] * 5000) + ";", {"x": [1, 2]}).tolist() == [5000, 10000]


@pytest.mark.parametrize(
    "expression",
    [
        "-" * 3000 + "x",
        "(" * 3000 + "x" + ")" * 3000,
        "relu(" * 2000 + "x" + ")" * 2000,
        "x" + ".relu()" * 2000,
        "x" + "[0..2]" * 500,
    ],
)
def test_deep_expressions(expression: str) -> None:
    assert value(f"input x: [2]; out y = {expression};", {"x": [1, 2]}).tolist() == [1, 2]


@pytest.mark.parametrize("opening", ["repeat 1 {", "if true {", "scan y = y for 1 {"])
def test_deep_bodies(opening: str) -> None:
    depth = 10 if "scan" in opening else 200
    assert value(f"input x: []; let y = x; {opening * depth} let y = y + 1; {'}' * depth} out y;", {"x": 1}) == 2


def test_many_scans() -> None:
    graph = graph_of("input x: [4]; let y = x;" + "scan y = y for 2 { let y = y + 1; }" * 300)
    assert sum(n.op.name == "scan" for n in graph.nodes) == 300


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("let n = 3; repeat 60 { let n = n * n; } out n;", "E0352"),
        ('let n = "a"; repeat 60 { let n = n + n; } out y = 1;', "E0352"),
        ("let n = [1, 1]; repeat 60 { let n = [n, n]; } out y = 1;", "E0352"),
        ("input x: [?n]; let n = ?n + 1; repeat 40 { let n = n * n; } out y = x + n;", "E0352"),
        ("input x: [?n]; let n = ?n + 1; repeat 60 { let n = min(n, ?m) * max(n, 3); } out y = x + n;", "E0352"),
        ("out y = 2 ** 10 ** 10;", "E0352"),
        ("out y = " + "9" * 5000 + ";", "E0352"),
        ("out y = 3_000_000_000;", "E0351"),
        ("input x: [I8; 2]; out y = x + 1000;", "E0351"),
        ("input x: [F16; 2]; out y = x + 1e9;", "E0351"),
        ("const c = [-1] : U8; out c;", "E0351"),
        ("const c = 1e39 : F32; out c;", "E0351"),
    ],
)
def test_huge_values(text: str, code: str) -> None:
    assert [c for c, _ in errors(text)] == [code]


def test_calls_that_multiply_end() -> None:
    chain = "".join(f"fn f{k}(x) {{ let y = f{k - 1}(f{k - 1}(x)); }}" for k in range(1, 40))
    loops = "input x: []; let y = x; repeat 99999 { let y = 1; let z = 2; } out y;"
    assert [c for c, _ in errors(loops)] == ["E0600"]
    assert (
        value("input x: []; fn f0(x) { return x + 1; }" + chain[: chain.index("fn f8(")] + "out y = f7(x);", {"x": 0})
        == 128
    )


_CHAIN = "fn f0(x) { return x + 1; }" + "".join(f"fn f{k}(x) {{ return f{k - 1}(f{k - 1}(x)); }}" for k in range(1, 40))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (_CHAIN + "out y = f39(x);", "statements"),
        (_CHAIN + "out y = f39(2);", "statements"),
        ("repeat 99999 { repeat 99999 { } } out y = x;", "statements"),
        (f"let y = x; repeat 3000 {{ let y = {'y' + ' * x' * 50}; }} out y;", "operations"),
        ("let y = x * x; repeat 12 { let y = grad(y * y * y, x); } out y;", "operations"),
    ],
)
def test_texts_that_expand_without_end(text: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MOST_STATEMENTS", 4000)
    monkeypatch.setattr(context, "MOST_OPERATIONS", 20_000)
    found = [d for d in elaborated(f"input x: []; {text}").diagnostics if d.is_error]
    assert [d.code for d in found] == ["E0600"]
    assert what in found[0].message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("param w[1000000000]: [4]; out y = w[0];", "E0602"),
        ("input x: [1000000000]; let a = split(x, 0, 1000000000); out y = a[0];", "E0350"),
        ("input x: [1000000000]; let a = chunk(x, 1000000000); out y = a[0];", "E0350"),
        ("out y = alibi(1000000000, 4, 4);", "E0350"),
        ("out y = sinusoidal(4, 1000000000);", "E0350"),
        ("let (c, s) = rope_tables(4, 1000000000); out c;", "E0350"),
        ("let (c, s) = rope_tables(4, 8, 0); out c;", "E0350"),
        ("let (c, s) = rope_tables(4, 8, base: -2.5); out c;", "E0350"),
        ("out y = sinusoidal(4, 8, 0);", "E0350"),
        ("input x: [1, 4]; out y = local_response_norm(x, 1000000000);", "E0350"),
    ],
)
def test_counts_of_what_is_built_one_by_one(text: str, code: str) -> None:
    assert [c for c, _ in errors(text)] == [code]


def test_huge_tensors_are_only_types() -> None:
    assert (
        str(graph_of("out y = zeros([1000000000, 1000000000]) + 1;").outputs[0].node.type)
        == "[F32; 1000000000, 1000000000]"
    )


def test_thousands_of_errors() -> None:
    found = elaborated("input x: [4]; " + "let y = q + 1;" * 2000).diagnostics
    assert len(found) == 20
    assert any("not shown" in note for d in found for note in d.notes)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "// nothing", "é", "let", "out", "graph", "}{", "\ufeffout y = 1;", "out y = 1;\r\n", "/*", '"', "\0"],
)
def test_odd_texts(text: str) -> None:
    found = elaborated(text)
    assert (found.graph is None) == any(d.is_error for d in found.diagnostics)


def test_strings_of_any_characters() -> None:
    graph = graph_of('input x @ "größe ☃ \\\\ \\u{3b1} \\"": []; out y = x;')
    assert graph.feeds[0].name == 'größe ☃ \\ α "'


@pytest.mark.parametrize("name", ["", "a\\n", "\\u{200B}", "\\u{0}"])
def test_names_that_do_not_print(name: str) -> None:
    found = elaborated(f'input x @ "{name}": []; out y = x;')
    assert [d.code for d in found.diagnostics] == ["E0126"]


@pytest.mark.parametrize("escape", ["\\d", "\\u{D800}", "\\u{110000}", "\\x"])
def test_names_with_unknown_escapes(escape: str) -> None:
    """One error each, not a second one about the name that is left."""
    found = elaborated(f'input x @ "{escape}": []; out y = x;')
    assert [d.code for d in found.diagnostics] == ["E0108"]


@pytest.mark.parametrize("seed", range(8))
def test_mutations_end_in_a_graph_or_in_diagnostics(seed: int) -> None:
    chance = random.Random(seed)
    tokens = re.findall(r"\w+|\.\.=?|\*\*|[^\s\w]|\s+", _MODEL)
    for _ in range(25):
        changed = list(tokens)
        for _ in range(chance.choice([1, 1, 2, 3])):
            place = chance.randrange(len(changed))
            action = chance.random()
            if action < 0.4:
                changed[place] = chance.choice(tokens + _ODD.split())
            elif action < 0.6:
                del changed[place]
            elif action < 0.8:
                changed.insert(place, chance.choice(tokens + _ODD.split()))
            else:
                other = chance.randrange(len(changed))
                changed[place], changed[other] = changed[other], changed[place]
        found = elaborated("".join(changed))
        assert (found.graph is None) == any(d.is_error for d in found.diagnostics)
        assert all(render(d) for d in found.diagnostics)


def test_the_model_itself_is_right() -> None:
    graph = graph_of(_MODEL)
    shapes = {o.name: str(o.node.type) for o in graph.outputs}
    assert shapes == {
        "s": "[F32; ?b, 4]", "z": "[F32; 2]", "tt": "[F32;]", "ss": "[F32; ?b, ?b, 4]", "c": "[I32;]", "o": "[F32; ?b, 4]",
        "last": "[F32; ?b, 8]", "k": "[F32; ?b, 1, 2]",
    }  # fmt: skip
