"""Rounding to formats of few bits: element by element, and in blocks that share a scale; the derivative passes straight through.

`to_format` rounds half to even with gradual underflow; what is greater than the format's greatest number becomes that, NaN
stays. The power of two of a number's binade, times 2^−mantissa_bits, is the spacing of the format there, so that all of it is
one division, one rounding and one product, each exact but the rounding.

Sources:
    Open Compute Project 2023, "OCP Microscaling Formats (MX) Specification", version 1.0, for `mx`: blocks share a power of two.
    NVIDIA 2025, "Pretraining Large Language Models with NVFP4", appendix, for `nvfp4`: blocks share an E4M3 scale, and all of them
    an F32 scale.
    Bengio, Léonard and Courville 2013, "Estimating or propagating gradients through stochastic neurons", for the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, ZERO, Builder, Node, Op, Sample, register
from rlxlang.kernels import Apply, Const, Expr
from rlxlang.ops import emit
from rlxlang.ops.elementwise import constant_valued, elementwise
from rlxlang.ops.rules import Batched, require_axis, require_kinds, to_front
from rlxlang.types import (
    DimLike,
    DType,
    FloatFormat,
    ShapeContext,
    TensorType,
    ceil_div,
    find_format,
    product,
)

Array = np.ndarray[Any, Any]

GRADIENTS = ("identity", "clipped", "tanh")
_SCALE_FORMAT = find_format("e4m3")
_NVFP4 = find_format("nvf4")
assert _SCALE_FORMAT is not None
assert _NVFP4 is not None
# Powers of two that a scale of MX (E8M0) may be.
_LEAST_SCALE, _GREATEST_SCALE = 2.0**-127, 2.0**127

# --------------------------------------------------------------------------------------------- numbers


def np_binade(x: Array) -> Array:
    """The greatest power of two not above |x|, of an F32 or F64 array; 0 for denormals and 0, NaN and infinity stay."""
    flat = np.ascontiguousarray(x)
    if x.dtype == np.float32:
        power = (flat.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    else:
        power = (flat.view(np.uint64) & np.uint64(0x7FF0000000000000)).view(np.float64)
    return np.where(np.isnan(x), x, power.reshape(x.shape))


def _in_f32(reference: Callable[..., Array]) -> Callable[..., Array]:
    """The function for F16 and BF16, too, which are computed in F32."""

    @wraps(reference)
    def wide(x: Array, **attributes: Any) -> Array:
        if x.dtype in (np.float32, np.float64):
            return reference(x, **attributes)
        return reference(x.astype(np.float32), **attributes).astype(x.dtype)

    return wide


@_in_f32
def np_to_format(x: Array, *, mantissa_bits: int, min_exponent: int, max: float, **_: Any) -> Array:
    """X rounded to a format that F32, or F64 for an array of F64, holds."""
    kind = x.dtype.type
    limited = np.minimum(np.maximum(x, kind(-max)), kind(max))
    step = np.maximum(np_binade(limited), kind(2.0**min_exponent)) * kind(2.0**-mantissa_bits)
    return np.asarray(np.rint(limited / step) * step)


def format_attributes(fmt: FloatFormat) -> dict[str, Any]:
    """What the ops know of a format."""
    return {"mantissa_bits": fmt.mantissa_bits, "min_exponent": fmt.min_exponent, "max": fmt.max}


def _np_blocks(x: Array, axis: int, block: int) -> Array:
    """X with blocks of an axis as the last axis, the axis before it counting them; a last block is filled up by 0."""
    moved = np.moveaxis(x, axis, -1)
    missing = -moved.shape[-1] % block
    padded = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, missing)])
    return padded.reshape(*moved.shape[:-1], padded.shape[-1] // block, block)


def _np_joined(blocks: Array, x: Array, axis: int) -> Array:
    flat = blocks.reshape(*blocks.shape[:-2], blocks.shape[-2] * blocks.shape[-1])
    return np.moveaxis(flat[..., : x.shape[axis]], -1, axis)


@_in_f32
def np_mx(x: Array, *, mantissa_bits: int, min_exponent: int, max: float, axis: int, block: int) -> Array:
    """X in blocks of an axis that share a power of two, as `mx`."""
    kind = x.dtype.type
    blocks = _np_blocks(x, axis, block)
    greatest = np.max(np.abs(blocks), axis=-1, keepdims=True, initial=0)
    scale = np_binade(greatest) * kind(1 / _power_below(max))
    scale = np.minimum(np.maximum(scale, kind(_LEAST_SCALE)), kind(_GREATEST_SCALE))
    return _np_joined(
        np_to_format(blocks / scale, mantissa_bits=mantissa_bits, min_exponent=min_exponent, max=max) * scale, x, axis
    )


@_in_f32
def np_nvfp4(x: Array, *, axis: int, group: int, tensor_scale: bool, lead: int = 0) -> Array:
    """X as E2M1 numbers in groups of an axis with E4M3 scales, as `nvfp4`."""
    kind = x.dtype.type
    assert _NVFP4 is not None
    assert _SCALE_FORMAT is not None
    own, scales = format_attributes(_NVFP4), format_attributes(_SCALE_FORMAT)
    whole = np.ones((1,) * (x.ndim + 1), kind)
    if tensor_scale:
        over = tuple(range(lead, x.ndim))
        greatest = np.max(np.abs(x), axis=over, keepdims=True, initial=0)
        part = greatest * kind(1 / (_NVFP4.max * _SCALE_FORMAT.max))
        # A scale under the least normal number loses bits of all that is scaled by it: 1 keeps what is there.
        part = np.where(part >= np.finfo(kind).tiny, part, kind(1))
        whole = np.reshape(part, (*part.shape[:lead], *(1,) * (x.ndim + 1 - lead)))
    blocks = _np_blocks(x, axis, group)
    greatest = np.max(np.abs(blocks), axis=-1, keepdims=True, initial=0)
    scale = np_to_format(greatest * kind(1 / _NVFP4.max) / whole, **scales) * whole
    safe = np.where(scale == 0, kind(1), scale)
    return _np_joined(np.where(scale == 0, kind(0), np_to_format(blocks / safe, **own) * safe), x, axis)


def _power_below(value: float) -> float:
    return float(np_binade(np.array(value, np.float64)))


# --------------------------------------------------------------------------------------------- rows of elements


def _to_format_expr(args: tuple[Expr, ...], attrs: Mapping[str, Any], dtype: DType) -> Expr:
    def call(function: str, *operands: Expr) -> Apply:
        return Apply(function, operands, dtype)

    limit, least = Const(attrs["max"], dtype), Const(2.0 ** attrs["min_exponent"], dtype)
    limited = call("minimum", call("maximum", args[0], Const(-attrs["max"], dtype)), limit)
    step = call("mul", call("maximum", call("binade", limited), least), Const(2.0 ** -attrs["mantissa_bits"], dtype))
    return call("mul", call("round", call("div", limited, step)), step)


def _to_grid_expr(args: tuple[Expr, ...], attrs: Mapping[str, Any], dtype: DType) -> Expr:
    whole = Apply("round", args, dtype)
    above = Apply("maximum", (whole, Const(attrs["low"], dtype)), dtype)
    return Apply("minimum", (above, Const(attrs["high"], dtype)), dtype)


def _through(b: Builder, node: Node, x: Node, change: Node, low: float, high: float) -> Node:
    """A tangent or cotangent as it passes a rounding, which for values outside of `low` … `high` the attribute `gradient` says."""
    how = node.attrs["gradient"]
    if how == "identity":
        return change
    if how == "clipped":
        inside = b.emit("bit_and", emit.compare(b, "ge", x, low), emit.compare(b, "le", x, high))
        return emit.keep(b, inside, change)
    flat = emit.unary(b, "tanh", emit.scale(b, x, 1 / high))
    return emit.mul(b, change, emit.one_minus(b, emit.square(b, flat)))


def _format_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    limit = node.attrs["max"]
    return _through(b, node, primals[0], tangents[0], -limit, limit)


def _grid_jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    return _through(b, node, primals[0], tangents[0], node.attrs["low"], node.attrs["high"])


_FORMATS = ({"mantissa_bits": 1, "min_exponent": 0, "max": 6.0}, {"mantissa_bits": 3, "min_exponent": -6, "max": 448.0})


def _format_samples(rng: np.random.Generator) -> list[Sample]:
    values = [rng.normal(size=(2, 3)) * 4, np.array([0.0, -0.0, 2.5, -1e9, 1e-3, 6.0, 0.25])]
    return [
        Sample((x,), {**fmt, "gradient": g}, smooth=False)
        for x, fmt, g in zip(
            values * 2, (*_FORMATS, *_FORMATS), ("identity", "clipped", "tanh", "identity"), strict=True
        )
    ]


def _grid_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((rng.normal(size=s) * 3,), {"low": -2.0, "high": 3.0, "gradient": g}, smooth=False)
        for s, g in (((3,), "identity"), ((2, 3), "clipped"), ((4,), "tanh"))
    ]


constant_valued(
    "binade", "The greatest power of two not above |x|; 0 for 0 and denormals.", _in_f32(np_binade),
    lambda rng: [Sample((x,), {}, smooth=False) for x in (rng.normal(size=(2, 3)), np.array([0.0, 1.0, -0.75, 1e-30]))],
)  # fmt: skip
elementwise(
    "to_format", "x rounded to a floating-point format of few bits; the derivative passes straight through.", np_to_format,
    _format_samples, ZERO, function=_to_format_expr,
    jvp=_format_jvp, vjp=lambda b, node, primals, ct: (_format_jvp(b, node, primals, (ct,)),),
)  # fmt: skip
elementwise(
    "to_grid", "x rounded to a whole number between two bounds; the derivative passes straight through.",
    lambda x, *, low, high, gradient: np.clip(np.rint(x), x.dtype.type(low), x.dtype.type(high)),
    _grid_samples, ZERO, function=_to_grid_expr,
    jvp=_grid_jvp, vjp=lambda b, node, primals, ct: (_grid_jvp(b, node, primals, (ct,)),),
)  # fmt: skip


# --------------------------------------------------------------------------------------------- rows of blocks


def _blocks(b: Builder, x: Node, axis: int, block: int) -> Node:
    """X with blocks of an axis as the last axis, the axis before it counting them; a last block is filled up by 0."""
    last = len(x.shape) - 1
    moved = emit.move_axis(b, x, axis, last)
    count = ceil_div(moved.shape[last], block)
    padded = emit.pad_axis(b, moved, last, 0, count * block - moved.shape[last])
    return emit.reshape(b, padded, (*padded.shape[:-1], count, block))


def _joined(b: Builder, blocks: Node, x: Node, axis: int) -> Node:
    *lead, count, block = blocks.shape
    flat = emit.reshape(b, blocks, (*lead, count * block))
    return emit.move_axis(b, emit.slice_axis(b, flat, len(lead), 0, x.shape[axis]), len(lead), axis)


def _greatest(b: Builder, blocks: Node) -> Node:
    """The greatest absolute value of each block."""
    return emit.reduce_max(b, emit.unary(b, "abs", blocks), (len(blocks.shape) - 1,))


def _spread(b: Builder, per_block: Node, blocks: Node) -> Node:
    return emit.restore_axes(b, per_block, (len(blocks.shape) - 1,), blocks.shape)


def _rounded(b: Builder, x: Node, **fmt: Any) -> Node:
    return b.emit("to_format", x, **fmt, gradient="identity")


def _decompose_mx(b: Builder, x: Node, *, axis: int, block: int, **fmt: Any) -> Node:
    wide = emit.widen(b, x)
    blocks = _blocks(b, wide, axis, block)
    scale = emit.scale(b, emit.unary(b, "binade", _greatest(b, blocks)), 1 / _power_below(fmt["max"]))
    scale = b.emit("maximum", scale, b.full_like(scale, _LEAST_SCALE))
    scale = _spread(b, b.emit("minimum", scale, b.full_like(scale, _GREATEST_SCALE)), blocks)
    result = emit.mul(b, _rounded(b, emit.div(b, blocks, scale), **fmt), scale)
    return emit.cast(b, _joined(b, result, wide, axis), x.dtype)


def _tensor_scale(b: Builder, x: Node, lead: int) -> Node:
    """The scale of all groups of what stands behind the first `lead` axes; of their shape."""
    assert _NVFP4 is not None
    assert _SCALE_FORMAT is not None
    flat = emit.reshape(b, emit.unary(b, "abs", x), (*x.shape[:lead], product(x.shape[lead:])))
    filled = emit.pad_axis(b, flat, lead, 0, 1)  # the maximum of nothing is 0
    part = emit.scale(b, emit.reduce_max(b, filled, (lead,)), 1 / (_NVFP4.max * _SCALE_FORMAT.max))
    tiny = float(np.finfo(part.dtype.numpy).tiny)
    # NaN is no number to compare with, and 1 in its place: a NaN in x stays one by itself.
    return emit.select(b, emit.compare(b, "ge", part, tiny), part, b.full_like(part, 1))


def _decompose_nvfp4(b: Builder, x: Node, *, axis: int, group: int, tensor_scale: bool, lead: int) -> Node:
    assert _NVFP4 is not None
    assert _SCALE_FORMAT is not None
    wide = emit.widen(b, x)
    blocks = _blocks(b, wide, axis, group)
    part = emit.scale(b, _greatest(b, blocks), 1 / _NVFP4.max)
    if tensor_scale:
        whole = _tensor_scale(b, wide, lead)
        whole = emit.restore_axes(b, whole, range(lead, len(part.shape)), part.shape)
        scale = emit.mul(b, _rounded(b, emit.div(b, part, whole), **format_attributes(_SCALE_FORMAT)), whole)
    else:
        scale = _rounded(b, part, **format_attributes(_SCALE_FORMAT))
    is_zero = emit.compare(b, "eq", scale, 0)
    safe = _spread(b, emit.select(b, is_zero, b.full_like(scale, 1), scale), blocks)
    result = emit.mul(b, _rounded(b, emit.div(b, blocks, safe), **format_attributes(_NVFP4)), safe)
    result = emit.drop(b, _spread(b, is_zero, blocks), result)
    return emit.cast(b, _joined(b, result, wide, axis), x.dtype)


def _infer_blocks(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, x: TensorType, *, axis: int, **_: Any) -> TensorType:
        require_kinds(name, x.dtype, ("float",))
        require_axis(name, axis, x.rank)
        return x

    return infer


def _batch_blocks(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    attrs = dict(node.attrs)
    attrs["axis"] += 1
    if "lead" in attrs:
        attrs["lead"] += 1
    return b.emit(node.op, to_front(b, args[0], axes[0], size), **attrs), 0


def _mx_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((rng.normal(size=s) * 3,), {**fmt, "axis": axis, "block": block}, smooth=False)
        for s, axis, block, fmt in (
            ((8,), 0, 4, _FORMATS[0]), ((2, 5), 1, 4, _FORMATS[1]), ((5, 2), 0, 2, _FORMATS[0]), ((2, 3, 3), 2, 32, _FORMATS[1]),
        )
    ]  # fmt: skip


def _nvfp4_samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((rng.normal(size=s) * 0.02,), {"axis": axis, "group": group, "tensor_scale": t, "lead": 0}, smooth=False)
        for s, axis, group, t in (
            ((8,), 0, 4, True),
            ((2, 5), 1, 4, True),
            ((5, 2), 0, 2, False),
            ((2, 3, 3), 2, 16, True),
        )
    ]


def _block_row(
    name: str, doc: str, reference: Callable[..., Any], decompose: Callable[..., Node], samples: Callable[..., Any]
) -> None:
    register(
        Op(
            name,
            doc,
            _infer_blocks(name),
            reference,
            lambda b, node, primals, tangents: tangents[0],
            lambda b, node, primals, ct: (ct,),
            _batch_blocks,
            VIA_DECOMPOSITION,
            samples,
            decompose=decompose,
        )
    )


_block_row(
    "mx", "x in blocks of an axis that share a power of two, the elements rounded to a format of few bits.",
    np_mx, _decompose_mx, _mx_samples,
)  # fmt: skip
_block_row(
    "nvfp4", "x in groups of an axis that share an E4M3 scale, the elements rounded to E2M1.",
    np_nvfp4, _decompose_nvfp4, _nvfp4_samples,
)  # fmt: skip
