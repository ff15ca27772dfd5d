"""Sorted rows of every dtype and length on every device; and what users call to sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlxlang.backends.opencl.device import open_device
from rlxlang.backends.opencl.executable import OpenClExecutable
from rlxlang.backends.opencl.program import program_source
from rlxlang.backends.reference import ReferenceBackend
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.lower import lower
from rlxlang.types import DTYPES, Dim, DType, TypeProblem, floor_div
from tests.devices.running import DEVICES, Runner
from tests.ops.calls import call

Array = np.ndarray[Any, Any]

NAMES = ("F32", "F64", "F16", "BF16", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "Bool")
SIZES = [(3, 0), (0, 4), (2, 1), (3, 2), (4, 48), (3, 49), (2, 257), (1, 1300), (70, 9)]


def _entries(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Entries with many ties, and where the dtype has them NaN, infinities, both zeros and both ends of the range."""
    if dtype.kind == "bool":
        return rng.random(shape) < 0.5
    if not dtype.is_float:
        low, high = dtype.integer_range
        wide = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
        special = rng.choice(np.array([low, high, 0, 1, 2], dtype.numpy), shape)
        return np.where(rng.random(shape) < 0.5, special, wide)
    special = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0], shape)
    return np.where(rng.random(shape) < 0.5, special, rng.normal(size=shape) * 3).astype(dtype.numpy)


def _order(row: Array, descending: bool) -> list[int]:
    """The order of a row by its meaning, one comparison of Python numbers at a time."""
    numbers = [float(v) if row.dtype.kind not in "iu" else int(v) for v in row]
    down = -1 if descending else 1

    def rank(k: int) -> tuple[int, Any]:
        is_nan = numbers[k] != numbers[k]
        return down * is_nan, 0 if is_nan else down * numbers[k]

    return sorted(range(len(row)), key=rank)


def _graph(dtype: DType, descending: bool) -> Graph:
    b = Builder()
    n = Dim.axis("?n")
    x = b.input("x", dtype, (Dim.axis("?m"), n))
    whole = b.emit("sort", x, count=n, descending=descending)
    only = b.emit("sort", x, count=floor_div(n, 3), descending=descending)
    outputs = [b.emit("item", whole, index=k) for k in (0, 1)] + [b.emit("item", only, index=1)]
    return b.finish("rows", [declare(x)], [GraphOutput(f"y{k}", o) for k, o in enumerate(outputs)])


def _same(left: Array, right: Array) -> None:
    if left.dtype.kind in "iub":
        np.testing.assert_array_equal(left, right)
        return
    left, right = left.astype(np.float64), right.astype(np.float64)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.signbit(left)[~np.isnan(left)], np.signbit(right)[~np.isnan(right)])


CASES = [(d, n, down) for d in ("interpreter", "kernels", "cpu") for n in NAMES for down in (False, True)]
if "opencl" in DEVICES:  # one direction each: compiling is slow
    CASES += [(d, n, n in ("F32", "I8")) for d in ("opencl", "gpu") for n in ("F32", "F64", "BF16", "I8", "U64")]


def _run(graph: Graph, device: str) -> Callable[[Array], list[Array]]:
    """The graph as a function of its only input; `gpu` is what a graphics card would run, on the device that there is."""
    if device == "interpreter":
        return lambda x: evaluate(graph, {"x": x})
    if device in DEVICES:
        runner = Runner(graph, device)
        return lambda x: runner({"x": x})
    program = lower(graph).program
    if device == "kernels":
        executable: Any = ReferenceBackend().compile(program)
    else:
        source = program_source(program, has_fp64=True, is_cpu=False)
        executable = OpenClExecutable(program, source, open_device(None))
    return lambda x: executable.run({0: x}, {"?m": x.shape[0], "?n": x.shape[1]})


@pytest.mark.parametrize(("device", "name", "descending"), CASES)
def test_rows_of_every_length(device: str, name: str, descending: bool, rng: np.random.Generator) -> None:
    dtype = DTYPES[name]
    graph = _graph(dtype, descending)
    run = _run(graph, device)
    for m, n in SIZES:
        x = _entries(dtype, (m, n), rng)
        values, positions, first = run(x)
        want = np.array([_order(row, descending) for row in x], np.int32).reshape(m, n)
        np.testing.assert_array_equal(positions, want)
        np.testing.assert_array_equal(first, want[:, : n // 3])
        _same(values, np.take_along_axis(x, want, 1))


def test_axes_and_directions(rng: np.random.Generator) -> None:
    x = rng.integers(0, 4, (3, 4, 5)).astype(np.float64)
    for axis in (0, 1, 2, -1, -3):
        np.testing.assert_array_equal(call("sort", x, axis=axis), np.sort(x, axis))
        np.testing.assert_array_equal(call("argsort", x, axis=axis), np.argsort(x, axis, kind="stable"))
        np.testing.assert_array_equal(call("sort", x, axis=axis, descending=True), -np.sort(-x, axis))
        down = np.argsort(-x, axis, kind="stable")
        np.testing.assert_array_equal(call("argsort", x, axis=axis, descending=True), down)
        values, positions = call("topk", x, 2, axis)
        np.testing.assert_array_equal(positions, np.take(down, [0, 1], axis))
        np.testing.assert_array_equal(values, np.take(-np.sort(-x, axis), [0, 1], axis))


def test_the_ends_of_topk() -> None:
    x = np.array([1.0, 3.0, 2.0])
    assert call("topk", x, 0)[0].shape == (0,)
    np.testing.assert_array_equal(call("topk", x, 3)[1], [1, 2, 0])
    for k, code in ((4, "E0406"), (-1, "E0350")):
        with pytest.raises(TypeProblem) as caught:
            call("topk", x, k)
        assert caught.value.code == code


def test_a_scalar_has_no_order() -> None:
    with pytest.raises(TypeProblem) as caught:
        call("sort", np.array(1.0))
    assert caught.value.code == "E0403"
