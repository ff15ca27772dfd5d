"""Ops that rearrange or convert elements: reshape, transpose, broadcast, slice, flip, pad, concat, cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import ZERO, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import Concat, Elementwise, Identity, Reshape, View
from rlxlang.ops.rules import (
    Batched,
    batch_axes,
    batch_axis,
    batch_elementwise,
    batch_front,
    jvp_linear,
    require_axis,
    to_front,
)
from rlxlang.types import (
    BOOL,
    F32,
    I32,
    DimLike,
    DType,
    Shape,
    ShapeContext,
    TensorType,
    TypeProblem,
    ceil_div,
    from_numpy,
    product,
    shape_text,
)

# --------------------------------------------------------------------------------------------- cast, stop_gradient


def _infer_cast(context: ShapeContext, x: TensorType, *, dtype: DType) -> TensorType:
    return x.with_dtype(dtype)


def cast_array(x: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """`x` in another element type: floats saturate in integers and NaN gives 0, integers wrap, Bool is `!= 0`."""
    own = from_numpy(x.dtype)
    if dtype.kind == "bool":
        return np.asarray(x != 0)
    if dtype.is_integer and own is not None and own.kind == "float":
        low, high = dtype.integer_range
        wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
        # The upper bound of 64-bit types is no float64, so it is set apart.
        inside = np.where((wide >= low) & (wide < float(high)), wide, 0).astype(dtype.numpy)
        result = np.where(wide >= float(high), np.array(high, dtype.numpy), inside)
        return np.asarray(np.where(wide < low, np.array(low, dtype.numpy), result))
    if own is not None and own.kind == "complex" and dtype.kind != "complex":
        x = x.real
    return x.astype(dtype.numpy)


def _both_differentiable(node: Node) -> bool:
    return bool(node.dtype.is_differentiable and node.inputs[0].dtype.is_differentiable)


CAST = register(
    Op(
        "cast",
        "Conversion to another element type.",
        _infer_cast,
        lambda x, *, dtype: cast_array(x, dtype),
        lambda b, node, primals, tangents: (
            emit.cast(b, tangents[0], node.dtype) if _both_differentiable(node) else None
        ),
        lambda b, node, primals, ct: (emit.cast(b, ct, primals[0].dtype) if _both_differentiable(node) else None,),
        batch_elementwise,
        Elementwise("cast"),
        lambda rng: [
            Sample((rng.normal(size=(3,)) * 3,), {"dtype": F32}, smooth=False),
            Sample((rng.normal(size=(2, 3)) * 3,), {"dtype": I32}, smooth=False),
            Sample((rng.integers(-1, 2, size=(4,)),), {"dtype": BOOL}, smooth=False),
        ],
    )
)

STOP_GRADIENT = register(
    Op(
        "stop_gradient",
        "The operand, taken as a constant by derivatives.",
        lambda context, x: x,
        lambda x: x,
        ZERO,
        ZERO,
        batch_elementwise,
        Identity(),
        lambda rng: [Sample((rng.normal(size=(3,)),), {}, smooth=False)],
    )
)

# --------------------------------------------------------------------------------------------- reshape


def _infer_reshape(context: ShapeContext, x: TensorType, *, shape: Shape) -> TensorType:
    what = f"the numbers of elements of {shape_text(x.shape)} and of the new shape {shape_text(shape)}"
    context.same(x.size, product(shape), what, "E0405")
    return x.with_shape(tuple(shape))


RESHAPE = register(
    Op(
        "reshape",
        "The same elements in row-major order under another shape.",
        _infer_reshape,
        lambda x, *, shape: np.reshape(x, shape),
        jvp_linear,
        lambda b, node, primals, ct: (emit.reshape(b, ct, primals[0].shape),),
        lambda b, node, args, axes, size: (
            emit.reshape(b, to_front(b, args[0], axes[0], size), (size, *node.attrs["shape"])),
            0,
        ),
        Reshape(),
        lambda rng: [
            Sample((rng.normal(size=(2, 3)),), {"shape": (6,)}),
            Sample((rng.normal(size=(4, 3)),), {"shape": (2, 2, 3)}),
            Sample((rng.normal(size=()),), {"shape": (1, 1)}),
        ],
    )
)

# --------------------------------------------------------------------------------------------- transpose


def _infer_transpose(context: ShapeContext, x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise TypeProblem("E0403", f"`transpose` of a tensor of rank {x.rank}: {list(perm)} is no order of its axes")
    return x.with_shape(tuple(x.shape[k] for k in perm))


def inverse_perm(perm: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes an order of axes."""
    return tuple(sorted(range(len(perm)), key=lambda k: perm[k]))


