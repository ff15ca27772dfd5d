"""Many training steps: batches of arrays, epochs, evaluation, early stopping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxTypeError, RlxValueError
from rlxlang.inputs import check_names, fault
from rlxlang.ir import Graph, GraphInput
from rlxlang.training.callbacks import CallbackLike, Callbacks, EpochRecord, History
from rlxlang.training.checkpoints import Checkpoint
from rlxlang.training.interruption import Interruption
from rlxlang.training.numbers import whole_number
from rlxlang.types import Dim

if TYPE_CHECKING:
    from rlxlang.func import Func
    from rlxlang.trainer import Trainer
    from rlxlang.trainer_progress import Progress

Array: TypeAlias = "np.ndarray[Any, Any]"
PathLike: TypeAlias = "str | os.PathLike[str]"
Batch: TypeAlias = "Mapping[str, object]"
# Whole arrays by name, which are cut into batches, or the batches themselves.
Data: TypeAlias = "Mapping[str, object] | Iterable[Batch]"

DEFAULT_BATCH_SIZE = 32
EVALUATION_BATCH_SIZE = 1024


# --------------------------------------------------------------------------------------------- batches


class ArrayData:
    """Whole arrays, cut into batches along the batch axis.

    The batch axis is the first axis of the first input; inputs that begin with it are cut, others go whole into each batch.

    Args:
        graph: The function's graph.
        arrays: Arrays of all inputs by name.
        batch_size: Rows of a batch. Where the graph fixes the number of rows it is that number.

    Raises:
        RlxNameError: E0807 an unknown input. RlxRuntimeError: E0803 a missing one.
        RlxShapeError: Inputs differ in their number of rows.
    """

    def __init__(self, graph: Graph, arrays: Mapping[str, object], batch_size: int) -> None:
        feeds = graph.feeds
        names = [e.name for e in feeds]
        check_names(arrays, names, "input", graph.name)
        missing = [n for n in names if n not in arrays]
        if missing:
            listed = ", ".join(f"`{n}`" for n in missing)
            raise fault("E0803", f"the data of `{graph.name}` lack {listed}", notes=(f"they hold {', '.join(arrays)}",))
        self._arrays = [np.asarray(arrays[n]) for n in names]
        self._names = names
        self._is_cut, fixed = _cut_inputs(feeds, self._arrays)
        counts = {n: a.shape[0] for n, a, cut in zip(names, self._arrays, self._is_cut, strict=True) if cut}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"`{n}` has {count}" for n, count in counts.items())
            raise RlxShapeError(f"the data differ in their number of rows: {listed}")
        self.rows = next(iter(counts.values()), 1)
        self.batch_size = fixed or min(whole_number("batch_size", batch_size, 1), max(self.rows, 1))
        # A fixed number of rows leaves no room for a smaller last batch.
        self.count = self.rows // fixed if fixed else -(-self.rows // self.batch_size)
        if self.count == 0:
            raise RlxShapeError(f"the data have {self.rows} rows, a batch needs {self.batch_size}")

    def cut_by_name(self) -> dict[str, bool]:
        """Whether an input is cut into batches, by name."""
        return dict(zip(self._names, self._is_cut, strict=True))

    def batches(self, order: Array | None = None) -> Iterator[tuple[tuple[object, ...], int]]:
        """The inputs of each batch by position, and its number of rows.

        Args:
            order: The rows in the order in which to take them; as they are when left out.
        """
        for k in range(self.count):
            start, stop = k * self.batch_size, min((k + 1) * self.batch_size, self.rows)
            rows: Any = slice(start, stop) if order is None else order[start:stop]
            pairs = zip(self._arrays, self._is_cut, strict=True)
            yield tuple(a[rows] if cut else a for a, cut in pairs), stop - start


def _cut_inputs(feeds: Sequence[GraphInput], arrays: Sequence[Array]) -> tuple[list[bool], int]:
    """Which inputs are cut into batches, and the number of rows if the graph fixes it, else 0."""
    leading = [e.node.shape[0] if e.node.shape else None for e in feeds]
    axis = next((d for d in leading if d is not None), None)
    if isinstance(axis, Dim):
        return [d == axis for d in leading], 0
    cut = [d == axis and a.ndim > 0 and a.shape[0] != d for d, a in zip(leading, arrays, strict=True)]
    return cut, axis or 1


class BatchData:
    """Batches made by somebody else; they are walked through once per epoch."""

    def __init__(self, func: Func, batches: Iterable[Batch]) -> None:
        if not isinstance(batches, Iterable):
            raise RlxTypeError(
                f"training data are arrays by name or batches of such, {type(batches).__name__} is given"
            )
        self._signature = func.traced.signature
        self._batches = batches
        self.count = len(batches) if isinstance(batches, Sequence) else None

    def batches(self, order: Array | None = None) -> Iterator[tuple[tuple[object, ...], int]]:
        """The inputs of each batch by position, and its number of rows."""
        for batch in self._batches:
            values = self._signature.inputs_by_position(batch, {})
            yield values, next((len(v) for v in map(np.asarray, values) if v.ndim), 1)


def _source(func: Func, data: Data, batch_size: int) -> ArrayData | BatchData:
    return ArrayData(func.graph, data, batch_size) if isinstance(data, Mapping) else BatchData(func, data)


# --------------------------------------------------------------------------------------------- evaluation


def evaluate(
    forward: Callable[[tuple[object, ...]], Sequence[Array]], func: Func, data: Data, batch_size: int | None = None
) -> dict[str, float]:
    """The mean loss over data, each batch weighed by its rows, and the accuracy of a classifier.

    There is an accuracy when an output or tap is called `logits` and one integer input has its shape without the last axis: the
    fraction of rows whose greatest logit is the label.

    Args:
        forward: Gives all outputs for the inputs by position.
        func: The function.
        data: Arrays by name, or batches of them.
        batch_size: Rows of a batch; 1024 when left out.
    """
    source = _source(func, data, batch_size or EVALUATION_BATCH_SIZE)
    label = label_of(func.graph)
    logits = func.output_names().index("logits") if label is not None else -1
    total = rows = hits = labels = 0.0
    for values, count in source.batches():
        outputs = forward(values)
        total += float(np.reshape(outputs[0], ())) * count
        rows += count
        if label is not None:
            truth = np.asarray(values[label])
            hits += int(np.count_nonzero(np.argmax(outputs[logits], axis=-1) == truth))
            labels += truth.size
    found = {"loss": total / rows if rows else float("nan")}
    if labels:
        found["accuracy"] = hits / labels
    return found


def label_of(graph: Graph) -> int | None:
    """The position of the input that holds the classes of `logits`, or None."""
    logits = next((o.node for o in graph.outputs if o.name == "logits"), None)
    if logits is None or not logits.shape:
        return None
    wanted = tuple(logits.shape[:-1])
    fits = [k for k, e in enumerate(graph.feeds) if e.node.dtype.is_integer and tuple(e.node.shape) == wanted]
    return fits[0] if len(fits) == 1 else None


# --------------------------------------------------------------------------------------------- training


def fit(
    trainer: Trainer,
    data: Data,
    epochs: int,
    batch_size: int | None,
    *,
    val: Data | None,
    shuffle: bool,
    seed: int,
    patience: int | None,
    callbacks: Sequence[CallbackLike],
    checkpoint: Checkpoint | PathLike | None,
    progress: bool | None,
) -> History:
    """Train for some epochs.

    The order of an epoch depends on `seed` and the epoch's number alone, so a trainer saved in the middle of an epoch and
    resumed goes on with the very batch that was next.

    Ctrl-C ends the run between two steps, after a checkpoint where there are any, with `KeyboardInterrupt`; a second one at once.

    Args:
        trainer: What to train.
        data: Arrays by name, which are shuffled and cut into batches, or the batches themselves, taken as they come.
        epochs: How many more; one that was interrupted counts as one.
        batch_size: Rows of a batch of arrays; 32 when left out.
        val: Data to evaluate after each epoch.
        shuffle: Whether to shuffle the rows of arrays.
        seed: Of the shuffling.
        patience: Stop when the loss (of `val`, or of training without it) has not improved for so many epochs, and go back to the
            best parameters.
        callbacks: Functions that are called after each epoch with trainer and record, and `rlx.training.Callback`s such as logs; one
            that returns True ends the run.
        checkpoint: When to save the run and where; a folder alone saves after each epoch and keeps the last three.
        progress: Whether to show a progress bar; by default where the error stream is a terminal.

    Raises:
        RlxValueError: A number is out of its range, or an epoch that was interrupted goes on in another order.
        RlxError: As `Trainer.step`.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    epochs = whole_number("epochs", epochs, 0)
    if patience is not None:
        whole_number("patience", patience, 1)
    from rlxlang.trainer_progress import bar

    source = _source(trainer._func, data, DEFAULT_BATCH_SIZE if batch_size is None else batch_size)
    keeper = Checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint
    told = Callbacks([*callbacks, *([] if keeper is None else [keeper])])
    # A run that was interrupted still knows its best parameters.
    trainer._best = None if patience is None else trainer._best or Best()
    records: list[EpochRecord] = []
    is_early = False
    first = trainer.epoch, trainer.batch
    with bar(progress, first, epochs, source.count) as shown, Interruption() as interruption:
        try:
            told.begin(trainer)
            for _ in range(epochs):
                record = _epoch(
                    trainer, source, val, _order_of(trainer, source, shuffle, seed), shown, told, interruption
                )
                records.append(record)
                shown.epoch(record)
                if trainer._best is not None:
                    trainer._best.take(trainer, record.val.get("loss", record.loss))
                    is_early = trainer._best.waited >= (patience or 0)
                is_early |= told.after_epoch(trainer, record)
                if is_early:
                    break
                _stop_if_wanted(interruption, trainer, told)
            told.end(trainer)
        finally:
            told.close()
    best, trainer._best = trainer._best, None
    if best is not None:
        best.restore(trainer)
    return History(tuple(records), stopped_early=is_early)


