"""Parts of a compiled step around the optimizer: gathering gradients, the loss scale, averages of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.ir import Builder, Graph, Node
from rlxlang.ops import emit
from rlxlang.training.data import batch_input
from rlxlang.training.step_state import GREATEST_SCALE, LEAST_SCALE, StepState
from rlxlang.types import BOOL, F32, F64, I32, DType

Array: TypeAlias = "np.ndarray[Any, Any]"
# Declares a resident array as an input of the step: gives its name and node.
Declare: TypeAlias = Callable[[str, Array], tuple[str, Node]]
Written: TypeAlias = "list[tuple[str, Node]]"


def wide(dtype: DType) -> DType:
    """The dtype of sums: F64 for F64, else F32."""
    return F64 if dtype == F64 else F32


def unscaled(b: Builder, gradients: Sequence[Node], scale: Node) -> list[Node]:
    """Gradients divided by the loss scale, in F32."""
    factor = emit.div(b, b.full_like(scale, 1), scale)
    return [_times(b, emit.cast(b, g, wide(g.dtype)), factor) for g in gradients]


def gathered(
    b: Builder, forward: Graph, gradients: Mapping[str, Node], state: StepState, declare: Declare, completes: bool
) -> tuple[list[Node], Written]:
    """The gradients of all calls together, and what to write.

    Args:
        b: Where to emit.
        forward: The forward graph, which tells the rows of a call (see `batch_input`).
        gradients: Those of this call by parameter.
        state: The sums.
        declare: Declares resident arrays.
        completes: Whether this call completes an update: then the mean over all rows is given, and the sums are emptied; else the
            sums, and they are written.
    """
    counted = batch_input(forward.feeds)
    rows_name, before = declare("rows", state.rows)
    own = emit.number(b, 1 if counted is None else counted.node.shape[0], before)
    rows = emit.add(b, before, own)
    sums, written = [], []
    for name, gradient in gradients.items():
        target, total = declare(f"sum/{name}", state.sums[name])
        sums.append(emit.add(b, total, _times(b, emit.cast(b, gradient, total.dtype), own)))
        written.append((target, b.zeros_like(total) if completes else sums[-1]))
    written.append((rows_name, b.zeros_like(rows) if completes else rows))
    if not completes:
        return sums, written
    least = b.full_like(rows, 1)
    count = b.emit("maximum", rows, least)
    means = [emit.div(b, s, emit.broadcast_to(b, emit.cast(b, count, s.dtype), s.shape)) for s in sums]
    return means, written


def judged(
    b: Builder, gradients: Sequence[Node], state: StepState, scale: Node, declare: Declare
) -> tuple[Node, Written]:
    """Whether all gradients are finite, and what to write: that, the count of good steps, and the next scale."""
    assert state.scale is not None
    fine = b.full(True, BOOL)
    for gradient in gradients:
        own = b.emit("isfinite", gradient)
        fine = b.emit("bit_and", fine, emit.reduce(b, "all", own, range(len(own.shape))))
    flag, _ = declare("is_finite", state.is_finite)
    written = [(flag, emit.cast(b, fine, I32))]
    if state.scale.growth_steps is None:
        return fine, written
    counter, before = declare("good_steps", state.good_steps)
    good = emit.shift(b, before, 1)
    grows = emit.compare(b, "ge", good, state.scale.growth_steps)
    larger = b.emit("minimum", emit.scale(b, scale, 2), b.full_like(scale, GREATEST_SCALE))
    smaller = b.emit("maximum", emit.scale(b, scale, 0.5), b.full_like(scale, LEAST_SCALE))
    written.append((counter, emit.keep(b, b.emit("bit_and", fine, b.emit("bit_not", grows)), good)))
    written.append((scale.attrs["name"], emit.select(b, fine, emit.select(b, grows, larger, scale), smaller)))
    return fine, written


def chosen(b: Builder, condition: Node, new: Node, old: Node) -> Node:
    """A new value where the update is made, else the old one."""
    return emit.select(b, emit.broadcast_to(b, condition, new.shape), new, old)


def averaged(b: Builder, name: str, new: Node, state: StepState, declare: Declare) -> tuple[str, Node]:
    """The moving average of a parameter."""
    assert state.ema is not None
    target, average = declare(f"ema/{name}", state.averages[name])
    moved = emit.scale(b, emit.cast(b, new, average.dtype), 1 - state.ema)
    return target, emit.add(b, emit.scale(b, average, state.ema), moved)


def _times(b: Builder, x: Node, factor: Node) -> Node:
    """`x` times a scalar."""
    return emit.mul(b, x, emit.broadcast_to(b, emit.cast(b, factor, x.dtype), x.shape))
