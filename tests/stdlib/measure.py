"""How the standard library is measured: values on every device against NumPy in float64, and derivatives against its differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import rlxlang as rlx
from tests.oracles import TOLERANCES

Array = np.ndarray[Any, Any]
Values = Mapping[str, Any]

DEVICES = [str(d) for d in rlx.devices()]
STEP = 1e-5  # of central differences of the oracle, in float64
DERIVATIVES = (2e-3, 2e-4)  # relative and absolute; the derivative is computed in F32


def drawn(func: rlx.Func, rng: np.random.Generator, scale: float = 0.5) -> dict[str, Array]:
    """Made-up values for all parameters, away from the zeros and ones that hide mistakes."""
    found = {}
    for name in func.param_names():
        shape = func.param_shape_of(name)
        assert shape is not None
        found[name] = (scale * rng.standard_normal(shape) + 0.1).astype(np.float32)
    return found


def check(
    text: str,
    names: Sequence[str],
    oracle: Callable[[Values], Any],
    *arrays: Values,
    rng: np.random.Generator,
    positive: Sequence[str] = (),
    derivative: str = "reference",
    factor: float = 1.0,
) -> rlx.Func:
    """Check a text: names of parameters, values on every device for every set of arrays, derivatives for the first.

    Args:
        text: A model.
        names: Run-time names of its parameters, in order.
        oracle: From values by name, in float64 where they are floats, to the outputs.
        arrays: Values of the inputs; several sets try several sizes with one compiled program.
        rng: Draws parameters and directions.
        positive: Parameters that are drawn positive.
        derivative: The device that computes the reverse derivatives, for all float inputs and parameters; empty for no derivatives.
        factor: Widens the tolerance of values.

    Returns:
        The model with its parameters.
    """
    func = rlx.loads(text)
    assert func.param_names() == list(names)
    params = drawn(func, rng)
    params |= {name: np.abs(params[name]) + 0.5 for name in positive}
    func = func.with_params(params)
    narrow = [{n: _narrow(a) for n, a in given.items()} for given in arrays]
    for device in DEVICES:
        compiled = func.jit_on(device)
        for given in narrow:
            _close(compiled.run(given), _tuple(oracle(_wide({**given, **params}))), factor, device)
    if derivative:
        _derivatives(func, {**narrow[0], **params}, oracle, derivative, rng)
    return func


def _narrow(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _wide(values: Values) -> dict[str, Any]:
    return {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in values.items()}


def _tuple(value: Any) -> tuple[Array, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _close(results: Sequence[Array], expected: Sequence[Array], factor: float, device: str) -> None:
    assert len(results) == len(expected)
    rtol, atol = TOLERANCES["F32"]
    for result, right in zip(results, expected, strict=True):
        assert result.shape == np.shape(right)
        np.testing.assert_allclose(
            result.astype(np.float64), right, rtol=factor * rtol, atol=factor * atol, err_msg=device
        )


def _derivatives(
    func: rlx.Func, values: Values, oracle: Callable[[Values], Any], device: str, rng: np.random.Generator
) -> None:
    """Forward and reverse mode along one random direction, against differences of the oracle."""
    wrt = [n for n, a in values.items() if a.dtype == np.float32]
    wide = _wide(values)
    directions = {n: rng.standard_normal(values[n].shape) for n in wrt}
    up, down = (
        _tuple(oracle({n: a + sign * STEP * directions[n] if n in directions else a for n, a in wide.items()}))
        for sign in (1, -1)
    )
    expected = [(np.asarray(u, np.float64) - d) / (2 * STEP) for u, d in zip(up, down, strict=True)]
    outputs = [o.name for o in func.graph.outputs]
    floats = [o.node.dtype.is_float for o in func.graph.outputs]
    inputs = {n: values[n] for n in func.input_names()}
    tangents = {f"tangent_{n}": d.astype(np.float32) for n, d in directions.items()}
    forward = func.jvp(wrt).run_on("reference", {**inputs, **tangents})[len(outputs) :]
    rtol, atol = DERIVATIVES
    smooth = [e for e, is_float in zip(expected, floats, strict=True) if is_float]
    for result, is_float, right in zip(forward, floats, expected, strict=True):
        if not is_float:
            assert not result.any()
            continue
        np.testing.assert_allclose(result, right, rtol=rtol, atol=atol, err_msg="forward mode")
    cotangents = [rng.standard_normal(np.shape(e)) for e in smooth]
    named = [n for n, is_float in zip(outputs, floats, strict=True) if is_float]
    given = {f"ct_{n}": c.astype(np.float32) for n, c in zip(named, cotangents, strict=True)}
    reverse = func.vjp(wrt).run_on(device, {**inputs, **given})[len(outputs) :]
    pairing = sum(float(np.sum(r * directions[n])) for n, r in zip(wrt, reverse, strict=True))
    right_pairing = sum(float(np.sum(c * e)) for c, e in zip(cotangents, smooth, strict=True))
    size = sum(float(np.sum(np.abs(c * e))) for c, e in zip(cotangents, smooth, strict=True))
    np.testing.assert_allclose(pairing, right_pairing, rtol=rtol, atol=atol + 1e-4 * size, err_msg="reverse mode")
