"""Loop kernels: one task function over units of the outer domain, and the step that runs it on one or more threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlxlang.backends.llvm.emit_apply import cost, element
from rlxlang.backends.llvm.emit_context import ProgramContext
from rlxlang.backends.llvm.emit_domain import COLUMNS, ROWS, Domain, LoopAxis, accesses, plan_domain, store_roots
from rlxlang.backends.llvm.emit_expr import Evaluator, Traits, analyse, loop_levels
from rlxlang.backends.llvm.emit_loops import for_lanes, run_units, unrolling
from rlxlang.backends.llvm.emit_pass import PassEmitter
from rlxlang.backends.llvm.text import Function, Operand
from rlxlang.backends.llvm.vector import BITS, VectorEmitter
from rlxlang.kernels import Apply, Expr, Load, Nest, Pass, SizeValue, Store, walk
from rlxlang.types import DimLike, DType

COLUMNS_PER_UNIT = 4096
"""Columns of a map that one unit covers."""

SCALAR_PENALTY = 6
"""How much dearer an element is without lanes."""


@dataclass(frozen=True, slots=True)
class PassPlan:
    """A pass with its expressions in order.

    Attributes:
        walked: The pass.
        order: Its expressions, operands before users.
        traits: Their traits.
        accesses: Its loads and stores.
        weight: Rough number of instructions per point.
    """

    walked: Pass
    order: tuple[Expr, ...]
    traits: dict[int, Traits]
    accesses: tuple[Load | Store, ...]
    weight: int


def nest_dims(nest: Nest) -> list[DimLike]:
    """Every size that a nest's code needs."""
    wanted: list[DimLike] = list(nest.extents)
    for access in accesses(nest):
        wanted += [access.index.offset, *access.index.strides]
        for gathered in access.index.gathered:
            wanted += [gathered.size, gathered.stride]
    wanted += [e.dim for p in nest.passes for e in walk(*_pass_roots(p)) if isinstance(e, SizeValue)]
    wanted += [e.dim for s in nest.finals for e in walk(*store_roots(s)) if isinstance(e, SizeValue)]
    return wanted


def _pass_roots(walked: Pass) -> list[Expr]:
    roots = [e for r in walked.reduces for e in r.exprs]
    for store in walked.stores:
        roots += store_roots(store)
    return roots


def _lanes(nest: Nest, domain: Domain, width: int, buffer_dtypes: dict[int, DType]) -> int:
    """Lanes of the kernel: as many as 32-bit values fill a register, half of that when everything has 64 bits."""
    loop = domain.vector
    if loop is None:
        return 1
    roots = [e for p in nest.passes for e in _pass_roots(p)] + [e for s in nest.finals for e in store_roots(s)]
    bits = {BITS[element(e.dtype)] for e in walk(*roots) if isinstance(e, Load | Apply)}
    bits |= {BITS[element(buffer_dtypes[s.buffer])] for p in nest.passes for s in p.stores}
    lanes = width // 64 if bits and min(bits - {1}, default=1) == 64 else width // 32
    count = loop.static
    while count is not None and lanes > 1 and lanes >= 2 * max(count, 1):
        lanes //= 2
    return lanes


