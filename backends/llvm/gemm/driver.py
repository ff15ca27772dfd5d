"""The driver of a product: entry, tasks, and the loops over blocks.

Loops from the outside: batch and blocks of c (tasks, possibly on several threads), columns, k, rows, panels, tiles.
Within a task the sum over k runs in order, block by block, so every element of c is the same sum whatever the split.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlxlang.backends.llvm.gemm.dot import DOT_PARAMETERS, ONE_ROW_COLUMNS
from rlxlang.backends.llvm.gemm.layout import ARGUMENTS
from rlxlang.backends.llvm.gemm.policy import (
    FORM_DOT,
    FORM_ROW,
    LEAST_COLUMNS,
    PACK_COPY,
    PACK_NONE,
    PACK_TRANSPOSE,
    PLAN,
    Tiling,
    emit_plan,
)
from rlxlang.backends.llvm.gemm.row import ROW_PARAMETERS, SWEEP_BYTES
from rlxlang.backends.llvm.gemm.tiles import KERNEL_TABLE, PANEL_PARAMETERS
from rlxlang.backends.llvm.text import Function, ModuleText, Operand

BLOCK_PARAMETERS = (
    ("ptr", "plan"),
    ("ptr", "buffer"),
    ("i64", "batch"),
    ("i64", "m0"),
    ("i64", "m1"),
    ("i64", "n0"),
    ("i64", "n1"),
)
EPILOGUE_BYTES = 1 << 16
"""Bytes of c handed to an epilogue at a time, unless a single panel is more: they still lie in the caches."""

MOST_THREADS = 1 << 20

Values = Mapping[str, Operand]


def emit_entry(module: ModuleText, sizes: Tiling, symbol: str) -> None:
    """Define the exported entry: `i32 symbol(ptr arguments)`."""
    f = Function(module, symbol, [("ptr", "arguments")], "i32")
    arguments = ARGUMENTS.load_all(f, "%arguments")
    empty: Operand = False
    for name in ("batch", "m", "n"):
        empty = (
            f.or_(empty, f.icmp("sle", arguments[name], 0), "i1")
            if empty is not False
            else f.icmp("sle", arguments[name], 0)
        )
    with f.if_(empty):
        f.ret(0)
    plan = emit_plan(f, sizes, arguments)
    record = PLAN.allocate(f)
    PLAN.store(f, record, plan)
    serial = f.icmp("sle", plan["tasks"], plan["grain"])
    task = f"@{symbol}_task"
    with f.if_(serial):
        call: list[tuple[str, Operand]] = [("ptr", record), ("i64", 0), ("i64", plan["tasks"]), ("i64", 0)]
        f.ret(f.call("i32", task[1:], call))
    split: list[tuple[str, Operand]] = [
        ("ptr", task),
        ("ptr", record),
        ("i64", plan["tasks"]),
        ("i64", plan["grain"]),
        ("i32", f.trunc(f.umin(plan["threads"], MOST_THREADS), "i64", "i32")),
    ]
    f.ret(f.call("i32", "parallel_for_capped", split))


def emit_task(module: ModuleText, sizes: Tiling, symbol: str) -> None:
    """Define the task function: for every task number of its range, one block of c."""
    f = Function(
        module,
        f"{symbol}_task",
        [("ptr", "plan"), ("i64", "low"), ("i64", "high"), ("i64", "thread")],
        "i32",
        linkage="internal",
    )
    buffer = f.alloca("i8", sizes.packed_bytes)
    plan = PLAN.load_all(f, "%plan")
    with f.loop("%low", "%high") as task:
        # Neighbouring tasks share columns of b.
        rest = f.udiv(task.index, plan["row_tasks"])
        m0 = f.mul(f.sub(task.index, f.mul(rest, plan["row_tasks"])), plan["task_rows"])
        batch = f.udiv(rest, plan["column_tasks"])
        n0 = f.mul(f.sub(rest, f.mul(batch, plan["column_tasks"])), plan["task_columns"])
        arguments: list[tuple[str, Operand]] = [
            ("ptr", "%plan"),
            ("ptr", buffer),
            ("i64", batch),
            ("i64", m0),
            ("i64", f.smin(f.add(m0, plan["task_rows"]), plan["m"])),
            ("i64", n0),
            ("i64", f.smin(f.add(n0, plan["task_columns"]), plan["n"])),
        ]
        block: Operand = "@panel_block"
        for number, name in ((FORM_DOT, "@dot_block"), (FORM_ROW, "@row_block")):
            block = f.select(f.icmp("eq", plan["form"], number), name, block, "ptr")
        f.call_pointer("void", str(block), arguments)
    f.ret(0)


def _matrix(f: Function, plan: Values, name: str) -> str:
    """Start of the batch member of a matrix."""
    return f.gep_bytes(str(plan[name]), f.mul("%batch", plan[f"{name}_batch"]))


def _call_epilogue(f: Function, plan: Values, m0: Operand, m1: Operand, n0: Operand, n1: Operand) -> None:
    """Call the epilogue, if there is one, on a finished block; a swapped product swaps back."""
    with f.if_(f.icmp("ne", plan["epilogue"], "null", "ptr")):
        swapped = f.icmp("ne", plan["swapped"], 0)
        ranges = [
            f.select(swapped, n0, m0),
            f.select(swapped, n1, m1),
            f.select(swapped, m0, n0),
            f.select(swapped, m1, n1),
        ]
        f.call_pointer(
            "void",
            str(plan["epilogue"]),
            [("ptr", plan["context"]), ("i64", "%batch"), *(("i64", bound) for bound in ranges)],
        )


def emit_panel_block(module: ModuleText, sizes: Tiling) -> None:
    """Define `panel_block`: one block of c by panels of b, in place or packed."""
    f = Function(module, "panel_block", BLOCK_PARAMETERS, linkage="internal")
    plan = PLAN.load_all(f, "%plan")
    a, b, c = (_matrix(f, plan, name) for name in "abc")
    packed = f.icmp("ne", plan["pack"], PACK_NONE)
    fetch = f.icmp("ne", plan["pack"], PACK_TRANSPOSE)
    panel_bytes = f.mul(plan["panel"], sizes.size)

    def packed_panel(panel: Operand, column: Operand, k: Operand) -> str:
        """Place of a panel in the buffer, whose first panel starts at `column`."""
        return f.gep_bytes("%buffer", f.mul(f.mul(f.sub(panel, column), sizes.size), k))

    k_end = f.umax(plan["k"], 1)  # an empty sum still has to be stored
    rows_at_once = f.smin(f.sub("%m1", "%m0"), sizes.row_block)
    fitting = f.udiv(EPILOGUE_BYTES // sizes.size, f.mul(rows_at_once, plan["least_columns"]))
    group = f.mul(f.umax(fitting, 1), plan["least_columns"])

    with f.loop("%n0", "%n1", plan["column_block"]) as column:
        column_end = f.smin(f.add(column.index, plan["column_block"]), "%n1")
        with f.loop(0, k_end, plan["k_step"]) as depth:
            k = f.smin(plan["k_step"], f.sub(plan["k"], depth.index))
            first = f.icmp("eq", depth.index, 0)
            last = f.icmp("sge", f.add(depth.index, plan["k_step"]), k_end)
            accumulate = f.select(first, plan["accumulate"], 1)
            a_depth = f.gep_bytes(a, f.mul(depth.index, plan["a_column"]))
            b_depth = f.gep_bytes(b, f.mul(depth.index, plan["b_row"]))
            # The first panel after this block: further along k, or at the top of the next columns.
            below = f.gep_bytes(f.gep_bytes(b_depth, f.mul(k, plan["b_row"])), f.mul(column.index, sizes.size))
            beside = f.gep_bytes(b, f.mul(column_end, sizes.size))
            next_block = str(f.select(last, beside, below, "ptr"))
            with f.if_(packed), f.loop(column.index, column_end, plan["panel"]) as panel:
                buffer = packed_panel(panel.index, column.index, k)
                panel_end = f.smin(f.add(panel.index, plan["panel"]), column_end)
                _pack(f, plan, b_depth, buffer, panel_bytes, panel.index, panel_end, k)
            with f.loop("%m0", "%m1", sizes.row_block) as row:
                row_end = f.smin(f.add(row.index, sizes.row_block), "%m1")
                a_block = f.gep_bytes(a_depth, f.mul(row.index, plan["a_row"]))
                c_block = f.gep_bytes(c, f.mul(row.index, plan["c_row"]))
                with f.loop(column.index, column_end, group) as columns:
                    group_end = f.smin(f.add(columns.index, group), column_end)
                    with f.loop(columns.index, group_end, plan["panel"]) as panel:
                        copied = packed_panel(panel.index, column.index, k)
                        in_place = f.gep_bytes(b_depth, f.mul(panel.index, sizes.size))
                        more = f.icmp("slt", f.add(panel.index, plan["panel"]), column_end)
                        following = f.select(more, f.gep_bytes(in_place, panel_bytes), next_block, "ptr")
                        arguments: list[tuple[str, Operand]] = [
                            ("ptr", "%plan"),
                            ("i64", k),
                            ("ptr", a_block),
                            ("ptr", f.select(packed, copied, in_place, "ptr")),
                            ("i64", f.select(packed, panel_bytes, plan["b_row"])),
                            ("ptr", f.gep_bytes(c_block, f.mul(panel.index, sizes.size))),
                            ("i64", f.sub(row_end, row.index)),
                            ("i64", f.smin(f.sub(group_end, panel.index), plan["panel"])),
                            ("i64", accumulate),
                            ("ptr", following),
                            ("i64", f.select(fetch, plan["b_row"], 0)),
                        ]
                        f.call("void", "panel_rows", arguments)
                    with f.if_(last):
                        _call_epilogue(f, plan, row.index, row_end, columns.index, group_end)
    f.ret()


def _pack(
    f: Function,
    plan: Values,
    b_depth: str,
    buffer: str,
    panel_bytes: Operand,
    start: Operand,
    end: Operand,
    k: Operand,
) -> None:
    """Copy or transpose one panel into the buffer."""
    source = f.gep_bytes(b_depth, f.mul(start, plan["b_column"]))
    columns = f.sub(end, start)
    with f.if_else(f.icmp("eq", plan["pack"], PACK_COPY)) as form:
        with form.then():
            copied: list[tuple[str, Operand]] = [
                ("ptr", buffer),
                ("i64", panel_bytes),
                ("ptr", source),
                ("i64", plan["b_row"]),
                ("i64", k),
                ("i64", columns),
            ]
            f.call("void", "copy_panel", copied)
        with form.otherwise():
            turned: list[tuple[str, Operand]] = [
                ("ptr", buffer),
                ("i64", panel_bytes),
                ("ptr", source),
                ("i64", plan["b_column"]),
                ("i64", columns),
                ("i64", k),
            ]
            f.call("void", "transpose_block", turned)


def emit_panel_rows(module: ModuleText, sizes: Tiling) -> None:
    """Define `panel_rows`: all rows of a block times one panel, in tiles of nearly equal height."""
    f = Function(
        module,
        "panel_rows",
        [
            ("ptr", "plan"),
            ("i64", "k"),
            ("ptr", "a"),
            ("ptr", "b"),
            ("i64", "b_row"),
            ("ptr", "c"),
            ("i64", "rows"),
            ("i64", "columns"),
            ("i64", "accumulate"),
            ("ptr", "next"),
            ("i64", "next_row"),
        ],
        linkage="internal",
    )
    a_row, a_column, c_row = (PLAN.load(f, "%plan", name) for name in ("a_row", "a_column", "c_row"))
    most_rows = max(sizes.rows)
    vectors = f.ceil_div("%columns", sizes.lanes)
    highest: Operand = sizes.rows[-1]
    for width, height in enumerate(sizes.rows[:-1], start=1):
        highest = f.select(f.icmp("eq", vectors, width), height, highest)
    tiles = f.ceil_div("%rows", highest)
    low = f.udiv("%rows", tiles)
    taller = f.sub("%rows", f.mul(low, tiles))  # so many tiles have one row more
    table = f.gep("ptr", f"@{KERNEL_TABLE}", f.mul(f.sub(vectors, 1), most_rows))
    carried: list[tuple[str, Operand]] = [("ptr", "%a"), ("ptr", "%c")]
    with f.loop(0, tiles, carried=carried) as tile:
        a, c = tile.carried
        rows = f.add(low, f.zext(f.icmp("slt", tile.index, taller), "i1", "i64"))
        kernel = f.load("ptr", f.gep("ptr", table, f.sub(rows, 1)))
        # The first tile fetches all of the next panel; the others point at one row that is there.
        stride = f.select(f.icmp("eq", tile.index, 0), "%next_row", 0)
        values: list[Operand] = [
            "%k",
            a,
            a_row,
            a_column,
            "%b",
            "%b_row",
            c,
            c_row,
            "%columns",
            "%accumulate",
            "%next",
            stride,
        ]
        typed = [(kind, value) for (kind, _), value in zip(PANEL_PARAMETERS, values, strict=True)]
        f.call_pointer("void", kernel, typed)
        tile.next(f.gep_bytes(a, f.mul(rows, a_row)), f.gep_bytes(c, f.mul(rows, c_row)))
    f.ret()


def emit_dot_block(module: ModuleText, sizes: Tiling) -> None:
    """Define `dot_block`: one block of c by dot products along k."""
    f = Function(module, "dot_block", BLOCK_PARAMETERS, linkage="internal")
    plan = PLAN.load_all(f, "%plan")
    a, b, c = (_matrix(f, plan, name) for name in "abc")
    one_row = f.icmp("eq", plan["m"], 1)
    rows_per_tile = f.select(one_row, 1, sizes.dot[0])
    columns_per_tile = f.select(one_row, ONE_ROW_COLUMNS, sizes.dot[1])
    kernel = str(f.select(one_row, "@dot_row", "@dot_tile", "ptr"))
    sweep = f.select(one_row, LEAST_COLUMNS, sizes.dot_columns)
    with f.loop("%n0", "%n1", sweep) as columns:
        columns_end = f.smin(f.add(columns.index, sweep), "%n1")
        with f.loop(columns.index, columns_end, columns_per_tile) as column:
            b_tile = f.gep_bytes(b, f.mul(column.index, plan["b_column"]))
            c_tile = f.gep_bytes(c, f.mul(column.index, sizes.size))
            width = f.smin(columns_per_tile, f.sub(columns_end, column.index))
            with f.loop("%m0", "%m1", rows_per_tile) as row:
                values: list[Operand] = [
                    plan["k"],
                    f.gep_bytes(a, f.mul(row.index, plan["a_row"])),
                    plan["a_row"],
                    b_tile,
                    plan["b_column"],
                    f.gep_bytes(c_tile, f.mul(row.index, plan["c_row"])),
                    plan["c_row"],
                    f.smin(rows_per_tile, f.sub("%m1", row.index)),
                    width,
                    plan["accumulate"],
                ]
                typed = [(kind, value) for (kind, _), value in zip(DOT_PARAMETERS, values, strict=True)]
                f.call_pointer("void", kernel, typed)
        _call_epilogue(f, plan, "%m0", "%m1", columns.index, columns_end)
    f.ret()


def emit_row_block(module: ModuleText, sizes: Tiling) -> None:
    """Define `row_block`: a range of columns of a product with one row, b in place."""
    f = Function(module, "row_block", BLOCK_PARAMETERS, linkage="internal")
    plan = PLAN.load_all(f, "%plan")
    a, b, c = (_matrix(f, plan, name) for name in "abc")
    sweep = SWEEP_BYTES // sizes.size
    with f.loop("%n0", "%n1", sweep) as columns:
        end = f.smin(f.add(columns.index, sweep), "%n1")
        offset = f.mul(columns.index, sizes.size)
        values: list[Operand] = [
            plan["k"],
            a,
            plan["a_column"],
            f.gep_bytes(b, offset),
            plan["b_row"],
            f.gep_bytes(c, offset),
            f.sub(end, columns.index),
            plan["accumulate"],
        ]
        typed = [(kind, value) for (kind, _), value in zip(ROW_PARAMETERS, values, strict=True)]
        f.call("void", "row_product", typed)
        _call_epilogue(f, plan, "%m0", "%m1", columns.index, end)
    f.ret()
