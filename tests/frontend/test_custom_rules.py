"""`vjp` and `jvp` rules of the text: they replace the automatic derivative in both modes, under vmap and twice; and their errors."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.diagnostics import RlxTransformError
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, GraphOutput
from rlxlang.transforms import grad, replay, replay_inputs, vmap
from tests.frontend.elaboration import only_error, underlined, values

X, W = np.array([0.5, -1.0, 2.0], np.float32), np.array([1.0, 0.3, -0.7], np.float32)
DEVICES = ["reference", "cpu"]

# Rules that differ from the automatic derivative, so that it shows which was taken.
VJP = "fn f(x, w) { return x * x * w; } vjp f(x, w, g) { let dx = 5 * g * w; let dw = 7 * g * x; } "
JVP = "fn f(x, w) { return x * x * w; } jvp f(x, w; tx, tw) { return 5 * tx * w + 7 * x * tw; } "
BOTH = VJP + "jvp f(x, w; tx, tw) { return 5 * tx * w + 7 * x * tw; } "
USE = "input x: [3]; param w: [3]; out y = sum(f(x, w));"


def close(found: np.ndarray, want: object) -> None:
    np.testing.assert_allclose(found, want, rtol=2e-5, atol=1e-6)


def loaded(rules: str, use: str = USE) -> rlx.Func:
    return rlx.loads(rules + use).with_params({"w": W})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rules", [VJP, JVP, BOTH])
def test_reverse_mode(rules: str, device: str) -> None:
    f = loaded(rules)
    close(f.run_on(device, x=X)[0], (X * X * W).sum())
    dx, dw = f.grad(["x", "w"]).run_on(device, x=X)
    close(dx, 5 * W)
    close(dw, 7 * X)


@pytest.mark.parametrize("rules", [JVP, BOTH])
def test_forward_mode(rules: str) -> None:
    close(loaded(rules).jvp(["x"]).run(x=X, tangent_x=X)[1], (5 * X * W).sum())


def test_forward_mode_needs_a_jvp_rule() -> None:
    with pytest.raises(RlxTransformError) as caught:
        loaded(VJP).jvp(["x"])
    assert caught.value.diagnostics[0].code == "E0501"
    assert "`f`" in caught.value.diagnostics[0].message


@pytest.mark.parametrize("rules", [VJP, JVP, BOTH])
def test_second_derivatives_are_those_of_the_rule(rules: str) -> None:
    f = loaded(rules, "input x: [3]; param w: [3]; let g = grad(sum(f(x, w)), x); out s = sum(g * x);")
    close(f.grad(["w"]).run(x=X)[0], 5 * X)
    if rules is not VJP:
        close(loaded(rules).jacfwd(["w"]).run(x=X)[0], 7 * X)
        close(loaded(rules).hvp(["x"]).run(x=X, tangent_x=W)[0], np.zeros(3))


@pytest.mark.parametrize("rules", [VJP, JVP, BOTH])
@pytest.mark.parametrize("batched", [["x"], ["w"], ["x", "w"]])
def test_vmap(rules: str, batched: list[str]) -> None:
    f = loaded(rules)
    given = {"x": np.stack([X, 2 * X]), "w": np.stack([W, W + 1])}
    lanes = [{n: given[n][k] if n in batched else {"x": X, "w": W}[n] for n in given} for k in range(2)]
    stacked = {n: given[n] if n in batched else {"x": X, "w": W}[n] for n in given}

    def run(func: rlx.Func, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        return func.with_params({"w": arrays["w"]}).run(x=arrays["x"])

    for one, many in ((f, f.vmap(batched)), (f.grad(["x", "w"]), f.grad(["x", "w"]).vmap(batched))):
        loop = [run(one, lane) for lane in lanes]
        for k, found in enumerate(run(many, stacked)):
            close(found, np.stack([results[k] for results in loop]))


@pytest.mark.parametrize("rules", [VJP, JVP, BOTH])
def test_gradient_of_a_batch_in_what_is_shared_sums_over_the_lanes(rules: str) -> None:
    graph = vmap(loaded(rules).graph, {"x": 0}, 2)
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    replay(b, graph, env)
    loss = b.emit("sum", env[graph.outputs[0].node], axes=(0,))
    whole = b.finish("whole", inputs, [GraphOutput("loss", loss)])
    lanes = np.stack([X, 2 * X])
    close(evaluate(grad(whole, ["w"]), {"x": lanes, "w": W})[0], 7 * lanes.sum(0))


def test_static_parameters_lists_several_results_and_returned_cotangents() -> None:
    text = (
        "config c = 2.0; const two = 2.0 : F32; fn f(xs, n: int, w) { let a = xs[0] * w * n; let b = xs[1] + w; return a, b; }"
        "vjp f(xs, n, w, ga, gb) { return [ga * n, gb * c], ga * two; }"
        "input x: [3]; input z: [3]; input w: [3]; let (a, b) = f([x, z], 3, w); let y = sum(a * 2 + b);"
        "let (dx, dz, dw) = grad(y, x, z, w); out a, b, dx, dz, dw;"
    )
    got = values(text, {"x": X, "z": X + 1, "w": W})
    close(got["a"], 3 * X * W)
    close(got["b"], X + 1 + W)
    close(got["dx"], np.full(3, 6))
    close(got["dz"], np.full(3, 2))
    close(got["dw"], np.full(3, 4))


def test_a_missing_cotangent_is_zero_and_integers_have_none() -> None:
    text = (
        "fn f(x, k, w) { return x * k * w; } vjp f(x, k, w, g) { let dx = g; }"
        "input x: [3]; input k: [I32; 3]; input w: [3]; let y = sum(f(x, k, w)); let (dx, dw) = grad(y, x, w); out dx, dw;"
    )
    got = values(text, {"x": X, "k": [1, 2, 3], "w": W})
    assert got["dx"].tolist() == [1, 1, 1]
    assert got["dw"].tolist() == [0, 0, 0]


def test_a_fn_may_be_called_in_its_own_rule() -> None:
    text = "fn f(x) { return tanh(x); } vjp f(x, g) { let t = f(x); return g * (1 - t * t) * 3; } input x: [3]; "
    got = values(text + "let y = sum(f(x)); let d = grad(y, x); let dd = grad(sum(d), x); out d, dd;", {"x": X})
    t = np.tanh(X)
    close(got["d"], 3 * (1 - t * t))
    close(got["dd"], -6 * t * 3 * (1 - t * t))


def test_a_rule_may_stand_above_its_fn_and_in_a_scan() -> None:
    text = (
        "vjp f(x, g) { return 2 * g; } fn f(x) { return x * 5; }"
        "input x: [3]; scan h = x for 3 { let h = f(h); } out y = sum(h);"
    )
    f = rlx.loads(text)
    for device in DEVICES:
        close(f.run_on(device, x=X)[0], 125 * X.sum())
        close(f.grad(["x"]).run_on(device, x=X)[0], np.full(3, 8))


def test_the_seed_of_a_straight_through_estimator() -> None:
    text = "fn hard(x) { return floor(x); } vjp hard(x, g) { return g; } input x: [3]; out y = sum(hard(x) * x);"
    close(rlx.loads(text).grad(["x"]).run(x=X)[0], np.floor(X) + X)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("vjp nope(x, g) { return g; } let y = x;", "E0202", "nope"),
        ("fn f(a) { return a; } vjp f(a) { return a; } let y = f(x);", "E0220", "f"),
        ("fn f(a) { return a; } vjp f(a, g, h) { return g; } let y = f(x);", "E0220", "f"),
        ("fn f(a) { return a; } jvp f(a, b; t) { return t; } let y = f(x);", "E0220", "f"),
        ("fn f(a) { return a; } jvp f(a; t, u) { return t; } let y = f(x);", "E0220", "f"),
        ("fn f(a) { return a; } vjp f(a, g) { return g; } vjp f(a, g) { return g; } let y = f(x);", "E0210", "f"),
        ("fn f(a) { return a; } vjp f(a, g) { return sum(g); } let y = f(x);", "E0400", "f"),
        ("fn f(a) { return a; } vjp f(a, g) { return cast(g, F16); } let y = f(x);", "E0302", "f"),
        ("fn f(a) { return a; } vjp f(a, g) { return g, g; } let y = f(x);", "E0220", "f"),
        ("fn f(a) { return a; } vjp f(a, g) { let db = g; } let y = f(x);", "E0119", "f"),
        ("fn f(a) { return a; } jvp f(a; t) { return sum(t); } let y = f(x);", "E0400", "f"),
        ("fn f(a) { return a; } jvp f(a; t) { return t, t; } let y = f(x);", "E0408", "f"),
        ("fn f(a) { return a * x; } vjp f(a, g) { return g; } let y = f(x);", "E0201", "x"),
        ("fn f(a) { return a; } vjp f(a, g) { return g * x; } let y = f(x);", "E0201", "x"),
        ("fn h(a) { return a * x; } fn f(a) { return h(a); } vjp f(a, g) { return g; } let y = f(x);", "E0201", "f(x)"),
    ],
)
def test_errors(text: str, code: str, place: str) -> None:
    found = only_error(f"input x: [3]; {text} out y;")
    assert (found.code, underlined(found)) == (code, place)
