"""The trainer: the compiled step against steps in Python, fitting, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import write_tensors
from rlxlang.optim import (
    Adafactor,
    Adam,
    AdamW,
    Chain,
    ClipByGlobalNorm,
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
    SkipNonFinite,
    Soap,
    Sophia,
    Stiefel,
)
from rlxlang.schedules import LrSchedule
from rlxlang.trainer import Trainer
from rlxlang.training import evaluate
from tests.training import runs

MODEL = """
graph "small";
input x: [?batch, 6];
input y: [I32; ?batch];
param w1: [6, 8] = he_normal();
param b1: [8] = zeros();
param w2: [8, 3] = he_normal();
param b2: [3] = zeros();
let h = relu(x @ w1 + b1);
let logits = h @ w2 + b2;
let loss = mean(softmax_cross_entropy(logits, y));
tap logits;
out loss;
"""
DEVICES = ("reference", "cpu")

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: Sgd(0.1),
    "momentum": lambda: Sgd(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda: AdamW(1e-2, groups=[{"match": "b*", "weight_decay": 0.0, "lr_scale": 2.0}]),
    "f64 state": lambda: AdamW(1e-2, state_dtype="f64"),
    "adam": lambda: Adam(1e-2, weight_decay=0.1),
    "nadamw": lambda: NAdamW(1e-2),
    "radam": lambda: RAdam(1e-2, betas=(0.9, 0.7)),
    "qhadamw": lambda: QHAdamW(1e-2),
    "lamb": lambda: Lamb(1e-2),
    "adafactor": lambda: Adafactor(1e-2),
    "lion": lambda: Lion(1e-3),
    "mars": lambda: Mars(1e-2),
    "muon": lambda: Muon(1e-2),
    "kron": lambda: KronPsgd(1e-2),
    "sophia": lambda: Sophia(1e-1, every=3),
    "lookahead": lambda: Lookahead(AdamW(1e-2), k=3),
    "chain": lambda: Chain(
        SkipNonFinite(),
        ClipByValue(0.1),
        ClipPerLayer(0.3),
        ClipByGlobalNorm(0.4),
        Lookahead(Sophia(1e-1, every=2), k=2),
    ),
    "stiefel": lambda: Stiefel(1e-2, momentum=0.9),
}
# Where a matrix is not square one of its factors has no unique eigenbasis at first, and rounding decides.
RESUMED = {**OPTIMIZERS, "soap": lambda: Soap(1e-2, every=2)}


class Descent(Optimizer):
    """An optimizer of the user's own."""

    def step(self, name: str, shape: tuple[int, ...], param: Any, grad: Any) -> None:
        param -= 0.1 * grad


@pytest.fixture(scope="module")
def model() -> rlx.Func:
    return rlx.loads(MODEL).init_params(seed=3)


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90).astype(np.int32)
    x = rng.normal(size=(90, 6)).astype(np.float32) * 0.5 + np.eye(6, dtype=np.float32)[y] * 2
    return {"x": x, "y": y}


def batch(data: dict[str, np.ndarray], k: int, size: int = 16) -> dict[str, np.ndarray]:
    return {n: a[k * size : (k + 1) * size] for n, a in data.items()}


def same_params(one: rlx.Func, other: rlx.Func, tolerance: float = 0.0) -> None:
    for name in one.param_names():
        left, right = one.param_binding(name), other.param_binding(name)
        assert left is not None
        assert right is not None
        np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("limit", [None, 0.2])
