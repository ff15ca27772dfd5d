from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from rlxlang.backends.llvm import dispatch, dispatch_ir, jit
from rlxlang.backends.llvm.dispatch import ArraySpec, CallBusyError, FixedOutput, NativeCall
from rlxlang.diagnostics.errors import RlxBackendError, RlxRuntimeError

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)

# sizes: [n, inputs, status, turns]. The outputs are the buffers after the inputs; each gets the sum of all inputs
# plus its own number. `hold` is the same after as many naps of 1 ms as `turns` says.
MAIN = """
declare i32 @usleep(i32)
define i32 @add(ptr %buffers, ptr %sizes) {
entry:
  %n = load i64, ptr %sizes
  %count_at = getelementptr i64, ptr %sizes, i64 1
  %count = load i64, ptr %count_at
  %status_at = getelementptr i64, ptr %sizes, i64 2
  %status = load i64, ptr %status_at
  %out_at = getelementptr ptr, ptr %buffers, i64 %count
  %out = load ptr, ptr %out_at
  br label %element
element:
  %i = phi i64 [0, %entry], [%i1, %stored]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %inputs, label %done
inputs:
  %k = phi i64 [0, %element], [%k1, %add_one]
  %sum = phi float [0.0, %element], [%sum1, %add_one]
  %some = icmp slt i64 %k, %count
  br i1 %some, label %add_one, label %stored
add_one:
  %in_at = getelementptr ptr, ptr %buffers, i64 %k
  %in = load ptr, ptr %in_at
  %x_at = getelementptr float, ptr %in, i64 %i
  %x = load float, ptr %x_at
  %sum1 = fadd float %sum, %x
  %k1 = add i64 %k, 1
  br label %inputs
stored:
  %y_at = getelementptr float, ptr %out, i64 %i
  store float %sum, ptr %y_at
  %i1 = add i64 %i, 1
  br label %element
done:
  %result = trunc i64 %status to i32
  ret i32 %result
}
define i32 @hold(ptr %buffers, ptr %sizes) {
entry:
  %turns_at = getelementptr i64, ptr %sizes, i64 3
  %turns = load i64, ptr %turns_at
  br label %nap
nap:
  %i = phi i64 [0, %entry], [%i1, %again]
  %more = icmp slt i64 %i, %turns
  br i1 %more, label %again, label %go
again:
  %slept = call i32 @usleep(i32 1000)
  %i1 = add i64 %i, 1
  br label %nap
go:
  %status = call i32 @add(ptr %buffers, ptr %sizes)
  ret i32 %status
}
; two outputs: a + b in buffers[2], a - b in buffers[3]
define i32 @both(ptr %buffers, ptr %sizes) {
entry:
  %n = load i64, ptr %sizes
  %a = load ptr, ptr %buffers
  %p1 = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %buffers, i64 2
  %s = load ptr, ptr %p2
  %p3 = getelementptr ptr, ptr %buffers, i64 3
  %d = load ptr, ptr %p3
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %ps = getelementptr float, ptr %s, i64 %i
  %pd = getelementptr float, ptr %d, i64 %i
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %vs = fadd float %va, %vb
  %vd = fsub float %va, %vb
  store float %vs, ptr %ps
  store float %vd, ptr %pd
  %i1 = add i64 %i, 1
  br label %head
done:
  ret i32 0
}
define i32 @half_f64(ptr %buffers, ptr %sizes) {
  %at = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %at
  store double 0.1, ptr %out
  ret i32 0
}
"""
MAIN = MAIN.replace("double 0.1", "double 0x3FB999999999999A")


@pytest.fixture(scope="module")
def code() -> jit.Loaded:
    return jit.compile_and_load(MAIN, ["add", "hold", "both", "half_f64"])


