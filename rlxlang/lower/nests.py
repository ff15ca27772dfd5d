"""Kernels of groups without a matrix product: maps, reductions of rows and columns, and whole tensors in two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from rlxlang.ir import Node
from rlxlang.kernels import (
    Apply,
    AxisValue,
    Const,
    Expr,
    Index,
    Load,
    Nest,
    Pass,
    Reduce,
    Reduced,
    Step,
    Store,
    roots,
    walk,
)
from rlxlang.lower.coords import Coord, axis_coord, coord_value, size_expr
from rlxlang.lower.fuse import Group
from rlxlang.lower.memory import Buffers
from rlxlang.lower.rewrite import rewrite, rewrite_store
from rlxlang.lower.roles import Role, compute_dtype, role_of
from rlxlang.lower.values import Values, converted
from rlxlang.ops import lowering as how
from rlxlang.types import BOOL, DimLike, DType, ceil_div, product

BLOCK = 4096  # elements summed by one partial sum of a long reduction
SHORT = 16384  # a static reduction up to this length is not split
NARROW = 16  # fewer outer points than this leave threads idle: split the reduction

_EXPENSIVE = frozenset(
    (
        *(
            "exp",
            "exp2",
            "expm1",
            "log",
            "log1p",
            "log2",
            "log10",
            "pow",
            "erf",
            "erfc",
            "sigmoid",
            "softplus",
            "log_sigmoid",
        ),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    )
)


class GroupNest:
    """Turns one group into one nest, or into two where a long reduction is split.

    Args:
        group: The group; no contraction.
        buffers: Buffers of the program.
        place: The buffer of a value that other kernels or the caller read.
        stored: Members that need their buffer filled.
        name: Name of the kernel.
    """

    def __init__(
        self, group: Group, buffers: Buffers, place: Callable[[Node], int], stored: Set[Node], name: str
    ) -> None:
        self.group, self.buffers, self.place, self.name = group, buffers, place, name
        self.stored = [n for n in group.members if n in stored]
        self.reductions = [n for n in group.members if isinstance(n.op.lower, how.Reduction)]
        inner = group.reduced or ()
        self.inner_axes = [k for k in range(len(group.shape)) if k in inner]
        self.outer_axes = [k for k in range(len(group.shape)) if k not in inner]
        self.ops = tuple(n.op.name for n in sorted(group.members, key=lambda n: n.serial))

    def steps(self) -> list[Step]:
        """The kernels, in order."""
        if self._splits():
            return self._split()
        return [self._single()]

    # ------------------------------------------------------------------ one nest
    def _single(self) -> Nest:
        shape = self.group.shape
        order = [*self.outer_axes, *self.inner_axes]
        coords = {k: axis_coord(order.index(k), shape[k]) for k in range(len(shape))}
        values = self._values([shape[k] for k in order], coords)
        names = {n: f"r{k}" for k, n in enumerate(self.reductions)}
        for node, name in names.items():
            values.known[node] = Reduced(name, _reduced_dtype(node))
        full = tuple(coords[k] for k in range(len(shape)))
        reduces = {names[n]: self._reduce(n, names[n], values, full) for n in self.reductions}
        stores = [self._store(n, values, coords) for n in self.stored if n not in self.group.outer]
        finals = tuple(self._store(n, values, coords) for n in self.stored if n in self.group.outer)
        passes = _schedule(reduces, stores)
        nest = Nest(
            self.name,
            tuple(shape[k] for k in self.outer_axes),
            tuple(shape[k] for k in self.inner_axes),
            passes or (Pass(),),
            finals,
            -1,
            self.ops,
        )
        nest = replace(nest, vector_axis=vector_axis(nest))
        return self._keep_expensive(nest)

    def _values(self, extents: Sequence[DimLike], coords: dict[int, Coord], guard: Expr | None = None) -> Values:
        members = {
            n: tuple(Coord() if a is None else coords[a] for a in axes) for n, axes in self.group.members.items()
        }
        return Values(self.buffers, self.place, extents, members, guard)

    def _reduce(self, node: Node, name: str, values: Values, full: tuple[Coord, ...]) -> Reduce:
        operand = node.inputs[0]
        for member in values._members_below(operand):
            values.member(member)
        value = values.read(operand, full)
        op = node.op.lower.op
        dtype = _reduced_dtype(node)
        if op not in ("argmax", "argmin"):
            value = converted(value, dtype)
        return Reduce(name, op, value, dtype)

    def _store(self, node: Node, values: Values, coords: dict[int, Coord]) -> Store:
        target = self.place(node)
        where = tuple(Coord() if a is None else coords[a] for a in self.group.members[node])
        return Store(target, values.index(where, node.shape), converted(values.member(node), node.dtype))

    def _keep_expensive(self, nest: Nest) -> Nest:
        """Compute costly functions that two passes need once, and keep them in a private row."""
        if len(nest.passes) < 2 or nest.vector_axis < len(nest.outer) or not nest.inner:
            return nest
        inner = len(nest.inner)
        first: dict[int, tuple[int, Expr]] = {}
        wanted: dict[int, Expr] = {}
        for k, one in enumerate(nest.passes):
            found = walk(*(e for r in one.reduces for e in r.exprs), *(s.value for s in one.stores))
            for expr in found:
                if isinstance(expr, Apply) and expr.function in _EXPENSIVE and _is_inner(expr, len(nest.outer)):
                    if id(expr) not in first:
                        first[id(expr)] = (k, expr)
                    elif first[id(expr)][0] < k:
                        wanted[id(expr)] = expr
        if not wanted:
            return nest
        strides: list[DimLike] = [0] * len(nest.outer)
        step: DimLike = 1
        tail: list[DimLike] = []
        for dim in reversed(nest.inner):
            tail.insert(0, step)
            step = step * dim
        index = Index(0, tuple(strides + tail))
        assert len(tail) == inner
        kept = {
            key: (first[key][0], self.buffers.new("private", expr.dtype, (product(nest.inner),)))
            for key, expr in wanted.items()
        }
        loads = {key: Load(buffer, index, wanted[key].dtype) for key, (_, buffer) in kept.items()}
        passes = []
        for k, one in enumerate(nest.passes):
            memo: dict[int, Expr] = {}

            def change(expr: Expr, k: int = k) -> Expr | None:
                entry = kept.get(id(expr))
                return loads[id(expr)] if entry is not None and entry[0] < k else None

            reduces = tuple(
                replace(
                    r,
                    value=rewrite(r.value, change, memo),
                    factor=None if r.factor is None else rewrite(r.factor, change, memo),
                )
                for r in one.reduces
            )
            stores = [rewrite_store(s, change, memo) for s in one.stores]
            stores += [Store(b, index, wanted[key]) for key, (p, b) in kept.items() if p == k]
            passes.append(Pass(reduces, tuple(stores)))
        return replace(nest, passes=tuple(passes))

    # ------------------------------------------------------------------ a long reduction in two steps
    def _splits(self) -> bool:
        if not self.reductions or any(n.op.lower.op in ("argmax", "argmin") for n in self.reductions):
            return False
        outer = product(self.group.shape[k] for k in self.outer_axes)
        inner = product(self.group.shape[k] for k in self.inner_axes)
        if not isinstance(outer, int) or outer >= NARROW:
            return False
        if isinstance(inner, int) and inner <= SHORT:
            return False
        return self._single_stage()

    def _single_stage(self) -> bool:
        """Whether nothing at the full level waits for a reduction."""
        late: set[Node] = set(self.group.outer)
        for node in sorted(self.group.members, key=lambda n: n.serial):
            if node in self.group.outer and node not in self.reductions:
                continue
            below: list[Node] = []
            todo = list(node.inputs)
            seen: set[Node] = set()
            while todo:
                current = todo.pop()
                if current in seen:
                    continue
                seen.add(current)
                if current in self.group.members:
                    below.append(current)
                else:
                    todo.extend(i for i in current.inputs if i.serial >= 0 and _is_index_map(current))
            if any(b in late for b in below):
                return False
        return True

    def _split(self) -> list[Step]:
        shape = self.group.shape
        head, *rest = self.inner_axes
        rest_size = product(shape[k] for k in rest)
        block = max(1, BLOCK // rest_size) if isinstance(rest_size, int) and rest_size > 0 else 16
        blocks = ceil_div(shape[head], block)
        extents = [blocks, *(shape[k] for k in self.outer_axes), block, *(shape[k] for k in rest)]
        first_inner = 1 + len(self.outer_axes)
        coords = {k: axis_coord(1 + p, shape[k]) for p, k in enumerate(self.outer_axes)}
        coords |= {k: axis_coord(first_inner + 1 + p, shape[k]) for p, k in enumerate(rest)}
        coords[head] = Coord(0, tuple((a, s) for a, s in ((0, block), (first_inner, 1)) if extents[a] != 1 or a == 0))
        if block == 1:
            coords[head] = Coord(0, ((0, 1),))
        exact = isinstance(shape[head], int) and shape[head] % block == 0
        guard: Expr | None = None
        if not exact and block > 1:
            guard = Apply("lt", (coord_value(coords[head]), size_expr(shape[head])), BOOL)
        values = self._values(extents, coords, guard)
        outer_shape = tuple(shape[k] for k in self.outer_axes)
        full = tuple(coords[k] for k in range(len(shape)))
        names = {n: f"r{k}" for k, n in enumerate(self.reductions)}
        reduces, finals, partial = [], [], {}
        for node, name in names.items():
            reduce = self._reduce(node, name, values, full)
            if guard is not None:
                neutral = Const(neutral_value(reduce.op, reduce.dtype), reduce.dtype)
                reduce = replace(reduce, value=Apply("where", (guard, reduce.value, neutral), reduce.dtype))
            reduces.append(reduce)
            buffer = partial[node] = self.buffers.new("temp", reduce.dtype, (blocks, *outer_shape))
            where = tuple(axis_coord(k, n) for k, n in enumerate((blocks, *outer_shape)))
            finals.append(Store(buffer, values.index(where, (blocks, *outer_shape)), Reduced(name, reduce.dtype)))
        stores = [self._store(n, values, coords) for n in self.stored if n not in self.group.outer]
        stores = [replace(s, where=guard) for s in stores]
        inner = tuple(extents[first_inner:])
        first = Nest(
            f"{self.name}_parts",
            tuple(extents[:first_inner]),
            inner,
            (Pass(tuple(reduces), tuple(stores)),),
            tuple(finals),
            -1,
            self.ops,
        )
        return [replace(first, vector_axis=vector_axis(first)), self._combine(blocks, outer_shape, names, partial)]

    def _combine(
        self, blocks: DimLike, outer_shape: tuple[DimLike, ...], names: dict[Node, str], partial: dict[Node, int]
    ) -> Nest:
        outer_coords = {k: axis_coord(p, self.group.shape[k]) for p, k in enumerate(self.outer_axes)}
        extents = [*outer_shape, blocks]
        values = self._values(extents, outer_coords | {k: Coord() for k in self.inner_axes})
        reduces = []
        for node, name in names.items():
            dtype = _reduced_dtype(node)
            values.known[node] = Reduced(name, dtype)
            where = (Coord(0, ((len(outer_shape), 1),)), *(axis_coord(p, n) for p, n in enumerate(outer_shape)))
            load = values.load(partial[node], where, (blocks, *outer_shape), dtype)
            reduces.append(Reduce(name, node.op.lower.op, load, dtype))
        finals = tuple(self._store(n, values, outer_coords) for n in self.stored if n in self.group.outer)
        nest = Nest(self.name, outer_shape, (blocks,), (Pass(tuple(reduces)),), finals, -1, self.ops)
        return replace(nest, vector_axis=vector_axis(nest))


def _is_index_map(node: Node) -> bool:
    return role_of(node) is Role.INLINE


def _reduced_dtype(node: Node) -> DType:
    return compute_dtype(node.dtype)


def neutral_value(op: str, dtype: DType) -> int | float | bool:
    """The value that a reduction is not changed by."""
    if op in ("sum", "any"):
        return False if dtype == BOOL else 0
    if op in ("prod", "all"):
        return True if dtype == BOOL else 1
    if dtype.is_float:
        return float("-inf") if op == "max" else float("inf")
    if dtype == BOOL:
        return op == "min"
    low, high = dtype.integer_range
    return low if op == "max" else high


def _schedule(reduces: dict[str, Reduce], stores: Sequence[Store]) -> tuple[Pass, ...]:
    """The fewest passes in which every reduction and store comes after the reductions that it reads."""
    stage: dict[str, int] = {}
    for name, reduce in reduces.items():  # in topological order: a reduction reads earlier ones only
        needed = [stage[e.name] for e in walk(reduce.value) if isinstance(e, Reduced)]
        stage[name] = 1 + max(needed, default=-1)
    last = max(stage.values(), default=-1)
    by_pass: list[tuple[list[Reduce], list[Store]]] = [([], []) for _ in range(last + 2)]
    for name, reduce in reduces.items():
        by_pass[stage[name]][0].append(reduce)
    for store in stores:
        parts = [store.value, *(g.value for g in store.index.gathered)]
        needed = [stage[e.name] for e in walk(*parts) if isinstance(e, Reduced)]
        by_pass[1 + max(needed, default=-1)][1].append(store)
    return tuple(Pass(tuple(r), tuple(s)) for r, s in by_pass if r or s)


def _is_inner(expr: Expr, outer: int) -> bool:
    """Whether a value depends on an inner axis."""
    for part in walk(expr):
        if isinstance(part, AxisValue) and part.axis >= outer:
            return True
        if isinstance(part, Load) and any(s != 0 for s in part.index.strides[outer:]):
            return True
    return False


def vector_axis(nest: Nest) -> int:
    """The domain axis along which most accesses are contiguous, or -1."""
    extents = nest.extents
    candidates = []
    inner = [k for k in range(len(nest.outer), len(extents)) if extents[k] != 1]
    outer = [k for k in range(len(nest.outer)) if extents[k] != 1]
    if inner:
        candidates.append(inner[-1])
        if outer:
            candidates.append(outer[-1])
    else:
        candidates += reversed(outer)
    if not candidates:
        return -1
    score = dict.fromkeys(candidates, 0)
    accesses = [e.index for e in walk(*roots(nest)) if isinstance(e, Load)]
    stores = [*(s for p in nest.passes for s in p.stores), *nest.finals]
    accesses += [s.index for s in stores for _ in range(2)]
    for index in accesses:
        for axis in candidates:
            stride = index.strides[axis]
            score[axis] += 4 if stride == 1 else 0 if stride == 0 else -1
    best = max(candidates, key=lambda k: (score[k], -candidates.index(k)))
    return best
