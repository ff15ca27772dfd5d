"""Sorting of rows in OpenCL C.

A processor gives each row to one work-item: insertion when few entries are kept or there are few, else a radix sort, byte by byte.
Other devices sort short runs by counting who goes before, and merge runs: every entry finds its place by bisection. There an entry is a
work-item of its own in every kernel, and no kernel needs a barrier. The scratch memory of a launch holds, for some rows
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

INSERTED = 48
"""Length up to which one work-item sorts by insertion."""

SELECTED = 128
"""Count up to which it keeps the first entries of a long row in a sorted list."""


@dataclass(frozen=True, slots=True)
class SortPlan:
    """How a sort is launched.

    Attributes:
        entry_bytes: Scratch memory that an entry takes.
        rows: Sorts some rows, each in one work-item: arguments first row, number of rows.
        together: What sorts them otherwise, with further arguments: the keys; runs (their length, and whether they are whole rows, whose
            results are written at once); a merge of pairs of runs (their length, the half of the scratch memory that is read); and what
            writes the results (the half to read).
    """

    entry_bytes: int
    rows: KernelPlan | None = None
    together: tuple[KernelPlan, KernelPlan, KernelPlan, KernelPlan] | None = None

    @property
    def kernels(self) -> tuple[KernelPlan, ...]:
        """All of them."""
        return (*(() if self.rows is None else (self.rows,)), *(self.together or ()))


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

    def plan(self, *, is_cpu: bool) -> SortPlan:
        """The kernels for a kind of device, with the memory that an entry takes."""
        entry = 2 * ((8 if self.word == "ulong" else 4) + (8 if self.place == "long" else 4))
        if is_cpu:
            return SortPlan(entry, rows=self._rows())
        return SortPlan(entry, together=(self._keys(), self._runs(), self._merge(), self._finish()))

    def _kernel(
        self, name: str, scope: KernelScope, per_row: str, lines: list[str], extra: str = "", group: int = _GROUP
    ) -> KernelPlan:
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
                f"kernel __attribute__((reqd_work_group_size({group}, 1, 1)))",
                f"void {title}(global uchar* scratch, {scope.parameters()}, const long first_row, const long rows{extra}) {{",
                *indent([*head, *lines]),
                "}",
            ]
        )
        return KernelPlan(title, step.name, source, (SCRATCH, *scope.roots), scope.views, (), (group,))

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

    def _rows(self) -> KernelPlan:
        """A row in a work-item: keys and positions in lists `a` and `b`, between which every digit moves them."""
        scope, word, place = self._scope(), self.word, self.place
        element = f"{scope.pointer(self.step.source)}[(first_row + row) * n + k]"
        results = self._results(scope, "(first_row + row) * count + k", "a_places[k]")
        digits = 8 * self.dtype.bytes
        lines = [
            f"global {word} *a = keys0 + row * n, *b = keys1 + row * n;",
            f"global {place} *a_places = places0 + row * n, *b_places = places1 + row * n;",
            "if (count == 0) return;",
            f"const int few = n <= {INSERTED} || (count <= {SELECTED} && 4 * count <= n);",
            "long kept = 0;",
            "for (long k = 0; k < n; ++k) {",
            *indent(_key_lines(self.dtype, element, descending=self.step.descending)),
            "  long at = k;",
            "  if (few) {",
            "    if (kept == count && key >= a[count - 1]) continue;",
            "    at = kept < count ? kept++ : count - 1;",
            "    for (; at > 0 && a[at - 1] > key; --at) { a[at] = a[at - 1]; a_places[at] = a_places[at - 1]; }",
            "  }",
            "  a[at] = key;",
            f"  a_places[at] = ({place})k;",
            "}",
            f"for (int shift = 0; !few && shift < {digits}; shift += 8) {{",
            f"  {place} starts[256];",
            "  for (int d = 0; d < 256; ++d) starts[d] = 0;",
            "  for (long k = 0; k < n; ++k) ++starts[a[k] >> shift & 255];",
            "  if (starts[a[0] >> shift & 255] == n) continue;",
            f"  {place} sum = 0;",
            f"  for (int d = 0; d < 256; ++d) {{ const {place} some = starts[d]; starts[d] = sum; sum += some; }}",
            "  for (long k = 0; k < n; ++k) {",
            f"    const {place} to = starts[a[k] >> shift & 255]++;",
            "    b[to] = a[k];",
            "    b_places[to] = a_places[k];",
            "  }",
            f"  global {word}* keys = a; a = b; b = keys;",
            f"  global {place}* places = a_places; a_places = b_places; b_places = places;",
            "}",
            "for (long k = 0; k < count; ++k) {",
            *indent(results),
            "}",
        ]
        return self._kernel("rows", scope, "1", lines, group=1)

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
