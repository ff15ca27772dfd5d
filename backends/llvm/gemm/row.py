"""The product of one row: c[1, n] = a[1, k] @ b[k, n] with contiguous rows of b.

It reads every element of b once and is bound by memory, so it walks along the rows of b, a few rows at a time, and keeps
the sums in c, which stays in the first-level cache. Each element is summed in the order of k, as in the panel form.
"""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.policy import Tiling
from rlxlang.backends.llvm.text import Function, ModuleText, Operand
from rlxlang.backends.llvm.vector import VectorEmitter

ROW_PARAMETERS = (
    ("i64", "k"),
    ("ptr", "a"),
    ("i64", "a_column"),  # strides in bytes
    ("ptr", "b"),
    ("i64", "b_row"),
    ("ptr", "c"),
    ("i64", "columns"),
    ("i64", "accumulate"),
)
ROWS_AT_ONCE = 8
SWEEP_BYTES = 1 << 14
"""Bytes of c swept at a time, half of a small first-level cache."""


def emit_row_kernel(module: ModuleText, sizes: Tiling) -> None:
    """Define `row_product`."""
    f = Function(module, "row_product", ROW_PARAMETERS, linkage="internal")
    kernel = _RowKernel(f, sizes)
    with f.if_(f.icmp("eq", "%accumulate", 0)):
        kernel.clear()
    whole = f.and_("%k", -ROWS_AT_ONCE)
    with f.loop(0, whole, ROWS_AT_ONCE) as group:
        kernel.add_rows(group.index, ROWS_AT_ONCE)
    with f.loop(whole, "%k") as single:
        kernel.add_rows(single.index, 1)
    f.ret()


class _RowKernel:
    """Emits sweeps along c."""

    def __init__(self, function: Function, sizes: Tiling) -> None:
        self.function = function
        self.sizes = sizes
        self.emitter = VectorEmitter(function, sizes.target, sizes.lanes)
        self.bytes = function.mul(function.and_("%columns", -sizes.lanes), sizes.size)
        self.rest = function.and_("%columns", sizes.lanes - 1)
        self.mask = self.emitter.tail_mask(self.rest)

    def clear(self) -> None:
        """Set c to zero."""
        f, emitter, element = self.function, self.emitter, self.sizes.element
        with f.loop(0, self.bytes, self.sizes.vector_bytes) as column:
            emitter.store(element, 0, f.gep_bytes("%c", column.index))
        with f.if_(f.icmp("ne", self.rest, 0)):
            emitter.store(element, 0, f.gep_bytes("%c", self.bytes), self.mask)

    def add_rows(self, first: Operand, count: int) -> None:
        """Add `count` rows of b, each times its element of a."""
        f, element = self.function, self.sizes.element
        start_a = f.gep_bytes("%a", f.mul(first, "%a_column"))
        start_b = f.gep_bytes("%b", f.mul(first, "%b_row"))
        factors = []
        rows = []
        for row in range(count):
            factors.append(self.emitter.load_broadcast(element, f.gep_bytes(start_a, f.mul("%a_column", row))))
            rows.append(f.gep_bytes(start_b, f.mul("%b_row", row)))
        with f.loop(0, self.bytes, self.sizes.vector_bytes) as column:
            self._add(column.index, factors, rows, None)
        with f.if_(f.icmp("ne", self.rest, 0)):
            self._add(self.bytes, factors, rows, self.mask)

    def _add(self, offset: Operand, factors: list[str], rows: list[str], mask: str | None) -> None:
        f, emitter, element = self.function, self.emitter, self.sizes.element
        place = f.gep_bytes("%c", offset)
        total = emitter.load(element, place, mask)
        for factor, row in zip(factors, rows, strict=True):
            total = emitter.fma(element, factor, emitter.load(element, f.gep_bytes(row, offset), mask), total)
        emitter.store(element, total, place, mask)
