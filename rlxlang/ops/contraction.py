"""Batched matrix products over any axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import Contraction
from rlxlang.ops.movement import inverse_perm
from rlxlang.ops.rules import Batched, jvp_multilinear, require_axis
from rlxlang.types import DimLike, ShapeContext, TensorType, TypeProblem, from_numpy, sum_dtype

AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]


def free_axes(rank: int, *used: Sequence[int]) -> tuple[int, ...]:
    """The axes that are not used."""
    gone = {k for axes in used for k in axes}
    return tuple(k for k in range(rank) if k not in gone)


def _infer(context: ShapeContext, x: TensorType, y: TensorType, *, batch: AxisPairs, contract: AxisPairs) -> TensorType:
    if x.dtype != y.dtype:
        raise TypeProblem("E0302", f"the dtypes of the operands of a product differ: {x.dtype} and {y.dtype}")
    for which, operand in enumerate((x, y)):
        used = (*batch[which], *contract[which])
        for axis in used:
            require_axis("dot_general", axis, operand.rank)
        if len(set(used)) != len(used):
            raise TypeProblem("E0403", f"`dot_general` uses an axis of its operand {which + 1} twice")
    for p, q in zip(*contract, strict=True):
        context.same(x.shape[p], y.shape[q], "the inner sizes of the product", "E0402")
    shared = tuple(
        context.same(x.shape[p], y.shape[q], "the batch sizes of the product") for p, q in zip(*batch, strict=True)
    )
    left = tuple(x.shape[k] for k in free_axes(x.rank, batch[0], contract[0]))
    right = tuple(y.shape[k] for k in free_axes(y.rank, batch[1], contract[1]))
    return TensorType(sum_dtype(x.dtype), (*shared, *left, *right))


def _reference(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], *, batch: AxisPairs, contract: AxisPairs) -> Any:
    own = from_numpy(x.dtype)
    assert own is not None
    wide = sum_dtype(own).numpy
    left = free_axes(x.ndim, batch[0], contract[0])
    right = free_axes(y.ndim, batch[1], contract[1])
    shared = [x.shape[k] for k in batch[0]]
    rows, columns = [x.shape[k] for k in left], [y.shape[k] for k in right]
    inner = int(np.prod([x.shape[k] for k in contract[0]], dtype=np.int64))
    count = [int(np.prod(s, dtype=np.int64)) for s in (shared, rows, columns)]
    a = x.astype(wide).transpose(*batch[0], *left, *contract[0]).reshape(count[0], count[1], inner)
    c = y.astype(wide).transpose(*batch[1], *contract[1], *right).reshape(count[0], inner, count[2])
    return np.matmul(a, c).reshape((*shared, *rows, *columns))


def _vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
    x, y = primals
    (xb, yb), (xc, yc) = node.attrs["batch"], node.attrs["contract"]
    xf, yf = free_axes(len(x.shape), xb, xc), free_axes(len(y.shape), yb, yc)
    nb = len(xb)
    ct_batch = tuple(range(nb))
    ct_left = tuple(range(nb, nb + len(xf)))
    ct_right = tuple(range(nb + len(xf), nb + len(xf) + len(yf)))
    # The free axes of the other operand's product come in ascending order, so do those paired with them.
    dx = _cotangent(b, ct, y, (ct_right, yf), (ct_batch, yb), xb, xf, tuple(xc[k] for k in _ascending(yc)))
    dy = _cotangent(b, ct, x, (ct_left, xf), (ct_batch, xb), yb, yf, tuple(yc[k] for k in _ascending(xc)))
    return dx, dy


def _cotangent(
    b: Builder,
    ct: Node,
    other: Node,
    contract: AxisPairs,
    batch: AxisPairs,
    shared: tuple[int, ...],
    free: tuple[int, ...],
    summed: tuple[int, ...],
) -> Node:
    """The cotangent of one operand, whose axes are `shared`, `free` and `summed`; the order of factors that needs no transpose."""
    order = (*shared, *summed, *free)
    if order == tuple(range(len(order))) and free:
        return emit.dot(b, other, ct, (contract[1], contract[0]), (batch[1], batch[0]))
    product = emit.dot(b, ct, other, contract, batch)
    return emit.transpose(b, product, inverse_perm((*shared, *free, *summed)))


def _ascending(axes: Sequence[int]) -> list[int]:
    return sorted(range(len(axes)), key=lambda k: axes[k])


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(k + 1 for k in axes)


def _batch(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    (xb, yb), (xc, yc) = node.attrs["batch"], node.attrs["contract"]
    x, y = (a if k is None else emit.move_axis(b, a, k, 0) for a, k in zip(args, axes, strict=True))
    if axes[0] is not None and axes[1] is not None:
        pairs = ((0, *_shifted(xb)), (0, *_shifted(yb)))
        return emit.dot(b, x, y, (_shifted(xc), _shifted(yc)), pairs), 0
    if axes[0] is not None:  # the batch is the first free axis of the left operand
        return emit.dot(b, x, y, (_shifted(xc), yc), (_shifted(xb), yb)), len(xb)
    rank = node.inputs[0].tensor.rank
    return emit.dot(b, x, y, (xc, _shifted(yc)), (xb, _shifted(yb))), rank - len(xc)


def _samples(rng: np.random.Generator) -> list[Sample]:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], AxisPairs, AxisPairs]] = [
        ((2, 3), (3, 4), ((), ()), ((1,), (0,))),
        ((2, 3), (4, 3), ((), ()), ((1,), (1,))),
        ((5, 2, 3), (5, 3, 4), ((0,), (0,)), ((2,), (1,))),
        ((2, 3, 4), (4, 5, 3), ((), ()), ((1, 2), (2, 0))),
        ((2, 3), (2, 4), ((), ()), ((), ())),
        ((3,), (3,), ((), ()), ((0,), (0,))),
        ((2, 3, 4), (3, 4, 2), ((1,), (0,)), ((0,), (2,))),
    ]
    return [
        Sample((rng.normal(size=p), rng.normal(size=q)), {"batch": batch, "contract": contract})
        for p, q, batch, contract in cases
    ]


DOT_GENERAL = register(
    Op(
        "dot_general",
        "Product summed over pairs of axes; the result has the batch axes, then the free axes of the left and right operand.",
        _infer,
        _reference,
        jvp_multilinear,
        _vjp,
        _batch,
        Contraction(),
        _samples,
    )
)
