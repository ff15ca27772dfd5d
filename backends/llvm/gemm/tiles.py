"""Micro-kernels of the panel form: a tile of c from rows of a and one panel of b.

A kernel of r rows and v vectors keeps the r * v vectors of its tile in registers over the whole range of k. Each step
loads one row of the panel (v vectors) and multiplies it by r broadcast elements of a, which is read where it lies, with
any row and column stride. The
next panel is fetched from outer caches at the same time: without that, panels that come from the third-level cache cost
up to a third of the speed. The last vector of a row may be partial; everything else is exact, there is no padding.
"""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.policy import K_UNROLL, Tiling
from rlxlang.backends.llvm.text import Function, ModuleText, Operand
from rlxlang.backends.llvm.vector import INTEGER_OF, VectorEmitter

PANEL_PARAMETERS = (
    ("i64", "k"),
    ("ptr", "a"),
    ("i64", "a_row"),  # strides in bytes
    ("i64", "a_column"),
    ("ptr", "b"),
    ("i64", "b_row"),
    ("ptr", "c"),
    ("i64", "c_row"),
    ("i64", "columns"),  # columns of the tile, in its last vector at least one
    ("i64", "accumulate"),
    ("ptr", "next"),  # fetched into the second-level cache meanwhile: one row per step along k
    ("i64", "next_row"),
)
KERNEL_TABLE = "panel_kernels"

CACHE_LINE = 64

_ROWS_PER_POINTER = 5
"""Rows reached from one pointer by scaled addressing: 0, 1, 2, 3 and 4 strides."""


class EdgeMask:
    """The mask of the valid lanes in the last vector of a row.

    Without mask registers a mask kept across blocks is narrowed and widened again in every block, so there it is
    computed anew in each block, by one comparison.
    """

    def __init__(self, emitter: VectorEmitter, sizes: Tiling, remaining: Operand) -> None:
        self._emitter = emitter
        self._integer = INTEGER_OF[sizes.element]
        self._limit = emitter.splat(
            self._integer,
            emitter.function.trunc(remaining, "i64", self._integer) if self._integer != "i64" else remaining,
        )
        self._kept = self._compare() if sizes.lane_masks else None

    def _compare(self) -> str:
        return self._emitter.compare("slt", self._integer, self._emitter.iota(self._integer), self._limit)

    def here(self) -> str:
        """The mask, usable in the current block."""
        return self._kept or self._compare()


def emit_panel_kernels(module: ModuleText, sizes: Tiling) -> None:
    """Define all micro-kernels and the table of their addresses, indexed by vectors - 1, rows - 1."""
    most_rows = max(sizes.rows)
    entries = []
    for vectors, highest in enumerate(sizes.rows, start=1):
        for rows in range(1, most_rows + 1):
            if rows > highest:
                entries.append("ptr null")
                continue
            entries.append(f"ptr @{_emit_panel_kernel(module, sizes, rows, vectors)}")
    module.constant(KERNEL_TABLE, f"[{len(entries)} x ptr]", f"[{', '.join(entries)}]", align=8)


def _emit_panel_kernel(module: ModuleText, sizes: Tiling, rows: int, vectors: int) -> str:
    name = f"panel_{rows}x{vectors}"
    f = Function(module, name, PANEL_PARAMETERS, linkage="internal")
    emitter = VectorEmitter(f, sizes.target, sizes.lanes)
    tile = _Tile(f, emitter, sizes, rows, vectors)
    kind = emitter.type(sizes.element)
    sums: tuple[str, ...] = (emitter.zero(sizes.element),) * (rows * vectors)

    starts = [f.gep_bytes("%a", f.mul("%a_row", row)) for row in range(0, rows, _ROWS_PER_POINTER)]
    pointers = [("ptr", start) for start in (*starts, "%b", "%next")]
    carried: list[tuple[str, Operand]] = [*pointers, *((kind, value) for value in sums)]
    with f.loop(0, f.lshr("%k", K_UNROLL.bit_length() - 1), carried=carried) as loop:
        *a, b, ahead = loop.carried[: len(pointers)]
        current = loop.carried[len(pointers) :]
        for _ in range(K_UNROLL):
            tile.fetch(ahead)
            current = tile.step(a, b, current)
            a = [f.gep_bytes(pointer, "%a_column") for pointer in a]
            b = f.gep_bytes(b, "%b_row")
            ahead = f.gep_bytes(ahead, "%next_row")
        loop.next(*a, b, ahead, *current)
    *a, b, _ = loop.results[: len(pointers)]
    sums = loop.results[len(pointers) :]

    rest: list[tuple[str, Operand]] = [(kind, value) for value in sums]
    with f.if_(f.icmp("ne", f.and_("%k", K_UNROLL - 1), 0), rest) as odd:
        odd.merge(*tile.step(a, b, sums))
    tile.finish(odd.results)
    f.ret()
    return name


