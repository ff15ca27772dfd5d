"""Products with matrices that are stored in few bits: scaled integers, blocks with scales, entries of a codebook; learned splines."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node, integer_indices, is_value
from rlxlang.ops.compose import one
from rlxlang.ops.rules import require_guards, require_kinds
from rlxlang.types import F32, I8, I32, U8, DimLike, ShapeContext, TypeProblem


def _matrix(op: str, node: Node, name: str) -> None:
    if len(node.shape) != 2:
        raise TypeProblem("E0404", f"argument `{name}` of `{op}` is a matrix, and {node.type} is given")


# --------------------------------------------------------------------------------------------- scaled_matmul


def _scaled_matmul(b: Builder, x: Value, y: Value, scale_x: Value = 1.0, scale_y: Value = 1.0) -> Node:
    op = "scaled_matmul"
    left, right = as_node(b, x), as_node(b, y)
    for node in (left, right):
        require_kinds(op, node.dtype, ("float", "int", "uint"))
        if len(node.shape) < 2:
            raise TypeProblem("E0404", f"`{op}` multiplies matrices, and {node.type} is given")
    # Small integers are summed exactly in 32 bits; floats of 16 bits in F32.
    if left.dtype.is_float or right.dtype.is_float:
        left, right = (emit.widen(b, v) if v.dtype.is_float else emit.cast(b, v, F32) for v in (left, right))
    product = one(b, "matmul", left, right)
    wide = product if product.dtype.is_float else emit.cast(b, product, F32)
    rows = _scale(b, op, scale_x, "scale_x")
    rows = emit.reshape(b, rows, (*rows.shape, 1)) if rows.shape else rows
    return one(b, "mul", one(b, "mul", wide, rows), _scale(b, op, scale_y, "scale_y"))


def _scale(b: Builder, op: str, value: Value, name: str) -> Node:
    if not is_value(value):
        raise TypeProblem("E0304", f"argument `{name}` of `{op}` is a tensor or a number")
    return as_float(b, op, value)


# --------------------------------------------------------------------------------------------- dequant_matmul


def _unpacked(b: Builder, q: Node) -> Node:
    """Two numbers of 4 bits from each byte, the low bits first."""
    low = one(b, "bit_and", q, b.full(15, U8))
    high = one(b, "shift_right", q, b.full(4, U8))
    pairs = emit.concat(b, [emit.reshape(b, v, (*v.shape, 1)) for v in (low, high)], 2)
    return emit.reshape(b, pairs, (q.shape[0], q.shape[1] * 2))


def _per_block(b: Builder, op: str, value: Node, rows: DimLike, columns: DimLike, block: int, name: str) -> Node:
    """A scale or zero point for every weight: from a scalar, one for each row, or one for each block of a row."""
    if len(value.shape) > 2:
        raise TypeProblem("E0404", f"argument `{name}` of `{op}` has at most 2 axes, and {value.type} is given")
    if not value.shape:
        return emit.broadcast_to(b, value, (rows, columns))
    context = ShapeContext()
    context.same_shape((rows,), value.shape[:1], f"the rows of the weights and of `{name}`")
    if len(value.shape) == 1:
        require_guards(b, context)
        return emit.insert_axis(b, value, 1, columns)
    context.same_shape((columns,), (value.shape[1] * block,), f"the columns of the weights and the blocks of `{name}`")
    require_guards(b, context)
    return emit.reshape(b, emit.insert_axis(b, value, 2, block), (rows, columns))


def stored_weights(
    b: Builder, op: str, q: Value, scale: Value, zero_point: Value | None, bits: int, block: int
) -> Node:
    """The matrix [out, in] that is stored."""
    stored = as_node(b, q)
    _matrix(op, stored, "q")
    if bits not in (4, 8):
        raise TypeProblem("E0350", f"argument `bits` of `{op}` is 4 or 8, and {bits} is given")
    allowed = (U8,) if bits == 4 else (I8, U8)
    if stored.dtype not in allowed:
        words = " or ".join(d.name for d in allowed)
        raise TypeProblem("E0301", f"`{op}` reads weights of {bits} bits from {words}, and {stored.dtype} is given")
    if block < 1:
        raise TypeProblem("E0350", f"argument `block` of `{op}` is 1 or more, and {block} is given")
    whole = _unpacked(b, stored) if bits == 4 else stored
    middle = {4: 8, 8: 0 if stored.dtype == I8 else 128}[bits]
    zero = as_node(b, middle if zero_point is None else zero_point)
    size = as_float(b, op, scale)
    rows, columns = whole.shape
    offset = _per_block(b, op, emit.cast(b, zero, F32), rows, columns, block, "zero_point")
    steps = emit.sub(b, emit.cast(b, whole, F32), offset)
    spread = _per_block(b, op, size, rows, columns, block, "scale")
    return emit.mul(b, emit.cast(b, steps, spread.dtype), spread)


def _dequant_matmul(
    b: Builder, x: Value, q: Value, scale: Value, zero_point: Any = None, bits: Any = 8, block: Any = 32
) -> Node:
    op = "dequant_matmul"
    weights = stored_weights(b, op, q, scale, zero_point, static_int(op, bits, "bits"), static_int(op, block, "block"))
    return one(b, "linear", as_float(b, op, x), weights)


# --------------------------------------------------------------------------------------------- codebooks


def _synth_reconstruct(
    b: Builder, indices: Value, codebook: Value, entry_dim: Any = None, num_entries: Any = None
) -> Node:
    return _from_codebook(b, "synth_reconstruct", indices, codebook, entry_dim, num_entries)


def _from_codebook(b: Builder, op: str, indices: Value, codebook: Value, entry_dim: Any, num_entries: Any) -> Node:
    entries = as_float(b, op, codebook)
    _matrix(op, entries, "codebook")
    places = integer_indices(b, op, indices)
    _matrix(op, places, "indices")
    for name, value, axis in (("num_entries", num_entries, 0), ("entry_dim", entry_dim, 1)):
        if value is not None and static_int(op, value, name) != entries.shape[axis]:
            raise TypeProblem("E0401", f"`{op}`: the codebook is {entries.type}, and `{name}` is {value}")
    found = one(b, "gather", entries, places, 0)
    rows, count = places.shape
    return emit.reshape(b, found, (rows, count * entries.shape[1]))


def _synth_matmul(
    b: Builder, x: Value, indices: Value, codebook: Value, entry_dim: Any = None, num_entries: Any = None
) -> Node:
    op = "synth_matmul"
    return one(b, "linear", as_float(b, op, x), _from_codebook(b, op, indices, codebook, entry_dim, num_entries))


# --------------------------------------------------------------------------------------------- splines


def _spline_activation(b: Builder, x: Value, values: Value, low: Any = -4.0, high: Any = 4.0) -> Node:
    op = "spline_activation"
    node, table = as_float(b, op, x), as_float(b, op, values)
    start, stop = (float(static_number(op, v, name)) for v, name in ((low, "low"), (high, "high")))
    if not start < stop < float("inf") or start == float("-inf"):
        raise TypeProblem("E0350", f"`{op}`: `low` is less than `high`, and {low} and {high} are given")
    if len(table.shape) not in (1, 2) or not isinstance(table.shape[-1], int) or table.shape[-1] < 2:
        raise TypeProblem(
            "E0404", f"argument `values` of `{op}` is [n] or [channels, n] with a static n of 2 or more, and {table.type} is given"
        )  # fmt: skip
    knots = table.shape[-1]
    wide = emit.widen(b, node)
    place = emit.scale(b, emit.shift(b, wide, -start), (knots - 1) / (stop - start))
    left = emit.unary(b, "floor", place)
    left = b.emit("minimum", b.emit("maximum", left, b.full_like(left, 0)), b.full_like(left, knots - 2))
    rest = emit.sub(b, place, left)
    index = emit.cast(b, left, I32)
    if len(table.shape) == 2:
        context = ShapeContext()
        if not node.shape:
            raise TypeProblem(
                "E0404", f"`{op}` with values for each channel takes channels on the last axis, and a scalar is given"
            )
        context.same_shape(node.shape[-1:], table.shape[:1], f"the last axis and the channels of the values of `{op}`")
        require_guards(b, context)
        channel = emit.iota(b, node.shape, len(node.shape) - 1, I32)
        index = emit.add(b, index, emit.scale(b, channel, knots))
        table = emit.reshape(b, table, (table.shape[0] * knots,))
    first = one(b, "gather", table, index, 0)
    second = one(b, "gather", table, emit.shift(b, index, 1), 0)
    result = one(b, "add", first, one(b, "mul", one(b, "sub", second, first), rest))
    return emit.cast(b, result, node.dtype)


surface(
    "scaled_matmul",
    (tensor(), tensor("y"), tensor("scale_x", 1.0), tensor("scale_y", 1.0)),
    _scaled_matmul,
    "(x · scale_x) @ (y · scale_y) for operands of few bits: the product first, integers exactly in 32 bits, floats in F32, then the "
    "scales: scalars, one for each row of x, one for each column of y.",
)
surface(
    "dequant_matmul",
    (
        tensor(),
        Parameter("q", "tensor"),
        tensor("scale"),
        tensor("zero_point", None),
        Parameter("bits", "int", 8),
        Parameter("block", "int", 32),
    ),
    _dequant_matmul,
    "linear(x, w) with w [out, in] = (q − zero_point) · scale. q is I8 or U8, or for `bits: 4` U8 [out, in / 2] with two numbers in a "
    "byte, the low bits first. Scale and zero point are scalars, [out], or [out, in / block]; without a zero point it is 0 (U8: 128, "
    "4 bits: 8). `rlx.lowp.quantize_blocks` makes q and scale.",
)
surface(
    "synth_reconstruct",
    (
        Parameter("indices", "tensor"),
        tensor("codebook"),
        Parameter("entry_dim", "int", None),
        Parameter("num_entries", "int", None),
    ),
    _synth_reconstruct,
    "The matrix [out, n · d] whose rows are made of entries of a codebook [entries, d], told by indices [out, n] (product quantisation, "
    "Jégou et al. 2011).",
    method=False,
)
surface(
    "synth_matmul",
    (
        tensor(),
        Parameter("indices", "tensor"),
        tensor("codebook"),
        Parameter("entry_dim", "int", None),
        Parameter("num_entries", "int", None),
    ),
    _synth_matmul,
    "linear(x, w) with w [out, in] made of entries of a codebook, see `synth_reconstruct`; gradients for x and the codebook.",
)
surface(
    "spline_activation",
    (tensor(), tensor("values"), Parameter("low", "float", -4.0), Parameter("high", "float", 4.0)),
    _spline_activation,
    "The piecewise linear function with the given values at n evenly spaced knots from low to high, straight on outside of them; values "
    "are [n], or [channels, n] for the channels of the last axis. At a knot the derivative is that of the piece to its right.",
)
