"""A graph with every float as F64, so that differences of its values are exact enough to measure derivatives by."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Constant, Graph, GraphInput, GraphOutput, Node, declare
from rlxlang.transforms.replay import replay
from rlxlang.types import BF16, C64, F16, F32, F64, DType, TensorType

_NARROW = (F16, BF16, F32)


def widened(graph: Graph) -> Graph:
    """The same graph where every F16, BF16 and F32 is F64: inputs, params, constants, conversions, bodies of loops.

    Raises:
        RlxTransformError: E0500, it has values of C64, which no wider type holds.
    """
    for node in graph.nodes:
        if isinstance(node.type, TensorType) and node.type.dtype == C64:
            raise RlxTransformError(
                f"`{node.op.name}` gives C64: differences are taken in F64, and there is no complex type of that precision",
                code="E0500",
                span=node.origin.span,
            )
    b = Builder()
    env: dict[Node, Node] = {}
    inputs: list[GraphInput] = []
    for entry in graph.inputs:
        with b.at(entry.node.origin):
            node = b.input(entry.name, _wide(entry.node.dtype), entry.node.shape, entry.kind)
        env[entry.node] = node
        inputs.append(declare(node, entry.init, entry.doc))

    def emit(node: Node, operands: list[Node]) -> Node:
        return b.emit(node.op, *operands, **{k: _wide(v) for k, v in node.attrs.items()})

    replay(b, graph, env, emit)
    return b.finish(graph.name, inputs, [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs])


def _wide(value: Any) -> Any:
    """An attribute with its dtypes, constants and graphs widened."""
    if isinstance(value, DType):
        return F64 if value in _NARROW else value
    if isinstance(value, Constant):
        return Constant(value.array.astype(np.float64)) if _is_narrow(value.array) else value
    if isinstance(value, Graph):
        return widened(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_wide(v) for v in value)
    return value


def _is_narrow(array: np.ndarray[Any, Any]) -> bool:
    return any(array.dtype == d.numpy for d in _NARROW)
