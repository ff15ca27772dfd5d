"""`block` and `as`: parameters of every call, their names, and what may be read of them afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from tests.frontend.elaboration import errors, graph_of, only_error, value, warnings_of

DENSE = """
block dense(x, n: int, act: str = "none") {
  param w: [dim(x, -1), n] = he_normal();
  param b: [n] = zeros();
  let y = x @ w + b;
  if act == "relu" { let y = relu(y); }
  return y;
}
"""


def params(text: str, **configs: object) -> list[str]:
    return [p.name for p in graph_of(text, **configs).params]


# ------------------------------------------------------------------------------------------------ names
@pytest.mark.parametrize(
    ("calls", "names"),
    [
        ("let y = dense(x, 3);", ["dense_0.w", "dense_0.b"]),
        ("let h = dense(x, 3); let y = dense(h, 2);", ["dense_0.w", "dense_0.b", "dense_1.w", "dense_1.b"]),
        ("let y = dense(x, 3) as fc;", ["fc.w", "fc.b"]),
        ('let y = dense(x, 3) as "a.b";', ["a.b.w", "a.b.b"]),
        ("let h = dense(x, 4) as fc; let y = dense(h, 4);", ["fc.w", "fc.b", "dense_0.w", "dense_0.b"]),
        ("let y = x.dense(3) as fc;", ["fc.w", "fc.b"]),
        ("let y = dense(n: 3, x: x) as fc;", ["fc.w", "fc.b"]),
        ("let y = (dense(x, 3) as fc) + (dense(x, 3) as fd);", ["fc.w", "fc.b", "fd.w", "fd.b"]),
        (
            'repeat i in 0..2 { let x = dense(x, 4) as "h.{i}"; } let y = x;',
            ["h.0.w", "h.0.b", "h.1.w", "h.1.b"],
        ),
        ("repeat 2 { let x = dense(x, 4); } let y = x;", ["dense_0.w", "dense_0.b", "dense_1.w", "dense_1.b"]),
        ('let tag = "t"; let y = dense(x, 3) as "{tag}_{{}}";', ["t_{}.w", "t_{}.b"]),
        ("fn f(v) { return dense(v, 4); } let y = f(f(x));", ["dense_0.w", "dense_0.b", "dense_1.w", "dense_1.b"]),
        ("out y = dense(x, 3) as fc;", ["fc.w", "fc.b"]),
        ("let y = concat([dense(x, 3) as p, dense(x, 2) as q], axis: 1);", ["p.w", "p.b", "q.w", "q.b"]),
    ],
)
def test_names_of_parameters(calls: str, names: list[str]) -> None:
    assert params(f"{DENSE} input x: [?, 4]; {calls}") == names


def test_nested_blocks_join_with_points() -> None:
    text = f"""{DENSE}
    block mlp(x, n: int) {{ let h = dense(x, n) as fc; return dense(dense(h, n), 2); }}
    input x: [3, 4];
    let y = mlp(x, 5) as net;
    let z = mlp(x, 5);
    out y, z;"""
    inner = ["fc.w", "fc.b", "dense_0.w", "dense_0.b", "dense_1.w", "dense_1.b"]
    assert params(text) == [f"{outer}.{name}" for outer in ("net", "mlp_0") for name in inner]


def test_run_time_names_inside_a_block_are_prefixed() -> None:
    text = """block b(x) { param w @ "weight": [3]; param ws[2] @ "l.{i}": [3]; param v[2]: [3]; return x * w * ws[0] * v[1]; }
    input x: [3]; let y = b(x) as n;"""
    assert params(text) == ["n.weight", "n.l.0", "n.l.1", "n.v_0", "n.v_1"]


def test_only_unnamed_calls_of_that_block_count() -> None:
    text = "block a(x) { param w: []; return x * w; } block b(x) { param w: []; return x * w; } input x: [];"
    assert params(text + "let y = b(a(b(a(x) as n)));") == ["n.w", "b_0.w", "a_0.w", "b_1.w"]


@pytest.mark.parametrize(
    ("calls", "code", "place", "help_"),
    [
        ("let y = dense(x, 4) as a; let z = dense(y, 4) as a;", "E0212", "a", "{i}"),
        ('repeat i in 0..2 { let x = dense(x, 4) as "h"; } let y = x;', "E0212", '"h"', "{i}"),
        ('repeat i in 0..2 { let x = dense(x, 4) as "h.{k}"; } let y = x;', "E0126", "k", ""),
        ("let y = dense(x, 4) as dense_0; let z = dense(y, 4);", "E0212", "dense(y, 4)", ""),
        ("param a: [4]; let y = dense(x, 4) as a; let z = y * a;", None, "", ""),
        ("let y = dense(x, 4) as fc; let z = fc.v;", "E0207", "v", "w"),
        ("let y = dense(x, 4) as fc; let z = fc + 1;", "E0304", "fc", ""),
        ("let y = dense(x, 4) as fc; out fc;", "E0304", "fc", ""),
        ("let y = dense(x);", "E0223", "dense(x)", ""),
        ("let y = dense(x, 4, 5, 6);", "E0220", "dense(x, 4, 5, 6)", ""),
        ("let y = dense(x, acts: 4);", "E0221", "acts: 4", "act"),
        ("let y = dense(x, x);", "E0303", "x", ""),
        ("let y = denze(x, 4);", "E0202", "denze", "dense"),
        ("let y = denze(x, 4) as q;", "E0202", "denze", "dense"),
    ],
)
def test_what_is_wrong(calls: str, code: str | None, place: str, help_: str) -> None:
    text = f"{DENSE} input x: [?, 4]; {calls}"
    if code is None:
        graph_of(text)
        return
    problem = only_error(text)
    assert (problem.code, problem.span.text if problem.span else "") == (code, place)
    assert help_ in "".join(problem.helps)


def test_a_run_time_name_that_a_block_would_take_again() -> None:
    text = (
        'block b(x) { param w: []; return x * w; } param v @ "n.w": []; input x: []; let y = b(x) as n; out z = y * v;'
    )
    assert errors(text) == [("E0212", "w")]


def test_blocks_do_not_call_themselves() -> None:
    assert errors("block a(x) { return b(x); } block b(x) { return a(x); } input x: []; let y = a(x);") == [
        ("E0601", "a(x)")
    ]


# ------------------------------------------------------------------------------------------------ bodies
def test_sizes_may_come_from_values_computed_above() -> None:
    text = """block two(x, n: int) {
      param w: [dim(x, 1), n];
      let h = x @ w;
      let m = dim(h, 1) * 2;
      param v: [m, dim(h, 1)];
      return concat([h, h], axis: 1) @ v;
    }
    input x: [?, 3]; let y = two(x, 5) as t;"""
    assert [(p.name, p.node.shape) for p in graph_of(text).params] == [("t.w", (3, 5)), ("t.v", (10, 5))]


def test_constants_and_choices_in_a_block() -> None:
    text = """config wide = false;
    block b(x, gain: bool) {
      const c = [1, 2, 3] : F32;
      if gain { param g: [3] = ones(); let x = x * g; } else { const d = 5; let x = x * d; }
      if wide { param u: [3] = zeros(); let x = x + u; }
      return x + c;
    }
    input x: [3]; let y = b(x, true) as p; let z = b(x, gain: false) as q; out y, z;"""
    assert params(text) == ["p.g"]
    assert params(text, wide=True) == ["p.g", "p.u", "q.u"]
    func = rlx.loads(text).init_params(seed=0)
    y, z = func(x=np.ones(3, np.float32))
    np.testing.assert_array_equal(y, [2, 3, 4])
    np.testing.assert_array_equal(z, [6, 7, 8])


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("let y = x * w; param w: [3]; return y;", ("E0201", "w")),
        ("param w: [3]; param w: [3]; return x * w;", ("E0210", "w")),
        ("if false { param w: [3]; } return x * w;", ("E0201", "w")),
        ("param w: [nope]; return x * w;", ("E0201", "nope")),
        ("param w: [3] = nope(); return x * w;", ("E0202", "nope")),
        ("return x * outer;", ("E0201", "outer")),
        ("if sum(x) > 0.0 { param w: [3]; let x = x * w; } return x;", ("E0303", "param w: [3];")),
    ],
)
def test_what_is_wrong_in_a_body(body: str, found: tuple[str, str]) -> None:
    assert errors(f"block b(x) {{ {body} }} input x: [3]; let y = b(x);") == [found]


def test_the_message_shows_the_calls() -> None:
    text = (
        "block a(x) { param w: [7]; return x * w; } block b(x) { return a(x) as in_; } input x: [3]; let y = b(x) as o;"
    )
    chain = [frame.text for frame in only_error(text).chain]
    assert chain == ["in `a` as `o.in_`, called here", "in `b` as `o`, called here"]


def test_a_body_sees_its_file_and_nothing_of_the_caller() -> None:
    text = """param scale: [] = ones(); config k = 2; let above = k * 3;
    block b(x) { return x * scale * k * above; }
    let below = 5.0; input x: []; let y = b(x);"""
    assert float(value(text, {"x": 1, "scale": 10})) == 120
    assert errors("block b(x) { return x * below; } let below = 5.0; input x: []; let y = b(x);") == [
        ("E0201", "below")
    ]


# ------------------------------------------------------------------------------------------------ reading
def test_parameters_of_a_named_call_can_be_read() -> None:
    text = f"""{DENSE}
    block pair(x) {{ param ws[2]: [3]; let h = dense(x, 3) as low; return h * ws[0] * ws[1]; }}
    input x: [1, 3];
    let h = pair(x) as p;
    let tied = h @ p.low.w.t() + p.ws[1];
    let decay = sum(p.low.w ** 2);
    let g = grad(decay, p.low.w);
    out tied, g;"""
    w = np.arange(9, dtype=np.float32).reshape(3, 3)
    func = rlx.loads(text).with_params(
        {"p.low.w": w, "p.low.b": np.zeros(3), "p.ws_0": np.ones(3), "p.ws_1": np.full(3, 2.0)}
    )
    x = np.array([[1, 2, 3]], np.float32)
    tied, g = func(x=x)
    np.testing.assert_allclose(tied, (x @ w * 2) @ w.T + 2)
    np.testing.assert_allclose(g, 2 * w)


def test_a_value_of_that_name_goes_first() -> None:
    assert errors(f"{DENSE} input x: [?, 4]; let fc = dense(x, 4) as fc; let z = fc.w;") == [("E0207", "w")]


# ------------------------------------------------------------------------------------------------ loops
def test_a_block_in_a_scan_makes_its_parameters_once() -> None:
    text = """block step(h, x) { param w: [2, 2] = eye(); param u: [2, 2] = eye(); return tanh(h @ w + x @ u); }
    input xs: [?t, 2]; const zero = [0, 0] : F32;
    scan h = zero over x in xs { let h = step(h, x); emit h as hs; }
    out hs, loss = sum(h);"""
    assert params(text) == ["step_0.w", "step_0.u"]
    func = rlx.loads(text).init_params(seed=0)
    xs = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    expected, h = [], np.zeros(2)
    for x in xs:
        h = np.tanh(h + x)
        expected.append(h)
    np.testing.assert_allclose(func(xs=xs)[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "loop",
    [
        "scan h = 0 for 3 { let h = b(h + x); }",  # a weak start: the body is read more than once
        "loop h = 0, i = 0 while i < 3 max 5 { let h = b(h + x); let i = i + 1; }",
        "let h = 0.0; if x > 0.0 { let h = b(x); } else { let h = x; }",
    ],
)
def test_a_body_that_is_read_again_makes_no_second_parameter(loop: str) -> None:
    text = f"block b(v) {{ param w: [] = ones(); return v * w; }} input x: []; {loop} out h;"
    assert params(text) == ["b_0.w"]
    assert float(rlx.loads(text).init_params(seed=0)(x=np.float32(2))) in (6.0, 2.0)


def test_a_repeat_inside_a_block_counts_in_the_block() -> None:
    text = f"""{DENSE} block stack_(x, n: int) {{ repeat i in 0..n {{ let x = dense(x, 4) as "l.{{i}}"; }} return x; }}
    input x: [?, 4]; let y = stack_(x, 2) as s;"""
    assert params(text) == ["s.l.0.w", "s.l.0.b", "s.l.1.w", "s.l.1.b"]


# ------------------------------------------------------------------------------------------------ derivatives
@pytest.mark.parametrize("head", ["block", "remat block"])
@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
def test_gradients_reach_the_parameters(head: str, device: str) -> None:
    text = f"""{head} unit(x, n: int) {{ param w: [dim(x, -1), n] = he_normal(); let h = tanh(x @ w); return h; }}
    input x: [?b, 3]; let h = unit(x, 4) as a; let y = unit(h, 2) as c; out loss = sum(y ** 2);"""
    func = rlx.loads(text).init_params(seed=1)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    a, c = (np.asarray(func.param_binding(n)) for n in ("a.w", "c.w"))
    h = np.tanh(x @ a)
    y = np.tanh(h @ c)
    dy = 2 * y * (1 - y**2)
    dh = (dy @ c.T) * (1 - h**2)
    found = func.grad(["a.w", "c.w"]).run_on(device, x=x)
    np.testing.assert_allclose(found[0], x.T @ dh, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], h.T @ dy, rtol=2e-5, atol=1e-6)


def test_a_rule_belongs_to_a_fn() -> None:
    text = "block b(x) { return x; } vjp b(x, g) { return g; } input x: []; let y = b(x);"
    assert errors(text) == [("E0202", "b")]


def test_hiding_an_op_is_told() -> None:
    assert warnings_of("block norm(x) { return x * 2; } input x: []; let y = norm(x);") == [("W0903", "norm")]


def test_initialisers_draw_by_run_time_name() -> None:
    text = f"{DENSE} input x: [?, 4]; let h = dense(x, 4) as a; let y = dense(h, 4) as b;"
    func = rlx.loads(text).init_params(seed=3)
    alone = rlx.loads(f"{DENSE} input x: [?, 4]; let y = dense(x, 4) as b;").init_params(seed=3)
    assert not np.array_equal(func.param_binding("a.w"), func.param_binding("b.w"))
    np.testing.assert_array_equal(func.param_binding("b.w"), alone.param_binding("b.w"))


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a\\nb", "{i}."])
def test_names_of_calls_have_parts_that_print(name: str) -> None:
    text = f'use nn; config i = 1; input x: [2, 3]; out y = nn::dense(x, 3) as "{name}";'
    with pytest.raises(rlx.RlxSyntaxError) as caught:
        rlx.loads(text)
    assert [d.code for d in caught.value.diagnostics] == ["E0126"]
    rlx.loads('input x @ "odd name/of..others": [2]; out y = x;')
    with pytest.raises(rlx.RlxSyntaxError, match="is empty"):
        rlx.loads('input x @ "": [2]; out y = x;')
