"""Forward mode: pushing tangents through a graph, rule by rule (Wengert 1964)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import UNDEFINED, ZERO, Builder, Graph, GraphOutput, Node, declare
from rlxlang.transforms.errors import not_differentiable, require_differentiable, wanted_inputs
from rlxlang.transforms.replay import expand, replay_inputs, unique_name
from rlxlang.types import TupleType


def push_forward(
    b: Builder, graph: Graph, primals: dict[Node, Node], tangents: dict[Node, Node | None]
) -> dict[Node, Any]:
    """Emit all nodes of `graph` and their tangents.

    Args:
        b: The builder of the result.
        graph: A graph without ops whose `jvp` is through their decomposition.
        primals: New nodes of the graph's inputs; filled in place with those of all nodes.
        tangents: Tangents of the inputs, None for zero.

    Returns:
        The tangent of every node, None for zero; a tuple of such for nodes with several results.
    """
    for guard in graph.guards:
        b.require(guard)
    all_tangents: dict[Node, Any] = dict(tangents)
    for node in graph.nodes:
        if node in primals:
            all_tangents.setdefault(node, None)
            continue
        operands = [primals[i] for i in node.inputs]
        with b.at(node.origin):
            new = b.emit(node.op, *operands, **node.attrs)
        primals[node] = new
        incoming = [all_tangents[i] for i in node.inputs]
        if node.op.name == "item":
            pair = incoming[0]
            all_tangents[node] = None if pair is None else pair[node.attrs["index"]]
        elif all(t is None for t in incoming) or not _has_tangent(node):
            all_tangents[node] = None
        else:
            with b.at(node.origin.through("jvp")):
                all_tangents[node] = _apply(b, node, new, operands, incoming)
    return all_tangents


def _apply(b: Builder, node: Node, new: Node, operands: list[Node], incoming: list[Any]) -> Any:
    rule = node.op.jvp
    if rule is ZERO:
        return None
    if rule is UNDEFINED or not callable(rule):
        raise not_differentiable(node, "jvp")
    return rule(b, new, operands, incoming)


def _has_tangent(node: Node) -> bool:
    if isinstance(node.type, TupleType):
        return any(t.dtype.is_differentiable for t in node.type.items)
    return bool(node.type.dtype.is_differentiable)


def jvp(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph that also gives the derivative of every output along tangents of some inputs.

    Adds an input `tangent_<name>` for each name; its outputs are the graph's, then `tangent_<output>` for each of them (zeros
    where nothing flows, and for outputs that are integers).

    Raises:
        RlxTransformError: E0502 unknown name, E0501 integer input or an op without derivative.
    """
    entries = wanted_inputs(graph, names, "jvp")
    require_differentiable(entries, "jvp")
    graph, where = expand(graph, "jvp", [e.node for e in entries])
    b = Builder()
    primals, inputs = replay_inputs(b, graph)
    seeds: dict[Node, Node | None] = {}
    taken = [i.name for i in graph.inputs]
    for entry in entries:
        name = unique_name(f"tangent_{entry.name}", taken)
        taken.append(name)
        old = where[entry.node]
        node = b.input(name, old.dtype, old.shape)
        seeds[old] = node
        inputs.append(declare(node))
    tangents = push_forward(b, graph, primals, seeds)
    outputs = [GraphOutput(o.name, primals[o.node], o.role) for o in graph.outputs]
    names_out = [o.name for o in outputs]
    for o in graph.outputs:
        name = unique_name(f"tangent_{o.name}", names_out)
        names_out.append(name)
        tangent = tangents.get(o.node)
        outputs.append(GraphOutput(name, tangent if tangent is not None else b.zeros_like(primals[o.node]), o.role))
    return b.finish(graph.name, inputs, outputs)


def linearize(graph: Graph, names: Sequence[str]) -> Graph:
    """The jvp without its primal outputs: a function that is linear in the tangents."""
    full = jvp(graph, names)
    tangents = full.outputs[len(graph.outputs) :]
    return Graph(full.name, full.inputs, tuple(tangents), full.guards)


def body_jvp(body: Graph, active: Sequence[bool]) -> Graph:
    """The body of a scan with tangents: inputs are the body's and then tangents of the active ones; outputs likewise, a tangent for all.

    Tangents of outputs that are not differentiable are zeros of their own type.
    """
    roots = [i.node for i, on in zip(body.inputs, active, strict=True) if on]
    body, where = expand(body, "jvp", roots)
    b = Builder()
    primals, inputs = replay_inputs(b, body)
    seeds: dict[Node, Node | None] = {}
    for root in roots:
        old = where[root]
        node = b.input(unique_name(f"tangent_{old.attrs['name']}", [i.name for i in inputs]), old.dtype, old.shape)
        seeds[old] = node
        inputs.append(declare(node))
    tangents = push_forward(b, body, primals, seeds)
    outputs = [GraphOutput(o.name, primals[o.node]) for o in body.outputs]
    for o in body.outputs:
        tangent = tangents.get(o.node)
        outputs.append(
            GraphOutput(f"tangent_{o.name}", tangent if tangent is not None else b.zeros_like(primals[o.node]))
        )
    return b.finish(body.name, inputs, outputs)
