"""Steps with more than an optimizer: gathered gradients, averages of parameters, loss scales; on every device and in Python."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.optim import AdamW, Muon, Sgd
from rlxlang.trainer import Trainer
from rlxlang.training import LossScale
from rlxlang.training.step_state import LEAST_SCALE

LINE = """
input shift: [1];
input x: [?n, 4];
input y: [?n];
param w: [4] = normal();
param b: [] = zeros();
out loss = mean(square(x @ w + b - y + shift));
"""
ZERO = np.zeros(1, np.float32)
# The same steps compiled for each device, and with the update in Python, to which an own quantizer leads.
WAYS: dict[str, dict[str, Any]] = {
    "reference": {"device": "reference"},
    "cpu": {"device": "cpu"},
    "python": {"device": "cpu", "quant": lambda w: w},
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return WAYS[request.param]


def test_all_of_it_by_opencl(line: rlx.Func) -> None:
    if rlx.Device.parse("opencl") not in rlx.devices():
        pytest.skip("this machine has no OpenCL device")
    one, two = (
        line.trainer(Sgd(0.1), accumulate=2, ema=0.5, loss_scale=LossScale(64.0, 2), max_grad_norm=0.5, device=device)
        for device in ("cpu", "opencl")
    )
    for k in range(8):
        data = rows(5, k)
        data["y"][2] = np.inf if k == 4 else 0
        for trainer in (one, two):
            trainer.step(data)
        assert (one.loss_scale, one.step_count) == (two.loss_scale, two.step_count)
    assert one.skipped_count == 1
    np.testing.assert_allclose(two.param("w"), one.param("w"), rtol=0, atol=2e-5)
    np.testing.assert_allclose(two.func(ema=True).param_binding("w"), one.func(ema=True).param_binding("w"), atol=2e-5)


@pytest.fixture(scope="module")
def line() -> rlx.Func:
    return rlx.loads(LINE).init_params(seed=1)


def rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "shift": ZERO,
        "x": rng.normal(size=(count, 4)).astype(np.float32),
        "y": rng.normal(size=count).astype(np.float32),
    }


def gradient(data: dict[str, np.ndarray], w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the mean squared error, by hand."""
    error = data["x"].astype(np.float64) @ w + b - data["y"]
    return 2 * error @ data["x"] / len(error), 2 * error.mean()


# --------------------------------------------------------------------------------------------- accumulation


