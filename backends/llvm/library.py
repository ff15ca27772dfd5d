"""The way back from compiled code to Python, for routines that work on whole arrays.

Compiled code knows no address of Python: it calls the symbol `LIBRARY`, which is resolved when the object is loaded, and
names itself by a number that stands after the last buffer in the table of every call.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Mapping
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.backends.llvm.plan import LIBRARY, Plan
from rlxlang.types import Dim

if TYPE_CHECKING:
    from rlxlang.backends.llvm.executable import LlvmExecutable

Array: TypeAlias = "np.ndarray[Any, Any]"

FAILED = 77
"""Status of a run in which a routine has raised."""

_serial = count(1)
_programs: weakref.WeakValueDictionary[int, LlvmExecutable] = weakref.WeakValueDictionary()
_raised = threading.local()


def register(executable: LlvmExecutable) -> int:
    """The number by which calls of a program say whose they are."""
    number = next(_serial)
    _programs[number] = executable
    return number


def symbols() -> Mapping[str, int]:
    """What `jit.load` needs for objects that call routines."""
    address = ctypes.cast(_callback, ctypes.c_void_p).value
    assert address is not None
    return {LIBRARY: address}


def take_problem() -> BaseException | None:
    """What the last failed routine of this thread has raised."""
    problem = getattr(_raised, "problem", None)
    _raised.problem = None
    return problem


def _answer(program: int, number: int, places: int, sizes: int) -> int:
    try:
        _call(_programs[program].compiled_plan, number, places, sizes)
    except BaseException as problem:  # raised again once the compiled code has returned
        _raised.problem = problem
        return FAILED
    return 0


_callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(_answer)


def _call(plan: Plan, number: int, places: int, sizes: int) -> None:
    from rlxlang.kernels.library import call_routine

    library = plan.libraries[number]
    values = {dim: (ctypes.c_int64).from_address(sizes + 8 * k).value for k, dim in enumerate(plan.dims)}
    arrays: list[Array] = []
    for position, buffer in enumerate((*library.arguments, *library.results)):
        record = plan.buffers[buffer]
        shape = tuple(values[d] if isinstance(d, Dim) else d for d in record.shape)
        address = ctypes.c_void_p.from_address(places + 8 * position).value or 0
        arrays.append(_array(address, shape, record.dtype.numpy))
    given, targets = arrays[: len(library.arguments)], arrays[len(library.arguments) :]
    found = call_routine(library.routine, given, dict(library.options), library.where)
    for target, result in zip(targets, found, strict=True):
        target[...] = result


def _array(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    found: Array = memory.view(dtype).reshape(shape)
    return found
