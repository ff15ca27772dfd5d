"""A folder of checkpoints: the last few states of a run, and the best one."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rlxlang.checkpoint import PathLike
from rlxlang.diagnostics import RlxError, RlxRuntimeError, RlxValueError, RlxWarning
from rlxlang.training.callbacks import Callback, EpochRecord
from rlxlang.training.numbers import whole_number
from rlxlang.training.run_state import RunState, read_run, write_run

if TYPE_CHECKING:
    from rlxlang.trainer import Trainer

BEST = "best.safetensors"
_NAME = re.compile(r"step_(\d+)\.safetensors")
_LEFT_OVER = re.compile(r"\.(step_\d+|best)\.safetensors\..*\.tmp")
# Whether less or more is better.
_MODES = {"loss": "min", "mse": "min", "mae": "min", "perplexity": "min", "accuracy": "max", "f1": "max", "auc": "max"}
_TOP = re.compile(r"top\d+")


class Checkpoint(Callback):
    """When `Trainer.fit` saves the run, and what it keeps.

    A file is complete or not there: it is written beside its place, flushed to the disk and renamed. So a run that is killed at
    any moment goes on from its newest file, `Trainer.resume(folder, …)`, exactly as if it had not been.

    Args:
        folder: Where the files lie: `step_00000120.safetensors` after 120 updates. It is made when missing, and belongs to one run.
        every: Save after so many epochs; None saves at the end and by `every_steps` alone.
        every_steps: Save after so many updates, too.
        keep: How many of the files to keep, the latest ones.
        best: Keep the best state as well, as `best.safetensors`: True by the loss (of `val`, or of training without it), or the
            name of a metric of `val`.
        mode: Whether the best is the least (`min`) or the greatest (`max`); known for metrics that have their own name.

    Raises:
        RlxValueError: A number is less than 1, or it is not known which figure is the best.
    """

    def __init__(
        self,
        folder: PathLike,
        every: int | None = 1,
        *,
        every_steps: int | None = None,
        keep: int = 3,
        best: bool | str = False,
        mode: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._every = None if every is None else whole_number("every", every, 1)
        self._every_steps = None if every_steps is None else whole_number("every_steps", every_steps, 1)
        self._keep = whole_number("keep", keep, 1)
        self._monitor = "loss" if best is True else best or ""
        self._sign = _sign(self._monitor, mode) if self._monitor else 1
        self._best = math.nan
        self._saved_step = -1

    def begin(self, trainer: Trainer) -> None:
        """Make the folder ready; remnants of writes that were killed go away.

        Raises:
            RlxRuntimeError: The folder cannot be made.
            RlxValueError: It holds states that the trainer has not reached: those of another run.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for file in self.folder.iterdir():
                if _LEFT_OVER.fullmatch(file.name):
                    file.unlink(missing_ok=True)
        except OSError as problem:
            raise RlxRuntimeError(
                f"`{self.folder}` cannot hold checkpoints: {problem.strerror or problem}"
            ) from problem
        ahead = [step for step, _ in _files(self.folder) if step > trainer.step_count]
        if ahead:
            raise RlxValueError(
                f"`{self.folder}` holds a run that is at step {max(ahead)}, this one is at step {trainer.step_count}",
                helps=(f"go on with it, `Trainer.resume({str(self.folder)!r}, …)`, or take another folder",),
            )
        self._saved_step = trainer.step_count
        kept = self.folder / BEST
        if self._monitor and kept.exists():
            facts = read_run(kept).facts
            if facts.get("monitor") == self._monitor:
                self._best = float(facts["value"])

    def after_step(self, trainer: Trainer, loss: float) -> None:
        """A step is done."""
        step = trainer.step_count
        if self._every_steps is not None and step != self._saved_step and step % self._every_steps == 0:
            self.write(trainer)

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> None:
        """An epoch is done.

        Raises:
            RlxValueError: There is no figure of the name by which to find the best state.
        """
        if self._every is not None and trainer.epoch % self._every == 0:
            self.write(trainer)
        if not self._monitor:
            return
        value = self._figure(record)
        if math.isnan(self._best) or self._sign * value < self._sign * self._best:
            self._best = value
            write_run(trainer, self.folder / BEST, {"monitor": self._monitor, "value": repr(value)})

    def interrupted(self, trainer: Trainer) -> str:
        """The run ends here: save it."""
        return f"saved as {self.write(trainer)}"

    def end(self, trainer: Trainer) -> None:
        """All epochs are over: save what has not been saved."""
        if self._saved_step != trainer.step_count:
            self.write(trainer)

    def write(self, trainer: Trainer) -> Path:
        """Save the run as it is, and drop the oldest file when there are more than `keep`; gives the path."""
        path = self.folder / f"step_{trainer.step_count:08d}.safetensors"
        write_run(trainer, path)
        self._saved_step = trainer.step_count
        for _, old in _files(self.folder)[self._keep :]:
            old.unlink(missing_ok=True)
        return path

    def _figure(self, record: EpochRecord) -> float:
        if self._monitor == "loss":
            return record.val.get("loss", record.loss)
        if self._monitor not in record.val:
            raise RlxValueError(
                f"`best={self._monitor!r}`: the evaluation has no such figure",
                notes=(f"it has {', '.join(record.val) or 'none: `fit` is given no `val`'}",),
            )
        return record.val[self._monitor]


def _sign(monitor: str, mode: str | None) -> int:
    """1 where less is better, -1 where more is."""
    known = "max" if _TOP.fullmatch(monitor) else _MODES.get(monitor)
    chosen = mode or known
    if chosen not in ("min", "max"):
        raise RlxValueError(
            f"`best={monitor!r}`: is the best the least or the greatest?", helps=('say `mode="min"` or `mode="max"`',)
        )
    return 1 if chosen == "min" else -1


def _files(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoints with their steps, the latest first."""
    found = [(int(match[1]), file) for file in folder.iterdir() if (match := _NAME.fullmatch(file.name))]
    return sorted(found, reverse=True)


def read_newest(path: PathLike) -> RunState:
    """The run in a file, or the newest good one of a folder.

    A damaged file of a folder is passed over with a warning.

    Raises:
        RlxRuntimeError: There is no file, or it cannot be read.
        RlxValueError: It is no checkpoint of a trainer; or no file of the folder is a good one.
    """
    place = Path(path)
    if not place.is_dir():
        return read_run(place)
    files = _files(place)
    if not files:
        raise RlxRuntimeError(
            f"there is no checkpoint in `{place}`", notes=("they are called `step_00000120.safetensors`",)
        )
    problems = []
    for _, file in files:
        try:
            state = read_run(file)
        except RlxError as problem:
            problems.append(problem.diagnostics[0].message)
            continue
        for text in problems:
            warnings.warn(f"{text}; an older checkpoint is taken", RlxWarning, stacklevel=3)
        return state
    raise RlxValueError(f"no checkpoint in `{place}` is a good one", notes=problems)
