"""Figures of an evaluation: what they compare, and what the compiled call of each batch counts for them.

A figure of many batches is that of all rows together, however they are cut: no mean of means (`rlxlang.training.tallies`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlxlang.diagnostics import RlxNameError, RlxShapeError, RlxTypeError, RlxValueError, did_you_mean
from rlxlang.ir import Builder, Graph, GraphOutput, Node, Origin
from rlxlang.ops import emit
from rlxlang.transforms import replay, replay_inputs, unique_name
from rlxlang.types import BOOL, F32, I32

KINDS = ("accuracy", "top_k", "f1", "auc", "perplexity", "mse", "mae")
_AVERAGES = ("macro", "micro", "weighted")
_REGRESSION = ("mse", "mae")
_TOP = re.compile(r"top_?(\d+)")


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of an evaluation.

    Classifiers (`accuracy`, `top_k`, `f1`, `perplexity`) compare logits F32 [*rows, classes] with integer labels [*rows]; labels
    outside of 0 … classes − 1 count as no rows. Where logits have the shape of the labels, or a last axis of 1, there are two
    classes, and logits above `threshold` mean class 1. `auc` needs two classes. `mse` and `mae` compare two tensors of one shape.

    Args:
        kind: `accuracy`, `top_k`, `f1`, `auc`, `perplexity`, `mse` or `mae`.
        output: Name of the output or tap that predicts: `logits`, or the only one that fits when left out.
        label: Name of the input that tells the truth; when left out the only one that fits and that the output does not depend on.
        k: Of `top_k`: a row is a hit when fewer than k classes come before its label; at equal logits the first class does.
        average: Of `f1`: `macro`, the mean over all classes that occur, `weighted` by their rows, or `micro`, of all together. When
            left out it is the F1 of class 1 where there are two classes, else `macro`.
        threshold: What a lone logit must exceed for class 1: 0, or 0.5 for probabilities.
        name: Its name among the results; the kind (`top5` for k = 5) when left out.

    Raises:
        RlxValueError: A setting is out of its range.
    """

    kind: str
    output: str | None = None
    label: str | None = None
    k: int = 5
    average: str | None = None
    threshold: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            help_ = did_you_mean(str(self.kind), list(KINDS))
            raise RlxValueError(
                f"there is no metric {self.kind!r}",
                notes=(f"there are {', '.join(KINDS)}",),
                helps=(help_,) if help_ else (),
            )
        if self.k < 1:
            raise RlxValueError(f"`k` of a metric is at least 1, {self.k} is given")
        if self.average is not None and self.average not in _AVERAGES:
            raise RlxValueError(f"`average` is one of {', '.join(_AVERAGES)}; {self.average!r} is given")
        if not self.name:
            object.__setattr__(self, "name", f"top{self.k}" if self.kind == "top_k" else self.kind)

    @classmethod
    def of(cls, given: object) -> Metric:
        """A metric, or the one of a name: `"accuracy"`, `"top3"`, `"f1"` and so forth.

        Raises:
            RlxValueError: There is none of that name.
        """
        if isinstance(given, Metric):
            return given
        if not isinstance(given, str):
            raise RlxValueError(f"a metric is a name or a `rlx.training.Metric`, {type(given).__name__} is given")
        top = _TOP.fullmatch(given)
        return cls("top_k", k=int(top[1])) if top else cls(given)


def metrics_of(graph: Graph, given: Sequence[Metric | str] | None) -> tuple[Metric, ...]:
    """The metrics of an evaluation, with the names of their output and label.

    Args:
        graph: The function's graph.
        given: Metrics or names; the accuracy of a classifier, where the graph is clearly one, when left out.

    Raises:
        RlxValueError: There is no metric of a name, two have one name, or it is not clear what they compare.
        RlxNameError: The graph has no output or input of a name.
        RlxShapeError: Shapes do not fit.
        RlxTypeError: Labels of classes are no integers.
    """
    if given is None:
        pair = _classifier(graph)
        return () if pair is None else (Metric("accuracy", *pair),)
    if isinstance(given, str):
        raise RlxTypeError(f"`metrics` is a list, not the string {given!r}", helps=(f'write ["{given}"]',))
    found = [_resolved(graph, Metric.of(one)) for one in given]
    names = ["loss", *(m.name for m in found)]
    for name in names:
        if names.count(name) > 1:
            raise RlxValueError(f"two figures are called `{name}`", helps=("give one of them a `name=`",))
    return tuple(found)


def step_metrics(graph: Graph, given: Sequence[Metric | str]) -> tuple[Metric, ...]:
    """The metrics that a training step counts.

    Raises:
        RlxValueError: As `metrics_of`; one of them is `auc`.
    """
    found = metrics_of(graph, given)
    for metric in found:
        if metric.kind == "auc":
            raise RlxValueError(
                f"`{metric.name}` needs the scores of all rows, a training step counts its own",
                helps=("find it of validation data: `fit(…, val=…, metrics=[…])`",),
            )
    return found


