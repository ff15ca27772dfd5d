"""Cutting a graph in two: what some of its inputs do not influence, and the rest, which reads what is kept of the first half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, declare, topological
from rlxlang.transforms.forward import jvp
from rlxlang.transforms.replay import unique_name
from rlxlang.transforms.reverse import vjp


@dataclass(frozen=True, slots=True)
class Split:
    """The second half of a graph.

    Attributes:
        residuals: Nodes of the graph whose values it reads; inputs may be among them.
        names: Their names as its inputs: those of the graph's inputs stay.
        rest: Its graph: the inputs are the residuals, of kind `param`, and then the swept ones.
    """

    residuals: tuple[Node, ...]
    names: tuple[str, ...]
    rest: Graph


def split(graph: Graph, swept: Sequence[str], outputs: Sequence[GraphOutput], recompute: bool = False) -> Split:
    """Cut a graph where the influence of some inputs begins.

    Guards are not repeated: whoever runs the first half has checked them.

    Args:
        graph: The graph.
        swept: Names of the inputs on which the second half depends.
        outputs: Those of the graph's outputs that the second half computes.
        recompute: Whether what stands behind a barrier (`remat`) belongs to the second half, which then computes it anew.
    """
    entries = [e for e in graph.inputs if e.name in swept]
    moving = {e.node for e in entries}
    for node in graph.nodes:
        if any(i in moving for i in node.inputs) or (recompute and node.op.name == "barrier"):
            moving.add(node)
    residuals, copied = _frontier(moving, [o.node for o in outputs])
    taken = [e.name for e in graph.inputs]
    b = Builder()
    env: dict[Node, Node] = {}
    for node in residuals:
        name = node.attrs["name"] if node.op.name == "input" else unique_name("residual", taken)
        taken.append(name)
        with b.at(node.origin):
            env[node] = b.input(name, node.dtype, node.shape, "param")
    names = tuple(env[n].attrs["name"] for n in residuals)
    inputs = [declare(env[n]) for n in residuals]
    for entry in entries:
        env[entry.node] = b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
        inputs.append(declare(env[entry.node], entry.init, entry.doc))
    for node in copied:
        if node not in env:
            with b.at(node.origin):
                env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    b.guards.clear()
    found = [GraphOutput(o.name, env[o.node], o.role) for o in outputs]
    return Split(tuple(residuals), names, b.finish(graph.name, inputs, found))


def _frontier(moving: set[Node], results: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes to keep for a second half of these moving nodes, and the nodes it is made of, operands first.

    Constants, and repetitions of what is kept, cost nothing and are made again.
    """
    kept: set[Node] = set()
    copied: set[Node] = set()
    todo = list(results)
    while todo:
        node = todo.pop()
        if node in copied or node in kept:
            continue
        again = node.op.name == "broadcast_to" or (not node.inputs and node.op.name != "input")
        if node in moving or again:
            copied.add(node)
            todo.extend(node.inputs)
        else:
            kept.add(node)
    order = sorted(kept, key=lambda n: n.serial)
    return order, [n for n in topological(results) if n in copied]


def vjp_halves(graph: Graph, names: Sequence[str]) -> tuple[Graph, Graph]:
    """The vjp in two graphs: one of the graph's inputs, one of what the first keeps and of cotangents.

    Returns:
        The graph's outputs, then what is kept of inputs and values in between, as outputs `keep_<name>`; and the pull-back, whose
        params are what is kept and params of the graph, and whose inputs are the `ct_<output>`.

    Raises:
        RlxTransformError: As `vjp`.
    """
    return _halves(graph, vjp(graph, names))


def linear_halves(graph: Graph, names: Sequence[str]) -> tuple[Graph, Graph]:
    """The jvp in two graphs, as `vjp_halves`; the second one maps `tangent_<name>` to `tangent_<output>`."""
    return _halves(graph, jvp(graph, names))


def _halves(graph: Graph, whole: Graph) -> tuple[Graph, Graph]:
    """The graph beside its derivative `whole`, whose inputs and outputs follow those of the graph."""
    own, swept = whole.inputs[: len(graph.inputs)], whole.inputs[len(graph.inputs) :]
    present, changes = whole.outputs[: len(graph.outputs)], whole.outputs[len(graph.outputs) :]
    halves = split(whole, [e.name for e in swept], changes, recompute=True)
    rest, kept = halves.rest, list(halves.residuals)
    for entry in own:
        if entry.node not in kept and _tells_more(entry, rest):
            size = declare(Builder().input(entry.name, entry.node.dtype, entry.node.shape, "param"))
            rest = Graph(rest.name, (size, *rest.inputs), rest.outputs, rest.guards)
            kept.insert(0, entry.node)
    outputs = list(present)
    for node, entry in zip(kept, rest.inputs, strict=False):
        if node.op.name != "input" or node.attrs["kind"] != "param":
            outputs.append(GraphOutput(unique_name(f"keep_{entry.name}", [o.name for o in outputs]), node))
    return Graph(graph.name, own, tuple(outputs), whole.guards), rest


def _tells_more(entry: GraphInput, rest: Graph) -> bool:
    """Whether an input has an axis that a graph needs and cannot read off its own inputs."""
    plain = {str(d) for e in rest.inputs for d in e.node.shape}
    return any(str(d) in rest.axes() and str(d) not in plain for d in entry.node.shape)
