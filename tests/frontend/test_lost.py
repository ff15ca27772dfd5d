"""Texts with syntax errors are elaborated all the same: other faults are reported, and what follows from the lost part is not."""

from __future__ import annotations

import pytest

from rlxlang.diagnostics import Source
from rlxlang.frontend.parse import parse_module
from tests.frontend.elaboration import elaborated, errors

X = "input x: [3]; "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (X + "let y = ; let z = unknwn(x); let q = x @ 3;", [("E0110", ";"), ("E0202", "unknwn"), ("E0404", "@")]),
        ("input x [3]; let z = reluu(x) + x.geluu(); let a = x + nope; let q = [1, 2][7]; out z;",
         [("E0121", ""), ("E0202", "reluu"), ("E0202", "geluu"), ("E0201", "nope"), ("E0406", "7")]),
        (X + "let (a, b) = split(x, ; let c = a + b + d;", [("E0110", ";"), ("E0201", "d")]),
        (X + "fn f(v) { let a = v + ; let b = a * nope; return b; } let y = f(x) @ 3;", [("E0110", ";"), ("E0201", "nope")]),
        (X + "fn f(v { let a = v; } let y = f(x) @ 3 + q;", [("E0101", "{"), ("E0201", "q")]),
        (X + "def f(v) { return v; } let y = f(x) + g(x);", [("E0109", "def"), ("E0202", "g")]),
        (X + "fn f(v) { let y = v +; } out y = f(x);", [("E0110", ";")]),
        ("input x: [3, 4]; let h = x; let h = matmul(h, ; let y = h @ x; let k = x @ x;", [("E0110", ";"), ("E0402", "@")]),
        (X + "scan s = x for 3 { let s = s * ; emit s as ss; } let u = ss + s + kk;", [("E0110", ";"), ("E0201", "kk")]),
        (X + "scan s = x for 3 { let s = s + x; emit s ass; } let u = ss + s + kk;", [("E0101", "ass"), ("E0201", "ss"), ("E0201", "kk")]),
        (X + "let y = x; repeat 2 { let y = y + ; } let z = y @ 3; let a = x[9];", [("E0110", ";"), ("E0406", "x[9]")]),
        ("param w[3] [3]; let y = w_0 + w_1 + q_0;", [("E0101", "["), ("E0201", "q_0")]),
        ("config d 3; input x: [d, e];", [("E0101", "3"), ("E0201", "e")]),
        (X + "use nn:{dense}; let y = dense(x, 3) + max(x, yy);", [("E0101", ":"), ("E0201", "yy")]),
        (X + "use nn:*; let y = whatever(x) + thing; let z = x[7];", [("E0101", ":"), ("E0406", "x[7]")]),
        ("inptu x: [F32; 3]; let y = x @ 3; let z = q;", [("E0109", "inptu"), ("E0201", "q")]),
        (X + "y = relu(x); let z = y + relu(q);", [("E0109", "y"), ("E0201", "q")]),
        (X + "for i in 0..3 { let t = x + i; } let z = t + i + q;", [("E0109", "for"), ("E0201", "q")]),
        (X + "let r = relu(x; let z = relu(x) @ 3;", [("E0101", ";"), ("E0404", "@")]),
        (X + "fn f(v) { let y = v; let z = f(x); out z;", [("E0104", "{")]),
        (X + "fn f(v) { return v * 2; } vjp f(v, g) { let dv = g * ; } out y = f(x) @ 3 + q;", [("E0110", ";"), ("E0201", "q")]),
    ],
)  # fmt: skip
def test_faults_of_one_text_are_reported_together(text: str, found: list[tuple[str, str]]) -> None:
    assert errors(text) == found


@pytest.mark.parametrize("name", ["declaration", "fn", "comment"])
def test_nothing_is_invented_where_names_are_unknown(name: str) -> None:
    text = {
        "declaration": X + "out f(x); let y = x;",
        "fn": X + "fn f(v) { let y = v; param w: [3]; let z = w; ",
        "comment": X + "let y = x; /* let z = y; out z;",
    }[name]
    assert len(errors(text)) == 1


def test_overrides_of_lost_configs_are_silent() -> None:
    found = elaborated("config d == 3; input x: [3]; out y = x;", d=4, e=5)
    assert [d.code for d in found.diagnostics] == ["E0205", "E0110"]


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("input x [?b];", "write `input x: [?b]`"),
        ("input x [?b, 3];", "write `input x: [?b, 3]`"),
        ("param w[3, 4] = zeros();", "write `param w: [3, 4]`"),
        ("param w [3] = zeros();", "write `param w: [3]`"),
        ("input y: [3]; input ids [I32; 3];", "write `input ids: [I32; 3]`"),
    ],
)
def test_a_missing_colon(text: str, help_: str) -> None:
    (found,) = parse_module(Source("t", text)).errors
    assert (found.code, found.help) == ("E0121", help_)
    assert found.span is not None
    assert text[found.span.start :].lstrip().startswith("[")


def test_a_missing_sign_is_no_mut() -> None:
    (found,) = parse_module(Source("t", "let y relu(x);")).errors
    assert (found.code, found.message) == ("E0101", "expected `=`, found `relu`")
