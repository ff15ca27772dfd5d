"""Loops in segments: the backward pass keeps the carry of each segment and computes the steps in between again (Griewank 1992)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlxlang.diagnostics import RlxTransformError, Span
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.ops.control import scan
from rlxlang.ops.custom import call
from rlxlang.types import DimLike, floor_div


def segment_length(length: DimLike, steps: object, span: Span | None = None) -> int:
    """How many steps a segment has: so many, or of `"sqrt"` about the square root of the length, if possible a divisor of it.

    Raises:
        RlxTransformError: E0500 a dynamic length has no square root before it is known.
    """
    if isinstance(steps, int):
        return steps
    if not isinstance(length, int):
        raise RlxTransformError(
            f"the length {length} of a loop is dynamic, so its square root is not known",
            code="E0500",
            span=span,
            helps=("say how many steps a segment has",),
        )
    root = max(1, math.isqrt(max(length - 1, 0)) + 1)
    even = [k for k in range(root, 1 + 3 * root // 2) if length % k == 0]  # no steps are left over then
    return even[0] if even else root


def scan_in_segments(b: Builder, node: Node, operands: Sequence[Node], steps: int) -> tuple[Node, ...]:
    """The results of a `scan` node, computed by a scan over segments of `steps` steps and one over the steps that are left.

    Args:
        b: The builder of the result.
        node: The node.
        operands: Its operands in `b`.
        steps: Steps of a segment.
    """
    body: Graph = node.attrs["body"]
    carries, sources = node.attrs["carries"], node.attrs["sources"]
    length, reverse = node.attrs["length"], node.attrs["reverse"]
    state, stacks, closed = operands[:carries], operands[carries : carries + sources], operands[carries + sources :]
    full = floor_div(length, steps)
    bound = full * steps
    left = length - bound

    def tail() -> tuple[list[Node], list[Node]]:
        rest = [emit.slice_axis(b, s, 0, bound, length) for s in stacks]
        results = call(b, "remat", [*state, *rest, *closed], body=_segment(body, left, carries, sources, reverse))
        return results[:carries], results[carries:]

    parts: list[list[Node]] = []
    if reverse and left != 0:
        state, emitted = tail()
        parts.append(emitted)
    if full != 0:
        heads = [emit.slice_axis(b, s, 0, 0, bound) for s in stacks]
        cut = [emit.reshape(b, s, (full, steps, *s.shape[1:])) for s in heads]
        step = _step(_segment(body, steps, carries, sources, reverse))
        state, emitted = scan(b, step, state, cut, closed, full, reverse)
        parts.append([emit.reshape(b, e, (bound, *e.shape[2:])) for e in emitted])
    if not reverse and left != 0:
        state, emitted = tail()
        parts.append(emitted)
    if not parts:
        return _items(b, b.emit(node.op, *operands, **node.attrs), len(body.outputs))
    ordered = parts[::-1] if reverse else parts
    return (*state, *(emit.concat(b, group, 0) for group in map(list, zip(*ordered, strict=True))))


def _items(b: Builder, node: Node, count: int) -> tuple[Node, ...]:
    return tuple(b.emit("item", node, index=k) for k in range(count))


def _segment(body: Graph, steps: DimLike, carries: int, sources: int, reverse: bool) -> Graph:
    """The steps of one segment: carries, slices of the sources, what the body closes over; last carries and emitted values."""
    b = Builder()
    nodes: list[Node] = []
    for k, entry in enumerate(body.inputs):
        shape = (steps, *entry.node.shape) if carries <= k < carries + sources else entry.node.shape
        nodes.append(b.input(entry.name, entry.node.dtype, shape))
    last, stacked = scan(
        b, body, nodes[:carries], nodes[carries : carries + sources], nodes[carries + sources :], steps, reverse
    )
    outputs = [GraphOutput(f"r{k}", r) for k, r in enumerate([*last, *stacked])]
    return b.finish(body.name, map(declare, nodes), outputs)


def _step(segment: Graph) -> Graph:
    """A segment as the body of a scan, computed again by the backward pass."""
    b = Builder()
    nodes: list[Any] = [b.input(e.name, e.node.dtype, e.node.shape) for e in segment.inputs]
    outputs = [GraphOutput(f"r{k}", r) for k, r in enumerate(call(b, "remat", nodes, body=segment))]
    return b.finish(segment.name, map(declare, nodes), outputs)
