"""The low IR that every backend understands: scalar expressions over iteration domains, and programs of kernels (layer 2)."""

from __future__ import annotations

from rlxlang.kernels.expr import (
    Accumulator,
    Apply,
    AxisValue,
    Const,
    Expr,
    Gathered,
    Index,
    Load,
    Reduced,
    Running,
    SizeValue,
    children,
    walk,
)
from rlxlang.kernels.functions import FUNCTIONS, REDUCTIONS
from rlxlang.kernels.library import Library, call_routine
from rlxlang.kernels.nest import Nest, Pass, Reduce, Store
from rlxlang.kernels.program import (
    Branch,
    Buffer,
    Contract,
    Copy,
    Loop,
    Operand,
    Program,
    SizeGuard,
    Step,
    While,
    Window,
    bodies,
    roots,
)
from rlxlang.kernels.sorting import Sort, first_sorted

__all__ = [
    "FUNCTIONS", "REDUCTIONS", "Accumulator", "Apply", "AxisValue", "Branch", "Buffer", "Const", "Contract", "Copy", "Expr",
    "Gathered", "Index", "Library", "Load", "Loop", "Nest", "Operand", "Pass", "Program", "Reduce", "Reduced", "Running", "SizeGuard",
    "SizeValue", "Sort", "Step", "Store", "While", "Window", "bodies", "call_routine", "children", "first_sorted", "roots", "walk",
]  # fmt: skip
