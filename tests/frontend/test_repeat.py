"""`repeat` in all its forms, and `if` on config Bools."""

from __future__ import annotations

import pytest

from tests.frontend.elaboration import errors, graph_of, only_error, underlined, value, values


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("repeat 4 { let y = y + 1; }", 5),
        ("repeat n { let y = y + 1; }", 4),
        ("repeat n * 2 - 1 { let y = y + 1; }", 6),
        ("repeat 0 { let y = y + 1; }", 1),
        ("repeat i in 0..4 { let y = y + i; }", 7),
        ("repeat i in 1..=n { let y = y * i; }", 6),
        ("repeat i in 4..1 { let y = y + 1; }", 1),
        ("repeat i in -2..2 { let y = y + i; }", -1),
        ("repeat i in 0..7 by 3 { let y = y * 10 + i; }", 1036),
        ("repeat i in 3..0 by -1 { let y = y * 10 + i; }", 1321),
        ("repeat i in 3..=0 by -1 { let y = y * 10 + i; }", 13210),
        ("repeat i in 0..3 { repeat j in 0..i { let y = y * 10 + j; } }", 1001),
        ("repeat i in 0..2 { scan y = y for 2 { let y = y + i; } }", 3),
        (
            "repeat i in 0..4 { if i % 2 == 0 { let y = y + 10; } else if i == 1 { let y = y + 1; } else { let y = y + 0; } }",
            22,
        ),
        ("repeat dim(v, 0) { let y = y + 1; }", 3),
        ("repeat i in 0..3 { let (y, z) = [y + i, y]; }", 4),
    ],
)
def test_values(body: str, want: int) -> None:
    assert value(f"config n = 3; input y: []; input v: [2]; {body} out y;", {"y": 1, "v": [0, 0]}) == want


def test_names_of_the_body() -> None:
    text = "input x: []; let y = x; repeat i in 0..3 { let new = y * i; let y = y + new; } out y, new;"
    got = values(text, {"x": 1})
    assert (got["y"], got["new"]) == (6, 4)


def test_the_variable_is_gone_afterwards() -> None:
    assert errors("input x: []; repeat i in 0..3 { let y = x + i; } out y, z = i;") == [("E0201", "i")]
    assert value("input x: []; let i = 7; repeat i in 0..3 { let y = x + i; } out z = y * i;", {"x": 1}) == 21
    assert value("config i = 7; input x: []; repeat i in 0..3 { let y = x + i; } out z = y * i;", {"x": 1}) == 21


def test_a_new_name_of_a_loop_that_did_not_run() -> None:
    found = only_error("input x: []; repeat 0 { let y = x; } let z = y + 1;")
    assert (found.code, underlined(found)) == ("E0201", "y")
    assert "did not run" in found.message


def test_shapes_may_change() -> None:
    graph = graph_of("input x: [2]; let y = x; repeat 3 { let y = concat([y, y]); } out y;")
    assert graph.outputs[0].node.shape == (16,)


@pytest.mark.parametrize(
    ("loop", "code", "place", "message"),
    [
        ("repeat -1 { let y = x; }", "E0602", "-1", "-1"),
        ("repeat 1.5 { let y = x; }", "E0303", "1.5", "the number 1.5"),
        ("repeat sum(x) { let y = x; }", "E0303", "sum(x)", "known while the graph is built"),
        ("repeat ?n { let y = x; }", "E0303", "?n", "the size `?n`"),
        ("repeat true { let y = x; }", "E0303", "true", "not `true`"),
        ("repeat i in 0..1.5 { let y = x; }", "E0303", "1.5", "the number 1.5"),
        ("repeat i in 0..3 by 0 { let y = x; }", "E0602", "0..3 by 0", "step"),
        ("repeat 10000000 { let y = x; }", "E0602", "repeat 10000000 { let y = x; }", "unrolled"),
        ("repeat i in 0..10 ** 30 { let y = x; }", "E0602", "repeat i in 0..10 ** 30 { let y = x; }", "unrolled"),
    ],
)
def test_wrong_counts(loop: str, code: str, place: str, message: str) -> None:
    found = only_error(f"input x: [?n]; {loop} out y;")
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message


def test_an_error_in_the_body_is_told_once_with_its_iteration() -> None:
    found = only_error("input x: [3]; let y = x; repeat i in 0..9 { let y = y + x[i]; } out z = y + 1;")
    assert (found.code, underlined(found)) == ("E0406", "x[i]")
    assert [f.text for f in found.chain] == ["in the iteration i = 3"]


def test_an_error_elsewhere_does_not_stop_a_loop() -> None:
    text = "input x: [8]; let q = nope; let y = x; repeat 3 { let y = y.reshape([2, -1])[0]; } out z = y + [1];"
    assert errors(text) == [("E0201", "nope"), ("E0304", "[1]")]


def test_an_if_is_decided_by_a_config() -> None:
    text = "config k = 1; input x: []; let y = x; if k == 1 { let y = x * 2; } else if k == 2 { let y = x * 3; } else { let z = x; } out y;"
    assert [value(text, {"x": 1}, k=k) for k in (1, 2, 3)] == [2, 3, 1]


def test_names_of_the_branch_that_is_not_taken() -> None:
    found = only_error("config on = false; input x: []; if on { let y = x; } let z = y;")
    assert (found.code, underlined(found)) == ("E0201", "y")
    assert "not taken" in found.message
    found = only_error("config on = false; input x: []; if on { param w: []; let x = w; } out x, w;")
    assert (found.code, underlined(found)) == ("E0206", "w")


@pytest.mark.parametrize(("condition", "place"), [("1", "1"), ('"a"', '"a"'), ("nope", "nope")])
def test_wrong_conditions(condition: str, place: str) -> None:
    found = errors(f"input x: []; if {condition} {{ let y = x; }} out y;")
    assert found == [("E0201" if place == "nope" else "E0303", place)]
