"""Logs of training runs: tables of figures in files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang.checkpoint import PathLike
from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.training.callbacks import Callback, EpochRecord
from rlxlang.training.numbers import whole_number

if TYPE_CHECKING:
    from rlxlang.trainer import Trainer


class CsvLog(Callback):
    """A row for each epoch in a CSV file, with the figures of `EpochRecord.figures` as columns.

    A run that goes on appends; rows of epochs that the trainer has not reached, as after a kill, are dropped first, so that a fresh
    run begins a fresh file.

    Args:
        path: The file; its folder must be there.

    Raises:
        RlxRuntimeError: While training: the file cannot be written.
        RlxValueError: While training: it has other columns.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    def begin(self, trainer: Trainer) -> None:
        """See `Callback`."""
        header, *rows = [row for row in csv.reader(io.StringIO(_content(self.path))) if row] or [[]]
        kept = [r for r in rows if len(r) == len(header) and "epoch" in header and _is_done(r, header, trainer.epoch)]
        _write(self.path, _csv(header, *kept) if kept else "")

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> None:
        """See `Callback`."""
        figures = record.figures()
        with _open(self.path) as file:
            present = file.readline()
            columns = next(csv.reader([present]), []) if present else []
            if columns and columns != list(figures):
                raise RlxValueError(
                    f"`{self.path}` has the columns {', '.join(columns)}, this run {', '.join(figures)}",
                    helps=("log to another file",),
                )
            file.seek(0, os.SEEK_END)
            file.write(_csv(*([] if columns else [list(figures)]), [repr(v) for v in figures.values()]))


def _is_done(row: list[str], header: list[str], epoch: int) -> bool:
    number = row[header.index("epoch")]
    return number.isdecimal() and int(number) <= epoch


def _csv(*rows: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


class JsonlLog(Callback):
    """A line of JSON for each epoch, and for some of the steps.

    Epochs are `{"kind": "epoch", "epoch": 1, "step": 7, "loss": …}`, steps `{"kind": "step", "step": 5, "loss": …, "lr": …}`; what is
    not finite is null. A run that goes on appends, as with `CsvLog`.

    Args:
        path: The file; its folder must be there.
        every_steps: Log each of so many updates, too.

    Raises:
        RlxValueError: `every_steps` is less than 1.
        RlxRuntimeError: While training: the file cannot be written.
    """

    def __init__(self, path: PathLike, every_steps: int | None = None) -> None:
        self.path = Path(path)
        self._every_steps = None if every_steps is None else whole_number("every_steps", every_steps, 1)
        self._step = -1

    def begin(self, trainer: Trainer) -> None:
        """See `Callback`."""
        lines = _content(self.path).splitlines(keepends=True)
        _write(self.path, "".join(line for line in lines if _reached(line, trainer)))
        self._step = trainer.step_count

    def after_step(self, trainer: Trainer, loss: float) -> None:
        """See `Callback`."""
        step = trainer.step_count
        if self._every_steps is None or step == self._step or step % self._every_steps:
            return
        self._step = step
        rate = getattr(trainer.opt, "lr", None)
        self._append({"kind": "step", "step": step, "loss": loss, **({} if rate is None else {"lr": rate})})

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> None:
        """See `Callback`."""
        self._append({"kind": "epoch", **record.figures()})

    def _append(self, figures: Mapping[str, Any]) -> None:
        clean = {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in figures.items()}
        with _open(self.path) as file:
            file.seek(0, os.SEEK_END)
            file.write(json.dumps(clean) + "\n")


def _reached(line: str, trainer: Trainer) -> bool:
    """Whether a line tells of something that the trainer has behind it; a line that a kill has cut does not."""
    try:
        entry = json.loads(line)
        return bool(
            entry["epoch"] <= trainer.epoch if entry["kind"] == "epoch" else entry["step"] <= trainer.step_count
        )
    except (ValueError, KeyError, TypeError):
        return False


class TensorBoardLog(Callback):
    """Figures as scalars for TensorBoard, `tensorboard --logdir FOLDER`: `train/loss`, `train/lr`, `val/loss` and so forth by step.

    Args:
        folder: Where the event files lie; it is made when missing.
        every_steps: Log loss and learning rate of each of so many updates, too.

    Raises:
        RlxRuntimeError: The package tensorboard is not installed.
        RlxValueError: `every_steps` is less than 1.
    """

    def __init__(self, folder: PathLike, every_steps: int | None = None) -> None:
        if find_spec("tensorboard") is None:
            raise RlxRuntimeError("`TensorBoardLog` needs tensorboard", helps=("pip install 'rlxlang[tensorboard]'",))
        self.folder = Path(folder)
        self._every_steps = None if every_steps is None else whole_number("every_steps", every_steps, 1)
        self._step = -1
        self._writer: Any = None

    def begin(self, trainer: Trainer) -> None:
        """See `Callback`."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self.folder))
        self._step = trainer.step_count
        # What an interrupted run has logged of steps that come again is not shown.
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(session_log=start, step=trainer.step_count + 1))

    def after_step(self, trainer: Trainer, loss: float) -> None:
        """See `Callback`."""
        step = trainer.step_count
        if self._every_steps is None or step == self._step or step % self._every_steps:
            return
        self._step = step
        rate = getattr(trainer.opt, "lr", None)
        self._add(step, {"step/loss": loss, **({} if rate is None else {"step/lr": rate})})

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> None:
        """See `Callback`."""
        figures = {n: v for n, v in record.figures().items() if n not in ("step", "seconds")}
        named = {
            f"val/{n[4:]}" if n.startswith("val_") else f"train/{n.removeprefix('train_')}": v
            for n, v in figures.items()
        }
        self._add(record.step, named)
        self._writer.flush()

    def close(self) -> None:
        """See `Callback`."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, step: int, figures: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))


# --------------------------------------------------------------------------------------------- files


def _content(path: Path) -> str:
    try:
        return path.read_text("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as problem:
        raise RlxRuntimeError(f"`{path}` is no log: {problem}") from problem


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text(text, "utf-8")
        os.replace(beside, path)
    except OSError as problem:
        raise _unwritable(path, problem) from problem


def _open(path: Path) -> Any:
    try:
        return open(path, "a+" if not path.exists() else "r+", encoding="utf-8", newline="")
    except OSError as problem:
        raise _unwritable(path, problem) from problem


def _unwritable(path: Path, problem: OSError) -> RlxRuntimeError:
    return RlxRuntimeError(f"`{path}` cannot be written: {problem.strerror or problem}")
