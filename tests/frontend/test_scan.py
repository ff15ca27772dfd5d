"""`scan` in all its forms, evaluated against loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.elaboration import elaborated, errors, graph_of, only_error, underlined, value, values, warnings_of

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_for() -> None:
    assert value("input x: [2]; scan h = x for 3 { let h = h * 2; } out h;", {"x": [1, 2]}).tolist() == [8, 16]
    assert (
        sum(n.op.name == "scan" for n in graph_of("input x: [2]; scan h = x for 3 { let h = h * 2; } out h;").nodes)
        == 1
    )


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_dynamic_length(rows: int) -> None:
    for length in ("dim(x, 0)", "?n", "?n * 2 - ?n"):
        got = value(f"input x: [?n]; scan h = 1.0 for {length} {{ let h = h * 2; }} out h;", {"x": np.zeros(rows)})
        assert got == 2**rows


def test_over_several_sources_with_carries_and_emits() -> None:
    text = (
        "input xs: [?n, 2]; input ys: [?n]; param w: [2];"
        "scan h = zeros([2]), c = 1.0 over x in xs, y in ys { let t = x * w + y; let h = h + t; let c = c * 2; emit t; emit h * c as hc; }"
        "out h, c, t, hc;"
    )
    ys, w = np.array([1, 2, 3], np.float32), np.array([2, 3], np.float32)
    got = values(text, {"xs": X, "ys": ys, "w": w})
    t = X * w + ys[:, None]
    h = np.cumsum(t, 0)
    assert got["t"].tolist() == t.tolist()
    assert got["h"].tolist() == h[-1].tolist()
    assert got["c"] == 8
    assert got["hc"].tolist() == (h * np.array([[2], [4], [8]])).tolist()
    empty = values(text, {"xs": X[:0], "ys": ys[:0], "w": w})
    assert (empty["t"].shape, empty["hc"].shape, empty["h"].tolist()) == ((0, 2), (0, 2), [0, 0])


def test_reverse_keeps_emits_aligned() -> None:
    got = values(
        "input x: [3, 2]; scan h = zeros([2]) over r in x reverse { let h = h + r; emit h as hs; } out h, hs;", {"x": X}
    )
    assert got["hs"].tolist() == np.cumsum(X[::-1], 0)[::-1].tolist()
    assert got["h"].tolist() == X.sum(0).tolist()


def test_outer_names_are_closed_over_and_not_changed() -> None:
    text = "input x: []; let k = x + 1; scan h = x for 2 { let k = k * 2; let h = h + k; } out h, k;"
    got = values(text, {"x": 1})
    assert (got["h"], got["k"]) == (9, 2)


def test_only_carries_and_emits_are_visible_afterwards() -> None:
    assert errors("input x: [2]; scan h = 0.0 over r in x { let t = r; let h = h + t; } out h, t, r;") == [
        ("E0206", "t"),
        ("E0206", "r"),
    ]


def test_bodies_hold_other_statements() -> None:
    text = (
        "config on = true; input x: [3, 2]; fn f(v) { scan v = v for 2 { let v = v + 1; } return v; }"
        "scan h = zeros([2]) over r in x { repeat i in 1..3 { let h = h + r * i; }"
        "if on { let h = f(h); } let (a, b) = [h, r]; emit a + b as s; } out h, s;"
    )
    h = np.zeros(2)
    rows = []
    for r in X:
        h = h + r * 3 + 2
        rows.append((h + r).tolist())
    got = values(text, {"x": X})
    assert got["h"].tolist() == h.tolist()
    assert got["s"].tolist() == rows


@pytest.mark.parametrize(
    ("start", "body", "dtype", "want"),
    [
        ("0", "h + 1", "int32", 3),
        ("0", "h + 0.5", "float32", 1.5),
        ("1", "h / 2", "float32", 0.125),
        ("0", "h + s", "float16", 6),
        ("0.0", "h + i", "float32", 3),
        ("c * 2", "h + s", "float16", 14),
        ("true", "h & false", "bool", False),
        ("false", "h + 1", "int32", 3),
        ("0", "1.5", "float32", 1.5),
    ],
)
def test_a_weak_start_takes_the_dtype_of_the_result(start: str, body: str, dtype: str, want: float) -> None:
    got = value(
        f"config c = 4; input s: [F16;]; input i: [I32;]; scan h = {start} for 3 {{ let h = {body}; }} out h;",
        {"s": 2, "i": 1},
    )
    assert got.dtype.name == dtype
    assert got == want


def test_the_core_rule() -> None:
    text = "input x: []; scan h = x for 3 { let t = h * 2; let next = t + 1; } out h;"
    assert value(text, {"x": 1}) == 15
    assert [code for code, _ in warnings_of(text)] == ["W0905"]
    (warning,) = elaborated(text).diagnostics
    assert "`next`" in warning.message
    assert warning.help == "write `let h = …;`"


def test_a_carry_that_keeps_its_value() -> None:
    text = "input x: [3]; scan h = 0.0, c = 5.0 over r in x { let h = h + r; } out h, c;"
    got = values(text, {"x": [1, 2, 3]})
    assert (got["h"], got["c"]) == (6, 5)
    assert warnings_of(text) == [("W0905", "c = 5.0")]
    text = "input x: [3]; scan h = 1.0 over r in x { let t = r * 2; emit t; } out h, t;"
    assert values(text, {"x": [1, 2, 3]})["h"] == 1
    assert warnings_of(text) == [("W0905", "h = 1.0")]


def test_unequal_lengths_are_a_guard() -> None:
    graph = graph_of("input a: [?n]; input b: [?m]; scan h = 0.0 over x in a, y in b { let h = h + x * y; } out h;")
    assert "?n == ?m" in {str(s.guard) for s in graph.guards}


def test_guards_of_a_body_reach_the_graph() -> None:
    graph = graph_of("input a: [3, ?n]; input b: [?m]; scan h = b over x in a { let h = h + x; } out h;")
    assert any(str(s.guard) in ("?m == ?n", "?n == ?m") for s in graph.guards)


@pytest.mark.parametrize(
    ("scan", "code", "place", "message"),
    [
        ("scan h = x for 3 { let h = concat([h, h]); }", "E0603", "h", "from [F32; 3] to [F32; 6]"),
        ("scan h = x for 3 { let h = h > 1; }", "E0603", "h", "to [Bool; 3]"),
        ("scan h = x for 3 { let h = sum(h); }", "E0603", "h", "to [F32;]"),
        ("scan h = 0 for 3 { let h = h + x; }", "E0603", "h", "to [F32; 3]"),
        ("scan h = x for 3 { let h = [h, h]; }", "E0603", "h = x", "a list of 2"),
        ("scan h = x for -1 { let h = h; }", "E0602", "-1", "-1"),
        ("scan h = x for 1.5 { let h = h; }", "E0602", "1.5", "1.5"),
        ("scan h = x for sum(x) { let h = h; }", "E0602", "sum(x)", "a tensor"),
        ("scan h = [x] for 3 { let h = h; }", "E0304", "[x]", "a list of 1"),
        ("scan h = x over r in 3 { let h = h + r; }", "E0304", "3", "the number 3"),
        ("scan h = x over r in sum(x) { let h = h + r; }", "E0304", "sum(x)", "at least one axis"),
        ("scan h = x over r in x, s in concat([x, x]) { let h = h + r * s; }", "E0401", "concat([x, x])", "3 and 6"),
        ("scan h = x for 2 { let h = h + 1; emit h; }", "E0211", "h", "two values after the scan"),
        ("scan h = x for 2 { let h = h + 1; emit h as e; emit x as e; }", "E0211", "e", "two values"),
        ("scan h = x for 2 { let h = h + 1; emit [h] as e; }", "E0304", "emit [h] as e;", "a list of 1"),
        ("scan h = x for 2 { let h = h + nope; }", "E0201", "nope", "unknown name"),
        ("scan h = x for 2 { let h = h + concat([x, x]); }", "E0401", "+", "do not fit"),
    ],
)
def test_errors(scan: str, code: str, place: str, message: str) -> None:
    found = only_error(f"input x: [3]; {scan} out h;")
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message


def test_warnings_of_a_body_elaborated_twice_come_once() -> None:
    text = "input x: [3]; scan h = 0 over r in x { let h = h + r + sum(x[..9]); } out h;"
    assert warnings_of(text) == [("W0906", "x[..9]")]
