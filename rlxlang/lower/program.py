"""From a graph to a program: groups become kernels, values get buffers, temporaries get places in the arena."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rlxlang.diagnostics import RlxBackendError
from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.kernels import (
    Buffer,
    Contract,
    Copy,
    Load,
    Loop,
    Nest,
    Program,
    SizeValue,
    Sort,
    Step,
    Store,
    While,
    Window,
    bodies,
    roots,
    walk,
)
from rlxlang.lower.complex_parts import complex_as_parts
from rlxlang.lower.contracts import GroupContract
from rlxlang.lower.control import branch_step, given_buffers, hand_over, library_step, start_carries, while_step
from rlxlang.lower.coords import Coord, identity
from rlxlang.lower.fuse import Group, Partition, find, order
from rlxlang.lower.memory import Buffers, plan
from rlxlang.lower.nests import GroupNest
from rlxlang.lower.own import copy_nest, own_steps
from rlxlang.lower.roles import Role, role_of, sources
from rlxlang.lower.sorting import sort_step
from rlxlang.ops import lowering as how
from rlxlang.passes import simplify
from rlxlang.transforms import expand
from rlxlang.types import Dim, DimLike, TupleType, product


@dataclass(frozen=True)
class Lowered:
    """A program, and how it belongs to its graph.

    Attributes:
        graph: The graph that was lowered, composite ops decomposed.
        program: What a backend compiles.
        buffer_of: The buffer of every input and parameter.
    """

    graph: Graph
    program: Program
    buffer_of: Mapping[str, int]


class _Lowering:
    """Lowers one graph, or the body of a loop, into shared buffers."""

    def __init__(self, graph: Graph, buffers: Buffers, given: Mapping[Node, int], prefix: str) -> None:
        self.graph, self.buffers, self.prefix = graph, buffers, prefix
        self.places: dict[Node, int] = dict(given)
        self.items: dict[Node, list[int]] = {}
        self.partition = Partition(graph)
        self.steps: list[Step] = []
        self._copies: dict[Node, int] = {}
        self._taken: dict[Node, set[int]] | None = None

    def place(self, node: Node) -> int:
        """The buffer that holds a node's value, made now if it has none yet."""
        while node not in self.places:
            role = role_of(node)
            if role is Role.ALIAS and node not in self.partition.group_of:
                node = node.inputs[0]
                continue
            if isinstance(node.op.lower, how.ConstantData):
                self.places[node] = self.buffers.new("constant", node.dtype, node.shape, "", node.attrs["data"].array)
                continue
            if isinstance(node.op.lower, how.Item):
                self.places[node] = self.items[node.inputs[0]][node.attrs["index"]]
                continue
            self.places[node] = self.buffers.new("temp", node.dtype, node.shape)
        return self.places[node]

    def run(self, extra: Mapping[Group, set[Group]] | None = None) -> None:
        """Emit the kernels of all groups."""
        groups = order(self.partition.groups(), extra)
        if groups is None:
            raise RlxBackendError("the kernels of this graph depend on each other in a circle", code="E0001")
        for group in groups:
            name = f"{self.prefix}k{len(self.steps)}"
            if group.own is not None:
                self._own(group.own, name)
            elif group.contraction is not None:
                self.steps += GroupContract(group, self.buffers, self.place, self.partition.stored, name).steps()
            else:
                self.steps += GroupNest(group, self.buffers, self.place, self.partition.stored, name).steps()

    def _own(self, node: Node, name: str) -> None:
        record = node.op.lower
        if isinstance(record, how.Item):
            return
        if isinstance(record, how.ScanLoop):
            self._scan(node, name)
        elif isinstance(record, how.WhileLoop):
            while_step(self, node, name)
        elif isinstance(record, how.BranchOf):
            branch_step(self, node, name)
        elif isinstance(record, how.LibraryCall):
            library_step(self, node, record.routine, name)
        elif isinstance(record, how.SortRows):
            sort_step(self, node, self.taken().get(node, set()), name)
        elif role_of(node) is Role.ALIAS:
            target = self.places[node] = self.buffers.new("temp", node.dtype, node.shape)
            self.steps.append(copy_nest(node.inputs[0], target, self.buffers, self.place, name))
        elif isinstance(record, (how.Concat, how.View, how.Prefix, how.ScatterAxis, how.Fold)):
            self.steps += own_steps(node, self.place(node), self.buffers, self.place, name)
        else:
            raise RlxBackendError(
                f"`{node.op.name}` has no kernel in compiled programs", code="E0702", span=node.origin.span
            )

    def taken(self) -> dict[Node, set[int]]:
        """Which results of each node with several are taken."""
        if self._taken is None:
            self._taken = {}
            for node in self.graph.nodes:
                if isinstance(node.op.lower, how.Item):
                    self._taken.setdefault(node.inputs[0], set()).add(node.attrs["index"])
        return self._taken

    def contiguous(self, node: Node, name: str) -> int:
        """A buffer that holds exactly this value, written by a copy if need be."""
        base = node
        while role_of(base) is Role.ALIAS and base not in self.partition.group_of:
            base = base.inputs[0]
        if role_of(base) is not Role.INLINE:
            return self.place(node)
        if node not in self._copies:
            self._copies[node] = self.buffers.new("temp", node.dtype, node.shape)
            self.steps.append(copy_nest(node, self._copies[node], self.buffers, self.place, name))
        return self._copies[node]

    # ------------------------------------------------------------------ loops
    def lower_body(self, body: Graph, given: Sequence[int], prefix: str) -> _Lowering:
        """Lower a body whose inputs are in these buffers."""
        graph = simplify(expand(body, "lower")[0])
        inside = _Lowering(graph, self.buffers, given_buffers(graph, given), prefix)
        inside.run()
        return inside

    def body_outputs(self) -> Sequence[GraphOutput]:
        """The outputs of the graph, composite ops decomposed."""
        return self.graph.outputs

    def _scan(self, node: Node, name: str) -> None:
        body: Graph = node.attrs["body"]
        carries, taken = node.attrs["carries"], node.attrs["sources"]
        reverse = bool(node.attrs.get("reverse"))
        assert isinstance(node.type, TupleType)
        starts = node.inputs[:carries]
        stacks = node.inputs[carries : carries + taken]
        closed = node.inputs[carries + taken :]
        windows: list[Window] = []
        carry_buffers = start_carries(self, starts, name)
        given = list(carry_buffers)
        for k, stack in enumerate(stacks):
            base = self.contiguous(_memory_of(stack), f"{name}_source{k}")
            inner = body.inputs[carries + k].node
            view = self.buffers.new("view", inner.dtype, inner.shape)
            windows.append(Window(view, base, product(inner.shape), reverse))
            given.append(view)
        for k, value in enumerate(closed):
            given.append(self.contiguous(value, f"{name}_const{k}"))
        lowering = self.lower_body(body, given, f"{name}_")
        emitted = []
        for k, output in enumerate(lowering.graph.outputs[carries:]):
            stacked = node.type.items[carries + k]
            base = self.buffers.new("temp", stacked.dtype, stacked.shape)
            view = self.buffers.new("view", output.node.dtype, output.node.shape)
            windows.append(Window(view, base, product(output.node.shape), reverse))
            lowering.steps.append(copy_nest(output.node, view, self.buffers, lowering.place, f"{name}_emit{k}"))
            emitted.append(base)
        staged = hand_over(lowering, [o.node for o in lowering.graph.outputs[:carries]], carry_buffers, name)
        steps = (*lowering.steps, *staged)
        self.steps.append(Loop(name, node.attrs["length"], steps, tuple(windows), -1, reverse))
        self.items[node] = [*carry_buffers, *emitted]


