"""Matrix products with structure: rows in groups, and a low-rank addition."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, integer_indices, promoted
from rlxlang.ops.compose import one
from rlxlang.types import I32, TypeProblem


def _grouped_matmul(b: Builder, x: Value, w: Value, group_sizes: Value) -> Node:
    """Every group's matrix meets every row, and the row's own is kept: one batched product, no data-dependent shapes."""
    op = "grouped_matmul"
    rows, weights = promoted(b, op, (x, w))
    sizes = emit.cast(b, integer_indices(b, op, group_sizes), I32)
    if len(rows.shape) != 2 or len(weights.shape) != 3 or len(sizes.shape) != 1:
        raise TypeProblem(
            "E0404",
            f"`{op}` takes rows [m, k], matrices [g, k, n] and sizes [g], "
            f"and {rows.type}, {weights.type} and {sizes.type} are given",
        )
    products = one(b, "matmul", emit.insert_axis(b, rows, 0, weights.shape[0]), weights)
    ends = one(b, "cumsum", sizes, 0)
    starts = emit.sub(b, ends, sizes)
    place = emit.iota(b, (weights.shape[0], rows.shape[0]), 1, I32)
    mine = [emit.insert_axis(b, v, 1, rows.shape[0]) for v in (starts, ends)]
    inside = b.emit("bit_and", b.emit("ge", place, mine[0]), b.emit("lt", place, mine[1]))
    kept = emit.keep(b, emit.insert_axis(b, inside, 2, weights.shape[2]), products)
    return emit.reduce_sum(b, kept, (0,))


def _lora_matmul(builder: Builder, /, x: Value, w: Value, a: Value, b: Value, scale: Any = 1.0) -> Node:
    low = one(builder, "matmul", one(builder, "matmul", x, a), b)
    low = one(builder, "mul", low, static_number("lora_matmul", scale, "scale"))
    return one(builder, "add", one(builder, "matmul", x, w), low)


surface(
    "grouped_matmul",
    (tensor(), tensor("w"), tensor("group_sizes")),
    _grouped_matmul,
    "Rows of x [m, k], in consecutive groups of the given sizes, times a matrix of w [g, k, n] each; rows beyond give 0.",
)
surface(
    "lora_matmul",
    (tensor(), tensor("w"), tensor("a"), tensor("b"), Parameter("scale", "float", 1.0)),
    _lora_matmul,
    "x·w + scale·(x·a)·b with a [k, r] and b [r, n] (Hu et al. 2022).",
)
