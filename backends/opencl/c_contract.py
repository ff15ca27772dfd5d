"""Batched matrix products in OpenCL C: a tile of C in registers for every work-item."""

from __future__ import annotations

from collections.abc import Sequence

from rlxlang.backends.opencl.c_expr import Emitter, KernelScope, Layout
from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_nest import KernelPlan, indent, nest_kernel, split_point
from rlxlang.backends.opencl.c_types import literal, load_text, register_type, store_text
from rlxlang.kernels import (
    Accumulator,
    Apply,
    AxisValue,
    Contract,
    Expr,
    Gathered,
    Index,
    Load,
    Nest,
    Operand,
    Pass,
    Store,
    walk,
)
from rlxlang.types import F32, DimLike, ceil_div, product

_WIDE_ROWS = 8  # rows of the vector tile; with 2 vectors of 16 it fills the registers of AVX-512
_WIDE_COLUMNS = 32
_ROWS = 4
_COLUMNS = 4
_SUM_BLOCK = 256  # products are summed in blocks, and the blocks' sums then, so that long sums stay exact


def contract_kernels(
    step: Contract,
    function: str,
    layout: Layout,
    functions: Functions,
    *,
    has_fp64: bool,
    is_cpu: bool,
) -> list[KernelPlan]:
    """The kernels of a contraction: one, or two when its epilogue combines elements of C."""
    combines = any(s.mode != "set" for s in step.epilogue)
    scope = KernelScope(layout, functions)
    epilogue = () if combines else step.epilogue
    writes_target = step.keeps_target or combines or not step.epilogue
    wide = is_cpu and _is_wide(step, layout)
    rows, columns = (_WIDE_ROWS, _WIDE_COLUMNS) if wide else (_ROWS, _COLUMNS)
    m, n, k = scope.dim(step.m), scope.dim(step.n), scope.dim(step.k)
    batch = [f"i{a}" for a in range(len(step.batch))]
    lines = [
        f"const long n0 = (long)get_global_id(0) * {columns}, m0 = (long)get_global_id(1) * {rows};",
        f"if (n0 >= {n} || m0 >= {m}) return;",
        "const long number = get_global_id(2);",
        *split_point("number", step.batch, batch, scope),
        f"const long left = {_start(step.left, batch, scope)};",
        f"const long right = {_start(step.right, batch, scope)};",
        f"{register_type(step.dtype)} tile[{rows * columns}];",
    ]
    general = _general_tile(step, scope, rows, columns, m, n, k)
    if wide:
        lines += [
            f"if (n0 + {columns} <= {n} && m0 + {rows} <= {m}) {{",
            *indent(_wide_tile(step, scope, k)),
            "} else {",
        ]
        lines += [*indent(general), "}"]
    else:
        lines += general
    lines += _finish(step, scope, epilogue, batch, rows, columns, m, n, writes_target=writes_target)
    local = (1, 1, 1) if is_cpu else (8, 8, 1)
    head = scope.head()
    source = "\n".join(
        [
            f"kernel __attribute__((reqd_work_group_size({', '.join(map(str, local))})))",
            f"void {function}({scope.parameters()}) {{",
            *indent([*head, *lines]),
            "}",
        ]
    )
    items = (ceil_div(step.n, columns), ceil_div(step.m, rows), product(step.batch))
    empty = (*step.batch, step.m, step.n)
    plan = KernelPlan(function, step.name, source, scope.roots, scope.views, items, local, empty=empty)
    if not combines:
        return [plan]
    after = nest_kernel(
        _epilogue_nest(step, layout), f"{function}_epilogue", layout, functions, has_fp64=has_fp64, is_cpu=is_cpu
    )
    return [plan, after]


def _is_wide(step: Contract, layout: Layout) -> bool:
    """Whether the vector tile can read its operands: F32 in memory, rows of the right one contiguous."""
    buffers = layout.program.buffers
    return step.dtype == F32 and buffers[step.right.buffer].dtype == F32 and step.right.column == 1


