"""`loop … while` and `if` on a tensor in texts: values, weak numbers, names after them, every refusal."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.frontend.elaboration import errors, graph_of, only_error, underlined, value, values, warnings_of

X = {"x": np.array([1.0, 2.0, 3.0])}


# --------------------------------------------------------------------------------------------- loop


def test_a_loop_and_its_weak_carries() -> None:
    text = "input x: [3]; loop h = x, i = 0, s = 0 while i < 3 { let h = h * 2; let i = i + 1; let s = s + sum(h); } out h, i, s;"
    found = values(text, X)
    assert_allclose(found["h"], X["x"] * 8)
    assert found["i"] == 3
    assert found["i"].dtype == np.int32
    assert found["s"] == 6 * (2 + 4 + 8)
    assert found["s"].dtype == np.float32


@pytest.mark.parametrize(
    ("limit", "steps"), [("max 2", 2), ("max 0", 0), ("max n * 2", 8), ("", 10), ("max dim(x, 0)", 3)]
)
def test_limits(limit: str, steps: int) -> None:
    text = f"config n = 4; input x: [?b]; loop i = 0 while i < 10 {limit} {{ let i = i + 1; }} let y = i + 0 * sum(x); out i;"
    assert value(text, X) == steps


def test_a_condition_known_before_the_run() -> None:
    assert value("loop i = 0 while true max 7 { let i = i + 1; } out i;") == 7
    assert value("loop i = 0 while false { let i = i + 1; } out i;") == 0


def test_the_last_carry_is_the_default_output_and_the_result_of_a_fn() -> None:
    assert_allclose(
        value("input x: [3]; loop i = 0, h = x while i < 2 { let i = i + 1; let h = h * 3; }", X), X["x"] * 9
    )
    text = "fn f(v) { loop h = v while sum(h) < 100.0 { let h = h * 2; } } input x: [3]; let y = f(x); out y;"
    assert_allclose(value(text, X), X["x"] * 32)


def test_names_of_the_body_end_with_it() -> None:
    assert errors("input x: [3]; loop h = x while sum(h) < 9.0 { let q = h * 2; let h = q; } out q;") == [
        ("E0206", "q")
    ]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("loop h = x while sum(h) < 9.0 { let h = sum(h); } out h;", "E0603", "h"),
        ("loop h = x while sum(h) < 9.0 { let h = cast(h, I32); } out h;", "E0603", "h"),
        ("loop h = x while h < 9.0 { let h = h * 2; } out h;", "E0301", "h < 9.0"),
        ("loop h = x while sum(h) { let h = h * 2; } out h;", "E0301", "sum(h)"),
        ("loop h = x while 3 { let h = h * 2; } out h;", "E0301", "3"),
        ("loop h = x while sum(h) < 9.0 max -1 { let h = h * 2; } out h;", "E0602", "-1"),
        ("loop h = x while sum(h) < 9.0 max 2.5 { let h = h * 2; } out h;", "E0602", "2.5"),
        ("loop h = [x, x] while true max 3 { let h = h; } out h;", "E0304", "[x, x]"),
        ("loop h = x while nope(h) { let h = h * 2; } out h;", "E0202", "nope"),
        ("loop h = x while sum(h) < 9.0 { let h = h * nope; } let z = h + 1; out z;", "E0201", "nope"),
    ],
)
def test_what_a_loop_refuses(text: str, code: str, place: str) -> None:
    assert errors("input x: [3]; " + text) == [(code, place)]


def test_grad_inside_a_loop() -> None:
    text = """input x: [3]; loop h = x, i = 0 while i < 20 max 20 {
        let e = sum((h - 5.0) ** 2); let g = grad(e, h); let h = h - 0.25 * g; let i = i + 1; } out h;"""
    assert_allclose(value(text, X), np.full(3, 5.0), rtol=1e-5)


# --------------------------------------------------------------------------------------------- if


def _both(text: str) -> list[dict[str, np.ndarray]]:
    return [values("input x: [3]; input p: [Bool;]; " + text, X | {"p": p}) for p in (True, False)]


def test_a_choice() -> None:
    yes, no = _both("if p { let y = x * 2; let k = 1; } else { let y = sqrt(x); let k = 2; } out y, k;")
    assert_allclose(yes["y"], X["x"] * 2)
    assert_allclose(no["y"], np.sqrt(X["x"]), rtol=1e-6)
    assert (yes["k"], no["k"]) == (1, 2)
    assert yes["k"].dtype == np.int32


def test_names_bound_on_one_side_keep_their_outer_value_on_the_other() -> None:
    yes, no = _both("let y = x; if p { let y = y * 2; } out y;")
    assert_array_equal(yes["y"], X["x"] * 2)
    assert_array_equal(no["y"], X["x"])
    yes, no = _both("let k = 3; if p { let q = 1; } else { let k = x[1]; } out k;")
    assert (yes["k"], no["k"]) == (3, 2)


def test_a_new_name_needs_both_branches() -> None:
    found = errors("input x: [3]; if sum(x) > 0 { let y = x; } out y;")
    assert found == [("E0206", "y")]
    yes, no = _both("if p { let q = 1; } let y = x; out y;")
    assert_array_equal(yes["y"], no["y"])


def test_chains_and_conditions_known_before() -> None:
    text = "if false { let y = x; } else if p { let y = x + 1; } else if x[0] > 5 { let y = x + 2; } else { let y = x + 3; } out y;"
    yes, no = _both(text)
    assert_array_equal(yes["y"], X["x"] + 1)
    assert_array_equal(no["y"], X["x"] + 3)
    graph = graph_of("input x: [3]; if true { let y = x; } else if sum(x) > 0 { let y = x + 1; } out y;")
    assert not any(n.op.name == "cond" for n in graph.nodes)


def test_weak_numbers_adapt() -> None:
    yes, no = _both("let s = sum(x); if p { let y = s; } else { let y = 0; } out y;")
    assert (yes["y"], no["y"]) == (6, 0)
    assert no["y"].dtype == np.float32
    yes, no = _both("if p { let y = 1; } else { let y = 0.5; } out y;")
    assert (yes["y"], no["y"]) == (1, 0.5)


def test_equal_static_values_stay_static() -> None:
    yes, no = _both(
        "if p { let n = 2; let y = x; } else { let n = 2; let y = x + 1; } repeat n { let y = y * 2; } out y;"
    )
    assert_array_equal(yes["y"], X["x"] * 4)
    assert_array_equal(no["y"], (X["x"] + 1) * 4)


def test_lists_are_chosen_item_by_item() -> None:
    yes, no = _both("if p { let v = [x, sum(x)]; } else { let v = [x * 2, x[0]]; } let a = v[0] + v[1]; out a;")
    assert_array_equal(yes["a"], X["x"] + 6)
    assert_array_equal(no["a"], X["x"] * 2 + 1)


def test_what_a_branch_computes_stays_in_it() -> None:
    graph = graph_of(
        "input x: [3]; if sum(x) > 0 { let y = exp(x); } else { let y = log(x); } let z = exp(x) + y; out z;"
    )
    assert [n.op.name for n in graph.nodes].count("exp") == 1
    assert not any(n.op.name == "log" for n in graph.nodes)
    (choice,) = (n for n in graph.nodes if n.op.name == "cond")
    assert any(n.op.name == "log" for n in choice.attrs["orelse"].nodes)
    assert any(n.op.name == "exp" for n in choice.attrs["then"].nodes)


@pytest.mark.parametrize(
    ("left", "right"),
    [("x", "sum(x)"), ("x", "cast(x, I32)"), ("x", "0"), ("argmax(x)", "0.5"), ("true", "1"), ("[x, x]", "x")],
)
def test_branches_that_disagree(left: str, right: str) -> None:
    found = only_error(
        f"input x: [3]; if sum(x) > 0 {{ let y = {left}; }} else {{ let y = {right}; }} let z = y; out z;"
    )
    assert found.code == "E0604"
    places = sorted(label.span.text for label in found.labels)
    assert len(places) == 2
    assert underlined(found) in places


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("if x > 0 { let y = x; } else { let y = x; } out y;", "E0301", "x > 0"),
        ("if sum(x) { let y = x; } else { let y = x; } out y;", "E0301", "sum(x)"),
        ("if 3 { let y = x; } else { let y = x; } out y;", "E0303", "3"),
        ("if sum(x) > 0 { let y = nope; } else { let y = x; } let z = y + 1; out z;", "E0201", "nope"),
        ("if sum(x) > 0 { param w: [3]; let y = w; } else { let y = x; } out y, w;", "E0303", "param w: [3];"),
    ],
)
def test_what_an_if_refuses(text: str, code: str, place: str) -> None:
    assert errors("input x: [3]; " + text) == [(code, place)]


def test_sizes_that_may_differ_become_a_guard() -> None:
    graph = graph_of("input x: [?a]; input z: [?b]; if sum(x) > 0 { let y = x; } else { let y = z; } out y;")
    assert any("branches" in g.guard.what for g in graph.guards)


def test_grad_through_and_inside() -> None:
    text = "input x: [3]; if sum(x) > 0 { let y = sum(x ** 2); } else { let y = sum(x); } let g = grad(y, x); out g;"
    assert_allclose(value(text, X), 2 * X["x"])
    assert_allclose(value(text, {"x": -X["x"]}), np.ones(3))
    inner = "input x: [3]; if sum(x) > 0 { let e = sum(x ** 3); let g = grad(e, x); } else { let g = x; } out g;"
    assert_allclose(value(inner, X), 3 * X["x"] ** 2)


def test_what_is_used_inside_is_used() -> None:
    text = "input x: [3]; loop h = x, i = 0 while i < 3 { let h = h + 1; let i = i + 1; } "
    assert warnings_of(text + "if sum(h) > 0 { let t = h * 2; let y = t; } else { let y = h; } out y;") == []
    assert warnings_of(text + "if sum(h) > 0 { let t = h * 2; let y = h; } else { let y = x; } out y;") == [
        ("W0902", "t")
    ]
