"""Matrix products and transposes as native code: one module per machine and dtype, for all sizes."""

from __future__ import annotations

from rlxlang.backends.llvm.gemm.layout import ARGUMENTS, emit_gemm_call, entry_name
from rlxlang.backends.llvm.gemm.module import gemm_symbols

__all__ = ["ARGUMENTS", "emit_gemm_call", "entry_name", "gemm_symbols"]