def _start(operand: Operand, batch: Sequence[str], scope: KernelScope) -> str:
    """The text of the position of an operand's first element for this batch."""
    terms = [scope.dim(operand.offset)]
    terms += [f"{scope.dim(s)} * {i}" for s, i in zip(operand.batch, batch, strict=True) if s != 0]
    return " + ".join(terms)


def _element(operand: Operand, position: str, step: Contract, scope: KernelScope) -> str:
    """The text of an element of an operand in the dtype of the contraction."""
    dtype = scope.dtype(operand.buffer)
    text = load_text(scope.pointer(operand.buffer), position, dtype)
    return scope.functions.convert(f"({text})", dtype, step.dtype)


def _wide_tile(step: Contract, scope: KernelScope, k: str) -> list[str]:
    """A whole tile of 8 rows and 32 columns. Vectors go through pointers: PoCL calls functions for `vload16` and `fma`."""
    row, column = scope.dim(step.left.row), scope.dim(step.left.column)
    names = [(r, v) for r in range(_WIDE_ROWS) for v in range(2)]
    lines = [f"float16 {', '.join(f'c{r}_{v} = 0.0f' for r, v in names)};"]
    lines.append(f"for (long p = 0; p < {k}; ++p) {{")
    right = f"{scope.pointer(step.right.buffer)} + right + p * {scope.dim(step.right.row)} + n0"
    lines += [f"  const float16 y{v} = *(const global rlx_float16*)({right} + {16 * v});" for v in range(2)]
    for r in range(_WIDE_ROWS):
        item = _element(step.left, f"left + (m0 + {r}) * {row} + p * {column}", step, scope)
        lines.append(f"  {{ const float16 x = (float16)({item}); c{r}_0 += x * y0; c{r}_1 += x * y1; }}")
    lines.append("}")
    lines += [f"*(rlx_float16*)(tile + {r * _WIDE_COLUMNS + 16 * v}) = c{r}_{v};" for r, v in names]
    return lines


def _general_tile(step: Contract, scope: KernelScope, rows: int, columns: int, m: str, n: str, k: str) -> list[str]:
    """A tile of any dtype and strides; beyond the edge it repeats the last row or column, which is not stored."""
    own, zero = register_type(step.dtype), literal(0, step.dtype)
    row, column = f"min(m0 + r, {m} - 1L)", f"min(n0 + c, {n} - 1L)"
    left_position = f"left + {row} * {scope.dim(step.left.row)} + p * {scope.dim(step.left.column)}"
    right_position = f"right + p * {scope.dim(step.right.row)} + {column} * {scope.dim(step.right.column)}"
    left, right = _element(step.left, left_position, step, scope), _element(step.right, right_position, step, scope)
    product_ = scope.functions.call("mul", ("x", "y[c]"), step.dtype, step.dtype)
    total = scope.functions.call("add", (f"part[r * {columns} + c]", f"({product_})"), step.dtype, step.dtype)
    joined = scope.functions.call("add", ("tile[e]", "part[e]"), step.dtype, step.dtype)
    if step.dtype.is_float:
        total = f"part[r * {columns} + c] + x * y[c]"
    count = rows * columns
    return [
        f"for (int e = 0; e < {count}; ++e) tile[e] = {zero};",
        f"for (long p0 = 0; p0 < {k}; p0 += {_SUM_BLOCK}) {{",
        f"  {own} part[{count}];",
        f"  for (int e = 0; e < {count}; ++e) part[e] = {zero};",
        f"  const long stop = min(p0 + {_SUM_BLOCK}L, {k});",
        "  for (long p = p0; p < stop; ++p) {",
        f"    {own} y[{columns}];",
        f"    for (int c = 0; c < {columns}; ++c) y[c] = {right};",
        f"    for (int r = 0; r < {rows}; ++r) {{",
        f"      const {own} x = {left};",
        f"      for (int c = 0; c < {columns}; ++c) part[r * {columns} + c] = {total};",
        "    }",
        "  }",
        f"  for (int e = 0; e < {count}; ++e) tile[e] = {joined};",
        "}",
    ]


