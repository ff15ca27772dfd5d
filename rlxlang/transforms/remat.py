"""Rematerialisation of a whole graph: its backward pass starts from the inputs alone (Chen et al. 2016, arXiv:1604.06174)."""

from __future__ import annotations

from rlxlang.ir import Builder, Graph, GraphOutput
from rlxlang.ops.custom import call
from rlxlang.transforms.replay import replay_inputs


def remat(graph: Graph) -> Graph:
    """The same function, computed again in the backward pass instead of keeping what lies between inputs and outputs."""
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    for guard in graph.guards:
        b.require(guard)
    results = call(b, "remat", [env[e.node] for e in graph.inputs], body=graph)
    outputs = [GraphOutput(o.name, r, o.role) for o, r in zip(graph.outputs, results, strict=True)]
    return b.finish(graph.name, inputs, outputs)
