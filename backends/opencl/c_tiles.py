"""The inner loops of matrix products: three ways to fill a tile of C from `left`, `right`, `m0` and `n0`.

Beyond the lower edge a tile repeats the last row, which is not stored. PoCL calls functions for `vload16` and `fma`, which spills the
accumulators; vectors are read through pointers, and `a * b + c` is contracted.
"""

from __future__ import annotations

from rlxlang.backends.opencl.c_expr import KernelScope
from rlxlang.backends.opencl.c_types import literal, load_text, register_type
from rlxlang.kernels import Contract, Operand

_LANES = 16
_SUM_BLOCK = 256  # products are summed in blocks, and the blocks' sums then, so that long sums stay exact


def _element(operand: Operand, position: str, step: Contract, scope: KernelScope) -> str:
    """The text of an element of an operand in the dtype of the contraction."""
    dtype = scope.dtype(operand.buffer)
    text = load_text(scope.pointer(operand.buffer), position, dtype)
    return scope.functions.convert(f"({text})", dtype, step.dtype)


def _row(step: Contract, scope: KernelScope, r: int | str) -> str:
    """The text of where row `r` of the tile starts in the left operand."""
    return f"left + min(m0 + {r}, {scope.dim(step.m)} - 1L) * {scope.dim(step.left.row)}"


def wide_tile(step: Contract, scope: KernelScope, rows: int, columns: int) -> list[str]:
    """For rows of the right operand that are contiguous F32: two vectors of C for each of 8 rows.

    At the right edge the tile moves `shift` columns back, so that it needs no mask.
    """
    n, k, column = scope.dim(step.n), scope.dim(step.k), scope.dim(step.left.column)
    parts = columns // _LANES
    names = [(r, v) for r in range(rows) for v in range(parts)]
    right = f"{scope.pointer(step.right.buffer)} + right + p * {scope.dim(step.right.row)} + n0 - shift"
    lines = [
        f"shift = (int)max(n0 + {columns} - {n}, 0L);",
        *(f"const long row{r} = {_row(step, scope, r)};" for r in range(rows)),
        f"float16 {', '.join(f'c{r}_{v} = 0.0f' for r, v in names)};",
        f"for (long p = 0; p < {k}; ++p) {{",
        *(f"  const float16 y{v} = *(const global rlx_float16*)({right} + {_LANES * v});" for v in range(parts)),
    ]
    for r in range(rows):
        item = _element(step.left, f"row{r} + p * {column}", step, scope)
        sums = " ".join(f"c{r}_{v} += x * y{v};" for v in range(parts))
        lines.append(f"  {{ const float16 x = (float16)({item}); {sums} }}")
    lines.append("}")
    lines += [f"*(rlx_float16*)(tile + {r * columns + _LANES * v}) = c{r}_{v};" for r, v in names]
    return lines


def dot_tile(step: Contract, scope: KernelScope, rows: int, columns: int) -> list[str]:
    """For F32 operands that are both contiguous along k: a dot product for each element of the tile."""
    n, k = scope.dim(step.n), scope.dim(step.k)
    a, b = scope.pointer(step.left.buffer), scope.pointer(step.right.buffer)
    names = [(r, c) for r in range(rows) for c in range(columns)]
    lines = [
        *(f"global const float* x{r} = {a} + {_row(step, scope, r)};" for r in range(rows)),
        *(
            f"global const float* y{c} = {b} + right + min(n0 + {c}, {n} - 1L) * {scope.dim(step.right.column)};"
            for c in range(columns)
        ),
        f"float16 {', '.join(f'c{r}_{c} = 0.0f' for r, c in names)};",
        f"const long whole = {k} / {_LANES} * {_LANES};",
        f"for (long p = 0; p < whole; p += {_LANES}) {{",
        *(f"  const float16 v{c} = *(const global rlx_float16*)(y{c} + p);" for c in range(columns)),
    ]
    for r in range(rows):
        sums = " ".join(f"c{r}_{c} += u * v{c};" for c in range(columns))
        lines.append(f"  {{ const float16 u = *(const global rlx_float16*)(x{r} + p); {sums} }}")
    lines.append("}")
    for r, c in names:
        lines.append(f"{{ const float8 h = c{r}_{c}.lo + c{r}_{c}.hi; const float4 q = h.lo + h.hi;")
        lines.append("  float total = (q.x + q.z) + (q.y + q.w);")
        lines.append(f"  for (long p = whole; p < {k}; ++p) total += x{r}[p] * y{c}[p];")
        lines.append(f"  tile[{r * columns + c}] = total; }}")
    return lines


def general_tile(step: Contract, scope: KernelScope, rows: int, columns: int, *, narrow: bool = False) -> list[str]:
    """For any dtype and strides. A `narrow` C has fewer columns than a tile; otherwise the last column is repeated."""
    own, zero, k = register_type(step.dtype), literal(0, step.dtype), scope.dim(step.k)
    column = "(n0 + c)" if narrow else f"min(n0 + c, {scope.dim(step.n)} - 1L)"
    bound = "width" if narrow else str(columns)
    right_position = f"right + p * {scope.dim(step.right.row)} + {column} * {scope.dim(step.right.column)}"
    left = _element(step.left, f"{_row(step, scope, 'r')} + p * {scope.dim(step.left.column)}", step, scope)
    right = _element(step.right, right_position, step, scope)
    call = scope.functions.call
    part = f"part[r * {columns} + c]"
    if step.dtype.is_float:
        total = f"{part} + x * y[c]"
    else:
        total = call("add", (part, f"({call('mul', ('x', 'y[c]'), step.dtype, step.dtype)})"), step.dtype, step.dtype)
    joined = call("add", ("tile[e]", "part[e]"), step.dtype, step.dtype)
    count = rows * columns
    return [
        f"for (int e = 0; e < {count}; ++e) tile[e] = {zero};",
        f"for (long p0 = 0; p0 < {k}; p0 += {_SUM_BLOCK}) {{",
        f"  {own} part[{count}];",
        f"  for (int e = 0; e < {count}; ++e) part[e] = {zero};",
        f"  const long stop = min(p0 + {_SUM_BLOCK}L, {k});",
        "  for (long p = p0; p < stop; ++p) {",
        f"    {own} y[{columns}];",
        f"    for (int c = 0; c < {bound}; ++c) y[c] = {right};",
        f"    for (int r = 0; r < {rows}; ++r) {{",
        f"      const {own} x = {left};",
        f"      for (int c = 0; c < {bound}; ++c) {part} = {total};",
        "    }",
        "  }",
        f"  for (int e = 0; e < {count}; ++e) tile[e] = {joined};",
        "}",
    ]
