"""Running compiled programs: memory for temporaries, sizes, and the call path."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np

from rlxlang.backends.base import Prepare
from rlxlang.backends.llvm.dispatch import ArraySpec, CallBusyError, FixedOutput, NativeCall, call_entry
from rlxlang.backends.llvm.jit import Loaded
from rlxlang.backends.llvm.plan import ENTRY, GIL_WORK, Plan
from rlxlang.diagnostics.errors import RlxRuntimeError, RlxTypeError
from rlxlang.types import evaluate

Array: TypeAlias = "np.ndarray[Any, Any]"
Result: TypeAlias = Literal["none", "array", "tuple", "float"]

ALIGNMENT = 64
_MOST_PLANS = 64


class SizePlan(NamedTuple):
    """What a combination of sizes decides.

    Attributes:
        dims: Values of the program's dims, as the compiled code reads them.
        shapes: Shape of every buffer that arrays are made or checked for.
        arena: Bytes of temporary memory.
        offsets: (buffer, byte offset) of everything in the arena.
        long: Whether a run is long enough to give up the GIL.
    """

    dims: Array
    shapes: Mapping[int, tuple[int, ...]]
    arena: int
    offsets: tuple[tuple[int, int], ...]
    long: bool


def aligned_bytes(count: int) -> Array:
    """Uninitialised memory that begins at a multiple of 64 bytes, with room to read a little beyond."""
    raw = np.empty(count + 2 * ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count + ALIGNMENT]


class LlvmExecutable:
    """A compiled program; see `rlxlang.backends.base.Executable`. Safe to use from several threads.

    Args:
        plan: Buffers and sizes of the program that was compiled; every output has a buffer of its own.
        loaded: Its code.
    """

    def __init__(self, plan: Plan, loaded: Loaded) -> None:
        self._own = own = plan
        self._loaded = loaded
        self._entry = loaded.address(ENTRY)
        self._plans: dict[tuple[int, ...], SizePlan] = {}
        self._arenas: list[Array] = []
        self._constants = self._aligned_constants()
        # After the buffers stands what tells routines of the library whose call it is.
        self._template = np.zeros(len(own.buffers) + 1, np.uint64)
        if own.libraries:
            from rlxlang.backends.llvm import library

            self._template[-1] = library.register(self)
        for number, array in self._constants.items():
            self._template[number] = array.ctypes.data

    def _aligned_constants(self) -> dict[int, Array]:
        found: dict[int, Array] = {}
        for buffer in self._own.buffers:
            if buffer.kind != "constant" or buffer.data is None:
                continue
            data = np.ascontiguousarray(buffer.data, buffer.dtype.numpy)
            place = aligned_bytes(data.nbytes)
            place[: data.nbytes] = data.reshape(-1).view(np.uint8)
            found[buffer.id] = place
        return found

    @property
    def compiled_plan(self) -> Plan:
        """Buffers, sizes and routines of the program."""
        return self._own

    def fail(self, status: int) -> NoReturn:
        """Raise what a routine has raised, or say that the compiled code reports a fault.

        Raises:
            RlxRuntimeError: The compiled code reports a fault.
        """
        if self._own.libraries:
            from rlxlang.backends.llvm import library

            problem = library.take_problem()
            if problem is not None:
                raise problem
        raise RlxRuntimeError(f"{self._own.name} failed: compiled code returned status {status}")

    def given(self) -> dict[str, int]:
        """The ids of the buffers of inputs, params and states by run-time name."""
        return {b.name: b.id for b in self._own.buffers if b.kind in ("input", "param", "state")}

    # -- sizes -----------------------------------------------------------------------------------------

    def plan(self, sizes: Mapping[str, int]) -> SizePlan:
        """What these sizes decide; worked out once per combination."""
        key = tuple(sizes[axis] for axis in self._own.axes)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(sizes)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)), None)
            self._plans[key] = plan
        return plan

    def _make_plan(self, sizes: Mapping[str, int]) -> SizePlan:
        program = self._own
        dims = np.array([*(evaluate(d, sizes) for d in program.dims), 0], np.int64)
        shapes = {b.id: tuple(evaluate(d, sizes) for d in b.shape) for b in program.buffers if b.kind != "view"}
        offsets = [(b.id, evaluate(b.offset, sizes)) for b in program.buffers if b.kind in ("temp", "private")]
        work = program.work(shapes, sizes)
        return SizePlan(dims, shapes, evaluate(program.arena, sizes), tuple(offsets), work >= GIL_WORK)

    # -- memory ----------------------------------------------------------------------------------------

    def _take_arena(self, size: int) -> Array:
        """An arena of at least this size that nobody else uses."""
        try:
            arena = self._arenas.pop()
        except IndexError:
            return aligned_bytes(size)
        return arena if arena.size >= size else aligned_bytes(size)

    def _give_arena(self, arena: Array) -> None:
        self._arenas.append(arena)

    def _table(self, plan: SizePlan, arena: Array) -> Array:
        """Addresses of all buffers that are known before a call."""
        table = self._template.copy()
        start = arena.ctypes.data
        for number, offset in plan.offsets:
            table[number] = start + offset
        return table

    # -- calls -----------------------------------------------------------------------------------------

    def run(self, arrays: Mapping[int, Array], sizes: Mapping[str, int]) -> list[Array]:
        """Run once; see `rlxlang.backends.base.Executable.run`.

        Raises:
            RlxRuntimeError: The compiled code reports a fault.
        """
        plan = self.plan(sizes)
        arena = self._take_arena(plan.arena)
        table = self._table(plan, arena)
        for number, array in arrays.items():
            table[number] = array.ctypes.data
        outputs = self._make_outputs(plan)
        for number, array in outputs.items():
            table[number] = array.ctypes.data
        status = call_entry(self._entry, table, plan.dims, release_gil=plan.long)
        self._give_arena(arena)
        if status != 0:
            self.fail(status)
        return [outputs[number] for number in self._own.outputs]

    def _make_outputs(self, plan: SizePlan) -> dict[int, Array]:
        return {b.id: np.empty(plan.shapes[b.id], b.dtype.numpy) for b in self._own.buffers if b.kind == "output"}

    def bind(
        self,
        fixed: Mapping[int, Array],
        prepare: Prepare,
        result: str,
        name: str,
    ) -> Callable[..., object]:
        """A function of the inputs; see `rlxlang.backends.base.Executable.bind`."""
        return BoundCall(self, fixed, prepare, cast("Result", result), name).function


class BoundCall:
    """Records a combination of sizes with the call path when it is first met.

    Args:
        executable: The compiled program.
        fixed: Arrays of params and states.
        prepare: Validates and converts arguments.
        result: `array`, `tuple` or `float`.
        name: Name of the function.
    """

    def __init__(
        self,
        executable: LlvmExecutable,
        fixed: Mapping[int, Array],
        prepare: Prepare,
        result: Result,
        name: str,
    ) -> None:
        self._executable = executable
        self._fixed = dict(fixed)
        self._prepare = prepare
        self._result = result
        own = executable._own
        self._inputs = [b.id for b in own.buffers if b.kind == "input"]
        self._dtypes = [own.buffers[number].dtype.numpy for number in self._inputs]
        self._has_state = result == "float" or any(b.kind == "state" for b in own.buffers)
        self._arena = aligned_bytes(0)
        self._lock = threading.RLock()
        self._native = NativeCall(executable._entry, self._slow, name, fail=executable.fail, owners=(executable,))
        self.function = self._native.function
        _bound.add(self)

    def after_fork(self) -> None:
        """In the child of a fork, no other thread holds the lock any more."""
        self._lock = threading.RLock()

    def _slow(self, *args: object, **named: object) -> object:
        """Convert the arguments, record their sizes, run.

        Raises:
            RlxTypeError: An input is given by name.
        """
        if named:
            raise RlxTypeError(f"{self._native.name} takes its inputs by position, not as `{next(iter(named))}=`")
        given, sizes = self._prepare(args)
        # The call path compares dtype objects, of which NumPy may have several that are equal.
        arrays = [np.asarray(a).view(d) for a, d in zip(given, self._dtypes, strict=True)]
        plan = self._executable.plan(sizes)
        with self._lock:
            if self._native._find(arrays) is None:
                self._record(plan, arrays)
        while True:
            try:
                return self._native.run_recorded(arrays)
            except CallBusyError:
                if not self._has_state:
                    return self._run_beside(arrays, plan)
                threading.Event().wait(0.0001)

    def _record(self, plan: SizePlan, arrays: Sequence[Array]) -> None:
        executable = self._executable
        own = executable._own
        if self._arena.size < plan.arena + ALIGNMENT:
            self._arena = aligned_bytes(plan.arena)
        table = self._bound_table(plan, self._arena)
        inputs = [ArraySpec(a.dtype, a.shape) for a in arrays]
        outputs: list[ArraySpec | FixedOutput] = []
        for number in own.outputs:
            dtype, shape = own.buffers[number].dtype.numpy, plan.shapes[number]
            dropped = self._result == "float"
            outputs.append(FixedOutput(np.empty(shape, dtype)) if dropped else ArraySpec(dtype, shape))
        self._native.record(
            inputs,
            outputs,
            self._inputs,
            own.outputs,
            table,
            plan.dims,
            release_gil=plan.long,
            result=self._result,
            owners=(self._arena, *self._fixed.values()),
        )

    def _bound_table(self, plan: SizePlan, arena: Array) -> Array:
        table = self._executable._table(plan, arena)
        for number, array in self._fixed.items():
            table[number] = array.ctypes.data
        return table

    def _run_beside(self, arrays: Sequence[Array], plan: SizePlan) -> object:
        """Run while another thread is in the recorded buffers, in an arena of its own."""
        arena = self._executable._take_arena(plan.arena)
        try:
            return self._native.run_with(arrays, self._bound_table(plan, arena))
        finally:
            self._executable._give_arena(arena)


_bound: weakref.WeakSet[BoundCall] = weakref.WeakSet()


def _after_fork() -> None:
    for call in list(_bound):
        call.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