@pytest.fixture(params=["native", "ctypes"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RLX_DISPATCH", request.param)
    return str(request.param)


class Slow:
    """A slow path that keeps what it was given and answers "slow"."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def __call__(self, *args: object, **named: object) -> object:
        self.calls.append((args, named))
        return "slow"


def record_add(
    call: NativeCall,
    shape: tuple[int, ...],
    inputs: int = 2,
    *,
    status: int = 0,
    turns: int = 0,
    release_gil: bool = False,
) -> None:
    spec = ArraySpec(F32, shape)
    sizes = np.array([int(np.prod(shape)), inputs, status, turns], np.int64)
    call.record(
        [spec] * inputs,
        [spec],
        range(inputs),
        [inputs],
        np.zeros(inputs + 1, np.uint64),
        sizes,
        release_gil=release_gil,
    )


def numbers(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def add(code: jit.Loaded, slow: Slow, mode: str) -> NativeCall:
    call = NativeCall(code.address("add"), slow, "add", owners=[code])
    record_add(call, (3, 5))
    return call


def test_a_call(add: NativeCall, slow: Slow, mode: str) -> None:
    a = numbers(3, 5)
    result = add.function(a, 2 * a)
    assert type(result) is np.ndarray
    assert result.dtype is F32
    assert np.array_equal(result, 3 * a)
    assert result.flags.owndata
    assert slow.calls == []
    assert (type(add.function) is type(len)) == (mode == "native")
    if mode == "native":
        assert add.function.__name__ == "add"


class Derived(np.ndarray):
    pass


MISFITS: dict[str, Callable[[np.ndarray], tuple[Any, ...]]] = {
    "none": lambda a: (),
    "too few": lambda a: (a,),
    "too many": lambda a: (a, a, a),
    "dtype": lambda a: (a, a.astype(np.float64)),
    "byte order": lambda a: (a, a.astype(">f4")),
    "rank": lambda a: (a, a.reshape(15)),
    "size": lambda a: (a, a[:2]),
    "transposed sizes": lambda a: (a, a.reshape(5, 3)),
    "order": lambda a: (a, np.asfortranarray(a)),
    "strided": lambda a: (a, np.repeat(a, 2, axis=1)[:, ::2]),
    "subclass": lambda a: (a.view(Derived), a),
    "list": lambda a: (a.tolist(), a),
    "number": lambda a: (a, 1.0),
    "None": lambda a: (None, a),
    "unaligned": lambda a: (a, np.frombuffer(b"x" + a.tobytes(), np.float32, offset=1).reshape(3, 5)),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_misfits_go_to_the_slow_path_as_they_came(add: NativeCall, slow: Slow, misfit: str) -> None:
    args = MISFITS[misfit](numbers(3, 5))
    assert add.function(*args) == "slow"
    ((seen, named),) = slow.calls
    assert len(seen) == len(args)
    assert all(given is got for given, got in zip(args, seen, strict=True))
    assert named == {}
    assert not add.busy


def test_keywords_go_to_the_slow_path(add: NativeCall, slow: Slow) -> None:
    a = numbers(3, 5)
    assert add.function(a, b=a) == "slow"
    assert slow.calls[0][0][0] is a
    assert slow.calls[0][1]["b"] is a


def test_exceptions_of_the_slow_path_pass(code: jit.Loaded, mode: str) -> None:
    def slow(*args: object) -> object:
        raise KeyError("from the slow path")

    call = NativeCall(code.address("add"), slow, "add")
    with pytest.raises(KeyError, match="from the slow path"):
        call.function(1)
    assert not call.busy


def test_a_failing_status(code: jit.Loaded, slow: Slow, mode: str) -> None:
    call = NativeCall(code.address("add"), slow, "add")
    record_add(call, (4,), status=-7)
    a = numbers(4)
    for _ in range(3):
        with pytest.raises(RlxRuntimeError, match="status -7"):
            call.function(a, a)
    assert not call.busy


def test_a_failing_status_with_a_handler(code: jit.Loaded, slow: Slow, mode: str) -> None:
    def fail(status: int) -> object:
        raise IndexError(f"row {status}")

    call = NativeCall(code.address("add"), slow, "add", fail=fail)
    record_add(call, (4,), status=12)
    with pytest.raises(IndexError, match="row 12"):
        call.function(numbers(4), numbers(4))


def test_alternating_sizes_stay_on_the_fast_path(add: NativeCall, slow: Slow) -> None:
    for n in range(1, dispatch_ir.CAPACITY):
        record_add(add, (n,))
    shapes = [(3, 5), *((n,) for n in range(1, dispatch_ir.CAPACITY))]
    for _ in range(3):
        for shape in (*shapes, *reversed(shapes)):
            assert np.array_equal(add.function(numbers(*shape), numbers(*shape)), 2 * numbers(*shape))
    assert slow.calls == []


def test_the_least_recently_used_combination_goes(add: NativeCall, slow: Slow, mode: str) -> None:
    for n in range(1, dispatch_ir.CAPACITY):
        record_add(add, (n,))
    add.function(numbers(3, 5), numbers(3, 5))  # the oldest, used just now
    record_add(add, (100,))
    add.function(numbers(100), numbers(100))
    gone = (1,) if mode == "native" else (3, 5)  # the ctypes mode drops the oldest
    assert add.function(numbers(*gone), numbers(*gone)) == "slow"
    assert len(slow.calls) == 1


def test_recording_the_same_inputs_again_replaces(add: NativeCall) -> None:
    a = numbers(3, 5)
    for _ in range(20):
        record_add(add, (3, 5))
    record_add(add, (3, 5), status=1)
    with pytest.raises(RlxRuntimeError):
        add.function(a, a)
    assert len(add._records) == 1


@pytest.mark.parametrize("inputs", [0, 1, 3, 33, 1500])
def test_numbers_of_inputs(code: jit.Loaded, slow: Slow, mode: str, inputs: int) -> None:
    call = NativeCall(code.address("add"), slow, "add")
    record_add(call, (4,), inputs)
    a = np.ones(4, np.float32)
    assert np.array_equal(call.function(*[a] * inputs), np.full(4, inputs, np.float32))
    assert slow.calls == []


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1, 1, 2)])
def test_shapes(code: jit.Loaded, slow: Slow, mode: str, shape: tuple[int, ...]) -> None:
    call = NativeCall(code.address("add"), slow, "add")
    record_add(call, shape)
    a = np.ones(shape, np.float32)
    result = call.function(a, a)
    assert result.shape == shape
    assert np.array_equal(result, a + a)
    assert slow.calls == []


def both(code: jit.Loaded, slow: Slow, outputs: Sequence[ArraySpec | FixedOutput]) -> NativeCall:
    call = NativeCall(code.address("both"), slow, "both")
    spec = ArraySpec(F32, (6,))
    buffers = np.zeros(4, np.uint64)
    call.record([spec, spec], outputs, [0, 1], [2, 3], buffers, np.array([6]), result="tuple")
    return call


def test_several_outputs(code: jit.Loaded, slow: Slow, mode: str) -> None:
    spec = ArraySpec(F32, (6,))
    total, difference = both(code, slow, [spec, spec]).function(numbers(6), np.ones(6, np.float32))
    assert np.array_equal(total, numbers(6) + 1)
    assert np.array_equal(difference, numbers(6) - 1)


def test_fixed_outputs_are_returned_themselves(code: jit.Loaded, slow: Slow, mode: str) -> None:
    state = np.zeros(6, np.float32)
    call = both(code, slow, [ArraySpec(F32, (6,)), FixedOutput(state)])
    before = sys.getrefcount(state)
    for _ in range(50):
        _, fixed = call.function(numbers(6), np.ones(6, np.float32))
        assert fixed is state
        del fixed
    assert np.array_equal(state, numbers(6) - 1)
    assert sys.getrefcount(state) == before
    with pytest.raises(ValueError, match="in place"):
        call.run_with([numbers(6), numbers(6)], np.zeros(4, np.uint64))


def test_float_result_f32(code: jit.Loaded, slow: Slow, mode: str) -> None:
    loss = np.zeros((), np.float32)
    call = NativeCall(code.address("add"), slow, "step")
    spec = ArraySpec(F32, ())
    call.record(
        [spec, spec],
        [FixedOutput(loss)],
        [0, 1],
        [2],
        np.zeros(3, np.uint64),
        np.array([1, 2, 0, 0]),
        result="float",
    )
    result = call.function(np.array(0.25, np.float32), np.array(0.5, np.float32))
    assert type(result) is float
    assert result == 0.75


def test_float_result_f64(code: jit.Loaded, slow: Slow, mode: str) -> None:
    loss = np.zeros(1, np.float64)
    call = NativeCall(code.address("half_f64"), slow, "step")
    call.record(
        [ArraySpec(F32, ())], [FixedOutput(loss)], [0], [1], np.zeros(2, np.uint64), np.array([1]), result="float"
    )
    assert call.function(np.zeros((), np.float32)) == 0.1


def test_no_result(code: jit.Loaded, slow: Slow, mode: str) -> None:
    state = np.zeros(4, np.float32)
    call = NativeCall(code.address("add"), slow, "step")
    spec = ArraySpec(F32, (4,))
    sizes = np.array([4, 1, 0, 0])
    call.record([spec], [FixedOutput(state)], [0], [1], np.zeros(2, np.uint64), sizes, result="none")
    before = sys.getrefcount(None)
    results = [call.function(numbers(4)) for _ in range(1000)]
    assert results == [None] * 1000
    del results
    assert abs(sys.getrefcount(None) - before) < 100
    assert np.array_equal(state, numbers(4))


def test_references_do_not_drift(code: jit.Loaded, slow: Slow, mode: str) -> None:
    def refuse(*args: object) -> object:
        raise TypeError("no")

    a, wrong = numbers(6), numbers(7)
    spec = ArraySpec(F32, (6,))
    add = NativeCall(code.address("add"), refuse, "add")
    record_add(add, (6,))
    failing = NativeCall(code.address("add"), refuse, "add")
    record_add(failing, (6,), status=1000)  # a number that Python does not keep ready-made
    two = both(code, slow, [spec, spec])
    watched = (a, wrong, F32, add, add._table, add.function, two, failing, refuse, np.ndarray)
    two.function(a, a)
    gc.collect()  # or garbage of other tests, collected later, changes the counts
    before = [sys.getrefcount(thing) for thing in watched]
    blocks = sys.getallocatedblocks()
    for _ in range(1000):
        add.function(a, a)
        two.function(a, a)
        with pytest.raises(TypeError):
            add.function(a, wrong)
        with pytest.raises(RlxRuntimeError):
            failing.function(a, a)
    assert [sys.getrefcount(thing) for thing in watched] == before
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 300


def test_outputs_that_do_not_fit_in_memory(code: jit.Loaded, slow: Slow, mode: str) -> None:
    call = NativeCall(code.address("both"), slow, "both")
    spec, huge = ArraySpec(F32, (6,)), ArraySpec(F32, (1 << 45,))
    for outputs, result in (([huge, spec], "tuple"), ([spec, huge], "tuple")):
        call.record([spec, spec], outputs, [0, 1], [2, 3], np.zeros(4, np.uint64), np.array([6]), result=result)
        a = numbers(6)
        gc.collect()
        blocks = sys.getallocatedblocks()
        for _ in range(300):
            with pytest.raises(MemoryError):
                call.function(a, a)
        gc.collect()
        assert sys.getallocatedblocks() - blocks < 150
        assert not call.busy


def test_all_is_collected(code: jit.Loaded, mode: str) -> None:
    class Executable:
        def __init__(self) -> None:
            self.call = NativeCall(code.address("add"), self.slow, "add", owners=[self])
            record_add(self.call, (3,))

        def slow(self, *args: object) -> object:
            return self

    executable = Executable()
    function = executable.call.function
    watched = [weakref.ref(executable), weakref.ref(executable.call)]
    del executable
    gc.collect()
    assert np.array_equal(function(numbers(3), numbers(3)), 2 * numbers(3))
    assert function() is watched[0]()
    del function
    gc.collect()
    assert [reference() for reference in watched] == [None, None]


def test_run_recorded_does_not_call_slow(add: NativeCall, slow: Slow) -> None:
    a = numbers(3, 5)
    assert np.array_equal(add.run_recorded([a, a]), 2 * a)
    with pytest.raises(RlxBackendError, match=r"no recorded call for \(float32\[3, 5\], int\)"):
        add.run_recorded([a, 1])  # type: ignore[list-item]
    assert slow.calls == []


def test_slow_may_record_and_run(code: jit.Loaded, mode: str) -> None:
    recorded: list[tuple[int, ...]] = []

    def slow(*args: Any) -> object:
        arrays = [np.ascontiguousarray(arg, np.float32) for arg in args]
        if call._find(arrays) is None:
            recorded.append(arrays[0].shape)
            record_add(call, arrays[0].shape)
        return call.run_recorded(arrays)

    call = NativeCall(code.address("add"), slow, "add")
    for n in (3, 4, 3):
        assert np.array_equal(call.function([1] * n, numbers(n)), numbers(n) + 1)
        assert np.array_equal(call.function(numbers(n), numbers(n)), numbers(n) * 2)
    assert recorded == [(3,), (4,)]


@pytest.fixture
def held(code: jit.Loaded, slow: Slow, mode: str) -> Iterator[NativeCall]:
    """A call that runs in another thread for as long as the test."""
    call = NativeCall(code.address("hold"), slow, "hold")
    record_add(call, (4,), turns=300, release_gil=True)
    results: list[object] = []
    a = numbers(4)
    thread = threading.Thread(target=lambda: results.append(call.function(a, a)))
    thread.start()
    while not call.busy:
        threading.Event().wait(0.001)
    yield call
    thread.join()
    assert np.array_equal(results, [2 * a])
    assert not call.busy


def test_a_busy_call_takes_the_slow_path(held: NativeCall, slow: Slow) -> None:
    a = np.ones(4, np.float32)
    assert held.busy
    assert held.function(a, a) == "slow"
    with pytest.raises(CallBusyError):
        held.run_recorded([a, a])
    assert np.array_equal(held.run_with([a, a], np.zeros(3, np.uint64)), 2 * a)


def test_recording_while_a_call_runs(held: NativeCall, slow: Slow) -> None:
    assert held.busy
    for n in range(20):
        record_add(held, (n + 10,))
    record_add(held, (4,))
    gc.collect()
    junk = [np.full(64, -1, np.int64) for _ in range(1000)]  # would reuse memory that was freed too early
    assert held._retired
    assert len(junk) == 1000


@pytest.mark.parametrize("release_gil", [False, True])
def test_many_threads(code: jit.Loaded, mode: str, release_gil: bool) -> None:
    def slow(*args: Any) -> object:
        return call.run_with(args, np.zeros(3, np.uint64))

    call = NativeCall(code.address("add"), slow, "add")
    record_add(call, (2000,), release_gil=release_gil)
    wrong: list[int] = []

    def work(number: int) -> None:
        a = np.full(2000, number, np.float32)
        for _ in range(200):
            if not np.array_equal(call.function(a, a), a + a):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_bad_records(code: jit.Loaded, slow: Slow, mode: str) -> None:
    call = NativeCall(code.address("add"), slow, "add")
    spec, buffers, sizes = ArraySpec(F32, (2,)), np.zeros(2, np.uint64), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="slots"):
        call.record([spec], [spec], [0, 1], [1], buffers, sizes)
    with pytest.raises(ValueError, match="outside"):
        call.record([spec], [spec], [0], [2], buffers, sizes)
    with pytest.raises(ValueError, match="uint64"):
        call.record([spec], [spec], [0], [1], buffers.astype(np.int64), sizes)
    with pytest.raises(ValueError, match="int64"):
        call.record([spec], [spec], [0], [1], buffers, sizes.astype(np.int32))
    with pytest.raises(ValueError, match="one output"):
        call.record([spec], [spec, spec], [0], [1, 1], buffers, sizes)
    with pytest.raises(ValueError, match="fixed outputs"):
        call.record([spec], [spec], [0], [1], buffers, sizes, result="none")
    with pytest.raises(ValueError, match="one f32 or f64"):
        call.record([spec], [FixedOutput(np.zeros(2, F32))], [0], [1], buffers, sizes, result="float")
    assert call.function(numbers(2)) == "slow"


def test_call_entry(code: jit.Loaded) -> None:
    a, out = numbers(4), np.zeros(4, np.float32)
    buffers = np.array([a.ctypes.data, out.ctypes.data], np.uint64)
    for release_gil in (False, True):
        status = dispatch.call_entry(code.address("add"), buffers, np.array([4, 1, 9, 0]), release_gil=release_gil)
        assert status == 9
    assert np.array_equal(out, a)


def test_the_mode_is_checked(code: jit.Loaded, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_DISPATCH", "fast")
    with pytest.raises(RlxBackendError, match="RLX_DISPATCH"):
        NativeCall(code.address("add"), slow, "add")


def test_the_layout_check_notices_other_offsets() -> None:
    layout = dispatch_ir.object_layout()
    assert layout is not None
    wrong = dispatch_ir.ObjectLayout(head=layout.head, items=layout.items - 8)
    assert not dispatch_ir._tuple_agrees((layout, np.ndarray), wrong)
    # Offsets 8 bytes further on would read the rank as the address of the data.
    shifted = dispatch_ir.ObjectLayout(head=layout.head + 8, items=layout.items)
    assert not dispatch_ir._array_agrees(np.empty((3, 5), np.float32), shifted)


def test_without_a_known_layout(code: jit.Loaded, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlxlang.backends.llvm.runtime import Runtime

    monkeypatch.setattr(dispatch, "runtime", lambda: Runtime({}, None))
    call = NativeCall(code.address("add"), slow, "add")
    record_add(call, (4,))
    assert np.array_equal(call.function(numbers(4), numbers(4)), 2 * numbers(4))


SCRIPT = f"""
import os, sys, threading, time
import numpy as np
from rlxlang.backends.llvm import jit
from rlxlang.backends.llvm.dispatch import ArraySpec, NativeCall
code = jit.compile_and_load({MAIN!r}, ["hold"])
call = NativeCall(code.address("hold"), lambda *args: "slow", "hold")
spec = ArraySpec(np.dtype("f4"), (4,))
def record(turns):
    call.record([spec], [spec], [0], [1], np.zeros(2, np.uint64), np.array([4, 1, 0, turns]), release_gil=True)
a = np.ones(4, "f4")
def start(turns, daemon=False):
    record(turns)
    threading.Thread(target=call.function, args=(a,), daemon=daemon).start()
    while not call.busy:
        time.sleep(0.001)
"""


def run_script(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", SCRIPT + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_fork_during_a_call_of_another_thread(mode: str) -> None:
    done = run_script("""
start(200)
child = os.fork()
if child == 0:
    ready = not call.busy
    record(0)
    os._exit(0 if ready and np.array_equal(call.function(a), a) else 1)
assert os.waitpid(child, 0)[1] == 0
assert call.busy and call.function(a) == "slow"
""")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("turns", [20, 100_000])
def test_exit_while_a_daemon_thread_is_in_a_call(mode: str, turns: int) -> None:
    done = run_script(f"start({turns}, daemon=True)\nsys.exit(5)")
    assert (done.returncode, done.stderr) == (5, "")


def test_exit_waits_for_a_call_of_a_thread(mode: str) -> None:
    done = run_script("start(100)\nsys.exit(5)")
    assert (done.returncode, done.stderr) == (5, "")


def test_development_mode(mode: str) -> None:
    done = run_script(
        "record(0)\nfor _ in range(100): assert np.array_equal(call.function(a), a)\nassert call.function(1) == 'slow'",
        "-X",
        "dev",
        "-W",
        "error",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_addresses_of_numpy() -> None:
    symbols = dispatch_ir.numpy_symbols()
    assert symbols["rlx_ndarray_type"] == id(np.ndarray)
    assert ctypes.c_void_p(symbols["rlx_new_from_descr"]).value
