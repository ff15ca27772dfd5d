"""Micro-kernels of the dot form: both matrices are read along k, no packing.

It takes b stored by columns (each contiguous along k). A tile of r rows and c columns keeps r * c vectors of partial
sums; at the end the lanes are added up by a tree that leaves one sum per lane, in the order of the columns.
"""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.policy import Tiling
from rlxlang.backends.llvm.text import Function, ModuleText, Operand
from rlxlang.backends.llvm.vector import VectorEmitter

DOT_PARAMETERS = (
    ("i64", "k"),
    ("ptr", "a"),
    ("i64", "a_row"),  # strides in bytes
    ("ptr", "b"),
    ("i64", "b_column"),
    ("ptr", "c"),
    ("i64", "c_row"),
    ("i64", "rows"),  # valid rows of the tile, at least one
    ("i64", "columns"),
    ("i64", "accumulate"),
)
ONE_ROW_COLUMNS = 8


def emit_dot_kernels(module: ModuleText, sizes: Tiling) -> None:
    """Define the tile for several rows and the one for a single row."""
    _emit_dot_kernel(module, sizes, "dot_tile", *sizes.dot)
    _emit_dot_kernel(module, sizes, "dot_row", 1, ONE_ROW_COLUMNS)


def _emit_dot_kernel(module: ModuleText, sizes: Tiling, name: str, rows: int, columns: int) -> None:
    f = Function(module, name, DOT_PARAMETERS, linkage="internal")
    emitter = VectorEmitter(f, sizes.target, sizes.lanes)
    element, kind = sizes.element, emitter.type(sizes.element)
    # Rows and columns outside the tile read the last valid one again; their sums are not stored.
    last_row, last_column = f.sub("%rows", 1), f.sub("%columns", 1)
    a_rows = [f.gep_bytes("%a", f.mul(f.umin(row, last_row), "%a_row")) for row in range(rows)]
    b_columns = [f.gep_bytes("%b", f.mul(f.umin(column, last_column), "%b_column")) for column in range(columns)]

    def step(offset: Operand, sums: tuple[str, ...], mask: str | None) -> tuple[str, ...]:
        b = [emitter.load(element, f.gep_bytes(pointer, offset), mask) for pointer in b_columns]
        following = []
        for row, pointer in enumerate(a_rows):
            a = emitter.load(element, f.gep_bytes(pointer, offset), mask)
            for column in range(columns):
                following.append(emitter.fma(element, a, b[column], sums[row * columns + column]))
        return tuple(following)

    zeros: list[tuple[str, Operand]] = [(kind, emitter.zero(element))] * (rows * columns)
    whole = f.mul(f.and_("%k", -sizes.lanes), sizes.size)
    with f.loop(0, whole, sizes.vector_bytes, carried=zeros) as loop:
        loop.next(*step(loop.index, loop.carried, None))
    rest = f.and_("%k", sizes.lanes - 1)
    sums: list[tuple[str, Operand]] = [(kind, value) for value in loop.results]
    with f.if_(f.icmp("ne", rest, 0), sums) as ragged:
        ragged.merge(*step(whole, loop.results, emitter.tail_mask(rest)))

    for row in range(rows):
        with f.if_(f.icmp("ugt", "%rows", row)):
            place = f.gep_bytes("%c", f.mul("%c_row", row))
            _store_row(f, emitter, sizes, place, ragged.results[row * columns : (row + 1) * columns])
    f.ret()


def _store_row(f: Function, emitter: VectorEmitter, sizes: Tiling, place: str, sums: tuple[str, ...]) -> None:
    """Add up the lanes of each vector and store the totals as consecutive elements of one row of c."""
    element = sizes.element
    for start in range(0, len(sums), sizes.lanes):
        totals = lane_totals(emitter, element, list(sums[start : start + sizes.lanes]))
        target = f.gep_bytes(place, start * sizes.size)
        mask = emitter.tail_mask(f.sub("%columns", start))
        kind = emitter.type(element)
        with f.if_(f.icmp("ne", "%accumulate", 0), [(kind, totals)]) as adding:
            adding.merge(emitter.add(element, totals, emitter.load(element, target, mask)))
        emitter.store(element, adding.results[0], target, mask)


def lane_totals(emitter: VectorEmitter, element: str, vectors: list[str]) -> str:
    """Return a vector whose lane j is the sum of the lanes of `vectors[j]` (at most one vector per lane).

    Each round adds pairs of vectors and halves their number: lanes whose index has the round's bit set take the second
    vector of the pair. Lanes from `len(vectors)` on are unspecified.
    """
    lanes = emitter.lanes
    bit = 1
    while len(vectors) > 1:
        paired = []
        for first, second in zip(vectors[::2], [*vectors[1::2], vectors[-1]], strict=False):
            keep = [lane + lanes if lane & bit else lane for lane in range(lanes)]
            cross = [(lane ^ bit) + lanes if lane & bit else lane ^ bit for lane in range(lanes)]
            kept = emitter.shuffle(element, first, second, keep)
            crossed = emitter.shuffle(element, first, second, cross)
            paired.append(emitter.add(element, kept, crossed))
        vectors = paired
        bit *= 2
    total = vectors[0]
    while bit < lanes:
        other = emitter.shuffle(element, total, "poison", [lane ^ bit for lane in range(lanes)])
        total = emitter.add(element, total, other)
        bit *= 2
    return total
