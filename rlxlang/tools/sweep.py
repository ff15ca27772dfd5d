"""`rlx train --sweep`: one run for each point of a grid of options and configs."""

from __future__ import annotations

import argparse
import copy
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import RlxValueError
from rlxlang.tools.data import assignment
from rlxlang.tools.run_folder import RunFolder

_FALLING = ("loss", "mse", "mae", "perplexity")  # of these less is better
_NOT_SWEPT = ("settings", "sweep", "run_dir", "resume", "out", "plot", "quiet", "set", "opt", "columns", "help")


def sweep(options: argparse.Namespace, train: Callable[[argparse.Namespace], str]) -> int:
    """Train at each point, in a folder of its own; those that are finished are not trained again.

    Args:
        options: Of the command.
        train: Trains once.

    Raises:
        RlxValueError: There is no folder for them, or a value is none of its option.
    """
    if options.run_dir is None:
        raise RlxValueError("`--sweep` keeps its runs in a folder", helps=("name it: `--run-dir FOLDER`",))
    if options.out or options.plot:
        raise RlxValueError(
            "`--out` and `--plot` are for one run; those of a sweep keep what they make in their folders"
        )
    axes = [_axis(options, text) for text in options.sweep]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise RlxValueError(f"`--sweep` names {next(n for n in names if names.count(n) > 1)} twice")
    rows: list[tuple[dict[str, str], dict[str, float]]] = []
    for values in itertools.product(*(texts for _, texts in axes)):
        point = dict(zip(names, values, strict=True))
        folder = RunFolder(Path(options.run_dir) / _folder_name(point))
        found = folder.result()
        if found is None:
            print(f"{', '.join(f'{n} = {v}' for n, v in point.items())}: ", end="", flush=True)
            print(train(_at(options, point, folder)))
            found = folder.result() or {}
        rows.append((point, found))
    print(_table(names, rows))
    return 0


def _axis(options: argparse.Namespace, text: str) -> tuple[str, list[str]]:
    name, listed = assignment(text, "--sweep")
    name = name.replace("-", "_")
    values = [part.strip() for part in listed.split(",") if part.strip()]
    if not values:
        raise RlxValueError(f"`--sweep {text}` has no values")
    if name in _NOT_SWEPT:
        raise RlxValueError(f"`--sweep {text}`: `{name}` is no option of a single run")
    for value in values:
        _converted(options, name, value)
    return name, values


def _converted(options: argparse.Namespace, name: str, value: str) -> Any:
    """A value of an option; of a config, the text."""
    action = next((a for a in options.parser._actions if a.option_strings and a.dest == name), None)
    if action is None:
        return value
    try:
        made = action.type(value) if callable(action.type) else value
    except ValueError as problem:
        raise RlxValueError(f"`--sweep`: {value!r} is no value of `--{name.replace('_', '-')}`") from problem
    if action.choices is not None and made not in action.choices:
        raise RlxValueError(f"`--sweep`: `--{name}` is one of {', '.join(action.choices)}; {value!r} is given")
    return made


def _at(options: argparse.Namespace, point: dict[str, str], folder: RunFolder) -> argparse.Namespace:
    """The options of one point; a run that was stopped goes on."""
    own = copy.copy(options)
    own.set, own.sweep, own.quiet = list(options.set), [], True
    own.run_dir, own.resume = str(folder.path), folder.has_checkpoints()
    if folder.settings_file.exists() and not own.resume:
        folder.settings_file.unlink()  # it was stopped before its first checkpoint
    known = {a.dest for a in options.parser._actions if a.option_strings}
    for name, value in point.items():
        if name in known:
            setattr(own, name, _converted(options, name, value))
        else:
            own.set.append(f"{name}={value}")
    return own


def _folder_name(point: dict[str, str]) -> str:
    return ",".join(re.sub(r"[^\w.=+-]", "_", f"{name}={value}") for name, value in point.items())


def _table(names: list[str], rows: list[tuple[dict[str, str], dict[str, float]]]) -> str:
    """All points, the best first: by the first metric, or by the loss where there is none."""
    figures = list(dict.fromkeys(figure for _, found in rows for figure in found))
    leading = next((f for f in figures if f != "loss"), "loss")
    sign = 1 if leading in _FALLING else -1
    ordered = sorted(rows, key=lambda row: sign * row[1].get(leading, float("inf") * sign))
    cells = [[*names, *figures]]
    cells += [
        [*(point[n] for n in names), *(f"{found.get(f, float('nan')):.6g}" for f in figures)]
        for point, found in ordered
    ]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    return "\n".join("  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) for row in cells)
