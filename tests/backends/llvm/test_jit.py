from __future__ import annotations

import ctypes
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlxlang.backends.llvm import cache, jit
from rlxlang.diagnostics.errors import RlxBackendError

ADD = """
define i64 @add(i64 %a, i64 %b) {
  %c = add i64 %a, %b
  ret i64 %c
}
"""
SINE = """
declare float @sinf(float)
define float @sine(float %x) {
  %y = call float @sinf(float %x)
  ret float %y
}
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    cache.clear()
    return tmp_path


def call_add(loaded: jit.Loaded) -> int:
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    return int(signature(loaded.address("add"))(40, 2))


def test_compile_load_call() -> None:
    assert call_add(jit.compile_and_load(ADD, ["add"])) == 42


@pytest.mark.parametrize("opt", [1, 2, 3])
@pytest.mark.parametrize("light_passes", [False, True])
def test_levels_and_light_passes(opt: int, light_passes: bool) -> None:
    ir = ADD.replace(
        "%c = add i64 %a, %b",
        "%p = alloca i64\n store i64 %a, ptr %p\n %d = load i64, ptr %p\n %c = add i64 %d, %b",
    )
    obj = jit.compile_object(ir, opt=opt, light_passes=light_passes)
    assert call_add(jit.load(obj, ["add"])) == 42


def test_light_passes_remove_stack_slots() -> None:
    ir = ADD.replace(
        "%c = add i64 %a, %b",
        "%p = alloca i64\n store i64 %a, ptr %p\n %d = load i64, ptr %p\n %c = add i64 %d, %b",
    )
    plain = jit.emit_assembly(ir)
    light = jit.emit_assembly(ir, light_passes=True)
    assert plain.count("\n") > light.count("\n")


def test_light_passes_can_run_many_times() -> None:
    for number in range(20):
        jit.compile_object(ADD.replace("@add", f"@add{number}"), light_passes=True)


def test_second_compilation_comes_from_disk() -> None:
    first = jit.compile_object(ADD)
    assert (cache.info().hits, cache.info().misses) == (0, 1)
    assert jit.compile_object(ADD) == first
    assert (cache.info().hits, cache.info().misses) == (1, 1)
    jit.compile_object(ADD, opt=3)
    assert cache.info().misses == 2


def test_a_given_key_stands_for_the_text() -> None:
    key = cache.cache_key("some graph")
    first = jit.compile_object(ADD, key)
    assert jit.compile_object("this is not read", key) == first


def test_damaged_objects_are_compiled_again(root: Path) -> None:
    first = jit.compile_object(ADD)
    (file,) = (root / "obj").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert jit.compile_object(ADD) == first
    assert cache.load("obj", file.name) == first


def test_without_a_usable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", "/proc/nowhere")
    assert call_add(jit.compile_and_load(ADD, ["add"])) == 42


def test_libm_is_resolved() -> None:
    loaded = jit.compile_and_load(SINE, ["sine"])
    sine = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.address("sine"))
    assert sine(1.0) == pytest.approx(math.sin(1.0), abs=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "expf",
        "logf",
        "sinf",
        "cosf",
        "tanf",
        "asinf",
        "acosf",
        "atanf",
        "powf",
        "erff",
        "lgammaf",
        "exp",
        "erf",
    ],
)
def test_names_of_libm(name: str) -> None:
    number = "double" if name in ("exp", "erf") else "float"
    arguments = ", ".join([number] * (2 if name == "powf" else 1))
    ir = f"declare {number} @{name}({arguments})\ndefine ptr @get() {{\n ret ptr @{name}\n}}"
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(jit.compile_and_load(ir, ["get"]).address("get"))()


def test_given_symbols_are_bound() -> None:
    base = jit.compile_and_load(ADD, ["add"])
    ir = """
declare i64 @imported(i64, i64)
define i64 @add(i64 %a, i64 %b) {
  %c = call i64 @imported(i64 %a, i64 %b)
  ret i64 %c
}
"""
    loaded = jit.compile_and_load(ir, ["add"], {"imported": base.address("add"), "not_used": 1})
    assert call_add(loaded) == 42
    assert loaded.symbols() == {"add": loaded.address("add")}


def test_the_same_object_loads_twice() -> None:
    obj = jit.compile_object(ADD)
    first, second = jit.load(obj, ["add"]), jit.load(obj, ["add"])
    assert first.address("add") != second.address("add")
    del first
    assert call_add(second) == 42


def test_a_missing_symbol_is_an_internal_fault(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RlxBackendError, match="internal fault"):
        jit.compile_and_load(SINE.replace("sinf", "no_such_function"), ["sine"])
    capfd.readouterr()


@pytest.mark.parametrize(
    "ir",
    [
        "define i64 @f() {\n ret i64 %nothing\n}",
        "define i32 @f(i1 %c) {\n br i1 %c, label %x, label %y\n"
        "x:\n %b = add i32 1, 1\n br label %y\ny:\n ret i32 %b\n}",
    ],
    ids=["syntax", "dominance"],
)
def test_invalid_ir_is_an_internal_fault_with_a_dump(ir: str) -> None:
    with pytest.raises(RlxBackendError, match="internal fault") as caught:
        jit.compile_object(ir)
    place = re.search(r"written to (\S+\.ll)", str(caught.value))
    assert place
    dump = Path(place[1])
    assert dump.read_text() == ir
    dump.unlink()


def test_no_address_of_this_process_in_objects(root: Path) -> None:
    """Two processes with different address spaces make the same object."""
    here = jit.compile_object(SINE)
    code = f"import sys; from rlxlang.backends.llvm import jit\nsys.stdout.buffer.write(jit.compile_object({SINE!r}))"
    cache.clear()
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == here
