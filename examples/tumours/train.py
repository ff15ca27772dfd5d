"""Logistic regression by Newton's method with exact Hessians, on 569 tumours of the breast (Wisconsin).

pip install 'rlxlang[examples]'
python examples/tumours/train.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import rlx

Array: TypeAlias = "np.ndarray[Any, Any]"

MODEL = Path(__file__).with_name("tumours.rlx")


def data() -> tuple[dict[str, Array], dict[str, Array]]:
    """Tumours to learn from, and every fourth to test on; each measurement has mean 0 and deviation 1 among the former."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    test = np.arange(len(table.target)) % 4 == 0
    mean, deviation = table.data[~test].mean(0), table.data[~test].std(0)
    x = np.column_stack([(table.data - mean) / deviation, np.ones(len(test))]).astype(np.float32)
    y = (table.target == 0).astype(np.float32)
    return {"x": x[~test], "y": y[~test]}, {"x": x[test], "y": y[test]}


def newton(
    model: rlx.Func, known: dict[str, Array], tolerance: float = 1e-3, most: int = 20
) -> tuple[rlx.Func, list[float]]:
    """The model at the least loss, and the norms of the gradients on the way.

    Raises:
        ArithmeticError: It is not found in so many steps.
    """
    gradient, hessian = model.grad(["w"]), model.hessian(["w"])
    w, norms = np.zeros(model.param_shape_of("w") or (), np.float64), []
    for _ in range(most):
        model = model.with_param("w", w.astype(np.float32))
        (slope,) = gradient.with_params(model.bindings).run(known)
        norms.append(float(np.linalg.norm(slope)))
        if norms[-1] < tolerance:
            return model, norms
        (curvature,) = hessian.with_params(model.bindings).run(known)
        w = w - np.linalg.solve(curvature.astype(np.float64), slope.astype(np.float64))
    raise ArithmeticError(f"the norm of the gradient is {norms[-1]} after {most} steps")


def accuracy(model: rlx.Func, known: dict[str, Array]) -> float:
    """The part of the tumours that is told right."""
    return float(np.mean((model.run_dict(known)["probability"] > 0.5) == (known["y"] == 1)))


if __name__ == "__main__":
    learned, held_out = data()
    found, course = newton(rlx.load(MODEL), learned)
    for step, norm in enumerate(course):
        print(f"step {step}: norm of the gradient {norm:.2e}")
    print(f"told right of {len(held_out['y'])} tumours not learned from: {accuracy(found, held_out):.1%}")
