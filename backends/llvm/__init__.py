"""Kernels as native code through LLVM: the CPU backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlxlang.backends.llvm.backend import LlvmBackend

__all__ = ["LlvmBackend"]


def __getattr__(name: str) -> Any:
    if name == "LlvmBackend":
        from rlxlang.backends.llvm.backend import LlvmBackend

        return LlvmBackend
    raise AttributeError(name)
