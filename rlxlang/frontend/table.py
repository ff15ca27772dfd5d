"""The parser object: built from the grammar once per machine, then loaded from a table in the user's cache.

Building takes about 200 ms, loading about 15. The table is a pickle of plain data; it is trusted only when it lies
in a folder of the user that nobody else may enter, carries the right checksum, and names no class.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from lark import Lark
from lark import __version__ as lark_version

from rlxlang.resources import grammar_text

STARTS = ("program", "expression")
_MAGIC = b"rlx-parser-table 1\n"
_lock = threading.Lock()
_parser: Lark | None = None


def parser() -> Lark:
    """The one parser of the process."""
    global _parser
    if _parser is None:
        with _lock:
            if _parser is None:
                _parser = _load_or_build()
    return _parser


def build(grammar: str, *, strict: bool = False) -> Lark:
    """A parser for a grammar text; `strict` makes every conflict an error (needs interegular)."""
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=True,
        start=list(STARTS),
        strict=strict,
    )


def cache_folder() -> Path:
    """Where tables are kept: `RLX_CACHE_DIR`, else `~/.cache/rlxlang`."""
    chosen = os.environ.get("RLX_CACHE_DIR")
    return Path(chosen) if chosen else Path.home() / ".cache" / "rlxlang"


def _load_or_build() -> Lark:
    grammar = grammar_text()
    version = f"{lark_version} {sys.version_info[0]}.{sys.version_info[1]} {' '.join(STARTS)}"
    key = hashlib.sha256(f"{version}\0{grammar}".encode()).hexdigest()
    try:
        file = cache_folder() / "grammar" / f"{key[:32]}.table"
    except RuntimeError:  # no home folder
        return build(grammar)
    data = _read(file)
    if data is not None:
        return Lark.load(io.BytesIO(data))
    made = build(grammar)
    stream = io.BytesIO()
    made.save(stream)
    _write(file, stream.getvalue())
    return made


def _is_private(folder: Path) -> bool:
    """Whether the folder is the user's own and closed to everybody else."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True  # the profile folder of the user protects it
    return state.st_uid == os.getuid() and stat.S_IMODE(state.st_mode) & 0o077 == 0


class _PlainData(pickle.Unpickler):
    """Refuses everything but numbers, strings and containers."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"unexpected {module_name}.{global_name}")


def _read(file: Path) -> bytes | None:
    """The table, or None when there is none that can be trusted."""
    try:
        if not _is_private(file.parent):
            return None
        content = file.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + hashlib.sha256().digest_size
    data = content[start:]
    if content[:start] != _MAGIC + hashlib.sha256(data).digest():
        return None
    try:
        _PlainData(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, ValueError):
        return None
    return data


def _write(file: Path, data: bytes) -> None:
    """Write the table whole or not at all; a folder that cannot be written, or is not private, is left alone."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(file.parent):
            return
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".table-")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(_MAGIC + hashlib.sha256(data).digest() + data)
        os.replace(name, file)
    except OSError:
        Path(name).unlink(missing_ok=True)
