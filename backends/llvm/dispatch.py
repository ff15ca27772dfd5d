"""Calls from Python into compiled code: about 0.1 µs on the fast path.

A `NativeCall` remembers up to eight combinations of argument types and sizes together with the buffers to
use for them. `NativeCall.function` takes arguments that fit one of them straight into native code.
Everything else goes to the `slow` callable, which converts or refuses the arguments, may `record` a new
combination, and runs it with `run_recorded`.

The buffers of a recorded combination hold the temporaries, so two calls cannot share them: while a call
runs (it may have released the GIL), a further call of the same function takes the slow path, where
`run_recorded` raises `CallBusyError`. The slow path then runs in a context of its own with `run_with`, or
waits when the function has state.

Where the layout of Python objects is not the one known (`dispatch_ir.object_layout`), or with
RLX_DISPATCH=ctypes, the same class works in Python through ctypes, at some 20 µs a call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from rlxlang.backends.llvm import dispatch_ir
from rlxlang.backends.llvm.runtime import runtime
from rlxlang.diagnostics.errors import RlxBackendError, RlxRuntimeError

Result = Literal["none", "array", "tuple", "float"]
Fail = Callable[[int], object]

_METH_FASTCALL_KEYWORDS = 0x82
_KINDS = {"none": 0, "array": 1, "tuple": 2}
_FLOAT_KINDS = {"float32": 3, "float64": 4}


class CallBusyError(RuntimeError):
    """The recorded buffers are in use by another call of the same function."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Dtype and sizes of an array: of an argument, or of an output allocated anew by each call."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FixedOutput:
    """An output that lives in an array given once: state updated in place, or the scalar of a `float` result."""

    array: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
    """A recorded combination, with everything its entry points to."""

    inputs: tuple[ArraySpec, ...]
    outputs: tuple[ArraySpec | FixedOutput, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    buffers: np.ndarray
    sizes: np.ndarray
    result: Result
    release_gil: bool
    entry: np.ndarray
    owners: tuple[object, ...]


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeCall:
    """One compiled function as a Python callable.

    The callable owns everything it needs and is freed, with its buffers, when it is no longer referenced
    (or by the garbage collector, since `slow` usually refers back to it).

    Args: entry: address of `i32 main(ptr buffers, ptr sizes)`. slow: called with the arguments as they came
        whenever the fast path does not apply; keywords are passed on. name: `__name__` of the callable, for
        tracebacks. fail: called with the status when main returns another one than 0; it should raise. What
        it returns is the result of the call. When left out, RlxRuntimeError is raised. owners: objects to
        keep alive with the callable, such as the `Loaded` that `entry` lies in.

    Attributes:
        function: the callable: a built-in function, or a Python one in the ctypes mode.
    """

    def __init__(
        self,
        entry: int,
        slow: Callable[..., object],
        name: str,
        *,
        fail: Fail | None = None,
        owners: Sequence[object] = (),
    ) -> None:
        self.name = name
        self._entry = entry
        self._slow = slow
        self._fail: Fail = fail or _raise_status(name)
        self._owners = tuple(owners)
        self._records: list[_Record] = []
        self._retired: list[_Record] = []
        self._table = np.zeros(dispatch_ir.TABLE_ENTRIES + dispatch_ir.CAPACITY, np.int64)
        self._lock = threading.Lock()  # the busy flag of the ctypes mode
        dispatch = None if _ctypes_wanted() else runtime().dispatch
        if dispatch is None:
            self.function: Callable[..., Any] = self._call_python
            self._strict: Callable[..., Any] = self._call_python_strict
        else:
            self.function = _builtin(dispatch, name, (self._table, slow, self._fail, self))
            self._strict = _builtin(dispatch, name, (self._table, self._refuse, self._fail, self))
        _all_calls.add(self)

    @property
    def busy(self) -> bool:
        """Whether a call is running in the recorded buffers."""
        return bool(self._table[0]) or self._lock.locked()

    def record(
        self,
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec | FixedOutput],
        input_slots: Sequence[int],
        output_slots: Sequence[int],
        buffers: np.ndarray,
        sizes: np.ndarray,
        *,
        release_gil: bool = False,
        result: Result = "array",
        owners: Sequence[object] = (),
    ) -> None:
        """Take calls with these argument types and sizes on the fast path from now on.

        The eight combinations used last are kept; one with the same inputs is replaced.

        Args: inputs: dtype and sizes of every argument. outputs: the outputs in order. Result `array` has
            one, `tuple` any number; with `float` the first is a FixedOutput of one f32 or f64 element and
            the others, as with `none`, are FixedOutputs. input_slots: index in `buffers` that receives the
            address of each argument. output_slots: index in `buffers` for each output. buffers:
            uint64[slots], the first argument of main; the addresses of temporaries and constants are in
            place already. Kept alive and written to. sizes: int64[...], the second argument of main. Kept
            alive. release_gil: run main without the GIL (it costs 50 ns; for calls longer than some 20 µs).
            result: what the call returns: None, the array, a tuple of arrays, or the scalar as a Python
            float. owners: objects to keep alive with this combination, such as the arena.

        Raises:
            ValueError: the parts do not fit together.
        """
        taken, made = tuple(inputs), tuple(outputs)
        _check_buffers(buffers, sizes)
        _check_slots(tuple(input_slots), len(taken), buffers, "input")
        _check_slots(tuple(output_slots), len(made), buffers, "output")
        kind, scalar = _result_kind(result, made)
        for slot, output in zip(output_slots, made, strict=True):
            if isinstance(output, FixedOutput):
                buffers[slot] = output.array.ctypes.data
        header = (self._entry, buffers.ctypes.data, sizes.ctypes.data, int(release_gil), kind)
        words = [*header, len(taken), len(made), scalar]
        for spec, slot in zip(taken, input_slots, strict=True):
            words += (id(spec.dtype), slot, len(spec.shape), *spec.shape)
        for output, slot in zip(made, output_slots, strict=True):
            words += _output_words(output, slot)
        record = _Record(
            inputs=taken,
            outputs=made,
            input_slots=tuple(input_slots),
            output_slots=tuple(output_slots),
            buffers=buffers,
            sizes=sizes,
            result=result,
            release_gil=release_gil,
            entry=np.array(words, np.int64),
            owners=tuple(owners),
        )
        self._install(record)

    def run_recorded(self, args: Sequence[np.ndarray]) -> Any:
        """Run arguments that fit a recorded combination exactly; never calls `slow`.

        Raises:
            CallBusyError: another call is using the buffers; see `run_with`.
            RlxBackendError: no combination fits, which is a fault of the caller.
        """
        return self._strict(*args)

    def run_with(self, args: Sequence[np.ndarray], buffers: np.ndarray) -> Any:
        """Run arguments that fit a recorded combination in other buffers, beside a call that is running.

        Args:
            args: the arguments.
            buffers: uint64[slots] with temporaries and constants of its own, used by this call alone.

        Raises:
            RlxBackendError: no combination fits.
            ValueError: the combination has fixed outputs: it is state, and cannot run twice at a time.
        """
        record = self._find(args)
        if record is None:
            raise self._mismatch(args)
        if any(isinstance(output, FixedOutput) for output in record.outputs):
            raise ValueError(f"{self.name} updates state in place; its calls must follow one another")
        _check_buffers(buffers, record.sizes)
        return self._run(record, args, buffers)

    def _install(self, record: _Record) -> None:
        """Put a record in front; keep replaced ones alive as long as one of them may be running."""
        if not self.busy:
            self._retired.clear()
        same = [old for old in self._in_order() if old.inputs == record.inputs]
        others = [old for old in self._in_order() if old.inputs != record.inputs]
        keep = dispatch_ir.CAPACITY - 1
        self._retired += same + others[keep:]
        self._records = [record, *others[:keep]]
        first = dispatch_ir.TABLE_ENTRIES
        for position, kept in enumerate(self._records):
            self._table[first + position] = kept.entry.ctypes.data
        self._table[dispatch_ir.TABLE_COUNT] = len(self._records)
        if not self.busy:
            self._retired.clear()

    def _in_order(self) -> list[_Record]:
        """The records, most recently used first (native code reorders the table)."""
        by_address = {record.entry.ctypes.data: record for record in self._records}
        first = dispatch_ir.TABLE_ENTRIES
        return [by_address[int(address)] for address in self._table[first : first + len(self._records)]]

    def _find(self, args: Sequence[object]) -> _Record | None:
        """The combination that these arguments fit, by the rules of the fast path."""
        for record in self._records:
            if len(record.inputs) == len(args) and all(map(_fits, args, record.inputs)):
                return record
        return None

    def _mismatch(self, args: Sequence[object]) -> RlxBackendError:
        found = ", ".join(_describe(arg) for arg in args)
        return RlxBackendError(f"internal fault: {self.name} has no recorded call for ({found})")

    def _refuse(self, *args: object) -> object:
        """The slow path of `run_recorded`."""
        if self._find(args) is None:
            raise self._mismatch(args)
        raise CallBusyError(f"{self.name} is running in another thread")

    def _call_python(self, *args: Any, **named: Any) -> Any:
        """The fast path in Python."""
        record = None if named else self._find(args)
        if record is None or not self._lock.acquire(blocking=False):
            return self._slow(*args, **named)
        try:
            return self._run(record, args, record.buffers)
        finally:
            self._lock.release()

    def _call_python_strict(self, *args: Any) -> Any:
        record = self._find(args)
        if record is None or not self._lock.acquire(blocking=False):
            return self._refuse(*args)
        try:
            return self._run(record, args, record.buffers)
        finally:
            self._lock.release()

    def _run(self, record: _Record, args: Sequence[np.ndarray], buffers: np.ndarray) -> Any:
        """What the native path does after an entry has matched."""
        for slot, array in zip(record.input_slots, args, strict=True):
            buffers[slot] = array.ctypes.data
        results: list[np.ndarray] = []
        for slot, output in zip(record.output_slots, record.outputs, strict=True):
            array = output.array if isinstance(output, FixedOutput) else np.empty(output.shape, output.dtype)
            buffers[slot] = array.ctypes.data
            results.append(array)
        status = call_entry(self._entry, buffers, record.sizes, release_gil=record.release_gil)
        if status != 0:
            return self._fail(status)
        if record.result == "none":
            return None
        if record.result == "tuple":
            return tuple(results)
        return float(results[0].reshape(())[()]) if record.result == "float" else results[0]

    def _forget_running(self) -> None:
        """In the child of a fork, a call that another thread of the parent was making does not go on."""
        self._table[0] = 0
        self._lock = threading.Lock()


