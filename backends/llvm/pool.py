"""The thread pool of native code, written as LLVM IR, and the number of threads it may use.

Native interface (all symbols are exported by the runtime object):

    i32 parallel_for(ptr fn, ptr ctx, i64 n, i64 grain)
    i32 parallel_for_capped(ptr fn, ptr ctx, i64 n, i64 grain, i32 most)
    i32 fn(ptr ctx, i64 lo, i64 hi, i64 thread)
    i32 pool_threads()

`fn` is called for disjoint ranges [lo, hi) that cover [0, n), each at most `grain` long when several
threads work, and once for the whole of [0, n) when one does; so a result may depend on neither the ranges
nor the thread. It returns 0, or an error code: the first one is returned by `parallel_for` and ranges not
yet begun are dropped. n < 2**62.

`thread` tells apart the threads inside *one* call of `parallel_for`: the caller is 0, workers are 1, 2, …
below `pool_threads()`, and below `most` in the capped form. Scratch indexed by `thread` therefore belongs
to the context `ctx` of the call and is sized for the `most` that is passed (the number of threads can be
changed between calls). Two rules follow. A context with such scratch is used by one call at a time;
`dispatch` guarantees that. And a nested `parallel_for` runs on the thread that calls it, as thread 0, so
its scratch must lie on the stack.

One region runs at a time: the caller takes a try-lock, and a nested or concurrent caller that loses runs
its range serially. Workers start at the first parallel call. They spin for about 20 µs after a region, then
sleep on a futex. The generation word says that there is something new, the region word counts who is inside
and whether it is open: the caller closes it when the ranges are used up, so a worker that wakes late never
makes the caller wait.

Workers block all signals. The child of a fork starts with no workers and grows its own. The code is never
unmapped.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlxlang.diagnostics.errors import RlxBackendError

MAX_THREADS = 1024
"""Most threads the pool can have."""

EXPORTS = (
    "parallel_for",
    "parallel_for_capped",
    "pool_threads",
    "pool_set_threads",
    "pool_workers",
    "pool_stop",
    "pool_reset_after_fork",
)

_SPINS = 1500  # pauses before sleeping, about 20 µs
_OPEN = 1 << 30  # bit of the region word; below it the number of workers inside, above it the generation
_STOP_WAITS = 20_000  # times 100 µs: how long an exit waits for a region that another thread still runs

# Per machine: the number of the futex system call, and the instruction that tells the core we are spinning.
_FUTEX = {
    "x86_64": (202, "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": (98, "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

_wanted: int | None = None
_tell_native: Callable[[int], object] | None = None


def pool_ir() -> str:
    """LLVM IR of the pool for this machine; serial where there is no futex."""
    known = _FUTEX.get(platform.machine()) if sys.platform == "linux" else None
    if known is None:
        return _SERIAL + _UNCAPPED
    number, pause, declaration = known
    text = _PARALLEL + _UNCAPPED
    for name, value in (
        ("FUTEX", str(number)),
        ("PAUSE", pause),
        ("DECLARE_PAUSE", declaration),
        ("MAX_WORKERS", str(MAX_THREADS - 1)),
        ("SPINS", str(_SPINS)),
        ("OPEN", str(_OPEN)),
        ("CLOSE", str(~_OPEN)),
        ("STOP_WAITS", str(_STOP_WAITS)),
    ):
        text = text.replace(f"${name}$", value)
    return text


def available_threads() -> int:
    """CPUs this process may use: its affinity mask, limited by the quota of its control group (rounded up)."""
    if sys.platform == "linux":
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = cgroup_cpus()
    if quota is not None:
        count = min(count, max(1, math.ceil(quota)))
    return min(count, MAX_THREADS)


def cgroup_cpus(proc: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPUs granted by the quota of this process's control group or any group above it; None without a quota.

    Args:
        proc: file that names the groups of this process.
        mount: where the control groups are mounted.
    """
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return None
    shares: list[float] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            shares.extend(_quotas(mount, path, _quota_v2))
        elif "cpu" in controllers.split(","):
            for folder in {"cpu", controllers}:
                shares.extend(_quotas(mount / folder, path, _quota_v1))
    return min(shares, default=None)


def get_threads() -> int:
    """Threads that native code may use, the caller included.

    The last `set_threads`, else the environment variable RLX_THREADS, else `available_threads()`.

    Raises:
        RlxBackendError: RLX_THREADS is not a positive integer.
    """
    global _wanted
    if _wanted is None:
        _wanted = _initial_threads()
    return _wanted


