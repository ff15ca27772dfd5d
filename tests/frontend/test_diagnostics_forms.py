"""Forms that are not built yet: one clear error each, and silence afterwards."""

from __future__ import annotations

import pytest

from tests.frontend.elaboration import errors


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("use nn; let y = nn::dense(x, 4); let z = y + 1; out z;", "use nn;"),
        ("use nn as m; let y = m::dense(x, 4) as fc; out y, z = m::k;", "use nn as m;"),
        ("use nn::{dense, mha as at}; let y = dense(x) + x.at(); out y;", "use nn::{dense, mha as at};"),
        ("use nn::*; let y = whatever(x) + thing; out y;", "use nn::*;"),
        ('use "lib/blocks.rlx"; let y = blocks::f(x); out y;', 'use "lib/blocks.rlx";'),
        ("bind t, ls[]; let y = x + t * ls[0].w; out y;", "bind t, ls[];"),
        ("block b(v) { param w: [3]; let y = v * w; } let y = b(x); let z = b(y) as fc; let q = x.b(); out y, z, q;",
         "block b(v) { param w: [3]; let y = v * w; }"),
        ("let y = later(x); block later(v) { let y = v; } out y;", "block later(v) { let y = v; }"),
    ],
)  # fmt: skip
def test_one_error(text: str, place: str) -> None:
    found = errors("input x: [3]; " + text)
    assert found[0] == ("E0606", place)
    assert found[1:] == []


def test_what_is_wrong_elsewhere_is_still_told() -> None:
    found = errors("input x: [3]; use nn; let y = nn::dense(x); let z = y + 1; let a = x + nope; let b = x[7]; out z;")
    assert found == [("E0606", "use nn;"), ("E0201", "nope"), ("E0406", "x[7]")]


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
