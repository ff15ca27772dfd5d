"""Weights of other programs: their files, their names, their order of axes."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlxlang.checkpoint import PathLike, read_tensors
from rlxlang.diagnostics import Diagnostic, RlxRuntimeError, RlxValueError, error

Array: TypeAlias = "np.ndarray[Any, Any]"
# Names of a file, or patterns of them, and the run-time names here; None leaves a tensor out.
Rename: TypeAlias = "Mapping[str, str | None] | Callable[[str], str | None]"

_PLACE = re.compile(r"\{(\w+)\}")


def read_weights(path: PathLike | Sequence[PathLike]) -> tuple[dict[str, Array], dict[str, str]]:
    """Tensors and texts of a safetensors or `.npz` file, or of the parts of one.

    Raises:
        RlxRuntimeError: A file cannot be read.
        RlxValueError: It is of neither kind or damaged, or two parts have a tensor of one name.
    """
    parts = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    tensors: dict[str, Array] = {}
    metadata: dict[str, str] = {}
    for part in parts:
        own, texts = (_read_npz(part), {}) if zipfile.is_zipfile(part) else read_tensors(part)
        twice = next((name for name in own if name in tensors), None)
        if twice is not None:
            raise RlxValueError(f"`{os.fspath(part)}` has `{twice}`, which is in another part as well")
        tensors |= own
        metadata |= texts
    return tensors, metadata


def _read_npz(path: PathLike) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as problem:
        raise RlxRuntimeError(f"`{Path(path)}` cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, zipfile.BadZipFile, EOFError) as problem:
        raise RlxValueError(f"`{Path(path)}` is no .npz file of arrays: {problem}") from problem


def renamed(tensors: Mapping[str, Array], rename: Rename | None) -> tuple[dict[str, Array], list[Diagnostic]]:
    """Tensors under their names here, and what is wrong with the table of names.

    Args:
        tensors: By the name of the file.
        rename: A function; or names of the file, in which `{i}` stands for one part between dots, with the names here, in which `{i}`
            stands for the same. The first that fits counts; None leaves a tensor out; what fits none keeps its name.
    """
    if rename is None:
        return dict(tensors), []
    found: dict[str, Array] = {}
    origins: dict[str, str] = {}
    problems: list[Diagnostic] = []
    used: set[str] = set()
    for name, array in tensors.items():
        own = rename(name) if callable(rename) else _new_name(name, rename, used)
        if own is None:
            continue
        if own in found:
            problems.append(error("E0807", f"`{origins[own]}` and `{name}` of the file are both renamed to `{own}`"))
        found[own], origins[own] = array, name
    for pattern in () if callable(rename) else rename:
        if pattern not in used:
            problems.append(error("E0807", f"`rename` has `{pattern}`, and no name of the file is like that"))
    return found, problems


def _new_name(name: str, rename: Mapping[str, str | None], used: set[str]) -> str | None:
    for pattern, target in rename.items():
        match = _expression(pattern).fullmatch(name)
        if match is None:
            continue
        used.add(pattern)
        return None if target is None else _filled(target, pattern, match.groupdict())
    return name


def _filled(target: str, pattern: str, parts: Mapping[str, str]) -> str:
    unknown = [place for place in _PLACE.findall(target) if place not in parts]
    if unknown:
        raise RlxValueError(f"`rename`: `{target}` has the place `{{{unknown[0]}}}`, which `{pattern}` has not")
    return _PLACE.sub(lambda place: parts[place[1]], target)


def _expression(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression: `{i}` is one part between dots, the same part wherever it stands."""
    pieces, seen, end = [], set(), 0
    for place in _PLACE.finditer(pattern):
        pieces.append(re.escape(pattern[end : place.start()]))
        pieces.append(f"(?P={place[1]})" if place[1] in seen else f"(?P<{place[1]}>[^.]+)")
        seen.add(place[1])
        end = place.end()
    return re.compile("".join([*pieces, re.escape(pattern[end:])]))


def transposed(tensors: Mapping[str, Array], patterns: Iterable[str]) -> tuple[dict[str, Array], list[Diagnostic]]:
    """Tensors with the last two axes of those exchanged whose names fit a pattern (`*`, `?`), and what is wrong with the patterns."""
    found = dict(tensors)
    problems: list[Diagnostic] = []
    done: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fits = [name for name in tensors if fnmatchcase(name, pattern)]
        matrices = [name for name in fits if tensors[name].ndim >= 2]
        if not matrices:
            why = "no tensor has such a name" if not fits else f"`{fits[0]}` is no matrix"
            problems.append(error("E0807", f"`transpose` has `{pattern}`, and {why}"))
        for name in matrices:
            if name not in done:
                found[name] = np.ascontiguousarray(np.swapaxes(tensors[name], -1, -2))
                done.add(name)
    return found, problems
