"""The table that describes a `Func`, as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlxlang.diagnostics import escape
from rlxlang.ir import GraphInput
from rlxlang.types import Dim

if TYPE_CHECKING:
    from rlxlang.func import Func

Row = tuple[str, str, str, str]
HEAD: Row = ("kind", "name", "type", "notes")


def rows(func: Func) -> list[Row]:
    """Kind, name, type and notes of every input, parameter and output."""
    found: list[Row] = []
    for entry in func.graph.inputs:
        found.append((entry.kind, entry.name, str(entry.node.type), _notes(func, entry)))
    for output in func.graph.outputs:
        found.append((output.role, output.name, str(output.node.type), ""))
    return found


def _notes(func: Func, entry: GraphInput) -> str:
    parts = []
    if entry.kind == "param":
        parts.append("bound" if entry.name in func.bindings else "not bound")
        if entry.init is not None:
            parts.append(str(entry.init))
    if entry.doc:
        parts.append(entry.doc.strip().splitlines()[0])
    return "; ".join(parts)


def totals(func: Func) -> str:
    """Numbers of parameters and nodes, in a line."""
    params = func.graph.params
    count = sum(math.prod(p.node.shape) for p in params if p.node.tensor.is_static)
    size = sum(math.prod(p.node.shape) * p.node.dtype.bytes for p in params if p.node.tensor.is_static)
    dynamic = [p.name for p in params if any(isinstance(d, Dim) for d in p.node.shape)]
    more = f" and {len(dynamic)} of dynamic shape" if dynamic else ""
    fixed = len(params) - len(dynamic)
    nodes = _counted(len(func.graph.nodes), "node")
    return f"{_counted(count, 'parameter')} in {_counted(fixed, 'tensor')} ({_bytes(size)}){more}, {nodes}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _bytes(size: int) -> str:
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def summary(func: Func) -> str:
    """A table of inputs, parameters and outputs, and totals."""
    table = [tuple(escape(cell) for cell in row) for row in (HEAD, *rows(func))]
    widths = [max(len(row[k]) for row in table) for k in range(4)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("-" * w for w in widths))
    notes = []
    if any(_is_numbered(p.name) for p in func.graph.params):
        notes.append("names such as `dense_0.w` change when calls are inserted; `as name` fixes them")
    return "\n".join([f"graph {escape(func.name)}", *lines, totals(func), *notes]) + "\n"


def _is_numbered(name: str) -> bool:
    """Whether a block without a name of its own is in the path of a parameter."""
    blocks = name.split(".")[:-1]
    return any(block.rpartition("_")[2].isdigit() and "_" in block for block in blocks)
