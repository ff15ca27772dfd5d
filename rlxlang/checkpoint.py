"""Weights on disk: safetensors files, written so that a crash never leaves half of one.

The format is a length, a JSON header and the raw data (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from rlxlang.diagnostics import Diagnostic, RlxRuntimeError, RlxValueError, did_you_mean, error, raise_all
from rlxlang.types import BOOL, DTYPES, Dim, DType, Shape, from_numpy, shape_text

if TYPE_CHECKING:
    from rlxlang.foreign_weights import Rename
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"
PathLike: TypeAlias = "str | os.PathLike[str]"

TRAINER_FORMAT = "rlxlang-trainer"

_GREATEST_HEADER = 100_000_000
_ALIGNMENT = 8


# --------------------------------------------------------------------------------------------- files


def write_tensors(path: PathLike, tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file: to a temporary file first, which then takes the place of `path`.

    Args:
        path: The file; what it held before is replaced only when the new content is on disk.
        tensors: Arrays by name.
        metadata: Texts by name.

    Raises:
        RlxRuntimeError: The file cannot be written.
        RlxValueError: An array has a dtype the format does not know.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays = []
    position = 0
    for name in sorted(tensors):
        array = np.asarray(tensors[name], order="C")
        end = position + array.nbytes
        header[name] = {"dtype": _spelling(name, array), "shape": list(array.shape), "data_offsets": [position, end]}
        arrays.append(array)
        position = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    target = Path(path)
    try:
        _replace(target, [struct.pack("<Q", len(text)), text, *(_raw(a) for a in arrays)])
    except OSError as problem:
        raise RlxRuntimeError(f"`{target}` cannot be written: {problem.strerror or problem}") from problem


def _spelling(name: str, array: Array) -> str:
    dtype = from_numpy(array.dtype)
    if dtype is None or not array.dtype.isnative:
        raise RlxValueError(f"the array `{name}` of dtype {array.dtype} cannot be saved")
    return "BOOL" if dtype == BOOL else dtype.name


def _raw(array: Array) -> bytes | memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _replace(target: Path, parts: Sequence[bytes | memoryview]) -> None:
    folder = target.parent
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)  # the name, too, survives a crash
    finally:
        os.close(directory)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_tensors(path: PathLike) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and texts of a safetensors file.

    Raises:
        RlxRuntimeError: The file cannot be read.
        RlxValueError: It is no safetensors file, or a damaged one.
    """
    target = Path(path)
    try:
        content = target.read_bytes()
    except OSError as problem:
        raise RlxRuntimeError(f"`{target}` cannot be read: {problem.strerror or problem}") from problem
    length = struct.unpack_from("<Q", content)[0] if len(content) >= 8 else _GREATEST_HEADER + 1
    if length > min(_GREATEST_HEADER, len(content) - 8):
        _damaged(target, "it has no header")
    try:
        header = json.loads(content[8 : 8 + length])
        metadata = dict(header.pop("__metadata__", {}))
        entries = [
            (n, str(e["dtype"]), [int(d) for d in e["shape"]], *map(int, e["data_offsets"])) for n, e in header.items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        _damaged(target, "its header cannot be read")
    data = content[8 + length :]
    tensors = {}
    for name, spelling, shape, start, end in entries:
        dtype = BOOL if spelling == "BOOL" else DTYPES.get(spelling)
        if dtype is None:
            raise RlxValueError(f"`{target}`: the dtype {spelling} of `{name}` is not supported")
        size = math.prod(shape) * dtype.numpy.itemsize
        if min(shape, default=0) < 0 or not 0 <= start <= end <= len(data) or end - start != size:
            _damaged(target, f"`{name}` does not fit into it")
        tensors[name] = np.frombuffer(data[start:end], dtype.numpy).reshape(shape).copy()
    return tensors, metadata


def _damaged(path: Path, why: str) -> NoReturn:
    raise RlxValueError(f"`{path}` is no safetensors file, or a damaged one: {why}")


# --------------------------------------------------------------------------------------------- weights


def save_weights(func: Func, path: PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Save the bound parameters of a function under their run-time names.

    Raises:
        RlxRuntimeError: The file cannot be written.
    """
    facts = {"format": "rlxlang-weights", "graph": func.name, **(metadata or {})}
    write_tensors(path, {name: func.bindings[name] for name in func.param_names() if name in func.bindings}, facts)


def load_weights(
    func: Func,
    path: PathLike | Sequence[PathLike],
    strict: bool = True,
    *,
    rename: Rename | None = None,
    transpose: Sequence[str] = (),
) -> Func:
    """The function with its parameters bound from a file.

    Floats of fewer bits than a parameter's are taken over, since they lose nothing; other dtypes must be those of the parameters.

    Args:
        func: The function.
        path: A safetensors file of `save_weights`, of `Trainer.save` or of another program, a `.npz` file, or the parts of one.
        strict: Whether missing and unexpected names are errors; wrong shapes and dtypes always are.
        rename: Names of the file with the run-time names here: `{"encoder.{i}.fc.weight": "layers.{i}.w", "steps": None}`, where `{i}`
            is one part between dots and None leaves a tensor out; or a function of a name. Names that no entry fits stay.
        transpose: Patterns (`*`, `?`) of run-time names whose last two axes are exchanged, as for weights [out, in] in `x @ w`.

    Raises:
        RlxNameError: E0807, with every missing, unexpected and ill-shaped name in one exception, and entries of `rename` and
            `transpose` that fit nothing.
        RlxShapeError: The same, when shapes come first.
        RlxRuntimeError: A file cannot be read.
        RlxValueError: It is no such file.

    Example:
        >>> names = {"h.{i}.attn.weight": "layers.{i}.attn.w"}
        >>> load_weights(model, "model.safetensors", rename=names, transpose=["layers.*"])  # doctest: +SKIP
    """
    from rlxlang.foreign_weights import read_weights, renamed, transposed

    tensors, metadata = read_weights(path)
    if metadata.get("format") == TRAINER_FORMAT:
        tensors = {n.removeprefix("param/"): a for n, a in tensors.items() if n.startswith("param/")}
    tensors, problems = renamed(tensors, rename)
    tensors, more = transposed(tensors, transpose)
    return bind_weights(func, tensors, strict, [*problems, *more])


def bind_weights(
    func: Func, tensors: Mapping[str, Array], strict: bool = True, problems: Sequence[Diagnostic] = ()
) -> Func:
    """The function with its parameters bound to arrays of a file, unless there are problems already; see `load_weights`."""
    found = [*problems, *_mismatches(func, tensors, strict)]
    if found:
        raise_all(found)
    wanted = {e.name: e.node.dtype.numpy for e in func.graph.params}
    return func.with_params({n: a.astype(wanted[n], copy=False) for n, a in tensors.items() if n in wanted})


def _is_exact(given: DType | None, wanted: DType) -> bool:
    """Whether every number of a dtype is one of another."""
    if given is None or given == wanted:
        return given == wanted
    return given.is_float and wanted.is_float and given.bits < wanted.bits


def _fits(wanted: Shape, given: Sequence[int]) -> bool:
    """Whether an array of a shape may be bound; a dynamic axis takes every size."""
    return len(wanted) == len(given) and all(isinstance(d, Dim) or d == n for d, n in zip(wanted, given, strict=True))


def _mismatches(func: Func, tensors: Mapping[str, Array], strict: bool) -> list[Diagnostic]:
    entries = {e.name: e for e in func.graph.params}
    found: list[Diagnostic] = []
    for name, entry in entries.items():
        array = tensors.get(name)
        if array is None:
            if strict:
                help_ = did_you_mean(name, [n for n in tensors if n not in entries])
                found.append(error("E0807", f"the file has no param `{name}`", helps=[help_] if help_ else []))
            continue
        shape, dtype = entry.node.shape, from_numpy(array.dtype)
        if not _fits(shape, array.shape):
            text = f"`{name}` has shape {shape_text(array.shape)} in the file, expected {shape_text(shape)}"
            turned = (*array.shape[:-2], *array.shape[:-3:-1])
            help_ = f'it fits transposed: `transpose=["{name}"]`' if len(shape) > 1 and _fits(shape, turned) else ""
            found.append(error("E0805", text, helps=[help_] if help_ else []))
        elif not _is_exact(dtype, entry.node.dtype):
            found.append(error("E0806", f"`{name}` is {dtype} in the file, expected {entry.node.dtype}"))
    if strict:
        for name in tensors:
            if name not in entries:
                found.append(error("E0807", f"`{func.name}` has no param `{name}`, which is in the file"))
    return found
