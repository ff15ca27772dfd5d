"""Expressions for node values: what a kernel computes or loads at a point of its domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlxlang.diagnostics import RlxBackendError
from rlxlang.ir import Node
from rlxlang.kernels import Apply, Const, Expr, Index, Load
from rlxlang.lower.coords import Coord, coord_value, flat, gathered, size_expr
from rlxlang.lower.memory import Buffers
from rlxlang.lower.roles import Role, compute_dtype, data_coords, index_operands, role_of, step_inward
from rlxlang.ops import lowering as how
from rlxlang.types import C64, I64, DType, Shape


def scalar_constant(node: Node, dtype: DType) -> Const:
    """The number of a scalar constant node, as a value of `dtype`."""
    return Const(node.attrs["data"].array.astype(compute_dtype(node.dtype).numpy).item(), dtype)


def converted(value: Expr, dtype: DType) -> Expr:
    """The value cast to another dtype, if it has not that already."""
    return value if value.dtype == dtype else Apply("cast", (value,), dtype)


class Values:
    """Builds the expressions of one kernel.

    Args:
        buffers: Buffers of the program.
        place: The buffer of every value that has one.
        extents: Extents of the domain's axes.
        members: Nodes computed in this kernel, with the coordinates (over the domain) of their own axes.
        guard: Where false nothing may be read, or None.
    """

    def __init__(
        self,
        buffers: Buffers,
        place: Callable[[Node], int],
        extents: Sequence[Any],
        members: Mapping[Node, tuple[Coord, ...]] | None = None,
        guard: Expr | None = None,
    ) -> None:
        self.buffers, self.place, self.extents, self.guard = buffers, place, tuple(extents), guard
        self.members = members or {}
        self.known: dict[Node, Expr] = {}  # reductions, the accumulator, values kept in a private buffer
        self._memo: dict[tuple[Node, tuple[Coord, ...]], Expr] = {}

    def index(self, coords: Sequence[Coord], shape: Shape) -> Index:
        """The index of an element of a contiguous buffer of that shape."""
        position = flat(coords, shape)
        strides: list[Any] = [0] * len(self.extents)
        for axis, scale in position.axes:
            strides[axis] = scale
        return Index(position.offset, tuple(strides), gathered(position))

    def member(self, node: Node) -> Expr:
        """The value of a node of this kernel at its own point, in its compute dtype."""
        todo = [node]
        while todo:
            current = todo[-1]
            if current in self.known:
                todo.pop()
                continue
            missing = [m for operand in current.inputs for m in self._members_below(operand) if m not in self.known]
            if missing:
                todo.extend(missing)
                continue
            self.known[current] = self._elementwise(current)
            todo.pop()
        return self.known[node]

    def _members_below(self, node: Node) -> list[Node]:
        """The members that an operand leads to through index maps."""
        found, todo, seen = [], [node], set()
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self.members:
                found.append(current)
            elif role_of(current) is Role.INLINE:
                todo.extend(current.inputs)
        return found

    def _elementwise(self, node: Node) -> Expr:
        record = node.op.lower
        coords = self.members[node]
        dtype = compute_dtype(node.dtype)
        args = tuple(self.read(i, coords) for i in node.inputs)
        assert isinstance(record, how.Elementwise)
        if callable(record.function):
            return record.function(args, node.attrs, dtype)
        if record.function == "cast":
            return converted(converted(args[0], node.dtype), dtype)
        return Apply(record.function, args, dtype)

    def read(self, node: Node, coords: tuple[Coord, ...]) -> Expr:
        """The value of a node at some coordinates, in its compute dtype."""
        while True:
            if node in self.members:
                return self.known[node]
            key = (node, coords)
            if key in self._memo:
                return self._memo[key]
            if role_of(node) is not Role.INLINE:
                break
            inner = step_inward(node, coords)
            if inner is None:
                break
            node, coords = inner
        value = self._memo[key] = self._fresh(node, coords)
        return value

    def _fresh(self, node: Node, coords: tuple[Coord, ...]) -> Expr:
        dtype = compute_dtype(node.dtype)
        if node.dtype == C64:
            raise RlxBackendError(
                f"`{node.op.name}` of C64 is not available in compiled kernels", code="E0702", span=node.origin.span
            )
        if role_of(node) is not Role.INLINE:
            return self.load(self.place(node), coords, node.shape, node.dtype)
        record = node.op.lower
        if isinstance(record, how.ConstantData):
            return scalar_constant(node, dtype)
        if isinstance(record, how.SizeScalar):
            return converted(size_expr(node.attrs["dim"]), dtype)
        if isinstance(record, how.Iota):
            return converted(coord_value(coords[node.attrs["axis"]]), dtype)
        if isinstance(record, (how.GatherAxis, how.TakeAlong)):
            where, _ = index_operands(node, coords)
            index = converted(self.read(node.inputs[1], where), I64)
            return self.read(node.inputs[0], data_coords(node, coords, index))
        raise AssertionError(f"`{node.op.name}` is no index map")

    def load(self, buffer: int, coords: Sequence[Coord], shape: Shape, dtype: DType) -> Expr:
        """An element of a buffer, widened from half precision."""
        value = Load(buffer, self.index(coords, shape), dtype, self.guard)
        return converted(value, compute_dtype(dtype))
