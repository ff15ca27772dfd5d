"""The digits example trains to the same losses on both devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose

import rlxlang as rlx

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"


def test_losses_agree() -> None:
    with np.load(FOLDER / "digits.npz") as file:
        data = {name: file[name] for name in file.files}
    model = rlx.load(FOLDER / "digits.rlx").init_params(seed=0)
    losses, weights = {}, {}
    for device in ("cpu", "opencl"):
        trainer = model.trainer(rlx.optim.AdamW(3e-3), device=device)
        losses[device] = trainer.fit(data, 3, 32, progress=False).losses
        weights[device] = trainer.func()
    assert losses["cpu"][-1] < 0.5 * losses["cpu"][0]
    assert_allclose(losses["opencl"], losses["cpu"], rtol=1e-3)
    # What one device has learnt the other reads.
    x, y = data["x"][:500], data["y"][:500]
    for device in ("cpu", "opencl"):
        loss, logits = weights[device].run_on("opencl" if device == "cpu" else "cpu", x=x, y=y)
        assert (logits.argmax(axis=1) == y).mean() > 0.93
        assert loss < 0.3
