"""What `fit` tells others of: steps, epochs, the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from rlxlang.diagnostics import RlxTypeError

if TYPE_CHECKING:
    from rlxlang.trainer import Trainer

# Something with the methods of a `Callback`, or a function that is called after each epoch.
CallbackLike: TypeAlias = "Callback | Callable[[Trainer, EpochRecord], object]"


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """What an epoch brought.

    Attributes:
        epoch: Its number, from 1.
        loss: Mean training loss, each batch weighed by its rows.
        seconds: How long it took, evaluation included.
        lr: Learning rate of its last step, or None when the optimizer has none.
        val: `{"loss": …}` and the metrics; empty without validation data.
        step: Number of updates so far.
        samples_per_second: Rows trained on in a second, evaluation left out.
        train: Metrics of the training data, where the trainer has such.
    """

    epoch: int
    loss: float
    seconds: float
    lr: float | None
    val: Mapping[str, float]
    step: int = 0
    samples_per_second: float = 0.0
    train: Mapping[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """All figures in one table; metrics begin with `train_` and `val_`."""
        rate = {} if self.lr is None else {"lr": self.lr}
        own = {"epoch": self.epoch, "step": self.step, "loss": self.loss, **rate, "seconds": self.seconds}
        own["samples_per_second"] = self.samples_per_second
        own |= {f"train_{name}": value for name, value in self.train.items()}
        return own | {f"val_{name}": value for name, value in self.val.items()}


@dataclass(frozen=True, slots=True)
class History:
    """All epochs of a run, and whether it ended early."""

    epochs: tuple[EpochRecord, ...]
    stopped_early: bool = False

    @property
    def losses(self) -> list[float]:
        """The training loss of each epoch."""
        return [e.loss for e in self.epochs]

    @property
    def val_losses(self) -> list[float]:
        """The validation loss of each epoch that has one."""
        return [e.val["loss"] for e in self.epochs if e.val]


class Callback:
    """Told by `fit` how training goes; a subclass has the methods it needs.

    Example:
        >>> class Loud(Callback):
        ...     def after_epoch(self, trainer, record):
        ...         print(f"epoch {record.epoch}: {record.loss:.3f}")
        ...         return record.loss < 0.1  # True ends the run
    """

    def begin(self, trainer: Trainer) -> None:
        """Training begins, or goes on."""

    def after_step(self, trainer: Trainer, loss: float) -> None:
        """A batch is done."""

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> object:
        """An epoch is done; True ends the run, after all have been told."""
        return None

    def interrupted(self, trainer: Trainer) -> str:
        """Ctrl-C ends the run here, between two steps; gives what to say of it."""
        return ""

    def end(self, trainer: Trainer) -> None:
        """All epochs are over."""

    def close(self) -> None:
        """Nothing follows, whatever has happened."""


class _Function(Callback):
    """A function that is called after each epoch."""

    def __init__(self, function: Callable[[Trainer, EpochRecord], object]) -> None:
        self._function = function

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> object:
        """See `Callback`."""
        return self._function(trainer, record)


class Callbacks:
    """Several of them, each told in turn.

    Raises:
        RlxTypeError: One is neither a callback nor a function.
    """

    def __init__(self, given: Sequence[CallbackLike]) -> None:
        self._all = [_callback(one) for one in given]
        # A step may take microseconds: only those are told of it that listen.
        self._of_steps = [c for c in self._all if type(c).after_step is not Callback.after_step]

    def begin(self, trainer: Trainer) -> None:
        """See `Callback`."""
        for callback in self._all:
            callback.begin(trainer)

    def after_step(self, trainer: Trainer, loss: float) -> None:
        """See `Callback`."""
        for callback in self._of_steps:
            callback.after_step(trainer, loss)

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> bool:
        """Whether one of them ends the run."""
        # All of them see the epoch, also when one ends the run.
        wishes = [callback.after_epoch(trainer, record) is True for callback in self._all]
        return any(wishes)

    def interrupted(self, trainer: Trainer) -> str:
        """What all of them say."""
        return "; ".join(filter(None, [callback.interrupted(trainer) for callback in self._all]))

    def end(self, trainer: Trainer) -> None:
        """See `Callback`."""
        for callback in self._all:
            callback.end(trainer)

    def close(self) -> None:
        """See `Callback`."""
        for callback in self._all:
            callback.close()


def _callback(given: object) -> Callback:
    if isinstance(given, Callback):
        return given
    if isinstance(given, type) or not callable(given):
        what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise RlxTypeError(
            f"a callback is a function of trainer and record or a `rlx.training.Callback`, {what} is given"
        )
    return _Function(given)
