from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlxlang.backends.llvm import jit, pool
from rlxlang.backends.llvm.runtime import Runtime, runtime
from rlxlang.diagnostics.errors import RlxBackendError

BODIES = """
declare i32 @parallel_for(ptr, ptr, i64, i64)
declare i32 @sched_yield()

; ctx[i] += i + 1 for i in the range
define i32 @count(ptr %ctx, i64 %lo, i64 %hi, i64 %thread) {
entry:
  br label %loop
loop:
  %i = phi i64 [%lo, %entry], [%i1, %loop]
  %at = getelementptr i64, ptr %ctx, i64 %i
  %old = load i64, ptr %at
  %i1 = add i64 %i, 1
  %new = add i64 %old, %i1
  store i64 %new, ptr %at
  %more = icmp slt i64 %i1, %hi
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

; ctx[i] = 1 + thread for the first i of the range
define i32 @who(ptr %ctx, i64 %lo, i64 %hi, i64 %thread) {
  %at = getelementptr i64, ptr %ctx, i64 %lo
  %t = add i64 %thread, 1
  store i64 %t, ptr %at
  ret i32 0
}

; wait until ctx[0] ranges are inside at once, or for ctx[1] turns; ctx[2] counts them, ctx[3 + lo] gets 1 + thread
define i32 @meet(ptr %ctx, i64 %lo, i64 %hi, i64 %thread) {
entry:
  %need = load i64, ptr %ctx
  %turns_at = getelementptr i64, ptr %ctx, i64 1
  %turns = load i64, ptr %turns_at
  %count_at = getelementptr i64, ptr %ctx, i64 2
  %arrived = atomicrmw add ptr %count_at, i64 1 seq_cst
  br label %wait
wait:
  %k = phi i64 [0, %entry], [%k1, %again]
  %here = load atomic i64, ptr %count_at seq_cst, align 8
  %all = icmp sge i64 %here, %need
  br i1 %all, label %met, label %again
again:
  %y = call i32 @sched_yield()
  %k1 = add i64 %k, 1
  %patient = icmp slt i64 %k1, %turns
  br i1 %patient, label %wait, label %missed
met:
  %offset = add i64 %lo, 3
  %at = getelementptr i64, ptr %ctx, i64 %offset
  %t = add i64 %thread, 1
  store i64 %t, ptr %at
  ret i32 0
missed:
  ret i32 77
}

; status 5 at index 50000, else ctx[i] = 1
define i32 @fail(ptr %ctx, i64 %lo, i64 %hi, i64 %thread) {
  %bad = icmp eq i64 %lo, 50000
  br i1 %bad, label %no, label %yes
no:
  ret i32 5
yes:
  %at = getelementptr i64, ptr %ctx, i64 %lo
  store i64 1, ptr %at
  ret i32 0
}

; for each i: a region of 100 within a row of ctx
define i32 @nested(ptr %ctx, i64 %lo, i64 %hi, i64 %thread) {
entry:
  br label %loop
loop:
  %i = phi i64 [%lo, %entry], [%i1, %loop]
  %offset = mul i64 %i, 100
  %row = getelementptr i64, ptr %ctx, i64 %offset
  %s = call i32 @parallel_for(ptr @count, ptr %row, i64 100, i64 7)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %hi
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
NAMES = ("count", "who", "meet", "fail", "nested")
ParallelFor = Callable[[int, np.ndarray, int, int], int]

# For subprocesses: the same bodies, a pool of four threads, `run(name, array, n, grain)`.
PRELUDE = f"""
import ctypes, os, sys, threading, time
import numpy as np
from rlxlang.backends.llvm import jit, pool
from rlxlang.backends.llvm.runtime import runtime
bodies = jit.compile_and_load({BODIES!r}, {NAMES!r}, runtime().symbols())
native = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
    runtime().addresses["parallel_for"])
def run(name, array, n, grain):
    return native(bodies.address(name), array.ctypes.data, n, grain)
def counted():
    data = np.zeros(1000, np.int64)
    assert run("count", data, 1000, 10) == 0
    assert np.array_equal(data, np.arange(1, 1001)), data
