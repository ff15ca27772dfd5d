"""Quantisation: rounding to formats of few bits, to grids of integers with a scale, and in blocks with scales of their own."""

from __future__ import annotations

from typing import Any

from rlxlang.diagnostics import did_you_mean
from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, choice, static_bool, static_int, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node, describe, is_value
from rlxlang.ops.compose import one
from rlxlang.ops.low_precision import GRADIENTS, format_attributes
from rlxlang.ops.rules import require_kinds
from rlxlang.types import F32, FORMAT_NAMES, I8, I16, U8, U16, FloatFormat, TypeProblem, find_format

_STE = Parameter("ste", "str", "identity")
_FORM = "a generic format is `fXmYeZ`: X bits in all, Y of the significand, Z of the exponent, X = 1 + Y + Z"
_SCALE_MODES = ("absmax", "minmax")
_LARGEST_BITS = 16


def _format(op: str, value: Any, x: Node, name: str = "format") -> FloatFormat:
    """The format of an argument, one that the arithmetic of X can round to (E0350)."""
    if not isinstance(value, (str, FloatFormat)):
        message = f'argument `{name}` of `{op}` is the name of a format such as "e4m3", and {describe(value)} is given'
        raise TypeProblem("E0306", message)
    found = find_format(value) if isinstance(value, str) else value
    if found is None:
        help_ = did_you_mean(str(value), FORMAT_NAMES) or f"the names are {', '.join(FORMAT_NAMES)}"
        raise TypeProblem("E0350", f'`{op}`: there is no format "{value}"', (_FORM,), help_)
    wide = x.dtype if x.dtype.bits > F32.bits else F32
    if not found.fits(wide):
        message = f'`{op}`: the format "{value}" has numbers that {wide} lacks'
        raise TypeProblem("E0350", message, (f"{x.dtype} is computed in {wide}",), "cast the tensor to a wider dtype")
    return found


def _to_format(b: Builder, x: Value, format: Any, ste: Any = "identity") -> Node:
    node = as_float(b, "to_format", x)
    found = _format("to_format", format, node)
    how = choice("to_format", ste, "ste", GRADIENTS)
    return b.emit("to_format", node, **format_attributes(found), gradient=how)


def _mx(b: Builder, x: Value, format: Any = "e4m3", axis: Any = -1, block: Any = 32) -> Node:
    node = as_float(b, "mx", x)
    found = _format("mx", format, node)
    k, size = canonical_axis("mx", axis, len(node.shape)), _block("mx", block, "block")
    return b.emit("mx", node, **format_attributes(found), axis=k, block=size)


def _nvfp4(b: Builder, x: Value, axis: Any = -1, group: Any = 16, tensor_scale: Any = True) -> Node:
    node = as_float(b, "nvfp4", x)
    k, size = canonical_axis("nvfp4", axis, len(node.shape)), _block("nvfp4", group, "group")
    whole = static_bool("nvfp4", tensor_scale, "tensor_scale")
    return b.emit("nvfp4", node, axis=k, group=size, tensor_scale=whole, lead=0)


def _block(op: str, value: Any, name: str) -> int:
    size = static_int(op, value, name)
    if not 1 <= size <= 1 << 20:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is 1 … {1 << 20}, and {size} is given")
    return size


# --------------------------------------------------------------------------------------------- grids of integers


def _bits(op: str, value: Any) -> int:
    bits = static_int(op, value, "bits")
    if not 2 <= bits <= _LARGEST_BITS:
        raise TypeProblem("E0350", f"argument `bits` of `{op}` is 2 … {_LARGEST_BITS}, and {bits} is given")
    return bits


def _along(b: Builder, op: str, value: Value, x: Node, axis: Any, name: str) -> Value:
    """A scale or zero point ready to meet X: a number, a scalar, or a vector along an axis."""
    if not is_value(value):
        raise TypeProblem("E0304", f"argument `{name}` of `{op}` is a tensor, and {describe(value)} is given")
    if not isinstance(value, Node) or not value.shape:
        return value
    if axis is None:
        raise TypeProblem(
            "E0404", f"argument `{name}` of `{op}` is a scalar, and {describe(value)} is given", (), "say along which `axis:` it lies"
        )  # fmt: skip
    if len(value.shape) != 1:
        raise TypeProblem(
            "E0404", f"argument `{name}` of `{op}` is a vector along `axis`, and {describe(value)} is given"
        )
    k = canonical_axis(op, axis, len(x.shape))
    return emit.reshape(b, value, (value.shape[0], *(1 for _ in x.shape[k + 1 :])))


