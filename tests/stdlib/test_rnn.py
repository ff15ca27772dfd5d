"""`use rnn;`: recurrent networks against loops over one sequence at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

import rlxlang as rlx
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator
Step = Callable[[Values, str, Array, Array], Array]


def elman(v: Values, name: str, x: Array, h: Array) -> Array:
    return np.asarray(np.tanh(x @ v[f"{name}.w"] + h @ v[f"{name}.u"] + v[f"{name}.b"]))


def gated(v: Values, name: str, x: Array, h: Array) -> Array:
    n = h.shape[-1]
    xr, xz, xn = np.split(x @ v[f"{name}.w"] + v[f"{name}.b"], [n, 2 * n], -1)
    hr, hz, hn = np.split(h @ v[f"{name}.u"] + v[f"{name}.c"], [n, 2 * n], -1)
    z = expit(xz + hz)
    return np.asarray((1 - z) * np.tanh(xn + expit(xr + hr) * hn) + z * h)


def memory(v: Values, name: str, x: Array, state: Array, forget: float = 1.0) -> Array:
    """A step whose state is h and c side by side."""
    h, c = np.split(state, 2, -1)
    gates = x @ v[f"{name}.w"] + h @ v[f"{name}.u"] + v[f"{name}.b"]
    i, f, g, o = np.split(gates, 4, -1)
    c = expit(f + forget) * c + expit(i) * np.tanh(g)
    return np.concatenate([expit(o) * np.tanh(c), c], -1)


STEPS: dict[str, Step] = {"rnn": elman, "gru": gated, "lstm": memory}
PARAMS = {"rnn": ["w", "u", "b"], "gru": ["w", "u", "b", "c"], "lstm": ["w", "u", "b"]}


def run(
    v: Values, name: str, step: Step, x: Array, start: Array, lengths: Array | None = None, backwards: bool = False
) -> tuple[Array, Array]:
    """All states and the last one, one example and one position at a time; states behind the end are 0."""
    states, last = np.zeros((*x.shape[:2], start.shape[-1])), np.array(start, np.float64)
    for row in range(len(x)):
        length = x.shape[1] if lengths is None else lengths[row]
        order = range(length)
        for t in reversed(order) if backwards else order:
            last[row] = states[row, t] = step(v, name, x[row, t], last[row])
    return states, last


def layer(
    v: Values, name: str, cell: str, x: Array, start: Array, lengths: Array | None = None, backwards: bool = False
) -> tuple[Array, Array]:
    """A layer of a kind; of the state of an LSTM, only h goes on."""
    states, last = run(v, name, STEPS[cell], x, start, lengths, backwards)
    return states[..., : v[f"{name}.u"].shape[0]], last


def names(name: str, cell: str) -> list[str]:
    return [f"{name}.{p}" for p in PARAMS[cell]]


def test_steps(rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, 3]; input h: [?b, 4]; input c: [?b, 4];
    out a = rnn::rnn_cell(x, h) as r;
    out s = rnn::rnn_cell(x, h, "sigmoid") as s;
    out g = rnn::gru_cell(x, h) as g;
    let (lh, lc) = rnn::lstm_cell(x, h, c) as l;
    let (mh, mc) = rnn::lstm_cell(x, h, c, 0.0) as m;
    out lh, lc, mh, mc;"""

    def oracle(v: Values) -> list[Array]:
        x, h, c = v["x"], v["h"], v["c"]
        both = np.concatenate([h, c], -1)
        s = expit(x @ v["s.w"] + h @ v["s.u"] + v["s.b"])
        ends = [np.split(memory(v, name, x, both, forget), 2, -1) for name, forget in (("l", 1.0), ("m", 0.0))]
        return [elman(v, "r", x, h), s, gated(v, "g", x, h), *ends[0], *ends[1]]

    sets = [
        {"x": rng.standard_normal((b, 3)), "h": rng.standard_normal((b, 4)), "c": rng.standard_normal((b, 4))}
        for b in (3, 1)
    ]
    params = [*names("r", "rnn"), *names("s", "rnn"), *names("g", "gru"), *names("l", "lstm"), *names("m", "lstm")]
    check(text, params, oracle, *sets, rng=rng)