def _stop_if_wanted(interruption: Interruption, trainer: Trainer, told: Callbacks) -> None:
    """End the run where Ctrl-C was pressed.

    Raises:
        KeyboardInterrupt: It was.
    """
    if interruption.is_wanted:
        where = f"training stopped after step {trainer.step_count}"
        raise KeyboardInterrupt(", ".join(filter(None, (where, told.interrupted(trainer)))))


def _epoch(
    trainer: Trainer,
    source: ArrayData | BatchData,
    val: Data | None,
    order: Array | None,
    shown: Progress,
    told: Callbacks,
    interruption: Interruption,
) -> EpochRecord:
    """An epoch, or what is left of one.

    Raises:
        RlxValueError: There is nothing to train on.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    began, done = time.perf_counter(), trainer.batch
    rows = 0
    for k, (values, count) in enumerate(source.batches(order)):
        if k < done:
            continue
        loss = trainer._step(values)
        trainer.batch = k + 1
        trainer._epoch_loss += loss * count
        trainer._epoch_rows += count
        rows += count
        shown.step(loss, count, getattr(trainer.opt, "lr", None))
        told.after_step(trainer, loss)
        _stop_if_wanted(interruption, trainer, told)
    if not trainer.batch:
        raise RlxValueError("there are no batches to train on", helps=("a generator is empty after its first epoch",))
    speed = rows / max(time.perf_counter() - began, 1e-9)
    loss = trainer._epoch_loss / trainer._epoch_rows if trainer._epoch_rows else float("nan")
    trainer._epoch_loss, trainer._epoch_rows = 0.0, 0
    trainer.epoch, trainer.batch = trainer.epoch + 1, 0
    metrics = {} if val is None else trainer.evaluate(val)
    seconds = time.perf_counter() - began
    rate = getattr(trainer.opt, "lr", None)
    return EpochRecord(trainer.epoch, loss, seconds, rate, metrics, trainer.step_count, speed)


def _order_of(trainer: Trainer, source: ArrayData | BatchData, shuffle: bool, seed: int) -> Array | None:
    """The order of the rows in the epoch to come, or of one that was interrupted; None as they come.

    Raises:
        RlxValueError: The epoch began in another order.
    """
    plan, order = None, None
    if isinstance(source, ArrayData):
        plan = {"rows": source.rows, "batch_size": source.batch_size, "shuffle": shuffle, "seed": seed}
        if shuffle:
            order = np.random.default_rng([seed & (2**63 - 1), trainer.epoch]).permutation(source.rows)
    if trainer.batch and trainer._order != plan:
        raise RlxValueError(
            f"epoch {trainer.epoch + 1} was interrupted after {trainer.batch} batches of {_listed(trainer._order)}, "
            f"and cannot go on with {_listed(plan)}",
            helps=(
                "give `fit` the same data, batch size and seed; or set `trainer.batch = 0` to begin the epoch anew",
            ),
        )
    if not trainer.batch:
        trainer._epoch_loss, trainer._epoch_rows = 0.0, 0
    trainer._order = plan
    return order


def _listed(plan: Mapping[str, object] | None) -> str:
    return "batches as they came" if plan is None else ", ".join(f"{name} {value}" for name, value in plan.items())


class Best:
    """The best epoch so far, for early stopping.

    Attributes:
        loss: Its loss.
        waited: How many epochs have not been better since.
        params: Its parameters.
    """

    def __init__(self, standing: Mapping[str, Any] | None = None, params: Mapping[str, Array] | None = None) -> None:
        known = {"loss": float("inf"), "waited": 0} if standing is None else standing
        self.loss, self.waited = float(known["loss"]), int(known["waited"])
        self.params = dict(params or {})

    def standing(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the parameters."""
        return {"loss": self.loss, "waited": self.waited}

    def take(self, trainer: Trainer, loss: float) -> None:
        """Take note of an epoch."""
        if loss < self.loss:
            self.loss, self.waited = loss, 0
            self.params = {name: np.array(array) for name, array in trainer._trained().items()}
        else:
            self.waited += 1

    def restore(self, trainer: Trainer) -> None:
        """Put the best parameters back, where one looks for them."""
        for name, array in self.params.items():
            trainer._trained()[name][...] = array