class _Tile:
    """Emits the steps of one micro-kernel."""

    def __init__(self, function: Function, emitter: VectorEmitter, sizes: Tiling, rows: int, vectors: int) -> None:
        self.function = function
        self.emitter = emitter
        self.sizes = sizes
        self.rows = rows
        self.vectors = vectors
        remaining = function.sub("%columns", sizes.lanes * (vectors - 1))
        self.edge = EdgeMask(emitter, sizes, remaining)
        self.three_rows = function.mul("%a_row", 3) if rows > 3 else 0

    def _row_vectors(self, pointer: str, *, masked: bool) -> list[str]:
        """Load one row of the tile's width."""
        loaded = []
        for vector in range(self.vectors):
            mask = self.edge.here() if masked and vector == self.vectors - 1 else None
            place = self.function.gep_bytes(pointer, vector * self.sizes.vector_bytes)
            loaded.append(self.emitter.load(self.sizes.element, place, mask))
        return loaded

    def _a_pointer(self, pointers: list[str], row: int) -> str:
        """Address of a's element of a row, written so that it folds into the addressing mode of the load."""
        group, offset = divmod(row, _ROWS_PER_POINTER)
        if offset == 3:
            return self.function.gep_bytes(pointers[group], self.three_rows)
        return self.function.gep_bytes(pointers[group], self.function.mul("%a_row", offset))

    def fetch(self, pointer: str) -> None:
        """Start fetching one row of the tile's width."""
        for offset in range(0, self.vectors * self.sizes.vector_bytes, CACHE_LINE):
            self.function.prefetch(self.function.gep_bytes(pointer, offset), locality=2)

    def step(self, a: list[str], b: str, sums: tuple[str, ...]) -> tuple[str, ...]:
        """One step along k: the sums plus the outer product of a column of a and a row of b."""
        element = self.sizes.element
        row_of_b = self._row_vectors(b, masked=self.sizes.masked)
        following = []
        for row in range(self.rows):
            factor = self.emitter.load_broadcast(element, self._a_pointer(a, row))
            for vector in range(self.vectors):
                total = sums[row * self.vectors + vector]
                following.append(self.emitter.fma(element, factor, row_of_b[vector], total))
        return tuple(following)

    def finish(self, sums: tuple[str, ...]) -> None:
        """Add the old c where asked, and store the tile."""
        f, emitter, element = self.function, self.emitter, self.sizes.element
        kind = emitter.type(element)
        places = [f.gep_bytes("%c", f.mul("%c_row", row)) for row in range(self.rows)]
        values: list[tuple[str, Operand]] = [(kind, value) for value in sums]
        with f.if_(f.icmp("ne", "%accumulate", 0), values) as adding:
            total = []
            for row, place in enumerate(places):
                for vector, old in enumerate(self._row_vectors(place, masked=True)):
                    total.append(emitter.add(element, sums[row * self.vectors + vector], old))
            adding.merge(*total)
        for row, place in enumerate(places):
            for vector in range(self.vectors):
                mask = self.edge.here() if vector == self.vectors - 1 else None
                target = f.gep_bytes(place, vector * self.sizes.vector_bytes)
                emitter.store(element, adding.results[row * self.vectors + vector], target, mask)