def test_steps_of_products(rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, 4]; input h: [?b, 2]; input c: [?b, 2]; input u: [2, 8]; input b: [6];
    out a = rnn::rnn_step(x[.., ..2], h, u[.., ..2]);
    out g = rnn::gru_step(concat([x, h], axis: 1), h, u[.., ..6], b);
    let (lh, lc) = rnn::lstm_step(concat([x, x], axis: 1), h, c, u);
    out lh, lc;"""

    def oracle(v: Values) -> list[Array]:
        x, h, c, u = v["x"], v["h"], v["c"], v["u"]
        given = {"e.w": np.eye(6), "e.u": u[:, :6], "e.b": np.zeros(6), "e.c": v["b"]}
        full = {"f.w": np.eye(8), "f.u": u, "f.b": np.zeros(8)}
        both = memory(full, "f", np.concatenate([x, x], 1), np.concatenate([h, c], -1), 0.0)
        return [
            np.tanh(x[:, :2] + h @ u[:, :2]),
            gated(given, "e", np.concatenate([x, h], 1), h),
            *np.split(both, 2, -1),
        ]

    shapes = {"x": (3, 4), "h": (3, 2), "c": (3, 2), "u": (2, 8), "b": (6,)}
    check(text, [], oracle, {n: rng.standard_normal(s) for n, s in shapes.items()}, rng=rng)


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_layers(cell: str, rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, ?s, 3]; input h: [?b, 4]; input n: [I32; ?b];
    let (a, ea) = CELL(x, 4) as a;
    let (b, eb) = CELL(x, 4, h, lengths: n) as b;
    let (c, ec) = CELL(x, 4, h, lengths: n, backwards: true) as c;
    let (d, ed) = CELL(x, 4, backwards: true) as d;
    out a, ea, b, eb, c, ec, d, ed;"""
    text = text.replace("CELL(", {"rnn": "rnn::rnn(", "gru": "rnn::gru("}[cell])

    def oracle(v: Values) -> list[Array]:
        x, h, n = v["x"], v["h"], v["n"]
        return [
            *layer(v, "a", cell, x, 0 * h),
            *layer(v, "b", cell, x, h, n),
            *layer(v, "c", cell, x, h, n, backwards=True),
            *layer(v, "d", cell, x, 0 * h, backwards=True),
        ]

    sets = [
        {"x": rng.standard_normal((len(n), s, 3)), "h": rng.standard_normal((len(n), 4)), "n": np.array(n, np.int32)}
        for s, n in ((4, (4, 0, 2)), (1, (1, 1)))
    ]
    func = check(text, [p for name in "abcd" for p in names(name, cell)], oracle, *sets, rng=rng)
    lanes = {"x": rng.standard_normal((2, 3, 4, 3)), "h": rng.standard_normal((3, 4)), "n": np.array([3, 4, 1])}
    given = {n: a.astype(np.int32 if n == "n" else np.float32) for n, a in lanes.items()}
    params = {n: func.param_binding(n) for n in func.param_names()}
    for device in DEVICES:
        mapped = func.vmap(["x"]).run_on(device, given)
        for lane in range(2):
            for result, right in zip(mapped, oracle({**given, **params, "x": given["x"][lane]}), strict=True):
                np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_lstm(rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, ?s, 3]; input h: [?b, 4]; input c: [?b, 4]; input n: [I32; ?b];
    let (a, ah, ac) = rnn::lstm(x, 4) as a;
    let (b, bh, bc) = rnn::lstm(x, 4, h, c, 0.5, n) as b;
    let (d, dh, dc) = rnn::lstm(x, 4, c0: c, lengths: n, backwards: true) as d;
    out a, ah, ac, b, bh, bc, d, dh, dc;"""

    def half(v: Values, name: str, x: Array, state: Array) -> Array:
        return memory(v, name, x, state, 0.5)

    def oracle(v: Values) -> list[Array]:
        x, h, c, n = v["x"], v["h"], v["c"], v["n"]
        found = [
            run(v, "a", memory, x, np.concatenate([0 * h, 0 * c], -1)),
            run(v, "b", half, x, np.concatenate([h, c], -1), n),
            run(v, "d", memory, x, np.concatenate([0 * h, c], -1), n, backwards=True),
        ]
        return [part for states, last in found for part in (states[..., :4], last[:, :4], last[:, 4:])]

    sets = [
        {
            "x": rng.standard_normal((2, s, 3)),
            "h": rng.standard_normal((2, 4)),
            "c": rng.standard_normal((2, 4)),
            "n": n,
        }
        for s, n in ((4, np.array([2, 4], np.int32)), (1, np.array([1, 0], np.int32)))
    ]
    check(text, [p for name in "abd" for p in names(name, "lstm")], oracle, *sets, rng=rng, derivative="cpu")


def test_decoding_goes_on_where_the_sequence_ended(rng: Rng) -> None:
    start = rlx.loads("use rnn; input x: [?b, ?s, 3]; let (y, h, c) = rnn::lstm(x, 4) as l; out y, h, c;").init_params(
        seed=3
    )
    step = rlx.loads("""use rnn; input x: [?b, 3]; input h: [?b, 4]; input c: [?b, 4];
    let (h2, c2) = rnn::lstm_cell(x, h, c) as l; out h2, c2;""")
    step = step.with_params({n: start.param_binding(n) for n in step.param_names()})
    x = rng.standard_normal((2, 5, 3)).astype(np.float32)
    whole, _, _ = start.run(x=x)
    _, h, c = start.run(x=x[:, :3])
    for t in (3, 4):
        h, c = step.run(x=x[:, t], h=h, c=c)
        np.testing.assert_allclose(h, whole[:, t], rtol=2e-5, atol=2e-6)


def test_states_at_the_ends(rng: Rng) -> None:
    text = """use rnn;
    input states: [?b, ?s, 3]; input n: [I32; ?b]; input h: [?b, 5];
    out a = rnn::last_state(states, n);
    out b = rnn::start_state(states, 5);
    out c = rnn::start_state(states, 5, h);
    out d = rnn::in_order(swapaxes(states, 0, 1), false);
    out e = rnn::in_order(swapaxes(states, 0, 1), true);
    out f = rnn::within(1, n, h, -1);
    out g = rnn::within(1, none, h, -1);"""

    def oracle(v: Values) -> list[Array]:
        states, n, h = v["states"], v["n"], v["h"]
        inside = np.array([row if length > 1 else -np.ones(5) for row, length in zip(h, n, strict=True)])
        last = np.array([rows[length - 1] for rows, length in zip(states, n, strict=True)])
        turned = states.transpose(1, 0, 2)
        return [last, 0 * h, h, turned, turned[::-1], inside, h]

    given = {"states": rng.standard_normal((3, 4, 3)), "n": np.array([1, 4, 2], np.int32)}
    check(text, [], oracle, {**given, "h": rng.standard_normal((3, 5))}, rng=rng)


def test_a_layer_by_the_name_of_its_kind(rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, ?s, 3]; input h: [?b, 4]; input m: [?b, 8]; input n: [I32; ?b];
    let (a, ea) = rnn::recurrent(x, 4, "rnn", h) as a;
    let (b, eb) = rnn::recurrent(x, 4, "gru", lengths: n) as b;
    let (c, ec) = rnn::recurrent(x, 4, "lstm", m, n, true) as c;
    out a, ea, b, eb, c, ec;"""

    def oracle(v: Values) -> list[Array]:
        x, h, n = v["x"], v["h"], v["n"]
        return [
            *layer(v, "a.rnn", "rnn", x, h),
            *layer(v, "b.gru", "gru", x, 0 * h, n),
            *layer(v, "c.lstm", "lstm", x, v["m"], n, backwards=True),
        ]

    shapes = {"x": (2, 3, 3), "h": (2, 4), "m": (2, 8)}
    given = {"n": np.array([3, 1], np.int32), **{k: rng.standard_normal(s) for k, s in shapes.items()}}
    check(text, [*names("a.rnn", "rnn"), *names("b.gru", "gru"), *names("c.lstm", "lstm")], oracle, given, rng=rng)
    widths = rlx.loads('use rnn; out a = rnn::state_width(4, "lstm"), b = rnn::state_width(4, "gru");')
    assert [int(w) for w in widths.run()] == [8, 4]
    assert rlx.check('use rnn; input x: [?b, ?s, 3]; let (y, e) = rnn::recurrent(x, 4, "tree"); out y, e;')


