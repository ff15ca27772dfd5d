"""`Chain`, `Lookahead` and frozen parameters: against formulas, and compiled against the host form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.diagnostics import RlxError, RlxTypeError, RlxValueError
from rlxlang.optim import (
    AdamW,
    Chain,
    ClipByGlobalNorm,
    ClipByValue,
    ClipPerLayer,
    GradientTransform,
    Lookahead,
    Optimizer,
    Sgd,
    SkipNonFinite,
)

LINEAR = "input x: [3]; param a: [3] = zeros(); param b: [2] = zeros(); out loss = sum(a * x) + 2 * sum(b);"


class Descent(Optimizer):
    """An optimizer of the user's own."""

    def step(self, name: str, shape: tuple[int, ...], param: Any, grad: Any) -> None:
        param -= 0.1 * grad


def stepped(opt: Optimizer, gradients: dict[str, Any]) -> dict[str, np.ndarray]:
    """Minus the gradients that reach `Sgd(1.0)`."""
    params = {n: np.zeros(np.shape(g)) for n, g in gradients.items()}
    opt.step_batch([(n, p.shape, p, np.asarray(gradients[n], float)) for n, p in params.items()])
    return params


# --------------------------------------------------------------------------------------------- Chain


def test_each_transformation_is_its_formula() -> None:
    gradients = {"a": [3.0, -4.0], "b": [[0.5], [12.0]], "s": 0.25}
    found = stepped(Chain(ClipByValue(2.0), Sgd(1.0)), gradients)
    assert [found[n].ravel().tolist() for n in "abs"] == [[-2, 2], [-0.5, -2], [-0.25]]
    found = stepped(Chain(ClipPerLayer(2.5), Sgd(1.0)), gradients)
    for name, g in gradients.items():
        norm = np.linalg.norm(np.ravel(g))
        np.testing.assert_allclose(-found[name], np.multiply(g, min(1, 2.5 / norm)), rtol=1e-12)
    found = stepped(Chain(ClipByGlobalNorm(2.5), Sgd(1.0)), gradients)
    norm = np.sqrt(9 + 16 + 0.25 + 144 + 0.0625)
    for name, g in gradients.items():
        np.testing.assert_allclose(-found[name], np.multiply(g, 2.5 / norm), rtol=1e-12)
    same = stepped(Chain(ClipByGlobalNorm(14.0), ClipPerLayer(13.0), ClipByValue(12.0), Sgd(1.0)), gradients)
    for name, g in gradients.items():
        assert np.array_equal(-same[name], g)


def test_transformations_apply_in_their_order() -> None:
    value_first = stepped(Chain(ClipByValue(1.0), ClipPerLayer(1.0), Sgd(1.0)), {"a": [3.0, 4.0]})
    norm_first = stepped(Chain(ClipPerLayer(1.0), Chain(ClipByValue(1.0), Sgd(1.0))), {"a": [3.0, 4.0]})
    np.testing.assert_allclose(value_first["a"], -np.sqrt([0.5, 0.5]))
    np.testing.assert_allclose(norm_first["a"], [-0.6, -0.8])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_wrong_gradient_skips_the_step(wrong: float) -> None:
    opt = Chain(SkipNonFinite(), AdamW(0.1))
    params = {"a": np.ones(2), "b": np.ones(1)}

    def step(last: float) -> None:
        opt.step_batch([("a", (2,), params["a"], np.array([1.0, last])), ("b", (1,), params["b"], np.ones(1))])

    step(1.0)
    before, state = {n: p.copy() for n, p in params.items()}, opt.state_dict()
    step(wrong)
    assert all(np.array_equal(params[n], before[n]) for n in params)
    assert state is not None
    after = opt.state_dict()
    assert after is not None
    assert after["step"] == state["step"] == 1
    assert all(np.array_equal(a, after["buffers"][k]) for k, a in state["buffers"].items())
    step(1.0)
    assert opt.step_count == 2
    assert np.all(params["a"] != before["a"])


