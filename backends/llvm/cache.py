"""Disk cache of bytes: object code, canonical graphs, plans.

An entry is one file, `magic + sha256(key, data) + data`, written to a temporary name and renamed, so a
reader sees a whole entry or none. Whatever fails its checksum counts as missing and is built again. A
folder that is absent, read-only, full or not ours makes every look-up a miss; nothing else changes, and
`info().problem` says why.

The folder holds code that this process will run. It is created with mode 0700 and is used only while it
belongs to this user and nobody else may write to it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import threading
from dataclasses import dataclass
from functools import cache as memoise
from pathlib import Path

SCHEMA = "1"
"""Raise it when the meaning of any stored bytes changes: older entries then no longer match."""

NAMESPACES = ("obj", "graph", "plan")
SIZE_LIMIT = 1 << 30
"""Bytes kept on disk; above it the oldest entries are removed, down to half of it."""

_MAGIC = b"rlxcache"
_DIGEST = hashlib.sha256().digest_size
_HEADER = len(_MAGIC) + _DIGEST
_TEMPORARY = ".tmp"

_serial = itertools.count()


@dataclass(slots=True)
class _Counters:
    """What this process did with the cache; not atomic, so under threads the numbers are only close."""

    hits: int = 0
    misses: int = 0
    problem: str = ""
    pruned: bool = False


_counters = _Counters()


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """State of the disk cache.

    Attributes:
        hits: look-ups of this process that found an entry.
        misses: look-ups of this process that did not.
        entries: entries on disk.
        bytes: size of those entries on disk.
        path: the folder, whether it exists yet or not; "" without a home directory.
        problem: why the disk could not be used the last time that happened, else "".
    """

    hits: int
    misses: int
    entries: int
    bytes: int
    path: str
    problem: str = ""


def folder() -> Path | None:
    """RLX_CACHE_DIR, else $XDG_CACHE_HOME/rlxlang, else ~/.cache/rlxlang; None without a home directory."""
    chosen = os.environ.get("RLX_CACHE_DIR")
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):
        return Path(shared, "rlxlang")
    home = os.path.expanduser("~")
    return Path(home, ".cache", "rlxlang") if os.path.isabs(home) else None


@memoise
def target_salt() -> str:
    """Everything outside the IR text that decides which machine code comes out of it."""
    import llvmlite
    import llvmlite.binding as llvm

    return "\n".join(
        (
            llvmlite.__version__,
            ".".join(map(str, llvm.llvm_version_info)),
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
        )
    )


@memoise
def source_salt() -> str:
    """Version of this compiler: names, sizes and times of its source files.

    Part of the key of whatever is stored under a description (a graph) instead of the full text it came
    from, so that an edited or upgraded compiler never reads the results of another one.
    """
    import rlxlang
    import rlxlang.backends as backends

    roots = [os.path.dirname(os.path.abspath(package.__file__)) for package in (rlxlang, backends) if package.__file__]
    found: list[str] = []
    pending = roots
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith(".py"):
                    about = entry.stat()
                    found.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()


def cache_key(*parts: str | bytes, target: bool = True, source: bool = False) -> str:
    """Key of an entry.

    Args:
        *parts: what the entry is a function of; their order and their borders count.
        target: add the LLVM version and the CPU with its features (imports llvmlite).
        source: add the state of the compiler's own source files.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    salts = (SCHEMA, target_salt() if target else "", source_salt() if source else "")
    for part in (*salts, *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def load(namespace: str, key: str) -> bytes | None:
    """Return the bytes stored under `key`, or None when there are none or they are damaged."""
    path = _entry_path(namespace, key)
    data = None if path is None else _read_entry(path, key)
    if data is None:
        _counters.misses += 1
    else:
        _counters.hits += 1
    return data


def store(namespace: str, key: str, data: bytes) -> bool:
    """Keep `data` under `key`, replacing what was there.

    Returns:
        Whether it was written; False when the disk cannot be used (`info().problem` says why).
    """
    path = _entry_path(namespace, key)
    if path is None:
        return False
    unique = f".{os.getpid()}-{threading.get_ident()}-{next(_serial)}{_TEMPORARY}"
    temporary = path.with_name(unique)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_MAGIC + _checksum(key, data) + data)
        os.replace(temporary, path)
    except OSError as error:
        _counters.problem = str(error)
        _remove(temporary)
        return False
    if not _counters.pruned:
        _counters.pruned = True
        prune(SIZE_LIMIT)
    return True


