"""Loops in lanes with a masked rest, and the choice between one thread and several."""

from __future__ import annotations

from collections.abc import Callable

from rlxlang.backends.llvm.emit_context import ProgramContext
from rlxlang.backends.llvm.emit_expr import Evaluator
from rlxlang.backends.llvm.text import Function, Operand

LEAST_PARALLEL_COST = 200_000
"""Instruction count (rough, per element) below which a kernel stays on the calling thread."""

LEAST_TASK_COST = 64_000
"""Least cost of what a thread takes at a time."""

TASKS_PER_THREAD = 8

SHORT_LOOP = 512
"""Elements up to which the size of the code counts for more than its speed."""


def for_lanes(values: Evaluator, start: Operand, stop: Operand, copies: int, body: Callable[[Operand], None]) -> None:
    """A loop in lanes without carried values: unrolled copies without masks, then masked lanes for the rest."""
    function, lanes = values.function, values.v.lanes
    main, rest = split_range(values, start, stop, copies)
    if main is not None:
        values.copies = copies
        with function.loop(start, main, lanes * copies) as loop:
            body(loop.index)
            loop.next()
    if not rest:
        return
    values.copies = 1
    with function.loop(start if main is None else main, stop, lanes) as loop:
        values.mask = values.v.tail_mask(function.sub(stop, loop.index)) if lanes > 1 else None
        body(loop.index)
        loop.next()
    values.mask = None


def split_range(values: Evaluator, start: Operand, stop: Operand, copies: int) -> tuple[Operand | None, bool]:
    """Where the unmasked part of a range ends (None: there is none), and whether anything is left after it."""
    function, step = values.function, values.v.lanes * copies
    length = function.sub(stop, start)
    masks_are_cheap = values.v.target.width_bits >= 512
    if isinstance(length, int):
        whole = length - length % step
        if copies == 1 and whole != length and masks_are_cheap:
            return None, True
        return (function.add(start, whole) if whole else None), whole != length
    if step == 1:
        return stop, False
    if copies == 1 and masks_are_cheap:
        return None, True
    return function.add(start, function.and_(length, -step)), True


def unrolling(copies: int, lanes: int, count: int | None) -> int:
    """Copies for a loop over `count` elements (None: unknown): short loops that do not come out even stay small."""
    if count is None:
        return copies
    while copies > 1 and copies * lanes > count:
        copies //= 2
    return copies if count % (copies * lanes) == 0 or count > SHORT_LOOP else 1


def run_units(shared: ProgramContext, function: Function, task: str, units: Operand, cost_each: Operand) -> None:
    """Emit the end of a step: run a task's units here, or on several threads when that pays; returns the status."""
    here: list[tuple[str, Operand]] = [("ptr", "%ctx"), ("i64", 0), ("i64", units), ("i64", 0)]
    total = function.mul(units, cost_each)
    threads = shared.program.threads
    if units == 0 and isinstance(units, int):
        function.ret(0)
        return
    if threads == 1 or units == 1 or (isinstance(total, int) and total < LEAST_PARALLEL_COST):
        function.ret(function.call("i32", task, here))
        return
    small = function.icmp("slt", total, LEAST_PARALLEL_COST)
    if isinstance(small, str):
        with function.if_(small):
            function.ret(function.call("i32", task, here))
    least = function.ceil_div(LEAST_TASK_COST, function.smax(cost_each, 1))
    grain = function.smax(function.smax(least, function.udiv(units, TASKS_PER_THREAD * threads)), 1)
    arguments: list[tuple[str, Operand]] = [
        ("ptr", f"@{task}"),
        ("ptr", "%ctx"),
        ("i64", units),
        ("i64", grain),
        ("i32", threads),
    ]
    function.ret(function.call("i32", "parallel_for_capped", arguments))
