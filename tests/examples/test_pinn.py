"""The physics-informed network solves its equation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import rlxlang as rlx

MODEL = Path(__file__).resolve().parents[2] / "examples" / "pinn" / "pinn.rlx"


def test_it_finds_the_solution() -> None:
    model = rlx.load(MODEL).init_params(seed=0)
    trainer = model.trainer(rlx.optim.Adam(3e-3), rlx.LrSchedule.cosine(3e-3, 1e-5, 1000))
    x = np.linspace(0, 1, 64, dtype=np.float32)[:, None]
    first = trainer.step(x=x)
    for _ in range(999):
        last = trainer.step(x=x)
    _, u, curvature = trainer.func().run(x=x)
    assert last < first / 100
    assert np.abs(u - np.sin(np.pi * x)).max() < 5e-3
    assert np.abs(curvature + np.pi**2 * np.sin(np.pi * x)).max() < 0.5


def test_the_second_derivative_is_that_of_the_network() -> None:
    model = rlx.load(MODEL, hidden=8).init_params(seed=1)
    step = 1e-2
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)[:, None]
    low, mid, high = (model.run_on("reference", x=x + k * step)[1].astype(np.float64) for k in (-1, 0, 1))
    found = model.run(x=x)[2]
    np.testing.assert_allclose(found, (low - 2 * mid + high) / step**2, rtol=0.05, atol=0.05)
