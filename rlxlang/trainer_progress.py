"""A progress bar for `fit`, and nothing at all where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlxlang.trainer_fit import EpochRecord

_REFRESH_STEPS = 16


class Progress(Protocol):
    """Told of every step and epoch."""

    def step(self, loss: float) -> None:
        """A batch is done."""
        ...

    def epoch(self, record: EpochRecord) -> None:
        """An epoch is done."""
        ...


class Silence:
    """Shows nothing."""

    def step(self, loss: float) -> None:
        """See `Progress`."""

    def epoch(self, record: EpochRecord) -> None:
        """See `Progress`."""


class Bar:
    """A bar over all batches with the figures of the latest epoch."""

    def __init__(self, progress: Any, epochs: int, batches: int | None) -> None:
        self._progress = progress
        total = None if batches is None else epochs * batches
        self._task = progress.add_task("training", total=total, figures="")
        self._steps = 0
        self._epochs = epochs
        self._latest = ""

    def step(self, loss: float) -> None:
        """Move the bar; a step may take microseconds, so only some of them are shown."""
        self._steps += 1
        if self._steps % _REFRESH_STEPS == 0:
            self._progress.update(self._task, completed=self._steps, figures=self._latest or f"loss {loss:.4g}")

    def epoch(self, record: EpochRecord) -> None:
        """Show the figures of an epoch."""
        self._latest = figures(record)
        self._progress.update(self._task, completed=self._steps, figures=self._latest)


def figures(record: EpochRecord) -> str:
    """The figures of an epoch in a line."""
    parts = [f"epoch {record.epoch}", f"loss {record.loss:.4g}"]
    if "loss" in record.val:
        parts.append(f"val loss {record.val['loss']:.4g}")
    if "accuracy" in record.val:
        parts.append(f"val accuracy {100 * record.val['accuracy']:.2f} %")
    return "  ".join(parts)


@contextmanager
def bar(wanted: bool | None, epochs: int, batches: int | None) -> Iterator[Progress]:
    """A progress bar on the error stream.

    Args:
        wanted: True shows it, False does not, None does when the error stream is a terminal.
        epochs: Number of epochs.
        batches: Batches of each, if known.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield Silence()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, force_terminal=wanted), transient=True) as progress:
        yield Bar(progress, epochs, batches)
