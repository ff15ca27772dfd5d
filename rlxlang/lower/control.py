"""`while` and `cond` as steps that hold further steps, calls of routines, and the hand-over of carries that every loop ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.kernels import Branch, Copy, Library, Step, While
from rlxlang.lower.memory import Buffers
from rlxlang.lower.own import copy_nest
from rlxlang.types import TupleType


class GraphLowering(Protocol):
    """What lowers a graph or a body: its buffers, the steps so far, and the buffers of values (of single and of several results)."""

    buffers: Buffers
    steps: list[Step]
    items: dict[Node, list[int]]
    places: dict[Node, int]

    def place(self, node: Node) -> int:
        """The buffer that holds a node's value."""
        ...

    def contiguous(self, node: Node, name: str) -> int:
        """A buffer that holds exactly this value."""
        ...

    def lower_body(self, body: Graph, given: Sequence[int], prefix: str) -> GraphLowering:
        """Lower a body whose inputs are in these buffers."""
        ...

    def body_outputs(self) -> Sequence[GraphOutput]:
        """The outputs of the graph that is lowered, composite ops decomposed."""
        ...


def start_carries(outer: GraphLowering, starts: Sequence[Node], name: str) -> list[int]:
    """Buffers of carries, filled with their starts."""
    carries = []
    for k, start in enumerate(starts):
        buffer = outer.buffers.new("temp", start.dtype, start.shape)
        outer.steps.append(copy_nest(start, buffer, outer.buffers, outer.place, f"{name}_start{k}"))
        carries.append(buffer)
    return carries


def hand_over(body: GraphLowering, outputs: Sequence[Node], carries: Sequence[int], name: str) -> list[Step]:
    """The copies of new carries to the buffers of the old ones; all are computed before any is overwritten."""
    fresh = [body.contiguous(node, f"{name}_next{k}") for k, node in enumerate(outputs)]
    staged: list[Step] = []
    for source, target in zip(fresh, carries, strict=True):
        if source == target:
            continue
        if source in carries:  # carries that trade places need a stop on the way
            stop = body.buffers.new("temp", body.buffers[source].dtype, body.buffers[source].shape)
            body.steps.append(Copy(source, stop))
            source = stop
        staged.append(Copy(source, target))
    return staged


def while_step(outer: GraphLowering, node: Node, name: str) -> None:
    """Emit the loop of a `while` node."""
    count = node.attrs["carries"]
    carries = start_carries(outer, node.inputs[:count], name)
    closed = [outer.contiguous(value, f"{name}_const{k}") for k, value in enumerate(node.inputs[count:])]
    test = outer.lower_body(node.attrs["cond"], [*carries, *closed], f"{name}_while_")
    predicate = test.contiguous(test.body_outputs()[0].node, f"{name}_test")
    body = outer.lower_body(node.attrs["body"], [*carries, *closed], f"{name}_")
    staged = hand_over(body, [o.node for o in body.body_outputs()], carries, name)
    outer.steps.append(While(name, tuple(test.steps), predicate, (*body.steps, *staged), node.attrs["limit"]))
    outer.items[node] = carries


def branch_step(outer: GraphLowering, node: Node, name: str) -> None:
    """Emit the choice of a `cond` node; both branches write to the same buffers."""
    assert isinstance(node.type, TupleType)
    predicate = outer.contiguous(node.inputs[0], f"{name}_test")
    closed = [outer.contiguous(value, f"{name}_const{k}") for k, value in enumerate(node.inputs[1:])]
    results = [outer.buffers.new("temp", t.dtype, t.shape) for t in node.type.items]

    def steps(graph: Graph, prefix: str) -> tuple[Step, ...]:
        body = outer.lower_body(graph, closed, prefix)
        for k, (output, target) in enumerate(zip(body.body_outputs(), results, strict=True)):
            body.steps.append(copy_nest(output.node, target, body.buffers, body.place, f"{prefix}result{k}"))
        return tuple(body.steps)

    then, orelse = steps(node.attrs["then"], f"{name}_then_"), steps(node.attrs["orelse"], f"{name}_else_")
    outer.steps.append(Branch(name, predicate, then, orelse))
    outer.items[node] = results


def library_step(outer: GraphLowering, node: Node, routine: str, name: str) -> None:
    """Emit the call of a routine; its results are read in place, also by what takes one of several."""
    types = node.type.items if isinstance(node.type, TupleType) else (node.tensor,)
    arguments = tuple(outer.contiguous(value, f"{name}_given{k}") for k, value in enumerate(node.inputs))
    results = [outer.buffers.new("temp", t.dtype, t.shape) for t in types]
    options = tuple(sorted(node.attrs.items()))
    where = "" if node.origin.span is None else node.origin.span.location
    outer.steps.append(Library(name, routine, arguments, tuple(results), options, where, (node.op.name,)))
    outer.items[node] = results
    if not isinstance(node.type, TupleType):
        outer.places[node] = results[0]


def given_buffers(body: Graph, given: Sequence[int]) -> Mapping[Node, int]:
    """The buffers of a body's inputs by node."""
    return {entry.node: buffer for entry, buffer in zip(body.inputs, given, strict=True)}
