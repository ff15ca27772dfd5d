"""Convolutions against loops and SciPy: values, gradients, argument forms, errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal

from rlxlang.interp import evaluate
from rlxlang.ir import GraphOutput
from rlxlang.transforms import vmap
from rlxlang.types import F16, F32, I8, I32, Dim, TensorType, TypeProblem
from tests.ops.calls import build, call, pull, push

Array = np.ndarray[Any, Any]


def looped(
    x: Array, w: Array, strides: list[int], pads: list[tuple[int, int]], dilations: list[int], groups: int
) -> Array:
    """The convolution as its definition says, one output at a time."""
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    sizes = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    wide = w.shape[0] // groups
    for place in product(*(range(n) for n in sizes)):
        box = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(place, strides, kernel, dilations, strict=True)
        )
        patch = padded[(slice(None), slice(None), *box)]
        for o in range(w.shape[0]):
            g = o // wide
            part = patch[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            out[(slice(None), o, *place)] = (part * w[o]).sum(axis=tuple(range(1, part.ndim)))
    return out


CASES = [
    ((2, 3, 11), (4, 3, 3), [1], [0], [1], 1),
    ((2, 4, 12), (6, 2, 3), [2], [2], [2], 2),
    ((2, 3, 7, 6), (5, 3, 3, 2), [1, 1], [0, 0], [1, 1], 1),
    ((1, 4, 9, 8), (4, 2, 3, 3), [2, 3], [1, 2], [2, 1], 2),
    ((2, 3, 6, 6), (3, 1, 3, 3), [1, 1], [1, 1], [1, 1], 3),
    ((2, 2, 6, 6), (4, 1, 3, 3), [2, 1], [1, 0], [1, 1], 2),
    ((2, 3, 5, 5), (4, 3, 1, 1), [1, 1], [0, 0], [1, 1], 1),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), [1, 2, 1], [1, 0, 1], [1, 1, 2], 1),
    ((0, 2, 5, 5), (3, 2, 3, 3), [1, 1], [0, 0], [1, 1], 1),
    ((2, 0, 5, 5), (3, 0, 3, 3), [1, 1], [0, 0], [1, 1], 1),
    ((2, 2, 5, 5), (0, 2, 3, 3), [1, 1], [0, 0], [1, 1], 1),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "groups"), CASES)
def test_convolution_is_its_definition(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.standard_normal(kernel)
    name = f"conv{len(shape) - 2}d"
    got = call(name, x, w, tuple(stride), tuple(padding), tuple(dilation), groups)
    assert_allclose(got, looped(x, w, stride, [(p, p) for p in padding], dilation, groups), atol=1e-12)


def test_convolution_agrees_with_scipy() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 3, 9, 10)), rng.standard_normal((4, 3, 3, 4))
    want = [[sum(signal.correlate2d(x[n, c], w[o, c], "valid") for c in range(3)) for o in range(4)] for n in range(2)]
    assert_allclose(call("conv2d", x, w), np.array(want), atol=1e-12)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2)])
def test_same_padding_keeps_the_length_over_the_stride(stride: int, dilation: int) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((1, 2, 10)), rng.standard_normal((3, 2, 4))
    count = -(-10 // stride)
    total = max((count - 1) * stride + 3 * dilation + 1 - 10, 0)
    got = call("conv1d", x, w, stride, "same", dilation)
    assert got.shape == (1, 3, count)
    assert_allclose(got, looped(x, w, [stride], [(total // 2, total - total // 2)], [dilation], 1), atol=1e-12)
    assert_array_equal(call("conv1d", x, w, stride, "valid"), call("conv1d", x, w, stride))


def test_same_padding_of_a_dynamic_axis() -> None:
    graph, _ = build("conv1d", TensorType(F32, (1, 1, Dim.axis("?n"))), np.ones((1, 1, 3), np.float32), 2, "same")
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    names = [i.name for i in graph.inputs]
    (got,) = evaluate(graph, {names[0]: x, names[1]: np.ones((1, 1, 3), np.float32)})
    assert_array_equal(got[0, 0], [1, 6, 7])


def test_six_arguments_name_the_kernel_second() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 2, 7, 7)), rng.standard_normal((4, 1, 3, 3))
    got = call("conv2d", x, w, (3, 3), (2, 2), (1, 1), (1, 1), 2)
    assert_array_equal(got, call("conv2d", x, w, 2, 1, 1, 2))
    with pytest.raises(TypeProblem, match="kernel is given as") as caught:
        call("conv2d", x, w, (2, 3), (2, 2), (1, 1), (1, 1), 2)
    assert caught.value.code == "E0405"


def test_depthwise_convolves_channels_by_themselves() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 6, 5))
    for filters in (3, 6):
        w = rng.standard_normal((filters, 1, 3, 3))
        want = looped(x, w, [2, 2], [(1, 1), (1, 1)], [1, 1], 3)
        assert_allclose(call("depthwise", x, w, 2, 1), want, atol=1e-12)


def test_integers_widen_and_half_precision_stays() -> None:
    x = np.full((1, 1, 20), 100, np.int8)
    assert_array_equal(call("conv1d", x, np.full((1, 1, 20), 2, np.int8)), np.full((1, 1, 1), 4000, np.int32))
    assert build("conv1d", TensorType(I8, (1, 1, 4)), TensorType(I8, (1, 1, 2)))[0].outputs[0].node.dtype == I32
    for groups in (1, 2):
        graph, _ = build("conv1d", TensorType(F16, (1, 2, 4)), TensorType(F16, (2, 2 // groups, 2)), groups=groups)
        assert graph.outputs[0].node.dtype == F16


@pytest.mark.parametrize("case", [1, 3, 4, 7])
def test_gradients_are_those_of_the_definition(case: int) -> None:
    shape, kernel, stride, padding, dilation, groups = CASES[case]
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(shape), rng.standard_normal(kernel)
    name, options = f"conv{len(shape) - 2}d", (tuple(stride), tuple(padding), tuple(dilation), groups)
    ct = rng.standard_normal(call(name, x, w, *options).shape)
    dx, dw = pull(name, x, w, *options, ct=ct)
    tx, tw = rng.standard_normal(shape), rng.standard_normal(kernel)
    # The op is linear in each operand, so its value at a tangent is the derivative along it.
    pads = [(p, p) for p in padding]
    along_x = looped(tx, w, stride, pads, dilation, groups)
    along_w = looped(x, tw, stride, pads, dilation, groups)
    assert_allclose((dx * tx).sum(), (ct * along_x).sum(), rtol=1e-10)
    assert_allclose((dw * tw).sum(), (ct * along_w).sum(), rtol=1e-10)
    assert_allclose(push(name, x, w, *options, tangents={"x0": tx, "x1": tw}), along_x + along_w, atol=1e-10)


TRANSPOSED = [
    ((2, 3, 5), (3, 4, 3), [1], [0], [0], [1], 1),
    ((2, 4, 5), (4, 3, 3), [2], [1], [1], [1], 2),
    ((1, 2, 4, 3), (2, 3, 3, 2), [2, 3], [1, 0], [1, 2], [1, 2], 1),
    ((1, 2, 2, 3, 2), (2, 1, 2, 2, 2), [2, 1, 2], [0, 0, 1], [0, 0, 0], [1, 1, 1], 1),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "extra", "dilation", "groups"), TRANSPOSED)
def test_transposed_convolution_is_the_transpose(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: list[int],
    padding: list[int],
    extra: list[int],
    dilation: list[int],
    groups: int,
) -> None:
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal(shape), rng.standard_normal(kernel)
    name = f"conv_transpose{len(shape) - 2}d"
    got = call(name, x, w, tuple(stride), tuple(padding), tuple(extra), tuple(dilation), groups)
    lengths = [
        (n - 1) * s - 2 * p + (k - 1) * d + 1 + e
        for n, s, p, k, d, e in zip(shape[2:], stride, padding, kernel[2:], dilation, extra, strict=True)
    ]
    assert got.shape == (shape[0], kernel[1] * groups, *lengths)
    probe = rng.standard_normal(got.shape)
    forward = looped(probe, w, stride, [(p, p) for p in padding], dilation, groups)
    assert_allclose((got * probe).sum(), (x * forward).sum(), rtol=1e-10)


def test_unfold_lists_patches_and_fold_adds_them_up() -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 3, 6, 5))
    columns = call("unfold", x, (3, 2), (2, 1), (1, 0))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    for k, (i, j) in enumerate(product(range(3), range(4))):
        assert_array_equal(columns[:, :, k], padded[:, :, 2 * i : 2 * i + 3, j : j + 2].reshape(2, -1))
    probe = rng.standard_normal(columns.shape)
    folded = call("fold", probe, (6, 5), (3, 2), (2, 1), (1, 0))
    assert folded.shape == x.shape
    assert_allclose((folded * x).sum(), (probe * columns).sum(), rtol=1e-12)


@pytest.mark.parametrize("batched", [("x0",), ("x1",), ("x0", "x1")])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_vmap_is_a_loop(batched: tuple[str, ...], groups: int) -> None:
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((2, 4, 5, 5)), rng.standard_normal((4, 4 // groups, 3, 3))
    graph, _ = build("conv2d", x, w, padding=1, groups=groups)
    many = {n: rng.standard_normal((3, *a.shape)) if n in batched else a for n, a in {"x0": x, "x1": w}.items()}
    (got,) = evaluate(vmap(graph, dict.fromkeys(batched, 0), 3), many)
    for lane in range(3):
        one = {n: a[lane] if n in batched else a for n, a in many.items()}
        assert_allclose(got[lane], evaluate(graph, one)[0], atol=1e-12)


X = TensorType(F32, (2, 4, 8, 8))


@pytest.mark.parametrize(
    ("name", "arguments", "options", "code"),
    [
        ("conv2d", (TensorType(F32, (4, 8, 8)), TensorType(F32, (3, 4, 3, 3))), {}, "E0404"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3))), {}, "E0404"),
        ("conv2d", (X, TensorType(F32, (3, 2, 3, 3))), {}, "E0402"),
        ("conv2d", (X, TensorType(F32, (3, 4, 9, 3))), {}, "E0405"),
        ("conv2d", (X, TensorType(F32, (4, 4, 3, 3))), {"groups": 3}, "E0407"),
        ("conv2d", (X, TensorType(F32, (3, 2, 3, 3))), {"groups": 2}, "E0407"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3, 3))), {"stride": 0}, "E0350"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3, 3))), {"stride": (1, 1, 1)}, "E0350"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3, 3))), {"padding": -1}, "E0350"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3, 3))), {"padding": "full"}, "E0350"),
        ("conv2d", (X, TensorType(F32, (3, 4, 3, 3))), {"groups": 0}, "E0350"),
        ("conv2d", (X, 3.0), {}, "E0304"),
        ("conv_transpose2d", (X, TensorType(F32, (3, 4, 3, 3))), {}, "E0402"),
        ("conv_transpose2d", (X, TensorType(F32, (4, 3, 3, 3))), {"output_padding": 1}, "E0350"),
        ("unfold", (X, 9), {}, "E0405"),
        ("fold", (TensorType(F32, (2, 10, 4)), (4, 4), 3), {}, "E0407"),
        ("fold", (TensorType(F32, (2, 18, 5)), (4, 4), 3), {}, "E0405"),
    ],
)
def test_errors_have_codes(name: str, arguments: tuple[Any, ...], options: dict[str, Any], code: str) -> None:
    with pytest.raises(TypeProblem) as caught:
        build(name, *arguments, **options)
    assert caught.value.code == code


def test_a_dynamic_axis_too_short_for_the_kernel_is_a_guard() -> None:
    graph, _ = build("conv1d", TensorType(F32, (1, 1, Dim.axis("?n"))), TensorType(F32, (1, 1, 3)))
    assert any("kernel" in str(g.guard) or "3 <= ?n" in str(g.guard) for g in graph.guards)
    assert isinstance(graph.outputs[0], GraphOutput)
