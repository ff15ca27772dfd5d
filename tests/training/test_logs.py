"""Logs, callbacks and the bar of a training run."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import rlxlang as rlx
from rlxlang.trainer import Trainer
from rlxlang.training import Callback, CsvLog, JsonlLog, TensorBoardLog
from tests.training import runs


def fitted(trainer: Trainer, epochs: int, *callbacks: Any, **options: Any) -> Any:
    return trainer.fit(runs.data(), epochs, 8, val=runs.data(), callbacks=callbacks, **options)


def table(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_table_of_epochs(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    history = fitted(runs.begun(accumulate=1, metrics=["f1"]), 3, CsvLog(path))
    rows = table(path)
    assert list(rows[0]) == [
        "epoch",
        "step",
        "loss",
        "lr",
        "seconds",
        "samples_per_second",
        "train_f1",
        "val_loss",
        "val_accuracy",
    ]
    assert [float(row["loss"]) for row in rows] == history.losses
    assert [float(row["val_loss"]) for row in rows] == history.val_losses
    assert [int(row["step"]) for row in rows] == [7, 14, 21]
    assert [float(row["lr"]) for row in rows] == [runs.OPTIONS["schedule"].lr_at(step - 1) for step in (7, 14, 21)]
    assert all(float(row["samples_per_second"]) > 0 for row in rows)
    resumed = runs.begun(accumulate=1)
    resumed.epoch = 3
    with pytest.raises(rlx.RlxValueError, match="has the columns"):
        resumed.fit(runs.data(), 1, 8, callbacks=[CsvLog(path)])
    fitted(runs.begun(), 1, CsvLog(path))  # a fresh run begins a fresh file
    assert len(table(path)) == 1


def test_a_run_that_goes_on_continues_its_logs(tmp_path: Path) -> None:
    def logs(name: str) -> list[Any]:
        return [CsvLog(tmp_path / f"{name}.csv"), JsonlLog(tmp_path / f"{name}.jsonl", every_steps=2)]

    fitted(runs.begun(accumulate=1), 4, *logs("whole"))
    first = runs.begun(accumulate=1)
    fitted(first, 2, *logs("parts"))
    first.save(tmp_path / "run")
    fitted(first, 1, *logs("parts"))  # is lost
    for name in ("parts.csv", "parts.jsonl"):
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write('{"kind": "st')  # a kill in the middle of a line
    fitted(runs.resumed(tmp_path / "run"), 2, *logs("parts"))
    clocks = ("seconds", "samples_per_second")
    for read, name in ((table, "csv"), (lines, "jsonl")):
        found, wanted = (
            [{k: v for k, v in row.items() if k not in clocks} for row in read(tmp_path / f"{part}.{name}")]
            for part in ("parts", "whole")
        )
        assert found == wanted
    kinds = [(line["kind"], line["step"]) for line in lines(tmp_path / "whole.jsonl")][:5]
    assert kinds == [("step", 2), ("step", 4), ("step", 6), ("epoch", 7), ("step", 8)]


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    trainer = runs.begun(schedule=None, loss_scale=None)
    data = runs.data()
    data["x"][0] = float("nan")
    trainer.fit(data, 1, 8, callbacks=[JsonlLog(tmp_path / "log")])
    assert lines(tmp_path / "log")[0]["loss"] is None


def test_logs_that_cannot_be_written(tmp_path: Path) -> None:
    for log in (CsvLog(tmp_path / "no" / "log"), JsonlLog(tmp_path / "no" / "log")):
        trainer = runs.begun()
        with pytest.raises(rlx.RlxRuntimeError, match="cannot be written"):
            fitted(trainer, 1, log)
        assert trainer.call_count == 0
    (tmp_path / "log").write_bytes(b"\xff")
    with pytest.raises(rlx.RlxRuntimeError, match="is no log"):
        fitted(runs.begun(), 1, CsvLog(tmp_path / "log"))
    with pytest.raises(rlx.RlxValueError, match="every_steps"):
        JsonlLog(tmp_path / "log", 0)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_its_log(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    history = fitted(runs.begun(accumulate=1), 2, TensorBoardLog(tmp_path, every_steps=5))
    (file,) = tmp_path.iterdir()
    found: dict[str, list[tuple[int, float]]] = {}
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    assert found["train/loss"] == [(7 * k + 7, pytest.approx(loss)) for k, loss in enumerate(history.losses)]
    assert found["val/loss"] == [(7 * k + 7, pytest.approx(loss)) for k, loss in enumerate(history.val_losses)]
    assert [step for step, _ in found["step/loss"]] == [5, 10]
    assert {"train/lr", "train/samples_per_second", "train/f1", "val/accuracy"} <= found.keys()


def test_tensorboard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlxlang.training.logs.find_spec", lambda name: None)
    with pytest.raises(rlx.RlxRuntimeError, match="needs tensorboard"):
        TensorBoardLog(tmp_path)


def test_callbacks_are_told_of_everything() -> None:
    told: list[Any] = []

    class All(Callback):
        def begin(self, trainer: Trainer) -> None:
            told.append("begin")

        def after_step(self, trainer: Trainer, loss: float) -> None:
            told.append(trainer.call_count)

        def after_epoch(self, trainer: Trainer, record: Any) -> object:
            told.append(record.epoch)
            return record.epoch == 2

        def end(self, trainer: Trainer) -> None:
            told.append("end")

        def close(self) -> None:
            told.append("close")

    history = runs.begun().fit(runs.data(), 9, 50, callbacks=[All(), lambda trainer, record: told.append("function")])
    assert history.stopped_early
    assert told == ["begin", 1, 1, "function", 2, 2, "function", "end", "close"]
    told.clear()
    with pytest.raises(rlx.RlxNameError):
        runs.begun().fit([{"z": 1}], callbacks=[All()])
    assert told == ["begin", "close"]
    for wrong in (All, 3):
        with pytest.raises(rlx.RlxTypeError, match="callback"):
            runs.begun().fit(runs.data(), 1, callbacks=[wrong])


def test_the_bar_shows_loss_rate_and_speed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("rlxlang.trainer_progress._REFRESH_SECONDS", 0.0)
    shown: list[str] = []
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda self, task, completed, figures: shown.append(f"{completed} {figures}")
    )
    trainer = runs.begun(schedule=None, accumulate=1)
    trainer.fit(runs.data(), 1, 8)
    assert not shown
    fitted(trainer, 2, progress=True)
    assert len(shown) == 2 * 7 + 2
    assert shown[0].startswith("1 epoch 2/3  loss ")
    assert "  lr 0.001  " in shown[0]
    assert shown[0].endswith(" samples/s")
    assert "(epoch 2  loss " in shown[8]
    assert " %)" in shown[8]
    assert "val accuracy" in shown[-1]
    capsys.readouterr()
