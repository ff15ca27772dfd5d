"""Copies that rearrange matrices: panels of b, and transposes.

Transposes work on square blocks of one vector by one vector, turned in registers; ragged edges use masks.
"""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.policy import Tiling
from rlxlang.backends.llvm.text import Function, ModuleText, Operand
from rlxlang.backends.llvm.vector import VectorEmitter

COPY_PARAMETERS = (
    ("ptr", "to"),
    ("i64", "to_row"),  # strides in bytes
    ("ptr", "from"),
    ("i64", "from_row"),
    ("i64", "rows"),  # of the source
    ("i64", "columns"),
)
COLUMN_BLOCK = 256
"""Columns of the source swept at a time: each is a row of the result, and so a page to keep translated."""

PREFETCH_ROWS = 8
"""Rows ahead of a panel copy: they lie too far apart for the hardware to foresee."""


def emit_copy_panel(module: ModuleText, sizes: Tiling) -> None:
    """Define `copy_panel`: rows of at most a panel's width from one stride to another."""
    f = Function(module, "copy_panel", COPY_PARAMETERS, linkage="internal")
    emitter = VectorEmitter(f, sizes.target, sizes.lanes)
    element, step = sizes.element, sizes.lanes
    whole = f.and_("%columns", -step)
    edge = f.sub("%columns", whole)
    mask = emitter.tail_mask(edge)
    ragged = f.icmp("ne", edge, 0)
    with f.loop(0, "%rows") as row:
        source = f.gep_bytes("%from", f.mul(row.index, "%from_row"))
        target = f.gep_bytes("%to", f.mul(row.index, "%to_row"))
        ahead = f.gep_bytes(source, f.mul("%from_row", PREFETCH_ROWS))
        with f.loop(0, whole, step) as column:
            offset = f.mul(column.index, sizes.size)
            f.prefetch(f.gep_bytes(ahead, offset))
            value = emitter.load(element, f.gep_bytes(source, offset))
            emitter.store(element, value, f.gep_bytes(target, offset))
        with f.if_(ragged):
            offset = f.mul(whole, sizes.size)
            value = emitter.load(element, f.gep_bytes(source, offset), mask)
            # The panel is a whole number of vectors wide; what is past the edge becomes zero.
            emitter.store(element, value, f.gep_bytes(target, offset))
    f.ret()


def emit_transpose(module: ModuleText, sizes: Tiling) -> None:
    """Define `transpose_block`: to[c, r] = from[r, c], exact at the edges."""
    f = Function(module, "transpose_block", COPY_PARAMETERS, linkage="internal")
    emitter = VectorEmitter(f, sizes.target, sizes.lanes)
    lanes = sizes.lanes
    with f.loop(0, "%columns", COLUMN_BLOCK) as block:
        block_end = f.smin(f.add(block.index, COLUMN_BLOCK), "%columns")
        with f.loop(0, "%rows", lanes) as row:
            rows_left = f.sub("%rows", row.index)
            source_row = f.gep_bytes("%from", f.mul(row.index, "%from_row"))
            target_row = f.gep_bytes("%to", f.mul(row.index, sizes.size))
            with f.loop(block.index, block_end, lanes) as column:
                columns_left = f.sub(block_end, column.index)
                source = f.gep_bytes(source_row, f.mul(column.index, sizes.size))
                target = f.gep_bytes(target_row, f.mul(column.index, "%to_row"))
                whole = f.and_(f.icmp("sge", rows_left, lanes), f.icmp("sge", columns_left, lanes), "i1")
                with f.if_else(whole) as branch:
                    with branch.then():
                        _turn_whole(f, emitter, sizes, source, target)
                    with branch.otherwise():
                        _turn_edge(f, emitter, sizes, source, target, rows_left, columns_left)
    f.ret()


def _turn_whole(f: Function, emitter: VectorEmitter, sizes: Tiling, source: str, target: str) -> None:
    rows = []
    for lane in range(sizes.lanes):
        rows.append(emitter.load(sizes.element, f.gep_bytes(source, f.mul("%from_row", lane))))
    for lane, turned in enumerate(transposed(emitter, sizes.element, rows)):
        emitter.store(sizes.element, turned, f.gep_bytes(target, f.mul("%to_row", lane)))