def test_accumulated_gradients_are_weighed_by_rows(line: rlx.Func, way: dict[str, Any]) -> None:
    trainer = line.trainer(Sgd(0.1), max_grad_norm=0.5, accumulate=3, **way)
    assert trainer.is_compiled == ("quant" not in way)
    w, b = trainer.param("w").astype(np.float64), trainer.param("b").astype(np.float64)
    for k in range(2):
        data = rows(30, k)
        for part in (slice(0, 16), slice(16, 17), slice(17, 30)):
            assert trainer.step_count == k
            trainer.step(shift=ZERO, x=data["x"][part], y=data["y"][part])
        dw, db = gradient(data, w, b)
        norm = np.sqrt(dw @ dw + db * db)
        w, b = w - 0.1 * dw * min(1, 0.5 / norm), b - 0.1 * db * min(1, 0.5 / norm)
    assert (trainer.step_count, trainer.call_count) == (2, 6)
    np.testing.assert_allclose(trainer.param("w"), w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.param("b"), b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opt", [lambda: AdamW(1e-2), lambda: Muon(1e-2)])
def test_accumulated_parts_are_the_whole(opt: Callable[[], Any]) -> None:
    func = rlx.loads("input x: [?n, 4]; param w: [4, 3] = he_normal(); out loss = mean(square(tanh(x @ w) - 0.5));")
    func = func.init_params(seed=0)
    whole, parts = func.trainer(opt()), func.trainer(opt(), accumulate=2)
    for k in range(3):
        x = rows(20, k)["x"]
        whole.step(x=x)
        parts.step(x=x[:7])
        parts.step(x=x[7:])
    np.testing.assert_allclose(parts.param("w"), whole.param("w"), rtol=0, atol=2e-5)


def test_a_checkpoint_between_two_parts(line: rlx.Func, way: dict[str, Any], tmp_path: Path) -> None:
    straight = line.trainer(AdamW(1e-2), accumulate=3, **way)
    for k in range(9):
        straight.step(rows(5 + k, k))
        if k == 4:
            straight.save(tmp_path / "run")
    resumed = Trainer.resume(tmp_path / "run", line, AdamW(1e-2), **way)
    for k in range(5, 9):
        resumed.step(rows(5 + k, k))
    assert resumed.param("w").tobytes() == straight.param("w").tobytes()
    assert resumed.call_count == 9
    with pytest.raises(rlx.RlxValueError, match="2 of 3 calls, which cannot go on as one of 4"):
        Trainer.resume(tmp_path / "run", line, AdamW(1e-2), accumulate=4, **way)


# --------------------------------------------------------------------------------------------- averages


def test_moving_averages(line: rlx.Func, way: dict[str, Any]) -> None:
    trainer = line.trainer(Sgd(0.2), ema=0.75, **way)
    average = trainer.param("w").astype(np.float64)
    for k in range(4):
        trainer.step(rows(8, k))
        average = 0.75 * average + 0.25 * trainer.param("w")
    found = trainer.func(ema=True)
    np.testing.assert_allclose(found.param_binding("w"), average, rtol=1e-5, atol=1e-6)
    assert trainer.func().param_binding("w").tobytes() == trainer.param("w").tobytes()  # type: ignore[union-attr]
    data = rows(50)
    assert trainer.evaluate(data, ema=True)["loss"] == pytest.approx(float(found.run(data)[0]), abs=1e-5)
    assert trainer.evaluate(data)["loss"] != pytest.approx(float(found.run(data)[0]), abs=1e-5)


def test_averages_of_half_precision_are_finer(way: dict[str, Any]) -> None:
    func = rlx.loads("input x: [1]; param w: [F16; 1] = ones(); out loss = mean(w.cast(DType::F32) * x);")
    trainer = func.init_params(seed=0).trainer(Sgd(2.0**-10), ema=0.999, **way)
    trainer.step(x=[1.0])
    assert trainer.param("w")[0] == np.float16(1 - 2.0**-10)
    assert trainer._state.averages["w"][0] == pytest.approx(1 - 2.0**-10 * 0.001, abs=1e-7)
    assert trainer.func(ema=True).param_binding("w").dtype == np.float16  # type: ignore[union-attr]


def test_what_averages_need(line: rlx.Func) -> None:
    with pytest.raises(rlx.RlxValueError, match="keeps no averages"):
        line.trainer(Sgd(0.1)).func(ema=True)
    with pytest.raises(rlx.RlxValueError, match="`ema`"):
        line.trainer(Sgd(0.1), ema=1.0)


# --------------------------------------------------------------------------------------------- loss scales


def test_a_scale_of_a_power_of_two_changes_no_bit(line: rlx.Func, way: dict[str, Any]) -> None:
    plain, scaled = line.trainer(AdamW(), **way), line.trainer(AdamW(), loss_scale="dynamic", **way)
    for k in range(3):
        assert scaled.step(rows(9, k)) == plain.step(rows(9, k))
    assert scaled.loss_scale == 2.0**15
    assert scaled.param("w").tobytes() == plain.param("w").tobytes()


def test_small_gradients_of_half_precision_survive(way: dict[str, Any]) -> None:
    # The derivative 2⁻¹³ · 2⁻¹³ is 0 in F16, whose least number is 2⁻²⁴; compiled code may keep more digits on the way.
    text = "input x: [F16; 3]; param w: [F16; 3] = ones(); let h = w * x; out loss = sum(h * 0.0001220703125);"
    func = rlx.loads(text).init_params(seed=0)
    x = np.full(3, 2.0**-13, np.float16)
    lost, kept = func.trainer(Sgd(2.0**24), **way), func.trainer(Sgd(2.0**24), loss_scale="dynamic", **way)
    lost.step(x=x)
    kept.step(x=x)
    if way["device"] == "reference":
        assert lost.param("w").tolist() == [1, 1, 1]
    assert kept.param("w").tolist() == [0.75] * 3


def test_steps_that_are_not_finite_change_nothing_but_the_scale(line: rlx.Func, way: dict[str, Any]) -> None:
    trainer = line.trainer(AdamW(1e-2), ema=0.9, loss_scale=LossScale(256.0, growth_steps=2), max_grad_norm=1.0, **way)
    scale, good, skipped = 256.0, 0, 0
    for k, is_bad in enumerate([0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0]):
        data = rows(6, k)
        if is_bad:
            data["x"][3, 2] = [np.inf, np.nan][k % 2]
        before = trainer.param("w").tobytes(), trainer._state.averages["w"].tobytes(), str(trainer.opt.state_dict())
        trainer.step(data)
        after = trainer.param("w").tobytes(), trainer._state.averages["w"].tobytes(), str(trainer.opt.state_dict())
        assert (before == after) == bool(is_bad)
        if is_bad:
            scale, good, skipped = scale / 2, 0, skipped + 1
        else:
            good += 1
            if good == 2:
                scale, good = scale * 2, 0
        assert (trainer.loss_scale, trainer.skipped_count) == (scale, skipped)
        assert trainer.step_count == trainer.opt.step_count == k + 1 - skipped


def test_a_constant_scale(line: rlx.Func, way: dict[str, Any]) -> None:
    trainer = line.trainer(Sgd(0.1), loss_scale=8, accumulate=2, **way)
    trainer.step({**rows(4), "y": np.full(4, np.inf, np.float32)})
    trainer.step(rows(4))
    assert (trainer.skipped_count, trainer.loss_scale) == (1, 8)
    trainer.step(rows(4))
    trainer.step(rows(4))  # the infinity is gone with the update that was left out
    assert trainer.step_count == 1
    assert np.isfinite(trainer.param("w")).all()


def test_a_loss_that_is_never_finite(line: rlx.Func, way: dict[str, Any]) -> None:
    trainer = line.trainer(Sgd(0.1), loss_scale=LossScale(4 * LEAST_SCALE), **way)
    bad = {**rows(4), "y": np.full(4, np.nan, np.float32)}
    trainer.step(bad)
    with pytest.raises(rlx.RlxRuntimeError, match="least loss scale"):
        trainer.step(bad)


@pytest.mark.parametrize("wrong", ["static", True, 0.0, -1.0, float("nan"), 2.0**30])
def test_what_is_no_scale(line: rlx.Func, wrong: Any) -> None:
    with pytest.raises(rlx.RlxValueError, match="scale"):
        line.trainer(Sgd(0.1), loss_scale=wrong)
    with pytest.raises(rlx.RlxValueError, match="growth_steps"):
        LossScale(1.0, 0)


# --------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 2, "ema": 0.9, "loss_scale": "dynamic", "max_grad_norm": 1.0}], ids=["plain", "all"]
)
def test_steps_keep_to_the_memory_they_have(options: dict[str, Any]) -> None:
    func = rlx.loads("""
        input x: [?n, 64];
        input y: [I32; ?n];
        param w1: [64, 128] = he_normal();
        param w2: [128, 10] = he_normal();
        out loss = mean(softmax_cross_entropy(relu(x @ w1) @ w2, y));
    """)
    schedule = rlx.LrSchedule.cosine(1e-2, 1e-3, 500)
    trainer = func.init_params(seed=0).trainer(AdamW(), schedule=schedule, device="cpu", **options)
    x, y = np.ones((64, 64), np.float32), np.zeros(64, np.int32)

    def steps() -> None:
        for _ in range(300):
            trainer.step(x=x, y=y)

    steps()
    tracemalloc.start()
    try:
        steps()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        steps()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Numbers and tuples come and go; the least array of this model has 5 KiB.
    assert after - before < 2048
    assert peak - before < 4096