pool.set_threads(4)
"""


@pytest.fixture(scope="module")
def native() -> Runtime:
    return runtime()


@pytest.fixture(scope="module")
def bodies(native: Runtime) -> jit.Loaded:
    return jit.compile_and_load(BODIES, NAMES, native.symbols())


@pytest.fixture
def four_threads() -> Iterator[None]:
    with pool.threads(4):
        yield


@pytest.fixture
def parallel_for(native: Runtime, four_threads: None) -> ParallelFor:
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = signature(native.addresses["parallel_for"])
    return lambda fn, ctx, n, grain: int(function(fn, ctx.ctypes.data, n, grain))


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_index_runs_once(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    draw = random.Random(5)
    for _ in range(3000):
        n, grain = draw.randrange(0, 400), draw.randrange(-2, 120)
        data = np.zeros(n + 1, np.int64)
        assert parallel_for(bodies.address("count"), data, n, grain) == 0
        assert np.array_equal(data[:n], np.arange(1, n + 1)), (n, grain)
        assert data[n] == 0


def test_ranges_keep_to_the_grain(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    data = np.zeros(103, np.int64)
    parallel_for(bodies.address("who"), data, 103, 10)
    starts = np.flatnonzero(data)
    # The whole at once when no worker could be had, else a range for every ten.
    assert list(starts) in ([0], list(range(0, 103, 10)))
    assert set(data[starts]) <= {1, 2, 3, 4}


def test_four_threads_meet_and_have_different_numbers(
    parallel_for: ParallelFor, bodies: jit.Loaded, native: Runtime
) -> None:
    data = np.array([4, 10_000_000, 0, 0, 0, 0, 0], np.int64)
    assert parallel_for(bodies.address("meet"), data, 4, 1) == 0
    assert sorted(data[3:]) == [1, 2, 3, 4]
    assert native.workers() >= 3


def test_a_cap_bounds_the_thread_number(bodies: jit.Loaded, native: Runtime, four_threads: None) -> None:
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
    )
    capped = signature(native.addresses["parallel_for_capped"])
    for most in (1, 2, 3):
        seen: set[int] = set()
        for _ in range(200):
            data = np.zeros(40, np.int64)
            assert capped(bodies.address("who"), data.ctypes.data, 40, 1, most) == 0
            seen |= set(data[data > 0].tolist())
        assert max(seen) <= most


def test_the_limit_bounds_the_thread_number(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    for n in (1, 2):
        with pool.threads(n):
            for _ in range(200):
                data = np.zeros(40, np.int64)
                parallel_for(bodies.address("who"), data, 40, 1)
                assert data.max() <= n


def test_the_first_error_is_returned_and_cancels(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    for _ in range(20):
        data = np.zeros(100_000, np.int64)
        assert parallel_for(bodies.address("fail"), data, 100_000, 1) == 5
        assert data.sum() < 100_000 - 1
    fine = np.zeros(50, np.int64)
    assert parallel_for(bodies.address("count"), fine, 50, 3) == 0
    assert np.array_equal(fine, np.arange(1, 51))


def test_nested_regions(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    for _ in range(100):
        data = np.zeros((20, 100), np.int64)
        assert parallel_for(bodies.address("nested"), data, 20, 1) == 0
        assert np.array_equal(data, np.broadcast_to(np.arange(1, 101), (20, 100)))


def test_concurrent_callers(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    wrong: list[int] = []

    def call(number: int) -> None:
        for n in range(1, 400):
            data = np.zeros(n, np.int64)
            parallel_for(bodies.address("count"), data, n, 3)
            if not np.array_equal(data, np.arange(1, n + 1)):
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_workers_that_sleep_are_woken(parallel_for: ParallelFor, bodies: jit.Loaded) -> None:
    pause = threading.Event()
    for _ in range(20):
        pause.wait(0.003)  # far longer than the workers spin
        data = np.array([2, 10_000_000, 0, 0, 0], np.int64)
        assert parallel_for(bodies.address("meet"), data, 2, 1) == 0


def test_workers_start_at_the_first_parallel_call() -> None:
    done = run_script("""
assert runtime().workers() == 0
run("count", np.zeros(10, np.int64), 10, 10)
assert runtime().workers() == 0
counted()
assert runtime().workers() == 3
assert native is not None and ctypes.CFUNCTYPE(ctypes.c_int32)(runtime().addresses["pool_threads"])() == 4
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_forks_while_another_thread_is_in_a_region() -> None:
    done = run_script("""
import warnings
warnings.simplefilter("ignore")
stop = False
def busy():
    data = np.zeros(20000, np.int64)
    while not stop:
        run("count", data, 20000, 100)
threading.Thread(target=busy).start()
for _ in range(25):
    child = os.fork()
    if child == 0:
        counted()
        os._exit(0 if runtime().workers() == 3 else 9)
    assert os.waitpid(child, 0)[1] == 0
    counted()
stop = True
""")
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_pool_of_processes() -> None:
    done = run_script("""
import multiprocessing
def task(n):
    counted()
    return n
counted()
with multiprocessing.get_context("fork").Pool(2) as processes:
    assert processes.map(task, range(8)) == list(range(8))
""")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("raise ValueError('end')", 1),
        ("pool.set_threads(1)", 0),
        ("run('meet', np.array([99, 3000, 0] + [0] * 9, np.int64), 9, 1)", 0),
    ],
)
def test_exit_codes(ending: str, code: int) -> None:
    assert run_script(f"counted()\n{ending}").returncode == code


