"""Built-in optimizers: formulas, state, groups, and the compiled form against the host form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlxlang.diagnostics import RlxShapeError, RlxTypeError, RlxValueError
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, GraphOutput, declare
from rlxlang.optim import (
    Adafactor,
    Adam,
    AdamW,
    Algorithm,
    Chain,
    ClipByValue,
    ClipPerLayer,
    KronPsgd,
    Lamb,
    Lion,
    Lookahead,
    Mars,
    Muon,
    NAdamW,
    Optimizer,
    QHAdamW,
    RAdam,
    Sgd,
    Soap,
    Sophia,
    Stiefel,
)
from rlxlang.types import from_numpy


def lookahead(**options: Any) -> Lookahead:
    return Lookahead(AdamW(**options), k=2)


def lookahead_muon(**options: Any) -> Lookahead:
    return Lookahead(Muon(**options), k=3, alpha=0.3)


def chain(**options: Any) -> Chain:
    return Chain(ClipByValue(0.5), ClipPerLayer(0.7), Lookahead(Sophia(**options), k=2))


Kind = Callable[..., Algorithm | Lookahead | Chain]
SETTINGS: list[tuple[Kind, dict[str, Any]]] = [
    (Sgd, {"lr": 0.1}),
    (Sgd, {"lr": 0.1, "momentum": 0.9}),
    (Sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (AdamW, {"lr": 1e-2}),
    (AdamW, {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.0}),
    (Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    (NAdamW, {"lr": 1e-2}),
    (RAdam, {"lr": 1e-2, "betas": (0.9, 0.7)}),
    (QHAdamW, {"lr": 1e-2, "nus": (0.7, 0.9)}),
    (Lamb, {"lr": 1e-2}),
    (Adafactor, {}),
    (Adafactor, {"lr": 1e-2, "weight_decay": 0.1}),
    (Lion, {"lr": 1e-3, "weight_decay": 0.1}),
    (Mars, {"lr": 1e-2, "weight_decay": 0.1}),
    (Muon, {"lr": 1e-2}),
    (Muon, {"lr": 1e-2, "scale": "spectral", "adamw": ["w"]}),
    (Soap, {"lr": 1e-2, "every": 1}),
    (Soap, {"lr": 1e-2, "every": 2, "weight_decay": 0.0}),
    (KronPsgd, {"lr": 1e-2}),
    (KronPsgd, {"lr": 1e-2, "max_size": 3, "weight_decay": 0.1}),
    (Sophia, {"lr": 1e-1, "every": 2}),
    (lookahead, {"lr": 1e-2}),
    (lookahead_muon, {"lr": 1e-2}),
    (chain, {"lr": 1e-1, "every": 3}),
    (Stiefel, {"lr": 1e-2}),
    (Stiefel, {"lr": 1e-2, "momentum": 0.9}),
]
each_setting = pytest.mark.parametrize(("kind", "options"), SETTINGS)


def problem(
    rng: np.random.Generator, dtype: type = np.float32
) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    shapes = {"a.w": (3, 4), "a.bias": (4,), "s": ()}
    params = {n: rng.normal(size=s).astype(dtype) for n, s in shapes.items()}
    grads = [{n: np.asarray(rng.normal(size=s), dtype) for n, s in shapes.items()} for _ in range(4)]
    return {n: np.array(a) for n, a in params.items()}, grads


def run(opt: Optimizer, params: dict[str, np.ndarray], grads: list[dict[str, np.ndarray]]) -> None:
    for step in grads:
        for name, param in params.items():
            observe(opt, name, param)
            opt.step(name, param.shape, param, step[name])
        opt.end_iteration()


def observe(opt: Optimizer, name: str, param: np.ndarray) -> np.ndarray | None:
    """Tell an optimizer of curvature, if it asks; what it is told."""
    direction = opt.hessian_direction(name, param.shape) if opt.needs_hessian else None
    if direction is None:
        return None
    estimate = np.asarray(1 + direction * np.cos(param), param.dtype)
    opt.observe_hessian(name, estimate)
    return estimate


def test_sgd_is_its_formula(rng: np.random.Generator) -> None:
    params, grads = problem(rng, np.float64)
    w, v = params["a.w"].copy(), np.zeros((3, 4))
    run(Sgd(0.1, momentum=0.9, nesterov=True, weight_decay=0.02), params, grads)
    for step in grads:
        d = step["a.w"] + 0.02 * w
        v = 0.9 * v + d
        w -= 0.1 * (d + 0.9 * v)
    np.testing.assert_allclose(params["a.w"], w, rtol=1e-12)


def test_adamw_is_its_formula(rng: np.random.Generator) -> None:
    params, grads = problem(rng, np.float64)
    w, m, v = params["a.w"].copy(), 0.0, 0.0
    run(AdamW(1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1), params, grads)
    for t, step in enumerate(grads, 1):
        g = step["a.w"]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        w = w * (1 - 1e-2 * 0.1) - 1e-2 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
    np.testing.assert_allclose(params["a.w"], w, rtol=1e-10)


def test_decay_of_adamw_acts_without_a_gradient() -> None:
    w = np.ones(3, np.float32)
    AdamW(0.1, weight_decay=0.5).step("w", (3,), w, np.zeros(3, np.float32))
    np.testing.assert_allclose(w, 0.95, rtol=1e-6)


@each_setting
def test_batch_is_bit_for_bit_the_loop(kind: Kind, options: dict[str, Any], rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    others = {n: a.copy() for n, a in params.items()}
    run(kind(**options), params, grads)
    opt = kind(**options)
    for step in grads:
        for name, param in others.items():
            observe(opt, name, param)
        opt.step_batch([(n, a.shape, a, step[n]) for n, a in others.items()])
        opt.end_iteration()
    for name in params:
        assert params[name].tobytes() == others[name].tobytes()


@each_setting
def test_state_continues_bit_for_bit(kind: Kind, options: dict[str, Any], rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    opt = kind(**options)
    run(opt, params, grads[:2])
    others, state = {n: a.copy() for n, a in params.items()}, opt.state_dict()
    run(opt, params, grads[2:])
    resumed = kind(**options)
    assert resumed.load_state_dict(state)
    assert resumed.state_dict()["step"] == 2
    run(resumed, others, grads[2:])
    for name in params:
        assert params[name].tobytes() == others[name].tobytes()
    assert resumed.state_dict()["step"] == 4


def test_state_has_sorted_keys_by_slot_and_name(rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    opt = AdamW()
    run(opt, params, grads)
    state = opt.state_dict()
    assert state["algorithm"] == "AdamW"
    assert state["step"] == 4
    assert list(state["buffers"]) == ["m/a.bias", "m/a.w", "m/s", "v/a.bias", "v/a.w", "v/s"]
    state["buffers"]["m/a.w"][...] = 7  # a copy: the optimizer does not see it
    assert not np.any(opt.state_dict()["buffers"]["m/a.w"] == 7)


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "Sgd"},
        {"step": -1},
        {"step": None},
        {"buffers": {"m/a.w": np.zeros((3, 4), np.float32)}},
        {"buffers": {"m/a.w": np.zeros((3, 5), np.float32), "v/a.w": np.zeros((3, 5), np.float32)}},
        {"buffers": {"m/a.w": np.zeros((3, 4), np.float32), "v/a.w": np.zeros((4, 3), np.float32)}},
        {"buffers": {"m/a.w": np.zeros((3, 4), np.int32), "v/a.w": np.zeros((3, 4), np.float32)}},
        {"buffers": {"nothing": np.zeros(3, np.float32)}},
        {"buffers": None},
    ],
)
def test_a_foreign_state_changes_nothing(change: dict[str, Any], rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    opt = AdamW()
    run(opt, params, grads)
    before = opt.state_dict()
    assert not opt.load_state_dict({**before, **change})
    after = opt.state_dict()
    assert after["step"] == before["step"]
    for key, array in before["buffers"].items():
        assert array.tobytes() == after["buffers"][key].tobytes()


def test_loading_writes_the_arrays_that_are_in_use(rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    opt = AdamW()
    run(opt, params, grads[:1])
    saved = opt.state_dict()
    live = opt.state_of("a.w", (3, 4), np.dtype(np.float32))["m"]
    run(opt, params, grads[1:])
    assert opt.load_state_dict(saved)
    assert live.tobytes() == saved["buffers"]["m/a.w"].tobytes()


def test_each_parameter_counts_its_own_steps(rng: np.random.Generator) -> None:
    opt, a, b = AdamW(), np.ones(2, np.float32), np.ones(2, np.float32)
    g = np.ones(2, np.float32)
    for _ in range(3):
        opt.step("a", (2,), a, g)
    opt.step("b", (2,), b, g)
    state = opt.state_dict()
    assert (state["step"], opt.steps_of("a"), opt.steps_of("b")) == (3, 3, 1)
    other = AdamW()
    assert other.load_state_dict(state)
    assert (other.steps_of("a"), other.steps_of("b")) == (3, 1)


def test_first_matching_group_wins() -> None:
    groups = [
        {"match": "*.bias", "lr_scale": 2.0, "weight_decay": 0.0},
        {"match": "a.*", "lr_scale": 0.0},
    ]
    opt = Sgd(1.0, weight_decay=1.0, groups=groups)
    assert [opt.lr_scale(n) for n in ("a.bias", "a.w", "b.w")] == [2.0, 0.0, 1.0]
    params = {n: np.ones(1, np.float32) for n in ("a.bias", "a.w", "b.w")}
    for name, param in params.items():
        opt.step(name, (1,), param, np.full(1, 0.25, np.float32))
    assert [float(p[0]) for p in params.values()] == [0.5, 1.0, -0.25]


def test_set_lr_scales_the_next_step() -> None:
    opt, w = Sgd(1.0), np.zeros(1, np.float32)
    opt.set_lr(0.25)
    opt.step("w", (1,), w, np.ones(1, np.float32))
    assert w[0] == -0.25


def test_a_flat_parameter_has_a_shape() -> None:
    w = np.ones(6, np.float32)
    opt = AdamW()
    opt.step("w", (2, 3), w, np.ones(6, np.float32))
    assert opt.state_dict()["buffers"]["m/w"].shape == (2, 3)
    assert np.all(w < 1)


def test_a_strided_parameter_is_written() -> None:
    w = np.ones((4, 4), np.float32)
    Sgd(1.0).step("w", (2, 2), w[::2, ::2], np.ones((2, 2), np.float32))
    assert w.sum() == 12


def test_state_dtype(rng: np.random.Generator) -> None:
    params, grads = problem(rng)
    opt = AdamW(state_dtype="f64")
    run(opt, params, grads)
    assert {a.dtype for a in opt.state_dict()["buffers"].values()} == {np.dtype(np.float64)}
    assert params["a.w"].dtype == np.float32
    wide, grads = problem(rng, np.float64)
    opt = AdamW()
    run(opt, wide, grads)
    assert {a.dtype for a in opt.state_dict()["buffers"].values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        (Sgd, {"lr": -1.0}, "lr"),
        (Sgd, {"lr": float("nan")}, "lr"),
        (Sgd, {"lr": True}, "lr"),
        (Sgd, {"lr": 1.0, "momentum": 1.0}, "momentum"),
        (Sgd, {"lr": 1.0, "nesterov": True}, "nesterov"),
        (Sgd, {"lr": 1.0, "weight_decay": -1.0}, "weight_decay"),
        (AdamW, {"betas": (0.9,)}, "betas"),
        (AdamW, {"betas": (0.9, 1.0)}, "beta2"),
        (AdamW, {"eps": float("inf")}, "eps"),
        (AdamW, {"state_dtype": "f16"}, "state_dtype"),
        (AdamW, {"groups": [{"match": "*", "lr": 1.0}]}, "'lr'"),
        (AdamW, {"groups": [{"lr_scale": 1.0}]}, "match"),
        (AdamW, {"groups": [{"match": "*", "lr_scale": -1.0}]}, "lr_scale"),
        (AdamW, {"groups": [{"match": "*", "frozen": 1}]}, "frozen"),
    ],
)
def test_settings_are_checked(kind: type[Algorithm], options: dict[str, Any], word: str) -> None:
    with pytest.raises(RlxValueError, match=word):
        kind(**options)


def test_settings_are_checked_when_they_change() -> None:
    opt = AdamW()
    with pytest.raises(RlxValueError, match="beta2"):
        opt.betas = (0.9, 1.0)
    assert opt.betas == (0.9, 0.999)
    for without in (Sgd(0.1), Stiefel(0.1)):
        with pytest.raises(RlxValueError, match="no state"):
            without.momentum = 0.5
        without.momentum = 0.0
    heavy = Sgd(0.1, momentum=0.5)
    with pytest.raises(RlxValueError, match="no state"):
        heavy.momentum = 0.0
    with pytest.raises(RlxValueError, match="momentum"):
        heavy.momentum = 1.0
    heavy.momentum = 0.9
    assert heavy.momentum == 0.9


def test_arguments_of_a_step_are_checked() -> None:
    opt, g = Sgd(1.0), np.ones(3, np.float32)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(RlxTypeError, match="written"):
        opt.step("w", (3,), frozen, g)
    with pytest.raises(RlxTypeError, match="int32"):
        opt.step("w", (3,), np.ones(3, np.int32), g)
    with pytest.raises(RlxShapeError, match="gradient"):
        opt.step("w", (3,), np.ones(3, np.float32), np.ones(4, np.float32))
    momentum = Sgd(1.0, momentum=0.5)
    momentum.step("w", (3,), np.ones(3, np.float32), g)
    with pytest.raises(RlxShapeError, match="new one"):
        momentum.step("w", (1, 3), np.ones((1, 3), np.float32), g)
    with pytest.raises(RlxValueError):
        opt.set_lr(-1.0)


def _tolerance(kind: Kind) -> float:
    """Elementwise algorithms agree to the last bit; sums and products may be ordered differently."""
    return 1e-6 if kind in (Adafactor, KronPsgd, Lamb, Mars, Muon, Soap, Stiefel, lookahead_muon) else 0.0


# A chain transforms gradients before the update; `test_wrappers` and the tests of the trainer compare its two forms.
@pytest.mark.parametrize(("kind", "options"), [setting for setting in SETTINGS if setting[0] is not chain])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_traced_form_is_the_host_form(
    kind: Kind, options: dict[str, Any], dtype: type, rng: np.random.Generator
) -> None:
    groups = [{"match": "w", "lr_scale": 0.5, "weight_decay": 0.03}]
    host, traced = kind(**options, groups=groups), kind(**options, groups=groups)
    w = rng.normal(size=(3, 4)).astype(dtype)
    x = w.copy()
    own = from_numpy(w.dtype)
    assert own is not None
    for _ in range(3):
        g = rng.normal(size=(3, 4)).astype(dtype)
        estimate = observe(host, "w", w)
        host.step("w", (3, 4), w, g)
        state = traced.state_of("w", (3, 4), x.dtype)
        scalars = traced.hyper_values(traced.steps_of("w") + 1)
        b = Builder()
        shapes = {"param": (3, 4), "grad": (3, 4), **{n: a.shape for n, a in state.items()}}
        if traced.needs_hessian:
            shapes["estimate"] = (3, 4)
        nodes = {n: b.input(n, own, shape) for n, shape in shapes.items()}
        hyper = {n: b.input(n, own, ()) for n in scalars}
        new, changed = traced.trace(
            b, "w", nodes["param"], nodes["grad"], {s: nodes[s] for s in nodes if s not in ("param", "grad")}, hyper
        )
        outputs = [GraphOutput("new", new), *(GraphOutput(f"new_{s}", n) for s, n in changed.items())]
        graph = b.finish("update", [declare(n) for n in (*nodes.values(), *hyper.values())], outputs)
        values = {
            "param": x,
            "grad": g,
            "estimate": np.zeros_like(g) if estimate is None else estimate,
            **state,
            **{n: np.asarray(v, dtype) for n, v in scalars.items()},
        }
        x, *slots = (np.array(a) for a in evaluate(graph, values))
        for slot, value in zip(changed, slots, strict=True):
            state[slot][...] = value
        traced.advance(["w"])
        np.testing.assert_allclose(x, w, rtol=0, atol=_tolerance(kind))
    for key, array in host.state_dict()["buffers"].items():
        np.testing.assert_allclose(traced.state_dict()["buffers"][key], array, rtol=0, atol=_tolerance(kind))


def test_a_subclass_with_its_own_step_is_not_traced() -> None:
    class Frozen(Sgd):
        def step(self, name: str, shape: tuple[int, ...], param: Any, grad: Any) -> None:
            return

    class Halved(Sgd):
        def lr_scale(self, name: str) -> float:
            return 0.5

    assert Sgd(0.1).is_traceable
    assert Halved(0.1).is_traceable
    assert not Frozen(0.1).is_traceable


def test_a_minimal_optimizer() -> None:
    class Sign(Optimizer):
        def step(self, name: str, shape: tuple[int, ...], param: Any, grad: Any) -> None:
            param -= np.sign(grad)

    opt, w = Sign(), np.zeros(2, np.float32)
    opt.set_lr(1.0)
    opt.step_batch([("w", (2,), w, np.float32([3, -2]))])
    opt.end_iteration()
    assert w.tolist() == [-1, 1]
    assert opt.state_dict() is None
    assert not opt.load_state_dict({})
    assert opt.lr_scale("w") == 1.0
