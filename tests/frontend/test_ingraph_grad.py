"""`grad(y, a, …)` in a text: what it takes, what it gives, where its leaves are, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from tests.frontend.elaboration import errors, only_error, underlined, value, values, warnings_of

X, W = np.array([0.5, -1.0, 2.0], np.float32), np.array([1.0, 0.3, -0.7], np.float32)
GIVEN = {"x": X, "w": W}
HEAD = "input x: [3]; param w: [3]; "


def close(found: np.ndarray, want: object) -> None:
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-6)


def test_one_argument_is_a_tensor_several_are_a_list() -> None:
    got = values(HEAD + "let y = sum(x * x * w); let g = grad(y, w); let (a, b) = y.grad(x, w); out g, a, b;", GIVEN)
    close(got["g"], X * X)
    close(got["a"], 2 * X * W)
    close(got["b"], X * X)


def test_a_family_and_its_elements() -> None:
    text = "input x: [2]; param w[3]: [2]; let y = sum(w[0] * x + w[2] * w[2]); "
    given = {"x": [1, 2], "w_0": [1, 1], "w_1": [2, 2], "w_2": [3, 4]}
    assert value(text + "out g = stack(grad(y, w));", given).tolist() == [[1, 2], [0, 0], [6, 8]]
    assert value(text + "out g = grad(y, w[2]);", given).tolist() == [6, 8]
    got = values(text + "let (a, b) = grad(y, x, w); out a, b = stack(b);", given)
    assert got["a"].tolist() == [1, 1]
    assert got["b"].shape == (3, 2)


def test_a_name_means_its_binding_at_that_point() -> None:
    got = values(
        HEAD + "let h = x * 2; let y = sum(h * h); let g = grad(y, h); let h = h + 1; let z = grad(y, h); out g, z;",
        GIVEN,
    )
    close(got["g"], 4 * X)
    assert got["z"].tolist() == [0, 0, 0]


def test_second_derivatives_and_penalties() -> None:
    text = (
        HEAD
        + "let y = sum(tanh(x * w)); let g = grad(y, x); let loss = y + sum(g * g); let d = grad(loss, w); out loss, d;"
    )
    graph = rlx.loads(text).with_params({"w": W})
    found = graph.run(x=X)
    for k in range(3):
        step = np.zeros(3, np.float64)
        step[k] = 1e-5

        def loss(w: np.ndarray) -> float:
            t = np.tanh(X.astype(np.float64) * w)
            return float(t.sum() + (((1 - t * t) * w) ** 2).sum())

        close(found[1][k], (loss(W + step) - loss(W - step)) / 2e-5)
    close(graph.grad(["w"]).run(x=X)[0], found[1])


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_transforms_of_a_graph_with_derivatives(device: str) -> None:
    f = rlx.loads(HEAD + "let y = sum(w * x ** 3); let g = grad(y, x); out s = sum(g * x), g;").with_params({"w": W})
    close(f.grad(["x"]).run_on(device, x=X)[0], 9 * W * X**2)
    close(f.hvp(["x"]).run_on(device, x=X, tangent_x=W)[0], 18 * W * X * W)
    lanes = np.stack([X, 2 * X])
    close(f.vmap(["x"]).run_on(device, x=lanes)[1], 3 * W * lanes**2)
    close(f.grad(["x"]).vmap(["x"]).run_on(device, x=lanes)[0], 9 * W * lanes**2)


def test_outer_names_are_leaves_in_a_scan() -> None:
    text = (
        "input x: [3]; input w: [3]; let k = w * 2; scan h = x for 2 {"
        " let e = sum(h * h * k); let a = grad(e, k); let b = grad(e, w); let h = grad(e, h); emit a as a; emit b as b; } out h, a, b;"
    )
    got = values(text, GIVEN)
    h = X
    for step in range(2):
        close(got["a"][step], h * h)
        h = 4 * h * W
    close(got["h"], h)
    assert not got["b"].any()


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("let h = h + grad(e, w);", [("W0900", "e")]),
        ("let e = sum(h * w); let h = h + grad(e, w);", []),
        ("let h = h + grad(e, e) * w;", []),
    ],
)
def test_a_value_from_outside_of_a_scan_has_no_derivative_in_it(body: str, want: list[tuple[str, str]]) -> None:
    text = f"input x: [3]; input w: [3]; let e = sum(x * w); scan h = x for 2 {{ {body} }} out h, e;"
    assert warnings_of(text) == want


def test_what_a_scan_computes_is_no_leaf_even_if_it_equals_an_outer_value() -> None:
    text = (
        "input x: [3]; input w: [3]; let k = tanh(w); scan h = x for 1 {"
        " let s = tanh(w); let e = sum(h * s); emit grad(e, w) as a; let h = h * k; } out h, a;"
    )
    close(values(text, GIVEN)["a"][0], X * (1 - np.tanh(W) ** 2))


def test_inside_a_fn_derivatives_are_total() -> None:
    text = HEAD + "fn force(e, at) { return -grad(e, at); } let k = x * w; let e = sum(k * k); out f = force(e, x);"
    close(value(text, GIVEN), -2 * X * W * W)


def test_gradient_descent_in_a_scan() -> None:
    text = "input x: [3]; scan h = x for 40 { let e = sum((h - 1) ** 2); let h = h - 0.2 * grad(e, h); } out h;"
    close(value(text, GIVEN), np.ones(3))


def test_a_fn_called_grad_wins() -> None:
    assert (
        value("input x: [3]; fn grad(a, b) { return a + b; } out y = grad(x, 1);", GIVEN).tolist() == (X + 1).tolist()
    )


def test_in_an_expression_from_python() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [3])
        return rlx.expr("grad(y, x)", y=(x * x).sum(), x=x)

    close(rlx.Func("g", build).run(x=X)[0], 2 * X)


@pytest.mark.parametrize(
    ("call", "code", "place"),
    [
        ("grad(x, w)", "E0503", "x"),
        ("grad(sum(n), w)", "E0501", "sum(n)"),
        ("grad(y, n)", "E0501", "n"),
        ("grad(y, x * 2)", "E0502", "x * 2"),
        ("grad(y, x[0])", "E0502", "x[0]"),
        ("grad(y, 3)", "E0502", "3"),
        ("grad(y, c)", "E0304", "c"),
        ("grad(3.0, x)", "E0304", "3.0"),
        ("grad(y)", "E0220", "grad(y)"),
        ("grad(y, wrt: x)", "E0221", "wrt: x"),
        ("grad(y, nope)", "E0201", "nope"),
    ],
)
def test_errors(call: str, code: str, place: str) -> None:
    found = only_error(
        f"config c = 2; input x: [3]; input w: [3]; input n: [I32; 3]; let y = sum(x * w); out g = {call};"
    )
    assert (found.code, underlined(found)) == (code, place)


def test_the_help_reduces() -> None:
    found = only_error("input x: [3]; let h = x * 2; out g = grad(h, x);")
    assert "mean(h)" in found.help


def test_counts_must_agree() -> None:
    assert errors("input x: [3]; let y = sum(x); let (a, b, c) = grad(y, x, x); out a;")[0][0] == "E0408"
