"""A compiled program on a device: its memory, its launches, its results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlxlang.backends.base import Prepare
from rlxlang.backends.opencl.c_expr import ARENA, SCRATCH
from rlxlang.backends.opencl.c_nest import KernelPlan
from rlxlang.backends.opencl.c_sort import COUNTED, RUN, SCRATCH_BYTES
from rlxlang.backends.opencl.device import OpenClDevice
from rlxlang.backends.opencl.program import ProgramSource
from rlxlang.diagnostics.errors import InternalError, RlxBackendError
from rlxlang.kernels import Branch, Buffer, Copy, Library, Loop, Program, Sort, Step, While, call_routine
from rlxlang.types import DimLike, evaluate, product

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST_BYTES = 64  # OpenCL knows no empty buffers
_KEPT_SIZES = 64
_SCRATCH_ITEMS = 1 << 14  # work-items that have private memory at once, at most
_SCRATCH_BYTES = 1 << 26  # and about so much of it


class OpenClExecutable:
    """A program for one device; the same code serves every combination of sizes.

    Runs of one executable, and of all on one device, take turns.
    """

    def __init__(self, program: Program, source: ProgramSource, device: OpenClDevice) -> None:
        self.program = program
        self.source = source.text
        self._source = source
        self._device = device
        self._memory: dict[int, Any] = {}
        self._tables: dict[tuple[int, ...], Array] = {}
        self._on_device: Array | None = None  # the table that lies on the device
        self._table_memory: Any = None
        self._kernels: dict[str, Any] = {}
        if source.kernels:
            self._build()

    def _build(self) -> None:
        import pyopencl as cl

        with warnings.catch_warnings():
            # A driver's remarks on correct code are no concern of the user.
            warnings.simplefilter("ignore")
            try:
                built = cl.Program(self._device.context, self.source).build(list(self._device.options))
            except cl.Error as problem:
                raise InternalError(f"the OpenCL compiler refuses the program: {problem}", stage="opencl") from problem
            for plans in self._source.kernels.values():
                for plan in plans:
                    self._kernels[plan.function] = cl.Kernel(built, plan.function)

    def run(self, arrays: Mapping[int, Array], sizes: Mapping[str, int]) -> list[Array]:
        """Run once; see `rlxlang.backends.base.Executable.run`.

        Raises:
            RlxBackendError: The process was forked, or the device failed (memory).
        """
        import pyopencl as cl

        self._device.check_process()
        with self._device.lock:
            run = _Run(self, sizes)
            try:
                return run.perform(arrays)
            except cl.Error as problem:
                self._device.queue.finish()  # nothing may still write to arrays that go away
                name = self._device.record.name
                raise RlxBackendError(f"`{self.program.name}` failed on {name}: {problem}", code="E0700") from problem

    def bind(
        self,
        fixed: Mapping[int, Array],
        prepare: Prepare,
        result: str,
        name: str,
    ) -> Callable[..., object]:
        """A function of the inputs; see `rlxlang.backends.base.Executable.bind`."""
        inputs = [b.id for b in self.program.buffers if b.kind == "input"]
        held = dict(fixed)

        def call(*args: object) -> object:
            arrays, sizes = prepare(args)
            outputs = self.run({**held, **dict(zip(inputs, arrays, strict=True))}, sizes)
            if result == "tuple":
                return tuple(outputs)
            return float(outputs[0].reshape(-1)[0]) if result == "float" else outputs[0]

        call.__name__ = name
        return call

    # What a run uses; the device's lock is held.

    @property
    def queue(self) -> Any:
        """The device's queue."""
        return self._device.queue

    @property
    def code(self) -> ProgramSource:
        """The program as it was compiled."""
        return self._source

    def kernel(self, plan: KernelPlan) -> Any:
        """The kernel of a plan."""
        return self._kernels[plan.function]

    def memory(self, root: int, count: int) -> Any:
        """Memory of at least `count` bytes for a root; constants are uploaded when it is made."""
        import pyopencl as cl

        held = self._memory.get(root)
        if held is not None and held.size >= count:
            return held
        made = cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, max(count, _LEAST_BYTES))
        self._memory[root] = made
        if root >= 0 and self.program.buffers[root].data is not None:
            upload(self.queue, made, np.ascontiguousarray(self.program.buffers[root].data), wait=True)
        return made

    def table(self, sizes: Mapping[str, int]) -> Any:
        """The table of sizes, on the device."""
        import pyopencl as cl

        key = tuple(sizes[axis] for axis in self.program.axes)
        values = self._tables.get(key)
        if values is None:
            if len(self._tables) >= _KEPT_SIZES:
                self._tables.clear()
            values = np.array([evaluate(d, sizes) for d in self._source.table], np.int64)
            self._tables[key] = values
        if self._table_memory is None:
            self._table_memory = cl.Buffer(
                self._device.context, cl.mem_flags.READ_ONLY, max(values.nbytes, _LEAST_BYTES)
            )
        if self._on_device is not values:
            upload(self.queue, self._table_memory, values, wait=True)
            self._on_device = values
        return self._table_memory


