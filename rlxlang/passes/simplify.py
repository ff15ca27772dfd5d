"""Simplification: nodes are rebuilt operands first, rules are applied until none fits, equal nodes become one, dead ones go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, declare
from rlxlang.passes.loops import trimmed
from rlxlang.passes.rule import Rule, same_shape
from rlxlang.passes.rules import DIFFERENTIATED, RULES
from rlxlang.types import TupleType, TypeProblem, ValueType

FUEL_PER_NODE = 32
"""Rewrites allowed for each node of a graph, on average; rules shrink graphs, so none needs nearly as many."""


def simplify(graph: Graph, *, differentiated: bool = False, rules: Sequence[Rule] | None = None) -> Graph:
    """A graph of equal value with fewer or cheaper nodes; the time is linear in the number of nodes.

    Inputs, outputs and guards stay as they are; outputs may become inputs or constants. Bodies of loops and of other ops that
    hold graphs are simplified too, and give no results that nothing reads.

    Args:
        graph: What to simplify.
        differentiated: Whether nobody differentiates the result: `stop_gradient` then goes.
        rules: The rules to use; all of `RULES` when left out.
    """
    table = tuple(RULES if rules is None else rules) + (DIFFERENTIATED if differentiated else ())
    return _Simplifier(table, {}).run(graph)


@cache
def _by_op(rules: tuple[Rule, ...]) -> dict[str, tuple[Rule, ...]]:
    table: dict[str, tuple[Rule, ...]] = {}
    for rule in rules:
        table[rule.op] = (*table.get(rule.op, ()), rule)
    return table


def _keeps_type(before: ValueType, after: ValueType) -> bool:
    """Whether a replacement has the dtype and shape of what it replaces, whatever the dynamic sizes are."""
    if isinstance(before, TupleType) or isinstance(after, TupleType):
        return before == after
    return before.dtype == after.dtype and same_shape(before.shape, after.shape)


class _Simplifier:
    """Rebuilds one graph; `bodies` is shared with those of the graphs inside it."""

    def __init__(self, rules: tuple[Rule, ...], bodies: dict[int, Graph]) -> None:
        self.b = Builder()
        self._all = rules
        self._rules = _by_op(rules)
        self._bodies = bodies
        self._settled: dict[Node, Node] = {}
        self._readers: dict[Node, int] = {}
        self._fuel = 0

    def is_shared(self, node: Node) -> bool:
        """See `Rewriting.is_shared`: counted by the readers in the graph that is being rebuilt."""
        return self._readers.get(node, 0) > 1

    def run(self, graph: Graph) -> Graph:
        """The simplified graph."""
        graph = trimmed(graph)
        self._fuel = FUEL_PER_NODE * (len(graph.nodes) + 1)
        readers = _count_readers(graph)
        env: dict[Node, Node] = {}
        inputs: list[GraphInput] = []
        for entry in graph.inputs:
            with self.b.at(entry.node.origin):
                new = self.b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
            env[entry.node] = self._settled[new] = new
            inputs.append(declare(new, entry.init, entry.doc))
        for node in graph.nodes:
            if node not in env:
                with self.b.at(node.origin):
                    attrs = {k: self._attribute(v) for k, v in node.attrs.items()}
                    new = self._settle(self.b.emit(node.op, *[env[i] for i in node.inputs], **attrs))
                env[node] = new
                self._readers[new] = self._readers.get(new, 0) + readers[node]
        outputs = tuple(GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs)
        return Graph(graph.name, tuple(inputs), outputs, graph.guards)

    def _attribute(self, value: object) -> object:
        """An option of an op, with graphs in it simplified; bodies nest only as deep as the source does."""
        if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
            return tuple(self._attribute(v) for v in value)
        if not isinstance(value, Graph):
            return value
        if id(value) not in self._bodies:
            simple = _Simplifier(self._all, self._bodies).run(value)
            self._bodies[id(value)] = self._bodies[id(simple)] = simple
        return self._bodies[id(value)]

    def _settle(self, root: Node) -> Node:
        """What a new node becomes: rewritten, and what the rules made for it likewise, until nothing changes."""
        settled = self._settled
        becomes: dict[Node, Node] = {}
        todo = [root]
        while todo:
            node = todo[-1]
            if node in settled:
                todo.pop()
                continue
            ahead = becomes.get(node)
            if ahead is None:
                pending = [i for i in node.inputs if i not in settled]
                if pending:
                    todo += pending
                    continue
                ahead = self._step(node)
            if ahead is node:
                settled[node] = node
                todo.pop()
            elif ahead in settled:
                settled[node] = settled[ahead]
                todo.pop()
            elif self._fuel <= 0:
                settled[node] = node
                todo.pop()
            else:
                self._fuel -= 1
                becomes[node] = ahead
                todo.append(ahead)
        return settled[root]

    def _step(self, node: Node) -> Node:
        """The node on settled operands, or what the first rule that fits makes of it."""
        operands = [self._settled[i] for i in node.inputs]
        if any(new is not old for new, old in zip(operands, node.inputs, strict=True)):
            return self.b.emit(node.op, *operands, **node.attrs)
        for rule in (*self._rules.get(node.op.name, ()), *self._rules.get("*", ())):
            try:
                new = rule.replace(self, node)
            except TypeProblem:
                continue  # sizes that only a run could compare: the longer way stands, with its guards
            if new is not None and new is not node and _keeps_type(node.type, new.type):
                return new
        return node


def _count_readers(graph: Graph) -> dict[Node, int]:
    readers = dict.fromkeys(graph.nodes, 0)
    for node in graph.nodes:
        for operand in node.inputs:
            readers[operand] += 1
    for output in graph.outputs:
        readers[output.node] += 1
    return readers