def set_threads(n: int) -> None:
    """Let native code of this process use `n` threads, the caller included.

    Running calls keep what they began with. Workers that are no longer wanted sleep.

    Args:
        n: in [1, 1024].

    Raises:
        ValueError: `n` is outside that range.
    """
    global _wanted
    if type(n) is not int or not 1 <= n <= MAX_THREADS:
        raise ValueError(f"the number of threads is an integer from 1 to {MAX_THREADS}, not {n!r}")
    _wanted = n
    if _tell_native is not None:
        _tell_native(n)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """`set_threads(n)` within a `with` block; it holds for the whole process, not for the Python thread alone.

    Raises:
        ValueError: `n` is outside [1, 1024].
    """
    before = get_threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


def bind(tell_native: Callable[[int], object]) -> None:
    """Connect the loaded pool: it is told the number of threads now and whenever that changes."""
    global _tell_native
    tell_native(get_threads())
    _tell_native = tell_native


def _initial_threads() -> int:
    text = os.environ.get("RLX_THREADS", "").strip()
    if not text:
        return available_threads()
    if not text.isdecimal() or not 1 <= int(text) <= MAX_THREADS:
        raise RlxBackendError(f"RLX_THREADS is {text!r}; it takes an integer from 1 to {MAX_THREADS}")
    return int(text)


def _quotas(mount: Path, path: str, read: Callable[[Path], float | None]) -> Iterator[float]:
    """Quotas of a group and of those above it. Inside a container the path may not exist; the root then counts."""
    group = mount / path.lstrip("/")
    for folder in (group, *group.parents):
        quota = read(folder)
        if quota is not None:
            yield quota
        if folder == mount:
            return


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


_UNCAPPED = """
define i32 @parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %grain) {
  %status = tail call i32 @parallel_for_capped(ptr %fn, ptr %ctx, i64 %n, i64 %grain, i32 2147483647)
  ret i32 %status
}
"""

_SERIAL = """
define i32 @parallel_for_capped(ptr %fn, ptr %ctx, i64 %n, i64 %grain, i32 %most) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %nothing
nothing:
  ret i32 0
run:
  %status = call i32 %fn(ptr %ctx, i64 0, i64 %n, i64 0)
  ret i32 %status
}
define i32 @pool_threads() {
  ret i32 1
}
define i32 @pool_workers() {
  ret i32 0
}
define void @pool_set_threads(i32 %count) {
  ret void
}
define void @pool_stop() {
  ret void
}
define void @pool_reset_after_fork() {
  ret void
}
"""

