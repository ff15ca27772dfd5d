"""Spatial axes of other sizes: interpolation, and pixels moved between channels and space.

Positions have half-pixel centres: entry i of n lies at (i + 1/2)·L/n - 1/2 of an axis of length L; with `align_corners` at
i·(L-1)/(n-1). Bicubic weights are those of R. Keys, "Cubic convolution interpolation for digital image processing" (1981),
with a = -3/4; entries outside the axis repeat those at its ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import choice, static_bool, static_int, surface, tensor
from rlxlang.ops.broadcasting import as_float, tensor_argument
from rlxlang.ops.convolution import spatial_ints
from rlxlang.ops.rules import require_guards
from rlxlang.types import I32, ShapeContext, TypeProblem

_CUBIC = -0.75
Array = np.ndarray[Any, Any]


def _positions(length: int, count: int, align_corners: bool) -> Array:
    """Where the new entries lie on the old axis."""
    places = np.arange(count, dtype=np.float64)
    if align_corners:
        return places * ((length - 1) / (count - 1)) if count > 1 else places * 0.0
    return (places + 0.5) * (length / count) - 0.5


def _taps(length: int, count: int, mode: str, align_corners: bool) -> list[tuple[Array, Array | None]]:
    """Old entries and their weights whose sum is the new axis; no weights where there is one entry."""
    if mode == "nearest":
        if align_corners and count > 1:
            return [(np.floor(_positions(length, count, True) + 0.5).astype(np.int64), None)]
        return [(np.arange(count) * length // count, None)]
    where = _positions(length, count, align_corners)
    if mode == "bilinear":
        where = np.clip(where, 0, length - 1)
    base = np.floor(where)
    rest = where - base
    linear = [(0, 1 - rest), (1, rest)]
    weights = linear if mode == "bilinear" else [(k, _cubic(rest - k)) for k in (-1, 0, 1, 2)]
    return [(np.clip(base + k, 0, length - 1).astype(np.int64), w) for k, w in weights]


def _cubic(distance: Array) -> Array:
    a, t = _CUBIC, np.abs(distance)
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def resize(b: Builder, x: Any, size: Any, mode: Any = "nearest", align_corners: Any = False) -> Node:
    """[N, C, …] with spatial axes of other sizes, by the mode nearest, bilinear (any number of axes) or bicubic.

    Raises:
        TypeProblem: E0404 wrong rank or a dynamic spatial axis, E0350 an unknown mode, E0409 an empty axis.
    """
    kind = choice("resize", mode, "mode", ("nearest", "bilinear", "bicubic"))
    corners = static_bool("resize", align_corners, "align_corners")
    node = tensor_argument("resize", x, "x") if kind == "nearest" else as_float(b, "resize", x)
    rank = len(node.shape) - 2
    if rank < 1:
        raise TypeProblem("E0404", f"`resize` takes [N, C, …] with spatial axes, and {node.type} is given")
    sizes = spatial_ints("resize", size, "size", rank)
    value = node if kind == "nearest" else emit.widen(b, node)
    for axis, count in enumerate(sizes, start=2):
        length = value.shape[axis]
        if not isinstance(length, int):
            raise TypeProblem("E0404", f"`resize` needs static spatial axes, and {node.type} is given")
        if length == 0:
            raise TypeProblem("E0409", f"`resize` of {node.type}: there is nothing to interpolate on axis {axis}")
        if count == length:
            continue
        value = _interpolated(b, value, axis, _taps(length, count, kind, corners))
    return emit.cast(b, value, node.dtype)


def _interpolated(b: Builder, x: Node, axis: int, taps: list[tuple[Array, Array | None]]) -> Node:
    terms: list[Node] = []
    for indices, weights in taps:
        term = emit.take(b, x, b.constant(indices.astype(np.int32), I32), axis)
        if weights is not None:
            shape = [1] * len(term.shape)
            shape[axis] = len(weights)
            factor = emit.reshape(b, b.constant(weights.astype(x.dtype.numpy)), shape)
            term = emit.mul(b, term, emit.broadcast_to(b, factor, term.shape))
        terms.append(term)
    total = emit.add_present(b, *terms)
    assert total is not None
    return total


def _factor(op: str, factor: Any) -> int:
    value = static_int(op, factor, "factor")
    if value < 1:
        raise TypeProblem("E0350", f"argument `factor` of `{op}` is at least 1, and {value} is given")
    return value


def _image(op: str, x: Any) -> Node:
    node = tensor_argument(op, x, "x")
    if len(node.shape) != 4:
        raise TypeProblem("E0404", f"`{op}` takes [N, C, H, W], and {node.type} is given")
    return node


def pixel_shuffle(b: Builder, x: Any, factor: Any) -> Node:
    """[N, C·r², H, W] as [N, C, H·r, W·r]: channels become finer pixels.

    Raises:
        TypeProblem: E0404 wrong rank, E0407 r² does not divide the channels.
    """
    r, node = _factor("pixel_shuffle", factor), _image("pixel_shuffle", x)
    n, c, h, w = node.shape
    context = ShapeContext()
    context.divides(r * r, c, "the number of channels of `pixel_shuffle`")
    require_guards(b, context)
    split = emit.reshape(b, node, (n, c // (r * r), r, r, h, w))
    return emit.reshape(b, emit.transpose(b, split, (0, 1, 4, 2, 5, 3)), (n, c // (r * r), h * r, w * r))


def pixel_unshuffle(b: Builder, x: Any, factor: Any) -> Node:
    """[N, C, H·r, W·r] as [N, C·r², H, W]: the inverse of `pixel_shuffle`.

    Raises:
        TypeProblem: E0404 wrong rank, E0407 r does not divide height and width.
    """
    r, node = _factor("pixel_unshuffle", factor), _image("pixel_unshuffle", x)
    n, c, h, w = node.shape
    context = ShapeContext()
    context.divides(r, h, "the height of `pixel_unshuffle`")
    context.divides(r, w, "the width of `pixel_unshuffle`")
    require_guards(b, context)
    split = emit.reshape(b, node, (n, c, h // r, r, w // r, r))
    return emit.reshape(b, emit.transpose(b, split, (0, 1, 3, 5, 2, 4)), (n, c * r * r, h // r, w // r))


_X = tensor("x")
surface(
    "resize",
    (
        _X,
        Parameter("size", "ints"),
        Parameter("mode", "str", "nearest"),
        Parameter("align_corners", "bool", False),
    ),
    resize,
    'Spatial axes of [N, C, …] interpolated to other sizes; the mode is "nearest", "bilinear" or "bicubic".',
)
surface("pixel_shuffle", (_X, Parameter("factor", "int")), pixel_shuffle, "[N, C·r², H, W] as [N, C, H·r, W·r].")
surface("pixel_unshuffle", (_X, Parameter("factor", "int")), pixel_unshuffle, "[N, C, H·r, W·r] as [N, C·r², H, W].")

__all__ = ["pixel_shuffle", "pixel_unshuffle", "resize"]