def _memory_of(node: Node) -> Node:
    """The value whose memory begins with that of a source: slices of a loop are read in place from a reshaped first part of it."""
    while True:
        if isinstance(node.op.lower, how.Reshape) or _is_first_part(node):
            node = node.inputs[0]
        else:
            return node


def _is_first_part(node: Node) -> bool:
    if node.op.name != "slice":
        return False
    starts, steps, stops = (node.attrs[k] for k in ("starts", "steps", "stops"))
    whole = tuple(stops[1:]) == tuple(node.inputs[0].shape[1:])
    return bool(starts) and all(s == 0 for s in starts) and all(s == 1 for s in steps) and whole


def lower(graph: Graph, *, threads: int = 1, in_place: Mapping[str, str] | None = None) -> Lowered:
    """The program that computes a graph.

    Args:
        graph: What to compute; composite ops are decomposed first.
        threads: How many threads may run it (for private memory).
        in_place: Outputs (by name) that overwrite a parameter or input (by name): these become `state` buffers, and the outputs vanish from
            `program.outputs`.

    Raises:
        RlxBackendError: An op or dtype has no kernel.
    """
    updates = dict(in_place or {})
    parts = complex_as_parts(expand(graph, "lower")[0])
    graph = simplify(expand(parts, "lower")[0])
    buffers = Buffers()
    given: dict[Node, int] = {}
    for entry in graph.inputs:
        own = "param" if entry.kind == "param" else "input"
        kind = "state" if entry.name in updates.values() else own
        given[entry.node] = buffers.new(kind, entry.node.dtype, entry.node.shape, entry.name)
    buffer_of = {entry.name: given[entry.node] for entry in graph.inputs}
    lowering = _Lowering(graph, buffers, given, "")
    outputs, late, extra = _place_outputs(graph, lowering, updates, buffer_of)
    lowering.run(extra)
    _write_late(lowering, late, set(buffer_of.values()))
    placed, arena = plan(buffers, lowering.steps, threads)
    program = Program(
        graph.name,
        graph.axes(),
        tuple(placed),
        tuple(lowering.steps),
        collect_dims(placed, lowering.steps),
        arena,
        threads,
        tuple(outputs),
    )
    return Lowered(graph, program, buffer_of)