def info() -> CacheInfo:
    """Count the entries on disk and the look-ups of this process."""
    root = _usable_root(create=False)
    sizes = [size for _, size, _ in _entries(root)] if root else []
    return CacheInfo(_counters.hits, _counters.misses, len(sizes), sum(sizes), str(folder() or ""), _counters.problem)


def clear() -> None:
    """Remove every entry and every unfinished temporary file; reset the counts of this process."""
    root = _usable_root(create=False)
    if root:
        for path, _, _ in _entries(root, temporaries=True):
            _remove(path)
    _counters.hits = _counters.misses = 0
    _counters.problem = ""


def prune(limit: int) -> None:
    """When the entries take more than `limit` bytes, remove the oldest until they take at most half of it."""
    root = _usable_root(create=False)
    if root is None:
        return
    entries = sorted(_entries(root, temporaries=True), key=lambda entry: entry[2])
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for path, size, _ in entries:
        if total <= limit // 2:
            return
        _remove(path)
        total -= size


def _checksum(key: str, data: bytes) -> bytes:
    """Checksum over key and data: an entry copied under another name does not pass."""
    digest = hashlib.sha256(key.encode())
    digest.update(data)
    return digest.digest()


def _read_entry(path: Path, key: str) -> bytes | None:
    """Read and check one entry; a damaged one is removed so that it is not read again."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            _counters.problem = str(error)
        return None
    data = raw[_HEADER:]
    if raw[: len(_MAGIC)] == _MAGIC and raw[len(_MAGIC) : _HEADER] == _checksum(key, data):
        return data
    _remove(path)
    return None


def _entry_path(namespace: str, key: str) -> Path | None:
    """Place of an entry, or None when the folder cannot be used."""
    if namespace not in NAMESPACES:
        raise ValueError(f"unknown cache namespace {namespace!r}; there are {', '.join(NAMESPACES)}")
    if len(key) != 2 * _DIGEST or not set(key) <= set("0123456789abcdef"):
        raise ValueError(f"a cache key is {2 * _DIGEST} hexadecimal digits, not {key!r}")
    root = _usable_root(create=True)
    return None if root is None else root / namespace / key


def _usable_root(*, create: bool) -> Path | None:
    """The folder when it can be trusted; otherwise None, with the reason noted."""
    root = folder()
    if root is None:
        _counters.problem = "no home directory for the cache"
        return None
    try:
        if create:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = root.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        _counters.problem = str(error)
        return None
    if not stat.S_ISDIR(about.st_mode):
        _counters.problem = f"{root} is not a folder"
        return None
    if hasattr(os, "geteuid") and (about.st_uid != os.geteuid() or about.st_mode & 0o022):
        _counters.problem = f"{root} belongs to another user or can be written by others; it is not used"
        return None
    return root


def _entries(root: Path, *, temporaries: bool = False) -> list[tuple[Path, int, int]]:
    """Path, size and time of last change of every entry."""
    found: list[tuple[Path, int, int]] = []
    for namespace in NAMESPACES:
        try:
            with os.scandir(root / namespace) as entries:
                for entry in entries:
                    if entry.name.endswith(_TEMPORARY) and not temporaries:
                        continue
                    about = entry.stat(follow_symlinks=False)
                    found.append((Path(entry.path), about.st_size, about.st_mtime_ns))
        except OSError:  # absent, or another process removed an entry meanwhile
            continue
    return found


def _remove(path: Path) -> None:
    """Remove a file if possible; another process may have done so already."""
    try:
        path.unlink()
    except OSError:
        return