def two_ways(v: Values, name: str, cell: str, x: Array, start: Array, n: Array | None) -> tuple[Array, Array]:
    there, end = layer(v, f"{name}.forward.{cell}", cell, x, start[0], n)
    back, begin = layer(v, f"{name}.backward.{cell}", cell, x, start[1], n, backwards=True)
    return np.concatenate([there, back], -1), np.stack([end, begin])


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_bidirectional(cell: str, rng: Rng) -> None:
    width = 8 if cell == "lstm" else 4
    text = f"""use rnn;
    input x: [?b, ?s, 3]; input start: [2, ?b, {width}]; input n: [I32; ?b];
    let (a, ea) = rnn::bidirectional(x, 4, "{cell}") as a;
    let (b, eb) = rnn::bidirectional(x, 4, "{cell}", start, n) as b;
    out a, ea, b, eb;"""

    def oracle(v: Values) -> list[Array]:
        x, start = v["x"], v["start"]
        return [*two_ways(v, "a", cell, x, 0 * start, None), *two_ways(v, "b", cell, x, start, v["n"])]

    sets = [
        {"x": rng.standard_normal((2, s, 3)), "start": rng.standard_normal((2, 2, width)), "n": np.array(n, np.int32)}
        for s, n in ((3, (1, 3)), (1, (1, 1)))
    ]
    params = [p for layer in "ab" for way in ("forward", "backward") for p in names(f"{layer}.{way}.{cell}", cell)]
    check(text, params, oracle, *sets, rng=rng)


