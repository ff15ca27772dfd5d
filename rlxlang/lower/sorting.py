"""The step that sorts the last axis."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from rlxlang.ir import Node
from rlxlang.kernels import Sort
from rlxlang.lower.control import GraphLowering
from rlxlang.types import U64, TupleType, product


def sort_step(outer: GraphLowering, node: Node, taken: AbstractSet[int], name: str) -> None:
    """Emit the sort of a node; of its two results those that are taken."""
    assert isinstance(node.type, TupleType)
    x = node.inputs[0]
    source = outer.contiguous(x, f"{name}_given")
    values, indices = [
        outer.buffers.new("temp", t.dtype, t.shape) if k in taken else -1 for k, t in enumerate(node.type.items)
    ]
    rows, length = product(x.shape[:-1]), x.shape[-1]
    words = 4 if x.dtype.bytes == 8 or node.type.items[1].dtype.bytes == 8 else 2
    scratch = outer.buffers.new("private", U64, (length * words,))
    descending = bool(node.attrs["descending"])
    outer.steps.append(
        Sort(name, rows, length, node.attrs["count"], source, values, indices, scratch, descending, (node.op.name,))
    )
    outer.items[node] = [values, indices]
