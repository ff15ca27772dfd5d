"""Errors and warnings about names, declarations, outputs, configs, arguments."""

from __future__ import annotations

import pytest

from rlxlang.frontend import habits
from rlxlang.ir import SURFACES
from tests.frontend.elaboration import elaborated, errors, only_error, underlined, warnings_of


@pytest.mark.parametrize(
    ("text", "code", "place", "message", "help_"),
    [
        ("let width = 3; out y = widht;", "E0201", "widht", "unknown name `widht`", "did you mean `width`?"),
        ("input x: []; out y = x.relo();", "E0202", "relo", "unknown method", "`relu`"),
        ("input x: []; out y = sotfmax(x);", "E0202", "sotfmax", "unknown function", "`softmax`"),
        ("input x: []; let logits = x; out logit;", "E0206", "logit", "unknown output", "`logits`"),
        ("input x: []; out x; tap y;", "E0206", "y", "unknown", ""),
        ("out y = nn::f(1);", "E0203", "nn", "unknown module", "use nn;"),
        ("out y = parts::f(1);", "E0203", "parts", "unknown module", 'use "parts.rlx";'),
        ("input x: []; out y = torch::relu(x);", "E0203", "torch", "unknown module", "stands alone: `relu(…)`"),
        ("input x: [2]; out y = dense(x, 3);", "E0202", "dense", "unknown function", "use nn::{dense};"),
        ("input x: [2]; out y = mean(x.layernorm());", "E0202", "layernorm", "unknown method", "use nn::{layernorm};"),
        ("input x: []; out y = sum(x, keep_dim: True);", "E0201", "True", "unknown name", "`true`"),
        ("input x: [2]; out y = x[None];", "E0201", "None", "unknown name", "`new`"),
        ("input x: []; out y = x * self;", "E0201", "self", "unknown name", "no `self`"),
        ("use nn; out y = nn;", "E0201", "nn", "unknown name", "`nn::…`"),
        ("input x: [float32; 2]; out x;", "E0208", "float32", "not a dtype", "write `F32`"),
        ("input x: [i64; 2]; out x;", "E0208", "i64", "not a dtype", "write `I64`"),
        ("input x: []; out y = cast(x, DType::F17);", "E0208", "DType::F17", "unknown dtype", "`F16`"),
        ("out y = MaskKind::Casual;", "E0201", "MaskKind::Casual", "unknown mask", "`Causal`"),
        ("input x: []; out y = x.shape;", "E0207", "shape", "no field `shape`", "dim(x, axis)"),
        ("input x: []; out y = x.relu;", "E0207", "relu", "no field", "x.relu(…)"),
        ("input x: []; out y = relu;", "E0201", "relu", "unknown name", ""),
        ("input x: []; input x: [2]; out x;", "E0210", "x", "declared twice", ""),
        ("config a = 1; param a: []; out a;", "E0210", "a", "declared twice", ""),
        ("fn f(x) { return x; } fn f(y) { return y; } out z = f(1);", "E0210", "f", "defined twice", ""),
        ('input a @ "t": []; param b @ "t": []; out a, b;', "E0212", '"t"', "run-time name `t`", ""),
        ('param w[2] @ "w": []; out y = w[0];', "E0212", '"w"', "used twice", "{i}"),
        ("param w[2]: []; param w_1: []; out y = w[0];", "E0212", "w_1", "used twice", ""),
        ('param w @ "a{q}": []; out w;', "E0126", "q", "takes a static int or str, and `q` is unknown", ""),
        ("input x: []; out x; out x;", "E0211", "x", "listed twice", ""),
        ("input x: []; out x; tap x;", "E0211", "x", "listed twice", ""),
        ("param w[2]: []; out w;", "E0304", "w", "a family of 2", "stack"),
        ("input x: []; out y = [x, x];", "E0304", "y", "a list of 2", "stack"),
        ('out y = "text";', "E0304", "y", "the string", ""),
        ("input x: []; let (a, b) = [x]; out a;", "E0408", "[x]", "1 values, 2 names", ""),
        ("input x: []; let (a, b) = x; out a;", "E0408", "x", "one value", ""),
        ("", "E0605", "", "no output", "let"),
        ("param w: [2] = he_nromal(); out w;", "E0202", "he_nromal", "unknown initialiser", "`he_normal`"),
        ("param w: [2] = normal(1, 2, 3); out w;", "E0220", "normal(1, 2, 3)", "at most 2", ""),
        ("param w: [2] = normal(sdt: 2); out w;", "E0221", "sdt: 2", "no argument", "`std`"),
        ("param w: [2] = normal(1, 2, mean: 2); out w;", "E0222", "mean: 2", "given twice", ""),
        ('param w: [2] = "zeros"; out w;', "E0303", '"zeros"', "an initialiser is a call", ""),
        ("input x: [nope]; out x;", "E0201", "nope", "unknown name", ""),
        ("config d = 5; input x: [d / 2]; out x;", "E0407", "d / 2", "the dim is 2.5", "div"),
        ("input x: [-1]; out x;", "E0350", "-1", "0 or more", ""),
        ("input x: [2 ** 64]; out x;", "E0350", "2 ** 64", "below 2 ** 63", ""),
        ("input x: [true]; out x;", "E0303", "true", "not `true`", ""),
        ("input x: [3]; let (y) = x; out y;", "E0408", "x", "1 name stands left", ""),
        ("input x: [F16, 3]; out x;", "E0303", "F16", "not the dtype F16", "`[F16; …]`"),
        ("param w[-1]: []; out y = 1;", "E0602", "-1", "0 or more", ""),
        ("param w[1.5]: []; out y = 1;", "E0602", "1.5", "1.5", ""),
        ("input x: [2]; let t = x * 2; param w: [t]; out y = w + t;", "E0201", "t", "cannot depend on a tensor", ""),
    ],
)  # fmt: skip
def test_errors(text: str, code: str, place: str, message: str, help_: str) -> None:
    found = only_error(text)
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message
    assert help_ in found.help


