"""Results of loops and branches that nothing reads are not computed: carries, emitted values, and what only those need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare

Trimmed: TypeAlias = tuple[Node, dict[int, int]]
"""A new node, and the new places of those of its results that are left."""

Parts: TypeAlias = dict[tuple[int, tuple[int, ...], tuple[int, ...]], Graph]
"""Parts of bodies made so far: nodes that share a body share its part."""


def trimmed(graph: Graph) -> Graph:
    """The graph whose `scan`, `while` and `cond` nodes give no result that nothing reads; bodies inside of bodies stay as they are."""
    read: dict[Node, set[int]] = {}
    for node in graph.nodes:
        if node.op.name == "item" and node.inputs[0].op.name in _TRIM:
            read.setdefault(node.inputs[0], set()).add(node.attrs["index"])
    if all(len(places) == _count(node) for node, places in read.items()):
        return graph
    b = Builder()
    env: dict[Node, Node] = {}
    inputs = []
    moved: dict[Node, dict[int, int]] = {}
    parts: Parts = {}
    for entry in graph.inputs:
        with b.at(entry.node.origin):
            env[entry.node] = b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
        inputs.append(declare(env[entry.node], entry.init, entry.doc))
    for node in graph.nodes:
        if node in env:
            continue
        with b.at(node.origin):
            operands = [env[i] for i in node.inputs]
            if node in read and len(read[node]) < _count(node):
                env[node], moved[node] = _TRIM[node.op.name](b, node, operands, read[node], parts)
            elif node.op.name == "item" and node.inputs[0] in moved:
                env[node] = b.emit("item", operands[0], index=moved[node.inputs[0]][node.attrs["index"]])
            else:
                env[node] = b.emit(node.op, *operands, **node.attrs)
    outputs = tuple(GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs)
    return Graph(graph.name, tuple(inputs), outputs, graph.guards)


def _count(node: Node) -> int:
    return len(node.attrs["then" if node.op.name == "cond" else "body"].outputs)


def _needed(graph: Graph, outputs: Sequence[int]) -> set[int]:
    """The positions of the inputs that some outputs of a graph depend on."""
    seen: set[Node] = set()
    todo = [graph.outputs[k].node for k in outputs]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.inputs)
    return {k for k, entry in enumerate(graph.inputs) if entry.node in seen}


def _part(parts: Parts, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """A graph of some inputs and outputs alone."""
    key = (id(graph), tuple(inputs), tuple(outputs))
    if key not in parts:
        own, results = (tuple(graph.inputs[k] for k in inputs), tuple(graph.outputs[k] for k in outputs))
        parts[key] = Graph(graph.name, own, results, graph.guards)
    return parts[key]


def _scan(b: Builder, node: Node, operands: Sequence[Node], read: set[int], parts: Parts) -> Trimmed:
    body: Graph = node.attrs["body"]
    carries, sources = node.attrs["carries"], node.attrs["sources"]
    live = set(read)
    while True:  # a carry that is read inside has to be carried on
        needed = _needed(body, sorted(live))
        grown = live | {k for k in needed if k < carries}
        if grown == live:
            break
        live = grown
    results = sorted(live)
    kept = sorted(needed | {k for k in live if k < carries})
    new = b.emit(
        "scan",
        *(operands[k] for k in kept),
        body=_part(parts, body, kept, results),
        length=node.attrs["length"],
        carries=sum(k < carries for k in kept),
        sources=sum(carries <= k < carries + sources for k in kept),
        reverse=node.attrs["reverse"],
    )
    return new, {old: k for k, old in enumerate(results)}


def _while(b: Builder, node: Node, operands: Sequence[Node], read: set[int], parts: Parts) -> Trimmed:
    test: Graph = node.attrs["cond"]
    body: Graph = node.attrs["body"]
    carries = node.attrs["carries"]
    asked = _needed(test, [0])
    live = read | {k for k in asked if k < carries}
    while True:
        needed = _needed(body, sorted(live))
        grown = live | {k for k in needed if k < carries}
        if grown == live:
            break
        live = grown
    results = sorted(live)
    kept = sorted(needed | asked | live)
    new = b.emit(
        "while",
        *(operands[k] for k in kept),
        cond=_part(parts, test, kept, [0]),
        body=_part(parts, body, kept, results),
        carries=len(results),
        limit=node.attrs["limit"],
    )
    return new, {old: k for k, old in enumerate(results)}


def _cond(b: Builder, node: Node, operands: Sequence[Node], read: set[int], parts: Parts) -> Trimmed:
    then: Graph = node.attrs["then"]
    orelse: Graph = node.attrs["orelse"]
    results = sorted(read)
    kept = sorted(_needed(then, results) | _needed(orelse, results))
    new = b.emit(
        "cond",
        operands[0],
        *(operands[k + 1] for k in kept),
        then=_part(parts, then, kept, results),
        orelse=_part(parts, orelse, kept, results),
    )
    return new, {old: k for k, old in enumerate(results)}


_TRIM: dict[str, Callable[[Builder, Node, Sequence[Node], set[int], Parts], Trimmed]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