TRANSPOSE = register(
    Op(
        "transpose",
        "Axes in another order: axis `perm[k]` comes to position k.",
        _infer_transpose,
        lambda x, *, perm: np.transpose(x, perm),
        jvp_linear,
        lambda b, node, primals, ct: (emit.transpose(b, ct, inverse_perm(node.attrs["perm"])),),
        batch_front(lambda attrs, node: {"perm": (0, *(k + 1 for k in attrs["perm"]))}),
        View("transpose"),
        lambda rng: [
            Sample((rng.normal(size=(2, 3)),), {"perm": (1, 0)}),
            Sample((rng.normal(size=(2, 3, 4)),), {"perm": (2, 0, 1)}),
        ],
    )
)

# --------------------------------------------------------------------------------------------- broadcast_to


def _infer_broadcast(context: ShapeContext, x: TensorType, *, shape: Shape) -> TensorType:
    extra = len(shape) - x.rank
    message = f"`broadcast_to`: shape {shape_text(x.shape)} does not stretch to {shape_text(shape)}"
    if extra < 0:
        raise TypeProblem("E0401", message)
    for own, target in zip(x.shape, shape[extra:], strict=True):
        if own != 1:
            try:
                context.same(own, target, "sizes of `broadcast_to`")
            except TypeProblem:
                raise TypeProblem("E0401", message, ("only axes of static size 1 stretch",)) from None
    return x.with_shape(tuple(shape))


