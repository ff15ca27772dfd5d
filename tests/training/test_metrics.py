"""Metrics of an evaluation against their formulas, on every device and however the rows are cut."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import mannwhitneyu

import rlxlang as rlx
from rlxlang.training import Metric, evaluate

MANY = """
input x: [?n, 4];
input y: [I32; ?n];
param w: [4, 4] = eye();
let logits = x @ w;
tap logits;
out loss = mean(softmax_cross_entropy(logits, clamp(y, 0, 3)));
"""
TWO = """
input x: [?n, 2];
input y: [I32; ?n];
let logits = x;
let score = x[.., 1] - x[.., 0];
let column = score.reshape([-1, 1]);
let p = sigmoid(score);
tap logits; tap score; tap column; tap p;
out loss = mean(softmax_cross_entropy(logits, clamp(y, 0, 1)));
"""
LINE = """
input x: [?n, 3];
input y: [?n, 3];
param w: [] = ones();
let p = x * w;
tap p;
out loss = mean(square(p - y));
"""


def many(rng: np.random.Generator, count: int = 200, classes: int = 4) -> dict[str, np.ndarray]:
    """Logits with ties, and a label in five that is no class."""
    x = np.round(rng.normal(size=(count, classes)) * 2).astype(np.float32) / 2
    return {"x": x, "y": rng.integers(-1, classes, count).astype(np.int32)}


@pytest.fixture(params=["reference", "cpu"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def f1_of(truth: np.ndarray, guess: np.ndarray, k: int) -> float:
    both = np.sum((truth == k) & (guess == k))
    precision, recall = both / max(np.sum(guess == k), 1), both / max(np.sum(truth == k), 1)
    return float(2 * precision * recall / (precision + recall)) if both else 0.0


def test_classes(rng: np.random.Generator, device: str) -> None:
    func, data = rlx.loads(MANY).init_params(seed=0), many(rng)
    counted = data["y"] >= 0
    x, y = data["x"][counted].astype(np.float64), data["y"][counted]
    guess = x.argmax(-1)
    order = np.argsort(-x, axis=-1, kind="stable")
    present = sorted({*y, *guess})
    each = [f1_of(y, guess, k) for k in present]
    wanted = {
        "accuracy": np.mean(guess == y),
        "top1": np.mean(guess == y),
        "top3": np.mean((order[:, :3] == y[:, None]).any(-1)),
        "f1": np.mean(each),
        "heavy": np.average(each, weights=[np.sum(y == k) for k in present]),
        "micro": np.mean(guess == y),
        "perplexity": math.exp(-np.mean(log_softmax(x, -1)[np.arange(len(y)), y])),
    }
    metrics = ["accuracy", "top1", "top_3", "f1", "perplexity", Metric("f1", average="weighted", name="heavy")]
    metrics.append(Metric("f1", average="micro", name="micro"))
    for size in (1000, 7):
        found = evaluate(func, data, size, metrics=metrics, device=device)
        assert {n: found[n] for n in wanted} == pytest.approx(wanted, rel=1e-5)


def test_a_class_that_never_occurs_has_no_f1(device: str) -> None:
    func = rlx.loads(MANY).init_params(seed=0)
    x = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
    found = evaluate(func, {"x": x, "y": np.int32([0, 1, 1, 1])}, metrics=["f1"], device=device)
    assert found["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_two_classes(rng: np.random.Generator, device: str) -> None:
    func, data = rlx.loads(TWO), many(rng, classes=2)
    counted = data["y"] >= 0
    x, y = data["x"][counted].astype(np.float64), data["y"][counted]
    score = x[:, 1] - x[:, 0]
    pairs = list(itertools.product(score[y == 1], score[y == 0]))
    area = np.mean([(a > b) + (a == b) / 2 for a, b in pairs])
    assert area == pytest.approx(mannwhitneyu(score[y == 1], score[y == 0]).statistic / len(pairs))
    metrics = ["auc", "f1", Metric("accuracy", "score"), Metric("f1", average="macro", name="macro")]
    metrics += [Metric("auc", output, name=f"auc {output}") for output in ("score", "column")]
    metrics.append(Metric("f1", "p", threshold=0.75, name="sure"))
    sure = (1 / (1 + np.exp(-score)) > 0.75).astype(int)
    for size in (1000, 9):
        found = evaluate(func, data, size, metrics=metrics, device=device)
        assert found["auc"] == found["auc score"] == found["auc column"] == pytest.approx(area)
        assert found["accuracy"] == pytest.approx(np.mean((score > 0) == y))
        guess = x.argmax(-1)
        assert found["f1"] == pytest.approx(f1_of(y, guess, 1))
        assert found["macro"] == pytest.approx((f1_of(y, guess, 0) + f1_of(y, guess, 1)) / 2)
        assert found["sure"] == pytest.approx(f1_of(y, sure, 1))


def test_numbers(rng: np.random.Generator, device: str) -> None:
    func = rlx.loads(LINE).init_params(seed=0)
    x, y = rng.normal(size=(2, 50, 3)).astype(np.float32)
    found = evaluate(func, {"x": x, "y": y}, 8, metrics=["mse", "mae"], device=device)
    assert found["mse"] == pytest.approx(np.mean((x - y).astype(np.float64) ** 2), rel=1e-6)
    assert found["mae"] == pytest.approx(np.mean(np.abs((x - y).astype(np.float64))), rel=1e-6)
    assert found["loss"] == pytest.approx(found["mse"], rel=1e-5)


def test_several_labels_a_row(device: str) -> None:
    text = "input x: [?n, 5, 3]; input y: [I32; ?n, 5]; let logits = x; tap logits;"
    text += "out loss = mean(softmax_cross_entropy(x, y));"
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 5, 3)).astype(np.float32), rng.integers(0, 3, (6, 5)).astype(np.int32)
    found = evaluate(rlx.loads(text), {"x": x, "y": y}, 4, metrics=["accuracy", "top2", "perplexity"], device=device)
    assert found["accuracy"] == pytest.approx(np.mean(x.argmax(-1) == y))
    assert found["top2"] == pytest.approx(1 - np.mean(x.argmin(-1) == y))
    picked = np.take_along_axis(log_softmax(x.astype(np.float64), -1), y[..., None], -1)
    assert found["perplexity"] == pytest.approx(math.exp(-picked.mean()), rel=1e-5)


def test_what_cannot_be_told_is_nan(device: str) -> None:
    data = {"x": np.float32([[0, 1], [2, 1]]), "y": np.int32([1, 1])}
    found = evaluate(rlx.loads(TWO), data, metrics=["auc", "f1"], device=device)
    assert math.isnan(found["auc"])  # there is no row of class 0
    assert found["f1"] == pytest.approx(2 / 3)
    ignored = evaluate(rlx.loads(TWO), {**data, "y": np.int32([-1, 5])}, metrics=["accuracy", "f1"], device=device)
    assert all(math.isnan(ignored[name]) for name in ("accuracy", "f1"))
    spoilt = {"x": np.float32([[np.nan, 0, 0, 0], [0, 1, 0, 0]]), "y": np.int32([3, 1])}
    found = evaluate(rlx.loads(MANY).init_params(seed=0), spoilt, metrics=["top1", "accuracy"], device=device)
    assert (found["top1"], found["accuracy"]) == (0.5, 0.5)


def test_metrics_in_a_run(rng: np.random.Generator) -> None:
    trainer = rlx.loads(MANY).init_params(seed=0).trainer(rlx.optim.Sgd(0.1), ema=0.5)
    data = many(rng)
    history = trainer.fit(data, 2, val=data, metrics=["top2", "f1"])
    assert list(history.epochs[-1].val) == ["loss", "top2", "f1"]
    assert history.epochs[-1].val == trainer.evaluate(data, metrics=["top2", "f1"])
    assert trainer.evaluate(data, ema=True) == pytest.approx(evaluate(trainer.func(ema=True), data), rel=1e-6)
    assert list(trainer.evaluate(data)) == ["loss", "accuracy"]
    assert list(trainer.evaluate(data, metrics=[])) == ["loss"]


@pytest.mark.parametrize("options", [{"device": "reference"}, {"device": "cpu"}, {"quant": lambda w: w}])
def test_metrics_of_the_training_data(options: dict[str, Any], rng: np.random.Generator, tmp_path: Path) -> None:
    func, data = rlx.loads(MANY).init_params(seed=0), many(rng, 100)
    names = ["accuracy", "f1", "perplexity"]
    wanted = evaluate(func, data, metrics=names)
    del wanted["loss"]

    def trained(metrics: Any = names, **more: Any) -> rlx.Trainer:
        return func.trainer(rlx.optim.Sgd(0.0), accumulate=2, loss_scale=2, metrics=metrics, **options, **more)

    trainer = trained()
    history = trainer.fit(data, 2, 16)
    for record in history.epochs:
        assert record.train == pytest.approx(wanted, rel=1e-5)
    assert list(history.epochs[0].figures())[-3:] == ["train_accuracy", "train_f1", "train_perplexity"]
    assert all(math.isnan(value) for value in trainer.metrics().values())
    trainer.step(x=data["x"][:30], y=data["y"][:30])
    trainer.save(tmp_path / "run")
    resumed = rlx.Trainer.resume(tmp_path / "run", func, rlx.optim.Sgd(0.0), **{"quant": None, **options})
    resumed.step(x=data["x"][30:], y=data["y"][30:])
    assert resumed.metrics() == pytest.approx(wanted, rel=1e-5)
    resumed.reset_metrics()
    assert math.isnan(resumed.metrics()["f1"])
    with pytest.raises(rlx.RlxValueError, match="scores of all rows"):
        rlx.loads(TWO).trainer(rlx.optim.Sgd(0.1), metrics=["auc"])


@pytest.mark.parametrize(
    ("text", "metric", "kind", "message"),
    [
        (MANY, "acuracy", rlx.RlxValueError, "accuracy"),
        (MANY, "top0", rlx.RlxValueError, "at least 1"),
        (MANY, 3, rlx.RlxValueError, "int is given"),
        (MANY, "auc", rlx.RlxValueError, "two classes"),
        (MANY, "mse", rlx.RlxValueError, "no output fits"),
        (MANY, Metric("accuracy", "logit"), rlx.RlxNameError, "`logits`"),
        (MANY, Metric("accuracy", label="z"), rlx.RlxNameError, "no input `z`"),
        (MANY, Metric("accuracy", "logits", "x"), rlx.RlxShapeError, "integer labels"),
        (TWO, Metric("accuracy", "loss"), rlx.RlxValueError, "no output fits"),
        (LINE + "tap q = p * 2.0;", "mae", rlx.RlxValueError, "`p` with `y`, `q` with `y`"),
    ],
)
def test_what_is_refused(text: str, metric: Any, kind: type[Exception], message: str) -> None:
    func = rlx.loads(text).init_params(seed=0)
    with pytest.raises(kind, match=message):
        evaluate(func, {}, metrics=[metric])


def test_settings_that_are_refused() -> None:
    with pytest.raises(rlx.RlxValueError, match="macro"):
        Metric("f1", average="mean")
    func = rlx.loads(MANY).init_params(seed=0)
    with pytest.raises(rlx.RlxValueError, match="two figures are called `accuracy`"):
        evaluate(func, {}, metrics=["accuracy", "accuracy"])
    with pytest.raises(rlx.RlxTypeError, match="is a list"):
        evaluate(func, {}, metrics="accuracy")
    one = {"x": np.zeros((1, 4), np.float32), "y": np.int32([0])}
    with pytest.raises(rlx.RlxValueError, match="no metric"):
        func.trainer(rlx.optim.Sgd(0.1)).fit(one, 1, val=one, metrics=["loss"])
    with pytest.raises(rlx.RlxValueError, match="figures of `val`"):
        func.trainer(rlx.optim.Sgd(0.1)).fit(one, 1, metrics=["f1"])