def _turn_edge(
    f: Function,
    emitter: VectorEmitter,
    sizes: Tiling,
    source: str,
    target: str,
    rows_left: Operand,
    columns_left: Operand,
) -> None:
    column_mask = emitter.tail_mask(columns_left)
    row_mask = emitter.tail_mask(rows_left)
    last = f.sub(rows_left, 1)
    rows = []
    for lane in range(sizes.lanes):
        # Past the last row the last one is read again; the mask keeps it out of the result.
        offset = f.mul(f.smin(lane, last), "%from_row")
        rows.append(emitter.load(sizes.element, f.gep_bytes(source, offset), column_mask))
    for lane, turned in enumerate(transposed(emitter, sizes.element, rows)):
        with f.if_(f.icmp("sgt", columns_left, lane)):
            emitter.store(sizes.element, turned, f.gep_bytes(target, f.mul("%to_row", lane)), row_mask)


def transposed(emitter: VectorEmitter, element: str, rows: list[str]) -> list[str]:
    """Transpose a square block held in registers: one round of pair-wise exchanges per bit of the lane number."""
    lanes = emitter.lanes
    bit = 1
    while bit < lanes:
        turned = list(rows)
        for low in range(lanes):
            if low & bit:
                continue
            high = low | bit
            first = [lane if not lane & bit else (lane ^ bit) + lanes for lane in range(lanes)]
            second = [lane | bit if not lane & bit else lane + lanes for lane in range(lanes)]
            turned[low] = emitter.shuffle(element, rows[low], rows[high], first)
            turned[high] = emitter.shuffle(element, rows[low], rows[high], second)
        rows = turned
        bit *= 2
    return rows


def emit_transpose_entry(module: ModuleText, sizes: Tiling) -> None:
    """Define the exported `transpose_4` or `transpose_8`, which splits large matrices over the threads."""
    symbol = f"transpose_{sizes.size}"
    record_slots = len(COPY_PARAMETERS)
    task = Function(
        module,
        f"{symbol}_task",
        [("ptr", "context"), ("i64", "low"), ("i64", "high"), ("i64", "thread")],
        "i32",
        linkage="internal",
    )
    values: list[Operand] = [
        task.load(kind, task.gep_bytes("%context", 8 * slot)) for slot, (kind, _) in enumerate(COPY_PARAMETERS)
    ]
    to, to_row, source, source_row, rows, columns = values
    # A task is a range of rows of the source, counted in vectors.
    first = task.mul("%low", sizes.lanes)
    count = task.sub(task.smin(task.mul("%high", sizes.lanes), rows), first)
    arguments: list[tuple[str, Operand]] = [
        ("ptr", task.gep_bytes(str(to), task.mul(first, sizes.size))),
        ("i64", to_row),
        ("ptr", task.gep_bytes(str(source), task.mul(first, source_row))),
        ("i64", source_row),
        ("i64", count),
        ("i64", columns),
    ]
    task.call("void", "transpose_block", arguments)
    task.ret(0)

    f = Function(
        module,
        symbol,
        [("ptr", "to"), ("i64", "to_ld"), ("ptr", "from"), ("i64", "from_ld"), ("i64", "rows"), ("i64", "columns")],
        "i32",
    )
    empty = f.or_(f.icmp("sle", "%rows", 0), f.icmp("sle", "%columns", 0), "i1")
    with f.if_(empty):
        f.ret(0)
    record = f.alloca("i64", record_slots, align=8)
    stored: list[Operand] = [
        "%to",
        f.mul("%to_ld", sizes.size),
        "%from",
        f.mul("%from_ld", sizes.size),
        "%rows",
        "%columns",
    ]
    for slot, ((kind, _), value) in enumerate(zip(COPY_PARAMETERS, stored, strict=True)):
        f.store(kind, value, f.gep_bytes(record, 8 * slot))
    units = f.ceil_div("%rows", sizes.lanes)
    # At least 32 Ki elements per task: below that handing it out costs more than it saves.
    grain = f.umax(f.ceil_div(TRANSPOSE_TASK // sizes.lanes, "%columns"), 1)
    status = f.call(
        "i32",
        "parallel_for",
        [("ptr", f"@{symbol}_task"), ("ptr", record), ("i64", units), ("i64", grain)],
    )
    f.ret(status)


TRANSPOSE_TASK = 1 << 15
"""Elements per task of a transpose."""