def _classifier(graph: Graph) -> tuple[str, str] | None:
    """The names of logits and labels, where there is no doubt."""
    logits = next((o.node for o in graph.outputs if o.name == "logits"), None)
    if logits is None or not logits.shape:
        return None
    wanted = tuple(logits.shape[:-1])
    fits = [e.name for e in graph.feeds if e.node.dtype.is_integer and tuple(e.node.shape) == wanted]
    return ("logits", fits[0]) if len(fits) == 1 else None


def _resolved(graph: Graph, metric: Metric) -> Metric:
    """The metric with names, which fit together."""
    outputs = {o.name: o.node for o in graph.outputs}
    feeds = {e.name: e.node for e in graph.feeds}
    for what, name, known in (("output", metric.output, outputs), ("input", metric.label, feeds)):
        if name is not None and name not in known:
            help_ = did_you_mean(name, list(known))
            raise RlxNameError(
                f"`{metric.name}`: `{graph.name}` has no {what} `{name}`",
                code="E0807",
                notes=(f"it has {', '.join(known) or 'none'}",),
                helps=(help_,) if help_ else (),
            )
    predictions = [metric.output] if metric.output else _likely(metric, list(outputs)[1:])
    labels = [metric.label] if metric.label else list(feeds)
    pairs = [
        (p, t)
        for p in predictions
        for t in labels
        if _fits(metric, outputs[p], feeds[t]) and (metric.label or feeds[t] not in _sources(outputs[p]))
    ]
    if len(pairs) == 1:
        return replace(metric, output=pairs[0][0], label=pairs[0][1])
    if metric.output and metric.label:
        raise RlxShapeError(
            f"`{metric.name}` cannot compare `{metric.output}` {outputs[metric.output].type} "
            f"with `{metric.label}` {feeds[metric.label].type}",
            notes=(_WANTED[metric.kind],),
        )
    listed = ", ".join(f"`{p}` with `{t}`" for p, t in pairs)
    raise RlxValueError(
        f"`{metric.name}`: it is not clear what `{graph.name}` predicts and what is true: "
        + (f"it could compare {listed}" if pairs else "no output fits an input"),
        notes=(_WANTED[metric.kind],),
        helps=(
            f'name them: `rlx.training.Metric("{metric.kind}", output="…", label="…")`; `tap` makes an output of a name',
        ),
    )


def _sources(node: Node) -> set[Node]:
    """All that a prediction depends on: it is not told the truth."""
    found, waiting = {node}, [node]
    while waiting:
        for operand in waiting.pop().inputs:
            if operand not in found:
                found.add(operand)
                waiting.append(operand)
    return found


_CLASSES = "it compares logits [*rows, classes] with integer labels [*rows]"
_TWO = "or, of two classes, one logit a label"
_WANTED = {
    "accuracy": f"{_CLASSES}, {_TWO}",
    "f1": f"{_CLASSES}, {_TWO}",
    "auc": f"it compares logits of two classes [*rows, 2] with integer labels [*rows], {_TWO}",
    "top_k": _CLASSES,
    "perplexity": _CLASSES,
    "mse": "it compares two float tensors of one shape",
    "mae": "it compares two float tensors of one shape",
}


def _likely(metric: Metric, names: Sequence[str]) -> list[str]:
    """Outputs that may predict; `logits` alone where a classifier has it."""
    return ["logits"] if metric.kind not in _REGRESSION and "logits" in names else list(names)


def _fits(metric: Metric, prediction: Node, label: Node) -> bool:
    if not prediction.dtype.is_float:
        return False
    shape, rows = tuple(prediction.shape), tuple(label.shape)
    if metric.kind in _REGRESSION:
        return shape == rows and label.dtype.is_float
    if not (label.dtype.is_integer or label.dtype == BOOL):
        return False
    if metric.kind == "auc":
        return _is_lone(shape, rows) or shape == (*rows, 2)
    many = shape[:-1] == rows and len(shape) == len(rows) + 1 and isinstance(shape[-1], int)
    return many or (metric.kind in ("accuracy", "f1") and _is_lone(shape, rows))


def _is_lone(shape: Sequence[Any], rows: Sequence[Any]) -> bool:
    """Whether there is one logit a label."""
    return tuple(shape) in (tuple(rows), (*rows, 1))


# --------------------------------------------------------------------------------------------- in the compiled call


