"""Rotary position embedding (Su et al. 2021) and its tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_bool, static_count, static_dim, static_int, static_radix, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, stretch
from rlxlang.types import F32, TypeProblem, shape_text


def _halves(b: Builder, x: Node, interleaved: bool) -> tuple[Node, Node]:
    """The two numbers of every rotated pair: halves of the last axis, or its even and odd entries."""
    rank = len(x.shape)
    size = x.shape[-1]
    if interleaved:
        return emit.slice_axis(b, x, rank - 1, 0, size, 2), emit.slice_axis(b, x, rank - 1, 1, size, 2)
    middle = size // 2
    return emit.slice_axis(b, x, rank - 1, 0, middle), emit.slice_axis(b, x, rank - 1, middle, size)


def _joined(b: Builder, first: Node, second: Node, interleaved: bool) -> Node:
    rank = len(first.shape)
    if not interleaved:
        return emit.concat(b, [first, second], rank - 1)
    pairs = emit.concat(b, [emit.insert_axis(b, first, rank), emit.insert_axis(b, second, rank)], rank)
    return emit.reshape(b, pairs, (*first.shape[:-1], 2 * first.shape[-1]))


def _rope(b: Builder, x: Value, cos: Value, sin: Value, head_dim: Any = None, interleaved: Any = False) -> Node:
    """`x` is [B, S, H·D] (with `head_dim`) or [B, H, S, D]; the tables are [S, D / 2] or [S, D]."""
    node = as_float(b, "rope", x)
    shape = node.shape
    width = shape[-1] if shape else None
    size = width if head_dim is None else static_int("rope", head_dim, "head_dim")
    if not isinstance(size, int) or not isinstance(width, int) or size < 2 or size % 2 or width % size:
        raise TypeProblem("E0407", f"`rope` of {node.type}: the head size {size} is even and divides the last axis")
    flat = width != size or (head_dim is not None and len(shape) == 3)
    if flat:  # heads come between the positions and the entries
        node = emit.reshape(b, node, (*shape[:-1], width // size, size))
    paired = static_bool("rope", interleaved, "interleaved")
    wide = emit.widen(b, node)
    first, second = _halves(b, wide, paired)
    c, s = (_table(b, as_float(b, "rope", t), size, first, flat, paired) for t in (cos, sin))
    turned_first = emit.sub(b, emit.mul(b, first, c), emit.mul(b, second, s))
    turned_second = emit.add(b, emit.mul(b, second, c), emit.mul(b, first, s))
    result = emit.cast(b, _joined(b, turned_first, turned_second, paired), node.dtype)
    return emit.reshape(b, result, shape)


def _table(b: Builder, table: Node, size: int, like: Node, flat: bool, interleaved: bool) -> Node:
    """A table for all rotated pairs, in their dtype and shape."""
    if len(table.shape) != 2 or table.shape[-1] not in (size, size // 2):
        raise TypeProblem(
            "E0401", f"the tables of `rope` are [S, {size // 2}] or [S, {size}], and {shape_text(table.shape)} is given"
        )
    if table.shape[-1] == size:
        table = _halves(b, table, interleaved)[0]
    table = emit.cast(b, table, like.dtype)
    if flat:
        table = emit.insert_axis(b, table, 1)
    return stretch(b, table, like.shape)


def _rope_tables(b: Builder, n: Any, d: Any, base: Any = 10000.0) -> tuple[Node, Node]:
    length, size = static_dim("rope_tables", n, "n"), static_count("rope_tables", d, "d")
    if size < 2 or size % 2:
        raise TypeProblem("E0350", f"argument `d` of `rope_tables` is even and positive, and {size} is given")
    power = static_radix("rope_tables", base)
    rates = power ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    shape = (length, size // 2)
    position = emit.iota(b, shape, 0, F32)
    angle = emit.mul(b, position, emit.broadcast_to(b, b.constant(rates.astype(np.float32)), shape))
    return b.emit("cos", angle), b.emit("sin", angle)


surface(
    "rope",
    (
        tensor("x"),
        tensor("cos"),
        tensor("sin"),
        Parameter("head_dim", "int", None),
        Parameter("interleaved", "bool", False),
    ),
    _rope,
    "Rotary position embedding of [B, S, H·D] or [B, H, S, D] with tables [S, D / 2] or [S, D].",
)
surface(
    "rope_tables",
    (Parameter("n", "dim"), Parameter("d", "int"), Parameter("base", "float", 10000.0)),
    _rope_tables,
    "The cosines and sines of `rope` for n positions and head size d: two tables [n, d / 2].",
    method=False,
)