def call_entry(entry: int, buffers: np.ndarray, sizes: np.ndarray, *, release_gil: bool = True) -> int:
    """Call `i32 main(ptr buffers, ptr sizes)` at an address, through ctypes (2 µs).

    Args:
        entry: the address.
        buffers: uint64[slots].
        sizes: int64[...].
        release_gil: let other Python threads run meanwhile.

    Returns:
        The status; 0 is success.
    """
    _check_buffers(buffers, sizes)
    make = ctypes.CFUNCTYPE if release_gil else ctypes.PYFUNCTYPE
    main = make(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(entry)
    return int(main(buffers.ctypes.data, sizes.ctypes.data))


_all_calls: weakref.WeakSet[NativeCall] = weakref.WeakSet()


def _after_fork() -> None:
    for call in _all_calls:
        call._forget_running()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _new_builtin() -> Callable[..., Any]:
    function = ctypes.pythonapi.PyCFunction_NewEx
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.c_void_p)
    return prototype(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _builtin(dispatch: int, name: str, owned: tuple[object, ...]) -> Callable[..., Any]:
    """A built-in function over the dispatcher. CPython lets `self` own the method definition."""
    definition = _MethodDef(name.encode(), dispatch, _METH_FASTCALL_KEYWORDS, None)
    made: Callable[..., Any] = _new_builtin()(ctypes.byref(definition), (*owned, definition), None)
    return made


def _ctypes_wanted() -> bool:
    """Whether RLX_DISPATCH asks for the ctypes mode."""
    choice = os.environ.get("RLX_DISPATCH", "")
    if choice not in ("", "native", "ctypes"):
        raise RlxBackendError(f"RLX_DISPATCH is {choice!r}; it takes native or ctypes")
    return choice == "ctypes"


def _raise_status(name: str) -> Fail:
    def fail(status: int) -> object:
        raise RlxRuntimeError(f"{name} failed: compiled code returned status {status}")

    return fail


def _check_buffers(buffers: np.ndarray, sizes: np.ndarray) -> None:
    for array, dtype, what in ((buffers, np.uint64, "buffers"), (sizes, np.int64, "sizes")):
        if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
            raise ValueError(f"{what} must be a contiguous {np.dtype(dtype)} array of one axis")


def _check_slots(slots: tuple[int, ...], count: int, buffers: np.ndarray, what: str) -> None:
    if len(slots) != count:
        raise ValueError(f"{len(slots)} {what} slots for {count} {what}s")
    if any(not 0 <= slot < buffers.size for slot in slots):
        raise ValueError(f"{what} slots {slots} are outside the {buffers.size} buffers")


def _result_kind(result: Result, outputs: tuple[ArraySpec | FixedOutput, ...]) -> tuple[int, int]:
    """Number of the result kind, and the address of the scalar when it is a float."""
    if result in ("none", "float") and not all(isinstance(output, FixedOutput) for output in outputs):
        raise ValueError(f"a call with result {result!r} has fixed outputs only")
    if result == "array" and len(outputs) != 1:
        raise ValueError(f"a call with result 'array' has one output, not {len(outputs)}")
    if result != "float":
        return _KINDS[result], 0
    first = outputs[0] if outputs else None
    if not isinstance(first, FixedOutput) or first.array.size != 1 or first.array.dtype.name not in _FLOAT_KINDS:
        raise ValueError("the first output of a call with result 'float' is one f32 or f64 element")
    return _FLOAT_KINDS[first.array.dtype.name], first.array.ctypes.data


def _output_words(output: ArraySpec | FixedOutput, slot: int) -> tuple[int, ...]:
    if isinstance(output, FixedOutput):
        return (id(output.array), 0, slot, 0)
    return (0, id(output.dtype), slot, len(output.shape), *output.shape)


def _fits(array: object, spec: ArraySpec) -> bool:
    return (
        type(array) is np.ndarray
        and array.dtype is spec.dtype
        and array.shape == spec.shape
        and array.flags.c_contiguous
        and array.flags.aligned
    )


def _describe(arg: object) -> str:
    return f"{arg.dtype}{list(arg.shape)}" if isinstance(arg, np.ndarray) else type(arg).__name__
