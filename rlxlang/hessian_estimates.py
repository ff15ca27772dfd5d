"""Estimates of the diagonal of a Hessian for optimizers that follow the curvature: `u·(H·u)` in random directions u.

Source:
    Hutchinson 1990, "A stochastic estimator of the trace of the influence matrix"; for diagonals Bekas, Kokiopoulou and Saad 2007, "An
    estimator for the diagonal of a matrix".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from rlxlang.device import Device
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.ops.control import inline
from rlxlang.ops.control_branch import cond
from rlxlang.transforms import hvp

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"


class TracedDirections(Protocol):
    """An optimizer that names its directions in a graph."""

    def trace_direction(self, b: Builder, name: str, param: Node, hyper: Mapping[str, Node]) -> tuple[Node, Node]:
        """A Bool scalar, whether the step wants an estimate, and the direction in which it wants it (0 where it does not)."""
        ...


def estimate_nodes(
    b: Builder,
    graph: Graph,
    nodes: Mapping[str, Node],
    opt: TracedDirections,
    scalars: Mapping[str, Mapping[str, Node]],
) -> dict[str, Node]:
    """Estimates by parameter as nodes of a step; they are computed in the steps alone that want any, and 0 in all others.

    Args:
        b: Where to emit.
        graph: The forward graph, the loss first.
        nodes: Its inputs by name.
        opt: The optimizer.
        scalars: The scalars of the step by parameter and name.
    """
    names = list(scalars)
    wanted: Node | None = None
    for name in names:
        due, _ = opt.trace_direction(b, name, nodes[name], scalars[name])
        wanted = due if wanted is None else b.emit("bit_or", wanted, due)
    assert wanted is not None
    product = hvp(graph, names)
    given = [nodes[e.name] for e in product.inputs[: -len(names)]]
    closed = list(dict.fromkeys([*given, *(node for own in scalars.values() for node in own.values())]))

    inner = Builder()
    inside = {node: inner.input(f"v{k}", node.dtype, node.shape) for k, node in enumerate(closed)}
    directions = []
    for name in names:
        hyper = {key: inside[node] for key, node in scalars[name].items()}
        directions.append(opt.trace_direction(inner, name, inside[nodes[name]], hyper)[1])
    found = inline(inner, product, [*(inside[node] for node in given), *directions])
    estimates = [emit.mul(inner, u, hu) for u, hu in zip(directions, found, strict=True)]
    outputs = [GraphOutput(f"estimate{k}", node) for k, node in enumerate(estimates)]
    then = inner.finish("estimates", map(declare, inside.values()), outputs)

    other = Builder()
    outside = [other.input(f"v{k}", node.dtype, node.shape) for k, node in enumerate(closed)]
    zeros = [GraphOutput(f"estimate{k}", other.zeros_like(nodes[name])) for k, name in enumerate(names)]
    orelse = other.finish("none", map(declare, outside), zeros)
    return dict(zip(names, cond(b, wanted, then, orelse, closed), strict=True))


def observe_hessian(
    opt: Any,
    func: Func,
    names: Sequence[str],
    values: Sequence[object],
    params: Mapping[str, Array],
    device: Device | None,
) -> None:
    """Hand an optimizer the estimates that it wants for its next step, if any.

    Args:
        opt: The optimizer.
        func: The function, the loss first.
        names: The parameters that take the step.
        values: The inputs and the seed by position.
        params: Arrays of all params.
        device: Where to run; the fastest device that can, when None.
    """
    if not getattr(opt, "needs_hessian", False):
        return
    directions = {}
    for name in names:
        direction = opt.hessian_direction(name, params[name].shape)
        if direction is not None:
            directions[name] = np.asarray(direction, params[name].dtype)
    if not directions:
        return
    product = func.hvp(list(directions)).traced
    feeds, sizes = product.signature.prepare((*values, *directions.values()), params)
    found = product.compiled(device).run(feeds, params, sizes)
    for (name, direction), along in zip(directions.items(), found, strict=True):
        opt.observe_hessian(name, direction * along)