def _vjp_broadcast(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    shape, own = node.attrs["shape"], primals[0].shape
    extra = len(shape) - len(own)
    stretched = [k + extra for k, d in enumerate(own) if d == 1 and shape[k + extra] != 1]
    return (emit.reshape(b, emit.reduce_sum(b, ct, [*range(extra), *stretched]), own),)


def _batch_broadcast(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> Batched:
    shape, own = node.attrs["shape"], node.inputs[0].shape
    x = to_front(b, args[0], axes[0], size)
    units = (1,) * (len(shape) - len(own))
    return emit.broadcast_to(b, emit.reshape(b, x, (size, *units, *own)), (size, *shape)), 0


BROADCAST_TO = register(
    Op(
        "broadcast_to",
        "A larger shape: axes are added in front, axes of static size 1 repeat.",
        _infer_broadcast,
        lambda x, *, shape: np.broadcast_to(x, shape),
        jvp_linear,
        _vjp_broadcast,
        _batch_broadcast,
        View("broadcast_to"),
        lambda rng: [
            Sample((rng.normal(size=(3,)),), {"shape": (2, 3)}),
            Sample((rng.normal(size=(2, 1)),), {"shape": (4, 2, 3)}),
            Sample((rng.normal(size=()),), {"shape": (2, 2)}),
        ],
    )
)

# --------------------------------------------------------------------------------------------- slice, flip, pad


def _infer_slice(
    context: ShapeContext, x: TensorType, *, starts: Shape, stops: Shape, steps: tuple[int, ...]
) -> TensorType:
    if not len(starts) == len(stops) == len(steps) == x.rank:
        raise TypeProblem("E0404", f"`slice` of a tensor of rank {x.rank} needs {x.rank} starts, stops and steps")
    for axis, (start, stop, dim) in enumerate(zip(starts, stops, x.shape, strict=True)):
        what = f"bounds of `slice` on axis {axis}"
        context.at_most(0, start, what)
        context.at_most(start, stop, what)
        context.at_most(stop, dim, what)
    return x.with_shape(tuple(ceil_div(b - a, s) for a, b, s in zip(starts, stops, steps, strict=True)))


def _vjp_slice(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    attrs, shape = node.attrs, primals[0].shape
    for axis, step in enumerate(attrs["steps"]):
        if step == 1:
            continue
        # Zeros between the entries: a new axis of `step` places of which the first is taken.
        count = ct.shape[axis]
        split = emit.reshape(b, ct, (*ct.shape[: axis + 1], 1, *ct.shape[axis + 1 :]))
        spread = emit.pad_axis(b, split, axis + 1, 0, step - 1)
        flat = emit.reshape(b, spread, (*ct.shape[:axis], count * step, *ct.shape[axis + 1 :]))
        ct = emit.slice_axis(b, flat, axis, 0, attrs["stops"][axis] - attrs["starts"][axis])
    low = tuple(attrs["starts"])
    high = tuple(d - e for d, e in zip(shape, attrs["stops"], strict=True))
    if all(p == 0 for p in (*low, *high)):
        return (ct,)
    return (b.emit("pad", ct, low=low, high=high, value=0),)


def _batch_slice(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    attrs = node.attrs
    x = to_front(b, args[0], axes[0], size)
    starts, stops, steps = (0, *attrs["starts"]), (size, *attrs["stops"]), (1, *attrs["steps"])
    return b.emit("slice", x, starts=starts, stops=stops, steps=steps), 0


SLICE = register(
    Op(
        "slice",
        "Entries from a start up to a stop, every so many, along all axes.",
        _infer_slice,
        lambda x, *, starts, stops, steps: x[tuple(slice(*r) for r in zip(starts, stops, steps, strict=True))],
        jvp_linear,
        _vjp_slice,
        _batch_slice,
        View("slice"),
        lambda rng: [
            Sample((rng.normal(size=(6,)),), {"starts": (1,), "stops": (4,), "steps": (1,)}),
            Sample((rng.normal(size=(7, 3)),), {"starts": (1, 0), "stops": (7, 2), "steps": (3, 1)}),
            Sample((rng.normal(size=(5,)),), {"starts": (0,), "stops": (5,), "steps": (2,)}),
        ],
    )
)


def _infer_flip(context: ShapeContext, x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    for axis in axes:
        require_axis("flip", axis, x.rank)
    return x


FLIP = register(
    Op(
        "flip",
        "Reversed order along axes.",
        _infer_flip,
        lambda x, *, axes: np.flip(x, axes),
        jvp_linear,
        lambda b, node, primals, ct: (b.emit("flip", ct, axes=node.attrs["axes"]),),
        batch_axes,
        View("flip"),
        lambda rng: [
            Sample((rng.normal(size=(4,)),), {"axes": (0,)}),
            Sample((rng.normal(size=(2, 3, 2)),), {"axes": (0, 2)}),
        ],
    )
)


def _infer_pad(context: ShapeContext, x: TensorType, *, low: Shape, high: Shape, value: float) -> TensorType:
    if not len(low) == len(high) == x.rank:
        raise TypeProblem("E0404", f"`pad` of a tensor of rank {x.rank} needs {x.rank} amounts")
    for amount in (*low, *high):
        context.at_most(0, amount, "amount of `pad`")
    return x.with_shape(tuple(p + d + q for p, d, q in zip(low, x.shape, high, strict=True)))


def _jvp_pad(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> Node:
    return b.emit("pad", tangents[0], **{**node.attrs, "value": 0})


def _vjp_pad(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    low = node.attrs["low"]
    stops = tuple(p + d for p, d in zip(low, primals[0].shape, strict=True))
    return (b.emit("slice", ct, starts=low, stops=stops, steps=(1,) * len(low)),)


PAD = register(
    Op(
        "pad",
        "A number before and after the entries of axes.",
        _infer_pad,
        lambda x, *, low, high, value: (
            np.pad(x, list(zip(low, high, strict=True)), constant_values=value) if x.ndim else x
        ),
        _jvp_pad,
        _vjp_pad,
        batch_front(
            lambda attrs, node: {"low": (0, *attrs["low"]), "high": (0, *attrs["high"]), "value": attrs["value"]}
        ),
        View("pad"),
        lambda rng: [
            Sample((rng.normal(size=(3,)),), {"low": (1,), "high": (2,), "value": 0.5}),
            Sample((rng.normal(size=(2, 3)),), {"low": (0, 2), "high": (1, 0), "value": 0}),
        ],
    )
)

# --------------------------------------------------------------------------------------------- concat


def _infer_concat(context: ShapeContext, *types: TensorType, axis: int) -> TensorType:
    if not types:
        raise TypeProblem("E0223", "`concat` needs at least one tensor")
    first = types[0]
    require_axis("concat", axis, first.rank)
    total: DimLike = first.shape[axis]
    shape = first.shape
    for other in types[1:]:
        if other.dtype != first.dtype:
            raise TypeProblem("E0302", f"the dtypes of the parts of `concat` differ: {first.dtype} and {other.dtype}")
        if other.rank != first.rank:
            raise TypeProblem(
                "E0404",
                f"the ranks of the parts of `concat` differ: {shape_text(first.shape)} and {shape_text(other.shape)}",
            )
        what = f"sizes of the parts of `concat` beside axis {axis}"
        rest = emit.with_unit_axes(other.shape, (axis,))
        shape = context.same_shape(emit.with_unit_axes(shape, (axis,)), rest, what)
        total = total + other.shape[axis]
    return first.with_shape((*shape[:axis], total, *shape[axis + 1 :]))


def _vjp_concat(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, ...]:
    axis, start = node.attrs["axis"], 0
    parts = []
    for x in primals:
        stop = start + x.shape[axis]
        parts.append(emit.slice_axis(b, ct, axis, start, stop))
        start = stop
    return tuple(parts)


CONCAT = register(
    Op(
        "concat",
        "Tensors joined along an axis.",
        _infer_concat,
        lambda *xs, axis: np.concatenate(xs, axis),
        jvp_linear,
        _vjp_concat,
        batch_axis,
        Concat(),
        lambda rng: [
            Sample((rng.normal(size=(2,)), rng.normal(size=(3,))), {"axis": 0}),
            Sample(tuple(rng.normal(size=(2, n)) for n in (1, 3, 2)), {"axis": 1}),
        ],
    )
)
