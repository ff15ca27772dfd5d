"""Loops, choices and rules from Python, on every device, with every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import rlxlang as rlx

DEVICES = ["reference", "cpu", "opencl"]
each_device = pytest.mark.parametrize("device", DEVICES)


def run(func: rlx.Func, device: str, **inputs: Any) -> list[np.ndarray]:
    return func.run_on(device, inputs)


# ------------------------------------------------------------------------------------------ scan
class State(NamedTuple):
    h: Any
    n: Any


def recurrent(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
    x = s.input("x", ["?t", 3])
    w = s.param("w", [3, 3])
    h0 = s.input("h0", [3])

    def step(state: State, row: rlx.Tensor) -> tuple[State, dict[str, rlx.Tensor]]:
        h = (state.h @ w + row).tanh()
        return State(h, state.n + 1), {"h": h, "norm": (h * h).sum()}

    last, seen = rlx.scan(step, State(h0, s.constant(0)), x)
    assert isinstance(last, State)
    return {"loss": seen["norm"].sum() + last.h.sum(), "n": last.n, "h": seen["h"]}


@each_device
def test_scan(device: str, rng: np.random.Generator) -> None:
    w = rng.normal(size=(3, 3)).astype(np.float32)
    func = rlx.Func("rnn", recurrent).with_param("w", w)
    x, h0 = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    loss, n, seen = run(func, device, x=x, h0=h0)
    h, want = h0, []
    for row in x:
        h = np.tanh(h @ w + row)
        want.append(h)
    np.testing.assert_allclose(seen, want, rtol=1e-5, atol=1e-6)
    assert n == 4
    np.testing.assert_allclose(loss, np.square(want).sum() + h.sum(), rtol=1e-5)
    assert len([k for k in func.graph.nodes if k.op.name == "scan"]) == 1


def test_scan_under_transforms(rng: np.random.Generator) -> None:
    func = rlx.Func("rnn", recurrent).init_randn(0, 0.5)
    x, h0 = rng.normal(size=(4, 3)), rng.normal(size=3)
    assert rlx.check_grads(func, x=x[:2], h0=h0, order=1).ok
    assert rlx.check_grads(func, x=x[:2], h0=h0, wrt=["w"], modes=["rev"]).ok
    lanes = func.vmap(["x", "h0"]).run(x=np.stack([x, -x]), h0=np.stack([h0, h0 + 1]))
    for k, (a, b) in enumerate(((x, h0), (-x, h0 + 1))):
        np.testing.assert_allclose(lanes[0][k], func.run(x=a, h0=b)[0], rtol=1e-5)
    np.testing.assert_allclose(func.run(x=np.zeros((0, 3)), h0=h0)[0], np.float32(h0).sum(), rtol=1e-6, atol=1e-6)


def test_scan_backwards_by_length_and_with_random_numbers() -> None:
    def build(s: rlx.GraphScope) -> list[rlx.Tensor]:
        x = s.input("x", [3])
        total, sums = rlx.scan(lambda c, v: (c + v, c), s.constant(0.0), x, reverse=True)
        power, _ = rlx.scan(lambda c, _: (c * 2.0, None), x, length=5)
        noisy, drawn = rlx.scan(lambda c, _: (c, c + s.rng_normal([3])), x, length=2)
        return [total, sums, power, noisy, drawn]

    func = rlx.Func("f", build)
    x = np.float32([1, 2, 4])
    for device in DEVICES:
        total, sums, power, noisy, drawn = run(func, device, x=x)
        assert total == 7
        assert sums.tolist() == [6, 4, 0]
        assert power.tolist() == [32, 64, 128]
        assert noisy.tolist() == x.tolist()
        assert not np.array_equal(drawn[0], drawn[1])
        np.testing.assert_allclose(drawn, func.run(x=x)[4], rtol=1e-6)


# ------------------------------------------------------------------------------------------ while, cond
@each_device
def test_while_loop(device: str) -> None:
    def collatz(s: rlx.GraphScope) -> rlx.Tensor:
        n = s.input("n", [], "I32")
        _, steps = rlx.while_loop(
            lambda c: c[0] > 1,
            lambda c: (s.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
            (n, s.constant(0)),
        )
        return steps

    func = rlx.Func("collatz", collatz)
    assert run(func, device, n=27)[0] == 111
    assert func.vmap(["n"]).run_on(device, n=[1, 2, 27, 7])[0].tolist() == [0, 1, 111, 16]


def test_while_loop_is_differentiable_with_a_bound() -> None:
    def root(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [])
        found: rlx.Tensor = rlx.while_loop(
            lambda y: abs(y * y - x) > 1e-9, lambda y: 0.5 * (y + x / y), x * 0.5 + 0.5, max_steps=30
        )
        return found

    func = rlx.Func("root", root)
    np.testing.assert_allclose(func(x=2.0), np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(func.grad(["x"])(x=2.0), 0.5 / np.sqrt(2), rtol=1e-4)
    unbounded = rlx.Func("f", lambda s: rlx.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, s.input("x", [])))
    with pytest.raises(rlx.RlxTransformError, match="E0501"):
        unbounded.grad(["x"])


@each_device
def test_cond(device: str) -> None:
    def build(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
        x, scale = s.input("x", [2]), s.param("scale", [2])
        found = rlx.cond(
            x.sum() > 0,
            lambda v: {"y": v * scale, "kind": s.constant(1)},
            lambda v: {"y": v.exp(), "kind": s.constant(2)},
            x,
        )
        return {"loss": found["y"].sum(), **found}

    func = rlx.Func("choice", build).with_param("scale", np.float32([2, 3]))
    loss, kind, y = (
        dict(zip(func.output_names(), run(func, device, x=[1, 2]), strict=True))[n] for n in ("loss", "kind", "y")
    )
    assert (float(loss), int(kind), y.tolist()) == (8.0, 1, [2, 6])
    np.testing.assert_allclose(run(func, device, x=[-1, -2])[0], np.exp([-1, -2]).sum(), rtol=1e-6)
    gradient = func.grad(["x", "scale"])
    assert [g.tolist() for g in gradient.run_on(device, x=[1, 2])] == [[2, 3], [1, 2]]
    np.testing.assert_allclose(gradient.run_on(device, x=[-1, -2])[0], np.exp([-1, -2]), rtol=1e-6)
    assert gradient.run_on(device, x=[-1, -2])[1].tolist() == [0, 0]


def test_a_choice_by_a_python_bool_is_made_at_once() -> None:
    func = rlx.Func("f", lambda s: rlx.cond(True, lambda v: v + 1.0, lambda v: v * 0.0, s.input("x", [1])))
    assert not any(n.op.name == "cond" for n in func.graph.nodes)
    assert func(x=[1]).tolist() == [2]


# ------------------------------------------------------------------------------------------ rules
def test_custom_vjp() -> None:
    clipped = rlx.custom_vjp(lambda x: x.exp(), lambda x, g: (g * x.exp()).clamp(-1.0, 1.0))
    func = rlx.Func("f", lambda s: clipped(s.input("x", [3])).sum())
    np.testing.assert_allclose(func.grad(["x"])(x=[-1, 0.5, 3]), [np.exp(-1), 1, 1], rtol=1e-6)
    with pytest.raises(rlx.RlxTransformError, match="`vjp` rule alone"):
        func.jvp(["x"])
    lanes = func.vmap(["x"]).vjp(["x"]).run(x=[[-1, 0.5, 3]] * 2, ct_out=[1, 0.5])[1]
    np.testing.assert_allclose(lanes, [[np.exp(-1), 1, 1], [np.exp(-1) / 2, 0.5 * np.exp(0.5), 1]], rtol=1e-6)


def test_forward_mode_by_the_function_itself_or_by_a_rule() -> None:
    derived = rlx.custom_vjp(lambda x, w: x * w, lambda x, w, g: (g * w, g * x), jvp=True)
    ruled = rlx.custom_vjp(lambda x, w: x * w, lambda x, w, g: (g * w, g * x), jvp=lambda x, w, dx, dw: dx * w + x * dw)
    for function in (derived, ruled):
        func = rlx.Func("f", lambda s, f=function: f(s.input("x", [2]), s.input("w", [2])).sum())
        assert rlx.check_grads(func, x=[1, 2], w=[3, -1]).ok


def test_a_jvp_rule_serves_both_modes() -> None:
    softplus = rlx.custom_jvp(lambda x: x.exp().log1p(), lambda x, dx: x.sigmoid() * dx)
    func = rlx.Func("f", lambda s: softplus(s.input("x", [3])).sum())
    assert rlx.check_grads(func, x=[-1, 0, 2], order=3).ok
    assert func.grad(["x"])(x=[0, 0, 200]).tolist() == [0.5, 0.5, 1.0]  # the plain derivative is inf / inf


def test_rules_of_several_results_and_integers() -> None:
    def pick(x: rlx.Tensor, i: rlx.Tensor) -> tuple[rlx.Tensor, rlx.Tensor]:
        return x[i], x * 2.0

    def rule(x: rlx.Tensor, i: rlx.Tensor, picked: rlx.Tensor, doubled: rlx.Tensor) -> rlx.Tensor:
        return x.zeros_like().scatter_add(i, picked, 0) * 10.0 + doubled * 2.0

    def build(s: rlx.GraphScope) -> rlx.Tensor:
        a, b = rlx.custom_vjp(pick, rule)(s.input("x", [3]), s.input("i", [2], "I32"))
        return a.sum() + b.sum()

    assert rlx.Func("f", build).grad(["x"])(x=[1, 2, 3], i=[0, 2]).tolist() == [12, 2, 12]


def test_remat() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x, w = s.input("x", [4]), s.param("w", [4])
        inner: rlx.Tensor = rlx.remat(lambda v: ((v * w).sin() * v).exp())(x)
        return inner.sum()

    func = rlx.Func("f", build).init_randn(0)
    assert rlx.check_grads(func, x=[1, 2, 3, 0.5]).ok
    assert any(n.op.name == "barrier" for n in func.grad(["w"]).graph.nodes)


# ------------------------------------------------------------------------------------------ refusals
def in_scope(build: Callable[[rlx.GraphScope, rlx.Tensor], Any]) -> Callable[[], Any]:
    return lambda: rlx.Func("f", lambda s: build(s, s.input("x", [2, 3])))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda s, x: rlx.scan(lambda c, r: c, x[0], x), "gives `(carry, y)`"),
        (lambda s, x: rlx.scan(lambda c, r: ((c, c), r), x[0], x), "the carry after a step is"),
        (lambda s, x: rlx.scan(lambda c, r: (c.sum(), r), x[0], x), "E0603"),
        (lambda s, x: rlx.scan(lambda c, r: (c, r), x[0]), "either `xs` or `length=`"),
        (lambda s, x: rlx.scan(lambda c, r: (c, r), x[0], x, length=2), "either `xs` or `length=`"),
        (lambda s, x: rlx.scan(lambda c, r: (c, r), x[0], length=-1), "E0602"),
        (lambda s, x: rlx.scan(lambda c, r: (c, c), x[0], (x, x[0])), "E0401"),
        (lambda s, x: rlx.scan(lambda c, r: (c, c), 0.0, length=3), "at least one Tensor"),
        (lambda s, x: rlx.while_loop(lambda c: c.sum(), lambda c: c, x), "Bool scalar"),
        (lambda s, x: rlx.while_loop(lambda c: c.sum() > 0, lambda c: c[0], x), "E0603"),
        (lambda s, x: rlx.while_loop(lambda c: c.sum() > 0, lambda c: c, x, max_steps=1.5), "E0602"),
        (lambda s, x: rlx.cond(x > 0, lambda v: v, lambda v: v, x), "Bool scalar"),
        (lambda s, x: rlx.cond(x.sum() > 0, lambda v: v, lambda v: v[0], x), "E0604"),
        (lambda s, x: rlx.cond(x.sum() > 0, lambda v: v, lambda v: (v,), x), "the second branch"),
        (lambda s, x: rlx.custom_vjp(lambda v: v * x, lambda v, g: g)(x[0]), "uses `x`"),
        (lambda s, x: rlx.custom_vjp(lambda v: v * 2.0, lambda v, g: (g, g))(x), "gives 2 values, expected 1"),
        (lambda s, x: rlx.custom_vjp(lambda v: v * 2.0, lambda v, g: g[0])(x), "E0603"),
        (lambda s, x: rlx.custom_vjp(lambda v: v * 2.0, lambda v, g: g * x[1])(x[0] + 1.0), "no argument"),
    ],
)  # fmt: skip
def test_refusals(build: Callable[[rlx.GraphScope, rlx.Tensor], Any], words: str) -> None:
    with pytest.raises(rlx.RlxError) as caught:
        in_scope(build)()
    assert words in str(caught.value)