def counts(b: Builder, metric: Metric, prediction: Node, label: Node) -> list[Node]:
    """What a batch adds to the counts of a metric; for `auc` scores and labels, one after the other."""
    rows = label.shape
    wide = emit.widen(b, prediction)
    if metric.kind in _REGRESSION:
        error = emit.sub(b, wide, emit.cast(b, label, wide.dtype))
        error = emit.square(b, error) if metric.kind == "mse" else b.emit("abs", error)
        return [_total(b, error), _total(b, b.full(1, I32, rows))]
    truth = emit.cast(b, label, I32)
    is_lone = _is_lone(wide.shape, rows)
    if metric.kind == "auc":
        score = emit.reshape(b, wide, rows) if is_lone else _difference(b, wide)
        flat = (label.tensor.size,)
        return [emit.reshape(b, emit.cast(b, score, F32), flat), emit.reshape(b, truth, flat)]
    if is_lone:
        above = emit.compare(b, "gt", emit.reshape(b, wide, rows), metric.threshold)
        guess, classes = emit.cast(b, above, I32), 2
    else:
        classes = wide.shape[-1]
        guess = emit.cast(b, b.emit("argmax", wide, axis=len(rows)), I32)
    counted = b.emit("bit_and", emit.compare(b, "ge", truth, 0), emit.compare(b, "lt", truth, classes))
    if metric.kind == "accuracy":
        hit = b.emit("bit_and", counted, emit.compare(b, "eq", guess, truth))
        return [_total(b, hit), _total(b, counted)]
    if metric.kind == "f1":
        guessed, true = (_one_hot(b, x, classes, counted) for x in (guess, truth))
        both = b.emit("bit_and", guessed, true)
        return [_total(b, x, len(rows)) for x in (both, guessed, true)]
    true = _one_hot(b, truth, classes, counted)
    last = len(rows)
    if metric.kind == "perplexity":
        surprise = emit.drop(b, b.emit("bit_not", true), b.emit("log_softmax", wide, axis=last))
        return [emit.neg(b, _total(b, surprise)), _total(b, counted)]
    own = emit.insert_axis(b, emit.reduce_sum(b, emit.keep(b, true, wide), (last,)), last, classes)
    place = emit.iota(b, wide.shape, last, I32)
    earlier = emit.compare(b, "lt", place, emit.insert_axis(b, truth, last, classes))
    tied = b.emit("bit_and", emit.compare(b, "eq", wide, own), earlier)
    sooner = b.emit("bit_or", emit.compare(b, "gt", wide, own), tied)
    before = emit.reduce(b, "sum", emit.cast(b, sooner, I32), (last,))
    spoilt = emit.reduce(b, "any", b.emit("isnan", wide), (last,))
    hit = b.emit("bit_and", emit.compare(b, "lt", before, metric.k), b.emit("bit_not", spoilt))
    return [_total(b, b.emit("bit_and", hit, counted)), _total(b, counted)]


def _total(b: Builder, x: Node, axes: int | None = None) -> Node:
    """The sum over the first axes, or all; truths count 1."""
    numbers = emit.cast(b, x, I32) if x.dtype == BOOL else x
    return emit.reduce(b, "sum", numbers, range(len(x.shape) if axes is None else axes))


def _difference(b: Builder, logits: Node) -> Node:
    """Logit of class 1 less that of class 0."""
    last = len(logits.shape) - 1
    first, second = (emit.slice_axis(b, logits, last, k, k + 1) for k in (0, 1))
    return emit.reshape(b, emit.sub(b, second, first), logits.shape[:-1])


def _one_hot(b: Builder, x: Node, classes: int, counted: Node) -> Node:
    """Bool [*rows, classes]: whether a row is counted and of the class."""
    last = len(x.shape)
    spread = emit.insert_axis(b, x, last, classes)
    own = emit.compare(b, "eq", spread, emit.iota(b, spread.shape, last, I32))
    return b.emit("bit_and", own, emit.insert_axis(b, counted, last, classes))


def counting(graph: Graph, metrics: Sequence[Metric], kept: int = 1) -> Graph:
    """A graph with its first outputs, the loss or more of them, and what each metric counts."""
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    replay(b, graph, env)
    outputs = [GraphOutput(o.name, env[o.node]) for o in graph.outputs[:kept]]
    with b.at(Origin(via=("metrics",))):
        for metric in metrics:
            prediction = next(o.node for o in graph.outputs if o.name == metric.output)
            label = next(e.node for e in graph.feeds if e.name == metric.label)
            for node in counts(b, metric, env[prediction], env[label]):
                outputs.append(GraphOutput(unique_name(metric.name, [o.name for o in outputs]), node))
    return b.finish(graph.name, inputs, outputs)


def describe(metric: Metric) -> str:
    """A text that tells one metric from another, for the cache."""
    return "|".join(map(repr, (metric.kind, metric.output, metric.label, metric.k, metric.average, metric.threshold)))