def _to_grid(b: Builder, x: Node, low: float, high: float, ste: str = "identity") -> Node:
    return b.emit("to_grid", x, low=float(low), high=float(high), gradient=ste)


def _quantize(
    b: Builder, x: Value, scale: Value, zero_point: Value = 0, bits: Any = 8, axis: Any = None, signed: Any = True
) -> Node:
    op = "quantize"
    node, count = emit.widen(b, as_float(b, op, x)), _bits(op, bits)
    has_sign = static_bool(op, signed, "signed")
    low, high = (-(1 << count - 1), (1 << count - 1) - 1) if has_sign else (0, (1 << count) - 1)
    steps = one(b, "div", node, _along(b, op, scale, node, axis, "scale"))
    offset = _along(b, op, zero_point, node, axis, "zero_point")
    whole = one(b, "add", b.emit("round", steps), emit.cast(b, as_node(b, offset, node.dtype), node.dtype))
    dtype = (I8 if count <= 8 else I16) if has_sign else (U8 if count <= 8 else U16)
    return emit.cast(b, _to_grid(b, whole, low, high), dtype)


def _dequantize(b: Builder, q: Value, scale: Value, zero_point: Value = 0, axis: Any = None) -> Node:
    op = "dequantize"
    node = as_node(b, q)
    require_kinds(op, node.dtype, ("int", "uint"))
    size = as_float(b, op, scale)
    wide = emit.cast(b, node, size.dtype if size.dtype.bits > F32.bits else F32)
    offset = _along(b, op, zero_point, wide, axis, "zero_point")
    moved = one(b, "sub", wide, emit.cast(b, as_node(b, offset, wide.dtype), wide.dtype))
    return one(b, "mul", moved, _along(b, op, size, wide, axis, "scale"))


def _other_axes(op: str, x: Node, axis: Any) -> tuple[int, ...]:
    """The axes over which one scale is taken: all but `axis`."""
    kept = () if axis is None else (canonical_axis(op, axis, len(x.shape)),)
    return tuple(k for k in range(len(x.shape)) if k not in kept)


def _extremum(b: Builder, name: str, x: Node, axes: tuple[int, ...]) -> Node:
    """The maximum or minimum over axes and 0, of the shape of X, as a constant of derivatives."""
    filled = x
    for k in axes:  # the extremum of nothing is 0
        filled = emit.pad_axis(b, filled, k, 0, 1)
    return emit.restore_axes(b, b.emit("stop_gradient", emit.reduce(b, name, filled, axes)), axes, x.shape)


def _not_zero(b: Builder, scale: Node) -> Node:
    return emit.select(b, emit.compare(b, "gt", scale, 0), scale, b.full_like(scale, 1))


def _fake_quantize(
    b: Builder,
    x: Value,
    bits: Any = 8,
    axis: Any = None,
    scale_mode: Any = "absmax",
    ste: Any = "identity",
    scale: Any = None,
) -> Node:
    op = "fake_quantize"
    given = as_float(b, op, x)
    node, count, how = emit.widen(b, given), _bits(op, bits), choice(op, ste, "ste", GRADIENTS)
    mode = choice(op, scale_mode, "scale_mode", _SCALE_MODES)
    top = (1 << count - 1) - 1
    if scale is not None:
        fixed = as_node(b, _along(b, op, scale, node, axis, "scale"), node.dtype)
        step = emit.broadcast_to(b, emit.cast(b, b.emit("stop_gradient", fixed), node.dtype), node.shape)
        step = _not_zero(b, step)
        return emit.cast(b, emit.mul(b, _to_grid(b, emit.div(b, node, step), -top, top, how), step), given.dtype)
    axes = _other_axes(op, node, axis)
    if mode == "absmax":
        greatest = _extremum(b, "max", emit.unary(b, "abs", node), axes)
        step = _not_zero(b, emit.scale(b, greatest, 1 / top))
        return emit.cast(b, emit.mul(b, _to_grid(b, emit.div(b, node, step), -top, top, how), step), given.dtype)
    low, high = _extremum(b, "min", node, axes), _extremum(b, "max", node, axes)
    levels = (1 << count) - 1
    step = _not_zero(b, emit.scale(b, emit.sub(b, high, low), 1 / levels))
    zero = b.emit("round", emit.div(b, emit.neg(b, low), step))
    # Only `identity` has a meaning for a grid that is not around 0, where nothing lies outside of it.
    whole = _to_grid(b, emit.add(b, emit.div(b, node, step), zero), 0, levels)
    return emit.cast(b, emit.mul(b, emit.sub(b, whole, zero), step), given.dtype)