def _write_late(lowering: _Lowering, late: Sequence[tuple[Node, int]], given: set[int]) -> None:
    """Write outputs that no kernel writes to their buffers: results first, then the inputs that are overwritten.

    A value that is read from an input which is itself overwritten here (states that trade places, or turn around) stops in a
    temporary on the way.
    """
    buffers = lowering.buffers
    overwritten = {target for _, target in late if target in given}

    def write(node: Node, target: int) -> None:
        if role_of(node) is Role.INLINE:
            lowering.steps.append(copy_nest(node, target, buffers, lowering.place, f"out{target}"))
        elif lowering.place(node) != target:
            lowering.steps.append(Copy(lowering.place(node), target))

    last: list[Callable[[], None]] = []
    for node, target in late:
        reads = {lowering.place(base) for base, _ in sources(node, identity(node.shape))}
        if target not in given:
            write(node, target)
        elif role_of(node) is not Role.INLINE and lowering.place(node) == target:
            continue
        elif reads & overwritten:
            stop = buffers.new("temp", node.dtype, node.shape)
            write(node, stop)
            last.append(partial(lowering.steps.append, Copy(stop, target)))
        else:
            last.append(partial(write, node, target))
    for final in last:
        final()


def _place_outputs(
    graph: Graph, lowering: _Lowering, updates: Mapping[str, str], buffer_of: Mapping[str, int]
) -> tuple[list[int], list[tuple[Node, int]], dict[Group, set[Group]]]:
    """Buffers of the outputs; those computed by a kernel are written there directly, others are copied at the end."""
    outputs: list[int] = []
    late: list[tuple[Node, int]] = []
    extra: dict[Group, set[Group]] = {}
    partition = lowering.partition
    for output in graph.outputs:
        node = output.node
        if isinstance(node.op.lower, how.Reinterpret):  # its memory is written as what it is made of
            node = node.inputs[0]
        direct = (
            node in partition.group_of
            and node not in lowering.places
            and not isinstance(
                node.op.lower, (how.Item, how.ScanLoop, how.WhileLoop, how.BranchOf, how.LibraryCall, how.SortRows)
            )
        )
        direct = direct and role_of(node) in (Role.FUSED, Role.OWN)
        if output.name in updates:
            target = buffer_of[updates[output.name]]
            state = graph.input(updates[output.name])
            assert state is not None
            if direct and _overwrite(graph, partition, node, state.node, extra):
                lowering.places[node] = target
            else:
                late.append((node, target))
            continue
        target = lowering.buffers.new("output", output.node.dtype, output.node.shape, output.name)
        outputs.append(target)
        if direct:
            lowering.places[node] = target
        else:
            late.append((node, target))
    return outputs, late, extra


