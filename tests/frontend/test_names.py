"""What a name means where: scopes of fns, hygiene, namespaces."""

from __future__ import annotations

import pytest

from tests.frontend.elaboration import errors, graph_of, only_error, underlined, value, values, warnings_of


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("fn f(x, w, n: int = 4) { let y = x * w + n; } out y = f(a, b);", [9, 14]),
        ("fn f(x, w, n: int = 4) { let y = x * w + n; } out y = f(w: a, x: b, n: 0);", [5, 10]),
        ("fn f(x, w, n = 4) { return x * w + n; } out y = a.f(b, n: 1);", [6, 11]),
        ("fn f(x, n = 1, m = n * 2) { return x + m; } out y = f(a) + f(a, 2);", [8, 10]),
        ("fn f(x) { let y = x; let y = y * 2; } out y = f(f(a));", [4, 8]),
        ("fn f(x, y) { return x + y, x * y; } let (s, p) = f(a, b); out y = s - p;", [1, -3]),
        ("fn f(x) { let (u, v) = [x, x + 1]; } let (s, p) = f(a); out y = s * p;", [2, 6]),
        ("fn f(x) { repeat 3 { let x = x + 1; } } out y = f(a);", [4, 5]),
        ("fn f(x) { scan h = x for 2 { let h = h * 2; } } out y = f(a);", [4, 8]),
        (
            "fn f(x, on: bool) { if on { let y = x; } else { let y = -x; } } out y = f(a, true) + f(a, on: false) * 2;",
            [-1, -2],
        ),
        ("fn f(ls) { return ls[0] + ls[1]; } out y = f([a, b]) ;", [6, 7]),
        ("fn f(d) { return zeros([d]); } out y = f(dim(a, 0)) + a;", [1, 2]),
        ('fn f(s: str) { let y = a; if s == "two" { let y = b; } return y; } out y = f("two");', [5, 5]),
        ("fn f(t: tensor, k: float) { return t * k; } out y = f(a, 2);", [2, 4]),
    ],
)
def test_calls(text: str, want: list[float]) -> None:
    assert value("input a: [2]; const b = [5, 5] : F32; " + text, {"a": [1, 2]}).tolist() == want


def test_a_static_argument_stays_static() -> None:
    assert graph_of("fn f(x, n) { return x.reshape([n, n * 2]); } input x: [8]; out y = f(x, 2);").outputs[
        0
    ].node.shape == (2, 4)


def test_the_body_sees_what_stands_above_its_definition() -> None:
    text = "input x: []; let k = 1; fn f(v) { return v + k; } let k = 10; out y = f(x) + k;"
    assert value(text, {"x": 0}) == 11


def test_the_body_sees_declarations_in_any_order() -> None:
    assert (
        value(
            "fn f(v) { return v * w + c; } input x: []; let y = f(x); param w: []; config c = 3; out y;",
            {"x": 2, "w": 5},
        )
        == 13
    )


def test_a_let_above_hides_a_declaration_only_below_it() -> None:
    text = "input x: []; fn f() { return x; } let x = x + 1; fn g() { return x; } out a = f(), b = g(), c = x;"
    got = values(text, {"x": 1})
    assert (got["a"], got["b"], got["c"]) == (1, 2, 2)


def test_the_body_sees_nothing_of_the_caller() -> None:
    found = only_error(
        "input x: []; fn f(v) { return v + hidden; } fn g(v) { let hidden = v; return f(hidden); } out y = g(x);"
    )
    assert (found.code, underlined(found)) == ("E0201", "hidden")
    assert [underlined(found)] + [f.span.text for f in found.chain] == ["hidden", "f(hidden)", "g(x)"]


def test_bindings_of_a_body_stay_inside() -> None:
    assert errors("input x: []; fn f(v) { let inner = v; } let y = f(x); out z = inner;") == [("E0201", "inner")]
    assert value("input x: []; let t = 1; fn f(v) { let t = 5; return v * t; } let y = f(x) + t; out y;", {"x": 1}) == 6


def test_a_call_above_the_definition() -> None:
    assert value("input x: []; let y = f(x); fn f(v) { return v * 2; } out y;", {"x": 2}) == 4
    found = only_error("input x: []; let y = f(x); let k = 3; fn f(v) { return v * k; } out y;")
    assert (found.code, underlined(found)) == ("E0201", "k")
    assert "bound below this call" in found.message


