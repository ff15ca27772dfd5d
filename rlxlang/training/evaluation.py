"""Loss and metrics of a function over data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.device import Device
from rlxlang.diagnostics import RlxValueError
from rlxlang.training.data import Data, source_of
from rlxlang.training.metrics import Metric, counting, describe, metrics_of
from rlxlang.training.tallies import Tally

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"

EVALUATION_BATCH_SIZE = 1024


def evaluate(
    func: Func,
    data: Data,
    batch_size: int | None = None,
    *,
    metrics: Sequence[Metric | str] | None = None,
    device: Device | str | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """The mean loss over data, each batch weighed by its rows, and metrics of all rows together.

    Forward pass and counts are one compiled call for each batch.

    Args:
        func: The function, its parameters bound; the loss is its first output.
        data: Arrays by name, or batches of them.
        batch_size: Rows of a batch; 1024 when left out.
        metrics: Names of metrics or `rlx.training.Metric`s; when left out the accuracy, where an output or tap is called `logits` and
            one integer input has its shape without the last axis.
        device: Where to run; the fastest device that can, when left out.
        seed: Of the random numbers that the function draws.

    Returns:
        `"loss"`, and each metric by its name; NaN where there are no rows to tell it from.

    Raises:
        RlxValueError: There are no rows at all.
        RlxError: As `Func.run`, and as `rlx.training.Metric` where it is not clear what a metric compares.
    """
    func.traced.signature.require_params(func.bindings)
    wanted = None if device is None else Device.parse(device)
    return evaluated(func, func.bindings, wanted, data, batch_size, metrics_of(func.graph, metrics), seed)


def evaluated(
    func: Func,
    params: Mapping[str, Array],
    device: Device | None,
    data: Data,
    batch_size: int | None,
    metrics: Sequence[Metric],
    seed: int,
) -> dict[str, float]:
    """`evaluate` with given parameters and metrics that have the names of their output and label."""
    key = ("evaluation", *(describe(m) for m in metrics))
    traced = func.traced.derive(key, lambda graph: counting(graph, metrics))
    compiled, signature = traced.compiled(device), traced.signature
    tallies = [Tally(m) for m in metrics]
    total, rows = 0.0, 0
    for values, count in source_of(func, data, batch_size or EVALUATION_BATCH_SIZE).batches():
        feeds, sizes = signature.prepare(signature.with_seed(values, seed), params)
        loss, *parts = compiled.run(feeds, params, sizes)
        total += float(np.reshape(loss, ())) * count
        rows += count
        for tally in tallies:
            own = parts[: tally.parts]
            del parts[: tally.parts]
            tally.add(own)
    if not rows:
        raise RlxValueError("there are no rows to evaluate", helps=("a generator gives its batches once",))
    return {"loss": total / rows, **{t.metric.name: t.value() for t in tallies}}
