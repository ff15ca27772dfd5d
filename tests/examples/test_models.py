"""Every example model: its form, agreement of the devices, its gradients, and the commands that the page names."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rlxlang as rlx
from tests.examples.models import EXAMPLES, MODELS

WITH_LOSS = sorted(set(MODELS) - {"kepler"})


def test_none_is_left_out() -> None:
    assert {m.file for m in MODELS.values()} == {str(p.relative_to(EXAMPLES)) for p in EXAMPLES.rglob("*.rlx")}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_form(name: str) -> None:
    file = EXAMPLES / MODELS[name].file
    text = file.read_text("utf-8")
    assert text == rlx.format(text), f"rlx fmt {file}"
    assert not rlx.check(file)
    assert re.match(rf'/// [A-Z].*[.)]\ngraph "{name}";\n', text)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_devices_agree(name: str, rng: np.random.Generator) -> None:
    example = MODELS[name]
    model, inputs = example.load(), example.inputs(rng)
    want = model.run_on("reference", inputs)
    assert all(np.isfinite(a).all() for a in want)
    for device in ("cpu", "opencl"):
        for output, found, wanted in zip(model.output_names(), model.run_on(device, inputs), want, strict=True):
            np.testing.assert_allclose(found, wanted, example.rtol, 1e-4, err_msg=f"{output} on {device}")


@pytest.mark.parametrize("name", WITH_LOSS)
def test_gradients(name: str, rng: np.random.Generator) -> None:
    example = MODELS[name]
    model, inputs = example.load(), example.inputs(rng)
    # Away from the start, where some of them vanish.
    moved = {n: a + np.float32(0.05) * rng.normal(size=a.shape).astype(np.float32) for n, a in model.bindings.items()}
    model = model.with_params(moved)
    gradient = model.grad_all()
    slopes = gradient.run_on("reference", inputs)
    for found, wanted in zip(gradient.run_on("cpu", inputs), slopes, strict=True):
        scale = np.abs(wanted).max() + 1e-3
        np.testing.assert_allclose(found / scale, wanted / scale, 1e-2, 1e-3)
    # Along the gradient the loss rises by the square of its norm.
    norm = np.sqrt(sum((s.astype(np.float64) ** 2).sum() for s in slopes))
    assert norm > 0
    step = 2e-3 / norm if name == "pinn" else 1e-3 / norm if norm > 1 else 1e-2
    ends = [
        model.with_params({n: moved[n] + np.float32(k * step) * s for n, s in zip(moved, slopes, strict=True)})
        for k in (-1, 1)
    ]
    low, high = (float(e.run_on("reference", inputs)[0]) for e in ends)
    assert (high - low) / (2 * step) == pytest.approx(norm**2, rel=0.05)
