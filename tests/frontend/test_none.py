"""`none`: an argument that is not given, and `dim` of a list."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.elaboration import errors, graph_of, value

X = {"x": np.array([1.0, 4.0])}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("fn f(x, s = none) { if s == none { let y = x; } else { let y = x * s; } return y; } out r = f(x);", [1, 4]),
        ("fn f(x, s = none) { if s != none { let x = x * s; } return x; } out r = f(x, x);", [1, 16]),
        ("fn f(x, s = none) { if s != none { let x = x * s; } return x; } out r = f(x, s: 3);", [3, 12]),
        ("fn f(x, s = none) { if s != none { let x = x * s; } return x; } out r = f(x, none);", [1, 4]),
        ("fn f(x, s = none) { if s != none { let x = x * s[0]; } return x; } out r = f(x, [x]);", [1, 16]),
        ("fn f(x, b = none) { return linear(x, x[new, ..], b); } out r = f(x);", [17]),
        ("fn f(x, b = none) { return linear(x, x[new, ..], b: b); } out r = f(x, x[0..1]);", [18]),
        ("out r = layer_norm(x, none, none, eps: 0.0);", [-1, 1]),
        ("out r = softmax(x * 0, none);", [0.5, 0.5]),
        ("let none = 2 * x; out r = none;", [2, 8]),
    ],
)
def test_optional_arguments(body: str, expected: list[float]) -> None:
    np.testing.assert_allclose(value(f"input x: [2]; {body}", X), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ("let y = x + none;", "E0304", "none"),
        ("let y = -none; out x;", "E0304", "-none"),
        ("let y = x[none];", "E0303", "x[none]"),
        ("let y = relu(none);", "E0304", "relu(none)"),
        ("out none;", "E0206", "none"),
        ("let y = none; out y;", "E0304", "y"),
        ("let y = if_none(x);", "E0202", "if_none"),
        ("if none { let y = x; } out x;", "E0303", "none"),
        ("let y = none < 1; out x;", "E0304", "none"),
        ("let y = concat([x, none]);", "E0304", "concat([x, none])"),
        ("fn f(n: int) { return x * n; } let y = f(none);", "E0303", "none"),
        ("param w: [2] = none; out y = x * w;", "E0303", "none"),
    ],
)
def test_where_it_is_no_value(body: str, code: str, place: str) -> None:
    assert errors(f"input x: [2]; {body}") == [(code, place)]


def test_lists_have_a_dim() -> None:
    text = """
    fn chain(x, sizes) {
      repeat i in 0..dim(sizes, 0) { let x = concat([x, zeros([sizes[i]])]); }
      return x;
    }
    input x: [2];
    param w[3]: [2];
    out y = chain(x, [3, 4]) + dim(w, 0) + dim([], -1);
    out z = stack(w);"""
    assert [str(o.node.type) for o in graph_of(text).outputs] == ["[F32; 9]", "[F32; 3, 2]"]
    assert errors("input x: [2]; let y = x + dim([x, x], 1);") == [("E0304", "[x, x]")]
