"""A statement that is refused gives one clear error, and what it would have brought in is silent."""

from __future__ import annotations

import pytest

from tests.frontend.elaboration import errors


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("use nnn; let y = nnn::dense(x, 4); let z = y + 1; out z;", "E0203", "nnn"),
        ("use nnn as m; let y = m::dense(x, 4) as fc; out y, z = m::k;", "E0203", "nnn"),
        ("use nnn::{dense, mha as at}; let y = dense(x) + x.at(); out y;", "E0203", "nnn"),
        ("use nnn::*; let y = whatever(x) + thing; out y;", "E0203", "nnn"),
        ('use "lib/blocks.rlx"; let y = blocks::f(x); out y;', "E0203", '"lib/blocks.rlx"'),
        ("bind t; let y = x + t * 2; out y;", "E0215", "t"),
        ("bind ls[]; let y = x + ls[0].w; out y;", "E0215", "ls[]"),
        ("block b(v) { param w: [3, nope]; let y = v * w; } let y = b(x); let z = y + 1; out z;", "E0201", "nope"),
    ],
)  # fmt: skip
def test_one_error(text: str, code: str, place: str) -> None:
    assert errors("input x: [3]; " + text) == [(code, place)]


def test_what_is_wrong_elsewhere_is_still_told() -> None:
    found = errors(
        "input x: [3]; use nnn; let y = nnn::dense(x); let z = y + 1; let a = x + nope; let b = x[7]; out z;"
    )
    assert found == [("E0203", "nnn"), ("E0201", "nope"), ("E0406", "x[7]")]


@pytest.mark.parametrize(
    ("call", "code", "place"),
    [
        ("relu(x) as r", "E0114", "relu(x) as r"),
        ("f(x) as r", "E0114", "f(x) as r"),
        ("denze(x) as r", "E0202", "denze"),
    ],
)
def test_as_without_a_block(call: str, code: str, place: str) -> None:
    assert errors(f"input x: [3]; fn f(v) {{ return v; }} let y = {call}; out y;") == [(code, place)]
