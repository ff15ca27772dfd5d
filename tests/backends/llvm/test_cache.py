from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rlxlang.backends.llvm import cache

KEY = cache.cache_key("a test", target=False)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RLX_CACHE_DIR", str(folder))
    cache.clear()
    return folder


def the_only_file(root: Path) -> Path:
    (file,) = [path for path in root.rglob("*") if path.is_file()]
    return file


def test_what_is_stored_is_loaded(root: Path) -> None:
    assert cache.load("obj", KEY) is None
    assert cache.store("obj", KEY, b"machine code")
    assert cache.load("obj", KEY) == b"machine code"
    info = cache.info()
    assert (info.hits, info.misses, info.entries, info.path) == (1, 1, 1, str(root))
    assert info.bytes == the_only_file(root).stat().st_size


def test_namespaces_are_separate() -> None:
    cache.store("graph", KEY, b"g")
    assert cache.load("plan", KEY) is None
    with pytest.raises(ValueError, match="namespace"):
        cache.load("other", KEY)


def test_a_bad_key_cannot_leave_the_folder() -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        cache.store("obj", "../" * 21 + "x", b"")


def test_empty_data_is_an_entry() -> None:
    cache.store("plan", KEY, b"")
    assert cache.load("plan", KEY) == b""


def test_keys_depend_on_parts_and_their_borders() -> None:
    keys = {
        cache.cache_key("ab", "c", target=False),
        cache.cache_key("a", "bc", target=False),
        cache.cache_key("abc", target=False),
        cache.cache_key("abc", target=True),
        cache.cache_key("abc", target=False, source=True),
    }
    assert len(keys) == 5
    assert cache.cache_key(b"abc", target=False) == cache.cache_key("abc", target=False)


def test_the_folder_is_private(root: Path) -> None:
    cache.store("obj", KEY, b"x")
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE(the_only_file(root).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign"])
def test_a_damaged_entry_is_missing_and_is_replaced(root: Path, damage: str) -> None:
    cache.store("obj", KEY, bytes(range(200)))
    file = the_only_file(root)
    raw = bytearray(file.read_bytes())
    if damage == "truncated":
        raw = raw[:-1]
    elif damage == "flipped":
        raw[-1] ^= 1
    elif damage == "empty":
        raw = bytearray()
    else:
        raw = bytearray(b"something else entirely" * 9)
    file.write_bytes(raw)
    assert cache.load("obj", KEY) is None
    assert not file.exists()
    assert cache.store("obj", KEY, b"new")
    assert cache.load("obj", KEY) == b"new"


def test_an_entry_under_another_name_does_not_pass(root: Path) -> None:
    cache.store("obj", KEY, b"x")
    other = cache.cache_key("another", target=False)
    os.rename(the_only_file(root), root / "obj" / other)
    assert cache.load("obj", other) is None


def test_a_folder_others_may_write_to_is_not_used(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    assert not cache.store("obj", KEY, b"x")
    assert cache.load("obj", KEY) is None
    assert "others" in cache.info().problem


def test_a_file_in_place_of_the_folder(root: Path) -> None:
    root.write_text("not a folder")
    assert not cache.store("obj", KEY, b"x")
    assert cache.load("obj", KEY) is None
    assert cache.info().problem


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", "/proc/no/such/place")
    assert not cache.store("obj", KEY, b"x")
    assert cache.load("obj", KEY) is None
    assert cache.info().entries == 0


def test_a_read_only_folder_is_read_but_not_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store("obj", KEY, b"old")

    def refuse(*args: object, **options: object) -> int:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(os, "open", refuse)  # permissions do not stop a test that runs as root
    other = cache.cache_key("another", target=False)
    assert not cache.store("obj", other, b"x")
    monkeypatch.undo()
    monkeypatch.setenv("RLX_CACHE_DIR", str(root))
    assert "read-only" in cache.info().problem
    assert cache.load("obj", KEY) == b"old"


def test_clear_removes_entries_and_leftovers(root: Path) -> None:
    cache.store("obj", KEY, b"x")
    (root / "obj" / ".1-2-3.tmp").write_bytes(b"half")
    assert cache.info().entries == 1
    cache.clear()
    assert [path for path in root.rglob("*") if path.is_file()] == []
    info = cache.info()
    assert (info.hits, info.misses, info.entries, info.bytes) == (0, 0, 0, 0)


def test_prune_removes_the_oldest(root: Path) -> None:
    keys = [cache.cache_key(str(number), target=False) for number in range(4)]
    for age, key in enumerate(keys):
        cache.store("obj", key, b"x" * 1000)
        os.utime(root / "obj" / key, (age, age))
    cache.prune(limit=1 << 20)
    assert cache.info().entries == 4
    cache.prune(limit=4000)
    assert cache.load("obj", keys[0]) is None
    assert cache.load("obj", keys[3]) is not None
    assert cache.info().bytes <= 2000


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RLX_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/rlxlang"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/rlxlang"),
        ({"HOME": "/h"}, "/h/.cache/rlxlang"),
    ],
)
def test_place_of_the_folder(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str) -> None:
    for name in ("RLX_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.folder() == Path(expected)


def test_many_processes_store_the_same_entry(root: Path) -> None:
    code = (
        "from rlxlang.backends.llvm import cache\n"
        f"key = {KEY!r}\n"
        "for _ in range(50):\n"
        "    assert cache.store('obj', key, b'z' * 5000)\n"
        "    assert cache.load('obj', key) == b'z' * 5000\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert cache.load("obj", KEY) == b"z" * 5000
