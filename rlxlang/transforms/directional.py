"""Derivatives of any order along one direction: forward mode applied to forward mode."""

from __future__ import annotations

from collections.abc import Sequence

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.ops.control import inline
from rlxlang.transforms.errors import is_count
from rlxlang.transforms.forward import linearize
from rlxlang.transforms.replay import replay_inputs, unique_name


def directional(graph: Graph, names: Sequence[str], order: int = 1) -> Graph:
    """The outputs f, then for k = 1 … order their derivatives dᵏ/dtᵏ f(x + t v) at t = 0: `d<k>_<output>` for every output.

    The directions v are the new inputs `tangent_<name>`; divided by k! the results are the coefficients of the Taylor polynomial
    along v. Each order is the jvp of the one before along the same v, so the k-th has up to about 2ᵏ times the nodes of f where
    no parts of it are equal (elementary).

    Raises:
        RlxTransformError: As `jvp`; E0500 the order is no integer of 1 or more.
    """
    if not is_count(order):
        raise RlxTransformError(
            f"`directional`: the order is {order!r}, expected an integer of 1 or more", code="E0500"
        )
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    values = [env[e.node] for e in graph.inputs]
    outputs = [GraphOutput(o.name, v, o.role) for o, v in zip(graph.outputs, inline(b, graph, values), strict=True)]
    taken = [o.name for o in outputs]
    present = graph
    for k in range(1, order + 1):
        before = len(present.inputs)
        present = linearize(present, names)
        if k == 1:
            directions = [b.input(e.name, e.node.dtype, e.node.shape) for e in present.inputs[before:]]
            inputs += [declare(d) for d in directions]
            values += directions
        else:
            present = _tied(present, before, len(graph.inputs))
        for output, value in zip(graph.outputs, inline(b, present, values), strict=True):
            name = unique_name(f"d{k}_{output.name}", taken)
            taken.append(name)
            outputs.append(GraphOutput(name, value, output.role))
    return b.finish(graph.name, inputs, outputs)


def _tied(graph: Graph, count: int, first: int) -> Graph:
    """The graph whose inputs from `count` on take the values of those from `first` on, which are as many."""
    b = Builder()
    inputs = [b.input(e.name, e.node.dtype, e.node.shape, e.kind) for e in graph.inputs[:count]]
    results = inline(b, graph, [*inputs, *inputs[first:]])
    outputs = [GraphOutput(o.name, r, o.role) for o, r in zip(graph.outputs, results, strict=True)]
    return b.finish(graph.name, map(declare, inputs), outputs)
