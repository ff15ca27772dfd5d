"""The backend that interprets kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from rlxlang.backends.base import Prepare
from rlxlang.backends.reference.domain import Domain, Evaluator
from rlxlang.backends.reference.functions import cast
from rlxlang.backends.reference.memory import Memory, poison
from rlxlang.backends.reference.nest import run_nest
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import (
    Branch,
    Contract,
    Copy,
    Library,
    Loop,
    Nest,
    Operand,
    Program,
    Sort,
    Step,
    While,
    call_routine,
    first_sorted,
)

Array: TypeAlias = "np.ndarray[Any, Any]"


class ReferenceExecutable:
    """A program that is interpreted anew in each run."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def run(self, arrays: Mapping[int, Array], sizes: Mapping[str, int]) -> list[Array]:
        """Run once; see `rlxlang.backends.base.Executable.run`.

        Raises:
            InternalError: The program reads or writes outside of a buffer, or breaks another rule of kernels.
        """
        memory = Memory(self.program, arrays, sizes)
        for step in self.program.steps:
            _run_step(step, memory)
        taken: set[int] = set()
        results = []
        for buffer in self.program.outputs:
            if buffer in memory.outputs and buffer not in taken:
                results.append(memory.outputs[buffer])
            else:
                record = self.program.buffers[buffer]
                shape = tuple(memory.value(d) for d in record.shape)
                results.append(memory.flat(buffer).view(record.dtype.numpy).reshape(shape).copy())
            taken.add(buffer)
        return results

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


class ReferenceBackend:
    """Interprets kernels with NumPy, every access checked: a test tool."""

    name = "reference"

    def compile(self, program: Program, key: bytes | None = None) -> ReferenceExecutable:
        """Wrap a program; nothing is compiled and `key` is not needed."""
        return ReferenceExecutable(program)


def _run_step(step: Step, memory: Memory) -> None:
    """Run a step; loops and branches nest as deep as the program's text."""
    if isinstance(step, Nest):
        run_nest(step, memory)
    elif isinstance(step, Contract):
        _run_contract(step, memory)
    elif isinstance(step, Copy):
        _run_copy(step, memory)
    elif isinstance(step, Library):
        _run_library(step, memory)
    elif isinstance(step, Sort):
        _run_sort(step, memory)
    elif isinstance(step, While):
        _run_while(step, memory)
    elif isinstance(step, Branch):
        for below in step.then if _holds(step.predicate, memory) else step.orelse:
            _run_step(below, memory)
    else:
        _run_loop(step, memory)


def _run_copy(step: Copy, memory: Memory) -> None:
    source, target = memory.flat(step.source), memory.flat(step.target)
    if source.size != target.size or source.dtype != target.dtype:
        text = f"copy of {memory.describe(step.source)} to {memory.describe(step.target)}"
        raise InternalError(text, stage="lower")
    target[...] = source.copy()


def _run_library(step: Library, memory: Memory) -> None:
    def shaped(number: int) -> Array:
        buffer = memory.program.buffers[number]
        return memory.flat(number).view(buffer.dtype.numpy).reshape(tuple(memory.value(d) for d in buffer.shape))

    found = call_routine(step.routine, [shaped(k) for k in step.arguments], dict(step.options), step.where)
    for number, result in zip(step.results, found, strict=True):
        target = shaped(number)
        if result.shape != target.shape or result.dtype != target.dtype:
            text = f"`{step.routine}` gave {result.dtype}{list(result.shape)} for {memory.describe(number)}"
            raise InternalError(text, stage="lower")
        target[...] = result


def _run_sort(step: Sort, memory: Memory) -> None:
    rows, length, count = (memory.value(d) for d in (step.rows, step.length, step.count))
    found = first_sorted(memory.flat(step.source).reshape(rows, length), count, step.descending)
    for number, result in zip((step.values, step.indices), found, strict=True):
        if number >= 0:
            target = memory.flat(number)
            if target.size != result.size:
                text = f"kernel `{step.name}`: {memory.describe(number)} cannot hold {list(result.shape)}"
                raise InternalError(text, stage="lower")
            target[...] = result.reshape(-1)


def _run_loop(loop: Loop, memory: Memory) -> None:
    count = memory.value(loop.count)
    for number in range(count):
        for window in loop.windows:
            place = count - 1 - number if window.reverse else number
            memory.move_view(window.view, window.base, place * memory.value(window.stride))
        if loop.index >= 0:
            memory.flat(loop.index)[0] = count - 1 - number if loop.reverse else number
        for below in loop.body:
            _run_step(below, memory)
    for window in loop.windows:
        memory.close_view(window.view)


def _run_while(loop: While, memory: Memory) -> None:
    left = None if loop.limit is None else memory.value(loop.limit)
    while left is None or left > 0:
        for below in loop.condition:
            _run_step(below, memory)
        if not _holds(loop.predicate, memory):
            return
        for below in loop.body:
            _run_step(below, memory)
        left = None if left is None else left - 1


def _holds(predicate: int, memory: Memory) -> bool:
    """The truth of a Bool buffer of one element.

    Raises:
        InternalError: Nothing has been written there.
    """
    bits = int(memory.flat(predicate).view(np.uint8)[0])
    if bits > 1:
        raise InternalError(f"{memory.describe(predicate)} is tested before it is written", stage="lower")
    return bits == 1


def _run_contract(step: Contract, memory: Memory) -> None:
    batch = tuple(memory.value(d) for d in step.batch)
    m, n, k = memory.value(step.m), memory.value(step.n), memory.value(step.k)
    shape = (*batch, m, n)
    if 0 in shape:
        return
    left = _operand(step, step.left, (*batch, m, k), memory)
    right = _operand(step, step.right, (*batch, k, n), memory)
    with np.errstate(all="ignore"):
        if step.dtype.is_float:  # sums in F64, rounded once
            result = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(step.dtype.numpy)
        else:
            result = np.matmul(left, right)
    target = memory.flat(step.target)
    if target.size < result.size:
        text = f"kernel `{step.name}`: {memory.describe(step.target)} cannot hold {list(shape)}"
        raise InternalError(text, stage="lower")
    if step.keeps_target:
        target[: result.size] = cast(result, memory.program.buffers[step.target].element).reshape(-1)
    else:
        poison(target[: result.size])
    if step.epilogue:
        domain = Domain(tuple((0, d) for d in shape), len(shape))
        Evaluator(memory, domain, step.name, accumulator=result).store_all(step.epilogue)


def _operand(step: Contract, operand: Operand, shape: tuple[int, ...], memory: Memory) -> Array:
    """A matrix operand as an array of the contraction's dtype.

    Raises:
        InternalError: It leaves its buffer.
    """
    position = np.full((1,) * len(shape), memory.value(operand.offset), np.int64)
    for axis, dim in enumerate((*operand.batch, operand.row, operand.column)):
        along = np.arange(shape[axis], dtype=np.int64) * memory.value(dim)
        position = position + along.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    source = memory.flat(operand.buffer)
    if position.size and (position.min() < 0 or position.max() >= source.size):
        text = f"reads elements {position.min()}…{position.max()} of {memory.describe(operand.buffer)}"
        raise InternalError(f"kernel `{step.name}`: {text} with {source.size} elements", stage="lower")
    return cast(source[position], step.dtype)
