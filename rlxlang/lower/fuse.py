"""Partition of a graph into kernels: a greedy walk in topological order that joins each node to the group of its operands.

A group iterates over one shape. Its members live at the full level (a value for every point) or, once a reduction over the
group's inner axes has joined, at the outer level (a value for every outer point). A node may join when it reads the members
of the group at its own point only, and when no path leads from the group out and back (that would be a cycle of kernels).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rlxlang.ir import Graph, Node
from rlxlang.lower.coords import Coord, axis_coord, identity, same_shape
from rlxlang.lower.roles import Role, operand_sources, role_of, sources
from rlxlang.ops import lowering as how
from rlxlang.types import Shape, dims_equal

LARGEST_GROUP = 96  # nodes; keeps kernels small enough for registers and compile time linear
SEARCH_LIMIT = 2000  # groups looked at before a path is assumed to exist


@dataclass(eq=False)
class Group:
    """Nodes that become one kernel.

    Attributes:
        shape: The iteration shape.
        reduced: Axes of `shape` that reductions sum over; None as long as there is no reduction.
        members: Each member's axes as axes of `shape` (None for an axis of size 1); full-level members list all of them.
        outer: Members at the outer level.
        contraction: The matrix product whose epilogue the others are, if any.
        deps: Groups whose results are read.
    """

    shape: Shape
    reduced: tuple[int, ...] | None = None
    members: dict[Node, tuple[int | None, ...]] = field(default_factory=dict)
    outer: set[Node] = field(default_factory=set)
    contraction: Node | None = None
    own: Node | None = None
    deps: set[Group] = field(default_factory=set)
    merged: Group | None = None

    @property
    def serial(self) -> int:
        """Orders groups by their first node."""
        nodes = [*self.members, *([self.own] if self.own else [])]
        return min(n.serial for n in nodes)


def find(group: Group) -> Group:
    """The group that this one has become part of."""
    while group.merged is not None:
        group = group.merged
    return group


class Partition:
    """The groups of a graph, and which values need a buffer."""

    def __init__(self, graph: Graph) -> None:
        self.group_of: dict[Node, Group] = {}
        self.users: dict[Node, int] = {}
        self._sources: dict[Node, list[tuple[Node, tuple[Coord, ...]]]] = {}
        for node in graph.nodes:
            for operand in node.inputs:
                self.users[operand] = self.users.get(operand, 0) + 1
        for output in graph.outputs:
            self.users[output.node] = self.users.get(output.node, 0) + 1
        for node in graph.nodes:
            self._place(node)
        self.stored = self._stored(graph)

    def groups(self) -> list[Group]:
        """All groups, by their first node."""
        found = {find(g): None for g in self.group_of.values()}
        return sorted(found, key=lambda g: g.serial)

    def sources_of(self, node: Node) -> list[tuple[Node, tuple[Coord, ...]]]:
        """What a fused or own node reads: nodes with values of their own."""
        return self._sources[node]

    # ------------------------------------------------------------------ placing one node
    def _place(self, node: Node) -> None:
        role = role_of(node)
        if role is Role.FUSED:
            self._sources[node] = operand_sources(node)
            if isinstance(node.op.lower, how.Contraction):
                self._alone(node, contraction=True)
            else:
                self._join(node)
        elif role is Role.OWN or (role is Role.ALIAS and role_of(node.inputs[0]) is Role.INLINE):
            self._sources[node] = [
                s
                for operand in node.inputs
                if hasattr(operand.type, "shape")
                for s in sources(operand, identity(operand.shape))
            ] + [(i, ()) for i in node.inputs if not hasattr(i.type, "shape")]
            self._alone(node)
        elif role is Role.ALIAS:
            self._sources[node] = [(node.inputs[0], ())]

    def _alone(self, node: Node, *, contraction: bool = False) -> None:
        if contraction:
            axes = tuple(None if n == 1 else k for k, n in enumerate(node.shape))
            group = Group(node.shape, members={node: axes}, contraction=node)
        else:
            group = Group((), own=node)
        self._depend(group, node)
        self.group_of[node] = group

    def _depend(self, group: Group, node: Node) -> None:
        for source, _ in self._sources[node]:
            other = self.home(source)
            if other is not None and other is not group:
                group.deps.add(other)

    def home(self, node: Node) -> Group | None:
        """The group that computes a node's value, looking through aliases; None for given buffers."""
        while node not in self.group_of:
            if role_of(node) is not Role.ALIAS:
                return None
            node = node.inputs[0]
        return find(self.group_of[node])

    def _join(self, node: Node) -> None:
        reduction = isinstance(node.op.lower, how.Reduction)
        shape = node.inputs[0].shape if reduction else node.shape
        axes = reduced_axes(node) if reduction else None
        homes: dict[Group, None] = {}
        for source, _ in self._sources[node]:
            if source in self.group_of:
                homes[find(self.group_of[source])] = None
        fitting = [g for g in homes if self._fits(g, node, shape, axes)]
        if not fitting:
            group = Group(shape, reduced=axes)
        else:
            group = fitting[0]
            for other in fitting[1:]:
                if self._mergeable(group, other):
                    self._merge(group, other)
        outer = self._is_outer(group, node, shape)
        if reduction:
            group.reduced = axes
            kept = [k for k in range(len(shape)) if k not in (axes or ())]
            group.members[node] = tuple(None if shape[k] == 1 else k for k in kept)
            group.outer.add(node)
        elif outer:
            group.members[node] = self._outer_axes(group, shape) or ()
            group.outer.add(node)
        else:
            group.members[node] = tuple(None if n == 1 else k for k, n in enumerate(shape))
        self.group_of[node] = group
        self._depend(group, node)

    def _is_outer(self, group: Group, node: Node, shape: Shape) -> bool:
        if isinstance(node.op.lower, how.Reduction) or group.reduced is None:
            return False
        return not same_shape(shape, group.shape)

    def _outer_axes(self, group: Group, shape: Shape) -> tuple[int | None, ...] | None:
        """How the axes of an outer-level value of this shape lie on those of the group, or None when they do not."""
        kept = [k for k in range(len(group.shape)) if k not in (group.reduced or ()) and group.shape[k] != 1]
        result: list[int | None] = []
        position = 0
        for dim in shape:
            if dim == 1:
                result.append(None)
                continue
            if position >= len(kept) or dims_equal(dim, group.shape[kept[position]]) is not True:
                return None
            result.append(kept[position])
            position += 1
        return tuple(result) if position == len(kept) else None

    def _fits(self, group: Group, node: Node, shape: Shape, axes: tuple[int, ...] | None) -> bool:
        if group.own is not None or len(group.members) >= LARGEST_GROUP:
            return False
        mine: tuple[int | None, ...] | None
        if same_shape(shape, group.shape):
            mine = tuple(None if n == 1 else k for k, n in enumerate(shape))
            if axes is not None and not self._takes_reduction(group, node, axes):
                return False
        elif axes is None and group.reduced is not None:
            mine = self._outer_axes(group, shape)
        else:
            mine = None
        if mine is None:
            return False
        outside: set[Group] = set()
        for source, coords in self._sources[node]:
            home = self.home(source)
            if home is group and source in group.members:
                if not aligned(coords, group.members[source], mine, shape):
                    return False
            elif home is group:
                return False  # through an alias: needs the whole buffer first
            elif home is not None:
                outside.add(home)
        return not any(self._reaches(other, group) for other in outside)

    def _takes_reduction(self, group: Group, node: Node, axes: tuple[int, ...]) -> bool:
        if group.contraction is not None:
            return False
        if group.reduced is not None:
            return group.reduced == axes
        significant = [k for k, n in enumerate(group.shape) if n != 1]
        if not significant or significant[-1] in axes:
            return True
        # A sum over columns walks memory in another order than a map: worth it only when nobody else needs the map's values.
        return all(self.users.get(s, 0) == 1 for s, _ in self._sources[node] if s in group.members)

    def _mergeable(self, left: Group, right: Group) -> bool:
        if not same_shape(left.shape, right.shape) or len(left.members) + len(right.members) > LARGEST_GROUP:
            return False
        if left.contraction and right.contraction:
            return False
        if left.reduced is not None and right.reduced is not None and left.reduced != right.reduced:
            return False
        if (left.contraction or right.contraction) and (left.reduced is not None or right.reduced is not None):
            return False
        around = (
            [d for d in map(find, left.deps) if d is not right],
            [d for d in map(find, right.deps) if d is not left],
        )
        return not any(self._reaches(d, right) for d in around[0]) and not any(
            self._reaches(d, left) for d in around[1]
        )

    def _merge(self, left: Group, right: Group) -> None:
        right.merged = left
        left.members |= right.members
        left.outer |= right.outer
        left.contraction = left.contraction or right.contraction
        left.reduced = left.reduced if left.reduced is not None else right.reduced
        left.deps |= right.deps
        left.deps = {find(d) for d in left.deps} - {left}

    def _reaches(self, start: Group, goal: Group) -> bool:
        seen = {start}
        todo = [start]
        while todo:
            group = todo.pop()
            if group is goal:
                return True
            for dep in group.deps:
                other = find(dep)
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
            if len(seen) > SEARCH_LIMIT:
                return True
        return False

    # ------------------------------------------------------------------ which values need a buffer
    def _stored(self, graph: Graph) -> set[Node]:
        stored: set[Node] = set()
        for node, found in self._sources.items():
            group = find(self.group_of[node]) if node in self.group_of else None
            for source, _ in found:
                if source in self.group_of and (group is None or find(self.group_of[source]) is not group):
                    stored.add(source)
        for output in graph.outputs:
            for source, _ in sources(output.node, identity(output.node.shape)):
                base = source
                while role_of(base) is Role.ALIAS and base not in self.group_of:
                    base = base.inputs[0]
                stored.add(base)
        return stored


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Axes over which a reduction node reduces."""
    if "axes" in node.attrs:
        return tuple(node.attrs["axes"])
    return (node.attrs["axis"],)


def aligned(
    coords: Iterable[Coord], theirs: tuple[int | None, ...], mine: tuple[int | None, ...], shape: Shape
) -> bool:
    """Whether a read at `coords` (over the reader's own axes) hits exactly the point at which the reader stands.

    `theirs` and `mine` say on which axes of the group the axes of the value read and of the reader lie.
    """
    for coord, axis in zip(coords, theirs, strict=True):
        if axis is None:
            if coord != Coord():
                return False
            continue
        if axis not in mine or coord != axis_coord(mine.index(axis), shape[mine.index(axis)]):
            return False
    return True


def order(groups: Iterable[Group], extra: Mapping[Group, set[Group]] | None = None) -> list[Group] | None:
    """The groups so that each stands after those it depends on, otherwise as their nodes stand; None when there is a cycle."""
    listed = list(groups)
    before: dict[Group, set[Group]] = {g: {find(d) for d in g.deps} - {g} for g in listed}
    for group, more in (extra or {}).items():
        before[group] = before[group] | more
    after: dict[Group, list[Group]] = {g: [] for g in listed}
    for group, deps in before.items():
        for dep in deps:
            after[dep].append(group)
    import heapq

    waiting = {g: len(before[g]) for g in listed}
    rank = {g: k for k, g in enumerate(listed)}
    ready = [rank[g] for g in listed if not waiting[g]]
    heapq.heapify(ready)
    result = []
    while ready:
        group = listed[heapq.heappop(ready)]
        result.append(group)
        for user in after[group]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, rank[user])
    return result if len(result) == len(listed) else None
