"""Reading and writing at several coordinates at once: gather_nd, scatter_nd, sampling of images at points, padding by index."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import choice, static_bool, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node, integer_indices
from rlxlang.ops.compose import one
from rlxlang.ops.indexing import clamped
from rlxlang.ops.surface_indexing import SCATTER_MODES
from rlxlang.types import I32, DimLike, TypeProblem, product


def _flat_positions(b: Builder, op: str, indices: Value, shape: tuple[DimLike, ...]) -> tuple[Node, int]:
    """Coordinates (last axis) as positions in the flattened leading axes; and how many axes they address.

    Negative coordinates count from the end once, the rest is clamped, as in `take`.
    """
    places = integer_indices(b, op, indices)
    depth = places.shape[-1] if places.shape else None
    if not isinstance(depth, int) or not 1 <= depth <= len(shape):
        raise TypeProblem(
            "E0404",
            f"`{op}`: the last axis of the indices holds 1 to {len(shape)} coordinates, and {places.type} is given",
        )
    places = emit.cast(b, places, I32) if places.dtype.bytes < 4 else places
    total: Node | None = None
    last = len(places.shape) - 1
    for k in range(depth):
        column = emit.reshape(b, emit.slice_axis(b, places, last, k, k + 1), places.shape[:-1])
        inside = clamped(b, column, shape[k])
        total = inside if total is None else emit.add(b, emit.mul(b, total, emit.number(b, shape[k], column)), inside)
    assert total is not None
    return total, depth


def _gather_nd(b: Builder, x: Value, indices: Value) -> Node:
    node = as_node(b, x)
    positions, depth = _flat_positions(b, "gather_nd", indices, node.shape)
    flat = emit.reshape(b, node, (product(node.shape[:depth]), *node.shape[depth:]))
    return emit.take(b, flat, positions, 0)


def _scatter_nd(b: Builder, x: Value, indices: Value, updates: Value, mode: Any = "set") -> Node:
    node = as_node(b, x)
    word = choice("scatter_nd", mode, "mode", SCATTER_MODES)
    positions, depth = _flat_positions(b, "scatter_nd", indices, node.shape)
    flat = emit.reshape(b, node, (product(node.shape[:depth]), *node.shape[depth:]))
    return emit.reshape(b, one(b, "scatter", flat, positions, updates, 0, word), node.shape)


# --------------------------------------------------------------------------------------------- padding by index
def padded_by_index(b: Builder, x: Node, axis: int, low: DimLike, high: DimLike, mode: str) -> Node:
    """An axis continued by its own entries: `reflect` (without the border), `replicate` or `circular`."""
    size = x.shape[axis]
    length = low + size + high
    place = emit.iota(b, (length,), 0, I32)
    place = emit.sub(b, place, emit.number(b, low, place))
    count = emit.number(b, size, place)
    if mode == "replicate":
        place = b.emit("minimum", b.emit("maximum", place, b.zeros_like(place)), emit.shift(b, count, -1))
    elif mode == "circular":
        place = b.emit("mod", place, count)
    else:
        last = emit.shift(b, count, -1)
        turn = b.emit("mod", place, b.emit("maximum", emit.scale(b, last, 2), b.full_like(place, 1)))
        place = b.emit("minimum", turn, emit.sub(b, emit.scale(b, last, 2), turn))
    return emit.take(b, x, place, axis)


# --------------------------------------------------------------------------------------------- images
def _grid_sample(
    b: Builder, x: Value, grid: Value, mode: Any = "bilinear", padding: Any = "zeros", align_corners: Any = False
) -> Node:
    op = "grid_sample"
    image, points = as_float(b, op, x), as_float(b, op, grid)
    if len(image.shape) != 4 or len(points.shape) != 4 or points.shape[-1] != 2:
        raise TypeProblem(
            "E0404",
            f"`{op}` takes images [n, c, h, w] and points [n, h', w', 2], and {image.type} and {points.type} are given",
        )
    how = choice(op, mode, "mode", ("bilinear", "nearest"))
    border = choice(op, padding, "padding", ("zeros", "border"))
    corners = static_bool(op, align_corners, "align_corners")
    n, c, h, w = image.shape
    _, rows, columns, _ = points.shape
    positions = []
    for axis, size in ((1, h), (0, w)):
        unit = emit.reshape(b, emit.slice_axis(b, points, 3, axis, axis + 1), points.shape[:-1])
        extent = emit.number(b, size, unit)
        half = emit.scale(b, emit.shift(b, unit, 1), 0.5)
        place = emit.mul(b, half, emit.shift(b, extent, -1) if corners else extent)
        positions.append(place if corners else emit.shift(b, place, -0.5))
    flat = emit.transpose(b, emit.reshape(b, image, (n, c, h * w)), (0, 2, 1))
    if how == "nearest":
        return _picked(b, flat, [b.emit("round", _detached(b, p)) for p in positions], (h, w), border, c, rows, columns)
    total: Node | None = None
    low = [b.emit("floor", _detached(b, p)) for p in positions]
    for dy in (0, 1):
        for dx in (0, 1):
            corner = [emit.shift(b, at, d) for at, d in zip(low, (dy, dx), strict=True)]
            weight: Node | None = None
            for place, at, d in zip(positions, low, (dy, dx), strict=True):
                share = emit.sub(b, place, at)
                share = share if d else emit.one_minus(b, share)
                weight = share if weight is None else emit.mul(b, weight, share)
            assert weight is not None
            value = _picked(b, flat, corner, (h, w), border, c, rows, columns)
            term = emit.mul(b, value, emit.insert_axis(b, emit.cast(b, weight, value.dtype), 1, c))
            total = term if total is None else emit.add(b, total, term)
    assert total is not None
    return total


def _detached(b: Builder, x: Node) -> Node:
    """The value without its derivative."""
    return b.emit("stop_gradient", x)


def _picked(
    b: Builder, flat: Node, corner: list[Node], sizes: tuple[DimLike, DimLike], border: str, c: DimLike, rows: DimLike, columns: DimLike
) -> Node:  # fmt: skip
    """Pixels [n, c, h', w'] at whole coordinates; beyond the image 0, or its border."""
    inside: Node | None = None
    position: Node | None = None
    for at, size in zip(corner, sizes, strict=True):
        limit = emit.shift(b, emit.number(b, size, at), -1)
        ok = b.emit("bit_and", emit.compare(b, "ge", at, 0), b.emit("le", at, limit))
        inside = ok if inside is None else b.emit("bit_and", inside, ok)
        place = emit.cast(b, b.emit("minimum", b.emit("maximum", at, b.zeros_like(at)), limit), I32)
        position = place if position is None else emit.add(b, emit.mul(b, position, emit.number(b, size, place)), place)
    assert inside is not None
    assert position is not None
    n = flat.shape[0]
    index = emit.insert_axis(b, emit.reshape(b, position, (n, rows * columns)), 2, c)
    found = b.emit("take_along_axis", flat, index, axis=1)
    found = emit.transpose(b, emit.reshape(b, found, (n, rows, columns, c)), (0, 3, 1, 2))
    if border == "border":
        return found
    return emit.keep(b, emit.insert_axis(b, inside, 1, c), found)


surface(
    "gather_nd",
    (tensor(), tensor("indices")),
    _gather_nd,
    "Entries of x at the coordinates in the last axis of the indices, which address the first axes of x.",
)
surface(
    "scatter_nd",
    (tensor(), tensor("indices"), tensor("updates"), Parameter("mode", "str", "set")),
    _scatter_nd,
    "x with entries at coordinates (the last axis of the indices) replaced, or combined: `mode` set, add, mul, min or max.",
)
surface(
    "grid_sample",
    (
        tensor(),
        tensor("grid"),
        Parameter("mode", "str", "bilinear"),
        Parameter("padding", "str", "zeros"),
        Parameter("align_corners", "bool", False),
    ),
    _grid_sample,
    "Images [n, c, h, w] read at points [n, h', w', 2]: x to the right and y down, from -1 to 1 (Jaderberg et al. 2015).",
)