@pytest.mark.parametrize(
    ("text", "code", "other"),
    [
        ("input x: []; input x: [2]; out x;", "E0210", "x"),
        ("fn f(x) { return x; } fn f(y) { return y; } out z = f(1);", "E0210", "f"),
        ('input a: []; param b @ "a": []; out b;', "E0212", "a"),
        ("input x: []; out x; tap x;", "E0211", "x"),
        ("input x: [2]; scan h = x for 2 { let h = sum(h); } out h;", "E0603", "x"),
    ],
)
def test_the_other_place_is_shown(text: str, code: str, other: str) -> None:
    found = only_error(text)
    assert found.code == code
    secondary = [label for label in found.labels if not label.primary]
    assert [label.span.text for label in secondary] == [other]
    assert secondary[0].span.start < found.labels[0].span.start or code == "E0603"


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({}, "E0353", "config `depth` has no default"),
        ({"depth": 1.0}, "E0305", "of type int, the given value is the number 1.0"),
        ({"depth": True}, "E0305", "of type int, the given value is `true`"),
        ({"depth": "3"}, "E0305", "the string"),
        ({"depth": [3]}, "E0305", "[3]"),
        ({"depth": 1, "scale": "a"}, "E0305", "of type float"),
        ({"depth": 1, "name": 3}, "E0305", "of type str"),
        ({"depth": 1, "on": 1}, "E0305", "of type bool"),
        ({"depth": 1, "dept": 2}, "E0205", "unknown config `dept`"),
    ],
)
def test_configs(given: dict[str, object], code: str, message: str) -> None:
    text = 'config depth: int; config scale = 1.0; config name = "n"; config on = true; input x: [depth]; out y = x * scale;'
    found = only_error(text, **given)
    assert found.code == code
    assert message in found.message


