"""Sorting along the last axis: the op that gives the first entries of the order and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.kernels import first_sorted
from rlxlang.ops.indexing import scatter_along_axis
from rlxlang.ops.lowering import SortRows
from rlxlang.ops.rules import require_kinds, to_front
from rlxlang.types import I32, I64, DimLike, ShapeContext, TensorType, TupleType, TypeProblem

Array = np.ndarray[Any, Any]


def _infer(context: ShapeContext, x: TensorType, *, count: DimLike, descending: bool) -> TupleType:
    require_kinds("sort", x.dtype, ("float", "int", "uint", "bool"))
    if x.rank == 0:
        raise TypeProblem("E0404", f"`sort` takes a tensor with an axis, and {x} is given")
    length = x.shape[-1]
    context.at_most(count, length, "the number of sorted entries and the size of the axis")
    shape = (*x.shape[:-1], count)
    wide = isinstance(length, int) and length > I32.integer_range[1] + 1
    return TupleType((x.with_shape(shape), TensorType(I64 if wide else I32, shape)))


def _positions(b: Builder, node: Node) -> Node:
    return b.emit("item", node, index=1)


def _jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node]) -> tuple[Node, None]:
    return b.emit("take_along_axis", tangents[0], _positions(b, node), axis=len(tangents[0].shape) - 1), None


def _vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> tuple[Node | None]:
    (x,), given = primals, cotangents[0]
    if given is None:
        return (None,)
    return (scatter_along_axis(b, b.zeros_like(x), _positions(b, node), given, len(x.shape) - 1),)


def _batch(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> tuple[Node, tuple[int, int]]:
    return b.emit(node.op, to_front(b, args[0], axes[0], size), **node.attrs), (0, 0)


def _samples(rng: np.random.Generator) -> list[Sample]:
    special = np.array([np.inf, 0.0, np.nan, -0.0, 2.0, -np.inf, np.nan, 2.0, 0.0, -1.0])
    cases: list[tuple[Array, int, bool, bool]] = [
        (rng.normal(size=(3, 7)), 7, False, True),
        (rng.normal(size=(2, 2, 9)), 3, True, True),
        (rng.normal(size=(70,)), 70, False, True),
        (rng.normal(size=(2, 60)), 5, True, True),
        (rng.normal(size=(1,)), 1, True, True),
        (rng.normal(size=(3, 4)), 0, True, True),
        (rng.normal(size=(0, 4)), 2, False, True),
        (np.zeros((3, 0)), 0, False, True),
        (special, 10, False, False),
        (special, 10, True, False),
        (np.tile(special, 12)[None], 120, True, False),
        (rng.integers(-3, 3, (2, 90)).astype(np.float64), 90, False, False),
        (rng.integers(-128, 128, (2, 300)).astype(np.int8), 300, False, False),
        (rng.integers(0, 2**64, (3, 80), np.uint64), 80, True, False),
        (rng.integers(-(2**63), 2**63, (3, 80), np.int64), 9, False, False),
        (np.array([[True, False, True], [False, False, True]]), 3, True, False),
    ]
    return [Sample((x,), {"count": count, "descending": down}, smooth) for x, count, down, smooth in cases]


SORT = register(
    Op(
        "sort",
        "The first entries of the sorted last axis and their positions: stable, NaN last (descending: first).",
        _infer,
        lambda x, *, count, descending: tuple(
            r.astype(np.int32) if k else r for k, r in enumerate(first_sorted(x, count, descending))
        ),
        _jvp,
        _vjp,
        _batch,
        SortRows(),
        _samples,
    )
)
