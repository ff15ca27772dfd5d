"""The runtime object: thread pool and call path, compiled once per machine, cached, loaded once per process."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from dataclasses import dataclass

from rlxlang.backends.llvm import dispatch_ir, jit, pool

KERNEL_SYMBOLS = ("parallel_for", "parallel_for_capped", "pool_threads")
"""What kernels may import from the runtime."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The loaded runtime.

    Attributes:
        addresses: every symbol it exports.
        dispatch: address of the call path, or None where the layout of objects is unknown.
    """

    addresses: dict[str, int]
    dispatch: int | None

    def symbols(self) -> dict[str, int]:
        """Symbols for `jit.load` of a kernel. libm and libc are found in the process and need no mention."""
        return {name: self.addresses[name] for name in KERNEL_SYMBOLS}

    def workers(self) -> int:
        """Threads the pool has started so far, the caller not counted."""
        return int(ctypes.CFUNCTYPE(ctypes.c_int32)(self.addresses["pool_workers"])())


_lock = threading.RLock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """The runtime of this process, loaded at first use.

    Raises:
        RlxBackendError: RLX_THREADS is not a number of threads, or the runtime does not compile.
    """
    global _runtime
    if _runtime is not None:
        return _runtime
    with _lock:
        if _runtime is None:
            _runtime = _load()
        return _runtime


def _load() -> Runtime:
    layout = dispatch_ir.object_layout()
    text = pool.pool_ir()
    exports: tuple[str, ...] = pool.EXPORTS
    imports: dict[str, int] = {}
    if layout is not None:
        text += dispatch_ir.dispatch_ir(layout)
        exports += dispatch_ir.EXPORTS
        imports = dispatch_ir.numpy_symbols()
    loaded = jit.load(jit.compile_object(text), exports, imports, immortal=True)
    addresses = loaded.symbols()
    _connect_pool(addresses)
    return Runtime(addresses, addresses.get("rlx_dispatch"))


def _connect_pool(addresses: dict[str, int]) -> None:
    """Tell the pool how many threads it has, and what to do at a fork and at exit."""
    pool.bind(ctypes.CFUNCTYPE(None, ctypes.c_int32)(addresses["pool_set_threads"]))
    reset = ctypes.CFUNCTYPE(None)(addresses["pool_reset_after_fork"])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    atexit.register(ctypes.CFUNCTYPE(None)(addresses["pool_stop"]))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
