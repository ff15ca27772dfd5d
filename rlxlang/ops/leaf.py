"""Ops without operands: inputs, constants, positions, sizes; and the selection of one of several results."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import ZERO, Builder, Constant, Node, Op, Sample, register
from rlxlang.ops.lowering import ConstantData, InputData, Iota, Item, SizeScalar
from rlxlang.ops.rules import batch_leaf, require_axis
from rlxlang.types import DimLike, DType, Shape, ShapeContext, TensorType, TupleType, TypeProblem, from_numpy


def _no_samples(rng: np.random.Generator) -> list[Sample]:
    return []


def _infer_input(context: ShapeContext, **_: Any) -> TensorType:
    raise TypeProblem("E0300", "inputs are made by `Builder.input`")


def _reference_input(*, name: str, kind: str) -> Any:
    raise KeyError(f"no array is given for the input `{name}`")


INPUT = register(
    Op(
        "input",
        "A named input or parameter of the graph.",
        _infer_input,
        _reference_input,
        ZERO,
        ZERO,
        batch_leaf,
        InputData(),
        _no_samples,
    )
)


def _infer_constant(context: ShapeContext, *, data: Constant) -> TensorType:
    dtype = from_numpy(data.array.dtype)
    if dtype is None:
        raise TypeProblem("E0301", f"arrays of dtype {data.array.dtype} cannot be constants")
    return TensorType(dtype, data.array.shape)


CONSTANT = register(
    Op(
        "constant",
        "Known data.",
        _infer_constant,
        lambda *, data: data.array,
        ZERO,
        ZERO,
        batch_leaf,
        ConstantData(),
        lambda rng: [
            Sample((), {"data": Constant(rng.normal(size=(2, 3)))}),
            Sample((), {"data": Constant(np.array(2.5))}),
        ],
    )
)


def _infer_iota(context: ShapeContext, *, shape: Shape, axis: int, dtype: DType) -> TensorType:
    require_axis("iota", axis, len(shape))
    return TensorType(dtype, tuple(shape))


def _reference_iota(*, shape: tuple[int, ...], axis: int, dtype: DType) -> np.ndarray[Any, Any]:
    line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return np.broadcast_to(line, shape).astype(dtype.numpy)


IOTA = register(
    Op(
        "iota",
        "The position along an axis, at every place.",
        _infer_iota,
        _reference_iota,
        ZERO,
        ZERO,
        batch_leaf,
        Iota(),
        lambda rng: [
            Sample((), {"shape": (3, 4), "axis": 1, "dtype": from_numpy(np.dtype("int32"))}),
            Sample((), {"shape": (3, 4), "axis": 0, "dtype": from_numpy(np.dtype("float32"))}),
        ],
    )
)

DIM_SIZE = register(
    Op(
        "dim_size",
        "The value of a size as a scalar.",
        lambda context, *, dim, dtype: TensorType(dtype, ()),
        lambda *, dim, dtype: np.asarray(dim).astype(dtype.numpy),
        ZERO,
        ZERO,
        batch_leaf,
        SizeScalar(),
        lambda rng: [Sample((), {"dim": 7, "dtype": from_numpy(np.dtype(n))}) for n in ("int32", "float32")],
    )
)


def _infer_item(context: ShapeContext, source: TupleType, *, index: int) -> TensorType:
    return source.items[index]


def _jvp_item(b: Builder, node: Node, primals: Any, tangents: Any) -> Node | None:
    parts = tangents[0]
    return None if parts is None else parts[node.attrs["index"]]


def _vjp_item(b: Builder, node: Node, primals: Any, ct: Node) -> tuple[Any, ...]:
    source = primals[0].type
    return (tuple(ct if k == node.attrs["index"] else None for k in range(len(source.items))),)


def _batch_item(b: Builder, node: Node, args: Any, axes: Any, size: DimLike) -> tuple[Node, int | None]:
    index = node.attrs["index"]
    axis = axes[0]
    return b.emit("item", args[0], index=index), axis[index] if isinstance(axis, tuple) else axis


ITEM = register(
    Op(
        "item",
        "One result of a node with several.",
        _infer_item,
        lambda source, *, index: source[index],
        _jvp_item,
        _vjp_item,
        _batch_item,
        Item(),
        _no_samples,
    )
)
