"""Discrete Fourier transforms: of complex numbers over axes, and of real numbers along one.

    fft:  Y_k = Σ_j x_j exp(-2πi jk/n), k = 0 … n-1; the inverse has +2πi and 1/n
    rfft: the same of real x for k = 0 … n div 2, which determine the others

All are linear. The matrix of `fft` is symmetric, so its pull-back is itself. With w_k = 1 where k = 0 or 2k = n, else 2 (how
often a frequency stands in the whole spectrum), the pull-back of `rfft` is irfft(n·conj(g)/w), and that of `irfft` is
(w/n)·conj(rfft(g)). Source: elementary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.kernels.fourier import restore_real, transform, transform_real
from rlxlang.ops import emit
from rlxlang.ops.complex_numbers import as_complex
from rlxlang.ops.lowering import LibraryCall
from rlxlang.ops.rules import batch_axes, batch_axis, jvp_linear, require_axis
from rlxlang.types import C64, F32, I32, DimLike, ShapeContext, TensorType, TypeProblem, floor_div

Array = np.ndarray[Any, Any]


def _some_entries(context: ShapeContext, op: str, size: DimLike) -> None:
    """Refuse a transform over nothing (E0409)."""
    if size == 0:
        raise TypeProblem("E0409", f"`{op}` over an axis that is empty: there is no frequency")
    context.at_most(1, size, f"the size of the axis that `{op}` transforms")


# --------------------------------------------------------------------------------------------- fft
def _infer_fft(context: ShapeContext, x: TensorType, *, axes: tuple[int, ...], inverse: bool) -> TensorType:
    if x.dtype != C64:
        raise TypeProblem("E0301", f"`fft` takes C64, and {x} is given")
    for axis in axes:
        require_axis("fft", axis, x.rank)
        _some_entries(context, "fft", x.shape[axis])
    return x


def _numbers(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


_FFT_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...] = (
    ((4,), (0,), False),
    ((2, 5), (1,), True),
    ((3, 2, 4), (0, 2), False),
    ((6, 1), (0, 1), True),
    ((0, 3), (1,), False),
)

register(
    Op(
        "fft",
        "Discrete Fourier transform over axes; the inverse one is divided by the number of entries.",
        _infer_fft,
        lambda x, *, axes, inverse: transform(x, axes, inverse=inverse),
        jvp_linear,
        lambda b, node, primals, ct: (b.emit("fft", ct, **node.attrs),),
        batch_axes,
        LibraryCall("fft"),
        lambda rng: [
            Sample((_numbers(rng, shape),), {"axes": axes, "inverse": inverse}) for shape, axes, inverse in _FFT_CASES
        ],
    )
)


# --------------------------------------------------------------------------------------------- rfft, irfft
def half_length(n: DimLike) -> DimLike:
    """How many frequencies of n real numbers are kept."""
    return floor_div(n, 2) + 1


def _infer_rfft(context: ShapeContext, x: TensorType, *, axis: int) -> TensorType:
    if x.dtype != F32:
        raise TypeProblem("E0301", f"`rfft` takes F32, and {x} is given")
    require_axis("rfft", axis, x.rank)
    _some_entries(context, "rfft", x.shape[axis])
    return TensorType(C64, (*x.shape[:axis], half_length(x.shape[axis]), *x.shape[axis + 1 :]))


def _infer_irfft(context: ShapeContext, x: TensorType, *, n: DimLike, axis: int) -> TensorType:
    if x.dtype != C64:
        raise TypeProblem("E0301", f"`irfft` takes C64, and {x} is given")
    require_axis("irfft", axis, x.rank)
    _some_entries(context, "irfft", n)
    context.same(x.shape[axis], half_length(n), f"the frequencies given to `irfft` and those of {n} numbers")
    return TensorType(F32, (*x.shape[:axis], n, *x.shape[axis + 1 :]))


def _weighted(b: Builder, x: Node, n: DimLike, axis: int, *, divide: bool) -> Node:
    """(w/n)·conj(x), or with `divide` (n/w)·conj(x)."""
    k = emit.iota(b, x.shape, axis, I32)
    count = emit.number(b, n, k)
    alone = b.emit("bit_or", emit.compare(b, "eq", k, 0), b.emit("eq", emit.scale(b, k, 2), count))
    one = b.full(1.0, F32, x.shape)
    often = emit.select(b, alone, one, b.full(2.0, F32, x.shape))
    size = emit.number(b, float(n) if isinstance(n, int) else n, one)
    weight = emit.div(b, size, often) if divide else emit.div(b, often, size)
    return emit.mul(b, b.emit("conj", x), as_complex(b, weight))


def _vjp_rfft(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    axis = node.attrs["axis"]
    n = primals[0].shape[axis]
    return (b.emit("irfft", _weighted(b, ct, n, axis, divide=True), n=n, axis=axis),)


def _vjp_irfft(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    n, axis = node.attrs["n"], node.attrs["axis"]
    return (_weighted(b, b.emit("rfft", ct, axis=axis), n, axis, divide=False),)


_RFFT_CASES: tuple[tuple[tuple[int, ...], int], ...] = (((4,), 0), ((2, 5), 1), ((6, 3), 0), ((2, 1), 1), ((0, 4), 1))


def _irfft_samples(rng: np.random.Generator) -> list[Sample]:
    found = []
    for shape, axis in _RFFT_CASES:
        n = shape[axis]
        half = (*shape[:axis], n // 2 + 1, *shape[axis + 1 :])
        found.append(Sample((_numbers(rng, half),), {"n": n, "axis": axis}))
    return found


register(
    Op(
        "rfft",
        "The first half of the discrete Fourier transform of real numbers along an axis.",
        _infer_rfft,
        lambda x, *, axis: transform_real(x, axis),
        jvp_linear,
        _vjp_rfft,
        batch_axis,
        LibraryCall("rfft"),
        lambda rng: [
            Sample((rng.normal(size=shape).astype(np.float32),), {"axis": axis}) for shape, axis in _RFFT_CASES
        ],
    )
)
register(
    Op(
        "irfft",
        "The n real numbers whose spectrum begins with the given frequencies.",
        _infer_irfft,
        lambda x, *, n, axis: restore_real(x, n, axis),
        jvp_linear,
        _vjp_irfft,
        batch_axis,
        LibraryCall("irfft"),
        _irfft_samples,
    )
)