def _finish(
    step: Contract,
    scope: KernelScope,
    epilogue: Sequence[Store],
    batch: Sequence[str],
    rows: int,
    columns: int,
    m: str,
    n: str,
    *,
    writes_target: bool,
) -> list[str]:
    """Store the tile and run the epilogue on every element of it that exists."""
    emitter = Emitter(scope, [*batch, "im", "in"], accumulator="value")
    if writes_target:
        dtype = scope.dtype(step.target)
        if dtype.name == "BF16":
            scope.functions.needs_bf16_store()
        converted = scope.functions.convert("value", step.dtype, dtype)
        position = f"(number * {m} + im) * {n} + in"
        emitter.lines.append(store_text(scope.pointer(step.target), position, converted, dtype))
    emitter.store_all(epilogue)
    return [
        f"const int height = (int)min({m} - m0, {rows}L), width = (int)min({n} - n0, {columns}L);",
        "for (int r = 0; r < height; ++r) {",
        "  for (int c = 0; c < width; ++c) {",
        f"    const {register_type(step.dtype)} value = tile[r * {columns} + c];",
        "    const long im = m0 + r, in = n0 + c;",
        *(f"    {line}" for line in emitter.lines),
        "  }",
        "}",
    ]


def _epilogue_nest(step: Contract, layout: Layout) -> Nest:
    """The epilogue as a nest of its own that reads C from the target.

    Axes along which a combining store stays in place are walked in order by one work-item.
    """
    extents = (*step.batch, step.m, step.n)
    combining = [s for s in step.epilogue if s.mode != "set"]
    outer = [a for a in range(len(extents)) if all(s.index.strides[a] != 0 and not s.index.gathered for s in combining)]
    order = [*outer, *(a for a in range(len(extents)) if a not in outer)]
    strides: list[DimLike] = [product(extents[a + 1 :]) for a in range(len(extents))]
    load = Load(step.target, Index(0, tuple(strides[a] for a in order)), step.dtype)
    stores = tuple(_reordered(s, order, load) for s in step.epilogue)
    return Nest(
        f"{step.name}_epilogue",
        tuple(extents[a] for a in outer),
        tuple(extents[a] for a in order[len(outer) :]),
        (Pass((), stores),),
    )


def _reordered(store: Store, order: Sequence[int], accumulator: Expr) -> Store:
    """A store over permuted axes, with the accumulator replaced."""
    place = {axis: position for position, axis in enumerate(order)}
    done: dict[int, Expr] = {}

    def index_of(index: Index) -> Index:
        gathered = tuple(Gathered(done[id(g.value)], g.size, g.stride) for g in index.gathered)
        return Index(index.offset, tuple(index.strides[a] for a in order), gathered)

    roots = [store.value, *(g.value for g in store.index.gathered), *([] if store.where is None else [store.where])]
    for expr in walk(*roots):
        if isinstance(expr, Accumulator):
            done[id(expr)] = accumulator
        elif isinstance(expr, Load):
            where = None if expr.where is None else done[id(expr.where)]
            done[id(expr)] = Load(expr.buffer, index_of(expr.index), expr.dtype, where, expr.fill)
        elif isinstance(expr, Apply):
            done[id(expr)] = Apply(expr.function, tuple(done[id(a)] for a in expr.args), expr.dtype)
        else:
            done[id(expr)] = AxisValue(place[expr.axis], expr.dtype) if isinstance(expr, AxisValue) else expr
    where = None if store.where is None else done[id(store.where)]
    return Store(store.buffer, index_of(store.index), done[id(store.value)], store.mode, where)