def _fake_quantize_lsq(b: Builder, x: Value, step: Value, bits: Any = 8, axis: Any = None, signed: Any = True) -> Node:
    op = "fake_quantize_lsq"
    node, count = as_float(b, op, x), _bits(op, bits)
    has_sign = static_bool(op, signed, "signed")
    low, high = (-(1 << count - 1), (1 << count - 1) - 1) if has_sign else (0, (1 << count) - 1)
    size = emit.cast(b, as_node(b, _along(b, op, step, node, axis, "step"), node.dtype), node.dtype)
    fixed = b.emit("stop_gradient", size)
    # What shares a step: the elements of x for each of the step's.
    total, steps = (emit.number(b, emit.size_of(v.shape, range(len(v.shape))), size) for v in (node, size))
    shared = emit.scale(b, emit.div(b, total, steps), high)
    eased = emit.add(b, fixed, emit.mul(b, emit.sub(b, size, fixed), emit.unary(b, "rsqrt", shared)))
    whole = _to_grid(b, one(b, "div", node, eased), low, high, "clipped")
    return one(b, "mul", whole, eased)


surface(
    "to_format",
    (tensor(), Parameter("format", "str"), _STE),
    _to_format,
    'x rounded to a floating-point format of few bits: a name (`"bf16" "f16" "e4m3" "e5m2" "f6e3m2" "f6e2m3" "nvf4"` …) or `"fXmYeZ"`; '
    'half to even, too great ones to the greatest. The gradient passes straight through; `ste: "clipped"`: 0 outside of the '
    'format\'s range, `"tanh"`: times 1 − tanh²(x / max).',
    example='to_format(x, "e4m3")',
)
surface(
    "mx",
    (tensor(), Parameter("format", "str", "e4m3"), Parameter("axis", "axis", -1), Parameter("block", "int", 32)),
    _mx,
    "x in blocks of an axis that share a power of two (E8M0), the elements rounded to a format (OCP MX 2023); a last block may be "
    "shorter. The gradient passes straight through.",
)
surface(
    "nvfp4",
    (tensor(), Parameter("axis", "axis", -1), Parameter("group", "int", 16), Parameter("tensor_scale", "bool", True)),
    _nvfp4,
    "x in groups of an axis that share an E4M3 scale, the elements rounded to E2M1, and with `tensor_scale` all under one F32 scale "
    "(NVIDIA 2025). The gradient passes straight through.",
)
surface(
    "quantize",
    (
        tensor(),
        tensor("scale"),
        tensor("zero_point", 0),
        Parameter("bits", "int", 8),
        Parameter("axis", "axis", None),
        Parameter("signed", "bool", True),
    ),
    _quantize,
    "round(x / scale) + zero_point, limited to `bits` bits: I8, or I16 beyond 8 bits (U8 and U16 for `signed: false`). Scale and zero "
    "point are scalars, or vectors along `axis`. No gradient.",
)
surface(
    "dequantize",
    (Parameter("q", "tensor"), tensor("scale"), tensor("zero_point", 0), Parameter("axis", "axis", None)),
    _dequantize,
    "(q − zero_point) · scale, in F32 or the wider dtype of the scale; scale and zero point as in `quantize`.",
)
surface(
    "fake_quantize",
    (
        tensor(),
        Parameter("bits", "int", 8),
        Parameter("axis", "axis", None),
        Parameter("scale_mode", "str", "absmax"),
        _STE,
        tensor("scale", None),
    ),
    _fake_quantize,
    "x rounded to integers of `bits` bits times a scale (Jacob et al. 2018): one scale, or one for each entry of `axis`; from the greatest "
    '|x| (`"absmax"`, around 0), from the least and greatest x (`"minmax"`, with a zero point), or given. The gradient passes straight '
    'through; `ste: "clipped"`: 0 outside of the grid, `"tanh"`: times 1 − tanh²(x / greatest); none to the scale.',
)
surface(
    "fake_quantize_lsq",
    (
        tensor(),
        tensor("step"),
        Parameter("bits", "int", 8),
        Parameter("axis", "axis", None),
        Parameter("signed", "bool", True),
    ),
    _fake_quantize_lsq,
    "x rounded to integers of `bits` bits times a step that is learned (LSQ, Esser et al. 2020): the gradient of the step is theirs, "
    "times 1 / √(elements for each step · greatest integer); that of x is 0 outside of the grid. The step is a scalar, or a vector "
    "along `axis`.",
)