def upload(queue: Any, memory: Any, array: Array, *, wait: bool = False) -> Any:
    """Copy an array to the start of device memory; gives the event, which keeps the array alive and is waited for when it goes away."""
    import pyopencl as cl

    if not array.nbytes:
        return None
    return cl.enqueue_copy(queue, memory, array.reshape(-1).view(np.uint8), is_blocking=wait)


@dataclass(slots=True)
class _Place:
    """Where a buffer lies in a run."""

    root: int
    offset: int
    bytes: int


class _Run:
    """One run: everything is enqueued in order, and waited for once at the end and wherever a predicate is read."""

    def __init__(self, executable: OpenClExecutable, sizes: Mapping[str, int]) -> None:
        self.executable = executable
        self.program = executable.program
        self.sizes = sizes
        self.starts: dict[int, int] = {}  # byte offsets of views in the buffers below them
        self.bytes = {ARENA: self.value(self.program.arena)}
        for buffer in self.program.buffers:
            if buffer.kind not in ("temp", "private", "view"):
                self.bytes[buffer.id] = self.size(buffer)
        self.table: Any = None
        self.copies: list[Any] = []  # events of copies from and to arrays: letting go of one waits for it

    def value(self, dim: DimLike) -> int:
        return evaluate(dim, self.sizes)

    def size(self, buffer: Buffer) -> int:
        """Bytes of one copy of a buffer."""
        return self.value(product(buffer.shape)) * buffer.dtype.bytes

    def memory(self, root: int) -> Any:
        return self.executable.memory(root, self.bytes[root])

    def place(self, number: int) -> _Place:
        """Where a buffer lies now."""
        layout = self.executable.code.layout
        owner = self.program.buffers[layout.owner(number)]
        offset = self.value(owner.offset) if owner.kind == "temp" else 0
        return _Place(layout.root(number), offset + self.starts.get(number, 0), self.size(self.program.buffers[number]))

    def perform(self, arrays: Mapping[int, Array]) -> list[Array]:
        """Upload, run all steps, download."""
        import pyopencl as cl

        queue = self.executable.queue
        self.table = self.executable.table(self.sizes)
        given = [b for b in self.program.buffers if b.kind in ("input", "param", "state")]
        for buffer in given:
            array = arrays[buffer.id]
            if array.nbytes != self.bytes[buffer.id]:
                text = f"buffer {buffer.id} `{buffer.name}` was given {array.nbytes} bytes, not {self.bytes[buffer.id]}"
                raise InternalError(text, stage="run")
            self.copies.append(upload(queue, self.memory(buffer.id), array))
        for step in self.program.steps:
            self.step(step)
        results = []
        for number in self.program.outputs:
            shape = tuple(self.value(d) for d in self.program.buffers[number].shape)
            results.append(np.empty(shape, self.program.buffers[number].dtype.numpy))
            self.download(results[-1], self.place(number))
        for buffer in given:
            if buffer.kind == "state" and buffer.id in self.executable.code.written:
                self.download(arrays[buffer.id], self.place(buffer.id))
        cl.enqueue_marker(queue).wait()
        return results

    def download(self, array: Array, place: _Place) -> None:
        """Have a buffer copied into an array, which is there after the wait."""
        import pyopencl as cl

        if array.nbytes:
            flat = array.reshape(-1).view(np.uint8)
            memory = self.memory(place.root)
            event = cl.enqueue_copy(self.executable.queue, flat, memory, src_offset=place.offset, is_blocking=False)
            self.copies.append(event)

    def step(self, step: Step) -> None:
        """Enqueue a step; loops and branches nest as deep as the program's text."""
        if isinstance(step, Loop):
            self.loop(step)
        elif isinstance(step, While):
            self.repeat(step)
        elif isinstance(step, Branch):
            for below in step.then if self.holds(step.predicate) else step.orelse:
                self.step(below)
        elif isinstance(step, Copy):
            self.copy(step)
        elif isinstance(step, Library):
            self.library(step)
        elif isinstance(step, Sort):
            self.sort(step)
        else:
            for plan in self.executable.code.kernels[id(step)]:
                self.launch(plan)

    def loop(self, loop: Loop) -> None:
        import pyopencl as cl

        count = self.value(loop.count)
        for number in range(count):
            for window in loop.windows:
                place = count - 1 - number if window.reverse else number
                view = self.program.buffers[window.view]
                moved = place * self.value(window.stride) * view.dtype.bytes
                self.starts[window.view] = self.starts.get(window.base, 0) + moved
            if loop.index >= 0:
                step = count - 1 - number if loop.reverse else number
                where = self.place(loop.index)
                cl.enqueue_fill_buffer(
                    self.executable.queue, self.memory(where.root), np.array(step, np.int64), where.offset, where.bytes
                )
            for below in loop.body:
                self.step(below)

    def repeat(self, loop: While) -> None:
        """Run a loop whose end only its condition knows: the predicate is read before each step."""
        left = None if loop.limit is None else self.value(loop.limit)
        while left is None or left > 0:
            for below in loop.condition:
                self.step(below)
            if not self.holds(loop.predicate):
                return
            for below in loop.body:
                self.step(below)
            left = None if left is None else left - 1

    def holds(self, predicate: int) -> bool:
        """The truth of a Bool buffer of one element, once everything before it has run."""
        import pyopencl as cl

        answer = np.empty(1, np.uint8)
        place = self.place(predicate)
        cl.enqueue_copy(
            self.executable.queue, answer, self.memory(place.root), src_offset=place.offset, is_blocking=True
        )
        return bool(answer[0])

    def library(self, step: Library) -> None:
        """Run a routine on the host, between what was enqueued before and what comes after."""
        import pyopencl as cl

        queue, given = self.executable.queue, []
        for number in step.arguments:
            buffer = self.program.buffers[number]
            given.append(np.empty(tuple(self.value(d) for d in buffer.shape), buffer.dtype.numpy))
            self.download(given[-1], self.place(number))
        cl.enqueue_marker(queue).wait()
        found = call_routine(step.routine, given, dict(step.options), step.where)
        for number, result in zip(step.results, found, strict=True):
            place = self.place(number)
            flat = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
            if place.bytes:
                cl.enqueue_copy(queue, self.memory(place.root), flat, dst_offset=place.offset, is_blocking=True)

    def copy(self, step: Copy) -> None:
        import pyopencl as cl

        source, target = self.place(step.source), self.place(step.target)
        if not source.bytes or (source.root, source.offset) == (target.root, target.offset):
            return
        cl.enqueue_copy(
            self.executable.queue,
            self.memory(target.root),
            self.memory(source.root),
            byte_count=source.bytes,
            src_offset=source.offset,
            dst_offset=target.offset,
        )

    def sort(self, step: Sort) -> None:
        """Sort some rows at a time, each in one work-item, or all together: short ones by counting, long ones by merging runs."""
        plan = self.executable.code.sorts[id(step)]
        rows, length, count = (self.value(d) for d in (step.rows, step.length, step.count))
        if not rows or not count:
            return
        at_once = min(rows, max(SCRATCH_BYTES // (length * plan.entry_bytes), 1))
        self.bytes[SCRATCH] = at_once * length * plan.entry_bytes
        for first in range(0, rows, at_once):
            here = min(at_once, rows - first)
            some = np.int64(first), np.int64(here)
            if plan.rows is not None:
                self.enqueue(plan.rows, (here,), some)
            if plan.together is None:
                continue
            keys, runs, merge, finish = plan.together
            self.enqueue(keys, (here * length,), some)
            whole = length <= COUNTED
            width, half = length if whole else RUN, 1
            self.enqueue(runs, (here * length,), (*some, np.int64(width), np.int32(whole)))
            while width < length:
                self.enqueue(merge, (here * length,), (*some, np.int64(width), np.int32(half)))
                width, half = 2 * width, 1 - half
            if not whole:
                self.enqueue(finish, (here * count,), (*some, np.int32(half)))

    def launch(self, plan: KernelPlan) -> None:
        """Enqueue a kernel unless it has nothing to do."""
        if any(self.value(d) <= 0 for d in plan.empty):
            return
        items = [self.value(d) for d in plan.items]
        scratch = self.value(plan.scratch)
        if scratch:
            items = [min(items[0], max(_SCRATCH_BYTES // scratch, 1), _SCRATCH_ITEMS)]
        self.bytes[SCRATCH] = scratch * -(-items[0] // plan.local[0]) * plan.local[0]
        self.enqueue(plan, items)

    def enqueue(self, plan: KernelPlan, items: Sequence[int], further: tuple[Any, ...] = ()) -> None:
        """Enqueue a kernel with at least so many work-items; `further` arguments come last."""
        import pyopencl as cl

        grid = tuple(-(-n // group) * group for n, group in zip(items, plan.local, strict=True))
        kernel = self.executable.kernel(plan)
        starts = [np.int64(self.starts[v]) for v in plan.views]
        kernel.set_args(*(self.memory(r) for r in plan.roots), self.table, *starts, *further)
        cl.enqueue_nd_range_kernel(self.executable.queue, kernel, grid, plan.local)
