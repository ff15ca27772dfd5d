"""The tensor graph: nodes, the op table's record, the builder, surfaces (layer 2)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from rlxlang.ir.op import OPS, UNDEFINED, VIA_DECOMPOSITION, ZERO, Bound, Op, Rule, Sample, register
    from rlxlang.ir.origin import UNKNOWN, Origin
    from rlxlang.ir.parameter import Param
    from rlxlang.ir.surface import (
        REQUIRED,
        SURFACES,
        MaskKind,
        Parameter,
        RangeValue,
        Surface,
        add_surface,
    )

# Names are imported on first use: a process that runs a graph it finds compiled on disk needs neither ops nor surfaces.
_MODULES = {
    "builder": "Builder attribute_key declare",
    "node": "Constant Graph GraphInput GraphOutput Initializer Node SourcedGuard topological",
    "op": "OPS UNDEFINED VIA_DECOMPOSITION ZERO Bound Op Rule Sample register",
    "origin": "UNKNOWN Origin",
    "parameter": "Param",
    "surface": "REQUIRED SURFACES MaskKind Parameter RangeValue Surface add_surface",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "OPS", "REQUIRED", "SURFACES", "UNDEFINED", "UNKNOWN", "VIA_DECOMPOSITION", "ZERO", "Bound", "Builder", "Constant", "Graph",
    "GraphInput", "GraphOutput", "Initializer", "MaskKind", "Node", "Op", "Origin", "Param", "Parameter", "RangeValue", "Rule",
    "Sample", "SourcedGuard", "Surface", "add_surface", "attribute_key", "declare", "register", "topological",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a name on first use and remember it (PEP 562)."""
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
