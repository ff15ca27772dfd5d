"""The arithmetic of algorithms over nodes of a graph; see `rlxlang.optim.arrays`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.ops.control_branch import cond
from rlxlang.ops.linear import upper_part
from rlxlang.optim.arrays import Branch, Value
from rlxlang.types import F32, U32


class Traced:
    """A node with the operators of an array."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder, self.node = builder, node

    @property
    def shape(self) -> tuple[int, ...]:
        """Dims; those of parameters are numbers."""
        return tuple(self.node.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements in NumPy."""
        dtype: np.dtype[Any] = self.node.dtype.numpy
        return dtype

    def apply(self, op: str, other: Value, *, swapped: bool = False) -> Traced:
        """A binary op with a node or a number, stretched to a common shape."""
        b, own = self.builder, self.node
        if isinstance(other, Traced):
            shape = np.broadcast_shapes(self.shape, other.shape)
            own, operand = emit.broadcast_to(b, own, shape), emit.broadcast_to(b, other.node, shape)
        else:
            operand = b.full_like(own, other)
        pair = (operand, own) if swapped else (own, operand)
        return Traced(b, b.emit(op, *pair))

    def unary(self, op: str) -> Traced:
        """An op of one operand."""
        return Traced(self.builder, self.builder.emit(op, self.node))

    def __add__(self, other: Value) -> Traced:
        return self.apply("add", other)

    def __radd__(self, other: Value) -> Traced:
        return self.apply("add", other, swapped=True)

    def __sub__(self, other: Value) -> Traced:
        return self.apply("sub", other)

    def __rsub__(self, other: Value) -> Traced:
        return self.apply("sub", other, swapped=True)

    def __mul__(self, other: Value) -> Traced:
        return self.apply("mul", other)

    def __rmul__(self, other: Value) -> Traced:
        return self.apply("mul", other, swapped=True)

    def __truediv__(self, other: Value) -> Traced:
        return self.apply("div", other)

    def __rtruediv__(self, other: Value) -> Traced:
        return self.apply("div", other, swapped=True)

    def __neg__(self) -> Traced:
        return self.unary("neg")


class GraphArithmetic:
    """Arithmetic of graph nodes."""

    def sqrt(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return x.unary("sqrt")

    def abs(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return x.unary("abs")

    def sign(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return x.unary("sign")

    def maximum(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return x.apply("maximum", y)

    def minimum(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return x.apply("minimum", y)

    def where_positive(self, condition: Value, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        b = x.builder
        if not isinstance(y, Traced):
            y = Traced(b, b.full_like(x.node, y))
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
        test = condition.apply("gt", 0.0).node
        parts = [emit.broadcast_to(b, n, shape) for n in (test, x.node, y.node)]
        return Traced(b, b.emit("select", *parts))

    def sum(self, x: Value, axes: Sequence[int] | None = None) -> Value:
        """See `Arithmetic`."""
        b, rank = x.builder, len(x.shape)
        over = range(rank) if axes is None else [a % rank for a in axes]
        total = emit.reduce_sum(b, x.node, over)
        if axes is not None:
            total = emit.reshape(b, total, emit.with_unit_axes(x.shape, over))
        return Traced(b, total)

    def max(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, emit.reduce_max(x.builder, x.node, range(len(x.shape))))

    def like(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, emit.cast(x.builder, x.node, y.node.dtype))

    def nonfinite(self, x: Value) -> Value:
        """See `Arithmetic`."""
        b, wrong = x.builder, emit.cast(x.builder, x.builder.emit("bit_not", x.builder.emit("isfinite", x.node)), F32)
        return Traced(b, emit.reduce_sum(b, wrong, range(len(x.shape))))

    def matmul(self, x: Value, y: Value) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, emit.dot(x.builder, x.node, y.node, ((1,), (0,))))

    def transpose(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, emit.transpose(x.builder, x.node, (1, 0)))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """See `Arithmetic`."""
        if -1 in shape:
            known = -math.prod(shape)
            shape = tuple(math.prod(x.shape) // known if d == -1 else d for d in shape)
        return Traced(x.builder, emit.reshape(x.builder, x.node, shape))

    def upper(self, x: Value) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, upper_part(x.builder, x.node))

    def solve_transposed(self, factor: Value, x: Value) -> Value:
        """See `Arithmetic`."""
        options = {"lower": False, "transpose": True, "unit_diagonal": False}
        return Traced(x.builder, x.builder.emit("triangular_solve", factor.node, x.node, **options))

    def orthonormal(self, x: Value) -> Value:
        """See `Arithmetic`."""
        b, found = x.builder, x.builder.emit("qr", x.node)
        q, r = (Traced(b, b.emit("item", found, index=k)) for k in range(2))
        size = r.shape[0]
        unit = Traced(b, b.constant(np.eye(size, dtype=r.node.dtype.numpy)))
        diagonal = self.reshape(self.sum(r * unit, (1,)), (size,))
        ones = Traced(b, b.full_like(diagonal.node, 1))
        return q * self.where_positive(-diagonal, -ones, ones)

    def eigenvectors(self, x: Value) -> Value:
        """See `Arithmetic`."""
        b = x.builder
        vectors = b.emit("item", b.emit("eigh", x.node), index=1)
        return Traced(b, b.emit("flip", vectors, axes=(1,)))

    def descending(self, x: Value) -> Value:
        """See `Arithmetic`."""
        b, row = x.builder, emit.reshape(x.builder, x.node, (1, *x.shape))
        order = b.emit("item", b.emit("sort", row, count=x.shape[0], descending=True), index=1)
        return Traced(b, emit.reshape(b, order, x.shape))

    def greatest(self, x: Value) -> Value:
        """See `Arithmetic`."""
        place = x.builder.emit("argmax", x.node, axis=0)
        return Traced(x.builder, emit.reshape(x.builder, place, (1,)))

    def take(self, x: Value, positions: Value, axis: int) -> Value:
        """See `Arithmetic`."""
        return Traced(x.builder, emit.take(x.builder, x.node, positions.node, axis))

    def signs(self, like: Value, key: Sequence[Value], salt: int) -> Value:
        """See `Arithmetic`."""
        b, shape = like.builder, like.shape
        halves = [emit.cast(b, part.node, U32) for part in key]
        moved = [b.emit("shift_left", h, b.full_like(h, 16)) for h in halves[1::2]]
        words = [b.emit("bit_or", low, high) for low, high in zip(halves[::2], moved, strict=True)]
        places = emit.reshape(b, emit.iota(b, (math.prod(shape),), 0, U32), shape)
        keys = [emit.broadcast_to(b, w, shape) for w in words]
        word = b.emit("random_bits", *keys, places, b.full_like(places, salt), word=0)
        odd = emit.compare(b, "ne", b.emit("bit_and", word, b.full_like(word, 1)), 0)
        return Traced(b, emit.select(b, odd, b.full_like(like.node, -1), b.full_like(like.node, 1)))

    def choose(self, flag: Value, then: Branch, orelse: Branch, values: Sequence[Value]) -> tuple[Value, ...]:
        """See `Arithmetic`."""
        b = flag.builder
        graphs = [_branch(name, function, values) for name, function in (("then", then), ("else", orelse))]
        found = cond(b, flag.apply("gt", 0.0).node, graphs[0], graphs[1], [v.node for v in values])
        return tuple(Traced(b, node) for node in found)


def _branch(name: str, function: Branch, values: Sequence[Value]) -> Graph:
    """A branch of a choice as a graph of its values."""
    b = Builder()
    inputs = [b.input(f"v{k}", v.node.dtype, v.node.shape) for k, v in enumerate(values)]
    results = function(*(Traced(b, node) for node in inputs))
    return b.finish(name, map(declare, inputs), [GraphOutput(f"r{k}", r.node) for k, r in enumerate(results)])


GRAPH = GraphArithmetic()
