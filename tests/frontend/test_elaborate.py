"""Declarations, expressions and outputs become the right graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.elaboration import elaborated, graph_of, value, values, warnings_of

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def at(expression: str, **configs: Any) -> np.ndarray[Any, Any]:
    return value(f"input x: [3, 4]; out y = {expression};", {"x": X}, **configs)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("-x ** 2", -(X**2)),
        ("2 ** -x", 2.0**-X),
        ("x @ x.transpose() * 2", (X @ X.T) * 2),
        ("x - 1 - 2", X - 3),
        ("x div 2 % 3", (X // 2) % 3),
        ("relu(&x) + 2u32 * (3)", X + 6),
        ("where_(x > 3, x, ~0.5)", np.where(X > 3, X, 0.5)),
        ("select(x > 3, x, 0)", np.where(X > 3, X, 0)),
        ("mm(x, x.transpose())", X @ X.T),
        ("x.sum([0, 1], keep_dim: true)", X.sum(keepdims=True)),
        ("sum(x, 0)", X.sum(0)),
        ("x.softmax(axis: -1)", np.exp(X - 3 - X[:, :1]) / np.exp(X - 3 - X[:, :1]).sum(1, keepdims=True)),
        ("concat([x, x], axis: 1)", np.concatenate([X, X], 1)),
        ("stack(vec![x, x])", np.stack([X, X])),
        ("x > 1 & x < 3 | x == 0", (X > 1) & (X < 3) | (X == 0)),
        ("!(x > 3)", ~(X > 3)),
        ("cast(x, DType::I32)", X.astype(np.int32)),
        ("cast(x, F16)", X.astype(np.float16)),
        ("x * pi", X * np.float32(np.pi)),
        ("x + nan", np.full_like(X, np.nan)),
        ("x * dim(x, -1) + x.dim(0)", X * 4 + 3),
    ],
)
def test_expressions(expression: str, want: Any) -> None:
    got = at(expression)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.dtype == np.asarray(want).dtype


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("7 div 2 + 7 % 4", np.int32(6)),
        ("6 / 3", np.int32(2)),
        ("7 / 2", np.float32(3.5)),
        ("floor(2.5) + ceil(2.5) + round(2.5) + trunc(-2.5)", np.int32(5)),
        ("min(3, 4, 5) + max(1, 2.5)", np.float32(5.5)),
        ("sqrt(16) * 2 ** -1", np.float32(2)),
        ("-7 div 2", np.int32(-4)),
        ("-7 % 3", np.int32(2)),
        ("1 < 2", np.bool_(True)),
        ("!true | 1 == 1.0", np.bool_(True)),
        ('"a" == "b"', np.bool_(False)),
        ("5 & 6 ^ 1", np.int32(5)),
        ("10 ** 30 / 10 ** 28", np.int32(100)),
        ("inf", np.float32(np.inf)),
    ],
)
def test_static_expressions(expression: str, want: Any) -> None:
    got = value(f"out y = {expression};")
    assert got == want
    assert got.dtype == want.dtype


def test_weak_numbers_take_the_dtype_of_the_tensor() -> None:
    for dtype, plus_int, plus_float in (
        ("F16", "F16", "F16"),
        ("F64", "F64", "F64"),
        ("I8", "I8", "F32"),
        ("Bool", "I32", "F32"),
    ):
        graph = graph_of(f"config one = 1; let half = 0.5; input x: [{dtype}; 2]; out a = x + one, b = half * x;")
        assert [str(o.node.dtype) for o in graph.outputs] == [plus_int, plus_float]
    graph = graph_of(
        "input a: [F16;]; input b: [BF16;]; input c: [I8;]; input d: [I32;]; out e = a + b, f = c + d, g = c / c;"
    )
    assert [str(o.node.dtype) for o in graph.outputs] == ["F32", "I32", "F32"]


def test_configs() -> None:
    text = 'config d = 2; config e = d * 3; config f: float = 1; config s = "m"; config on: bool = false; input x: [e]; out y = x * f;'
    assert graph_of(text).feeds[0].node.shape == (6,)
    assert graph_of(text, d=4).feeds[0].node.shape == (12,)
    assert graph_of(text, e=np.int64(5), f=2, s="n", on=np.True_).feeds[0].node.shape == (5,)
    assert value("config depth: int; out y = depth;", depth=3) == 3


def test_inputs_and_parameters() -> None:
    graph = graph_of(
        'config n = 2; input x @ "tokens": [I32; ?b, n]; /// the weight\nparam w @ "layer.w": [n] = normal(0.02); param v: [n] = 1.5;'
        "out y = x * w * v;"
    )
    assert [(e.name, e.kind) for e in graph.inputs] == [("tokens", "input"), ("layer.w", "param"), ("v", "param")]
    assert [str(e.init) for e in graph.inputs] == ["None", "normal(std: 0.02)", "constant(value: 1.5)"]
    assert graph.params[0].doc == "the weight"
    assert str(graph.feeds[0].node.type) == "[I32; ?b, 2]"


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("zeros()", "zeros()"),
        ("init::ones()", "ones()"),
        ("-2", "constant(value: -2)"),
        ("uniform(0.1)", "uniform(low: -0.1, high: 0.1)"),
        ("uniform(0, 1)", "uniform(low: 0, high: 1)"),
        ("normal(1, 2)", "normal(mean: 1, std: 2)"),
        ("normal(std: c / 2)", "normal(std: 1.5)"),
        ("he_normal(gain: 2)", "he_normal(gain: 2)"),
        ("trunc_normal(0, 1, low: -2, high: 2)", "trunc_normal(mean: 0, std: 1, low: -2, high: 2)"),
    ],
)
def test_initialisers(source: str, want: str) -> None:
    assert str(graph_of(f"config c = 3; param w: [2] = {source}; out w;").params[0].init) == want


def test_families() -> None:
    text = 'config n = 3; param w[n]: [2]; param v[2] @ "h.{i}.w": [2]; out y = w[0] + w_1 * w[n - 1], z = stack(v), t = sum(stack(w));'
    graph = graph_of(text)
    assert [e.name for e in graph.params] == ["w_0", "w_1", "w_2", "h.0.w", "h.1.w"]
    got = values(text, {"w_0": [1, 2], "w_1": [3, 4], "w_2": [5, 6], "h.0.w": [7, 8], "h.1.w": [9, 9]})
    assert got["y"].tolist() == [16, 26]
    assert got["z"].tolist() == [[7, 8], [9, 9]]
    assert got["t"] == 21


def test_an_empty_family_and_a_shadowed_element() -> None:
    assert (
        graph_of(
            "config n = 0; param w[n]: [2]; input x: [2]; let y = x; repeat i in 0..n { let y = y + w[i]; } out y;"
        ).params
        == ()
    )
    text = "param w[2]: []; let w_0 = 5.0; out a = w[0], b = w_0;"
    got = values(text, {"w_0": 1, "w_1": 2})
    assert (got["a"], got["b"]) == (1, 5)


def test_constants() -> None:
    got = values(
        "config k = 2; const e = 1e-6 : F64; const m = [[1, 0], [0, k * 2]] : F32; const i = [1, 2]; const u = [0xffffffffffffffff] : U64;"
        "const b = [true, false]; const t = [[[1.5]]]; out o1 = e, o2 = m, o3 = i, o4 = u, o5 = b, o6 = t;"
    )
    assert got["o1"] == 1e-6
    assert got["o2"].tolist() == [[1, 0], [0, 4]]
    assert [v.dtype.name for v in got.values()] == ["float64", "float32", "int32", "uint64", "bool", "float32"]
    assert got["o4"].tolist() == [2**64 - 1]
    assert got["o6"].shape == (1, 1, 1)
    assert str(graph_of("const c = 2; input x: [F16; c]; out y = x * c;").outputs[0].node.type) == "[F16; 2]"


def test_a_static_let_in_a_declaration() -> None:
    text = "config d = 8; let h = d div 3; input x: [?, h]; let k = dim(x, 1) + 1; param w: [h, k]; out y = x @ w;"
    assert str(graph_of(text).outputs[0].node.type) == "[F32; ?, 3]"
    assert warnings_of(text) == []


def test_config_if_around_declarations() -> None:
    text = (
        "config bias = true; input x: [2]; let y = x; if bias { param b: [2]; const two = 2.0; let y = y + b * two; }"
        "else if !bias { param c: [2]; let y = y - c; } out y;"
    )
    assert value(text, {"x": [1, 2], "b": [3, 4]}).tolist() == [7, 10]
    assert value(text, {"x": [1, 2], "c": [3, 4]}, bias=False).tolist() == [-2, -2]


def test_tuple_let() -> None:
    text = (
        "input x: [3, 4]; let (a, _, c) = split(x, 0, 3); let s = x.split(1, 2); let (p) = [x]; out a, c, d = s[1], p;"
    )
    got = values(text, {"x": X})
    assert got["a"].tolist() == X[:1].tolist()
    assert got["c"].tolist() == X[2:].tolist()
    assert got["d"].tolist() == X[:, 2:].tolist()
    assert got["p"].tolist() == X.tolist()


def test_outputs_and_taps() -> None:
    graph = graph_of("input x: []; let y = x; tap t = y * 2, y; out y2 = y; let y = y + 1; output x, z = y;")
    assert [(o.name, o.role) for o in graph.outputs] == [
        ("y2", "out"),
        ("x", "out"),
        ("z", "out"),
        ("t", "tap"),
        ("y", "tap"),
    ]
    got = values("input x: []; let y = x; out y; let y = y + 1;", {"x": 1})
    assert got["y"] == 2


@pytest.mark.parametrize(
    ("end", "want"),
    [
        ("let b = x;", "b"),
        ("let (b, c) = [x, x];", "c"),
        ("scan b = x, c = x for 2 { let b = b; let c = c; emit b as es; }", "c"),
        ("repeat 2 { let b = x; let c = x; }", "c"),
        ("repeat 0 { let a = x; }", "a"),
        ("repeat 0 { let b = x; }", "a"),
        ("if true { let b = x; } else { let c = x; }", "b"),
        ("fn f(v) { return v; }", "a"),
        ("tap t = x;", "a"),
        ("let b = 3;", "b"),
    ],
)
def test_the_default_output(end: str, want: str) -> None:
    graph = graph_of("input x: []; let a = x; " + end)
    assert [o.name for o in graph.outputs if o.role == "out"] == [want]


def test_names_and_docs() -> None:
    assert graph_of('graph "net"; out y = 1;').name == "net"
    assert graph_of("out y = 1;").name == "model"
    assert elaborated('/// What it does.\ngraph "net"; out y = 1;').doc == "What it does."


def test_sizes_are_numbers_too() -> None:
    got = values(
        "input x: [?n, 2]; out m = sum(x) / ?n, r = 1.0 / dim(x, 0), q = sqrt(?n), big = ?n > 2, d = ?n * 2 + 1, f = x * ?n;",
        {"x": [[1, 2], [3, 4], [5, 6]]},
    )
    assert got["m"] == 7
    assert got["r"] == np.float32(1 / 3)
    assert got["q"] == np.sqrt(np.float32(3))
    assert got["big"]
    assert (got["d"], got["d"].dtype) == (7, np.int32)
    assert got["f"][2, 1] == 18


def test_derived_sizes_and_their_guards() -> None:
    graph = graph_of(
        "input x: [?n, 4]; let a = concat([x, x]); let b = x.reshape([?n * 2, 2]); let c = a[.. by 3]; out a, b, c;"
    )
    assert [str(o.node.type) for o in graph.outputs] == [
        "[F32; 2*?n, 4]",
        "[F32; 2*?n, 2]",
        "[F32; ((2*?n + 2) div 3), 4]",
    ]
    graph = graph_of("input x: [?n]; out y = x.reshape([?n / 2, 2]), z = x[..(?n + 1) div 2];")
    assert any(str(s.guard) == "2 divides ?n" for s in graph.guards)
    assert str(graph.outputs[1].node.type) == "[F32; ((?n + 1) div 2)]"
    graph = graph_of("input a: [?n]; input b: [?m]; out c = a + b;")
    assert [str(s.guard) for s in graph.guards] == ["?n == ?m"]
    assert graph.guards[0].origin.span is not None
    assert graph.guards[0].origin.span.text == "a + b"


def test_empty_axes() -> None:
    assert value("config n = 0; input x: [n, 3]; out y = sum(x * 2, 0);", {"x": np.zeros((0, 3))}).tolist() == [0, 0, 0]
    assert value("input x: [?n]; out y = x + 1;", {"x": []}).shape == (0,)


def test_everything_may_be_a_name() -> None:
    text = (
        "config config = 2; input input: [config]; param param: [config]; let let = input + param; let sum = sum(let);"
        "let pi = 2; let F32 = 3; fn fn(x, over) { let scan = x * over; } let out = fn(sum, over: pi) + F32; out out, repeat = let;"
    )
    got = values(text, {"input": [1, 2], "param": [3, 4]})
    assert got["out"] == 23
    assert got["repeat"].tolist() == [4, 6]


def test_origins_name_the_expression() -> None:
    graph = graph_of("input x: [2]; fn f(v) { return exp(v); } out y = f(x) + 1;")
    origin = next(n.origin for n in graph.nodes if n.op.name == "exp")
    assert origin.span is not None
    assert origin.span.text == "exp(v)"
    assert [f.span.text for f in origin.chain] == ["f(x)"]
