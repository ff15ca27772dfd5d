"""Register tiles and blocking: which sizes a machine gets, and the plan made for one product at run time.

The first half is decided in Python when the module is generated (from the vector registers and the cache sizes), the
second is integer code that runs once per product. Nothing in a plan depends on the number of threads except how the
result is cut into tasks, and no task cuts the sum over k: results are the same for every number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlxlang.backends.llvm.gemm.layout import ARGUMENTS, Record
from rlxlang.backends.llvm.text import Function, Operand
from rlxlang.backends.llvm.vector import VectorTarget

K_UNROLL = 2
"""Steps along k per iteration of a panel kernel; 2, 4 and 8 run alike, 2 compiles fastest."""

LEAST_COLUMNS = 64
"""Columns of c finished together where there are so many: epilogues are vectorised along them."""

PARALLEL_COST = 4_000_000
"""Products below this cost (about two per multiply-add) stay on the calling thread: 40 us of one core."""

TASK_COST = 1_000_000
"""Least cost of a task."""

BANDWIDTH_COST = 8
"""What reading an element of b costs, in the same unit: it counts when few rows use it."""

DOT_MOST_ROWS = 64
DOT_LEAST_K = 16
DOT_K_PER_ROW = 7
"""The dot form takes b with long rows along k, for few rows of a."""

FORM_PANELS, FORM_DOT, FORM_ROW = 0, 1, 2

PACK_NONE, PACK_COPY, PACK_TRANSPOSE = 0, 1, 2

TASKS_PER_THREAD = 4
"""More tasks than threads, so that a thread that loses its core does not hold up the others."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Sizes that depend on the element type and the machine, fixed when the module is generated.

    Attributes:
        target: The machine's vectors.
        element: LLVM type of an element, `"float"` or `"double"`.
        size: Bytes per element.
        lanes: Elements per vector.
        rows: `rows[v - 1]` is the largest number of rows of a tile that is v vectors wide.
        dot: Rows and columns of the tile of the dot form.
        row_block: Rows of a and c that one block covers.
        k_block: Steps along k that one block covers when b is read in place.
        k_packed: The same when panels of b are packed.
    """

    target: VectorTarget
    element: str
    size: int
    lanes: int
    rows: tuple[int, ...]
    dot: tuple[int, int]
    row_block: int
    k_block: int
    k_packed: int

    @property
    def masked(self) -> bool:
        """Whether masked loads are single instructions; otherwise ragged panels of b are packed first."""
        return self.target.width_bits >= 256

    @property
    def lane_masks(self) -> bool:
        """Whether masks have registers of their own (AVX-512) and may stay alive across blocks."""
        return self.target.width_bits >= 512

    @property
    def vector_bytes(self) -> int:
        """Bytes per vector."""
        return self.lanes * self.size

    @property
    def panel(self) -> int:
        """Columns of the widest panel of b."""
        return len(self.rows) * self.lanes

    @property
    def dot_columns(self) -> int:
        """Columns of one sweep of the dot form."""
        return -(-LEAST_COLUMNS // self.dot[1]) * self.dot[1]

    @property
    def packed_bytes(self) -> int:
        """Bytes of the buffer for packed panels: `LEAST_COLUMNS` columns, the widest panel if that is more."""
        return self.k_packed * max(LEAST_COLUMNS, self.panel) * self.size


def tiling(target: VectorTarget, dtype: str, l2_bytes: int) -> Tiling:
    """Choose the sizes for a machine.

    A tile of r rows and v vectors keeps r * v sums, v vectors of b and one broadcast element of a in registers. With 32
    registers six rows by four vectors run at 98 % of peak and read b in long runs; with 16 registers, six by two.

    Args:
        target: The machine's vectors.
        dtype: `"float32"` or `"float64"`.
        l2_bytes: Size of the second-level cache of one core.
    """
    element, size = {"float32": ("float", 4), "float64": ("double", 8)}[dtype]
    many_registers = target.width_bits >= 512 or target.name == "neon"
    k_block = 256
    # A block of a takes at most a quarter of the second-level cache; 168 is a multiple of every tile height.
    rows_that_fit = l2_bytes // 4 // (k_block * size)
    return Tiling(
        target=target,
        element=element,
        size=size,
        lanes=target.width_bits // (8 * size),
        rows=(14, 14, 8, 6) if many_registers else (12, 6),
        dot=(4, 6) if many_registers else (3, 4),
        row_block=max(24, min(168, rows_that_fit // 24 * 24)),
        k_block=k_block,
        k_packed=512,
    )


PLAN = Record(
    (
        *ARGUMENTS.fields,
        ("swapped", "i64"),  # 1: c has one column and is computed as one row
        ("form", "i64"),  # FORM_PANELS, FORM_DOT (b is read along k) or FORM_ROW (one row, b in place)
        ("pack", "i64"),  # 0: b in place, 1: copy panels, 2: transpose panels
        ("panel", "i64"),  # columns of a panel of b
        ("least_columns", "i64"),  # a multiple of the panel, 64 at least unless the panel is all
        ("column_block", "i64"),  # columns handled at a time, a multiple of the panel
        ("k_step", "i64"),  # steps along k handled at a time
        ("task_rows", "i64"),  # rows of c per task
        ("task_columns", "i64"),  # columns of c per task
        ("row_tasks", "i64"),
        ("column_tasks", "i64"),
        ("tasks", "i64"),  # batch * row_tasks * column_tasks
        ("grain", "i64"),  # tasks handed to a thread at a time
    )
)
"""The arguments with strides in bytes, followed by what the policy decided."""


def emit_plan(f: Function, sizes: Tiling, arguments: Mapping[str, Operand]) -> dict[str, Operand]:
    """Emit the policy: normalise the product and choose form, packing, blocking and tasks.

    Args:
        f: The entry function; batch, m and n are known to be positive.
        sizes: The machine's tiling.
        arguments: The loaded fields of `ARGUMENTS`.

    Returns:
        A value for every field of `PLAN`.
    """
    plan = dict(arguments)
    for name in arguments:
        if name.endswith(("_row", "_column", "_batch")):
            plan[name] = f.mul(plan[name], sizes.size)
    _swap_column(f, sizes, plan)
    _merge_batch(f, plan)
    _choose_form(f, sizes, plan)
    _choose_tasks(f, sizes, plan)
    return plan


def _swap_column(f: Function, sizes: Tiling, plan: dict[str, Operand]) -> None:
    """Turn a product with one dense column into the transposed product with one row: vectors then run along c."""
    column = f.and_(f.icmp("eq", plan["n"], 1), f.icmp("ne", plan["m"], 1), "i1")
    swap = f.and_(column, f.icmp("eq", plan["c_row"], sizes.size), "i1")
    pairs = (("m", "n"), ("a", "b"), ("a_row", "b_column"), ("a_column", "b_row"), ("a_batch", "b_batch"))
    before = dict(plan)
    for first, second in pairs:
        kind = "ptr" if first == "a" else "i64"
        plan[first] = f.select(swap, before[second], before[first], kind)
        plan[second] = f.select(swap, before[first], before[second], kind)
    plan["swapped"] = f.zext(swap, "i1", "i64")


def _merge_batch(f: Function, plan: dict[str, Operand]) -> None:
    """Turn a batch of products with one b into a single taller product, where the rows follow one another.

    An epilogue is told the batch index, so products with an epilogue stay apart.
    """
    # With one row each, the stride from product to product is that from row to row.
    one_row = f.icmp("eq", plan["m"], 1)
    a_row = f.select(one_row, plan["a_batch"], plan["a_row"])
    c_row = f.select(one_row, plan["c_batch"], plan["c_row"])
    conditions = (
        f.icmp("eq", plan["b_batch"], 0),
        f.icmp("eq", plan["a_batch"], f.mul(plan["m"], a_row)),
        f.icmp("eq", plan["c_batch"], f.mul(plan["m"], c_row)),
        f.icmp("eq", plan["epilogue"], "null", "ptr"),
    )
    merge = f.icmp("sgt", plan["batch"], 1)
    for condition in conditions:
        merge = f.and_(merge, condition, "i1")
    plan["a_row"] = f.select(merge, a_row, plan["a_row"])
    plan["c_row"] = f.select(merge, c_row, plan["c_row"])
    plan["m"] = f.select(merge, f.mul(plan["m"], plan["batch"]), plan["m"])
    plan["batch"] = f.select(merge, 1, plan["batch"])


def _choose_form(f: Function, sizes: Tiling, plan: dict[str, Operand]) -> None:
    """Choose dot form or panels, packing and the block along k."""
    m, n, k = plan["m"], plan["n"], plan["k"]
    transposed = f.and_(f.icmp("ne", n, 1), f.icmp("ne", plan["b_column"], sizes.size), "i1")
    # The dot form reads both matrices along k. Its sums across lanes are spread over k, the other form's transposes over
    # m: measured, they break even where k is about seven times m.
    long = f.icmp("sge", k, DOT_LEAST_K)
    few_rows = f.and_(f.icmp("sle", m, DOT_MOST_ROWS), f.icmp("sle", f.mul(m, DOT_K_PER_ROW), k), "i1")
    # A single column of b that is contiguous along k is a dot product per row of a, however many there are.
    column = f.and_(f.icmp("eq", n, 1), f.icmp("eq", plan["b_row"], sizes.size), "i1")
    along_k = f.or_(f.and_(transposed, few_rows, "i1"), column, "i1")
    dense_a = f.icmp("eq", plan["a_column"], sizes.size)
    dot = f.and_(f.and_(along_k, long, "i1"), dense_a, "i1")
    row = f.and_(f.icmp("eq", m, 1), f.not_(f.or_(transposed, dot, "i1")), "i1")

    # Rows of b that lie a multiple of 2 KiB apart fall into few sets of the caches: a panel read in place would evict
    # itself. Packing pays once a panel is used by many rows.
    aliasing = f.icmp("eq", f.and_(plan["b_row"], 2047), 0)
    far_apart = f.or_(aliasing, f.icmp("sge", n, 2048), "i1")
    large = f.and_(f.icmp("sge", m, 128), f.and_(f.icmp("sge", k, 256), f.icmp("sge", n, 512), "i1"), "i1")
    copy = f.and_(large, far_apart, "i1")
    if not sizes.masked:
        ragged = f.icmp("ne", f.urem(n, sizes.lanes), 0)
        copy = f.or_(copy, ragged, "i1")
    packing = f.select(transposed, PACK_TRANSPOSE, f.select(copy, PACK_COPY, PACK_NONE))
    plan["form"] = f.select(dot, FORM_DOT, f.select(row, FORM_ROW, FORM_PANELS))
    plan["pack"] = f.select(f.or_(dot, row, "i1"), PACK_NONE, packing)

    vectors = f.umin(f.ceil_div(n, sizes.lanes), len(sizes.rows))
    plan["panel"] = f.mul(vectors, sizes.lanes)
    packed = f.icmp("ne", plan["pack"], PACK_NONE)
    panels = f.umax(f.udiv(LEAST_COLUMNS, plan["panel"]), 1)
    plan["least_columns"] = f.mul(panels, plan["panel"])
    plan["column_block"] = f.select(packed, plan["least_columns"], f.add(n, plan["panel"]))
    k_most = f.select(packed, sizes.k_packed, sizes.k_block)
    k_blocks = f.umax(f.ceil_div(k, k_most), 1)
    even = f.and_(f.add(f.ceil_div(k, k_blocks), K_UNROLL - 1), -K_UNROLL)
    plan["k_step"] = f.umax(even, K_UNROLL)


def _choose_tasks(f: Function, sizes: Tiling, plan: dict[str, Operand]) -> None:
    """Cut the result into enough tasks for the threads, none of them too small."""
    m, n, batch = plan["m"], plan["n"], plan["batch"]
    per_column = f.mul(plan["k"], f.add(f.mul(m, 2), BANDWIDTH_COST))
    cost = f.mul(f.mul(per_column, n), batch)
    split = f.and_(f.icmp("sgt", plan["threads"], 1), f.icmp("sge", cost, PARALLEL_COST), "i1")
    most = f.udiv(cost, TASK_COST)
    wanted = f.select(split, f.umin(f.mul(plan["threads"], TASKS_PER_THREAD), most), 1)
    dot = f.icmp("eq", plan["form"], FORM_DOT)
    row_unit = f.select(dot, sizes.dot[0] * 2, sizes.rows[-1] * 2)
    column_unit = f.select(dot, sizes.dot_columns, plan["least_columns"])
    packed = f.icmp("ne", plan["pack"], PACK_NONE)

    row_units = f.ceil_div(m, row_unit)
    column_units = f.ceil_div(n, column_unit)
    wanted = f.ceil_div(wanted, batch)
    # Packing is repeated by every task along rows, so packed products are cut along columns first.
    columns_first = f.or_(packed, f.icmp("sge", n, m), "i1")
    first_columns = f.umin(column_units, wanted)
    first_rows = f.umin(row_units, wanted)
    rest_rows = f.umin(row_units, f.ceil_div(wanted, first_columns))
    rest_columns = f.umin(column_units, f.ceil_div(wanted, first_rows))
    row_tasks = f.select(columns_first, rest_rows, first_rows)
    column_tasks = f.select(columns_first, first_columns, rest_columns)
    plan["task_rows"] = f.mul(f.ceil_div(row_units, row_tasks), row_unit)
    plan["task_columns"] = f.mul(f.ceil_div(column_units, column_tasks), column_unit)
    plan["row_tasks"] = f.ceil_div(m, plan["task_rows"])
    plan["column_tasks"] = f.ceil_div(n, plan["task_columns"])
    # Tasks handed out at a time: all of them when nothing is split.
    tasks = f.mul(f.mul(plan["row_tasks"], plan["column_tasks"]), batch)
    grain = f.umax(f.udiv(tasks, f.umax(f.mul(wanted, batch), 1)), 1)
    plan["grain"] = f.select(split, grain, tasks)
    plan["tasks"] = tasks
