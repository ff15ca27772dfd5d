"""Losses: both cross-entropies as rows of the table, and short ones as compositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Bound, Builder, Node, Op, Parameter, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, choice, static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, common_dtype, integer_indices, operands
from rlxlang.ops.rules import Batched, require_kinds, to_front
from rlxlang.ops.softmax import np_log_softmax
from rlxlang.types import DimLike, ShapeContext, TensorType, TypeProblem, float_dtype

Array = np.ndarray[Any, Any]

# --------------------------------------------------------------------------------------------- integer labels


def _infer_labels(
    context: ShapeContext, x: TensorType, labels: TensorType, *, ignore_index: int | None, label_smoothing: float
) -> TensorType:
    name = "softmax_cross_entropy"
    require_kinds(name, x.dtype, ("float",))
    require_kinds(name, labels.dtype, ("int", "uint"))
    if x.rank < 1:
        raise TypeProblem("E0404", f"`{name}`: the logits have a last axis of classes, and a scalar is given")
    shape = context.same_shape(x.shape[:-1], labels.shape, "the rows of the logits and the labels")
    return x.with_shape(shape)


def _ignored(b: Builder, labels: Node, index: int | None) -> Node | None:
    return None if index is None else emit.compare(b, "eq", labels, index)


def _picked(b: Builder, rows: Node, labels: Node) -> Node:
    last = len(rows.shape) - 1
    column = emit.reshape(b, labels, (*labels.shape, 1))
    return emit.reshape(b, b.emit("take_along_axis", rows, column, axis=last), labels.shape)


def _decompose_labels(b: Builder, x: Node, labels: Node, *, ignore_index: int | None, label_smoothing: float) -> Node:
    last = len(x.shape) - 1
    log_p = b.emit("log_softmax", emit.widen(b, x), axis=last)
    loss = emit.neg(b, _picked(b, log_p, labels))
    if label_smoothing:
        average = emit.neg(b, b.emit("mean", log_p, axes=(last,)))
        loss = emit.add(b, emit.scale(b, loss, 1 - label_smoothing), emit.scale(b, average, label_smoothing))
    skip = _ignored(b, labels, ignore_index)
    loss = loss if skip is None else emit.drop(b, skip, loss)
    return emit.cast(b, loss, x.dtype)


def _gradient_labels(b: Builder, node: Node, x: Node, labels: Node) -> Node:
    """D loss / d logits at every entry: softmax less the (smoothed) one-hot labels; 0 in ignored rows and rows all -inf."""
    wide = emit.widen(b, x)
    last = len(x.shape) - 1
    smoothing = node.attrs["label_smoothing"]
    classes = x.shape[last]
    spread = emit.insert_axis(b, _wrapped(b, labels, classes), last, classes)
    hit = emit.compare(b, "eq", spread, emit.iota(b, x.shape, last, labels.dtype))
    target = emit.cast(b, hit, wide.dtype)
    if smoothing:
        share = emit.div(b, b.full_like(wide, smoothing), emit.number(b, classes, wide))
        target = emit.add(b, emit.scale(b, target, 1 - smoothing), share)
    value = emit.sub(b, b.emit("softmax", wide, axis=last), target)
    dead = emit.compare(b, "eq", emit.reduce_max(b, wide, (last,)), float("-inf"))
    skip = _ignored(b, labels, node.attrs["ignore_index"])
    if skip is not None:
        dead = b.emit("bit_or", dead, skip)
    return emit.drop(b, emit.restore_axes(b, dead, (last,), x.shape), value)


def _wrapped(b: Builder, labels: Node, classes: DimLike) -> Node:
    """Labels as `take` reads them: counted from the end once when negative, then clamped."""
    from rlxlang.ops.indexing import clamped

    return clamped(b, labels, classes)


def _vjp_labels(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, None]:
    x, labels = primals
    last = len(x.shape) - 1
    slope = _gradient_labels(b, node, x, labels)
    spread = emit.restore_axes(b, emit.widen(b, ct), (last,), x.shape)
    return emit.cast(b, emit.mul(b, spread, slope), x.dtype), None


def _jvp_labels(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    if tangents[0] is None:
        return None
    x, labels = primals
    moved = emit.mul(b, _gradient_labels(b, node, x, labels), emit.widen(b, tangents[0]))
    return emit.cast(b, emit.reduce_sum(b, moved, (len(x.shape) - 1,)), x.dtype)


def _batch_rows(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    moved = [to_front(b, a, k, size) for a, k in zip(args, axes, strict=True)]
    return b.emit(node.op, *moved, **node.attrs), 0


def _reference_labels(x: Array, labels: Array, *, ignore_index: int | None, label_smoothing: float) -> Array:
    from rlxlang.ops.indexing import in_range

    log_p = np_log_softmax(x, axis=-1)
    picked = np.take_along_axis(log_p, in_range(labels, x.shape[-1])[..., None], -1)[..., 0]
    loss = -picked
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * np.mean(log_p, axis=-1)
    return np.asarray(loss if ignore_index is None else np.where(labels == ignore_index, 0, loss)).astype(x.dtype)


def _samples_labels(rng: np.random.Generator) -> list[Sample]:
    plain = {"ignore_index": None, "label_smoothing": 0.0}
    special = {"ignore_index": 1, "label_smoothing": 0.1}
    return [
        Sample((rng.normal(size=(*s, 4)), rng.integers(0, 4, size=s).astype(np.int32)), dict(attrs))
        for s in ((), (5,), (2, 3))
        for attrs in (plain, special)
    ]


SOFTMAX_CROSS_ENTROPY = register(
    Op(
        "softmax_cross_entropy",
        "Per row the negative log-probability of an integer label; classes are the last axis.",
        _infer_labels,
        _reference_labels,
        _jvp_labels,
        _vjp_labels,
        _batch_rows,
        VIA_DECOMPOSITION,
        _samples_labels,
        decompose=_decompose_labels,
        bound=lambda node: Bound(1, node.inputs[0].shape[-1], node.attrs["ignore_index"]),
    )
)

# --------------------------------------------------------------------------------------------- soft targets


def _infer_soft(context: ShapeContext, x: TensorType, targets: TensorType) -> TensorType:
    require_kinds("cross_entropy", x.dtype, ("float",))
    if x.dtype != targets.dtype:
        raise TypeProblem("E0302", f"the dtypes of logits and targets differ: {x.dtype} and {targets.dtype}")
    if x.rank < 1:
        raise TypeProblem("E0404", "`cross_entropy`: the logits have a last axis of classes, and a scalar is given")
    shape = context.same_shape(x.shape, targets.shape, "the shapes of logits and soft targets")
    return x.with_shape(shape[:-1])


def _log_p(b: Builder, x: Node) -> Node:
    return b.emit("log_softmax", emit.widen(b, x), axis=len(x.shape) - 1)


def _decompose_soft(b: Builder, x: Node, targets: Node) -> Node:
    terms = emit.mul_safe(b, emit.widen(b, targets), _log_p(b, x))
    return emit.cast(b, emit.neg(b, emit.reduce_sum(b, terms, (len(x.shape) - 1,))), x.dtype)


def _gradient_soft(b: Builder, x: Node, targets: Node) -> Node:
    """softmax·Σ targets - targets; 0 in rows all -inf."""
    wide, goal = emit.widen(b, x), emit.widen(b, targets)
    last = (len(x.shape) - 1,)
    value = emit.sub(b, emit.mul(b, b.emit("softmax", wide, axis=last[0]), emit.sum_keeping(b, goal, last)), goal)
    dead = emit.compare(b, "eq", emit.reduce_max(b, wide, last), float("-inf"))
    return emit.drop(b, emit.restore_axes(b, dead, last, x.shape), value)


def _vjp_soft(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node, Node]:
    x, targets = primals
    spread = emit.restore_axes(b, emit.widen(b, ct), (len(x.shape) - 1,), x.shape)
    dx = emit.mul(b, spread, _gradient_soft(b, x, targets))
    dt = emit.neg(b, emit.mul_safe(b, spread, _log_p(b, x)))
    return emit.cast(b, dx, x.dtype), emit.cast(b, dt, x.dtype)


def _jvp_soft(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    x, targets = primals
    tx, tt = (None if t is None else emit.widen(b, t) for t in tangents)
    terms = emit.add_present(
        b,
        None if tx is None else emit.mul(b, _gradient_soft(b, x, targets), tx),
        None if tt is None else emit.neg(b, emit.mul_safe(b, tt, _log_p(b, x))),
    )
    return None if terms is None else emit.cast(b, emit.reduce_sum(b, terms, (len(x.shape) - 1,)), x.dtype)


def _reference_soft(x: Array, targets: Array) -> Array:
    log_p = np_log_softmax(x, axis=-1)
    return np.asarray(-np.sum(np.where(targets == 0, 0, targets * log_p), axis=-1)).astype(x.dtype)


CROSS_ENTROPY = register(
    Op(
        "cross_entropy",
        "Per row the sum of soft targets times negative log-probabilities; classes are the last axis.",
        _infer_soft,
        _reference_soft,
        _jvp_soft,
        _vjp_soft,
        _batch_rows,
        VIA_DECOMPOSITION,
        lambda rng: [
            Sample((rng.normal(size=(*s, 4)), rng.dirichlet(np.ones(4), size=s)), {}) for s in ((), (5,), (2, 3))
        ],
        decompose=_decompose_soft,
    )
)

# --------------------------------------------------------------------------------------------- surfaces


def _softmax_cross_entropy(
    b: Builder, logits: Value, labels: Value, ignore_index: Any = None, label_smoothing: Any = 0.0
) -> Node:
    name = "softmax_cross_entropy"
    x = as_float(b, name, logits)
    places = integer_indices(b, name, labels)
    index = None if ignore_index is None else static_int(name, ignore_index, "ignore_index")
    smoothing = float(static_number(name, label_smoothing, "label_smoothing"))
    if not 0 <= smoothing <= 1:
        raise TypeProblem("E0350", f"argument `label_smoothing` of `{name}` lies in 0 … 1, and {smoothing} is given")
    if len(places.shape) == len(x.shape) and x.shape:
        raise TypeProblem(
            "E0404",
            f"the labels of `{name}` have one entry per row, and {places.type} is given for logits {x.type}",
            (),
            "`cross_entropy(logits, targets)` takes soft targets",
        )
    return b.emit(name, x, places, ignore_index=index, label_smoothing=smoothing)


def _cross_entropy(b: Builder, logits: Value, targets: Value) -> Node:
    dtype = float_dtype(common_dtype("cross_entropy", (logits, targets)))
    x, goal = operands(b, "cross_entropy", (logits, targets), dtype)
    return b.emit("cross_entropy", x, goal)


surface(
    "softmax_cross_entropy",
    (
        tensor("logits"),
        tensor("labels"),
        Parameter("ignore_index", "int", None),
        Parameter("label_smoothing", "float", 0.0),
    ),
    _softmax_cross_entropy,
    SOFTMAX_CROSS_ENTROPY.doc,
)
surface("cross_entropy", (tensor("logits"), tensor("targets")), _cross_entropy, CROSS_ENTROPY.doc)

_REDUCTION = Parameter("reduction", "str", "mean")


def _loss(name: str, doc: str, entry: Callable[..., Node], *options: Parameter) -> None:
    """A loss of two tensors from its value at every entry."""

    def build(b: Builder, x: Value, y: Value, reduction: Any = "mean", **values: Any) -> Node:
        dtype = float_dtype(common_dtype(name, (x, y)))
        left, right = operands(b, name, (x, y), dtype)
        numbers = {k: float(static_number(name, v, k)) for k, v in values.items()}
        value = entry(b, left, right, **numbers)
        how = choice(name, reduction, "reduction", ("mean", "sum", "none"))
        return value if how == "none" else b.emit(how, value, axes=tuple(range(len(value.shape))))

    surface(name, (tensor("x"), tensor("y"), *options, _REDUCTION), build, doc)


def _huber(b: Builder, x: Node, y: Node, delta: float) -> Node:
    error = emit.sub(b, x, y)
    size = b.emit("abs", error)
    inside = emit.compare(b, "le", size, delta)
    line = emit.scale(b, emit.shift(b, size, -0.5 * delta), delta)
    return emit.select(b, inside, emit.scale(b, emit.square(b, error), 0.5), line)


def _bce_with_logits(b: Builder, x: Node, y: Node) -> Node:
    # softplus(x) - x·y is exact and stable for logits of either sign.
    return emit.sub(b, b.emit("softplus", x), emit.mul_safe(b, y, x))


def _bce(b: Builder, x: Node, y: Node) -> Node:
    hit = emit.mul_safe(b, y, b.emit("log", x))
    miss = emit.mul_safe(b, emit.one_minus(b, y), b.emit("log1p", emit.neg(b, x)))
    return emit.neg(b, emit.add(b, hit, miss))


def _hinge(b: Builder, x: Node, y: Node) -> Node:
    return b.emit("relu", emit.one_minus(b, emit.mul(b, x, y)))


_loss("mse", "Squared difference.", lambda b, x, y: emit.square(b, emit.sub(b, x, y)))
_loss("mae", "Absolute difference.", lambda b, x, y: b.emit("abs", emit.sub(b, x, y)))
_loss("huber", "Half the square of small differences, linear beyond delta.", _huber, Parameter("delta", "float", 1.0))
_loss(
    "smooth_l1", "Huber loss divided by beta.", lambda b, x, y, beta: emit.scale(b, _huber(b, x, y, beta), 1 / beta),
    Parameter("beta", "float", 1.0),
)  # fmt: skip
_loss("bce_with_logits", "Binary cross-entropy of logits x and targets y in 0 … 1.", _bce_with_logits)
_loss("bce", "Binary cross-entropy of probabilities x and targets y in 0 … 1.", _bce)
_loss("hinge", "max(1 - x·y, 0) for labels y of -1 and 1.", _hinge)


def _kl_div(b: Builder, x: Node, y: Node) -> Node:
    return emit.mul_safe(b, y, emit.sub(b, b.emit("log", y), x))


_loss("kl_div", "y·(log y - x) of log-probabilities x and probabilities y; 0 where y is 0.", _kl_div)


def _nll(b: Builder, log_probs: Value, labels: Value) -> Node:
    x = as_float(b, "nll", log_probs)
    places = integer_indices(b, "nll", labels)
    if len(places.shape) != len(x.shape) - 1:
        raise TypeProblem(
            "E0404", f"the labels of `nll` have one entry per row, and {places.type} is given for {x.type}"
        )
    return emit.neg(b, _picked(b, x, places))


def _cosine_similarity(b: Builder, x: Value, y: Value, axis: Any = -1) -> Node:
    dtype = float_dtype(common_dtype("cosine_similarity", (x, y)))
    left, right = operands(b, "cosine_similarity", (x, y), dtype)
    k = canonical_axis("cosine_similarity", axis, len(left.shape))
    product = emit.reduce_sum(b, emit.mul(b, left, right), (k,))
    sizes = [b.emit("norm", n, axes=(k,), p=2.0) for n in (left, right)]
    floor = b.full_like(product, 1e-8)
    return emit.div(b, product, b.emit("maximum", emit.mul(b, sizes[0], sizes[1]), floor))


surface(
    "nll", (tensor("log_probs"), tensor("labels")), _nll, "Per row the negative log-probability of an integer label."
)
surface(
    "cosine_similarity",
    (tensor("x"), tensor("y"), Parameter("axis", "axis", -1)),
    _cosine_similarity,
    "Cosine of the angle between vectors along an axis.",
)
