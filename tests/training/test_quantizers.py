"""Parameters rounded by name: where, how, and what a compiled step does with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.optim import AdamW, Sgd
from rlxlang.schedules import LrSchedule
from rlxlang.trainer import Trainer
from rlxlang.training import evaluate
from rlxlang.training.quantizers import NamedQuantizer, contracted_axes

LAYERS = """
input x: [?n, 4];
input picture: [?n, 3, 6, 6];
input word: [I32; ?n];
param ahead: [4, 5];
param linear: [6, 5];
param kernel: [2, 3, 3, 3];
param depth: [3, 1, 3, 3];
param table: [10, 4];
param heads: [3, 4, 4];
param bias: [4];
param again: [4, 4];
param each: [3, 4, 4];
scan state = x for 3 { let state = tanh(state @ again); }
scan deep = x over layer in each { let deep = linear(deep, layer); }
let h = linear(x @ ahead, linear);
let c = conv2d(conv2d(picture, depth, groups: 3, padding: 1), kernel);
let z = einsum("ni,hij->hnj", x + embed(table, word) + bias, heads);
out loss = mean(h) + mean(c) + mean(z) + mean(state) + mean(deep);
"""
# Weights of both layouts: the axis that the product sums is the first of `w`, and the last of `v`.
MODEL = """
input x: [?n, 40];
input y: [?n, 8];
param w: [40, 12] = he_normal();
param b: [12] = normal();
param v: [8, 12] = he_normal();
out loss = mean(square(linear(tanh(x @ w + b), v) - y));
"""


@pytest.fixture(scope="module")
def func() -> rlx.Func:
    return rlx.loads(MODEL).init_params(seed=2)


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(24, 40)).astype(np.float32), "y": rng.normal(size=(24, 8)).astype(np.float32)}


def scaled(w: np.ndarray, fmt: str) -> np.ndarray:
    scale = np.abs(w).max() * np.float32(1 / rlx.lowp.parse_format(fmt).max)
    return rlx.lowp.quantize(w / scale, fmt) * scale


def integers(w: np.ndarray, bits: int, axis: int) -> np.ndarray:
    top = 2 ** (bits - 1) - 1
    step = np.abs(w).max(axis=axis, keepdims=True) * np.float32(1 / top)
    return np.clip(np.rint(w / step), -top, top) * step


# What a name means for a matrix that is contracted along an axis, in NumPy.
MEANINGS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "e4m3": lambda w, axis: scaled(w, "e4m3"),
    "nvf4": lambda w, axis: scaled(w, "nvf4"),
    "f6m2e3": lambda w, axis: scaled(w, "f6m2e3"),
    "bf16": lambda w, axis: rlx.lowp.quantize(w, "bf16"),
    "nvfp4": lambda w, axis: rlx.lowp.nvfp4().quantize(w, axis),
    "nvfp4:8": lambda w, axis: rlx.lowp.nvfp4(8).quantize(w, axis),
    "mx": lambda w, axis: rlx.lowp.mx().quantize(w, axis),
    "MX:nvf4:16": lambda w, axis: rlx.lowp.mx("nvf4", 16).quantize(w, axis),
    "int8": lambda w, axis: integers(w, 8, axis),
    "int3": lambda w, axis: integers(w, 3, axis),
}


def test_the_axes_over_which_products_sum() -> None:
    axes = contracted_axes(rlx.loads(LAYERS).graph)
    in_loops = {"again": (0,), "each": (2,)}
    assert axes == {"ahead": (0,), "linear": (1,), "kernel": (1, 2, 3), "heads": (1,), **in_loops}
    quantizer = NamedQuantizer(rlx.loads(LAYERS).graph, "int8")
    assert quantizer.names == ["ahead", "linear", "kernel", "depth", "table", "heads", "again", "each"]


def test_kernels_are_rounded_along_all_that_is_summed(rng: np.random.Generator) -> None:
    graph = rlx.loads(LAYERS).graph
    params = {e.name: rng.normal(size=tuple(map(int, e.node.shape))).astype(np.float32) for e in graph.params}
    found = NamedQuantizer(graph, {"kernel": "nvfp4:5", "heads": "int4", "table": "int5"}).arrays(params, None)
    assert found.keys() == {"kernel", "heads", "table"}
    flat = rlx.lowp.nvfp4(5).quantize(params["kernel"].reshape(2, 27))
    np.testing.assert_allclose(found["kernel"], flat.reshape(2, 3, 3, 3), rtol=1e-6)
    np.testing.assert_allclose(found["heads"], integers(params["heads"], 4, 1), rtol=1e-6)
    np.testing.assert_allclose(found["table"], integers(params["table"], 5, 1), rtol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("name", MEANINGS)
def test_steps_are_those_of_the_function_in_python(
    func: rlx.Func, data: dict[str, np.ndarray], device: str, name: str
) -> None:
    def rounded(param: str, shape: tuple[int, ...], w: np.ndarray) -> np.ndarray:
        return w if param == "b" else MEANINGS[name](w, {"w": 0, "v": 1}[param])

    named, python = (func.trainer(Sgd(0.1), quant=quant, device=device) for quant in (name, rounded))
    assert (named.is_compiled, python.is_compiled) == (True, False)
    for _ in range(2):
        assert named.step(**data) == pytest.approx(python.step(**data), rel=1e-4)
    for param in ("w", "b", "v"):
        np.testing.assert_allclose(named.param(param), python.param(param), rtol=0, atol=1e-4)
    assert not np.array_equal(named.param("w"), func.param_binding("w"))
    if device == "cpu":
        step = func.train_step_all_at_on_qat
        once, _ = step("cpu", Sgd(0.1), LrSchedule.constant(0.1), 0, 0.0, name, data)
        fresh = func.trainer(Sgd(0.1), quant=name, device="cpu")
        fresh.step(**data)
        np.testing.assert_allclose(once.param_binding("w"), fresh.param("w"), rtol=0, atol=1e-6)


def test_the_update_is_that_of_the_exact_parameters() -> None:
    func = rlx.loads("input x: [?n, 2]; param w: [2, 1]; out loss = mean(square(x @ w)) / 2.0;")
    w = np.float32([[0.9], [-6.0]])
    trainer = func.with_param("w", w).trainer(Sgd(0.5), quant="nvf4")  # the scale is 1
    x = np.float32([[1, 2], [3, -1]])
    trainer.step(x=x)
    q = np.float32([[1.0], [-6.0]])
    np.testing.assert_allclose(trainer.param("w"), w - 0.5 * x.T @ (x @ q) / 2, rtol=1e-6)


def test_with_everything_else(func: rlx.Func, data: dict[str, np.ndarray], tmp_path: Path) -> None:
    spec = {"v": None, "*": "nvfp4"}
    options: dict[str, Any] = {"accumulate": 2, "ema": 0.9, "loss_scale": "dynamic", "max_grad_norm": 1.0}
    straight = func.trainer(AdamW(1e-2), quant=spec, **options)
    straight.fit(data, 4, 8)
    straight.save(tmp_path / "run")
    straight.fit(data, 2, 8)
    resumed = Trainer.resume(tmp_path / "run", rlx.loads(MODEL), AdamW(1e-2))
    resumed.fit(data, 2, 8)
    assert resumed.param("w").tobytes() == straight.param("w").tobytes()
    used = resumed.func(quantized=True)
    np.testing.assert_array_equal(used.param_binding("v"), resumed.param("v"))
    np.testing.assert_allclose(used.param_binding("w"), rlx.lowp.nvfp4().quantize(resumed.param("w"), 0), rtol=1e-6)
    assert resumed.evaluate(data) == pytest.approx(evaluate(used, data), rel=1e-6)
    assert resumed.evaluate(data, quantized=False) == pytest.approx(evaluate(resumed.func(), data), rel=1e-6)
    both = resumed.func(ema=True, quantized=True)
    assert resumed.evaluate(data, ema=True) == pytest.approx(evaluate(both, data), rel=1e-6)


def test_frozen_parameters_are_rounded_too(func: rlx.Func, data: dict[str, np.ndarray]) -> None:
    opt = Sgd(0.1, groups=[{"match": "w", "frozen": True}])
    trainer = func.trainer(opt, quant="int4")
    loss = trainer.step(**data)
    assert loss == pytest.approx(evaluate(func.trainer(Sgd(0.1), quant="int4").func(quantized=True), data)["loss"])
    assert trainer.param("w").tobytes() == func.param_binding("w").tobytes()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nvf5", "no quantizer 'nvf5'"),
        ("int1", "no quantizer"),
        ("int17", "no quantizer"),
        ("mx:e4m3:0", "no quantizer"),
        ("mx:nope", "no quantizer"),
        ("nvfp4:x", "no quantizer"),
        ("f64m52e11", "no quantizer"),
        ({"w": "int8", "z*": "int4"}, "`quant` of `graph`: the pattern 'z*' matches no parameter"),
        ({"b": "int8"}, "the pattern 'b' matches no parameter"),
        ({"w": None}, "it rounds no parameter"),
        (8, "int is given"),
    ],
)
def test_what_is_refused(func: rlx.Func, spec: Any, message: str) -> None:
    with pytest.raises(rlx.RlxValueError, match=message.replace("*", r"\*")):
        func.trainer(Sgd(0.1), quant=spec)


def test_what_needs_a_quantizer(func: rlx.Func, data: dict[str, np.ndarray]) -> None:
    with pytest.raises(rlx.RlxValueError, match="has no quantizer"):
        func.trainer(Sgd(0.1)).func(quantized=True)
    rounding = func.trainer(Sgd(0.1), quant=np.round)
    np.testing.assert_array_equal(rounding.func(quantized=True).param_binding("w"), np.round(rounding.param("w")))