def _overwrite(graph: Graph, partition: Partition, node: Node, state: Node, extra: dict[Group, set[Group]]) -> bool:
    """Whether the kernel of `node` may write over `state`: all other readers can run before it, and it reads at its own point only."""
    writer = find(partition.group_of[node])
    if writer.own is not None or writer.reduced is not None:
        return False  # a later pass would read what an earlier one has overwritten
    before: set[Group] = set()
    for reader, found in _reads(partition):
        for source, coords in found:
            base = source
            while role_of(base) is Role.ALIAS and base not in partition.group_of:
                base = base.inputs[0]
            if base is not state:
                continue
            home = partition.home(reader)
            if home is None:
                return False
            if home is not writer:
                before.add(home)
            elif source is not state or coords != identity(node.shape) or writer.contraction in (reader, node):
                return False
    if any(o.node is state or _is_view_of(o.node, state) for o in graph.outputs):
        return False
    trial = {g: set(s) for g, s in extra.items()}
    trial.setdefault(writer, set()).update(before)
    if order(partition.groups(), trial) is None:
        return False
    extra.setdefault(writer, set()).update(before)
    return True


def _reads(partition: Partition) -> Iterable[tuple[Node, list[tuple[Node, tuple[Coord, ...]]]]]:
    for node in partition.group_of:
        yield node, partition.sources_of(node)


def _is_view_of(node: Node, base: Node) -> bool:
    return role_of(node) in (Role.INLINE, Role.ALIAS) and any(s is base for s, _ in sources(node, identity(node.shape)))


def collect_dims(buffers: Sequence[Buffer], steps: Sequence[Step]) -> tuple[DimLike, ...]:
    """Every size that is no number, once, in order of first use."""
    found: dict[Dim, None] = {}

    def note(*dims: DimLike) -> None:
        for dim in dims:
            if isinstance(dim, Dim):
                found.setdefault(dim)

    for buffer in buffers:
        note(*buffer.shape, product(buffer.shape))
    todo = list(reversed(steps))
    while todo:
        step = todo.pop()
        for sequence in reversed(bodies(step)):
            todo.extend(reversed(sequence))
        if isinstance(step, Loop):
            note(step.count, *(w.stride for w in step.windows))
        elif isinstance(step, While):
            note(*(() if step.limit is None else (step.limit,)))
        elif isinstance(step, Contract):
            note(*step.batch, step.m, step.n, step.k)
            for side in (step.left, step.right):
                note(side.offset, *side.batch, side.row, side.column)
            _note_exprs(step, step.epilogue, note)
        elif isinstance(step, Sort):
            note(step.rows, step.length, step.count)
        elif isinstance(step, Nest):
            note(*step.extents, product(step.outer), product(step.inner), product(step.extents))
            _note_exprs(step, [*(s for p in step.passes for s in p.stores), *step.finals], note)
    return tuple(found)


def _note_exprs(step: Nest | Contract, stores: Iterable[Store], note: Callable[..., None]) -> None:
    for store in stores:
        note(store.index.offset, *store.index.strides, *(d for g in store.index.gathered for d in (g.size, g.stride)))
    for expr in walk(*roots(step)):
        if isinstance(expr, Load):
            note(expr.index.offset, *expr.index.strides)
            note(*(d for g in expr.index.gathered for d in (g.size, g.stride)))
        elif isinstance(expr, SizeValue):
            note(expr.dim)
