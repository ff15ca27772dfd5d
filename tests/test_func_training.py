"""Training steps with an optimizer in Python."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.func_training import clip_by_global_norm


class Descent:
    """Plain gradient descent that records what it is asked to do."""

    def __init__(self, lr: float) -> None:
        self.lr = lr
        self.seen: list[tuple[str, tuple[int, ...]]] = []
        self.iterations = 0

    def set_lr(self, lr: float) -> None:
        self.lr = lr

    def step(self, name: str, shape: tuple[int, ...], param: np.ndarray, grad: np.ndarray) -> None:
        self.seen.append((name, shape))
        param -= np.float32(self.lr) * grad

    def step_batch(self, items: list[tuple[str, tuple[int, ...], np.ndarray, np.ndarray]]) -> None:
        for item in items:
            self.step(*item)

    def end_iteration(self) -> None:
        self.iterations += 1


class Halving:
    """The rate 1/2, 1/4, …"""

    def lr_at(self, step: int) -> float:
        return 0.5 ** (step + 1)


def build(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
    x, t = s.input("x", ["?n", 2]), s.input("t", ["?n"])
    w, b, k = s.param("w", [2]), s.param("b", []), s.param("k", [], "I32")
    y = x @ w + b + k.cast("F32")
    return {"loss": ((y - t) * (y - t)).mean(), "y": y}


DATA = {"x": np.float32([[1, 2], [3, 4], [-1, 0]]), "t": np.float32([1, 2, 3])}


@pytest.fixture
def model() -> rlx.Func:
    """Return a linear model with an integer parameter beside."""
    return rlx.Func("linear", build).with_params({"w": [0.5, -0.5], "b": 0.25, "k": 1})


def gradients(w: np.ndarray, b: float) -> tuple[float, np.ndarray, np.ndarray, float]:
    y = DATA["x"].astype(np.float64) @ w + b + 1
    e = y - DATA["t"]
    return float((e * e).mean()), y, 2 * e @ DATA["x"] / 3, float(2 * e.mean())


def test_step(model: rlx.Func) -> None:
    opt = Descent(0.1)
    loss, y, dw, db = gradients(np.array([0.5, -0.5]), 0.25)
    new, outputs = model.train_step_all(opt, DATA)
    np.testing.assert_allclose(outputs[0], loss, rtol=1e-6)
    np.testing.assert_allclose(outputs[1], y, rtol=1e-6)
    np.testing.assert_allclose(new.param_binding("w"), [0.5, -0.5] - 0.1 * dw, rtol=1e-6)
    np.testing.assert_allclose(new.param_binding("b"), 0.25 - 0.1 * db, rtol=1e-6)
    assert opt.seen == [("w", (2,)), ("b", ())]
    assert opt.iterations == 1
    assert model.param_binding("w").tolist() == [0.5, -0.5]
    assert new.param_binding("k") == 1
    assert new.traced is model.traced
    with pytest.raises(ValueError, match="read-only"):
        new.param_binding("w")[0] = 0


def test_some_parameters(model: rlx.Func) -> None:
    new, _ = model.train_step(Descent(0.1), ["b"], list(DATA.items()))
    assert new.param_binding("w").tolist() == [0.5, -0.5]
    assert new.param_binding("b") != 0.25


@pytest.mark.parametrize("device", [str(d) for d in rlx.devices()])
def test_every_form(model: rlx.Func, device: str) -> None:
    schedule, step = Halving(), 2
    _, _, dw, _ = gradients(np.array([0.5, -0.5]), 0.25)
    plain, scheduled = [0.5, -0.5] - 0.1 * dw, [0.5, -0.5] - 0.125 * dw
    for want, call in (
        (plain, lambda o: model.train_step_on(device, o, ["w"], DATA)),
        (plain, lambda o: model.train_step_all_on(device, o, DATA)),
        (scheduled, lambda o: model.train_step_at(o, schedule, step, ["w"], DATA)),
        (scheduled, lambda o: model.train_step_at_on(device, o, schedule, step, ["w"], DATA)),
        (scheduled, lambda o: model.train_step_all_at(o, schedule, step, DATA)),
        (scheduled, lambda o: model.train_step_all_at_on(device, o, schedule, step, DATA)),
        (scheduled, lambda o: model.train_step_all_at_on_clipped(device, o, schedule, step, 1e9, DATA)),
        (scheduled, lambda o: model.train_step_all_at_on_clipped(device, o, schedule, step, 0, DATA)),
    ):
        new, outputs = call(Descent(0.1))
        np.testing.assert_allclose(new.param_binding("w"), want, rtol=1e-5)
        assert len(outputs) == 2


def test_clipping(model: rlx.Func) -> None:
    _, _, dw, db = gradients(np.array([0.5, -0.5]), 0.25)
    norm = np.sqrt((dw * dw).sum() + db * db)
    new, _ = model.train_step_all_at_on_clipped("reference", Descent(0), Halving(), 0, 0.5, DATA)
    np.testing.assert_allclose(new.param_binding("w"), [0.5, -0.5] - 0.5 * dw * 0.5 / norm, rtol=1e-5)
    half = [np.full(4, 300, np.float16)]
    clip_by_global_norm(half, 60.0)  # the norm, 600, is taken in float64
    assert half[0].tolist() == [30] * 4
    with pytest.raises(rlx.RlxValueError):
        clip_by_global_norm(half, float("nan"))


def test_quantized_forward_exact_update(model: rlx.Func) -> None:
    def coarse(w: np.ndarray) -> None:
        w[...] = np.round(w)

    rounded = np.round(np.float32([0.5, -0.5]))
    loss, _, dw, _ = gradients(rounded, 0.0)
    seen = []

    def named(name: str, shape: tuple[int, ...], w: np.ndarray) -> np.ndarray:
        seen.append((name, shape))
        return np.round(w)

    for new, outputs in (
        model.train_step_all_at_on_qat("reference", Descent(0), Halving(), 0, 0, coarse, DATA),
        model.train_step_all_at_on_qat_with("reference", Descent(0), Halving(), 0, 0, named, DATA),
    ):
        np.testing.assert_allclose(outputs[0], loss, rtol=1e-6)
        np.testing.assert_allclose(new.param_binding("w"), [0.5, -0.5] - 0.5 * dw, rtol=1e-6)
    assert seen == [("w", (2,)), ("b", ())]
    with pytest.raises(rlx.RlxShapeError, match="param `w` has shape"):
        model.train_step_all_at_on_qat(
            "reference", Descent(0), Halving(), 0, 0, lambda w: np.zeros(5, np.float32), DATA
        )


def test_it_converges(model: rlx.Func) -> None:
    opt, func, loss = Descent(0.05), model, np.inf
    for _ in range(300):
        func, (loss, _) = func.train_step_all(opt, DATA)
    best = gradients(*_solution())[0]
    assert loss < best + 1e-3


def _solution() -> tuple[np.ndarray, float]:
    design = np.column_stack([DATA["x"], np.ones(3)])
    found = np.linalg.lstsq(design, DATA["t"] - 1, rcond=None)[0]
    return found[:2], float(found[2])


@pytest.mark.parametrize(
    ("attempt", "error", "word"),
    [
        (lambda f: f.train_step(Descent(1), ["x"], DATA), rlx.RlxTransformError, "no param `x`"),
        (lambda f: f.train_step(Descent(1), ["ww"], DATA), rlx.RlxTransformError, "did you mean `w`"),
        (lambda f: f.train_step(Descent(1), "w", DATA), rlx.RlxTypeError, "list of names"),
        (lambda f: f.train_step(Descent(1), ["k"], DATA), rlx.RlxTransformError, "`k` \\(I32\\)"),
        (lambda f: f.train_step_all("sgd", DATA), rlx.RlxTypeError, "needs an optimizer, str"),
        (lambda f: f.train_step_all(rlx.optim.Sgd, DATA), rlx.RlxTypeError, "the class Sgd"),
        (lambda f: f.trainer(rlx.optim.Sgd), rlx.RlxTypeError, "the class Sgd"),
        (lambda f: f.train_step_all(Descent(1), {}), rlx.RlxRuntimeError, "`x`, `t`"),
        (lambda f: rlx.Func("l", build).train_step_all(Descent(1), DATA), rlx.RlxRuntimeError, "`w`, `b`"),
    ],
)
def test_faults(model: rlx.Func, attempt: object, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        attempt(model)  # type: ignore[operator]