def test_compiled_step_is_the_step_in_python(
    model: rlx.Func, data: dict[str, np.ndarray], device: str, name: str, limit: float | None
) -> None:
    trainer, opt, func = (
        model.trainer(OPTIMIZERS[name](), max_grad_norm=limit, device=device),
        OPTIMIZERS[name](),
        model,
    )
    assert trainer.is_compiled
    schedule = LrSchedule.constant(opt.lr)
    for k in range(4):
        loss = trainer.step(**batch(data, k))
        func, outputs = func.train_step_all_at_on_clipped("reference", opt, schedule, k, limit or 0.0, batch(data, k))
        assert loss == pytest.approx(float(outputs[0]), abs=1e-5)
    same_params(trainer.func(), func, 2e-5)
    assert trainer.opt.state_dict()["step"] == opt.state_dict()["step"] == 4
    for key, array in opt.state_dict()["buffers"].items():
        np.testing.assert_allclose(trainer.opt.state_dict()["buffers"][key], array, rtol=0, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_soap_of_square_matrices(device: str, rng: np.random.Generator) -> None:
    model = rlx.loads("input x: [?b, 4]; param w: [4, 4] = orthogonal(); out loss = mean(tanh(x @ w) ** 2 - x @ w);")
    model = model.init_params(seed=0)
    trainer, opt, func = (
        model.trainer(Soap(1e-2, eps=1e-3, every=2), device=device),
        Soap(1e-2, eps=1e-3, every=2),
        model,
    )
    assert trainer.is_compiled
    for _ in range(6):
        x = rng.normal(size=(9, 4)).astype(np.float32)
        loss = trainer.step(x=x)
        func, outputs = func.train_step_all_at_on_clipped("reference", opt, LrSchedule.constant(1e-2), 0, 0.0, {"x": x})
        assert loss == pytest.approx(float(outputs[0]), abs=1e-5)
    same_params(trainer.func(), func, 1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_a_schedule_compiles_nothing_anew(model: rlx.Func, data: dict[str, np.ndarray], device: str) -> None:
    schedule = LrSchedule.warmup(0.4, 4)
    trainer, opt, func = model.trainer(Sgd(9.0), schedule=schedule, device=device), Sgd(9.0), model
    call = trainer._call
    for k in range(3):
        trainer.step(**batch(data, k))
        func, _ = func.train_step_all_at(opt, schedule, k, batch(data, k))
    assert trainer._call is call
    same_params(trainer.func(), func, 2e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {"betas": (0.5, 0.7)}) for name in ("adamw", "nadamw", "radam", "lamb", "lion", "mars", "sophia")),
        ("momentum", {"momentum": 0.3}),
        ("stiefel", {"momentum": 0.3}),
        ("kron", {"momentum": 0.3}),
        ("muon", {"momentum": 0.3, "betas": (0.5, 0.7)}),
    ],
)
def test_changed_settings_compile_nothing_anew(
    model: rlx.Func, data: dict[str, np.ndarray], name: str, settings: dict[str, Any]
) -> None:
    trainer, opt, func = model.trainer(OPTIMIZERS[name]()), OPTIMIZERS[name](), model
    unchanged, call = model.trainer(OPTIMIZERS[name]()), trainer._call
    for k in range(4):
        if k == 1:
            for key, value in settings.items():
                setattr(trainer.opt, key, value)
                setattr(opt, key, value)
        trainer.step(**batch(data, k))
        unchanged.step(**batch(data, k))
        func, _ = func.train_step_all(opt, batch(data, k))
    assert trainer._call is call
    same_params(trainer.func(), func, 2e-5)
    assert np.abs(trainer.param("w1") - unchanged.param("w1")).max() > 1e-4


@pytest.mark.parametrize("device", [*DEVICES, "opencl"])
def test_every_batch_size_works(model: rlx.Func, data: dict[str, np.ndarray], device: str) -> None:
    if rlx.Device.parse(device) not in rlx.devices():
        pytest.skip("this machine has no OpenCL device")
    trainer, func, opt = model.trainer(Sgd(0.1), device=device), model, Sgd(0.1)
    for size in (1, 7, 33, 7):
        part = batch(data, 0, size)
        trainer.step(part)
        func, _ = func.train_step_all(opt, part)
    same_params(trainer.func(), func, 2e-5)


