"""Simplification: every node is rebuilt by the first rule that applies, constants are computed, equal nodes become one."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, declare
from rlxlang.passes.rules import RULES, Rule, keeps_type
from rlxlang.types import C64, Dim, TupleType

LARGEST_CONSTANT = 64 * 1024  # bytes: what is larger is cheaper to compute than to keep
REPEATS = 8  # how often a node may be rewritten in a row; rules shrink, so this is never reached

_BY_OP: dict[str, tuple[Rule, ...]] = {}
for _rule in RULES:
    _BY_OP[_rule.op] = (*_BY_OP.get(_rule.op, ()), _rule)


def simplify(graph: Graph) -> Graph:
    """A graph of equal value with fewer nodes.

    Inputs, their order, and outputs stay. The time is linear in the number of nodes.
    """
    b = Builder()
    env: dict[Node, Node] = {}
    inputs: list[GraphInput] = []
    for entry in graph.inputs:
        with b.at(entry.node.origin):
            env[entry.node] = b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
        inputs.append(declare(env[entry.node], entry.init, entry.doc))
    for guard in graph.guards:
        b.require(guard)
    for node in graph.nodes:
        if node not in env:
            with b.at(node.origin):
                env[node] = _simplified(b, b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs))
    outputs = [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs]
    return b.finish(graph.name, inputs, outputs)


def _simplified(b: Builder, node: Node) -> Node:
    for _ in range(REPEATS):
        new = _folded(b, node) or _rewritten(b, node)
        if new is None or new is node:
            return node
        node = new
    return node


def _rewritten(b: Builder, node: Node) -> Node | None:
    if isinstance(node.type, TupleType):
        return None
    for rule in _BY_OP.get(node.op.name, ()):
        new = rule.replace(b, node.attrs, node.inputs)
        if new is not None and keeps_type(node.type, new.tensor):
            return new
    return None


def _number(node: Node) -> np.ndarray[Any, Any] | None:
    """The scalar behind a broadcast constant, as an array of rank 0."""
    if node.op.name == "broadcast_to":
        node = node.inputs[0]
    if node.op.name != "constant" or node.tensor.rank:
        return None
    array: np.ndarray[Any, Any] = node.attrs["data"].array
    return array


def _folded(b: Builder, node: Node) -> Node | None:
    """The constant that a node of constants is, when it is small."""
    from rlxlang.ops.lowering import Elementwise

    if not node.inputs or isinstance(node.type, TupleType) or node.type.dtype in (C64,) or node.type.dtype.bits < 32:
        return None
    if node.op.name in ("broadcast_to", "stop_gradient", "barrier", "item"):
        return None
    if isinstance(node.op.lower, Elementwise):
        numbers = [_number(i) for i in node.inputs]
        if all(n is not None for n in numbers):
            scalar = _computed(b, node, [n for n in numbers if n is not None])
            return scalar if scalar is None or not node.shape else b.emit("broadcast_to", scalar, shape=node.shape)
    if any(i.op.name != "constant" for i in node.inputs) or not node.type.is_static or _has_size(node):
        return None
    size = node.type.size
    if not isinstance(size, int) or size * node.type.dtype.bytes > LARGEST_CONSTANT:
        return None
    return _computed(b, node, [i.attrs["data"].array for i in node.inputs])


def _has_size(node: Node) -> bool:
    todo = list(node.attrs.values())
    while todo:
        value = todo.pop()
        if isinstance(value, (Dim, Graph)):
            return True
        if isinstance(value, tuple):
            todo.extend(value)
    return False


def _computed(b: Builder, node: Node, arrays: list[np.ndarray[Any, Any]]) -> Node | None:
    if any(a.dtype.itemsize < 4 and a.dtype != np.bool_ for a in arrays):
        return None  # half precision and small integers have rules of their own in the interpreter
    with np.errstate(all="ignore"):
        value = np.asarray(node.op.reference(*arrays, **node.attrs))
    if value.dtype != node.dtype.numpy:
        return None
    return b.constant(value, node.dtype)
