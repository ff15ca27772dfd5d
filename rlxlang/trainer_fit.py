"""Many training steps: epochs, evaluation, early stopping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxValueError
from rlxlang.training.callbacks import CallbackLike, Callbacks, EpochRecord, History
from rlxlang.training.checkpoints import Checkpoint
from rlxlang.training.data import ArrayData, BatchData, Data, source_of
from rlxlang.training.interruption import Interruption
from rlxlang.training.metrics import Metric, metrics_of
from rlxlang.training.numbers import whole_number

if TYPE_CHECKING:
    from rlxlang.trainer import Trainer
    from rlxlang.trainer_progress import Progress

Array: TypeAlias = "np.ndarray[Any, Any]"
PathLike: TypeAlias = "str | os.PathLike[str]"

DEFAULT_BATCH_SIZE = 32


def fit(
    trainer: Trainer,
    data: Data,
    epochs: int,
    batch_size: int | None,
    *,
    val: Data | None,
    metrics: Sequence[Metric | str] | None,
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
        data: Arrays by name, which are shuffled and cut into batches; or the batches themselves, taken as they come: a list, a loader, a
            generator (for one epoch), or a function that makes one for each epoch. A batch is a mapping by name, a list or tuple of
            the inputs in order of declaration, or the array of an only input.
        epochs: How many more; one that was interrupted counts as one.
        batch_size: Rows of a batch of arrays; 32 when left out.
        val: Data to evaluate after each epoch.
        metrics: What to find of `val` beside the loss; see `rlx.training.evaluate`.
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
        RlxError: As `Trainer.step` and `rlx.training.evaluate`.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    epochs = whole_number("epochs", epochs, 0)
    if patience is not None:
        whole_number("patience", patience, 1)
    from rlxlang.trainer_progress import bar

    source = source_of(trainer._func, data, DEFAULT_BATCH_SIZE if batch_size is None else batch_size)
    for one in (source, None if val is None else source_of(trainer._func, val, 1)):
        if isinstance(one, BatchData):
            one.require_epochs(epochs)
    keeper = Checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint
    if metrics is not None and val is None:
        raise RlxValueError(
            "`metrics` are figures of `val`, which is not given",
            helps=("for those of the training data: `func.trainer(opt, metrics=[…])`",),
        )
    wanted = metrics_of(trainer._func.graph, metrics)

    def validate() -> dict[str, float]:
        return {} if val is None else trainer.evaluate(val, metrics=wanted)

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
                order = _order_of(trainer, source, shuffle, seed)
                record = _epoch(trainer, source, order, validate, shown, told, interruption)
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
    if interruption.is_wanted:
        raise KeyboardInterrupt(f"training ended with step {trainer.step_count}")
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
    order: Array | None,
    validate: Callable[[], Mapping[str, float]],
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
        raise RlxValueError("there are no batches to train on", helps=("a generator gives its batches once",))
    speed = rows / max(time.perf_counter() - began, 1e-9)
    loss = trainer._epoch_loss / trainer._epoch_rows if trainer._epoch_rows else float("nan")
    train = trainer.metrics()
    _begin_anew(trainer)
    trainer.epoch, trainer.batch = trainer.epoch + 1, 0
    val = validate()
    seconds = time.perf_counter() - began
    rate = getattr(trainer.opt, "lr", None)
    return EpochRecord(trainer.epoch, loss, seconds, rate, val, trainer.step_count, speed, train)


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
        _begin_anew(trainer)
    trainer._order = plan
    return order


def _begin_anew(trainer: Trainer) -> None:
    """Nothing of the epoch is known yet."""
    trainer._epoch_loss, trainer._epoch_rows = 0.0, 0
    trainer.reset_metrics()


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
