"""Losses made of other ops: triplets, focal, and the loss of sequences without alignment."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, GraphOutput, Node, Parameter, declare
from rlxlang.ops import emit
from rlxlang.ops.arguments import choice, static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, common_dtype, integer_indices, operands
from rlxlang.ops.compose import one
from rlxlang.ops.control import scan
from rlxlang.types import BOOL, F32, I32, TypeProblem, float_dtype

_REDUCTION = Parameter("reduction", "str", "mean")


def _reduced(b: Builder, op: str, value: Node, reduction: Any) -> Node:
    how = choice(op, reduction, "reduction", ("mean", "sum", "none"))
    return value if how == "none" else one(b, how, value)


def _triplet(
    b: Builder, anchor: Value, positive: Value, negative: Value, margin: Any = 1.0, p: Any = 2, reduction: Any = "mean"
) -> Node:
    op = "triplet"
    dtype = float_dtype(common_dtype(op, (anchor, positive, negative)))
    a, near, far = operands(b, op, (anchor, positive, negative), dtype)
    if not a.shape:
        raise TypeProblem("E0404", f"`{op}` takes rows of features, and scalars are given")
    distance = [one(b, "norm", one(b, "sub", a, other), -1, p=p) for other in (near, far)]
    gap = one(b, "add", one(b, "sub", *distance), static_number(op, margin, "margin"))
    return _reduced(b, op, one(b, "relu", gap), reduction)


def _focal(b: Builder, x: Value, y: Value, gamma: Any = 2.0, alpha: Any = None, reduction: Any = "mean") -> Node:
    op = "focal"
    dtype = float_dtype(common_dtype(op, (x, y)))
    logits, targets = operands(b, op, (x, y), dtype)
    loss = one(b, "bce_with_logits", logits, targets, reduction="none")
    p = one(b, "sigmoid", logits)
    miss = one(b, "lerp", p, one(b, "sub", 1, p), targets)  # the probability of the wrong answer
    loss = one(b, "mul", one(b, "pow", miss, static_number(op, gamma, "gamma")), loss)
    if alpha is not None:
        weight = static_number(op, alpha, "alpha")
        loss = one(b, "mul", loss, one(b, "lerp", 1 - weight, weight, targets))
    return _reduced(b, op, loss, reduction)


# --------------------------------------------------------------------------------------------- ctc
def _shifted(b: Builder, x: Node, by: int) -> Node:
    """States moved to higher positions; what enters is impossible."""
    kept = emit.slice_axis(b, x, 1, 0, x.shape[1] - by)
    return emit.pad_axis(b, kept, 1, by, 0, float("-inf"))


def _ctc_loss(
    b: Builder,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    blank: Any = 0,
    reduction: Any = "mean",
) -> Node:
    """The forward recursion over the labels with blanks between them (Graves et al. 2006), one scan over time."""
    op = "ctc_loss"
    x, labels = as_float(b, op, log_probs), emit.cast(b, integer_indices(b, op, targets), I32)
    times, counts = (emit.cast(b, integer_indices(b, op, v), I32) for v in (input_lengths, target_lengths))
    empty = static_int(op, blank, "blank")
    if len(x.shape) != 3 or len(labels.shape) != 2 or len(times.shape) != 1 or len(counts.shape) != 1:
        raise TypeProblem(
            "E0404",
            f"`{op}` takes log-probabilities [t, n, c], labels [n, s] and lengths [n] and [n], "
            f"and {x.type}, {labels.type}, {times.type} and {counts.type} are given",
        )
    wide = emit.widen(b, x)
    steps, n, _ = wide.shape
    s = labels.shape[1]
    states = 2 * s + 1
    # Blanks at even positions, labels at odd ones.
    pairs = emit.concat(b, [b.full(empty, I32, (n, s, 1)), emit.reshape(b, labels, (n, s, 1))], 2)
    path = emit.concat(b, [emit.reshape(b, pairs, (n, 2 * s)), b.full(empty, I32, (n, 1))], 1)
    # A blank may be left out between labels that differ.
    before = emit.pad_axis(b, emit.slice_axis(b, path, 1, 0, states - 2), 1, 2, 0, empty)
    skips = b.emit("bit_and", emit.compare(b, "ne", path, empty), b.emit("ne", path, before))
    first = emit.compare(b, "eq", emit.iota(b, (n, states), 1, I32), 0)
    start = emit.select(b, first, b.full(0.0, wide.dtype, (n, states)), b.full(float("-inf"), wide.dtype, (n, states)))

    inner = Builder()
    alpha, time = inner.input("alpha", wide.dtype, (n, states)), inner.input("time", I32, ())
    row = inner.input("row", wide.dtype, wide.shape[1:])
    own_path, own_skips = inner.input("path", I32, (n, states)), inner.input("skips", BOOL, (n, states))
    own_times = inner.input("times", I32, (n,))
    never = inner.full(float("-inf"), wide.dtype, (n, states))
    leap = emit.select(inner, own_skips, _shifted(inner, alpha, 2), never)
    ways = one(inner, "stack", (alpha, _shifted(inner, alpha, 1), leap), 0)
    reached = one(inner, "logsumexp", ways, 0)
    step = emit.add(inner, reached, inner.emit("take_along_axis", row, own_path, axis=1))
    running = inner.emit("lt", emit.broadcast_to(inner, time, (n,)), own_times)
    alive = emit.insert_axis(inner, running, 1, states)
    following = [emit.select(inner, alive, step, alpha), emit.shift(inner, time, 1)]
    entries = [alpha, time, row, own_path, own_skips, own_times]
    body = inner.finish("ctc", map(declare, entries), [GraphOutput(f"r{k}", f) for k, f in enumerate(following)])
    (last, _), _ = scan(b, body, [start, b.full(0, I32)], [wide], [path, skips, times], steps)

    ends = emit.reshape(b, emit.scale(b, counts, 2), (n, 1))
    final = b.emit("take_along_axis", last, ends, axis=1)
    other = b.emit("take_along_axis", last, b.emit("maximum", emit.shift(b, ends, -1), b.zeros_like(ends)), axis=1)
    some = emit.compare(b, "gt", ends, 0)
    other = emit.select(b, some, other, b.full(float("-inf"), wide.dtype, (n, 1)))
    loss = emit.neg(b, one(b, "logsumexp", emit.concat(b, [final, other], 1), 1))
    if choice(op, reduction, "reduction", ("mean", "sum", "none")) == "mean":
        lengths = emit.cast(b, b.emit("maximum", counts, b.full_like(counts, 1)), F32)
        loss = one(b, "div", loss, lengths)
    return _reduced(b, op, emit.cast(b, loss, x.dtype), reduction)


surface(
    "triplet",
    (
        tensor("anchor"),
        tensor("positive"),
        tensor("negative"),
        Parameter("margin", "float", 1.0),
        Parameter("p", "int", 2),
        _REDUCTION,
    ),
    _triplet,
    "How far rows of features lie from a positive rather than a negative example, plus a margin, never below 0.",
)
surface(
    "focal",
    (tensor(), tensor("y"), Parameter("gamma", "float", 2.0), Parameter("alpha", "float", None), _REDUCTION),
    _focal,
    "Binary cross-entropy of logits x and targets y in 0 … 1, easy cases weighed down (Lin et al. 2017).",
)
surface(
    "ctc_loss",
    (
        tensor("log_probs"),
        tensor("targets"),
        tensor("input_lengths"),
        tensor("target_lengths"),
        Parameter("blank", "int", 0),
        _REDUCTION,
    ),
    _ctc_loss,
    "Negative log-probability of label sequences [n, s] under log_probs [t, n, c]; the mean is per label (Graves et al. 2006).",
)
