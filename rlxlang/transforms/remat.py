"""Rematerialisation: what the backward pass computes again instead of keeping it.

Source: Griewank & Walther 2000; Chen et al. 2016, arXiv:1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from rlxlang.diagnostics import Frame, RlxTransformError, did_you_mean
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, declare
from rlxlang.ops.custom import call
from rlxlang.transforms.errors import is_count
from rlxlang.transforms.replay import replay, replay_inputs
from rlxlang.transforms.segments import scan_in_segments, segment_length
from rlxlang.types import TupleType

Segments: TypeAlias = 'int | Literal["sqrt"]'
Rewrite: TypeAlias = "Callable[[Builder, Node, list[Any]], Any]"
"""`rewrite(b, node, operands)`: the new node of an old one, or a tuple of its results."""


def remat(graph: Graph, fns: Sequence[str] | None = None, scans: Segments | None = None) -> Graph:
    """The same function, parts of which are computed again in the backward pass.

    Args:
        graph: The function, before its derivative is taken.
        fns: Calls of these fns and blocks, by the name of the definition, or of an instance of a block (`encoder.0`).
        scans: Loops: the carry is kept at the start of every segment of so many steps, and a segment is computed again when the
            backward pass reaches it; `"sqrt"` for as many steps as there are segments, so that memory grows with the square root of
            the length. Loops inside of loops stay as they are.

    With neither, all of it: nothing is kept but the inputs.

    Raises:
        RlxTransformError: E0502 a fn that nothing calls; E0500 no `scan` at all, a segment that is no integer of 1 or more, or `"sqrt"`
            of a dynamic length.
    """
    if fns is None and scans is None:
        b = Builder()
        env, inputs = replay_inputs(b, graph)
        for guard in graph.guards:
            b.require(guard)
        results = call(b, "remat", [env[e.node] for e in graph.inputs], body=graph)
        outputs = [GraphOutput(o.name, r, o.role) for o, r in zip(graph.outputs, results, strict=True)]
        return b.finish(graph.name, inputs, outputs)
    if scans is not None:
        graph = _segmented(graph, scans)
    return graph if fns is None else _grouped(graph, fns)


# --------------------------------------------------------------------------------------------- loops


def _segmented(graph: Graph, scans: Segments) -> Graph:
    if scans != "sqrt" and not is_count(scans):
        raise RlxTransformError(
            f'`remat`: `scans` is {scans!r}, expected "sqrt" or the steps of a segment, 1 or more', code="E0500"
        )
    found = False

    def rewrite(b: Builder, node: Node, operands: list[Any]) -> Any:
        nonlocal found
        if node.op.name != "scan":
            return b.emit(node.op, *operands, **node.attrs)
        found = True
        return scan_in_segments(b, node, operands, segment_length(node.attrs["length"], scans, node.origin.span))

    result = _rewritten(graph, rewrite)
    if not found:
        raise RlxTransformError(f"`remat`: `{graph.name}` has no `scan`", code="E0500")
    return result


def _rewritten(graph: Graph, rewrite: Rewrite) -> Graph:
    """The graph with every node made anew, those in bodies of branches and of other `remat`s too."""
    b = Builder()
    env, inputs = replay_inputs(b, graph)

    def emit(node: Node, operands: list[Any]) -> Any:
        if node.op.name == "item" and isinstance(operands[0], tuple):
            return operands[0][node.attrs["index"]]
        if node.op.name in ("cond", "remat"):
            inner = {k: _rewritten(v, rewrite) if isinstance(v, Graph) else v for k, v in node.attrs.items()}
            return b.emit(node.op, *operands, **inner)
        return rewrite(b, node, operands)

    replay(b, graph, env, emit)
    return b.finish(graph.name, inputs, [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs])


# --------------------------------------------------------------------------------------------- calls


def _grouped(graph: Graph, fns: Sequence[str]) -> Graph:
    if isinstance(fns, str):
        raise RlxTransformError(
            f"`remat` takes a list of names, not the string {fns!r}", code="E0502", helps=(f'write ["{fns}"]',)
        )
    seen: set[str] = set()
    used: set[str] = set()
    result = _with_groups(graph, frozenset(fns), (), seen, used)
    for name in fns:
        if name not in used:
            raise RlxTransformError(
                f"`remat`: `{graph.name}` has no call of a fn or block `{name}`",
                code="E0502",
                notes=(f"it calls {', '.join(sorted(seen))}" if seen else "it calls none",),
                helps=(did_you_mean(name, seen),),
            )
    return result


def _with_groups(graph: Graph, fns: frozenset[str], outer: tuple[Frame, ...], seen: set[str], used: set[str]) -> Graph:
    """The graph with every outermost call of these fns as one `remat` node.

    Args:
        graph: The graph, or the body of a node.
        fns: Names.
        outer: Calls around the whole body, which are not its own.
        seen: All names of calls; added to.
        used: Those of `fns` that were found; added to.
    """
    group_of: dict[Node, tuple[Frame, ...]] = {}
    for node in graph.nodes:
        if node.op.name == "item" and node.inputs[0] in group_of:
            group_of[node] = group_of[node.inputs[0]]
            continue
        chain = node.origin.chain
        if outer and chain[-len(outer) :] == outer:
            chain = chain[: -len(outer)]
        names = [{f.name, f.function} - {""} for f in chain]
        seen.update(*names)
        place = next((k for k in reversed(range(len(chain))) if names[k] & fns), None)
        if place is not None and node.inputs and not node.origin.via:
            used |= set().union(*names) & fns
            group_of[node] = chain[place:]
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    for guard in graph.guards:
        b.require(guard)
    members: dict[tuple[Frame, ...], list[Node]] = {}
    for node, group in group_of.items():
        members.setdefault(group, []).append(node)
    needed = {i for n in graph.nodes for i in n.inputs if group_of.get(i) != group_of.get(n)}
    needed |= {o.node for o in graph.outputs}
    done: set[tuple[Frame, ...]] = set()
    for node in _ordered(graph, group_of, members):
        if node not in group_of:
            if node not in env:
                with b.at(node.origin):
                    attrs = {
                        k: _with_groups(v, fns, node.origin.chain, seen, used) if isinstance(v, Graph) else v
                        for k, v in node.attrs.items()
                    }
                    env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **attrs)
            continue
        group = group_of[node]
        if group not in done:
            done.add(group)
            _emit_group(b, env, group[0], members[group], needed)
    return b.finish(graph.name, inputs, [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs])


def _ordered(
    graph: Graph, group_of: dict[Node, tuple[Frame, ...]], members: dict[tuple[Frame, ...], list[Node]]
) -> list[Node]:
    """The nodes with each group in one piece, operands before users."""
    order: list[Node] = []
    state: dict[object, bool] = {}  # False: begun, True: done
    for root in graph.nodes:
        todo: list[Node] = [root]
        while todo:
            node = todo[-1]
            key: object = group_of.get(node, node)
            if state.get(key):
                todo.pop()
                continue
            whole = members[group_of[node]] if node in group_of else [node]
            operands = [i for n in whole for i in n.inputs if group_of.get(i, i) != key]
            waiting = [i for i in operands if not state.get(group_of.get(i, i))]
            if waiting and key in state:
                raise RlxTransformError(
                    "`remat`: what a call computes is interleaved with what is computed of it",
                    code="E0500",
                    span=node.origin.span,
                    helps=("apply `remat(fns=…)` before other transforms",),
                )
            state[key] = not waiting
            if waiting:
                todo.extend(waiting)
            else:
                order += whole
                todo.pop()
    return order


def _emit_group(b: Builder, env: dict[Node, Node], frame: Frame, nodes: list[Node], needed: set[Node]) -> None:
    """Emit some nodes as one `remat` node."""
    inside = Builder()
    inner: dict[Node, Node] = {}
    arguments: list[Node] = []
    inputs: list[GraphInput] = []
    own = set(nodes)
    for operand in dict.fromkeys(i for n in nodes for i in n.inputs if i not in own):
        if not operand.inputs and operand.op.name != "input":
            inner[operand] = inside.emit(operand.op, **operand.attrs)
            continue
        inner[operand] = inside.input(f"x{len(inputs)}", operand.dtype, operand.shape)
        inputs.append(declare(inner[operand]))
        arguments.append(env[operand])
    for node in nodes:
        with inside.at(node.origin):
            inner[node] = inside.emit(node.op, *[inner[i] for i in node.inputs], **node.attrs)
    results = [n for n in nodes if n in needed and not isinstance(n.type, TupleType)]
    body = inside.finish(
        frame.function or frame.name, inputs, [GraphOutput(f"r{k}", inner[n]) for k, n in enumerate(results)]
    )
    with b.at(nodes[-1].origin):
        env.update(zip(results, call(b, "remat", arguments, body=body), strict=True))
