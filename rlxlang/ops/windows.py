"""Sliding windows over axes, a view, and their transpose, the sum of overlapping windows.

Convolution and pooling are these two beside products and reductions. With length L, size k, stride s and dilation d there
are floor((L - (k-1)·d - 1) / s) + 1 windows, and entry j of window i is element i·s + j·d. Source: elementary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops.lowering import Fold, View
from rlxlang.ops.rules import batch_front, jvp_linear, require_axis, require_kinds
from rlxlang.types import DimLike, Shape, ShapeContext, TensorType, TypeProblem, floor_div, from_numpy, shape_text

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def span(size: int, dilation: int) -> int:
    """How many elements a window reaches over."""
    return (size - 1) * dilation + 1


def window_count(length: DimLike, size: int, stride: int, dilation: int) -> DimLike:
    """How many whole windows there are in an axis at least as long as one."""
    return floor_div(length - span(size, dilation), stride) + 1


def _check(op: str, context: ShapeContext, rank: int, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> None:
    if not len(axes) == len(sizes) == len(strides) == len(dilations):
        raise TypeProblem("E0404", f"`{op}` over {len(axes)} axes needs as many sizes, strides and dilations")
    for axis in axes:
        require_axis(op, axis, rank)
    if len(set(axes)) != len(axes):
        raise TypeProblem("E0403", f"`{op}`: an axis is listed twice in {list(axes)}")
    if min((*sizes, *strides, *dilations), default=1) < 1:
        raise TypeProblem("E0350", f"sizes, strides and dilations of `{op}` are at least 1")


def _counts(
    op: str, context: ShapeContext, lengths: Sequence[DimLike], sizes: Ints, strides: Ints, dilations: Ints
) -> tuple[DimLike, ...]:
    found = []
    for length, k, s, d in zip(lengths, sizes, strides, dilations, strict=True):
        context.at_most(span(k, d), length, f"the reach of a window of `{op}` and the size of its axis", "E0405")
        found.append(window_count(length, k, s, d))
    return tuple(found)


def _infer_windows(
    context: ShapeContext, x: TensorType, *, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints
) -> TensorType:
    _check("windows", context, x.rank, axes, sizes, strides, dilations)
    counts = _counts("windows", context, [x.shape[a] for a in axes], sizes, strides, dilations)
    shape = list(x.shape)
    for axis, count in zip(axes, counts, strict=True):
        shape[axis] = count
    return x.with_shape((*shape, *sizes))


def _windows(x: Array, *, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Array:
    rank = x.ndim
    for axis, k, s, d in zip(axes, sizes, strides, dilations, strict=True):
        count = (x.shape[axis] - span(k, d)) // s + 1
        places = np.arange(count)[:, None] * s + np.arange(k)[None, :] * d
        x = np.moveaxis(np.take(x, places, axis=axis), axis + 1, -1)
    assert x.ndim == rank + len(axes)
    return x


def _infer_fold(
    context: ShapeContext, x: TensorType, *, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints, lengths: Shape
) -> TensorType:
    require_kinds("fold", x.dtype, ("float", "int", "uint", "complex"))
    rank = x.rank - len(axes)
    if rank < 0:
        raise TypeProblem("E0404", f"`fold` over {len(axes)} axes of a tensor of rank {x.rank}")
    _check("fold", context, rank, axes, sizes, strides, dilations)
    context.same_shape(x.shape[rank:], sizes, "the window axes of `fold`")
    counts = _counts("fold", context, lengths, sizes, strides, dilations)
    given = tuple(x.shape[a] for a in axes)
    context.same_shape(given, counts, f"the windows of `fold` to {shape_text(lengths)}")
    shape = list(x.shape[:rank])
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = length
    return x.with_shape(tuple(shape))


def _fold(x: Array, *, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints, lengths: Ints) -> Array:
    rank = x.ndim - len(axes)
    shape = list(x.shape[:rank])
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = length
    own = from_numpy(x.dtype)
    is_half = own is not None and own.name in ("F16", "BF16")
    total = np.zeros(shape, np.float32 if is_half else x.dtype)
    for tap in combinations(*(range(k) for k in sizes)):
        place: list[slice] = [slice(None)] * rank
        for axis, j, s, d in zip(axes, tap, strides, dilations, strict=True):
            place[axis] = slice(j * d, j * d + (x.shape[axis] - 1) * s + 1, s)
        part = x[(slice(None),) * rank + tap]
        total[tuple(place)] += part.astype(total.dtype)
    return total.astype(x.dtype)


def _vjp_windows(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    lengths = tuple(primals[0].shape[a] for a in node.attrs["axes"])
    return (b.emit("fold", ct, **node.attrs, lengths=lengths),)


def _vjp_fold(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    return (windows(b, ct, *(node.attrs[k] for k in ("axes", "sizes", "strides", "dilations"))),)


def _one_further(attrs: dict[str, Any], node: Node) -> dict[str, Any]:
    return attrs | {"axes": tuple(a + 1 for a in attrs["axes"])}


_CASES: tuple[tuple[Ints, Ints, Ints, Ints, Ints], ...] = (
    ((7,), (0,), (3,), (1,), (1,)),
    ((2, 7, 6), (1, 2), (2, 3), (2, 1), (1, 2)),
    ((2, 9, 2), (1,), (2,), (3,), (2,)),
    ((4, 5), (0, 1), (1, 5), (1, 1), (1, 1)),
)


def _attributes(case: tuple[Ints, Ints, Ints, Ints, Ints]) -> dict[str, Any]:
    return dict(zip(("axes", "sizes", "strides", "dilations"), case[1:], strict=True))


def _window_samples(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.standard_normal(case[0]),), _attributes(case)) for case in _CASES]


def _fold_samples(rng: np.random.Generator) -> list[Sample]:
    found = []
    for case in _CASES:
        attrs = _attributes(case)
        shape = _windows(np.zeros(case[0]), **attrs).shape
        lengths = tuple(case[0][a] for a in case[1])
        found.append(Sample((np.asarray(rng.normal(size=shape)),), attrs | {"lengths": lengths}))
    return found


WINDOWS = register(
    Op(
        "windows",
        "Sliding windows over axes: these then count windows, and the entries of a window lie on new last axes.",
        _infer_windows,
        _windows,
        jvp_linear,
        _vjp_windows,
        batch_front(_one_further),
        View("windows"),
        _window_samples,
    )
)

FOLD = register(
    Op(
        "fold",
        "The sum of overlapping windows: the transpose of `windows`.",
        _infer_fold,
        _fold,
        jvp_linear,
        _vjp_fold,
        batch_front(_one_further),
        Fold(),
        _fold_samples,
    )
)


def windows(b: Builder, x: Node, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Node:
    """Sliding windows over axes; see the op `windows`."""
    return b.emit("windows", x, axes=axes, sizes=sizes, strides=strides, dilations=dilations)


def fold(b: Builder, x: Node, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints, lengths: Shape) -> Node:
    """The sum of overlapping windows in axes of these lengths; see the op `fold`."""
    return b.emit("fold", x, axes=axes, sizes=sizes, strides=strides, dilations=dilations, lengths=lengths)
