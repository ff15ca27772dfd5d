"""Calling surfaces on arrays, as the language would: through nodes, the interpreter and the transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.interp import evaluate
from rlxlang.ir import SURFACES, Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import METHODS
from rlxlang.transforms import jvp, vjp
from rlxlang.types import TensorType, from_numpy

Array = np.ndarray[Any, Any]


def build(name: str, *arguments: Any, method: bool = False, **options: Any) -> tuple[Graph, dict[str, Array]]:
    """The graph of a call, arrays becoming inputs `x0`, `x1` …, and those arrays."""
    b = Builder()
    inputs: list[Node] = []
    arrays: dict[str, Array] = {}

    def evaluated(value: Any) -> Any:
        if isinstance(value, TensorType):
            node = b.input(f"x{len(inputs)}", value.dtype, value.shape)
            inputs.append(node)
            return node
        if isinstance(value, np.ndarray):
            own = from_numpy(value.dtype)
            assert own is not None
            node = b.input(f"x{len(inputs)}", own, value.shape)
            arrays[f"x{len(inputs)}"] = value
            inputs.append(node)
            return node
        if isinstance(value, tuple):
            return tuple(evaluated(v) for v in value)
        return value

    surface = (METHODS.get(name) if method else None) or SURFACES[name]
    positional = [evaluated(a) for a in arguments]
    named = {k: evaluated(v) for k, v in options.items()}
    result = surface.build(b, **surface.bind(positional, named))
    results = result if isinstance(result, tuple) else (result,)
    outputs = [GraphOutput(f"y{k}", n) for k, n in enumerate(results)]
    return b.finish(name, [declare(n) for n in inputs], outputs), arrays


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """The value of a call; a list of arrays when it gives several."""
    graph, arrays = build(name, *arguments, **options)
    values = evaluate(graph, arrays)
    return values[0] if len(values) == 1 else values


def pull(
    name: str, *arguments: Any, ct: Array | float = 1.0, wrt: tuple[str, ...] | None = None, **options: Any
) -> Any:
    """Cotangents of the float operands, or of those named; one array when there is one."""
    graph, arrays = build(name, *arguments, **options)
    names = wrt or tuple(i.name for i in graph.inputs if i.node.dtype.is_differentiable)
    output = graph.outputs[0].node
    seed = np.broadcast_to(np.asarray(ct, output.dtype.numpy), output.shape)
    others = {f"ct_y{k}": np.zeros(o.node.shape, o.node.dtype.numpy) for k, o in enumerate(graph.outputs)}
    found = evaluate(vjp(graph, names), {**arrays, **others, "ct_y0": seed})[len(graph.outputs) :]
    return found[0] if len(found) == 1 else found


def push(name: str, *arguments: Any, tangents: dict[str, Array], **options: Any) -> Array:
    """The tangent of the first result along tangents of some operands."""
    graph, arrays = build(name, *arguments, **options)
    names = list(tangents)
    values = evaluate(jvp(graph, names), {**arrays, **{f"tangent_{n}": t for n, t in tangents.items()}})
    return values[len(graph.outputs)]
