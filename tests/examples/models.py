"""The example models with small configs and inputs, for tests that take them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rlxlang as rlx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Inputs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A model, its configs in tests, inputs of a generator, and how far devices may differ."""

    file: str
    inputs: Callable[[np.random.Generator], Inputs]
    configs: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 2e-4

    def load(self, **configs: Any) -> rlx.Func:
        """The model with its parameters drawn, if it has any."""
        model = rlx.load(EXAMPLES / self.file, config={**self.configs, **configs})
        return model.init_params(seed=1) if model.param_names() else model


def images(rows: int, labels: bool = True) -> Callable[[np.random.Generator], Inputs]:
    """The first digits, with their labels."""

    def inputs(rng: np.random.Generator) -> Inputs:
        with np.load(EXAMPLES / "digits" / "digits.npz") as data:
            chosen = rng.choice(len(data["x"]), rows, replace=False)
            return {"x": data["x"][chosen]} | ({"y": data["y"][chosen]} if labels else {})

    return inputs


def _graph(rng: np.random.Generator) -> Inputs:
    ends = rng.integers(0, 6, (2, 11)).astype(np.int32)
    return {
        "nodes": rng.normal(size=(7, 4)).astype(np.float32),  # no edge leads to the last one
        "source": ends[0],
        "target": ends[1],
        "y": rng.integers(0, 2, 7).astype(np.int32),
    }


def _counts(rng: np.random.Generator) -> Inputs:
    trials = rng.integers(1, 9, 20)
    return {
        "x": rng.normal(size=(20, 3)).astype(np.float32),
        "successes": rng.binomial(trials, 0.4).astype(np.float32),
        "trials": trials.astype(np.float32),
    }


MODELS = {
    "autoencoder": Example("autoencoder.rlx", images(5, labels=False), {"hidden": 16}),
    "diffusion": Example("diffusion.rlx", images(5, labels=False), {"hidden": 16}),
    "digits": Example("digits/digits.rlx", images(5)),
    "flow": Example(
        "flow.rlx", lambda rng: {"x": rng.normal(size=(9, 2)).astype(np.float32)}, {"hidden": 8, "layers": 2}
    ),
    "graph_network": Example("graph_network.rlx", _graph, {"width": 8, "rounds": 1}),
    "hamiltonian_network": Example(
        "hamiltonian_network.rlx",
        lambda rng: {name: rng.normal(size=(5, 1)).astype(np.float32) for name in ("q", "p", "dq", "dp")},
        {"hidden": 8},
    ),
    "kalman": Example("kalman.rlx", lambda rng: {"measured": rng.normal(size=12).astype(np.float32).cumsum()}),
    "kepler": Example(
        "kepler.rlx", lambda rng: {"mean_anomaly": rng.uniform(-3, 3, 7).astype(np.float32), "eccentricity": 0.3}
    ),
    "language_model": Example(
        "language_model.rlx",
        lambda rng: {"ids": rng.integers(0, 50, (2, 9)).astype(np.int32)},
        {"depth": 1, "width": 16, "heads": 2, "vocab": 50},
    ),
    "logistic_regression": Example("logistic_regression.rlx", _counts, {"ridge": 0.1}),
    "mnist": Example(
        "mnist/mnist.rlx",
        lambda rng: {"x": rng.uniform(size=(3, 784)).astype(np.float32), "y": rng.integers(0, 10, 3).astype(np.int32)},
        {"channels": 2, "hidden": 8, "drop": 0.0},
    ),
    "neural_ode": Example(
        "neural_ode.rlx",
        lambda rng: {
            "start": rng.normal(size=(3, 2)).astype(np.float32),
            "seen": rng.normal(size=(5, 3, 2)).astype(np.float32),
        },
        {"hidden": 8, "substeps": 1},
    ),
    "pinn": Example("pinn/pinn.rlx", lambda rng: {"x": rng.uniform(size=(6, 1)).astype(np.float32)}, rtol=2e-3),
    "recurrent": Example("recurrent.rlx", images(5), {"hidden": 16}),
    "residual_network": Example("residual_network.rlx", images(3), {"channels": 4, "stages": 1}),
    "sunspots": Example(
        "sunspots/sunspots.rlx", lambda rng: {"series": rng.uniform(size=(3, 14)).astype(np.float32)}, {"hidden": 4}
    ),
    "tumours": Example(
        "tumours/tumours.rlx",
        lambda rng: {"x": rng.normal(size=(9, 4)).astype(np.float32), "y": rng.integers(0, 2, 9).astype(np.float32)},
        {"features": 4},
    ),
    "two_towers": Example("two_towers.rlx", images(6, labels=False), {"hidden": 16}),
    "vision_transformer": Example("vision_transformer.rlx", images(3), {"depth": 1, "width": 16, "heads": 2}),
}
