"""A small training run that uses everything that a checkpoint must keep; also a program, which is killed by a test.

`python runs.py FOLDER` trains with a checkpoint after each step, going on from what the folder holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rlxlang as rlx
from rlxlang.trainer import Trainer
from rlxlang.training import Checkpoint, LossScale
from rlxlang.training.run_state import RunState, position_of

MODEL = """
input x: [?batch, 6];
input y: [I32; ?batch];
param w1: [6, 8] = he_normal();
param b1: [8] = zeros();
param w2: [8, 3] = he_normal();
let h = dropout(relu(x @ w1 + b1), 0.2);
let logits = h @ w2;
tap logits;
out loss = mean(softmax_cross_entropy(logits, y));
"""
EPOCHS = 16
OPTIONS: dict[str, Any] = {
    "schedule": rlx.LrSchedule.warmup_cosine(1e-2, 1e-4, 5, 37),
    "max_grad_norm": 1.0,
    "accumulate": 3,
    "ema": 0.9,
    "loss_scale": LossScale(64.0, growth_steps=5),
    "metrics": ["accuracy", "f1"],
}


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 50).astype(np.int32)
    return {"x": rng.normal(size=(50, 6)).astype(np.float32) + np.eye(6, dtype=np.float32)[y], "y": y}


def begun(opt: Any = None, **options: Any) -> Trainer:
    return rlx.loads(MODEL).init_params(seed=3).trainer(opt or rlx.optim.AdamW(), seed=7, **{**OPTIONS, **options})


def resumed(path: Path, opt: Any = None) -> Trainer:
    return Trainer.resume(path, rlx.loads(MODEL), opt or rlx.optim.AdamW(), schedule=OPTIONS["schedule"])


def finish(trainer: Trainer, **options: Any) -> Any:
    """Train to the end; each epoch has seven batches."""
    return trainer.fit(data(), EPOCHS - trainer.epoch, 8, seed=5, **options)


def state(trainer: Trainer) -> dict[str, bytes]:
    """All that must not differ, bit for bit: arrays as a checkpoint calls them, and the position."""
    parts = {
        "param": trainer._params,
        "state": trainer.opt.state_dict()["buffers"],
        "extra": trainer._state.arrays(trainer._waiting > 0),
    }
    return named_bytes(parts, position_of(trainer))


def saved_state(run: RunState) -> dict[str, bytes]:
    """The same of a file."""
    return named_bytes({part: run.arrays[part] for part in ("param", "state", "extra")}, run.position)


def named_bytes(parts: Mapping[str, Mapping[str, np.ndarray]], position: Mapping[str, Any]) -> dict[str, bytes]:
    arrays = {f"{part}/{name}": array.tobytes() for part, found in parts.items() for name, array in found.items()}
    return {**arrays, "position": json.dumps(position).encode()}


def main(folder: Path) -> None:
    trainer = resumed(folder) if any(folder.glob("step_*.safetensors")) else begun()
    print(trainer.step_count, flush=True)
    finish(trainer, checkpoint=Checkpoint(folder, every_steps=1, keep=3))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
