"""Derivatives inside a graph under construction: cotangents are pulled back through nodes that the builder already holds.

What comes out is ordinary nodes of the same builder, so derivatives can be used, batched and differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import UNDEFINED, VIA_DECOMPOSITION, ZERO, Builder, GraphOutput, Node, declare
from rlxlang.transforms.errors import not_differentiable
from rlxlang.transforms.replay import expand, replay
from rlxlang.transforms.reverse import add_cotangents, pull_back
from rlxlang.types import TensorType, TupleType, dims_equal


def gradients(b: Builder, y: Node, wrt: Sequence[Node], since: int = 0) -> list[Node]:
    """Total derivatives of a value of one element in other values of the same builder (elementary).

    A value that others of `wrt` are computed from gets the derivative through those too; one that does not influence `y` gets zeros.

    Args:
        b: The builder that holds `y`; the new nodes are made here.
        y: A float tensor of one element.
        wrt: Float tensors; inputs or values in between.
        since: Nodes with a smaller serial are taken as leaves.

    Returns:
        A derivative for each of `wrt`, of its shape and dtype.

    Raises:
        RlxTransformError: E0501 an integer, Bool or an op without derivative, E0503 `y` has several elements.
    """
    for node in (y, *wrt):
        if not _differentiable(node):
            raise RlxTransformError(f"`grad`: a tensor {node.type} cannot be differentiated", code="E0501")
    if not y.dtype.is_float:
        raise RlxTransformError(f"`grad`: the value is {y.dtype}, which has no gradient", code="E0501")
    if dims_equal(y.tensor.size, 1) is not True:
        raise RlxTransformError(
            f"`grad` takes a value of one element, and {y.type} is given",
            code="E0503",
            helps=("reduce it first: `mean(…)` or `sum(…)`",),
        )
    with b.at(b.origin.through("grad")):
        found = _pulled(b, y, wrt, since)
        return [b.zeros_like(w) if g is None else g for w, g in zip(wrt, found, strict=True)]


def _pulled(b: Builder, y: Node, wrt: Sequence[Node], since: int) -> list[Node | None]:
    nodes = _below(y, since)
    keep = set(wrt)
    active = set(keep)
    for node in nodes:
        if node.serial >= since and any(i in active for i in node.inputs):
            active.add(node)
    pending: dict[Node, Any] = {y: b.full_like(y, 1)}
    for node in reversed(nodes):
        cotangent = pending.get(node)
        if cotangent is None or node not in active or node.serial < since or not node.inputs:
            continue
        if node not in keep:
            del pending[node]
        if node.op.name == "item":
            source = node.inputs[0]
            assert isinstance(source.type, TupleType)
            parts = pending.setdefault(source, [None] * len(source.type.items))
            k = node.attrs["index"]
            parts[k] = add_cotangents(b, parts[k], cotangent)
            continue
        for operand, part in zip(node.inputs, _through(b, node, cotangent), strict=True):
            if part is not None and operand in active and _differentiable(operand):
                pending[operand] = add_cotangents(b, pending.get(operand), part)
    return [pending.get(w) for w in wrt]


def _below(y: Node, since: int) -> list[Node]:
    """The nodes that `y` needs, operands first; what leaves need is left out."""
    seen: set[Node] = set()
    todo = [y]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.serial >= since:
            todo.extend(node.inputs)
    return sorted(seen, key=lambda n: n.serial)


def _differentiable(node: Node) -> bool:
    return isinstance(node.type, TensorType) and bool(node.type.dtype.is_differentiable)


def _through(b: Builder, node: Node, cotangent: Any) -> Sequence[Node | None]:
    """The cotangents of a node's operands."""
    rule = node.op.vjp
    if rule is ZERO:
        return [None] * len(node.inputs)
    if rule is VIA_DECOMPOSITION:
        return _through_decomposition(b, node, cotangent)
    if rule is UNDEFINED or not callable(rule):
        raise not_differentiable(node, "grad")
    result: Sequence[Node | None] = rule(b, node, list(node.inputs), cotangent)
    return result


def _through_decomposition(b: Builder, node: Node, cotangent: Any) -> Sequence[Node | None]:
    """The same for a composite op: its parts are emitted beside it, which gives the same values once it is decomposed too."""
    single = Builder()
    inputs = [single.input(f"x{k}", i.dtype, i.shape) for k, i in enumerate(node.inputs)]
    whole = single.emit(node.op, *inputs, **node.attrs)
    several = isinstance(whole.type, TupleType)
    results = [single.emit("item", whole, index=k) for k in range(len(whole.type.items))] if several else [whole]  # type: ignore[union-attr]
    outputs = [GraphOutput(f"y{k}", r) for k, r in enumerate(results)]
    graph, where = expand(single.finish(node.op.name, [declare(i) for i in inputs], outputs), "vjp", inputs)
    env = {where[old]: new for old, new in zip(inputs, node.inputs, strict=True)}
    replay(b, graph, env)
    seeds: dict[Node, Node | None] = {}
    for output, part in zip(graph.outputs, cotangent if several else [cotangent], strict=True):
        seeds[output.node] = add_cotangents(b, seeds.get(output.node), part)
    return pull_back(b, graph, env, seeds, [where[i] for i in inputs])
