"""Kernels of matrix products: operands as strided matrices where their layout allows, and what is fused behind the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from rlxlang.ir import Node
from rlxlang.kernels import (
    Accumulator,
    AxisValue,
    Contract,
    Expr,
    Gathered,
    Index,
    Load,
    Nest,
    Operand,
    Pass,
    Step,
    Store,
    walk,
)
from rlxlang.lower.coords import Coord, axis_coord, flat, identity
from rlxlang.lower.fuse import Group
from rlxlang.lower.memory import Buffers
from rlxlang.lower.nests import vector_axis
from rlxlang.lower.rewrite import rewrite
from rlxlang.lower.roles import Role, compute_dtype, role_of, step_inward
from rlxlang.lower.values import Values, converted
from rlxlang.types import I64, DimLike, DType, Shape, product


@dataclass(frozen=True, slots=True)
class _Strided:
    """An operand found in memory: a buffer, the position of its first element, and one stride per axis of the operand."""

    buffer: int
    offset: DimLike
    strides: tuple[DimLike, ...]


class GroupContract:
    """Turns one group with a matrix product into kernels.

    Args:
        group: The group; `group.contraction` is the product, the other members are its epilogue.
        buffers: Buffers of the program.
        place: The buffer of a value that other kernels or the caller read.
        stored: Members that need their buffer filled.
        name: Name of the kernel.
    """

    def __init__(
        self, group: Group, buffers: Buffers, place: Callable[[Node], int], stored: Set[Node], name: str
    ) -> None:
        assert group.contraction is not None
        self.group, self.buffers, self.place, self.name = group, buffers, place, name
        self.node = group.contraction
        self.stored = [n for n in group.members if n in stored]
        (left_batch, right_batch), (left_sum, right_sum) = self.node.attrs["batch"], self.node.attrs["contract"]
        self.left_groups = _axis_groups(self.node.inputs[0], left_batch, left_sum)
        self.right_groups = _axis_groups(self.node.inputs[1], right_batch, right_sum)
        self.dtype: DType = compute_dtype(self.node.dtype)

    def steps(self) -> list[Step]:
        """The kernels, in order."""
        before: list[Step] = []
        left = self._operand(self.node.inputs[0], self.left_groups, ("batch", "free", "sum"), before, "left")
        right = self._operand(self.node.inputs[1], self.right_groups, ("batch", "sum", "free"), before, "right")
        shape = self.node.shape
        batches = len(self.left_groups["batch"])
        frees = len(self.left_groups["free"])
        m = product(shape[batches : batches + frees])
        n = product(shape[batches + frees :])
        k = product(self.node.inputs[0].shape[a] for a in self.left_groups["sum"])
        half = self.node.dtype != self.dtype
        epilogue_nodes = [x for x in self.stored if x is not self.node]
        plain = self.node in self.stored and not half
        target = self.place(self.node) if plain else self.buffers.new("temp", self.dtype, shape)
        ops = tuple(x.op.name for x in sorted(self.group.members, key=lambda x: x.serial))
        kernel = Contract(self.name, shape[:batches], m, n, k, left, right, target, self.dtype, (), True, ops)
        wanted = epilogue_nodes + ([self.node] if half and self.node in self.stored else [])
        if not wanted:
            return [*before, kernel]
        stores = self._epilogue(wanted, Accumulator(self.dtype))
        merged = _merge_axes(stores, shape, batches, frees)
        if merged is not None:
            return [*before, replace(kernel, epilogue=merged, keeps_target=plain)]
        return [*before, kernel, self._separate(wanted, target)]

    def _epilogue(self, wanted: Sequence[Node], value: Expr) -> tuple[Store, ...]:
        shape = self.group.shape
        coords = identity(shape)
        members = {
            x: tuple(Coord() if a is None else coords[a] for a in axes) for x, axes in self.group.members.items()
        }
        values = Values(self.buffers, self.place, shape, members)
        values.known[self.node] = value
        return tuple(
            Store(self.place(x), values.index(members[x], x.shape), converted(values.member(x), x.dtype))
            for x in wanted
        )

    def _separate(self, wanted: Sequence[Node], target: int) -> Nest:
        shape = self.group.shape
        values = Values(self.buffers, self.place, shape)
        stores = self._epilogue(wanted, values.load(target, identity(shape), shape, self.dtype))
        nest = Nest(f"{self.name}_after", shape, (), (Pass((), stores),), (), -1, tuple(x.op.name for x in wanted))
        return replace(nest, vector_axis=vector_axis(nest))

    # ------------------------------------------------------------------ operands
    def _operand(
        self, node: Node, groups: dict[str, list[int]], order: Sequence[str], before: list[Step], side: str
    ) -> Operand:
        found = self._in_memory(node)
        if found is not None and node.dtype == self.dtype:
            operand = _matrix(found, node.shape, groups, order)
            if operand is not None:
                return operand
        axes = [a for part in order for a in groups[part]]
        shape = tuple(node.shape[a] for a in axes)
        buffer = self.buffers.new("temp", self.dtype, shape)
        coords: list[Coord] = [Coord()] * len(axes)
        for position, axis in enumerate(axes):
            coords[axis] = axis_coord(position, node.shape[axis])
        values = Values(self.buffers, self.place, shape)
        store = Store(
            buffer, values.index(identity(shape), shape), converted(values.read(node, tuple(coords)), self.dtype)
        )
        nest = Nest(f"{self.name}_{side}", shape, (), (Pass((), (store,)),), (), -1, ("copy",))
        before.append(replace(nest, vector_axis=vector_axis(nest)))
        strides = [0] * len(axes)
        step: DimLike = 1
        packed: list[DimLike] = list(strides)
        for position in range(len(axes) - 1, -1, -1):
            packed[axes[position]] = step
            step = step * shape[position]
        operand = _matrix(_Strided(buffer, 0, tuple(packed)), node.shape, groups, order, forward=True)
        assert operand is not None, "a packed operand is a matrix"
        return operand

    def _in_memory(self, node: Node) -> _Strided | None:
        """Where an operand lies in memory, if index maps lead affinely to a buffer."""
        coords = identity(node.shape)
        rank = len(coords)
        while role_of(node) is Role.INLINE:
            inner = step_inward(node, coords)
            if inner is None:
                return None
            node, coords = inner
        position = flat(coords, node.shape)
        if position.terms:
            return None
        strides: list[DimLike] = [0] * rank
        for axis, scale in position.axes:
            strides[axis] = scale
        return _Strided(self.place(node), position.offset, tuple(strides))


def _axis_groups(node: Node, batch: Sequence[int], summed: Sequence[int]) -> dict[str, list[int]]:
    free = [a for a in range(node.tensor.rank) if a not in batch and a not in summed]
    return {"batch": list(batch), "free": free, "sum": list(summed)}


def _merged(axes: Sequence[int], strides: Sequence[DimLike], shape: Shape) -> DimLike | None:
    """The stride of several axes walked as one, 0 for none; None when they do not compose."""
    real = [a for a in axes if shape[a] != 1]
    if not real:
        return 0
    for outer, inner in pairwise(real):
        if strides[outer] != strides[inner] * shape[inner]:
            return None
    return strides[real[-1]]


def _matrix(
    found: _Strided, shape: Shape, groups: dict[str, list[int]], order: Sequence[str], *, forward: bool = False
) -> Operand | None:
    """The operand as rows and columns, or None; `forward` promises that no stride is negative, whatever the sizes."""
    first = _merged(groups[order[1]], found.strides, shape)
    second = _merged(groups[order[2]], found.strides, shape)
    if first is None or second is None:
        return None
    rows = product(shape[a] for a in groups[order[1]])
    columns = product(shape[a] for a in groups[order[2]])
    if first != 1 and second != 1:
        if columns == 1:
            second = 1
        elif rows == 1:
            first = 1
        else:
            return None
    if not forward and any(_negative(s) for s in (first, second)):
        return None
    batch = tuple(0 if shape[a] == 1 else found.strides[a] for a in groups["batch"])
    return Operand(found.buffer, found.offset, batch, first, second)


def _negative(stride: DimLike) -> bool:
    return (isinstance(stride, int) and stride < 0) or (
        not isinstance(stride, int) and any(c < 0 for _, c in stride.terms)
    )


# ------------------------------------------------------------------ epilogues over merged axes
def _merge_axes(stores: Sequence[Store], shape: Shape, batches: int, frees: int) -> tuple[Store, ...] | None:
    """The stores over the axes (*batch, m, n) instead of all axes of the result; None when an access does not merge."""
    parts = [range(batches, batches + frees), range(batches + frees, len(shape))]
    if all(len(p) == 1 for p in parts):
        return tuple(stores)

    def index(old: Index) -> Index | None:
        strides = list(old.strides[:batches])
        for part in parts:
            merged = _merged(list(part), old.strides, shape)
            if merged is None:
                return None
            strides.append(merged)
        return Index(old.offset, tuple(strides), old.gathered)

    for expr in walk(*(s.value for s in stores), *(g.value for s in stores for g in s.index.gathered)):
        if isinstance(expr, AxisValue) and not _keeps_axis(expr.axis, parts, batches):
            return None
        if isinstance(expr, Load) and index(expr.index) is None:
            return None
    memo: dict[int, Expr] = {}

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, AxisValue):
            return AxisValue(_moved_axis(expr.axis, parts, batches), I64)
        if isinstance(expr, Load):
            moved = index(expr.index)
            assert moved is not None
            gathered = tuple(Gathered(memo[id(g.value)], g.size, g.stride) for g in moved.gathered)
            where = None if expr.where is None else memo[id(expr.where)]
            return replace(expr, index=Index(moved.offset, moved.strides, gathered), where=where)
        return None

    result = []
    for store in stores:
        moved = index(store.index)
        if moved is None:
            return None
        result.append(Store(store.buffer, moved, rewrite(store.value, change, memo), store.mode))
    return tuple(result)


def _keeps_axis(axis: int, parts: Sequence[range], batches: int) -> bool:
    return axis < batches or any(axis in p and len(p) == 1 for p in parts)


def _moved_axis(axis: int, parts: Sequence[range], batches: int) -> int:
    return axis if axis < batches else batches + next(k for k, p in enumerate(parts) if axis in p)
