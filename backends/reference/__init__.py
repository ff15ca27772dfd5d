"""Kernels interpreted with NumPy: slow, bounds-checked, and the measure of every other backend."""

from __future__ import annotations

from rlxlang.backends.reference.backend import ReferenceBackend, ReferenceExecutable

__all__ = ["ReferenceBackend", "ReferenceExecutable"]
