"""Reverse mode: pulling cotangents back through a graph, rule by rule (Linnainmaa 1970; Griewank & Walther 2008)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import UNDEFINED, ZERO, Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.transforms.errors import (
    not_differentiable,
    require_differentiable,
    require_scalar_loss,
    wanted_inputs,
)
from rlxlang.transforms.replay import dependents, expand, replay, replay_inputs, unique_name
from rlxlang.types import F32, TensorType, TupleType


def add_cotangents(b: Builder, left: Node | None, right: Node | None) -> Node | None:
    """The sum of two cotangents, either of which may be zero (None)."""
    if left is None:
        return right
    return left if right is None else b.emit("add", left, right)


def pull_back(
    b: Builder, graph: Graph, env: dict[Node, Node], cotangents: dict[Node, Node | None], wanted: Sequence[Node]
) -> list[Node | None]:
    """Cotangents of some nodes of `graph`.

    Args:
        b: The builder into which `graph` has been replayed.
        graph: A graph without ops whose `vjp` is through their decomposition.
        env: New nodes of all old ones.
        cotangents: Cotangents of some old nodes (the seeds), as new nodes.
        wanted: Old nodes whose cotangents to return; None for zero.
    """
    active = dependents(graph, wanted)
    keep = set(wanted)
    pending: dict[Node, Any] = dict(cotangents)
    for node in reversed(graph.nodes):
        if node not in active or node in keep:
            continue
        cotangent = pending.pop(node, None)
        if cotangent is None:
            continue
        if node.op.name == "item":
            source = node.inputs[0]
            assert isinstance(source.type, TupleType)
            parts = pending.setdefault(source, [None] * len(source.type.items))
            k = node.attrs["index"]
            parts[k] = add_cotangents(b, parts[k], cotangent)
            continue
        rule = node.op.vjp
        if rule is ZERO or not node.inputs:
            continue
        if rule is UNDEFINED or not callable(rule):
            raise not_differentiable(node, "grad")
        with b.at(node.origin.through("grad")):
            parts = rule(b, env[node], [env[i] for i in node.inputs], cotangent)
            for operand, part in zip(node.inputs, parts, strict=True):
                if part is None or operand not in active or not _differentiable(operand):
                    continue
                pending[operand] = add_cotangents(b, pending.get(operand), part)
    return [pending.get(w) for w in wanted]


def _differentiable(node: Node) -> bool:
    return isinstance(node.type, TensorType) and bool(node.type.dtype.is_differentiable)


def _gradients(
    graph: Graph, names: Sequence[str], transform: str, scale: str | None = None
) -> tuple[Builder, Graph, dict[Node, Node], list[Any], list[Node]]:
    entries = wanted_inputs(graph, names, transform)
    require_differentiable(entries, transform)
    require_scalar_loss(graph, transform)
    graph, where = expand(graph, "vjp", [e.node for e in entries])
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    replay(b, graph, env)
    loss = graph.outputs[0].node
    wanted = [where[e.node] for e in entries]
    with b.at(loss.origin.through("grad")):
        seed = b.full_like(env[loss], 1)
        if scale is not None:
            factor = b.input(unique_name(scale, [i.name for i in inputs]), F32, (), "param")
            inputs.append(declare(factor))
            seed = emit.broadcast_to(b, emit.cast(b, factor, seed.dtype), seed.shape)
        found = pull_back(b, graph, env, {loss: seed}, wanted)
        gradients = [g if g is not None else b.zeros_like(env[w]) for g, w in zip(found, wanted, strict=True)]
    return b, graph, env, inputs, gradients


def grad(graph: Graph, names: Sequence[str]) -> Graph:
    """The derivative of the first output, which has one element, in each named input: outputs `d_<name>`.

    An input that does not influence the loss gets zeros.

    Raises:
        RlxTransformError: E0502 unknown name, E0501 integer input or an op without derivative, E0503 loss of several elements.
    """
    b, graph, _, inputs, gradients = _gradients(graph, names, "grad")
    outputs: list[GraphOutput] = []
    for name, gradient in zip(names, gradients, strict=True):
        outputs.append(GraphOutput(unique_name(f"d_{name}", [o.name for o in outputs]), gradient))
    return b.finish(graph.name, inputs, outputs)


def value_and_grad(graph: Graph, names: Sequence[str], *, scale: str | None = None) -> Graph:
    """The loss, its derivatives as in `grad`, then the other outputs unchanged.

    Args:
        graph: The graph.
        names: Of inputs and params.
        scale: Name of an F32 param to add at the end, by which the derivatives are multiplied before anything is pulled back.
    """
    b, graph, env, inputs, gradients = _gradients(graph, names, "value_and_grad", scale)
    loss, *others = graph.outputs
    taken = [o.name for o in graph.outputs]
    outputs = [GraphOutput(loss.name, env[loss.node], loss.role)]
    for name, gradient in zip(names, gradients, strict=True):
        fresh = unique_name(f"d_{name}", taken)
        taken.append(fresh)
        outputs.append(GraphOutput(fresh, gradient))
    outputs += [GraphOutput(o.name, env[o.node], o.role) for o in others]
    return b.finish(graph.name, inputs, outputs)


def vjp(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph's outputs, then `d_<name>`: the cotangents of the outputs pulled back.

    Adds an input `ct_<output>` for every output that is a float and no tap.

    Raises:
        RlxTransformError: E0502 unknown name, E0501 integer input or an op without derivative.
    """
    entries = wanted_inputs(graph, names, "vjp")
    require_differentiable(entries, "vjp")
    graph, where = expand(graph, "vjp", [e.node for e in entries])
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    replay(b, graph, env)
    seeds: dict[Node, Node | None] = {}
    taken = [i.name for i in graph.inputs]
    for output in graph.outputs:
        if output.role == "tap" or not output.node.dtype.is_differentiable:
            continue
        name = unique_name(f"ct_{output.name}", taken)
        taken.append(name)
        node = b.input(name, output.node.dtype, output.node.shape)
        inputs.append(declare(node))
        seeds[output.node] = add_cotangents(b, seeds.get(output.node), node)
    wanted = [where[e.node] for e in entries]
    found = pull_back(b, graph, env, seeds, wanted)
    outputs = [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs]
    names_out = [o.name for o in outputs]
    for entry, gradient, node in zip(entries, found, wanted, strict=True):
        name = unique_name(f"d_{entry.name}", names_out)
        names_out.append(name)
        outputs.append(GraphOutput(name, gradient if gradient is not None else b.zeros_like(env[node])))
    return b.finish(graph.name, inputs, outputs)


