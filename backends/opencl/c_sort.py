"""Sorting of rows in OpenCL C: short runs by counting who goes before, then merges in which every entry finds its place by bisection.

Every entry is a work-item of its own in every kernel, and no kernel needs a barrier. The scratch memory of a launch holds, for some rows
at a time, keys and positions twice: `keys0 keys1 places0 places1`. A key is an unsigned integer that orders as the entry does: the bits
of a float with the sign bit turned for positive and all bits for negative numbers, one zero, one NaN above everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.backends.opencl.c_expr import SCRATCH, KernelScope, Layout
from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_nest import KernelPlan, indent
from rlxlang.backends.opencl.c_types import memory_type
from rlxlang.kernels import Sort
from rlxlang.types import DType

RUN = 64
"""Entries of a run that is sorted by counting."""

COUNTED = 256
"""Length up to which whole rows are sorted so."""

SCRATCH_BYTES = 1 << 28
"""About so much memory is used at once for many rows."""

INFINITY_BITS = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}
_GROUP = 64


@dataclass(frozen=True, slots=True)
class SortPlan:
    """How a sort is launched.

    Attributes:
        keys: Writes the keys of some rows: arguments first row, number of rows.
        runs: Sorts runs; further arguments the length of a run and whether to write results at once (runs are then whole rows).
        merge: Merges pairs of runs; further arguments their length and the half of the scratch memory that is read.
        finish: Writes results; a further argument the half to read.
        entry_bytes: Scratch memory that an entry takes.
    """

    keys: KernelPlan
    runs: KernelPlan
    merge: KernelPlan
    finish: KernelPlan
    entry_bytes: int

    @property
    def kernels(self) -> tuple[KernelPlan, ...]:
        """All of them."""
        return self.keys, self.runs, self.merge, self.finish


def _key_lines(dtype: DType, element: str, *, descending: bool) -> list[str]:
    """Statements that set `key` from an element."""
    bits = 8 * dtype.bytes
    word = "ulong" if bits == 64 else "uint"
    end = "UL" if bits == 64 else "U"
    everything = f"{(1 << bits) - 1:#x}{end}"
    top = f"{1 << (bits - 1):#x}{end}"
    raw = f"as_{word}({element})" if dtype.name in ("F32", "F64") else f"({word}){element}"
    lines = [f"{word} key = {raw} & {everything};"]
    if dtype.is_float:
        lines += [
            f"const {word} size = key & {(1 << (bits - 1)) - 1:#x}{end};",
            f"key = size == 0 ? {top} : key & {top} ? ~key & {everything} : key | {top};",
            f"key = size > {INFINITY_BITS[dtype.name]:#x}{end} ? {everything} : key;",
        ]
    elif dtype.kind == "int":
        lines.append(f"key ^= {top};")
    return [*lines, *([f"key ^= {everything};"] if descending else [])]


class SortSource:
    """Makes the kernels of a sort.

    Args:
        step: The sort.
        function: Start of the names of its kernels.
        layout: Where buffers lie.
        functions: Helpers of the program.
    """

    def __init__(self, step: Sort, function: str, layout: Layout, functions: Functions) -> None:
        self.step, self.function, self.layout, self.functions = step, function, layout, functions
        self.dtype = layout.program.buffers[step.source].dtype
        self.word = "ulong" if self.dtype.bytes == 8 else "uint"
        wide = step.indices >= 0 and layout.program.buffers[step.indices].dtype.bytes == 8
        long_rows = isinstance(step.length, int) and step.length > 1 << 31
        self.place = "long" if wide or long_rows else "int"

    def plan(self) -> SortPlan:
        """All kernels, with the memory that an entry takes."""
        entry = 2 * ((8 if self.word == "ulong" else 4) + (8 if self.place == "long" else 4))
        return SortPlan(self._keys(), self._runs(), self._merge(), self._finish(), entry)

    def _kernel(self, name: str, scope: KernelScope, per_row: str, lines: list[str], extra: str = "") -> KernelPlan:
        """A kernel with a work-item for every entry of some rows."""
        step, word, place = self.step, self.word, self.place
        n, count = scope.dim(step.length), scope.dim(step.count)
        head = [
            *scope.head(),
            f"const long n = {n}, count = {count}, all = rows * n, number = get_global_id(0);",
            f"global {word}* keys0 = (global {word}*)scratch, *keys1 = keys0 + all;",
            f"global {place}* places0 = (global {place}*)(keys1 + all), *places1 = places0 + all;",
            f"if (number >= rows * {per_row}) return;",
            f"const long row = number / {per_row}, i = number % {per_row};",
        ]
        title = f"{self.function}_{name}"
        source = "\n".join(
            [
                f"kernel __attribute__((reqd_work_group_size({_GROUP}, 1, 1)))",
                f"void {title}(global uchar* scratch, {scope.parameters()}, const long first_row, const long rows{extra}) {{",
                *indent([*head, *lines]),
                "}",
            ]
        )
        return KernelPlan(title, step.name, source, (SCRATCH, *scope.roots), scope.views, (), (_GROUP,))

    def _scope(self) -> KernelScope:
        return KernelScope(self.layout, self.functions)

    def _results(self, scope: KernelScope, target: str, position: str) -> list[str]:
        """Statements that write one result, from its position in the row."""
        step, lines = self.step, []
        if step.values >= 0:
            source, values = scope.pointer(step.source), scope.pointer(step.values)
            lines.append(f"{values}[{target}] = {source}[(first_row + row) * n + {position}];")
        if step.indices >= 0:
            indices = scope.pointer(step.indices)
            lines.append(f"{indices}[{target}] = ({memory_type(scope.dtype(step.indices))}){position};")
        return lines

    def _keys(self) -> KernelPlan:
        scope = self._scope()
        element = f"{scope.pointer(self.step.source)}[first_row * n + number]"
        key = _key_lines(self.dtype, element, descending=self.step.descending)
        return self._kernel("keys", scope, "n", [*key, "keys0[number] = key;"])

    def _runs(self) -> KernelPlan:
        scope = self._scope()
        result = self._results(scope, "(first_row + row) * count + rank", "i")
        lines = [
            "const long start = i / width * width, end = min(start + width, n);",
            f"global const {self.word}* keys = keys0 + row * n;",
            f"const {self.word} key = keys[i];",
            "int rank = 0;",
            "for (long j = start; j < i; ++j) rank += keys[j] <= key;",
            "for (long j = i + 1; j < end; ++j) rank += keys[j] < key;",
            "if (rank >= count) return;",
            "if (whole) {",
            *indent(result),
            "} else {",
            "  keys1[row * n + start + rank] = key;",
            f"  places1[row * n + start + rank] = ({self.place})i;",
            "}",
        ]
        return self._kernel("runs", scope, "n", lines, ", const long width, const int whole")

    def _merge(self) -> KernelPlan:
        """An entry's place in a pair of runs: its own in its run, and how many of the other run go before; only the first ones are kept."""
        word, place = self.word, self.place
        lines = [
            f"global const {word}* keys = (half_read ? keys1 : keys0) + row * n;",
            f"global {word}* new_keys = (half_read ? keys0 : keys1) + row * n;",
            f"global const {place}* places = (half_read ? places1 : places0) + row * n;",
            f"global {place}* new_places = (half_read ? places0 : places1) + row * n;",
            "const long run = i / width, own = i - run * width, pair = run / 2 * 2 * width, other = (run ^ 1) * width;",
            "if (own >= count) return;",
            f"const {word} key = keys[i];",
            "long low = 0, high = clamp(n - other, 0L, min(width, count));",
            "while (low < high) {",
            "  const long middle = (low + high) / 2;",
            f"  const {word} there = keys[other + middle];",
            "  if (run & 1 ? there <= key : there < key) low = middle + 1; else high = middle;",
            "}",
            "if (own + low >= count) return;",
            "new_keys[pair + own + low] = key;",
            "new_places[pair + own + low] = places[i];",
        ]
        return self._kernel("merge", self._scope(), "n", lines, ", const long width, const int half_read")

    def _finish(self) -> KernelPlan:
        scope = self._scope()
        lines = [
            f"const {self.place} position = (half_read ? places1 : places0)[row * n + i];",
            *self._results(scope, "first_row * count + number", "position"),
        ]
        return self._kernel("finish", scope, "count", lines, ", const int half_read")
