"""The tensor graph: nodes, the op table's record, the builder, surfaces (layer 2)."""

from __future__ import annotations

from rlxlang.ir.builder import Builder, attribute_key, declare
from rlxlang.ir.node import (
    Constant,
    Graph,
    GraphInput,
    GraphOutput,
    Initializer,
    Node,
    SourcedGuard,
    topological,
)
from rlxlang.ir.op import OPS, UNDEFINED, VIA_DECOMPOSITION, ZERO, Op, Rule, Sample, register
from rlxlang.ir.origin import UNKNOWN, Origin
from rlxlang.ir.surface import (
    REQUIRED,
    SURFACES,
    MaskKind,
    Parameter,
    RangeValue,
    Surface,
    add_surface,
)

__all__ = [
    "OPS", "REQUIRED", "SURFACES", "UNDEFINED", "UNKNOWN", "VIA_DECOMPOSITION", "ZERO", "Builder", "Constant", "Graph",
    "GraphInput", "GraphOutput", "Initializer", "MaskKind", "Node", "Op", "Origin", "Parameter", "RangeValue", "Rule",
    "Sample", "SourcedGuard", "Surface", "add_surface", "attribute_key", "declare", "register", "topological",
]  # fmt: skip
