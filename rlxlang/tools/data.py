"""What commands are given: models with configs, arrays from files, values from the command line."""

from __future__ import annotations

import argparse
import json
import math
import os
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.func import Func
from rlxlang.loading import load

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = dict[str, Array]

_WORDS = {"true": True, "false": False, "inf": math.inf, "nan": math.nan}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and its configs."""
    parser.add_argument("model", metavar="MODEL.rlx", help="the model")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="value of a config; may be repeated"
    )


def add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    """What may be watched while a model runs, op by op in NumPy."""
    group = parser.add_argument_group("watching (slow: op by op in NumPy)")
    group.add_argument("--debug-nans", action="store_true", help="stop at the first op that makes NaN or infinity")
    group.add_argument("--debug-checks", action="store_true", help="stop at the first index outside of its axis")
    group.add_argument(
        "--trace", action="store_true", help="log type, range and NaN count of every op to standard error"
    )


def watching(options: argparse.Namespace) -> ExitStack:
    """The switches that the command line turns on, as a context."""
    from rlxlang import debugging

    stack = ExitStack()
    for name in ("debug_nans", "debug_checks", "trace"):
        if getattr(options, name):
            stack.enter_context(getattr(debugging, name)())
    return stack


def load_model(options: argparse.Namespace) -> Func:
    """The model with the configs of `--set`.

    Raises:
        RlxError: Whatever is wrong with it.
    """
    return load(options.model, config=configs(options.set))


def configs(settings: Iterable[str]) -> dict[str, Any]:
    """Values by name from `NAME=VALUE`.

    Raises:
        RlxValueError: No `=`, or no name.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, value = assignment(setting, "--set")
        found[name] = static_value(value)
    return found


def assignment(text: str, option: str) -> tuple[str, str]:
    """Name and value of `NAME=VALUE`.

    Raises:
        RlxValueError: It has no `=`, or no name.
    """
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise RlxValueError(f"`{option} {text}` is not of the form NAME=VALUE")
    return name.strip(), value.strip()


def static_value(text: str) -> bool | int | float | str:
    """An int, float, Bool or else a string."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_npz(path: str | Path) -> Arrays:
    """Arrays by name from a `.npz` file.

    Raises:
        RlxRuntimeError: It cannot be read.
        RlxValueError: It is no such file, or holds Python objects.
    """
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise RlxValueError(
            f"`{path}` is no .npz file of arrays by name", helps=("write one: `np.savez(path, x=images, y=labels)`",)
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as problem:
        raise RlxRuntimeError(f"`{path}` cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, zipfile.BadZipFile, EOFError) as problem:
        raise RlxValueError(f"`{path}` is no .npz file of arrays: {problem}") from problem


def require_writable(path: str | Path) -> None:
    """Refuse, before the work is done, a file that cannot be written after it.

    Raises:
        RlxRuntimeError: Its folder is missing or not writable, or it is a folder itself.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        problem = f"there is no folder `{folder}`"
    elif Path(path).is_dir():
        problem = "it is a folder"
    elif not os.access(folder, os.W_OK):
        problem = f"the folder `{folder}` is not writable"
    else:
        return
    raise RlxRuntimeError(f"`{path}` cannot be written: {problem}")


def selected(func: Func, arrays: Mapping[str, Array], path: str | Path) -> tuple[Arrays, list[str]]:
    """The arrays that are inputs of the model, and the names of the others.

    Raises:
        RlxValueError: None of them is an input.
    """
    names = func.input_names()
    found = {name: arrays[name] for name in names if name in arrays}
    if names and not found:
        raise RlxValueError(
            f"no array of `{path}` is an input of `{func.name}`",
            notes=(f"the file has {', '.join(arrays) or 'no arrays'}", f"the inputs are {', '.join(names)}"),
            helps=("arrays are matched to inputs by name: `np.savez(path, x=images, y=labels)`",),
        )
    return found, [name for name in arrays if name not in names]


def value_of(text: str, name: str) -> object:
    """The value of `--input name=…`: a number, a list in JSON, or the path of a `.npy` file.

    Raises:
        RlxValueError: It is none of these.
        RlxRuntimeError: The file cannot be read.
    """
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except OSError as problem:
            raise RlxRuntimeError(f"`{text}` cannot be read: {problem.strerror or problem}") from problem
        except ValueError as problem:
            raise RlxValueError(f"`{text}` is no .npy file: {problem}") from problem
    try:
        return json.loads(text)
    except ValueError:
        raise RlxValueError(
            f"the value of the input `{name}` is not understood: {text[:60]!r}",
            helps=("write a number, a list such as '[[1, 2], [3, 4]]', or the path of a .npy file",),
        ) from None


def split(arrays: Mapping[str, Array], is_cut: Mapping[str, bool], fraction: float, seed: int) -> tuple[Arrays, Arrays]:
    """Training and held-out data: rows shuffled by `seed`, of which the last `fraction` is held out.

    Args:
        arrays: Arrays by name.
        is_cut: Whether the first axis of an array is that of the rows.
        fraction: Of the rows, in [0, 1).
        seed: Of the shuffling.
    """
    rows = next(arrays[name].shape[0] for name, cut in is_cut.items() if cut)
    order = np.random.default_rng(seed & (2**63 - 1)).permutation(rows)
    held = round(rows * fraction)
    first, last = order[: rows - held], order[rows - held :]
    train = {n: a[first] if is_cut[n] else a for n, a in arrays.items()}
    rest = {n: a[last] if is_cut[n] else a for n, a in arrays.items()}
    return train, rest
