"""Evaluation of kernel expressions: every expression once, in the outermost loop that it depends on.

A nest has loops at *levels*: 0 is the kernel's entry, 1 one point of the outer loops, and so on inwards. `analyse` finds
for every expression the level at which it is fixed and whether it differs between lanes. The nest emitter calls
`Evaluator.prepare` whenever it has opened a level; what is fixed there is computed there and found again further in.
Values are kept in frames, one for each open loop (and one for each pass), and vanish with them.

Unrolled copies of a vector loop share everything that does not differ between lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlxlang.backends.llvm.emit_apply import element, emit_apply
from rlxlang.backends.llvm.emit_domain import COLUMNS, Domain
from rlxlang.backends.llvm.emit_memory import Memory
from rlxlang.backends.llvm.text import Function, Operand, operand_text
from rlxlang.backends.llvm.vector import VectorEmitter, VectorTarget, literal
from rlxlang.diagnostics.errors import RlxBackendError
from rlxlang.kernels import Apply, AxisValue, Const, Expr, Load, Reduced, Running, SizeValue, walk
from rlxlang.types import DType


@dataclass(frozen=True, slots=True)
class Traits:
    """Where an expression is fixed.

    Attributes:
        level: The loop level.
        vector: Whether it differs between lanes.
        volatile: Whether it depends on what this nest stores, so that it holds within one pass only.
        late: Whether it depends on a prefix of this pass, so that it follows the update of the reductions.
    """

    level: int
    vector: bool
    volatile: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Levels:
    """The loop level of every axis, and those that matter as such.

    Attributes:
        of_axis: Level by domain axis (the last one of each run).
        vector_axis: The axis that lanes run along, or -1.
        base: Level at which passes begin.
        innermost: Level of the innermost loop of a pass.
    """

    of_axis: Mapping[int, int]
    vector_axis: int
    base: int
    innermost: int


def loop_levels(domain: Domain) -> Levels:
    """The levels of a domain's loops."""
    of_axis = {loop.axis: 1 for loop in domain.rows}
    base = 1
    if domain.form == COLUMNS:
        base = 2
        if domain.column is not None:
            of_axis[domain.column.axis] = 2
    for number, loop in enumerate(domain.inner):
        of_axis[loop.axis] = base + 1 + number
    vector = domain.vector
    return Levels(of_axis, -1 if vector is None else vector.axis, base, base + len(domain.inner))


def analyse(
    roots: Iterable[Expr], levels: Levels, form: str, written: frozenset[int], written_here: frozenset[int]
) -> dict[int, Traits]:
    """Traits of every expression below the roots, by identity.

    Args:
        roots: The expressions of one pass.
        levels: The loops.
        form: `ROWS` or `COLUMNS`.
        written: Buffers that the nest stores to.
        written_here: Buffers that this pass stores to.
    """
    traits: dict[int, Traits] = {}
    in_columns = form == COLUMNS
    for expr in walk(*roots):
        if isinstance(expr, AxisValue):
            traits[id(expr)] = Traits(levels.of_axis.get(expr.axis, 0), expr.axis == levels.vector_axis, False, False)
        elif isinstance(expr, Reduced):
            traits[id(expr)] = Traits(levels.base, in_columns, True, False)
        elif isinstance(expr, Running):
            traits[id(expr)] = Traits(levels.innermost, True, True, True)
        elif isinstance(expr, Load):
            traits[id(expr)] = _load_traits(expr, traits, levels, written, written_here)
        elif isinstance(expr, Apply):
            traits[id(expr)] = _joined([traits[id(a)] for a in expr.args])
        else:
            traits[id(expr)] = Traits(0, False, False, False)
    return traits


def _joined(parts: list[Traits]) -> Traits:
    return Traits(
        max((p.level for p in parts), default=0),
        any(p.vector for p in parts),
        any(p.volatile for p in parts),
        any(p.late for p in parts),
    )


