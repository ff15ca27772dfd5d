"""What must hold for a random program; raises AssertionError or whatever the fault raises."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlxlang as rlx
from tests.programs.random_programs import RandomProgram

TOLERANCE = 3e-4  # a few hundred units in the last place of F32: sums and chains of functions in another order


def loaded(program: RandomProgram) -> rlx.Func:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rlx.RlxWarning)
        return rlx.loads(program.text).init_params(seed=program.seed)


def same(got: Sequence[Any], want: Sequence[Any], names: Sequence[str], what: str) -> None:
    for name, x, y in zip(names, got, want, strict=True):
        assert x.dtype == y.dtype, f"{what}: {name} is {x.dtype}, expected {y.dtype}"
        assert x.shape == y.shape, f"{what}: {name} is {x.shape}, expected {y.shape}"
        np.testing.assert_allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{what}: {name}")


def check_values(program: RandomProgram, devices: Sequence[str] = ("cpu", "opencl")) -> None:
    """Values on every device are those of the interpreter."""
    func = loaded(program)
    want = func.run_on("reference", program.arrays)
    for device in devices:
        same(func.run_on(device, program.arrays), want, func.output_names(), device)


def check_gradients(program: RandomProgram, devices: Sequence[str] = ("cpu", "opencl")) -> None:
    """So are gradients by every float input and parameter."""
    func = loaded(program)
    wrt = [*(n for n, a in program.arrays.items() if a.dtype == np.float32), *func.param_names()]
    grad = func.value_and_grad(wrt)
    want = grad.run_on("reference", program.arrays)
    for device in devices:
        same(grad.run_on(device, program.arrays), want, grad.output_names(), f"gradient, {device}")


def check_format(program: RandomProgram) -> None:
    """The canonical layout is a fixed point, and means the same."""
    once = rlx.format(program.text)
    assert rlx.format(once) == once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rlx.RlxWarning)
        before, after = rlx.loads(program.text), rlx.loads(once)
    assert str(before) == str(after)
