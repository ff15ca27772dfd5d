"""Copying a graph into a builder, with some nodes replaced, and expanding composite ops on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rlxlang.ir import VIA_DECOMPOSITION, Builder, Graph, GraphInput, Node, declare


def replay_inputs(b: Builder, graph: Graph) -> tuple[dict[Node, Node], list[GraphInput]]:
    """New input nodes for those of `graph`, in its order, and the graph inputs that declare them."""
    env: dict[Node, Node] = {}
    inputs = []
    for entry in graph.inputs:
        with b.at(entry.node.origin):
            node = b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
        env[entry.node] = node
        inputs.append(declare(node, entry.init, entry.doc))
    return env, inputs


def replay(
    b: Builder, graph: Graph, env: dict[Node, Node], emit: Callable[[Node, list[Node]], Node] | None = None
) -> dict[Node, Node]:
    """Emit every node of `graph` whose value is not yet in `env`; guards come along.

    Args:
        b: The builder of the new graph.
        graph: What to copy.
        env: New nodes for old ones; filled in place and returned.
        emit: Makes the new node of an old one from its new operands; the plain copy when left out.
    """
    for guard in graph.guards:
        b.require(guard)
    for node in graph.nodes:
        if node in env:
            continue
        with b.at(node.origin):
            operands = [env[i] for i in node.inputs]
            env[node] = emit(node, operands) if emit else b.emit(node.op, *operands, **node.attrs)
    return env


def dependents(graph: Graph, roots: Iterable[Node]) -> set[Node]:
    """The nodes whose value depends on a root through differentiable operands; the roots are among them."""
    active = set(roots)
    for node in graph.nodes:
        if node not in active and any(i in active for i in node.inputs):
            active.add(node)
    return active


def expand(graph: Graph, rule: str, roots: Iterable[Node] | None = None) -> tuple[Graph, dict[Node, Node]]:
    """The graph with every op decomposed that has the rule `rule` (a field of `Op`) only through its decomposition.

    Args:
        graph: The graph.
        rule: `jvp`, `vjp`, `batch` or `lower`.
        roots: Only nodes that depend on these are looked at; all nodes when left out.

    Returns:
        The new graph, and the new node of every old one that is still needed.
    """
    where: dict[Node, Node] = {n: n for n in graph.nodes}
    while True:
        active = set(graph.nodes) if roots is None else dependents(graph, [where[r] for r in roots])
        if not any(n in active and getattr(n.op, rule) is VIA_DECOMPOSITION for n in graph.nodes):
            return graph, where
        b = Builder()
        env, inputs = replay_inputs(b, graph)

        def emit(node: Node, operands: list[Any], b: Builder = b, active: set[Node] = active) -> Any:
            if node.op.name == "item" and isinstance(
                operands[0], tuple
            ):  # the source has been decomposed into its results
                return operands[0][node.attrs["index"]]
            if node in active and getattr(node.op, rule) is VIA_DECOMPOSITION:
                assert node.op.decompose is not None
                return node.op.decompose(b, *operands, **node.attrs)
            return b.emit(node.op, *operands, **node.attrs)

        replay(b, graph, env, emit)
        outputs = [type(o)(o.name, env[o.node], o.role) for o in graph.outputs]
        graph = b.finish(graph.name, inputs, outputs)
        where = {old: env[new] for old, new in where.items() if new in env}


def unique_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or `name_2`, `name_3` … if that is taken."""
    names = set(taken)
    if name not in names:
        return name
    k = 2
    while f"{name}_{k}" in names:
        k += 1
    return f"{name}_{k}"