def _load_traits(
    load: Load, traits: Mapping[int, Traits], levels: Levels, written: frozenset[int], written_here: frozenset[int]
) -> Traits:
    parts = [traits[id(g.value)] for g in load.index.gathered]
    if load.where is not None:
        parts.append(traits[id(load.where)])
    for axis, level in levels.of_axis.items():
        if load.index.strides[axis] != 0:
            parts.append(Traits(level, axis == levels.vector_axis, False, False))
    if load.buffer in written_here:
        parts.append(Traits(levels.innermost, False, True, False))
    elif load.buffer in written:
        parts.append(Traits(levels.base, False, True, False))
    return _joined(parts)


class Evaluator:
    """Values of expressions while a nest is being emitted.

    Args:
        function: Where the code goes.
        target: The machine.
        levels: The loops of the nest.
        dims: Operand of every dynamic size.
        bases: Pointer to the first element of every buffer.
        buffer_dtypes: Dtype of every buffer.

    Attributes:
        coordinates: Scalar position by loop axis, set by whoever opens the loop.
        copies: Number of unrolled copies in the open vector loop.
        mask: Lanes of the open vector loop that exist; None for all.
        traits: Those of the pass at hand.
        v: Emitter of the pass's lanes.
        s: Emitter of single values.
    """

    def __init__(
        self,
        function: Function,
        target: VectorTarget,
        levels: Levels,
        dims: Mapping[object, Operand],
        bases: Mapping[int, str],
        buffer_dtypes: Mapping[int, DType],
    ) -> None:
        self.function = function
        self.target = target
        self.levels = levels
        self.dims = dims
        self.coordinates: dict[int, Operand] = {}
        self.copies = 1
        self.mask: str | None = None
        self.traits: dict[int, Traits] = {}
        self.s = VectorEmitter(function, target, 1, contract=True)
        self.v = self.s
        self.memory = Memory(self, bases)
        self.buffer_dtypes = buffer_dtypes
        # In the column form the lanes are outer points: no two of them write one place.
        self.lanes_are_outer = levels.base == 2
        self._named: dict[str, list[Reduced]] = {}
        self._running: dict[str, list[Running]] = {}
        self._frames: list[dict[object, str]] = [{}]

    # -- frames ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin a frame: values computed from now on are forgotten with it."""
        self._frames.append({})

    def close(self) -> None:
        """End the frame."""
        self._frames.pop()

    def find(self, key: object) -> str | None:
        """A value that is known here."""
        for frame in reversed(self._frames):
            found = frame.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: object, value: str, *, volatile: bool = True) -> str:
        """Keep a value: one that outlives the pass goes below the frame of the pass when that is on top."""
        on_pass = len(self._frames) == self.levels.base + 2
        self._frames[-2 if on_pass and not volatile else -1][key] = value
        return value

    # -- values ----------------------------------------------------------------------------------------

    def size(self, dim: object) -> Operand:
        """Operand of a size.

        Raises:
            RlxBackendError: The program does not list it among its dims.
        """
        if isinstance(dim, int):
            return dim
        found = self.dims.get(dim)
        if found is None:
            raise RlxBackendError(f"internal fault: the size {dim} is not among the dims of the program")
        return found

    def prepare(self, exprs: Iterable[Expr], level: int) -> None:
        """Compute what is fixed at this level, in the order given (operands first)."""
        chosen = [e for e in exprs if not isinstance(e, Const) and self._due(e, level)]
        for copy in range(self.copies):
            for expr in chosen:
                if self.traits[id(expr)].vector:
                    self.vector(expr, copy)
                elif copy == 0:
                    self.scalar(expr)

    def prepare_late(self, exprs: Iterable[Expr]) -> None:
        """Compute what depends on the prefixes of the pass at hand, in the order given."""
        chosen = [e for e in exprs if self.traits[id(e)].late and not isinstance(e, Running)]
        for copy in range(self.copies if chosen else 0):
            for expr in chosen:
                self.vector(expr, copy)

    def _due(self, expr: Expr, level: int) -> bool:
        traits = self.traits[id(expr)]
        return traits.level == level and not traits.late

    def scalar(self, expr: Expr) -> str:
        """The value of an expression that is the same in all lanes."""
        if isinstance(expr, Const):
            return literal(element(expr.dtype), expr.value)
        key = ("s", id(expr))
        found = self.find(key)
        if found is not None:
            return found
        if isinstance(expr, Reduced):
            raise RlxBackendError(f"internal fault: `{expr.name}` is read before it is reduced")
        value = self._compute(expr, self.s, 0)
        return self.remember(key, value, volatile=self.traits[id(expr)].volatile)

    def vector(self, expr: Expr, copy: int) -> str:
        """The value of an expression in the lanes of one copy."""
        if isinstance(expr, Const):
            return self.v.constant(element(expr.dtype), expr.value)
        traits = self.traits[id(expr)]
        if not traits.vector:
            if self.v.lanes == 1:
                return self.scalar(expr)
            key: object = ("splat", id(expr), self.v.lanes)
            found = self.find(key)
            if found is not None:
                return found
            value = self.v.splat(element(expr.dtype), self.scalar(expr))
            return self.remember(key, value, volatile=traits.volatile)
        key = ("v", id(expr), copy)
        found = self.find(key)
        if found is not None:
            return found
        if isinstance(expr, Reduced | Running):
            raise RlxBackendError(f"internal fault: `{expr.name}` is read before it is reduced")
        return self.remember(key, self._compute(expr, self.v, copy), volatile=traits.volatile)

    def set_reduced(self, name: str, copy: int, value: str, *, vector: bool) -> None:
        """Give the result of a reduction; it outlives the pass."""
        for expr in self._named.get(name, ()):
            key: object = ("v", id(expr), copy) if vector else ("s", id(expr))
            self._frames[self.levels.base][key] = value

    def set_running(self, name: str, copy: int, value: str) -> None:
        """Give the value of a prefix at the point at hand."""
        for expr in self._running.get(name, ()):
            self._frames[-1][("v", id(expr), copy)] = value

    def register(self, exprs: Iterable[Expr]) -> None:
        """Note which expressions read results of reductions."""
        for expr in exprs:
            if isinstance(expr, Reduced):
                self._named.setdefault(expr.name, []).append(expr)
            elif isinstance(expr, Running):
                self._running.setdefault(expr.name, []).append(expr)

    def _compute(self, expr: Expr, emitter: VectorEmitter, copy: int) -> str:
        in_lanes = emitter is self.v and self.traits[id(expr)].vector
        if isinstance(expr, Apply):
            args = [self.vector(a, copy) if in_lanes else self.scalar(a) for a in expr.args]
            return emit_apply(emitter, expr.function, args, expr.args[-1].dtype, expr.dtype)
        if isinstance(expr, Load):
            return self.memory.load(expr, emitter, copy, in_lanes)
        if isinstance(expr, AxisValue):
            return self._axis_value(expr, emitter, copy, in_lanes)
        if isinstance(expr, SizeValue):
            text = operand_text(self.size(expr.dim))
            return emitter.convert("i64", element(expr.dtype), text, to_signed=expr.dtype.kind != "uint")
        raise RlxBackendError(f"internal fault: {type(expr).__name__} has no value here")

    def _axis_value(self, expr: AxisValue, emitter: VectorEmitter, copy: int, in_lanes: bool) -> str:
        position = self.coordinates.get(expr.axis, 0)
        elem = element(expr.dtype)
        if not in_lanes:
            return emitter.convert("i64", elem, operand_text(position))
        first = self.function.add(position, copy * emitter.lanes)
        lanes = emitter.splat("i64", first)
        if emitter.lanes > 1:
            lanes = emitter.add("i64", lanes, emitter.iota("i64"))
        return emitter.convert("i64", elem, lanes)
