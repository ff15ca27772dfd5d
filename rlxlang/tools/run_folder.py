"""What `rlx train --run-dir` keeps of a run: settings, log, checkpoints, weights, a report."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.tools.classification import classes_of
from rlxlang.tools.data import Arrays

if TYPE_CHECKING:
    from rlxlang.func import Func


class RunFolder:
    """The folder of one run.

    Attributes:
        path: The folder.
        settings_file: All options that are not the default, as `--settings` reads them.
        log: A row for each epoch.
        checkpoints: A folder of the last states.
        weights: The trained parameters.
        report_file: What came out, in Markdown.
        result_file: The same figures for programs; it is there when the run is finished.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.settings_file = self.path / "settings.toml"
        self.log = self.path / "log.csv"
        self.checkpoints = self.path / "checkpoints"
        self.weights = self.path / "weights.safetensors"
        self.report_file = self.path / "report.md"
        self.result_file = self.path / "result.json"

    def prepare(self, *, resume: bool, settings: str) -> None:
        """Make the folder, or see that it is that of the run to go on with.

        Raises:
            RlxRuntimeError: It cannot be made or written to.
            RlxValueError: It holds a run and none is to be resumed, or one with other settings.
        """
        present = self._present_settings()
        if resume:
            if present is None:
                raise RlxValueError(f"`{self.path}` holds no run to go on with")
            if _without_results(present) != _without_results(settings):
                raise RlxValueError(
                    f"the run in `{self.path}` has other settings",
                    notes=tuple(_differences(present, settings)),
                    helps=(f"give `--settings {self.settings_file}`",),
                )
            return
        if present is not None:
            raise RlxValueError(
                f"`{self.path}` holds a run already", helps=("go on with it by `--resume`, or take another folder",)
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.settings_file.write_text(settings, "utf-8")
        except OSError as problem:
            raise RlxRuntimeError(f"`{self.path}` cannot hold a run: {problem.strerror or problem}") from problem

    def _present_settings(self) -> str | None:
        try:
            return self.settings_file.read_text("utf-8")
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise RlxRuntimeError(f"`{self.settings_file}` cannot be read: {problem.strerror or problem}") from problem

    def has_checkpoints(self) -> bool:
        """Whether there is a state to go on from."""
        return self.checkpoints.is_dir() and any(self.checkpoints.glob("*.safetensors"))

    def report(
        self,
        options: argparse.Namespace,
        func: Func,
        parameters: int,
        data: Arrays,
        name: str,
        found: dict[str, float],
        seconds: float,
    ) -> None:
        """Write the report and the result.

        Args:
            options: Of the command.
            func: The trained model.
            parameters: How many numbers were trained.
            data: What it was evaluated on.
            name: What that is, `training` or `held-out`.
            found: Loss and metrics.
            seconds: How long the run took.

        Raises:
            RlxRuntimeError: The files cannot be written.
        """
        try:
            with self.log.open(newline="", encoding="utf-8") as file:
                epochs = list(csv.DictReader(file))
        except OSError:
            epochs = []
        column = "val_loss" if epochs and "val_loss" in epochs[0] else "loss"
        best = min(epochs, key=lambda row: float(row[column]), default=None)
        classes = classes_of(func, data, options.seed)
        lines = [
            f"# {func.name}",
            "",
            f"- model: {options.model}, {parameters:,} parameters",
            f"- data: {options.data or 'beside the model'}; evaluated on the {name} part",
            f"- {options.optimizer}, schedule {options.schedule}, batches of {options.batch_size}, seed {options.seed}",
            f"- {len(epochs)} epochs, {seconds:.1f} s",
        ]
        if best is not None:
            lines.append(f"- best epoch {best['epoch']} ({column.replace('_', ' ')} {float(best[column]):.4g})")
        lines += ["", f"| figure ({name}) | value |", "|---|---|", *(f"| {n} | {v:.6g} |" for n, v in found.items())]
        if classes is not None:
            lines += ["", "```", classes.tables(), "```"]
        result = {"name": name, "figures": found, "epochs": len(epochs), "parameters": parameters}
        try:
            self.report_file.write_text("\n".join(lines) + "\n", "utf-8")
            self.result_file.write_text(json.dumps(result) + "\n", "utf-8")
        except OSError as problem:
            raise RlxRuntimeError(f"the report cannot be written: {problem.strerror or problem}") from problem

    def result(self) -> dict[str, float] | None:
        """The figures of a finished run, or None.

        Raises:
            RlxValueError: The file is not one of `report`.
        """
        try:
            figures = json.loads(self.result_file.read_text("utf-8"))["figures"]
            return {str(name): float(value) for name, value in figures.items()}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise RlxValueError(f"`{self.result_file}` is no result of a run") from problem


# Where results go may differ when a run goes on; what it computes may not.
_RESULTS = ("run_dir", "out", "plot", "quiet", "device")


def _without_results(settings: str) -> list[str]:
    return [line for line in settings.splitlines() if line.split(" = ")[0] not in _RESULTS]


def _differences(present: str, given: str) -> list[str]:
    before, after = _without_results(present), _without_results(given)
    gone = [f"the run has {line}" for line in before if line not in after]
    return [*gone, *(f"given is {line}" for line in after if line not in before)]
