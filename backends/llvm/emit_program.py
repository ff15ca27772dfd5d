"""A whole program as one LLVM module with one entry, `i32 main(ptr buffers, ptr dims)`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rlxlang.backends.llvm.emit_context import CONTEXT_BYTES, ProgramContext
from rlxlang.backends.llvm.emit_contract import as_nest, emit_contract
from rlxlang.backends.llvm.emit_loops import run_units
from rlxlang.backends.llvm.emit_memory import element_bytes
from rlxlang.backends.llvm.emit_nest import NestEmitter
from rlxlang.backends.llvm.emit_sort import SortEmitter
from rlxlang.backends.llvm.plan import ENTRY, LIBRARY
from rlxlang.backends.llvm.text import Function, Operand
from rlxlang.backends.llvm.vector import VectorTarget
from rlxlang.kernels import Branch, Buffer, Contract, Copy, Library, Loop, Nest, Program, Sort, Step, While

COPY_UNIT = 65536
"""Bytes that one unit of a copy moves."""


def with_own_outputs(program: Program) -> Program:
    """The program with every output in a buffer of its own: an input given back, or one result twice, is copied."""
    buffers, steps, outputs = list(program.buffers), list(program.steps), list[int]()
    for number in program.outputs:
        if program.buffers[number].kind == "output" and number not in outputs:
            outputs.append(number)
            continue
        copy = replace(program.buffers[number], id=len(buffers), kind="output", data=None, offset=0)
        buffers.append(copy)
        steps.append(Copy(number, copy.id))
        outputs.append(copy.id)
    if len(buffers) == len(program.buffers):
        return program
    return replace(program, buffers=tuple(buffers), steps=tuple(steps), outputs=tuple(outputs))


class ProgramEmitter:
    """Emits a program.

    Args:
        program: One whose outputs have buffers of their own.
        target: The machine.
    """

    def __init__(self, program: Program, target: VectorTarget) -> None:
        self.shared = ProgramContext.of(program, target)
        self.serial = 0
        # Libraries are called by their number in the order of the program, as `plan_of` lists them.
        self.libraries = {id(s): k for k, s in enumerate(s for s in program.walk() if isinstance(s, Library))}

    def emit(self) -> str:
        """The module as text."""
        shared = self.shared
        symbols = [self._step(step) for step in shared.program.steps]
        function = Function(shared.module, ENTRY, (("ptr", "buffers"), ("ptr", "dims")), "i32")
        context = function.alloca("ptr", CONTEXT_BYTES // 8, 8)
        buffers = "%buffers"
        if any(isinstance(step, Loop) for step in shared.program.walk()):
            # Loops move their views in a table of this call.
            count = len(shared.program.buffers) + 1
            buffers = function.alloca("ptr", count, 8)
            self._memcpy(function, buffers, "%buffers", 8 * count)
        function.store("ptr", buffers, context)
        function.store("ptr", "%dims", function.gep_bytes(context, 8))
        function.ret(self._call_all(function, symbols, context))
        return shared.module.render()

    def _name(self, hint: str) -> str:
        self.serial += 1
        return f"k{self.serial}.{re.sub(r'[^A-Za-z0-9_.]', '_', hint)}"

    @staticmethod
    def _call_all(function: Function, symbols: list[str], context: str) -> Operand:
        """Call steps in order; returns the statuses or-ed."""
        status: Operand = 0
        for symbol in symbols:
            status_here = function.call("i32", symbol, [("ptr", context)])
            status = status_here if isinstance(status, int) else function.or_(status, status_here, "i32")
        return status

    def _step(self, step: Step) -> str:
        """Emit a step; returns its symbol. Loops and branches nest as deep as the program's text."""
        if isinstance(step, Nest):
            return NestEmitter(self.shared, replace(step, name=self._name(step.name))).emit()
        if isinstance(step, Contract):
            return emit_contract(self.shared, replace(step, name=self._name(step.name)))
        if isinstance(step, While):
            return self._while(step)
        if isinstance(step, Branch):
            return self._branch(step)
        if isinstance(step, Library):
            return self._library(step)
        if isinstance(step, Sort):
            return SortEmitter(self.shared, replace(step, name=self._name(step.name))).emit()
        return self._copy(step) if isinstance(step, Copy) else self._loop(step)

    # -- routines of the library -----------------------------------------------------------------------

    def _library(self, step: Library) -> str:
        """Call back with the addresses of the buffers; the table of buffers ends with what tells the program."""
        shared, name = self.shared, self._name(step.name)
        function = Function(shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        numbers = (*step.arguments, *step.results)
        bases = shared.load_bases(function, "%ctx", numbers, {}, 0)
        places = function.alloca("ptr", max(len(numbers), 1), 8)
        for position, number in enumerate(numbers):
            function.store("ptr", bases[number], function.gep("ptr", places, position))
        table = function.load("ptr", "%ctx")
        program = function.load("i64", function.gep("ptr", table, len(shared.program.buffers)))
        sizes = function.load("ptr", function.gep_bytes("%ctx", 8))
        given: list[tuple[str, Operand]] = [("i64", program), ("i64", self.libraries[id(step)])]
        function.ret(function.call("i32", LIBRARY, [*given, ("ptr", places), ("ptr", sizes)]))
        return name

    # -- copies ----------------------------------------------------------------------------------------

    @staticmethod
    def _memcpy(function: Function, target: str, source: str, size: Operand) -> None:
        function.call("ptr", "memcpy", [("ptr", target), ("ptr", source), ("i64", size)])

    def _bytes(self, function: Function, buffer: Buffer) -> Operand:
        dims = self.shared.load_dims(function, "%ctx", buffer.shape)
        return function.mul(self.shared.product(function, buffer.shape, dims), element_bytes(buffer.dtype))

    def _copy(self, step: Copy) -> str:
        shared, name = self.shared, self._name("copy")
        source = shared.program.buffers[step.source]
        parameters = (("ptr", "ctx"), ("i64", "lo"), ("i64", "hi"), ("i64", "thread"))
        task = Function(shared.module, f"{name}.task", parameters, "i32", linkage="internal")
        bases = shared.load_bases(task, "%ctx", (step.source, step.target), {}, 0)
        start = task.mul("%lo", COPY_UNIT)
        stop = task.smin(task.mul("%hi", COPY_UNIT), self._bytes(task, source))
        target = task.gep_bytes(bases[step.target], start)
        self._memcpy(task, target, task.gep_bytes(bases[step.source], start), task.sub(stop, start))
        task.ret(0)
        function = Function(shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        units = function.ceil_div(self._bytes(function, source), COPY_UNIT)
        run_units(shared, function, f"{name}.task", units, COPY_UNIT // 4)
        return name

    # -- loops -----------------------------------------------------------------------------------------

    def _loop(self, step: Loop) -> str:
        shared, name = self.shared, self._name(step.name)
        symbols = [self._step(below) for below in step.body]
        function = Function(shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        dims = shared.load_dims(function, "%ctx", (step.count, *(w.stride for w in step.windows)))
        table = function.load("ptr", "%ctx")
        count = step.count if isinstance(step.count, int) else dims[step.count]
        last = function.sub(count, 1)
        with function.loop(0, count, 1, [("i32", 0)]) as loop:
            number: Operand = function.sub(last, loop.index) if step.reverse else loop.index
            for window in step.windows:
                place: Operand = function.sub(last, loop.index) if window.reverse else loop.index
                stride = window.stride if isinstance(window.stride, int) else dims[window.stride]
                offset = function.mul(function.mul(place, stride), self._element_bytes(window.view))
                base = function.load("ptr", function.gep("ptr", table, window.base))
                slot = function.gep("ptr", table, window.view)
                function.store("ptr", function.gep_bytes(base, offset), slot)
            if step.index >= 0:
                place_of_index = function.load("ptr", function.gep("ptr", table, step.index))
                function.store("i64", number, place_of_index)
            status = self._call_all(function, symbols, "%ctx")
            loop.next(function.or_(loop.carried[0], status, "i32"))
        function.ret(loop.results[0])
        return name

    def _while(self, step: While) -> str:
        shared, name = self.shared, self._name(step.name)
        test, body = [[self._step(below) for below in steps] for steps in (step.condition, step.body)]
        function = Function(shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        dims = shared.load_dims(function, "%ctx", () if step.limit is None else (step.limit,))
        steps, faults = function.alloca("i64", 1, 8), function.alloca("i32", 1, 4)
        function.store("i64", 0, steps)
        function.store("i32", 0, faults)
        head, ask, again, done = (function.new_label(word) for word in ("head", "test", "body", "done"))
        function.jump(head)
        function.label(head)
        if step.limit is None:
            function.jump(ask)
        else:
            limit = step.limit if isinstance(step.limit, int) else dims[step.limit]
            function.jump_if(function.icmp("slt", function.load("i64", steps), limit), ask, done)
        function.label(ask)
        self._note_faults(function, self._call_all(function, test, "%ctx"), faults)
        # A fault ends the loop: what the condition reads then may never become false.
        sound = function.icmp("eq", function.load("i32", faults), 0, "i32")
        function.jump_if(function.and_(self._holds(function, step.predicate), sound, "i1"), again, done)
        function.label(again)
        self._note_faults(function, self._call_all(function, body, "%ctx"), faults)
        function.store("i64", function.add(function.load("i64", steps), 1), steps)
        function.jump(head)
        function.label(done)
        function.ret(function.load("i32", faults))
        return name

    def _branch(self, step: Branch) -> str:
        shared, name = self.shared, self._name(step.name)
        then, orelse = [[self._step(below) for below in steps] for steps in (step.then, step.orelse)]
        function = Function(shared.module, name, (("ptr", "ctx"),), "i32", linkage="internal")
        with function.if_(self._holds(function, step.predicate)):
            function.ret(self._call_all(function, then, "%ctx"))
        function.ret(self._call_all(function, orelse, "%ctx"))
        return name

    @staticmethod
    def _note_faults(function: Function, status: Operand, faults: str) -> None:
        function.store("i32", function.or_(function.load("i32", faults), status, "i32"), faults)

    def _holds(self, function: Function, predicate: int) -> Operand:
        """The truth of a Bool buffer of one element."""
        base = self.shared.load_bases(function, "%ctx", (predicate,), {}, 0)[predicate]
        return function.icmp("ne", function.load("i8", base), 0, "i8")

    def _element_bytes(self, buffer: int) -> int:
        return element_bytes(self.shared.program.buffers[buffer].dtype)


@dataclass(frozen=True, slots=True)
class DispatchRow:
    """Which kernel runs some ops: a row of the dispatch report.

    Attributes:
        kernel: Name of the kernel.
        kind: `map`, `rows`, `columns`, `gemm`, `contract`, `copy`, `library`, `sort`, `loop`, `while` or `branch`.
        ops: Names of the graph ops inside.
        note: Lanes and unrolling.
    """

    kernel: str
    kind: str
    ops: tuple[str, ...]
    note: str


def dispatch_rows(program: Program, target: VectorTarget) -> list[DispatchRow]:
    """The kernels of a program in order, bodies of loops after their loop."""
    shared = ProgramContext.of(program, target)
    rows: list[DispatchRow] = []
    for step in program.walk():
        if isinstance(step, Copy):
            rows.append(DispatchRow("copy", "copy", (), f"buffer {step.source} to {step.target}"))
        elif isinstance(step, Library):
            rows.append(DispatchRow(step.name, "library", step.ops, f"NumPy: {step.routine}"))
        elif isinstance(step, Sort):
            note = f"the first {step.count} of {step.length}, {step.rows} rows"
            rows.append(DispatchRow(step.name, "sort", step.ops, note))
        elif isinstance(step, Loop):
            rows.append(DispatchRow(step.name, "loop", (), f"{step.count} times {len(step.body)} steps"))
        elif isinstance(step, While):
            bound = "" if step.limit is None else f", {step.limit} times at most"
            rows.append(DispatchRow(step.name, "while", (), f"{len(step.body)} steps{bound}"))
        elif isinstance(step, Branch):
            rows.append(DispatchRow(step.name, "branch", (), f"{len(step.then)} or {len(step.orelse)} steps"))
        elif isinstance(step, Contract):
            nest = as_nest(shared, step)
            sizes = f"{step.m}×{step.k}×{step.n}" + (", epilogue" if step.epilogue else "")
            rows.append(DispatchRow(step.name, "gemm" if nest is None else "contract", step.ops, sizes))
        else:
            emitter = NestEmitter(shared, step)
            kind = emitter.domain.form if emitter.domain.inner else "map"
            note = f"{emitter.lanes} lanes, {emitter.copies} copies"
            rows.append(DispatchRow(step.name, kind, step.ops, note))
    return rows