@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
def test_a_compiled_step_is_skipped_too(device: str) -> None:
    if rlx.Device.parse(device) not in rlx.devices():
        pytest.skip("this machine has no such device")
    func = rlx.loads(LINEAR).init_params(seed=0)
    trainer = func.trainer(Chain(ClipByGlobalNorm(1.0), SkipNonFinite(), AdamW(0.1)), device=device)
    opt = Chain(ClipByGlobalNorm(1.0), SkipNonFinite(), AdamW(0.1))
    assert trainer.is_compiled
    for bad in (1.0, np.inf, np.nan, 2.0):
        x = np.float32([1, 2, bad])
        trainer.step(x=x)
        func, _ = func.train_step_all(opt, {"x": x})
    assert trainer.opt.step_count == opt.step_count == 2
    assert trainer.step_count == 4
    for name in ("a", "b"):
        np.testing.assert_allclose(trainer.param(name), func.param_binding(name), atol=1e-6)
        assert np.all(np.isfinite(trainer.param(name)))


def test_one_parameter_alone_is_refused_where_all_are_needed() -> None:
    w = np.zeros(2)
    with pytest.raises(RlxValueError, match=r"ClipByGlobalNorm.*together"):
        Chain(ClipByValue(1.0), ClipByGlobalNorm(1.0), Sgd(1.0)).step("w", (2,), w, np.ones(2))
    Chain(ClipByValue(0.5), Sgd(1.0)).step("w", (2,), w, np.ones(2))
    assert w.tolist() == [-0.5, -0.5]


def test_the_state_of_a_chain_is_that_of_its_optimizer() -> None:
    plain, chain = AdamW(0.1), Chain(ClipByValue(100.0), AdamW(0.1))
    one, other = np.ones(3), np.ones(3)
    plain.step("w", (3,), one, np.arange(3.0))
    assert chain.load_state_dict(plain.state_dict())
    other[...] = one
    plain.step("w", (3,), one, np.arange(3.0))
    chain.step("w", (3,), other, np.arange(3.0))
    assert one.tobytes() == other.tobytes()
    assert not chain.load_state_dict(Sgd(0.1).state_dict())
    chain.set_lr(0.5)
    assert chain.lr == chain.inner.lr == 0.5


def test_a_transformation_of_ones_own_is_compiled() -> None:
    class Halved(GradientTransform):
        def apply(self, x: Any, gradients: Mapping[str, Any]) -> dict[str, Any]:
            return {name: 0.5 * g for name, g in gradients.items()}

    func = rlx.loads(LINEAR).init_params(seed=0)
    for opt in (Chain(Halved(), Sgd(1.0)), Chain(Halved(), Descent())):
        trainer = func.trainer(opt)
        assert trainer.is_compiled == isinstance(opt.inner, Sgd)
        trainer.step(x=np.float32([1, 2, 3]))
        rate = 0.5 if trainer.is_compiled else 0.05
        np.testing.assert_allclose(trainer.param("a"), np.float32([1, 2, 3]) * -rate, rtol=1e-6)


# --------------------------------------------------------------------------------------------- Lookahead


@pytest.mark.parametrize("make", [lambda: Sgd(0.1, momentum=0.9), Descent])
def test_lookahead_is_its_algorithm(make: Any, rng: np.random.Generator) -> None:
    opt, inner = Lookahead(make(), k=3, alpha=0.4), make()
    start = rng.normal(size=4)
    w, fast, slow = start.copy(), start.copy(), start.copy()
    for t in range(1, 9):
        g = rng.normal(size=4)
        opt.step("w", (4,), w, g)
        inner.step("w", (4,), fast, g)
        if t % 3 == 0:
            slow = slow + 0.4 * (fast - slow)
            fast[...] = slow
        np.testing.assert_allclose(w, fast, rtol=1e-12)


