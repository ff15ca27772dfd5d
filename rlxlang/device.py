"""The devices that run graphs, threads, and the cache of compiled code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from rlxlang.diagnostics import RlxBackendError, RlxTypeError, RlxValueError, did_you_mean

if TYPE_CHECKING:
    from rlxlang.backends.base import Backend
    from rlxlang.backends.llvm.cache import CacheInfo
    from rlxlang.func import Func

KINDS = ("cpu", "opencl", "reference")
_GPUS = ("cuda", "gpu", "metal", "rocm")  # what devices are called elsewhere
_SPELLING = re.compile(r"([A-Za-z]+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Device:
    """Where a graph runs.

    Attributes:
        kind: `cpu` (native code by LLVM), `opencl`, or `reference` (NumPy, op by op).
        index: Which device of that kind; only OpenCL has several.
    """

    kind: str
    index: int = 0

    CPU: ClassVar[Device]
    OPENCL: ClassVar[Device]
    REFERENCE: ClassVar[Device]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RlxBackendError(
                f"there is no device `{self.kind}`",
                code="E0701",
                notes=(f"devices are {', '.join(KINDS)}",),
                helps=("a GPU is an `opencl` device" if self.kind in _GPUS else did_you_mean(self.kind, KINDS),),
            )
        if self.index < 0 or (self.index and self.kind != "opencl"):
            raise RlxBackendError(f"there is no device `{self.kind}:{self.index}`", code="E0701")

    @classmethod
    def parse(cls, value: Device | str) -> Device:
        """A device, or its name: `"cpu"`, `"opencl"`, `"opencl:1"`, `"reference"`.

        Raises:
            RlxBackendError: E0701 no such device.
            RlxTypeError: Neither a device nor a string.
        """
        if isinstance(value, Device):
            return value
        if not isinstance(value, str):
            raise RlxTypeError(f"a device is a `Device` or its name, {type(value).__name__} is given")
        match = _SPELLING.fullmatch(value.strip())
        if match is None:
            raise RlxBackendError(
                f"there is no device {value!r}", code="E0701", notes=(f"devices are {', '.join(KINDS)}",)
            )
        return cls(match.group(1).lower(), int(match.group(2) or 0))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.index else self.kind


Device.CPU = Device("cpu")
Device.OPENCL = Device("opencl")
Device.REFERENCE = Device("reference")


@cache
def _has_llvm() -> bool:
    return find_spec("llvmlite") is not None


@cache
def _opencl_count() -> int:
    """Number of OpenCL devices of this machine; 0 without pyopencl or a driver."""
    if find_spec("pyopencl") is None:
        return 0
    from rlxlang.backends.opencl import available_devices

    return len(available_devices())


def devices() -> list[Device]:
    """All devices of this machine, the fastest first; `Device.REFERENCE` is always there."""
    found = [Device.CPU] if _has_llvm() else []
    return [*found, *(Device("opencl", k) for k in range(_opencl_count())), Device.REFERENCE]


def candidates() -> Iterator[Device]:
    """Devices in the order in which a run without an explicit one tries them: each is looked for only when reached."""
    if _has_llvm():
        yield Device.CPU
    if _opencl_count():
        yield Device.OPENCL
    yield Device.REFERENCE


def fastest_device() -> Device:
    """The device that a run takes unless it cannot run the graph; its libraries are loaded and it is ready to compile."""
    device = next(candidates())
    if device == Device.CPU:
        from rlxlang.backends.llvm.runtime import runtime

        backend_of(device)
        runtime()
    return device


def fastest_device_for(func: Func) -> Device:
    """The fastest device that can run a function, by rule and not by timing.

    Raises:
        RlxBackendError: E0702 there is none.
    """
    return func.traced.fastest()


@cache
def backend_of(device: Device) -> Backend:
    """The backend of a device that compiles kernels.

    Raises:
        RlxBackendError: E0701 the device is not there.
    """
    if device.kind == "cpu":
        if not _has_llvm():
            raise RlxBackendError("the device `cpu` needs llvmlite", code="E0701", helps=("pip install llvmlite",))
        from rlxlang.backends.llvm import LlvmBackend

        return LlvmBackend()
    count = _opencl_count()
    if device.kind == "opencl" and device.index < count:
        from rlxlang.backends.opencl import OpenClBackend

        return OpenClBackend(str(device.index) if device.index else None)
    raise RlxBackendError(
        f"the device `{device}` is not there",
        code="E0701",
        notes=(f"this machine has {count} OpenCL device{'' if count == 1 else 's'}",),
        helps=('`pip install "rlxlang[pocl]"` gives one that runs on any processor',) if not count else (),
    )


# --------------------------------------------------------------------------------------------- threads


def thread_count() -> int:
    """For how many threads code is compiled and run."""
    from rlxlang.backends.llvm import pool

    return pool.get_threads()


def set_threads(n: int) -> None:
    """Use `n` threads from now on; the environment variable `RLX_THREADS` gives the number at the start.

    Raises:
        RlxValueError: `n` is no number of threads.
    """
    from rlxlang.backends.llvm import pool

    try:
        pool.set_threads(n)
    except ValueError as problem:
        raise RlxValueError(str(problem)) from None


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Use `n` threads inside a `with` block.

    Raises:
        RlxValueError: `n` is no number of threads.
    """
    before = thread_count()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


# --------------------------------------------------------------------------------------------- compiled code on disk


def cache_info() -> CacheInfo:
    """Folder, size and counters of the cache of compiled code (`RLX_CACHE_DIR`)."""
    from rlxlang.backends.llvm import cache as disk

    return disk.info()


def clear_cache() -> None:
    """Delete all compiled code on disk; functions compiled already keep working."""
    from rlxlang.backends.llvm import cache as disk

    disk.clear()
