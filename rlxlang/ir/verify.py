"""Checking that a graph is sound: order, types, names. For tests and for finding the pass that broke a graph."""

from __future__ import annotations

from collections.abc import Sequence

from rlxlang.diagnostics import InternalError
from rlxlang.ir.node import Graph, Node
from rlxlang.ir.op import OPS
from rlxlang.ir.printer import name_nodes, node_line, number_bodies
from rlxlang.types import ShapeContext, TensorType, TupleType, TypeProblem, ValueType, dims_equal

_AROUND = 3


def verify(graph: Graph, stage: str = "") -> None:
    """Check a graph and all graphs inside it.

    Args:
        graph: What to check.
        stage: The part of the compiler that made it, for the message.

    Raises:
        InternalError: A node stands before an operand, is missing or of another type than its op infers; an op is not that of the table;
            an input is not declared; a name is used twice. The notes show the lines around the fault.
    """
    for body in (*number_bodies(graph), graph):
        _check_names(body, stage)
        _check_nodes(body, stage)


def _check_names(graph: Graph, stage: str) -> None:
    for what, names in (
        ("inputs", [i.name for i in graph.inputs]),
        ("outputs", [o.name for o in graph.outputs]),
    ):
        twice = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise InternalError(f"two {what} of the graph `{graph.name}` are named `{twice[0]}`", stage=stage)
    nodes = [i.node for i in graph.inputs]
    if len(set(nodes)) < len(nodes):
        raise InternalError(f"two inputs of the graph `{graph.name}` are one node", stage=stage)
    for entry in graph.inputs:
        attrs = entry.node.attrs
        if entry.node.op.name != "input" or attrs["name"] != entry.name or attrs["kind"] != entry.kind:
            raise InternalError(
                f"the node of the {entry.kind} `{entry.name}` of `{graph.name}` is another one",
                stage=stage,
                notes=(f"its op is `{entry.node.op.name}`, its options are {dict(attrs)}",),
            )


def _check_nodes(graph: Graph, stage: str) -> None:
    declared = {i.node for i in graph.inputs}
    place = {node: k for k, node in enumerate(graph.nodes)}
    if len(place) < len(graph.nodes):
        raise InternalError(f"the graph `{graph.name}` lists a node twice", stage=stage)
    for what, node in (
        *((f"the input `{i.name}`", i.node) for i in graph.inputs),
        *((f"the output `{o.name}`", o.node) for o in graph.outputs),
    ):
        if node not in place:
            raise InternalError(f"{what} of the graph `{graph.name}` is not among its nodes", stage=stage)
    for k, node in enumerate(graph.nodes):
        problem = _order_problem(node, k, place) or _node_problem(node, declared)
        if problem:
            raise InternalError(
                f"graph `{graph.name}`: {problem}", span=node.origin.span, notes=_around(graph, k), stage=stage
            )


def _order_problem(node: Node, k: int, place: dict[Node, int]) -> str:
    for position, operand in enumerate(node.inputs):
        if operand not in place:
            return f"operand {position} of `{node.op.name}` is not in the graph"
        if place[operand] >= k:
            return f"`{node.op.name}` stands before its operand {position}"
    return ""


def _node_problem(node: Node, declared: set[Node]) -> str:
    if OPS.get(node.op.name) is not node.op:
        return f"`{node.op.name}` is not the op of that name in the table"
    if node.op.name == "input":
        return "" if node in declared else f"the input `{node.attrs['name']}` is not declared"
    try:
        found = node.op.infer(ShapeContext(), *[i.type for i in node.inputs], **node.attrs)
    except TypeProblem as problem:
        return f"`{node.op.name}` refuses its operands: {problem.message}"
    except (TypeError, LookupError, AttributeError) as problem:
        return f"`{node.op.name}` does not fit its operands and options: {problem}"
    if _same(node.type, found):
        return ""
    return f"`{node.op.name}` is marked {node.type}, and its shape rule gives {found}"


def _same(left: ValueType, right: ValueType) -> bool:
    lefts: Sequence[TensorType] = left.items if isinstance(left, TupleType) else (left,)
    rights: Sequence[TensorType] = right.items if isinstance(right, TupleType) else (right,)
    return len(lefts) == len(rights) and all(
        p.dtype == q.dtype
        and p.rank == q.rank
        and all(dims_equal(m, n) is True for m, n in zip(p.shape, q.shape, strict=True))
        for p, q in zip(lefts, rights, strict=True)
    )


def _around(graph: Graph, k: int) -> tuple[str, ...]:
    """The lines around a node, the faulty one marked, and those of its operands further up."""
    names, numbers = name_nodes(graph), number_bodies(graph)
    first = max(0, k - _AROUND)
    shown = {*range(first, min(len(graph.nodes), k + _AROUND + 1))}
    place = {node: j for j, node in enumerate(graph.nodes)}
    shown |= {place[i] for i in graph.nodes[k].inputs if i in place}
    lines = []
    for j in sorted(shown):
        mark = "-> " if j == k else "   "
        lines.append(mark + node_line(graph.nodes[j], names, numbers))
    return ("\n".join(lines),)
