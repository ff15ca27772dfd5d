"""Convolutions, pools and resizing on the devices: values and gradients as the interpreter has them, any size at run time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlxlang.ir import SURFACES, Builder, Graph, GraphOutput, Node, declare
from rlxlang.transforms import vjp
from rlxlang.types import BF16, F16, F32, I32, Dim, DimLike, DType
from tests.devices.running import DEVICES, Part, Runner, evaluate, merge, mismatches

Call = tuple[str, tuple[tuple[int, ...], ...], tuple[Any, ...], dict[str, Any]]

CALLS: list[Call] = [
    ("conv1d", ((2, 3, 11), (4, 3, 3)), (), {"stride": 2, "padding": "same"}),
    ("conv2d", ((2, 3, 7, 6), (5, 3, 3, 2)), (), {"padding": 1}),
    (
        "conv2d",
        ((2, 4, 9, 8), (6, 2, 3, 3)),
        (),
        {"stride": (2, 3), "padding": (1, 2), "dilation": (2, 1), "groups": 2},
    ),
    ("conv2d", ((2, 3, 6, 5), (4, 3, 1, 1)), (), {}),
    ("conv2d", ((1, 1, 10, 9), (2, 1, 9, 8)), (), {}),
    ("conv2d", ((2, 3, 20, 17), (3, 1, 3, 3)), (), {"groups": 3, "padding": 1}),
    ("conv3d", ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2)), (), {"stride": (1, 2, 1)}),
    ("conv_transpose1d", ((2, 3, 5), (3, 4, 3)), (), {"stride": 2, "padding": 1, "output_padding": 1}),
    ("conv_transpose2d", ((2, 4, 4, 3), (4, 2, 3, 2)), (), {"stride": (2, 3), "groups": 2, "dilation": (1, 2)}),
    ("depthwise", ((2, 3, 6, 5), (6, 1, 3, 3)), (), {"stride": 2, "padding": 1}),
    ("unfold", ((2, 3, 6, 5),), ((3, 2), (2, 1), (1, 0)), {}),
    ("fold", ((2, 18, 12),), ((6, 5), (3, 2), (2, 1), (1, 0)), {}),
    ("max_pool1d", ((2, 3, 11),), (3, 2, 1), {}),
    ("max_pool2d", ((2, 3, 7, 6),), (2,), {}),
    ("max_pool2d", ((2, 3, 7, 6),), (3, 2, 1), {}),
    ("max_pool2d", ((2, 3, 7, 6),), (2, 2), {"ceil": True}),
    ("max_pool2d", ((2, 2, 9, 9),), (3, 1), {"dilation": 2}),
    ("max_pool3d", ((1, 2, 4, 4, 5),), (2,), {}),
    ("avg_pool2d", ((2, 3, 7, 6),), (3, 2, 1), {}),
    ("avg_pool2d", ((2, 3, 7, 6),), (3, 2, 1), {"count_include_pad": False}),
    ("adaptive_avg_pool", ((2, 3, 8, 6),), ((4, 3),), {}),
    ("global_avg_pool", ((2, 3, 5, 6),), (), {}),
    ("global_max_pool", ((2, 3, 5, 6),), (), {}),
    ("pixel_shuffle", ((2, 8, 3, 2),), (2,), {}),
    ("pixel_unshuffle", ((2, 2, 4, 6),), (2,), {}),
]
STATIC_CALLS: list[Call] = [
    ("adaptive_avg_pool", ((2, 3, 7, 5),), ((3, 2),), {}),
    ("resize", ((2, 3, 4, 5),), ((7, 3),), {}),
    ("resize", ((2, 3, 4, 5),), ((7, 8), "bilinear"), {}),
    ("resize", ((2, 3, 4, 5),), ((7, 8), "bicubic", True), {}),
]


def _graph(call: Call, dtype: DType, tag: str, dynamic: bool) -> Graph:
    name, shapes, arguments, options = call
    b = Builder()
    inputs: list[Node] = []
    for k, shape in enumerate(shapes):
        dims: list[DimLike] = list(shape)
        if dynamic and k == 0:
            open_axes = [0] if name == "fold" else [0, *range(2, len(shape))]
            for axis in open_axes:
                dims[axis] = Dim.axis(f"?{tag}_{axis}")
        inputs.append(b.input(f"x{k}", dtype, tuple(dims)))
    surface = SURFACES[name]
    result = surface.build(b, **surface.bind([*inputs, *arguments], options))
    graph = b.finish(name, [declare(n) for n in inputs], [GraphOutput("y", result)])
    return vjp(graph, [f"x{k}" for k in range(len(shapes))]) if dtype.is_float else graph


def _parts(calls: list[Call], dtype: DType, rng: np.random.Generator, dynamic: bool) -> Part:
    parts: list[Part] = []
    for place, call in enumerate(calls):
        static = _graph(call, dtype, f"s{place}", dynamic=False)
        arrays = {}
        for entry in static.inputs:
            shape = entry.node.shape
            values = rng.standard_normal(shape) if dtype.is_float else rng.integers(-9, 9, shape)
            arrays[entry.name] = np.asarray(values).astype(dtype.numpy)
        graph = _graph(call, dtype, f"s{place}", dynamic) if dynamic else static
        parts.append(Part(f"{place}-{call[0]}", graph, arrays))
    return replace(merge(parts), name="dynamic" if dynamic else "static")


@pytest.mark.parametrize(("device", "dynamic"), [*((d, True) for d in DEVICES), ("cpu", False)])
def test_values_and_gradients(device: str, dynamic: bool) -> None:
    rng = np.random.default_rng(0)
    # Kernels take OpenCL long to compile: it gets one call of every kind.
    calls = [CALLS[k] for k in (0, 2, 5, 8, 11, 14, 19)] if device == "opencl" else CALLS
    parts = [_parts(calls, F32, rng, dynamic=True)] if dynamic else []
    fixed = STATIC_CALLS[2:3] if dynamic else CALLS + STATIC_CALLS
    part = merge([*parts, _parts(fixed, F32, rng, dynamic=False)])
    got = Runner(part.graph, device)(part.arrays)
    assert not mismatches(part.graph, got, evaluate(part.graph, part.arrays), 2e-5, 2e-5)


@pytest.mark.parametrize(("device", "dtype"), [*((d, t) for d in DEVICES for t in (F16, I32)), ("cpu", BF16)], ids=str)
def test_other_dtypes(device: str, dtype: DType) -> None:
    rng = np.random.default_rng(1)
    chosen = [c for c in (CALLS[k] for k in (2, 5, 8, 14, 18)) if dtype.is_float or "avg" not in c[0]]
    part = _parts(chosen, dtype, rng, dynamic=False)
    got = Runner(part.graph, device)(part.arrays)
    tolerance = 5e-2 if dtype == BF16 else 1e-2
    assert not mismatches(part.graph, got, evaluate(part.graph, part.arrays), tolerance, tolerance)


@pytest.mark.parametrize("device", DEVICES)
def test_one_program_serves_all_sizes(device: str) -> None:
    rng = np.random.default_rng(2)
    graph = _graph(("conv2d", ((2, 3, 7, 6), (4, 3, 3, 3)), (), {"stride": 2, "padding": 1}), F32, "n", True)
    runner = Runner(graph, device)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    for n, height, width in ((1, 1, 1), (0, 5, 5), (3, 8, 13), (2, 33, 5)):
        x = rng.standard_normal((n, 3, height, width)).astype(np.float32)
        ct = rng.standard_normal((n, 4, (height + 1) // 2, (width + 1) // 2)).astype(np.float32)
        arrays = {"x0": x, "x1": w, "ct_y": ct}
        assert not mismatches(graph, runner(arrays), evaluate(graph, arrays), 1e-4, 1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_the_sum_of_windows_is_the_same_at_any_number_of_threads(device: str) -> None:
    rng = np.random.default_rng(3)
    graph = _graph(("conv2d", ((4, 3, 17, 19), (4, 3, 3, 3)), (), {"stride": 2}), F32, "t", False)
    arrays = {i.name: rng.standard_normal(i.node.shape).astype(np.float32) for i in graph.inputs}
    one, two = (Runner(graph, device, threads)(arrays) for threads in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_padding_never_wins_and_integers_stay_integers() -> None:
    graph = _graph(("max_pool2d", ((1, 1, 4, 4),), (2, 2, 1), {}), I32, "p", False)
    x = (-5 - np.arange(16, dtype=np.int32)).reshape(1, 1, 4, 4)
    for device in DEVICES:
        (got,) = Runner(graph, device)({"x0": x})
        assert got.dtype == np.int32
        assert np.array_equal(got[0, 0], [[-5, -6, -8], [-9, -10, -12], [-17, -18, -20]])
