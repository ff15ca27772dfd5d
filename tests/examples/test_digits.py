"""The digits data fit the model's inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def test_data_are_what_the_model_declares() -> None:
    with np.load(DIGITS / "digits.npz") as data:
        x, y = data["x"], data["y"]
        assert set(data.files) == {"x", "y"}
    assert (x.dtype, x.shape) == (np.dtype(np.float32), (1797, 64))
    assert (y.dtype, y.shape) == (np.dtype(np.int32), (1797,))
    assert (x.min(), x.max()) == (0.0, 1.0)
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
