"""Computing what is known: ops on constants, and ops on tensors that repeat one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Graph, Node
from rlxlang.ops.lowering import Elementwise
from rlxlang.ops.rules import batch_elementwise
from rlxlang.passes.rule import Array, Rewriting, Rule, filling
from rlxlang.types import F32, Dim, TupleType

LARGEST_CONSTANT = 64 * 1024
"""Bytes: what is larger is cheaper to compute than to keep."""

_NEVER = frozenset({"input", "constant", "broadcast_to", "barrier", "stop_gradient", "item", "reinterpret"})


def is_elementwise(node: Node) -> bool:
    """Whether each element of the result depends on the elements at the same place of operands of the same shape."""
    return isinstance(node.op.lower, Elementwise) or node.op.batch is batch_elementwise


def _uniform(r: Rewriting, node: Node) -> Node | None:
    """Data that repeats one number is the number, broadcast."""
    array: Array = node.attrs["data"].array
    if not array.ndim or not array.size:
        return None
    bits = array.reshape(-1).view(f"u{array.dtype.itemsize}")
    if bits[0] != bits[-1] or not (bits == bits[0]).all():
        return None
    scalar = r.b.constant(array.reshape(-1)[0], node.dtype)
    return r.b.emit("broadcast_to", scalar, shape=node.shape)


def _on_fillings(r: Rewriting, node: Node) -> Node | None:
    """An elementwise op on tensors that repeat a scalar: the op on the scalars, repeated."""
    if not node.inputs or node.op.name in _NEVER or not is_elementwise(node) or isinstance(node.type, TupleType):
        return None
    scalars = [filling(i) for i in node.inputs]
    if any(s is None for s in scalars):
        return None
    result = r.b.emit(node.op, *(s for s in scalars if s is not None), **node.attrs)
    return r.b.emit("broadcast_to", result, shape=node.shape)


def _known(node: Node) -> Array | None:
    """The data of a constant, spread out where it is broadcast and small."""
    if node.op.name == "broadcast_to" and node.inputs[0].op.name == "constant" and _fits(node):
        return np.broadcast_to(node.inputs[0].attrs["data"].array, node.shape)
    if node.op.name != "constant":
        return None
    array: Array = node.attrs["data"].array
    return array


def _fits(node: Node) -> bool:
    size = node.tensor.size
    return isinstance(size, int) and node.tensor.is_static and size * node.dtype.bytes <= LARGEST_CONSTANT


def _needs_run(value: Any) -> bool:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, (Dim, Graph)):
            return True
        if isinstance(item, (tuple, list)):
            todo.extend(item)
    return False


def _folded(r: Rewriting, node: Node) -> Node | None:
    """A small result of known operands is computed now, by the op's reference."""
    if not node.inputs or node.op.name in _NEVER or isinstance(node.type, TupleType) or not _fits(node):
        return None
    arrays = []
    for operand in node.inputs:
        array = None if isinstance(operand.type, TupleType) else _known(operand)
        if array is None:
            return None
        # Half precision is computed in F32 and rounded at the end.
        arrays.append(array.astype(F32.numpy) if operand.dtype.is_float and operand.dtype.bits == 16 else array)
    if any(_needs_run(v) for v in node.attrs.values()):
        return None
    with np.errstate(all="ignore"):
        value = np.asarray(node.op.reference(*arrays, **node.attrs))
        return r.b.constant(value.astype(node.dtype.numpy, copy=False).reshape(node.shape), node.dtype)


def _static_size(r: Rewriting, node: Node) -> Node | None:
    size = node.attrs["dim"]
    if isinstance(size, Dim):
        return None
    with np.errstate(all="ignore"):
        return r.b.constant(np.asarray(size).astype(node.dtype.numpy), node.dtype)


CONSTANTS: tuple[Rule, ...] = (
    Rule("a constant of equal elements -> one number broadcast", "constant", _uniform),
    Rule("a size that is known -> the number", "dim_size", _static_size),
    Rule("an elementwise op on broadcast scalars -> the op on the scalars", "*", _on_fillings),
    Rule("an op on constants -> a constant", "*", _folded),
)