def test_lookahead_refuses_foreign_states_whole(rng: np.random.Generator) -> None:
    opt, w = Lookahead(AdamW(0.1), k=2), np.ones(3)
    for _ in range(3):
        opt.step("w", (3,), w, rng.normal(size=3))
    state = opt.state_dict()
    assert state is not None
    assert state["algorithm"] == "Lookahead(AdamW)"
    assert list(state["buffers"]) == ["m/w", "since/w", "slow/w", "v/w"]
    before = opt.state_dict()
    buffers = state["buffers"]
    for wrong in (
        AdamW(0.1).state_dict(),
        {**state, "algorithm": "Lookahead(Sgd)"},
        {**state, "buffers": {**buffers, "slow/w": np.ones(4)}},
        {**state, "buffers": {**buffers, "since/w": np.ones(1)}},
        {**state, "buffers": {k: a for k, a in buffers.items() if k != "slow/w"}},
        {**state, "buffers": {**buffers, "m/w": np.ones(4)}},
        {**state, "buffers": None},
    ):
        assert not opt.load_state_dict(wrong)
    after = opt.state_dict()
    assert before is not None
    assert after is not None
    assert all(a.tobytes() == after["buffers"][k].tobytes() for k, a in before["buffers"].items())
    assert Lookahead(Descent()).state_dict() is None


# --------------------------------------------------------------------------------------------- frozen parameters


@pytest.mark.parametrize("wrap", [lambda opt: opt, lambda opt: Chain(ClipByGlobalNorm(1.0), Lookahead(opt, k=1))])
def test_frozen_parameters_keep_their_bits_and_have_no_state(wrap: Any) -> None:
    def make() -> Any:
        return wrap(AdamW(0.1, groups=[{"match": "a", "frozen": True}]))

    func = rlx.loads(LINEAR).init_randn(0, 0.5)
    trainer, opt = func.trainer(make()), make()
    assert trainer.is_compiled
    for _ in range(2):
        trainer.step(x=np.ones(3, np.float32))
        func, _ = func.train_step_all(opt, {"x": np.ones(3, np.float32)})
        func, _ = func.train_step(opt, ["a", "b"], {"x": np.ones(3, np.float32)})
    original = rlx.loads(LINEAR).init_randn(0, 0.5).param_binding("a")
    for found in (trainer.func(), func):
        assert np.asarray(found.param_binding("a")).tobytes() == np.asarray(original).tobytes()
        assert np.all(np.asarray(found.param_binding("b")) != 0)
    for state in (trainer.opt.state_dict(), opt.state_dict()):
        assert {key.partition("/")[2] for key in state["buffers"]} == {"b"}
    items = [("a", (3,), np.ones(3, np.float32), np.full(3, np.nan, np.float32))]
    opt.step_batch(items)  # a gradient nobody asked for
    assert np.array_equal(items[0][2], np.ones(3))


def test_nothing_to_train_is_said() -> None:
    func = rlx.loads(LINEAR).init_params(seed=0)
    for run in (func.trainer, lambda opt: func.train_step_all(opt, {"x": np.ones(3, np.float32)})):
        with pytest.raises(RlxValueError, match="frozen: a, b"):
            run(Sgd(0.1, groups=[{"match": "*", "frozen": True}]))


# --------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Chain(), RlxTypeError),
        (lambda: Chain(ClipByValue(1.0)), RlxTypeError),
        (lambda: Chain(Sgd(1.0), Sgd(1.0)), RlxTypeError),
        (lambda: Chain(ClipByValue, Sgd(1.0)), RlxTypeError),
        (lambda: Chain(ClipByValue(1.0), Sgd), RlxTypeError),
        (lambda: Lookahead(0.1), RlxTypeError),
        (lambda: Lookahead(Chain(Sgd(1.0))), RlxTypeError),
        (lambda: Lookahead(Sgd(1.0), k=0), RlxValueError),
        (lambda: Lookahead(Sgd(1.0), alpha=-1.0), RlxValueError),
        (lambda: ClipByValue(0.0), RlxValueError),
        (lambda: ClipByGlobalNorm(float("nan")), RlxValueError),
        (lambda: ClipPerLayer(True), RlxValueError),
    ],
)
def test_settings_are_checked(make: Any, error: type[RlxError]) -> None:
    with pytest.raises(error):
        make()