@pytest.mark.parametrize("turns", [3_000, 1_000_000_000])
def test_exit_while_a_daemon_thread_is_in_a_region(turns: int) -> None:
    done = run_script(f"""
counted()
data = np.array([99, {turns}, 0] + [0] * 9, np.int64)
def region():
    while True:
        data[2] = 0
        run("meet", data, 9, 1)
threading.Thread(target=region, daemon=True).start()
while data[2] == 0:
    time.sleep(0.001)
sys.exit(6)
""")
    assert (done.returncode, done.stderr) == (6, "")


def test_interrupts_reach_the_main_thread() -> None:
    done = run_script("""
import signal
counted()
try:
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
except KeyboardInterrupt:
    counted()
    sys.exit(7)
""")
    assert (done.returncode, done.stderr) == (7, "")


def test_the_serial_pool() -> None:
    """What machines without a futex get."""
    text = pool._SERIAL + pool._UNCAPPED
    loaded = jit.compile_and_load(text, pool.EXPORTS)
    bodies = jit.compile_and_load(BODIES, NAMES, {"parallel_for": loaded.address("parallel_for")})
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    data = np.zeros(100, np.int64)
    assert signature(loaded.address("parallel_for"))(bodies.address("count"), data.ctypes.data, 100, 3) == 0
    assert np.array_equal(data, np.arange(1, 101))
    assert signature(loaded.address("parallel_for"))(bodies.address("count"), 0, 0, 3) == 0


@pytest.mark.parametrize("n", [0, -1, 1025, 2.0, True])
def test_bad_numbers_of_threads(n: int) -> None:
    before = pool.get_threads()
    with pytest.raises(ValueError, match="number of threads"):
        pool.set_threads(n)
    assert pool.get_threads() == before


def test_threads_restores(native: Runtime) -> None:
    before = pool.get_threads()
    with pool.threads(7):
        assert pool.get_threads() == 7
        assert ctypes.CFUNCTYPE(ctypes.c_int32)(native.addresses["pool_threads"])() == 7
    assert pool.get_threads() == before


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_THREADS", "3")
    assert pool._initial_threads() == 3
    for bad in ("0", "many", "-1", "2000"):
        monkeypatch.setenv("RLX_THREADS", bad)
        with pytest.raises(RlxBackendError, match="RLX_THREADS"):
            pool._initial_threads()
    monkeypatch.delenv("RLX_THREADS")
    assert pool._initial_threads() == pool.available_threads()


def test_available_threads_follow_affinity_and_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    for quota, expected in ((None, 6), (2.0, 2), (1.5, 2), (0.1, 1), (64.0, 6)):
        monkeypatch.setattr(pool, "cgroup_cpus", lambda quota=quota: quota)
        assert pool.available_threads() == expected


def test_quota_version_2(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("0::/outer/inner\n")
    inner = tmp_path / "mount" / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    assert pool.cgroup_cpus(proc, tmp_path / "mount") is None
    (inner.parent / "cpu.max").write_text("250000 100000\n")
    assert pool.cgroup_cpus(proc, tmp_path / "mount") == 2.5
    (inner / "cpu.max").write_text("100000 100000\n")
    assert pool.cgroup_cpus(proc, tmp_path / "mount") == 1.0


def test_quota_version_1(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("5:memory:/x\n4:cpu,cpuacct:/box\n")
    box = tmp_path / "mount" / "cpu,cpuacct" / "box"
    box.mkdir(parents=True)
    (box / "cpu.cfs_quota_us").write_text("-1\n")
    (box / "cpu.cfs_period_us").write_text("100000\n")
    assert pool.cgroup_cpus(proc, tmp_path / "mount") is None
    (box / "cpu.cfs_quota_us").write_text("300000\n")
    assert pool.cgroup_cpus(proc, tmp_path / "mount") == 3.0


def test_no_control_groups(tmp_path: Path) -> None:
    assert pool.cgroup_cpus(tmp_path / "absent", tmp_path) is None


@pytest.mark.parametrize(
    ("system", "machine", "parallel"),
    [("linux", "x86_64", True), ("linux", "aarch64", True), ("linux", "riscv64", False), ("darwin", "arm64", False)],
)
def test_the_pool_of_other_machines_is_valid_ir(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, parallel: bool
) -> None:
    import llvmlite.binding as llvm

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(pool.platform, "machine", lambda: machine)
    text = pool.pool_ir()
    llvm.parse_assembly(text).verify()
    assert "$" not in text
    assert ("pthread_create" in text) == parallel