_PARALLEL = """
; The region being run. Written by the owner of @busy before it opens the region, read by whoever joined it.
@job_fn = internal global ptr null
@job_ctx = internal global ptr null
@job_n = internal global i64 0
@job_grain = internal global i64 1
@job_team = internal global i64 1
@job_error = internal global i32 0, align 4
; Each word that threads contend for has cache lines of its own.
@next = internal global i64 0, align 128           ; first index not handed out
@generation = internal global i32 0, align 128     ; changes with every region; workers sleep on it
@sleepers = internal global i32 0, align 128
@region = internal global i64 0, align 128         ; generation << 32 | OPEN | workers inside
@owner_sleeps = internal global i32 0, align 128
@busy = internal global i32 0, align 128           ; the try-lock
@shutdown = internal global i32 0, align 4
@limit = internal global i32 1, align 4            ; threads allowed, caller included
@workers = internal global i32 0, align 4          ; threads started; changed by the owner of @busy only
@handles = internal global [$MAX_WORKERS$ x i64] zeroinitializer

$DECLARE_PAUSE$
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @usleep(i32)
declare ptr @memset(ptr, i32, i64)

; Take ranges until there are none left.
define internal void @work(i64 %thread) {
entry:
  %fn = load ptr, ptr @job_fn
  %ctx = load ptr, ptr @job_ctx
  %n = load i64, ptr @job_n
  %grain = load i64, ptr @job_grain
  br label %take
take:
  %lo = atomicrmw add ptr @next, i64 %grain seq_cst
  %rest = sub i64 %n, %lo
  %some = icmp sgt i64 %rest, 0
  br i1 %some, label %run, label %done
run:
  %short = icmp slt i64 %rest, %grain
  %length = select i1 %short, i64 %rest, i64 %grain
  %hi = add i64 %lo, %length
  %status = call i32 %fn(ptr %ctx, i64 %lo, i64 %hi, i64 %thread)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %take, label %failed
failed:
  %first = cmpxchg ptr @job_error, i32 0, i32 %status seq_cst seq_cst
  store atomic i64 %n, ptr @next seq_cst, align 8
  br label %done
done:
  ret void
}

; A worker: its argument is thread << 32 | generation at which it was created.
define internal ptr @worker(ptr %argument) {
entry:
  %packed = ptrtoint ptr %argument to i64
  %thread = lshr i64 %packed, 32
  %born = trunc i64 %packed to i32
  br label %wait
wait:
  %seen = phi i32 [%born, %entry], [%seen, %slept], [%joined, %next_region]
  br label %spin
spin:
  %turn = phi i32 [0, %wait], [%turn1, %spin_more]
  %now = load atomic i32, ptr @generation acquire, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %woken, label %spin_more
spin_more:
  $PAUSE$
  %turn1 = add i32 %turn, 1
  %patient = icmp slt i32 %turn1, $SPINS$
  br i1 %patient, label %spin, label %sleep
sleep:
  ; Announce first, then sleep if nothing changed; the owner changes the generation, then looks for sleepers.
  %before = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %waited = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @generation, i32 128, i32 %seen, ptr null)
  %after = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %slept
slept:
  br label %wait
woken:
  %stop = load atomic i32, ptr @shutdown acquire, align 4
  %stopping = icmp ne i32 %stop, 0
  br i1 %stopping, label %exit, label %join
exit:
  ret ptr null
join:
  %state = load atomic i64, ptr @region acquire, align 8
  %state_generation = lshr i64 %state, 32
  %joined = trunc i64 %state_generation to i32
  %open_bit = and i64 %state, $OPEN$
  %open = icmp ne i64 %open_bit, 0
  br i1 %open, label %enter, label %next_region
enter:
  %entered = add i64 %state, 1
  %swap = cmpxchg ptr @region, i64 %state, i64 %entered seq_cst seq_cst
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %inside, label %join
inside:
  %team = load i64, ptr @job_team
  %member = icmp ult i64 %thread, %team
  br i1 %member, label %help, label %leave
help:
  call void @work(i64 %thread)
  br label %leave
leave:
  ; The low half was 1 only if the region is closed (no OPEN bit) and this was the last worker inside.
  %left = atomicrmw sub ptr @region, i64 1 seq_cst
  %left_low = trunc i64 %left to i32
  %last = icmp eq i32 %left_low, 1
  br i1 %last, label %last_out, label %next_region
last_out:
  %owner = load atomic i32, ptr @owner_sleeps seq_cst, align 4
  %asleep = icmp ne i32 %owner, 0
  br i1 %asleep, label %wake_owner, label %next_region
wake_owner:
  %woke = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @region, i32 129, i32 1, ptr null)
  br label %next_region
next_region:
  br label %wait
}

; Start workers until there are %want. The caller owns @busy.
define internal void @grow(i32 %want) {
entry:
  %all = alloca [128 x i8], align 8
  %saved = alloca [128 x i8], align 8
  %filled = call ptr @memset(ptr %all, i32 255, i64 128)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %saved)     ; SIG_SETMASK; threads inherit the mask
  br label %more
more:
  %have = load i32, ptr @workers
  %fewer = icmp slt i32 %have, %want
  br i1 %fewer, label %start, label %done
start:
  %have1 = add i32 %have, 1
  %thread = zext i32 %have1 to i64
  %high = shl i64 %thread, 32
  %generation = load i32, ptr @generation
  %low = zext i32 %generation to i64
  %packed = or i64 %high, %low
  %argument = inttoptr i64 %packed to ptr
  %handle = getelementptr [$MAX_WORKERS$ x i64], ptr @handles, i64 0, i32 %have
  %status = call i32 @pthread_create(ptr %handle, ptr null, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %started, label %refused
started:
  store atomic i32 %have1, ptr @workers monotonic, align 4
  br label %more
refused:
  ; The system gives no more threads: do with those there are until the limit is set again.
  store atomic i32 %have1, ptr @limit monotonic, align 4
  br label %done
done:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %saved, ptr null)
  ret void
}

define i32 @parallel_for_capped(ptr %fn, ptr %ctx, i64 %n, i64 %grain, i32 %most) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %sized, label %nothing
nothing:
  ret i32 0
sized:
  %positive = icmp sgt i64 %grain, 0
  %g = select i1 %positive, i64 %grain, i64 1
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %capped = icmp slt i32 %most, %limit
  %team = select i1 %capped, i32 %most, i32 %limit
  %one_range = icmp sle i64 %n, %g
  %one_thread = icmp sle i32 %team, 1
  %alone = or i1 %one_range, %one_thread
  br i1 %alone, label %serial, label %lock
lock:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %staff, label %serial
serial:
  %serial_status = call i32 %fn(ptr %ctx, i64 0, i64 %n, i64 0)
  ret i32 %serial_status
staff:
  %wanted = sub i32 %limit, 1
  %have = load i32, ptr @workers
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %staffed, label %hire
hire:
  call void @grow(i32 %wanted)
  br label %staffed
staffed:
  %now_have = load i32, ptr @workers
  %any = icmp ne i32 %now_have, 0
  br i1 %any, label %publish, label %unlock
unlock:
  store atomic i32 0, ptr @busy release, align 4
  br label %serial
publish:
  %team64 = zext i32 %team to i64
  store ptr %fn, ptr @job_fn
  store ptr %ctx, ptr @job_ctx
  store i64 %n, ptr @job_n
  store i64 %g, ptr @job_grain
  store i64 %team64, ptr @job_team
  store i32 0, ptr @job_error
  store atomic i64 0, ptr @next monotonic, align 8
  %old = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %old, 1
  %new64 = zext i32 %new to i64
  %new_high = shl i64 %new64, 32
  %opened = or i64 %new_high, $OPEN$
  store atomic i64 %opened, ptr @region release, align 8
  %announced = atomicrmw xchg ptr @generation, i32 %new seq_cst
  %sleeping = load atomic i32, ptr @sleepers seq_cst, align 4
  %any_asleep = icmp sgt i32 %sleeping, 0
  br i1 %any_asleep, label %wake, label %run
wake:
  ; As many as there are ranges for; but all if some sleepers are outside the team, as any may be woken.
  %n1 = sub i64 %n, 1
  %others = udiv i64 %n1, %g
  %few = icmp ult i64 %others, 2147483647
  %others32 = trunc i64 %others to i32
  %whole_team = icmp sgt i32 %team, %now_have
  %exact = and i1 %few, %whole_team
  %count = select i1 %exact, i32 %others32, i32 2147483647
  %woke = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @generation, i32 129, i32 %count, ptr null)
  br label %run
run:
  call void @work(i64 0)
  %closed = atomicrmw and ptr @region, i64 $CLOSE$ seq_cst
  br label %spin
spin:
  %turn = phi i32 [0, %run], [%turn1, %spin_more], [0, %sleep]
  %state = load atomic i64, ptr @region acquire, align 8
  %inside = trunc i64 %state to i32
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %spin_more
spin_more:
  $PAUSE$
  %turn1 = add i32 %turn, 1
  %patient = icmp slt i32 %turn1, $SPINS$
  br i1 %patient, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr @owner_sleeps seq_cst, align 4
  %waited = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @region, i32 128, i32 %inside, ptr null)
  store atomic i32 0, ptr @owner_sleeps seq_cst, align 4
  br label %spin
done:
  %status = load atomic i32, ptr @job_error monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %status
}

define i32 @pool_threads() {
  %count = load atomic i32, ptr @limit monotonic, align 4
  ret i32 %count
}
define i32 @pool_workers() {
  %count = load atomic i32, ptr @workers monotonic, align 4
  ret i32 %count
}
define void @pool_set_threads(i32 %count) {
  store atomic i32 %count, ptr @limit monotonic, align 4
  ret void
}

; End the workers. The lock is kept, so that later calls (daemon threads during exit) run serially.
; A region that does not end in time keeps its workers; the end of the process takes them.
define void @pool_stop() {
entry:
  br label %lock
lock:
  %turn = phi i32 [0, %entry], [%turn1, %pause]
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %stop, label %pause
pause:
  %turn1 = add i32 %turn, 1
  %slept = call i32 @usleep(i32 100)
  %patient = icmp slt i32 %turn1, $STOP_WAITS$
  br i1 %patient, label %lock, label %done
stop:
  store atomic i32 1, ptr @shutdown seq_cst, align 4
  %announced = atomicrmw add ptr @generation, i32 1 seq_cst
  %woke = call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr @generation, i32 129, i32 2147483647, ptr null)
  br label %next
next:
  %have = load i32, ptr @workers
  %some = icmp sgt i32 %have, 0
  br i1 %some, label %join, label %done
join:
  %index = sub i32 %have, 1
  store i32 %index, ptr @workers
  %slot = getelementptr [$MAX_WORKERS$ x i64], ptr @handles, i64 0, i32 %index
  %handle = load i64, ptr %slot
  %joined = call i32 @pthread_join(i64 %handle, ptr null)
  br label %next
done:
  ret void
}

; In the child of a fork there are no workers, and whoever held the lock is gone.
define void @pool_reset_after_fork() {
  store atomic i32 0, ptr @workers monotonic, align 4
  store atomic i32 0, ptr @shutdown monotonic, align 4
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @owner_sleeps monotonic, align 4
  store atomic i64 0, ptr @region monotonic, align 8
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
"""
