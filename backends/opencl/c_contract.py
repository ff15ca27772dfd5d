"""Batched matrix products in OpenCL C: a tile of C in registers for every work-item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rlxlang.backends.opencl.c_expr import Emitter, KernelScope, Layout
from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_nest import KernelPlan, indent, nest_kernel, split_point
from rlxlang.backends.opencl.c_tiles import dot_tile, general_tile, wide_tile
from rlxlang.backends.opencl.c_types import register_type, store_text
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

_Shape: TypeAlias = tuple[int, int]

_WIDE: _Shape = (8, 32)  # rows and columns of a tile; 16 vectors of 16 leave AVX-512 enough registers for the operands
_DOT: _Shape = (4, 4)
_GENERAL: _Shape = (4, 4)


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
    rows, columns, fill = _tile(step, scope, is_cpu=is_cpu)
    m, n = scope.dim(step.m), scope.dim(step.n)
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
    lines += [
        f"const int height = (int)min({m} - m0, {rows}L), width = (int)min({n} - n0, {columns}L);",
        "int shift = 0;",
        *fill,
    ]
    lines += _finish(step, scope, epilogue, batch, columns, m, n, writes_target=writes_target)
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


def _tile(step: Contract, scope: KernelScope, *, is_cpu: bool) -> tuple[int, int, list[str]]:
    """Rows and columns of a tile, and the statements that fill it."""
    left, right = step.left, step.right
    vectors = is_cpu and step.dtype == F32 and scope.dtype(right.buffer) == F32
    if vectors and right.column == 1:
        rows, columns = _WIDE
        wide = wide_tile(step, scope, rows, columns)
        narrow = general_tile(step, scope, rows, columns, narrow=True)
        enough = f"if ({scope.dim(step.n)} >= {columns}) {{"
        return rows, columns, [enough, *indent(wide), "} else {", *indent(narrow), "}"]
    if vectors and right.row == 1 and left.column == 1 and scope.dtype(left.buffer) == F32:
        return *_DOT, dot_tile(step, scope, *_DOT)
    return *_GENERAL, general_tile(step, scope, *_GENERAL)


def _start(operand: Operand, batch: Sequence[str], scope: KernelScope) -> str:
    """The text of the position of an operand's first element for this batch."""
    terms = [scope.dim(operand.offset)]
    terms += [f"{scope.dim(s)} * {i}" for s, i in zip(operand.batch, batch, strict=True) if s != 0]
    return " + ".join(terms)


def _finish(
    step: Contract,
    scope: KernelScope,
    epilogue: Sequence[Store],
    batch: Sequence[str],
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
        "for (int r = 0; r < height; ++r) {",
        "  for (int c = 0; c < width; ++c) {",
        f"    const {register_type(step.dtype)} value = tile[r * {columns} + c + shift];",
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
