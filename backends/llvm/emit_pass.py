"""One pass of a nest: its inner loops, the accumulators carried through them, and its stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlxlang.backends.llvm.emit_domain import ROWS, LoopAxis
from rlxlang.backends.llvm.emit_expr import Evaluator
from rlxlang.backends.llvm.emit_loops import split_range, unrolling
from rlxlang.backends.llvm.emit_reduce import COLUMN_BLOCK_STEPS, ROW_BLOCK_STEPS, Reducer
from rlxlang.backends.llvm.text import Operand, operand_text
from rlxlang.backends.llvm.vector import VectorEmitter

if TYPE_CHECKING:
    from rlxlang.backends.llvm.emit_nest import NestEmitter, PassPlan

State = list[list[list[str]]]
"""Accumulators: `state[reduction][copy]` is a list of values in lanes."""


class PassEmitter:
    """Emits one pass.

    Args:
        nest: The emitter of its nest.
        values: The evaluator.
        plan: The pass.
    """

    def __init__(self, nest: NestEmitter, values: Evaluator, plan: PassPlan) -> None:
        self.nest = nest
        self.values = values
        self.function = values.function
        self.plan = plan
        self.inner = nest.domain.inner
        self.in_rows = nest.domain.form == ROWS
        self.prefix = any(r.prefix for r in plan.walked.reduces)
        self.lanes = 1 if self.in_rows and self.prefix else nest.lanes
        steps = nest.domain.inner_steps()
        self.block = COLUMN_BLOCK_STEPS
        if self.in_rows:
            self.block = ROW_BLOCK_STEPS * self.lanes * self._row_copies()
        blocked = steps is None or steps > self.block
        narrow = steps is not None and steps < 1 << 31
        self.reducers = [Reducer(r, blocked=blocked, position="i32" if narrow else "i64") for r in plan.walked.reduces]
        self.any_blocked = any(r.blocked for r in self.reducers)

    def emit(self) -> None:
        """Emit the pass."""
        values = self.values
        kept = values.v
        if self.lanes != kept.lanes:
            values.v = VectorEmitter(self.function, values.target, self.lanes, contract=True)
        if self.in_rows:
            values.copies = self._row_copies()
        with self.nest.open_pass(values, self.plan):
            start = [[r.folded_initial(values.v) for _ in range(self._folded_copies(r))] for r in self.reducers]
            state = self._loops(0, start, 0)
            self._finish(state)
        values.v = kept
        if self.in_rows:
            values.copies = 1

    def _row_copies(self) -> int:
        """Unrolled copies of the vector loop of the row form."""
        if self.lanes == 1 or not self.in_rows or not self.inner:
            return 1
        weight, reduces = self.plan.weight, len(self.plan.walked.reduces)
        copies = 4 if weight <= 14 and reduces <= 4 else 2 if weight <= 48 and reduces <= 8 else 1
        return unrolling(copies, self.lanes, self.inner[-1].static)

    def _folded_copies(self, reducer: Reducer) -> int:
        """Copies of what is carried from block to block: the row form merges its copies in every block."""
        return 1 if self.in_rows and reducer.blocked else self.values.copies

    # -- accumulators as flat lists --------------------------------------------------------------------

    def _typed(self, state: State, *, folded: bool) -> list[tuple[str, Operand]]:
        v = self.values.v
        result: list[tuple[str, Operand]] = []
        for reducer, copies in zip(self.reducers, state, strict=True):
            types = reducer.folded_types(v) if folded else reducer.types(v)
            for copy in copies:
                result += zip(types, copy, strict=True)
        return result

    @staticmethod
    def _flat(state: State) -> list[str]:
        return [text for copies in state for copy in copies for text in copy]

    @staticmethod
    def _unflat(like: State, texts: tuple[str, ...]) -> State:
        items = iter(texts)
        return [[[next(items) for _ in copy] for copy in copies] for copies in like]

    # -- loops -----------------------------------------------------------------------------------------

    def _loops(self, depth: int, state: State, position: Operand) -> State:
        """Emit the inner loops from `depth` on; `position` is the flat number of the loops outside."""
        if not self.inner:
            return self._fold_into(state, lambda block: self._point(block, 0))
        loop_axis = self.inner[depth]
        extent = self.nest._extent(self.values, loop_axis)
        first = self.function.mul(position, extent)
        if depth + 1 == len(self.inner):
            return self._innermost(loop_axis, extent, state, first)
        with self.function.loop(0, extent, 1, self._typed(state, folded=True)) as loop:
            self._enter(loop_axis, loop.index, depth)
            inside = self._unflat(state, loop.carried)
            after = self._loops(depth + 1, inside, self.function.add(first, loop.index))
            self.values.close()
            loop.next(*self._flat(after))
        return self._unflat(state, loop.results)

    def _enter(self, loop_axis: LoopAxis, position: Operand, depth: int) -> None:
        """Open the frame of an inner loop and compute what is fixed in it."""
        values = self.values
        values.coordinates[loop_axis.axis] = position
        values.open()
        level = self.nest.levels.base + 1 + depth
        for access in self.plan.accesses:
            if not any(values.traits[id(g.value)].level == level for g in access.index.gathered):
                values.memory.prepare(access, level)
        values.prepare(self.plan.order, level)
        for access in self.plan.accesses:
            values.memory.prepare(access, level)

    def _innermost(self, loop_axis: LoopAxis, extent: Operand, state: State, first: Operand) -> State:
        """The innermost loop, in blocks when sums are folded."""
        if not self.any_blocked:
            return self._run(loop_axis, 0, extent, state, first)
        size = self.block
        if isinstance(extent, int) and extent <= size:
            return self._fold_into(state, lambda block: self._run(loop_axis, 0, extent, block, first))
        with self.function.loop(0, extent, size, self._typed(state, folded=True)) as loop:
            stop = self.function.smin(self.function.add(loop.index, size), extent)
            start: Operand = loop.index
            inside = self._unflat(state, loop.carried)
            after = self._fold_into(inside, lambda block: self._run(loop_axis, start, stop, block, first))
            loop.next(*self._flat(after))
        return self._unflat(state, loop.results)

    def _fold_into(self, carried: State, run: Callable[[State], State]) -> State:
        """Run with fresh accumulators for blocked sums, then fold these into what is carried."""
        v = self.values.v
        block = [
            [r.initial(v) for _ in range(self.values.copies)] if r.blocked else copies
            for r, copies in zip(self.reducers, carried, strict=True)
        ]
        after = run(block)
        result: State = []
        for reducer, old, new in zip(self.reducers, carried, after, strict=True):
            if not reducer.blocked:
                result.append(new)
            elif self.in_rows:
                result.append([reducer.fold(v, old[0], reducer.merge_all(v, new))])
            else:
                result.append([reducer.fold(v, o, n) for o, n in zip(old, new, strict=True)])
        return result

    def _run(self, loop_axis: LoopAxis, start: Operand, stop: Operand, state: State, first: Operand) -> State:
        """Steps start … stop-1 of the innermost loop."""
        if not self.in_rows or self.lanes == 1:
            return self._simple_loop(loop_axis, start, stop, 1, state, first)
        values, copies = self.values, self.values.copies
        main, rest = split_range(values, start, stop, copies)
        if main is not None:
            state = self._simple_loop(loop_axis, start, main, self.lanes * copies, state, first)
        if not rest:
            return state
        begin = start if main is None else main
        only = [[reducer_copies[0]] for reducer_copies in state]
        values.copies = 1
        only = self._simple_loop(loop_axis, begin, stop, self.lanes, only, first, masked=True)
        values.copies = copies
        return [[new[0], *old[1:]] for new, old in zip(only, state, strict=True)]

    def _simple_loop(
        self,
        loop_axis: LoopAxis,
        start: Operand,
        stop: Operand,
        step: int,
        state: State,
        first: Operand,
        *,
        masked: bool = False,
    ) -> State:
        function, values = self.function, self.values
        with function.loop(start, stop, step, self._typed(state, folded=False)) as loop:
            if masked:
                values.mask = values.v.tail_mask(function.sub(stop, loop.index))
            self._enter(loop_axis, loop.index, len(self.inner) - 1)
            after = self._point(self._unflat(state, loop.carried), function.add(first, loop.index))
            values.close()
            loop.next(*self._flat(after))
        if masked:
            values.mask = None
        return self._unflat(state, loop.results)

    # -- a point ---------------------------------------------------------------------------------------

    def _point(self, state: State, position: Operand) -> State:
        """Update the reductions and write the stores at one inner point (of every lane and copy)."""
        values, v = self.values, self.values.v
        after: State = []
        for reducer, copies in zip(self.reducers, state, strict=True):
            updated = []
            for copy, old in enumerate(copies):
                value = reducer.value(v, values.vector(reducer.reduce.value, copy))
                lanes = self._position(reducer, position, copy) if reducer.positional else ""
                mask = values.mask if self.in_rows else None
                factor = reducer.reduce.factor
                base = old if factor is None else reducer.times(v, old, values.vector(factor, copy))
                new = reducer.update(v, base, value, lanes, mask)
                if reducer.reduce.prefix:
                    seen = old if reducer.reduce.exclusive else new
                    values.set_running(reducer.reduce.name, copy, reducer.result(v, seen, folded=False))
                updated.append(new)
            after.append(updated)
        values.prepare_late(self.plan.order)
        for store in self.plan.walked.stores:
            for copy in range(values.copies):
                values.memory.store_lanes(store, copy)
        return after

    def _position(self, reducer: Reducer, position: Operand, copy: int) -> str:
        """Flat inner position in every lane."""
        v = self.values.v
        if not self.in_rows or v.lanes == 1:
            return v.splat(reducer.position, self._narrow(reducer, position))
        first = self.function.add(position, copy * v.lanes)
        return v.add(
            reducer.position,
            v.splat(reducer.position, self._narrow(reducer, first)),
            v.iota(reducer.position),
        )

    def _narrow(self, reducer: Reducer, position: Operand) -> Operand:
        if reducer.position == "i64":
            return operand_text(position)
        return operand_text(self.function.trunc(position, "i64", "i32"))

    # -- results ---------------------------------------------------------------------------------------

    def _finish(self, state: State) -> None:
        """Hand the results to whoever reads them as `Reduced`."""
        values, v = self.values, self.values.v
        for reducer, copies in zip(self.reducers, state, strict=True):
            name = reducer.reduce.name
            if not self.in_rows:
                for copy, lanes in enumerate(copies):
                    values.set_reduced(name, copy, reducer.result(v, lanes, folded=True), vector=True)
                continue
            merged = copies[0]
            if len(copies) > 1:
                merged = reducer.merge_all(v, copies)
            single = reducer.across_lanes(v, values.s, merged, folded=True)
            values.set_reduced(name, 0, reducer.result(values.s, single, folded=True), vector=False)