def test_stacked(rng: Rng) -> None:
    text = """use rnn;
    input x: [?b, ?s, 3]; input start: [2, ?b, 8]; input ends: [4, ?b, 4]; input n: [I32; ?b];
    let (a, ea) = rnn::stacked(x, 4, 2, start: start, lengths: n) as a;
    let (b, eb) = rnn::stacked(x, 4, 2, "gru", true, ends) as b;
    let (c, ec) = rnn::stacked(x, 4, 1, "rnn", true, lengths: n) as c;
    out a, ea, b, eb, c, ec;"""

    def oracle(v: Values) -> list[Array]:
        x, start, n = v["x"], v["start"], v["n"]
        a, e0 = layer(v, "a.layers.0.lstm", "lstm", x, start[0], n)
        a, e1 = layer(v, "a.layers.1.lstm", "lstm", a, start[1], n)
        zeros = np.zeros((2, len(x), 4))
        b, d0 = two_ways(v, "b.layers.0", "gru", x, v["ends"][:2], None)
        b, d1 = two_ways(v, "b.layers.1", "gru", b, v["ends"][2:], None)
        c, f = two_ways(v, "c.layers.0", "rnn", x, zeros, n)
        return [a, np.stack([e0, e1]), b, np.concatenate([d0, d1]), c, f]

    sets = [
        {
            "x": rng.standard_normal((2, s, 3)),
            "start": rng.standard_normal((2, 2, 8)),
            "ends": rng.standard_normal((4, 2, 4)),
            "n": np.array(n, np.int32),
        }
        for s, n in ((3, (3, 2)), (2, (1, 2)))
    ]
    ways = [f"b.layers.{i}.{way}.gru" for i in (0, 1) for way in ("forward", "backward")]
    params = [
        *names("a.layers.0.lstm", "lstm"),
        *names("a.layers.1.lstm", "lstm"),
        *(p for w in ways for p in names(w, "gru")),
    ]
    ends = [p for way in ("forward", "backward") for p in names(f"c.layers.0.{way}.rnn", "rnn")]
    check(text, [*params, *ends], oracle, *sets, rng=rng, factor=2)


def test_dropout_lies_between_layers(rng: Rng) -> None:
    text = "use rnn; input x: [?b, ?s, 3]; let (y, _) = rnn::stacked(x, 5, {depth}, drop: 0.5) as n; out y;"
    x = rng.standard_normal((2, 3, 3)).astype(np.float32)
    one, two = (rlx.loads(text.format(depth=depth)).init_params(seed=1) for depth in (1, 2))
    np.testing.assert_array_equal(one.run(x=x)[0], one.run(x=x)[0])
    assert abs(two.run({"x": x}, seed=1)[0] - two.run({"x": x}, seed=2)[0]).max() > 1e-3
