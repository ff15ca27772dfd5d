"""Matrix products and transposes as native code: one module per machine and dtype, for all sizes.

A product is `i32 gemm_f32(ptr record)` or `gemm_f64`; `layout.ARGUMENTS` is the record. At run time `policy` chooses a form:

- panels: tiles of c in registers, b read a panel of columns at a time, in place, copied, or transposed (`tiles`, `pack`);
- dot: both matrices read along k, for b stored by columns and few rows of a (`dot`);
- row: one row of a, b read once (`row`).

`driver` cuts c into tasks and runs the loops, `module` compiles, caches and loads. An epilogue is called on every finished
block of c while it is in the caches. Transposes are `i32 transpose_4(ptr to, i64 to_ld, ptr from, i64 from_ld, i64 rows,
i64 columns)` and `transpose_8`: leading dimensions in elements, rows and columns of the source.
"""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.layout import ARGUMENTS, emit_gemm_call, entry_name
from rlxlang.backends.llvm.gemm.module import gemm_symbols

__all__ = ["ARGUMENTS", "emit_gemm_call", "entry_name", "gemm_symbols"]
