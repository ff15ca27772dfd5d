"""Writing to positions given by a tensor where equal positions multiply or take an extremum; see `rlxlang.ops.indexing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.indexing import Array, along_axis, batch_scatter, clamped, infer_scatter, rows_first, samples_scatter
from rlxlang.ops.lowering import ScatterAxis
from rlxlang.ops.prefix import linear_recurrence, neighbour
from rlxlang.ops.rules import require_kinds
from rlxlang.types import I32, ShapeContext, TensorType, product


def _row(name: str, doc: str, combine: Any, jvp: Any, vjp: Any) -> Op:
    def infer(context: ShapeContext, x: TensorType, *others: TensorType, axis: int) -> TensorType:
        require_kinds(name, x.dtype, ("float", "int", "uint", "bool"))
        return infer_scatter(context, x, *others, axis=axis)

    def reference(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
        data, flat, rows = rows_first(x, indices, updates, axis)
        if data.size:
            combine.at(data, flat, rows)
        return np.moveaxis(data, 0, axis)

    def samples(rng: np.random.Generator) -> list[Sample]:
        places = np.array([1, 0, 1, 1, -2], np.int32)
        x = np.array([[3.0, 0], [2, 5], [4, 6]])
        updates = np.array([[0.0, 2], [7, 7], [2, 5], [2, -1], [0, 0.5]])
        return [
            *samples_scatter(rng),
            Sample((x, places, updates), {"axis": 0}, smooth=name == "scatter_mul"),
            Sample((x.astype(np.int32), places, updates.astype(np.int32)), {"axis": 0}),
            Sample(
                (np.where(x == 4, np.nan, x), places, np.where(updates == 7, np.nan, updates)),
                {"axis": 0},
                smooth=False,
            ),
        ]

    return register(
        Op(
            name,
            doc,
            infer,
            reference,
            jvp,
            vjp,
            batch_scatter,
            ScatterAxis(name[8:]),
            samples,
            bound=along_axis,
        )
    )


def _spread(b: Builder, node: Node, value: Node) -> Node:
    """What the result has, or a tensor of its shape, at the position of every update."""
    return emit.take(b, value, node.inputs[1], node.attrs["axis"])


def _gathered(b: Builder, node: Node, updates: Node) -> Node:
    """Updates summed at their positions."""
    return emit.scatter_add(b, b.zeros_like(node), node.inputs[1], updates, node.attrs["axis"])


def _by_weights(weights: Callable[..., tuple[Node, Node]]) -> tuple[Any, Any]:
    """The rules of an op whose derivatives by the data and by every update are weights of their shapes."""

    def jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
        if tangents[0] is None and tangents[2] is None:
            return None
        of_data, of_updates = weights(b, node, *primals)
        first = None if tangents[0] is None else emit.mul(b, of_data, tangents[0])
        second = None if tangents[2] is None else _gathered(b, node, emit.mul(b, of_updates, tangents[2]))
        return emit.add_present(b, first, second)

    def vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None, Node]:
        of_data, of_updates = weights(b, node, *primals)
        return emit.mul(b, of_data, ct), None, emit.mul(b, of_updates, _spread(b, node, ct))

    return jvp, vjp


def _others_of_run(b: Builder, factors: Node, places: Node, axis: int, reverse: bool) -> Node:
    """In runs of equal places the product of the factors before each one (with `reverse` after it)."""
    at_start = b.emit("ne", places, neighbour(b, places, 0, reverse))
    first = places.shape[0] - 1 if reverse else 0
    position = emit.iota(b, places.shape, 0, I32)
    at_start = b.emit("bit_or", at_start, b.emit("eq", position, emit.number(b, first, position)))
    shape = tuple(n if k == axis else 1 for k, n in enumerate(factors.shape))
    at_start = emit.broadcast_to(b, emit.reshape(b, at_start, shape), factors.shape)
    step = emit.drop(b, at_start, neighbour(b, factors, axis, reverse))
    return linear_recurrence(b, step, emit.cast(b, at_start, factors.dtype), axis, reverse)


def _product_weights(b: Builder, node: Node, x: Node, indices: Node, updates: Node) -> tuple[Node, Node]:
    """The product of all other factors without division, so exact at zeros: those before and after it among updates in order of place."""
    axis = node.attrs["axis"]
    count = product(indices.shape)
    of_data = b.emit("scatter_mul", b.full_like(x, 1), indices, updates, axis=axis)
    places = emit.reshape(b, clamped(b, indices, x.shape[axis]), (count,))
    places, order = (b.emit("item", b.emit("sort", places, count=count, descending=False), index=k) for k in (0, 1))
    back = b.emit("item", b.emit("sort", order, count=count, descending=False), index=1)
    flat = emit.reshape(b, updates, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    factors = emit.take(b, flat, order, axis)
    before, after = (_others_of_run(b, factors, places, axis, reverse) for reverse in (False, True))
    others = emit.reshape(b, emit.take(b, emit.mul(b, before, after), back, axis), updates.shape)
    return of_data, emit.mul(b, others, _spread(b, node, x))


def _extremum_weights(b: Builder, node: Node, x: Node, indices: Node, updates: Node) -> tuple[Node, Node]:
    """Equal shares for all that are the extremum of their place."""
    at_data = emit.cast(b, b.emit("eq", x, node), x.dtype)
    at_updates = emit.cast(b, b.emit("eq", updates, _spread(b, node, node)), x.dtype)
    count = emit.add(b, at_data, _gathered(b, node, at_updates))
    share = emit.div(b, b.full_like(count, 1), b.emit("maximum", count, b.full_like(count, 1)))
    return emit.mul(b, at_data, share), emit.mul(b, at_updates, _spread(b, node, share))


SCATTER_MUL = _row(
    "scatter_mul",
    "Data with entries along an axis multiplied by updates; derivatives are exact at zeros.",
    np.multiply,
    *_by_weights(_product_weights),
)
SCATTER_MIN = _row(
    "scatter_min",
    "Data with entries along an axis replaced by smaller updates; NaN wins, ties share the gradient.",
    np.minimum,
    *_by_weights(_extremum_weights),
)
SCATTER_MAX = _row(
    "scatter_max",
    "Data with entries along an axis replaced by larger updates; NaN wins, ties share the gradient.",
    np.maximum,
    *_by_weights(_extremum_weights),
)