def test_values_and_functions_are_two_namespaces() -> None:
    assert value("input x: [2]; let max = max(x); let sum = 2; out y = sum(x) * sum + max;", {"x": [1, 2]}) == 8
    assert value("input f: []; fn f(f) { return f * 2; } out y = f(f);", {"f": 3}) == 6


def test_a_fn_wins_over_an_op() -> None:
    text = "input x: []; fn relu(v) { return v - 1; } out y = relu(x) + x.relu();"
    assert value(text, {"x": -1}) == -4
    assert warnings_of(text) == [("W0903", "relu")]


def test_a_method_that_exists_only_as_such() -> None:
    assert value("input x: [2, 2]; out y = x.select(1, 0);", {"x": [[1, 2], [3, 4]]}).tolist() == [1, 3]


def test_arguments_are_evaluated_once() -> None:
    graph = graph_of("input x: [2]; fn f(v) { return v + v * v; } out y = f(exp(x));")
    assert sum(n.op.name == "exp" for n in graph.nodes) == 1


@pytest.mark.parametrize(
    ("call", "code", "place", "message"),
    [
        ("f()", "E0223", "f()", "lacks its argument `x`"),
        ("f(a)", "E0223", "f(a)", "lacks its argument `n`"),
        ("f(a, 1, 2)", "E0220", "f(a, 1, 2)", "takes 2 arguments, 3 are given"),
        ("f(a, m: 1)", "E0221", "m: 1", "no argument `m`"),
        ("f(a, x: a)", "E0222", "x: a", "given twice"),
        ("f(a, 1.5)", "E0303", "1.5", "static int, not the number 1.5"),
        ("f(a, true)", "E0303", "true", "not `true`"),
        ("f(a, n: a)", "E0303", "n: a", "not a tensor"),
        ('a.f(n: "s")', "E0303", 'n: "s"', "the string"),
        ("g(1)", "E0304", "1", "is a tensor, not the number 1"),
        ("h(a)", "E0209", "itn", "not a type of a parameter"),
        ("f(a, 1) + f(q, 1)", "E0201", "q", "unknown name"),
    ],
)
def test_wrong_calls(call: str, code: str, place: str, message: str) -> None:
    text = f"input a: [2]; fn f(x, n: int) {{ return x * n; }} fn g(t: tensor) {{ return t; }} fn h(t: itn) {{ return t; }} out y = {call};"
    found = only_error(text)
    assert (found.code, underlined(found)) == (code, place)
    assert message in found.message


def test_the_form_of_a_fn_is_a_note_and_a_near_name_is_help() -> None:
    found = only_error("input a: [2]; fn f(width, n: int) { return width * n; } out y = f(widht: a, n: 1);")
    assert found.notes == ("its form is `f(width, n: int)`",)
    assert found.help == "did you mean `width`?"


def test_recursion() -> None:
    found = only_error("input x: []; fn f(v) { return g(v); } fn g(v) { return f(v) + 1; } out y = f(x);")
    assert (found.code, underlined(found)) == ("E0601", "f(v)")
    assert "f → g → f" in found.message
    assert "repeat" in found.help


def test_a_fn_without_a_result() -> None:
    for body in ("repeat 0 { let y = v; }", "if off { let y = v; }"):
        found = only_error(f"config off = false; input x: []; fn f(v) {{ {body} }} out y = f(x);")
        assert (found.code, underlined(found)) == ("E0119", "f(x)")


@pytest.mark.parametrize("count", [200, 900])
def test_fns_inside_fns(count: int) -> None:
    chain = "".join(f"fn f{k}(x) {{ let y = f{k - 1}(x) + 1; }}" for k in range(1, count))
    assert value(f"input x: []; fn f0(x) {{ return x; }} {chain} out y = f{count - 1}(x);", {"x": 1}) == count


def test_fns_too_deep_or_too_many() -> None:
    chain = "".join(f"fn f{k}(x) {{ let y = f{k - 1}(x) + 1; }}" for k in range(1, 1200))
    assert only_error(f"input x: []; fn f0(x) {{ return x; }} {chain} out y = f1199(x);").code == "E0607"
