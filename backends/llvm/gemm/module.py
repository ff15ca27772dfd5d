"""The module of matrix products: generated once per machine and dtype, kept on disk, loaded at first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlxlang.backends.llvm import cache, jit
from rlxlang.backends.llvm.gemm.layout import entry_name
from rlxlang.backends.llvm.vector import VectorTarget, target_of_host

DTYPES = ("float32", "float64")
DEFAULT_L2_BYTES = 1 << 20
IMPORTS = ("parallel_for", "parallel_for_capped")
"""Symbols of the thread pool that the module calls."""

_lock = threading.RLock()
_loaded: dict[tuple[str, VectorTarget], dict[str, int]] = {}


@dataclass(frozen=True, slots=True)
class GemmModule:
    """Identity of one module.

    Attributes:
        dtype: `"float32"` or `"float64"`.
        target: The vectors it uses.
        l2_bytes: Size of the second-level cache it is tuned to.
    """

    dtype: str
    target: VectorTarget
    l2_bytes: int

    @property
    def exports(self) -> tuple[str, str]:
        """Symbols it defines: the product and the transpose of elements of its size."""
        return entry_name(self.dtype), f"transpose_{4 if self.dtype == 'float32' else 8}"

    def render(self) -> str:
        """Return the module as LLVM IR text."""
        # Where the object is on disk nothing is emitted, so nothing of this is imported before.
        from rlxlang.backends.llvm.gemm.dot import emit_dot_kernels
        from rlxlang.backends.llvm.gemm.driver import (
            emit_dot_block,
            emit_entry,
            emit_panel_block,
            emit_panel_rows,
            emit_row_block,
            emit_task,
        )
        from rlxlang.backends.llvm.gemm.pack import emit_copy_panel, emit_transpose, emit_transpose_entry
        from rlxlang.backends.llvm.gemm.policy import tiling
        from rlxlang.backends.llvm.gemm.row import emit_row_kernel
        from rlxlang.backends.llvm.gemm.tiles import emit_panel_kernels
        from rlxlang.backends.llvm.text import ModuleText

        sizes = tiling(self.target, self.dtype, self.l2_bytes)
        symbol = entry_name(self.dtype)
        module = ModuleText(symbol, attributes=self.target.attributes)
        emit_panel_kernels(module, sizes)
        emit_dot_kernels(module, sizes)
        emit_copy_panel(module, sizes)
        emit_transpose(module, sizes)
        emit_transpose_entry(module, sizes)
        emit_panel_rows(module, sizes)
        emit_panel_block(module, sizes)
        emit_dot_block(module, sizes)
        emit_row_kernel(module, sizes)
        emit_row_block(module, sizes)
        emit_task(module, sizes, symbol)
        emit_entry(module, sizes, symbol)
        return module.render()

    def object_code(self) -> bytes:
        """Return the compiled module, from the disk cache where possible.

        The key stands for the sources, not for the generated text: a warm start generates nothing.
        """
        key = cache.cache_key("gemm", repr(self), source=True)
        found = cache.load("obj", key)
        return jit.compile_object(self.render(), key) if found is None else found

    def load(self, symbols: Mapping[str, int]) -> dict[str, int]:
        """Link the module into the process for good and return the addresses of its exports.

        Args:
            symbols: Addresses of `IMPORTS`.
        """
        return jit.load(self.object_code(), self.exports, symbols, immortal=True).symbols()


def gemm_symbols(dtype: str, symbols: Mapping[str, int], target: VectorTarget | None = None) -> dict[str, int]:
    """Return the addresses of the product and the transpose of a dtype; the first call loads them.

    Args:
        dtype: `"float32"` or `"float64"`.
        symbols: Addresses of `parallel_for` and `parallel_for_capped`.
        target: The vectors to use; None takes the widest of this machine.

    Returns:
        `gemm_f32` and `transpose_4`, or `gemm_f64` and `transpose_8`.
    """
    chosen = target or target_of_host()
    with _lock:
        found = _loaded.get((dtype, chosen))
        if found is None:
            found = GemmModule(dtype, chosen, l2_bytes()).load(symbols)
            _loaded[dtype, chosen] = found
        return dict(found)


def l2_bytes() -> int:
    """Size of this machine's second-level cache of one core in bytes; a usual one where the system does not say."""
    reported = 0
    try:
        reported = os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (ValueError, OSError, AttributeError):
        reported = _l2_from_sysfs(Path("/sys/devices/system/cpu/cpu0/cache/index2/size"))
    return reported if reported >= 1 << 17 else DEFAULT_L2_BYTES


def _l2_from_sysfs(file: Path) -> int:
    try:
        text = file.read_text("ascii").strip()
    except OSError:
        return 0
    return int(text[:-1]) << 10 if text.endswith("K") and text[:-1].isdigit() else 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
