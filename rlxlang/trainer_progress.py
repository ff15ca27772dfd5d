"""A progress bar for `fit`, and nothing at all where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlxlang.training.callbacks import EpochRecord

_REFRESH_SECONDS = 0.1


class Progress(Protocol):
    """Told of every step and epoch."""

    def step(self, loss: float, rows: int, lr: float | None) -> None:
        """A batch is done."""
        ...

    def epoch(self, record: EpochRecord) -> None:
        """An epoch is done."""
        ...


class Silence:
    """Shows nothing."""

    def step(self, loss: float, rows: int, lr: float | None) -> None:
        """See `Progress`."""

    def epoch(self, record: EpochRecord) -> None:
        """See `Progress`."""


class Bar:
    """A bar over all batches with loss, learning rate, samples per second and the figures of the latest epoch.

    Args:
        progress: The display of rich.
        first: Finished epochs and batches of the next one, where a run goes on.
        epochs: How many more epochs.
        batches: Batches of each, if known.
    """

    def __init__(self, progress: Any, first: tuple[int, int], epochs: int, batches: int | None) -> None:
        self._progress = progress
        total = None if batches is None else epochs * batches
        done, self._steps = first
        self._task = progress.add_task("training", total=total, completed=self._steps, figures="")
        self._epoch, self._last = done, done + epochs
        self._latest = ""
        self._rows, self._since = 0, time.perf_counter()
        self._shown = 0.0

    def step(self, loss: float, rows: int, lr: float | None) -> None:
        """Move the bar; a step may take microseconds, so only some of them are shown."""
        self._steps += 1
        self._rows += rows
        now = time.perf_counter()
        if now - self._shown < _REFRESH_SECONDS:
            return
        self._shown = now
        parts = [f"epoch {self._epoch + 1}/{self._last}", f"loss {loss:.4g}"]
        parts += [] if lr is None else [f"lr {lr:.3g}"]
        parts.append(f"{self._rows / max(now - self._since, 1e-9):,.0f} samples/s")
        text = "  ".join([*parts, *([f"({self._latest})"] if self._latest else [])])
        self._progress.update(self._task, completed=self._steps, figures=text)

    def epoch(self, record: EpochRecord) -> None:
        """Show the figures of an epoch."""
        self._latest = figures(record)
        self._epoch = record.epoch
        self._rows, self._since = 0, time.perf_counter()
        self._progress.update(self._task, completed=self._steps, figures=self._latest)


def figures(record: EpochRecord) -> str:
    """The figures of an epoch in a line."""
    parts = [f"epoch {record.epoch}", f"loss {record.loss:.4g}"]
    for prefix, found in (("", record.train), ("val ", record.val)):
        for name, value in found.items():
            shown = f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4g}"
            parts.append(f"{prefix}{name} {shown}")
    return "  ".join(parts)


@contextmanager
def bar(wanted: bool | None, first: tuple[int, int], epochs: int, batches: int | None) -> Iterator[Progress]:
    """A progress bar on the error stream.

    Args:
        wanted: True shows it, False does not, None does when the error stream is a terminal.
        first: Finished epochs and batches of the next one, where a run goes on.
        epochs: How many more epochs.
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
        yield Bar(progress, first, epochs, batches)