def test_config_help() -> None:
    assert only_error("config depth = 1; out y = depth;", dept=2).help == "did you mean `depth`?"
    assert only_error("out y = 1;", zzz=2).help == "the text declares no config"
    assert errors("config a = b; config b = 1; out y = a;") == [("E0201", "b")]
    assert errors("config a: int = 1.5; out y = a;") == [("E0305", "a")]
    assert errors("config a = [1]; out y = 1;") == [("E0303", "a")]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("input x: []; input z: []; out x;", [("W0902", "z")]),
        ("input x: []; param w[3]: []; out x;", [("W0902", "w")]),
        ("input x: []; let dead = x; let _quiet = x; out x;", [("W0902", "dead")]),
        ("input x: []; let dead = x; fn f(v) { return v + dead; } out x;", [("W0902", "dead")]),
        ("input x: []; let y = x; let y = y + 1; out y;", []),
        ("input x: [?n]; input y: [?n]; out z = y * 1.0;", [("W0902", "x")]),
        ("input x: [3]; scan h = 0.0 over v in x { let h = h + v; emit h as hs; } out hs;", []),
        ("input x: [3]; scan h = 0.0 over v in x { let h = h + v; emit h as hs; } out h;", [("W0902", "hs")]),
        ("input x: [3]; scan h = 0.0 over v in x { let h = h + v; } out x;", [("W0902", "h")]),
        ("input x: []; if true { let y = x; } else { let b = x; let y = b; } out y;", []),
        ("input x: []; repeat 0 { let t = x; let x = t; } out x;", []),
        ("input x: [?n]; out z = 1.0 / ?n;", []),
        ("input x: [?n]; out z = zeros([?n]);", []),
        ("input x: [2]; fn exp(v) { return v; } out y = exp(x);", [("W0903", "exp")]),
        ("input x: [F16; 2]; out y = x * 1e-20;", [("W0904", "1e-20")]),
        ("const c = 1e-60 : F32; out y = c;", [("W0904", "1e-60")]),
        ("input x: [2]; out y = x[..3];", [("W0906", "x[..3]")]),
        ("input i: [2]; param t: [4, 3]; out y = embed(t, i);", [("W0907", "i")]),
        ("input i: [2]; param t: [4, 3]; out y = t.gather(i, 0);", [("W0907", "i")]),
        ("input i: [2]; param t: [4, 3]; out y = index_select(t, 0, indices: i);", [("W0907", "indices: i")]),
        ("input l: [2, 4]; input t: [2]; out y = softmax_cross_entropy(l, t);", [("W0907", "t")]),
        ("input l: [2, 4]; input t: [I32; 2]; out y = softmax_cross_entropy(l, t);", []),
    ],
)  # fmt: skip
def test_warnings(text: str, want: list[tuple[str, str]]) -> None:
    assert warnings_of(text) == want


def test_several_independent_errors() -> None:
    text = "config d = 3; input x: [e, 2]; let y = x + 1; let z = y + q; input v: [d]; let w = v[9] + r; let u = v @ w; out w, u, t;"
    assert errors(text) == [("E0201", "e"), ("E0201", "q"), ("E0406", "v[9]"), ("E0201", "r"), ("E0206", "t")]


def test_a_syntax_error_hides_no_other_and_invents_none() -> None:
    text = "input x: [3]; let a = ; let b = a + x; let c = x[9]; out b, c, d;"
    found = elaborated(text)
    assert [d.code for d in found.diagnostics] == ["E0110", "E0406", "E0206"]
    assert found.graph is None
    assert errors("const m = [[1], [2, 3]] : F32; const k = 300 : I8; input y: [F33; 2]; out q;") == [
        ("E0124", "[2, 3]"), ("E0351", "300"), ("E0208", "F33"), ("E0206", "q"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "help_"),
    [("rely", "did you mean `relu`?"), ("zzzzz", "the branches are for relu, tanh")],
)
def test_a_word_that_no_branch_is_for(word: str, help_: str) -> None:
    found = only_error(
        'input x: []; fn f(x, a: str) { if a == "relu" { let y = relu(x); } else if a == "tanh" { let y = x; } return y; }'
        f'out y = f(x, "{word}");'
    )
    assert (found.code, found.help) == ("E0201", help_)
    assert f'no branch of the `if` is for "{word}"' in found.message


@pytest.mark.parametrize(
    ("expression", "help_"),
    [
        ("x.T", "x.t()"),
        ("x.shape", "dim(x, axis)"),
        ("x.size(0)", "dim(x, axis)"),
        ("x.astype(F16)", "cast(x, F32)"),
        ("x.half()", "cast(x, F16)"),
        ("concatenate([x, x])", "cat("),
        ("sum(x, dim: 0)", "did you mean `axes`?"),
        ("x.softmax(dim: -1)", "did you mean `axis`?"),
        ("x.sum(axis: 0, keepdims: true)", "did you mean `axes`?"),
        ("x.sum(keepdims: true)", "did you mean `keep_dim`?"),
        ("x.sum(keep_dims: true)", "did you mean `keep_dim`?"),
        ("f(x, dim: 1)", "did you mean `axis`?"),
    ],
)
def test_names_of_other_systems(expression, help_):
    """What is written here, for what is called otherwise elsewhere."""
    found = elaborated(f"fn f(x, axis: int) {{ return softmax(x, axis); }} input x: [4, 4]; out y = {expression};")
    (error,) = [d for d in found.diagnostics if d.is_error]
    assert help_ in error.help


def test_every_name_of_another_system_is_none_of_ours():
    assert not set(habits.CALLS) & set(SURFACES)