def test_the_function_is_not_changed(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    before = {n: np.array(model.param_binding(n)) for n in model.param_names()}
    trainer = model.trainer(Sgd(1.0))
    first = trainer.func()
    trainer.step(**data)
    for name, array in before.items():
        assert array.tobytes() == np.asarray(model.param_binding(name)).tobytes()
        assert array.tobytes() == np.asarray(first.param_binding(name)).tobytes()
    assert not np.array_equal(trainer.param("w1"), before["w1"])


def test_wrong_inputs_change_nothing(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer = model.trainer(AdamW())
    trainer.step(**data)
    before = trainer.func()
    for wrong in (
        {"x": data["x"]},
        {**data, "z": 1},
        {"x": data["x"][:, :5], "y": data["y"]},
        {"x": data["x"], "y": data["y"][:4]},
    ):
        with pytest.raises(rlx.RlxError):
            trainer.step(**wrong)
    same_params(trainer.func(), before)
    assert trainer.step_count == trainer.opt.step_count == 1


def test_what_a_trainer_refuses(model: rlx.Func) -> None:
    with pytest.raises(rlx.RlxTypeError, match="optimizer"):
        model.trainer(0.1)
    with pytest.raises(rlx.RlxRuntimeError, match="no value"):
        rlx.loads(MODEL).trainer(Sgd(0.1))
    with pytest.raises(rlx.RlxValueError, match="accumulate"):
        model.trainer(Sgd(0.1), accumulate=0)
    with pytest.raises(rlx.RlxValueError, match="max_grad_norm"):
        model.trainer(Sgd(0.1), max_grad_norm=float("nan"))
    with pytest.raises(rlx.RlxTransformError):
        rlx.loads("input x: [3]; param w: [3] = zeros(); out y = w * x;").init_params(seed=0).trainer(Sgd(0.1))


def test_integer_params_stay(data: dict[str, np.ndarray]) -> None:
    func = rlx.loads("input x: [3]; param n: [I32; 3]; param w: [3]; out loss = sum(w * x * n.cast(DType::F32));")
    func = func.with_params({"n": np.int32([1, 2, 3]), "w": np.ones(3, np.float32)})
    trainer = func.trainer(Sgd(1.0))
    trainer.step(x=np.ones(3, np.float32))
    assert trainer.func().param_binding("w").tolist() == [0, -1, -2]
    assert trainer.func().param_binding("n").tolist() == [1, 2, 3]


# --------------------------------------------------------------------------------------------- the update in Python


def test_an_own_optimizer(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer, reference = model.trainer(Descent()), model.trainer(Sgd(0.1))
    assert not trainer.is_compiled
    for k in range(3):
        assert trainer.step(**batch(data, k)) == pytest.approx(reference.step(**batch(data, k)), abs=1e-5)
    same_params(trainer.func(), reference.func(), 2e-5)


def test_quantized_gradients_move_the_exact_parameters(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    def coarse(w: np.ndarray) -> np.ndarray:
        return np.round(w * 4) / 4

    seen = set()

    def named(name: str, shape: tuple[int, ...], w: np.ndarray) -> None:
        seen.add((name, shape))
        w[...] = coarse(w)

    one, two, func, opt = model.trainer(Sgd(0.1), quant=coarse), model.trainer(Sgd(0.1), quant=named), model, Sgd(0.1)
    for k in range(2):
        one.step(**batch(data, k))
        two.step(**batch(data, k))
        func, _ = func.train_step_all_at_on_qat("cpu", opt, LrSchedule.constant(0.1), k, 0.0, coarse, batch(data, k))
    assert ("w1", (6, 8)) in seen
    same_params(one.func(), func, 2e-5)
    same_params(two.func(), func, 2e-5)


# --------------------------------------------------------------------------------------------- fit


def test_fit_learns_and_reports(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer = model.trainer(AdamW(1e-2))
    epochs = []
    history = trainer.fit(data, 30, 16, val=data, callbacks=[lambda t, record: epochs.append(record.epoch)])
    assert epochs == list(range(1, 31))
    assert history.losses[-1] < 0.2 < history.losses[0]
    assert history.epochs[-1].val["accuracy"] > 0.9
    assert trainer.step_count == 30 * 6
    assert trainer.evaluate(data)["loss"] == pytest.approx(history.val_losses[-1], abs=1e-6)


def test_fit_is_reproducible_and_shuffles_by_seed(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    def trained(seed: int, shuffle: bool = True) -> np.ndarray:
        trainer = model.trainer(Sgd(0.1))
        trainer.fit(data, 2, 16, seed=seed, shuffle=shuffle)
        return trainer.param("w1")

    assert trained(1).tobytes() == trained(1).tobytes()
    assert trained(1).tobytes() != trained(2).tobytes()
    assert trained(1, shuffle=False).tobytes() == trained(2, shuffle=False).tobytes()


def test_fit_on_batches(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    by_arrays, by_batches = model.trainer(Sgd(0.1)), model.trainer(Sgd(0.1))
    one = by_arrays.fit(data, 2, 45, shuffle=False)
    two = by_batches.fit([batch(data, 0, 45), batch(data, 1, 45)], 2)
    assert one.losses == pytest.approx(two.losses, abs=1e-6)
    same_params(by_arrays.func(), by_batches.func(), 1e-6)


def test_fit_stops_early_with_the_best_parameters(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer = model.trainer(Sgd(0.1))
    best: list[np.ndarray] = []

    def worsen(trainer: Trainer, record: Any) -> None:
        best.append(trainer.param("w1"))
        trainer.opt.set_lr(30.0)  # from the second epoch on it diverges

    history = trainer.fit(data, 50, 16, patience=2, callbacks=[worsen])
    assert history.stopped_early
    assert len(history.epochs) < 50
    lowest = int(np.nanargmin(history.losses))
    assert trainer.param("w1").tobytes() == best[lowest].tobytes()


def test_a_callback_ends_the_run(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    history = model.trainer(Sgd(0.1)).fit(data, 9, 16, callbacks=[lambda t, r: r.epoch == 2])
    assert len(history.epochs) == 2


def test_fit_with_a_bar_and_without(
    model: rlx.Func, data: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    model.trainer(Sgd(0.1)).fit(data, 2, 16)
    assert capsys.readouterr().err == ""
    model.trainer(Sgd(0.1)).fit(data, 2, 2, progress=True)
    assert "epoch 2" in capsys.readouterr().err


def test_data_are_checked(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer = model.trainer(Sgd(0.1))
    with pytest.raises(rlx.RlxNameError, match="`z`"):
        trainer.fit({**data, "z": data["x"]})
    with pytest.raises(rlx.RlxRuntimeError, match="`y`"):
        trainer.fit({"x": data["x"]})
    with pytest.raises(rlx.RlxShapeError, match="rows"):
        trainer.fit({"x": data["x"], "y": data["y"][:-1]})
    with pytest.raises(rlx.RlxValueError, match="batch_size"):
        trainer.fit(data, 1, 0)
    with pytest.raises(rlx.RlxValueError, match="epochs"):
        trainer.fit(data, -1)
    with pytest.raises(rlx.RlxValueError, match="no batches"):
        trainer.fit(iter(()), 1)
    with pytest.raises(rlx.RlxTypeError):
        trainer.fit(3)  # type: ignore[arg-type]


def test_a_fixed_number_of_rows(data: dict[str, np.ndarray]) -> None:
    func = rlx.loads(MODEL.replace("?batch", "20")).init_params(seed=0)
    trainer = func.trainer(Sgd(0.1))
    trainer.fit(data, 1)
    assert trainer.step_count == 4  # 90 rows hold four batches of 20


def test_whole_inputs_beside_batches() -> None:
    func = rlx.loads(
        "input scale: [2]; input x: [?n, 2]; param w: [2] = ones(); out loss = mean(square(x * w * scale));"
    )
    trainer = func.init_params(seed=0).trainer(Sgd(0.1))
    trainer.fit({"x": np.ones((6, 2), np.float32), "scale": np.float32([1, 0])}, 1, 4)
    assert trainer.param("w")[0] < 1
    assert trainer.param("w")[1] == 1


def test_evaluate_weighs_batches_by_rows(model: rlx.Func, data: dict[str, np.ndarray]) -> None:
    trainer = model.trainer(Sgd(0.1))
    whole, parts = trainer.evaluate(data), trainer.evaluate(data, 16)
    assert whole == pytest.approx(parts, abs=1e-5)
    assert whole["loss"] == pytest.approx(float(model.run(data)[0]), abs=1e-5)
    assert evaluate(model, data, device="reference") == pytest.approx(whole, abs=1e-5)


# --------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_is_bit_for_bit_the_same(tmp_path: Path, name: str) -> None:
    # With a schedule, clipping, dropout, averages, a loss scale, and an accumulation that the checkpoint interrupts.
    straight = runs.begun(RESUMED[name]())
    straight.fit(runs.data(), 2, 8, seed=5)
    straight.save(tmp_path / "run.safetensors")
    assert (straight.call_count, straight.step_count) == (14, 4)
    straight.fit(runs.data(), 2, 8, seed=5)
    resumed = runs.resumed(tmp_path / "run.safetensors", RESUMED[name]())
    assert (resumed.call_count, resumed.step_count, resumed.epoch) == (14, 4, 2)
    resumed.fit(runs.data(), 2, 8, seed=5)
    assert runs.state(resumed) == runs.state(straight)


def test_resuming_in_the_middle_of_an_epoch(model: rlx.Func, data: dict[str, np.ndarray], tmp_path: Path) -> None:
    straight = model.trainer(AdamW())
    straight.fit(data, 2, 16)

    class Interruption(Exception):
        pass

    def interrupted() -> Trainer:
        trainer = model.trainer(AdamW())
        step = trainer._step

        def limited(values: tuple[object, ...]) -> float:
            if trainer.step_count == 8:
                raise Interruption
            return step(values)

        trainer._step = limited  # type: ignore[method-assign]
        with pytest.raises(Interruption):
            trainer.fit(data, 2, 16)
        return trainer

    interrupted().save(tmp_path / "run.safetensors")
    resumed = Trainer.resume(tmp_path / "run.safetensors", model, AdamW())
    assert (resumed.epoch, resumed.batch) == (1, 2)
    resumed.fit(data, 1, 16)
    same_params(resumed.func(), straight.func())


def test_what_cannot_be_saved_or_resumed(model: rlx.Func, data: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(rlx.RlxValueError, match="state_dict"):
        model.trainer(Descent()).save(path)
    trainer = model.trainer(AdamW())
    trainer.step(**data)
    trainer.save(path)
    with pytest.raises(rlx.RlxValueError, match="AdamW"):
        Trainer.resume(path, model, Sgd(0.1))
    write_tensors(path, {"w": np.zeros(2)})
    with pytest.raises(rlx.RlxValueError, match="no checkpoint"):
        Trainer.resume(path, model, AdamW())
