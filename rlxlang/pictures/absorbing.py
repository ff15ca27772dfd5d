"""Ops that only move numbers disappear in the op that they were made for.

One expression, `attention(q, k, v, heads)`, may emit a row of reshapes and transposes around the op that computes. They come
from the same place in the source. Those in front of that op of which it is the only user, and a chain behind it without
another user, are drawn as part of it; the rest stays as it is. What is drawn as one is convex: no path leaves and comes back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from rlxlang.ir import Graph, Node, Origin
from rlxlang.pictures.labels import PLUMBING
from rlxlang.types import TupleType


@dataclass(slots=True, eq=False)
class Absorbed:
    """Which nodes are drawn as part of another.

    Attributes:
        owner: For each node that is not drawn, the one it is part of.
        head: For an op with a chain behind it, the last of the chain, whose value is that of the box.
    """

    owner: dict[Node, Node] = field(default_factory=dict)
    head: dict[Node, Node] = field(default_factory=dict)

    def operands(self, node: Node) -> list[Node]:
        """What the box of a node uses, in order, each once."""
        found: dict[Node, None] = {}
        todo = list(reversed(node.inputs))
        while todo:
            operand = todo.pop()
            if self.owner.get(operand) is node:
                todo.extend(reversed(operand.inputs))
            else:
                found[operand] = None
        return list(found)


def absorb(graph: Graph, outputs: Collection[Node]) -> Absorbed:
    """What of a graph is drawn as part of another node."""
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for operand in node.inputs:
            users.setdefault(operand, []).append(node)
    found = Absorbed()
    for node in reversed(graph.nodes):
        if not _is_plumbing(node) or node in outputs:
            continue
        owners = {found.owner.get(u, u) for u in users.get(node, ())}
        if len(owners) == 1 and _may_own(owner := owners.pop()) and _same(owner.origin, node.origin):
            found.owner[node] = owner
    for node in graph.nodes:
        if node in found.owner or not _may_own(node) or isinstance(node.type, TupleType):
            continue
        head = node
        while head not in outputs and len(after := users.get(head, [])) == 1:
            following = after[0]
            if not _is_plumbing(following) or following in found.owner or not _same(following.origin, node.origin):
                break
            if any(i is not head for i in following.inputs):
                break
            head = following
            found.owner[head] = node
        if head is not node:
            found.head[node] = head
    return found


def _is_plumbing(node: Node) -> bool:
    return node.op.name in PLUMBING and bool(node.inputs) and node.op.name != "item"


def _may_own(node: Node) -> bool:
    return (
        node.op.name not in PLUMBING and bool(node.inputs) and not any(hasattr(v, "nodes") for v in node.attrs.values())
    )


def _same(left: Origin, right: Origin) -> bool:
    return left is right or (left.span is not None and left == right)
