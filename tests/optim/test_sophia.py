"""Sophia-H: its formula, its estimates of curvature, and runs that make them."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.diagnostics import RlxRuntimeError, RlxShapeError, RlxValueError
from rlxlang.optim import Sophia
from rlxlang.trainer_step import build_step
from rlxlang.training.step_state import StepState

# A quadratic: its Hessian is known, and couples both parameters.
QUADRATIC = """
input m: [5, 5];
param a: [2, 1];
param b: [3];
let z = concat([a.reshape([2]), b], axis: 0);
out loss = 0.5 * sum(z * (m @ z)) + sum(z);
"""


def quadratic(rng: np.random.Generator) -> tuple[rlx.Func, np.ndarray]:
    matrix = rng.normal(size=(5, 5))
    matrix = (matrix @ matrix.T).astype(np.float32)
    params = {"a": rng.normal(size=(2, 1)).astype(np.float32), "b": rng.normal(size=3).astype(np.float32)}
    return rlx.loads(QUADRATIC).with_params(params), matrix


@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
def test_fifty_steps_are_the_algorithm_of_the_paper(device: str, rng: np.random.Generator) -> None:
    if rlx.Device.parse(device) not in rlx.devices():
        pytest.skip("this machine has no such device")
    func, matrix = quadratic(rng)
    settings = {"lr": 0.05, "gamma": 0.5, "rho": 0.7, "every": 4, "seed": 3}
    trainer, opt = func.trainer(Sophia(**settings), device=device), Sophia(**settings)
    assert trainer.is_compiled
    wide = matrix.astype(np.float64)
    z = np.concatenate([np.ravel(func.param_binding(n)) for n in "ab"]).astype(np.float64)
    m = h = np.zeros(5)
    for t in range(1, 51):
        u = [opt.hessian_direction(n, s) for n, s in (("a", (2, 1)), ("b", (3,)))]
        if t % 4 == 1:
            signs = np.concatenate([np.ravel(part) for part in u])
            assert set(signs) <= {-1.0, 1.0}
            h = 0.99 * h + 0.01 * signs * (wide @ signs)
        else:
            assert u == [None, None]
        m = 0.965 * m + 0.035 * (wide @ z + 1)
        z = z - 0.05 * (np.clip(m / np.maximum(0.5 * h, 1e-12), -0.7, 0.7) + 0.1 * z)
        trainer.step(m=matrix)
        func, _ = func.train_step_all(opt, {"m": matrix})
        for found in (trainer.func(), func):
            np.testing.assert_allclose(
                np.concatenate([np.ravel(found.param_binding(n)) for n in "ab"]), z, rtol=2e-5, atol=2e-5
            )


def test_signs_average_to_the_diagonal(rng: np.random.Generator) -> None:
    matrix = rng.normal(size=(6, 6))
    matrix = matrix + matrix.T
    opt, w, total = Sophia(every=1), np.zeros(6), np.zeros(6)
    seen = set()
    for _ in range(3000):
        u = opt.hessian_direction("w", (6,))
        assert u is not None
        seen.add(u.tobytes())
        total += u * (matrix @ u) / 3000
        opt.observe_hessian("w", np.ones(6))
        opt.step("w", (6,), w, np.zeros(6))
    assert len(seen) == 64
    np.testing.assert_allclose(total, np.diag(matrix), atol=0.25)
    one, other = opt.hessian_direction("w", (64,)), opt.hessian_direction("x", (64,))
    assert not np.array_equal(one, other)
    assert not np.array_equal(Sophia(seed=1).hessian_direction("w", (64,)), Sophia().hessian_direction("w", (64,)))


def test_curvature_is_computed_in_some_steps_alone(rng: np.random.Generator) -> None:
    func, _ = quadratic(rng)
    params = {n: np.array(func.param_binding(n)) for n in "ab"}
    built = build_step(func.graph, params, ["a", "b"], Sophia(), 0.0, StepState(params, 1, None, None))
    (branch,) = [n for n in built.graph.nodes if n.op.name == "cond"]
    assert len(branch.attrs["then"].nodes) > len(branch.attrs["orelse"].nodes)
    assert built.scalars[0].arrays.keys() >= {"fresh", "lr"}


def test_a_step_without_an_estimate_is_refused() -> None:
    opt, w = Sophia(every=2), np.ones(3, np.float32)
    with pytest.raises(RlxRuntimeError, match="estimate of the curvature"):
        opt.step("w", (3,), w, np.ones(3, np.float32))
    opt.observe_hessian("w", np.ones(4))
    with pytest.raises(RlxShapeError, match="4 elements"):
        opt.step("w", (3,), w, np.ones(3, np.float32))
    assert opt.step_count == 0
    assert np.array_equal(w, np.ones(3))
    opt.observe_hessian("w", np.ones(3))
    opt.step("w", (3,), w, np.ones(3, np.float32))
    opt.step("w", (3,), w, np.ones(3, np.float32))  # every second step needs none
    assert opt.step_count == 2


@pytest.mark.parametrize("options", [{"every": 0}, {"rho": -1.0}, {"gamma": float("inf")}, {"betas": (0.9,)}])
def test_settings_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(RlxValueError, match=next(iter(options))):
        Sophia(**options)  # type: ignore[arg-type]