def hvp(graph: Graph, names: Sequence[str]) -> Graph:
    """The Hessian of the loss, jointly in all named inputs, times the tangents `tangent_<name>`: outputs `hvp_<name>`.

    Forward over reverse (Pearlmutter 1994): the jvp of the gradient.

    Raises:
        RlxTransformError: As `grad` and `jvp`.
    """
    from rlxlang.transforms.forward import linearize

    tangents = linearize(grad(graph, names), names)
    outputs: list[GraphOutput] = []
    for name, output in zip(names, tangents.outputs, strict=True):
        outputs.append(GraphOutput(unique_name(f"hvp_{name}", [o.name for o in outputs]), output.node))
    return Graph(graph.name, tangents.inputs, tuple(outputs), tangents.guards)


def body_vjp(body: Graph, active: Sequence[bool]) -> Graph:
    """The pull-back of a scan's body.

    Inputs are the body's, then a cotangent for each output that is a float; outputs are the cotangents of the active inputs (zeros where
    nothing flows).
    """
    roots = [i.node for i, on in zip(body.inputs, active, strict=True) if on]
    body, where = expand(body, "vjp", roots)
    b = Builder()
    env, inputs = replay_inputs(b, body)
    replay(b, body, env)
    seeds: dict[Node, Node | None] = {}
    for output in body.outputs:
        if not output.node.dtype.is_differentiable:
            continue
        node = b.input(unique_name(f"ct_{output.name}", [i.name for i in inputs]), output.node.dtype, output.node.shape)
        inputs.append(declare(node))
        seeds[output.node] = add_cotangents(b, seeds.get(output.node), node)
    wanted = [where[r] for r in roots]
    found = pull_back(b, body, env, seeds, wanted)
    outputs = [
        GraphOutput(f"d_{w.attrs['name']}", g if g is not None else b.zeros_like(env[w]))
        for g, w in zip(found, wanted, strict=True)
    ]
    return b.finish(body.name, inputs, outputs)