class NestEmitter:
    """Emits one nest.

    Args:
        shared: The program's context.
        nest: The kernel.
        domain: Its loops; chosen when left out.
    """

    def __init__(self, shared: ProgramContext, nest: Nest, domain: Domain | None = None) -> None:
        self.shared = shared
        self.nest = nest
        self.domain = domain or plan_domain(nest)
        self.levels = loop_levels(self.domain)
        self.buffer_dtypes = {b.id: b.element for b in shared.program.buffers}
        self.lanes = _lanes(nest, self.domain, shared.target.width_bits, self.buffer_dtypes)
        everything = [s for p in nest.passes for s in p.stores] + list(nest.finals)
        self.written = frozenset(s.buffer for s in everything)
        self.passes = [self._plan(p) for p in nest.passes]
        self.finals = self._plan(Pass((), nest.finals))
        self.weight = max(sum(p.weight for p in self.passes), 1)
        self.copies = self._copies()
        self.tiled = self._reads_across()

    def _plan(self, walked: Pass) -> PassPlan:
        roots = _pass_roots(walked)
        here = frozenset(s.buffer for s in walked.stores)
        traits = analyse(roots, self.levels, self.domain.form, self.written, here)
        order = tuple(walk(*roots))
        loads = tuple(e for e in order if isinstance(e, Load))
        inner = [e for e in order if traits[id(e)].level == self.levels.innermost]
        weight = sum(cost(e.function) if isinstance(e, Apply) else 1 for e in inner)
        weight += len(walked.stores) + 2 * len(walked.reduces)
        return PassPlan(walked, order, traits, (*loads, *walked.stores), weight)

    def _copies(self) -> int:
        """Unrolled copies of the column loop."""
        if self.domain.form == ROWS or self.lanes == 1:
            return 1
        heaviest = max((p.weight for p in self.passes), default=1)
        reduces = max((len(p.walked.reduces) for p in self.passes), default=0)
        copies = 4 if heaviest <= 12 and reduces <= 4 else 2 if heaviest <= 40 and reduces <= 8 else 1
        if self.domain.inner and heaviest <= 6 and reduces <= 1:
            copies = 8  # rows lie pages apart: the more of each is read at a time, the better
        return unrolling(copies, self.lanes, self.domain.column.static if self.domain.column else None)

    def _reads_across(self) -> bool:
        """Whether lanes of a map read from rows apart, so that a narrow block of columns should go down all rows.

        The lines that one row touches then serve the following rows too.
        """
        axis = self.levels.vector_axis
        if self.domain.inner or not self.domain.rows or axis < 0 or self.lanes == 1:
            return False
        loads = [a for p in self.passes for a in p.accesses]
        return any(a.index.strides[axis] not in (0, 1, -1) for a in loads)

    # -- functions -------------------------------------------------------------------------------------

    def emit(self) -> str:
        """Emit the task and the step; returns the symbol of the step, `i32 (ptr context)`."""
        task = f"{self.nest.name}.task"
        self._emit_task(task)
        self._emit_step(self.nest.name, task)
        return self.nest.name

    def _begin(self, function: Function, thread: Operand) -> Evaluator:
        dims = self.shared.load_dims(function, "%ctx", self._wanted_dims())
        buffers = [access.buffer for access in accesses(self.nest)]
        bases = self.shared.load_bases(function, "%ctx", buffers, dims, thread)
        values = Evaluator(function, self.shared.target, self.levels, dims, bases, self.buffer_dtypes)
        values.v = VectorEmitter(function, self.shared.target, self.lanes, contract=True)
        values.register(e for p in (*self.passes, self.finals) for e in p.order)
        self._prepare_all(values, 0)
        return values

    def _wanted_dims(self) -> list[DimLike]:
        wanted = nest_dims(self.nest)
        for access in accesses(self.nest):
            buffer = self.shared.program.buffers[access.buffer]
            if buffer.kind == "private":
                wanted += buffer.shape
        return wanted

    def _prepare_all(self, values: Evaluator, level: int) -> None:
        """Compute what any pass needs at a level outside of the passes."""
        for plan in (*self.passes, self.finals):
            values.traits = plan.traits
            values.prepare(plan.order, level)
            for access in plan.accesses:
                values.memory.prepare(access, level)

    def _extent(self, values: Evaluator, loop: LoopAxis) -> Operand:
        return self.shared.product(values.function, loop.extents, dict(values.dims))

    def _emit_task(self, name: str) -> None:
        parameters = (("ptr", "ctx"), ("i64", "lo"), ("i64", "hi"), ("i64", "thread"))
        function = Function(self.shared.module, name, parameters, "i32", linkage="internal")
        values = self._begin(function, "%thread")
        column = self.domain.column
        if not self.domain.rows and column is None:
            self._unit(values, 0, 0)
        elif not self.domain.rows and column is not None:
            size = self._extent(values, column)
            block = self._block()
            if self._single_block():
                self._unit(values, 0, size)
            else:
                start, stop = function.mul("%lo", block), function.smin(function.mul("%hi", block), size)
                self._unit(values, start, stop)
        else:
            self._rows(values)
        function.ret(0)

    def _rows(self, values: Evaluator) -> None:
        """Loop over units, the positions of the outer loops carried along like the digits of a counter."""
        function, column = values.function, self.domain.column
        extents = [self._extent(values, loop) for loop in self.domain.rows]
        size: Operand = 0 if column is None else self._extent(values, column)
        blocked = column is not None and not self._single_block()
        blocks = [function.ceil_div(size, self._block())] if blocked else []
        digits = [*blocks, *extents] if self.tiled else [*extents, *blocks]
        first = self._digits(function, "%lo", digits)
        single = len(digits) == 1
        carried = [] if single else [("i64", d) for d in first]
        with function.loop("%lo", "%hi", 1, carried) as loop:
            current: tuple[Operand, ...] = (loop.index,) if single else loop.carried
            positions = current[1:] if self.tiled and blocked else current
            for axis, position in zip(self.domain.rows, positions, strict=False):
                values.coordinates[axis.axis] = position
            if blocked:
                start = function.mul(current[0 if self.tiled else -1], self._block())
                self._unit(values, start, function.smin(function.add(start, self._block()), size))
            else:
                self._unit(values, 0, size)
            loop.next(*([] if single else self._advance(function, current, digits)))

    @staticmethod
    def _digits(function: Function, number: Operand, sizes: list[Operand]) -> list[Operand]:
        """Positions of a flat number."""
        digits: list[Operand] = []
        for size in reversed(sizes[1:]):
            size = function.umax(size, 1)  # an empty domain must not divide by zero
            digits.append(function.urem(number, size))
            number = function.udiv(number, size)
        return [number, *reversed(digits)]

    @staticmethod
    def _advance(function: Function, digits: tuple[Operand, ...], sizes: list[Operand]) -> list[Operand]:
        """The positions of the next number."""
        following: list[Operand] = []
        carry: Operand = 1
        for digit, size in zip(reversed(digits[1:]), reversed(sizes[1:]), strict=True):
            raised = function.add(digit, carry)
            full = function.icmp("eq", raised, size)
            following.append(function.select(full, 0, raised))
            carry = function.zext(full, "i1", "i64") if isinstance(full, str) else int(full)
        return [function.add(digits[0], carry), *reversed(following)]

    def _unit(self, values: Evaluator, start: Operand, stop: Operand) -> None:
        """One unit: the positions of the outer loops are set."""
        values.open()
        if self.domain.form == COLUMNS:
            self._prepare_all(values, 1)
            self.column_range(values, start, stop)
        else:
            self._run_passes(values)
        values.close()

    def column_range(self, values: Evaluator, start: Operand, stop: Operand) -> None:
        """Columns start … stop-1 at one point of the other outer loops."""
        column = self.domain.column
        if column is None:
            values.open()
            self._run_passes(values)
            values.close()
            return
        body = self._column_body(values, column)
        for_lanes(values, start, stop, self.copies, body)

    def _column_body(self, values: Evaluator, column: LoopAxis) -> Callable[[Operand], None]:
        def body(position: Operand) -> None:
            values.coordinates[column.axis] = position
            values.open()
            self._run_passes(values)
            values.close()

        return body

    def _run_passes(self, values: Evaluator) -> None:
        for plan in self.passes:
            PassEmitter(self, values, plan).emit()
        if not self.nest.finals:
            return
        with self.open_pass(values, self.finals):
            for store in self.nest.finals:
                if self.domain.form == ROWS:
                    values.memory.store_scalar(store)
                    continue
                for copy in range(values.copies):
                    values.memory.store_lanes(store, copy)

    @contextmanager
    def open_pass(self, values: Evaluator, plan: PassPlan) -> Iterator[None]:
        """The frame of a pass, with what is fixed when it begins."""
        values.open()
        values.traits = plan.traits
        values.prepare(plan.order, self.levels.base)
        for access in plan.accesses:
            values.memory.prepare(access, self.levels.base)
        yield
        values.close()

    # -- the step --------------------------------------------------------------------------------------

    def _block(self) -> int:
        """Columns per unit."""
        if self.domain.inner or self.tiled:
            return self.lanes * self.copies
        return COLUMNS_PER_UNIT if self.weight <= 20 else COLUMNS_PER_UNIT // 4

    def _single_block(self) -> bool:
        count = self.domain.column.static if self.domain.column else 1
        return count is not None and count <= self._block()

    def _emit_step(self, name: str, task: str) -> None:
        function = Function(self.shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        dims = self.shared.load_dims(function, "%ctx", self.nest.extents)
        product = self.shared.product
        units = product(function, [e for loop in self.domain.rows for e in loop.extents], dims)
        points = product(function, [e for loop in self.domain.inner for e in loop.extents], dims)
        if self.domain.column is not None:
            size = product(function, self.domain.column.extents, dims)
            if self._single_block():
                points = function.mul(points, size)
                if isinstance(size, int) and size == 0:
                    units = 0
            else:
                units = function.mul(units, function.ceil_div(size, self._block()))
                points = function.mul(points, self._block())
        weight = self.weight if self.lanes > 1 else self.weight * SCALAR_PENALTY
        run_units(self.shared, function, task, units, function.add(function.mul(points, weight), 4))

    def emit_region(self, name: str) -> str:
        """Emit the function of a contraction's epilogue: `void (ptr ctx, batch, m0, m1, n0, n1)`.

        The domain has the axes (batch …, m, n), none collapsed, and no inner ones. The third word of the context is
        added to the batch number.
        """
        parameters = (("ptr", "ctx"), *(("i64", p) for p in ("batch", "m0", "m1", "n0", "n1")))
        function = Function(self.shared.module, name, parameters, linkage="internal")
        values = self._begin(function, 0)
        *batch, row = self.domain.rows
        extents = [self._extent(values, loop) for loop in batch]
        if batch:
            first = function.load("i64", function.gep_bytes("%ctx", 16))
            digits = self._digits(function, function.add(first, "%batch"), extents)
            for loop_axis, position in zip(batch, digits, strict=True):
                values.coordinates[loop_axis.axis] = position
        with function.loop("%m0", "%m1") as loop:
            values.coordinates[row.axis] = loop.index
            self._unit(values, "%n0", "%n1")
            loop.next()
        function.ret()
        return name
