"""Sorting of rows: few entries to keep by insertion, short rows by counting who goes before, others by a radix sort, digit by digit.

An entry is sorted as one number: its key, an unsigned integer of the same order, above its position. All such numbers differ,
so any way of sorting them is stable. Keys of floats: the bits, with the sign bit turned for positive and all bits for negative
numbers; one zero, and one NaN above everything.
"""

from __future__ import annotations

from collections.abc import Callable

from rlxlang.backends.llvm.emit_context import ProgramContext
from rlxlang.backends.llvm.emit_loops import run_units
from rlxlang.backends.llvm.text import Function, Operand
from rlxlang.kernels import Sort
from rlxlang.types import DType

SHORT = 64
"""Length up to which a row is sorted by counting, or by insertion where numbers are wide."""

SELECTED = 128
"""Count up to which the first entries of a longer row are kept in a sorted list while the others are looked at."""

LANES = 8

COST_OF_ENTRY = 40
DIGITS = 256

INFINITY_BITS = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}


class SortEmitter:
    """Emits one sort.

    Args:
        shared: The program.
        step: The sort, with a name that is unique in the module.
    """

    def __init__(self, shared: ProgramContext, step: Sort) -> None:
        self.shared = shared
        self.step = step
        self.dtype: DType = shared.program.buffers[step.source].dtype
        self.bits = 8 * self.dtype.bytes
        self.kind = f"i{self.bits}"
        self.wide = shared.program.buffers[step.scratch].shape[0] == 4 * step.length
        self.word = "i128" if self.wide else "i64"
        self.word_bytes = 16 if self.wide else 8
        self.index_bits = 64 if self.wide else 32

    def emit(self) -> str:
        """Emit it; returns the symbol of its step, `i32 (ptr context)`."""
        step, shared = self.step, self.shared
        self._selection()
        self._counting()
        self._radix()
        self._task()
        function = Function(shared.module, step.name, (("ptr", "ctx"),), "i32", linkage="internal")
        sizes = shared.load_dims(function, "%ctx", (step.rows, step.length, step.count))
        rows, length, count = (d if isinstance(d, int) else sizes[d] for d in (step.rows, step.length, step.count))
        units = function.select(function.icmp("sgt", count, 0), rows, 0)
        run_units(shared, function, f"{step.name}.task", units, function.mul(length, COST_OF_ENTRY))
        return step.name

    # -- rows ------------------------------------------------------------------------------------------

    def _task(self) -> None:
        step, shared = self.step, self.shared
        parameters = (("ptr", "ctx"), ("i64", "lo"), ("i64", "hi"), ("i64", "thread"))
        function = Function(shared.module, f"{step.name}.task", parameters, "i32", linkage="internal")
        scratch = shared.program.buffers[step.scratch]
        sizes = shared.load_dims(function, "%ctx", (step.length, step.count, *scratch.shape))
        length, count = (d if isinstance(d, int) else sizes[d] for d in (step.length, step.count))
        wanted = [step.source, step.scratch, *(b for b in (step.values, step.indices) if b >= 0)]
        bases = shared.load_bases(function, "%ctx", wanted, sizes, "%thread")
        first = bases[step.scratch]
        second = function.gep_bytes(first, function.mul(length, self.word_bytes))
        with function.loop("%lo", "%hi", 1) as loop:
            row = function.gep(self.kind, bases[step.source], function.mul(loop.index, length))
            place = function.mul(loop.index, count)
            given: list[tuple[str, Operand]] = [("ptr", row), ("i64", length), ("i64", count), ("ptr", first)]
            found = self._sorted(function, given, second)
            self._write(function, found, row, count, place, bases)
            loop.next()
        function.ret(0)

    def _sorted(self, function: Function, given: list[tuple[str, Operand]], second: str) -> str:
        """Call the way that suits the sizes; returns where the sorted numbers are."""
        length, count = given[1][1], given[2][1]
        short = function.icmp("sle", length, SHORT)
        few = function.icmp("sle", function.mul(count, 8), length)
        some = function.icmp("sle", count, SELECTED)
        if isinstance(few, bool) or isinstance(some, bool):
            few = some if few is True else few if some is True else few if few is False else some
        else:
            few = function.and_(few, some, "i1")
        counted = "few" if self.wide else "counted"

        def call(way: str) -> str:
            more: list[tuple[str, Operand]] = [("ptr", second)] if way == "all" else []
            return function.call("ptr", f"{self.step.name}.{way}", [*given, *more])

        def choose(condition: Operand, way: str, otherwise: Callable[[], str]) -> str:
            if isinstance(condition, bool):
                return call(way) if condition else otherwise()
            with function.if_else(condition, ("ptr",)) as branch:
                with branch.then():
                    branch.merge(call(way))
                with branch.otherwise():
                    branch.merge(otherwise())
            return branch.results[0]

        return choose(few, "few", lambda: choose(short, counted, lambda: call("all")))

    def _write(
        self, function: Function, found: str, row: str, count: Operand, place: Operand, bases: dict[int, str]
    ) -> None:
        """Write what was sorted: positions from the low bits, entries from the row."""
        step = self.step
        with function.loop(0, count, 1) as loop:
            word = function.load(self.word, function.gep(self.word, found, loop.index), 8)
            position: Operand = function.trunc(word, self.word, "i64") if self.wide else word
            if not self.wide:
                position = function.and_(position, (1 << self.index_bits) - 1)
            target = function.add(place, loop.index)
            if step.values >= 0:
                value = function.load(self.kind, function.gep(self.kind, row, str(position)))
                function.store(self.kind, value, function.gep(self.kind, bases[step.values], target))
            if step.indices >= 0:
                kind = f"i{8 * self.shared.program.buffers[step.indices].dtype.bytes}"
                narrow = position if kind == "i64" else function.trunc(position, "i64", kind)
                function.store(kind, narrow, function.gep(kind, bases[step.indices], target))
            loop.next()

    # -- keys ------------------------------------------------------------------------------------------

    def _key(self, function: Function, row: str, place: Operand) -> Operand:
        """An unsigned integer that orders as the entry does."""
        kind, top = self.kind, -(1 << (self.bits - 1))
        key: Operand = function.load(kind, function.gep(kind, row, place))
        if self.dtype.is_float:
            size = function.and_(key, -top - 1, kind)
            turned = function.or_(function.ashr(key, self.bits - 1, kind), top, kind)
            key = function.select(function.icmp("eq", size, 0, kind), top, function.xor(key, turned, kind), kind)
            is_nan = function.icmp("ugt", size, INFINITY_BITS[self.dtype.name], kind)
            key = function.select(is_nan, -1, key, kind)
        elif self.dtype.kind == "int":
            key = function.xor(key, top, kind)
        return function.xor(key, -1, kind) if self.step.descending else key

    def _number(self, function: Function, row: str, place: Operand) -> Operand:
        """Key and position as one number."""
        word = self.word
        high = function.shl(function.zext(self._key(function, row, place), self.kind, word), self.index_bits, word)
        return function.or_(high, function.zext(place, "i64", word) if self.wide else place, word)

    # -- insertion -------------------------------------------------------------------------------------

    def _selection(self) -> None:
        """`ptr few(row, length, count, list)`: the first `count` numbers, kept sorted in a list."""
        word = self.word
        parameters = (("ptr", "row"), ("i64", "length"), ("i64", "count"), ("ptr", "list"))
        function = Function(self.shared.module, f"{self.step.name}.few", parameters, "ptr", linkage="internal")
        with function.loop(0, "%count", 1) as loop:
            self._insert(function, loop.index, self._number(function, "%row", loop.index))
            loop.next()
        last = function.sub("%count", 1)
        worst = function.gep(word, "%list", last)
        with function.loop("%count", "%length", 1) as loop:
            number = self._number(function, "%row", loop.index)
            better = function.icmp("ult", number, function.load(word, worst, 8), word)
            with function.if_(better):
                self._insert(function, last, number)
            loop.next()
        function.ret("%list")

    def _insert(self, function: Function, end: Operand, number: Operand) -> None:
        """Put a number into the sorted list of `end` numbers; what is larger moves up."""
        word = self.word
        head, test, move, done = (function.new_label(hint) for hint in ("insert", "test", "move", "put"))
        before, below = function.block, function.new_value()
        function.jump(head)
        function.label(head)
        place = function.phi("i64", [(end, before), (below, move)])
        function.jump_if(function.icmp("eq", place, 0), done, test)
        function.label(test)
        function.emit(f"{below} = sub i64 {place}, 1")
        other = function.load(word, function.gep(word, "%list", below), 8)
        function.jump_if(function.icmp("ugt", other, number, word), move, done)
        function.label(move)
        function.store(word, other, function.gep(word, "%list", place), 8)
        function.jump(head)
        function.label(done)
        function.store(word, number, function.gep(word, "%list", place), 8)

    # -- counting --------------------------------------------------------------------------------------

    def _counting(self) -> None:
        """`ptr counted(row, length, count, list)`: all numbers of a short row, each put where as many are as are less.

        The last vector is filled up with numbers that are not less than any.
        """
        if self.wide:
            return
        vector = f"<{LANES} x i64>"
        parameters = (("ptr", "row"), ("i64", "length"), ("i64", "count"), ("ptr", "list"))
        function = Function(self.shared.module, f"{self.step.name}.counted", parameters, "ptr", linkage="internal")
        numbers = function.alloca("i64", SHORT + LANES)
        for lane in range(LANES):
            function.store("i64", -1, function.gep("i64", numbers, function.add("%length", lane)))
        with function.loop(0, "%length", 1) as loop:
            function.store("i64", self._number(function, "%row", loop.index), function.gep("i64", numbers, loop.index))
            loop.next()
        with function.loop(0, "%length", 1) as loop:
            own = function.load("i64", function.gep("i64", numbers, loop.index))
            first = function.value(f"insertelement {vector} poison, i64 {own}, i32 0")
            all_own = function.value(
                f"shufflevector {vector} {first}, {vector} poison, <{LANES} x i32> zeroinitializer"
            )
            with function.loop(0, "%length", LANES, ((vector, "zeroinitializer"),)) as inner:
                others = function.load(vector, function.gep("i64", numbers, inner.index), 8)
                less = function.value(f"icmp ult {vector} {others}, {all_own}")
                ones = function.value(f"sext <{LANES} x i1> {less} to {vector}")
                inner.next(function.value(f"sub {vector} {inner.carried[0]}, {ones}"))
            place = function.call("i64", f"llvm.vector.reduce.add.v{LANES}i64", [(vector, inner.results[0])])
            function.store("i64", own, function.gep("i64", "%list", place))
            loop.next()
        function.ret("%list")

    # -- radix sort ------------------------------------------------------------------------------------

    def _radix(self) -> None:
        """`ptr all(row, length, count, first, second)`: all numbers, sorted by one byte of the key after the other."""
        word, digits = self.word, self.bits // 8
        parameters = (("ptr", "row"), ("i64", "length"), ("i64", "count"), ("ptr", "first"), ("ptr", "second"))
        function = Function(self.shared.module, f"{self.step.name}.all", parameters, "ptr", linkage="internal")
        table = function.alloca("i64", DIGITS * digits)
        function.call("ptr", "memset", [("ptr", table), ("i32", 0), ("i64", 8 * DIGITS * digits)])
        with function.loop(0, "%length", 1) as loop:
            number = self._number(function, "%row", loop.index)
            function.store(word, number, function.gep(word, "%first", loop.index), 8)
            for digit in range(digits):
                slot = self._slot(function, table, number, digit)
                function.store("i64", function.add(function.load("i64", slot), 1), slot)
            loop.next()
        source, target = "%first", "%second"
        for digit in range(digits):
            slot = self._slot(function, table, function.load(word, source, 8), digit)
            differ = function.icmp("ne", function.load("i64", slot), "%length")
            with function.if_(differ, (("ptr", source), ("ptr", target))) as branch:
                with function.loop(0, DIGITS, 1, (("i64", 0),)) as loop:
                    place = function.gep("i64", table, function.add(loop.index, digit * DIGITS))
                    some = function.load("i64", place)
                    function.store("i64", loop.carried[0], place)
                    loop.next(function.add(loop.carried[0], some))
                with function.loop(0, "%length", 1) as loop:
                    number = function.load(word, function.gep(word, source, loop.index), 8)
                    slot = self._slot(function, table, number, digit)
                    start = function.load("i64", slot)
                    function.store("i64", function.add(start, 1), slot)
                    function.store(word, number, function.gep(word, target, start), 8)
                    loop.next()
                branch.merge(target, source)
            source, target = branch.results
        function.ret(source)

    def _slot(self, function: Function, table: str, number: Operand, digit: int) -> str:
        """Where the digit of a number is counted."""
        shifted = function.lshr(number, self.index_bits + 8 * digit, self.word)
        low = function.trunc(shifted, self.word, "i64") if self.wide else shifted
        return function.gep("i64", table, function.add(function.and_(low, DIGITS - 1), digit * DIGITS))
