"""Arrays by name from files of several kinds, and from functions of Python."""

from __future__ import annotations

import argparse
import csv
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlxlang.checkpoint import read_tensors
from rlxlang.diagnostics import RlxRuntimeError, RlxTypeError, RlxValueError, did_you_mean
from rlxlang.func import Func
from rlxlang.tools.data import Arrays, assignment, read_npz

Array: TypeAlias = "np.ndarray[Any, Any]"

KINDS = "FILE.npz, FILE.csv, FILE.safetensors or MODULE:FUNCTION"
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def add_columns(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The option that names columns of a CSV file."""
    parser.add_argument(
        "--columns",
        metavar="INPUT=COLUMN,…",
        action="append",
        default=[],
        help="columns of a CSV file for an input; may be repeated",
    )


def read_arrays(place: str, func: Func, columns: Sequence[str] = ()) -> Arrays:
    """Arrays by name.

    Args:
        place: A `.npz` or `.safetensors` file of arrays by name, a `.csv` file with a header, or `module:function`, whose function
            gives a mapping of arrays.
        func: The model, whose inputs the columns of a CSV file become.
        columns: `INPUT=COLUMN,COLUMN,…` for a CSV file; inputs that are not named take the column of their name.

    Raises:
        RlxRuntimeError: It cannot be read.
        RlxValueError: It is of no such kind, or holds something else.
    """
    suffix = Path(place).suffix.lower()
    if columns and suffix != ".csv":
        raise RlxValueError(f"`--columns` is for CSV files, and the data are `{place}`")
    if suffix == ".csv":
        return read_csv(place, func, columns)
    if suffix == ".safetensors":
        return dict(read_tensors(place)[0])
    if _FUNCTION.fullmatch(place) and not Path(place).exists():
        return call(place)
    return read_npz(place)


def call(place: str) -> Arrays:
    """The arrays that a function gives; its module is looked for in the present folder, too.

    Raises:
        RlxRuntimeError: There is no such module or function, or it raises.
        RlxTypeError: It gives no mapping of arrays.
    """
    name, _, function = place.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(name), function)()
    except Exception as problem:  # whatever it raises is what is wrong with it
        raise RlxRuntimeError(f"`{place}` gives no data: {type(problem).__name__}: {problem}") from problem
    finally:
        sys.path.remove(str(Path.cwd()))
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise RlxTypeError(f"`{place}` gives a {type(found).__name__}, a mapping of arrays by name is expected")
    return {key: np.asarray(value) for key, value in found.items()}


# --------------------------------------------------------------------------------------------- CSV


def read_csv(path: str, func: Func, columns: Sequence[str] = ()) -> Arrays:
    """Inputs from the columns of a CSV file with a header: a column gives [rows], several give [rows, columns].

    Words in a column of an integer input are classes, numbered in their sorted order.

    Raises:
        RlxRuntimeError: It cannot be read.
        RlxValueError: A column is missing, a field is empty, or it is no number.
    """
    header, rows = _table(path)
    inputs = {entry.name: entry for entry in func.graph.feeds}
    chosen = {name: [name] for name in inputs if name in header}
    for text in columns:
        name, listed = assignment(text, "--columns")
        if name not in inputs:
            raise RlxValueError(
                f"`--columns {text}`: the model has no input `{name}`", helps=(did_you_mean(name, inputs),)
            )
        chosen[name] = [part.strip() for part in listed.split(",")]
    found: Arrays = {}
    for name, names in chosen.items():
        for column in names:
            if column not in header:
                raise RlxValueError(
                    f"`{path}` has no column `{column}`",
                    notes=(f"it has {', '.join(header)}",),
                    helps=(did_you_mean(column, header),),
                )
        places = [header.index(column) for column in names]
        dtype = inputs[name].node.dtype
        parts = [_column(path, header, rows, place, is_class=not dtype.is_float) for place in places]
        found[name] = parts[0] if len(parts) == 1 and inputs[name].node.tensor.rank < 2 else np.stack(parts, axis=1)
        if not dtype.is_float:
            found[name] = _whole(path, names, found[name]).astype(np.int64)
    return found


def _table(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Names of columns, and the rows with their lines."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as problem:
        raise RlxRuntimeError(f"`{path}` cannot be read: {problem.strerror or problem}") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise RlxValueError(f"`{path}` is no CSV file: {problem}") from problem
    if not header or not rows:
        raise RlxValueError(f"`{path}` has no {'rows' if header else 'header'}")
    for line, row in rows:
        if len(row) != len(header):
            raise RlxValueError(f"line {line} of `{path}` has {len(row)} fields, the header {len(header)}")
    return header, rows


def _column(path: str, header: list[str], rows: list[tuple[int, list[str]]], place: int, *, is_class: bool) -> Array:
    fields = [row[place].strip() for _, row in rows]
    numbers = [_number(field) for field in fields]
    wrong = next((k for k, number in enumerate(numbers) if number is None), None)
    if wrong is None:
        return np.array(numbers, np.float64)
    line, field, name = rows[wrong][0], fields[wrong], header[place]
    empty = next((k for k, text in enumerate(fields) if not text), None)
    if empty is not None:
        raise RlxValueError(f"line {rows[empty][0]} of `{path}`: the field of column `{name}` is empty")
    if not is_class or any(number is not None for number in numbers):
        raise RlxValueError(f"line {line} of `{path}`: {field[:60]!r} in column `{name}` is no number")
    classes = {word: k for k, word in enumerate(sorted(set(fields)))}
    return np.array([classes[field] for field in fields], np.float64)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole(path: str, names: list[str], array: Array) -> Array:
    wrong = array[array != np.rint(array)]
    if wrong.size:
        raise RlxValueError(f"`{path}`: column {', '.join(names)} holds {wrong[0]}, the input takes whole numbers")
    return array
