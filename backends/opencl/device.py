"""OpenCL devices: which there are, which to take, and the context and queue of each.

`RLX_OPENCL_DEVICE` names the one to take: a number of `available_devices()`, or a part of a device's or platform's name.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from typing import Any

from rlxlang.diagnostics.errors import RlxBackendError

_ORDER = {"gpu": 0, "accelerator": 1, "cpu": 2}


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device in words.

    Attributes:
        name: As the driver gives it.
        platform: Name of its platform.
        version: Of its driver.
        kind: `cpu`, `gpu` or `accelerator`.
        fp64: Whether it computes with F64.
    """

    name: str
    platform: str
    version: str
    kind: str
    fp64: bool


@dataclass(frozen=True, slots=True, eq=False)
class OpenClDevice:
    """A device in use: one context and one in-order queue for all executables of this process.

    Attributes:
        record: The device in words.
        context: `pyopencl.Context`.
        queue: `pyopencl.CommandQueue`.
        lock: Held while arguments are set and kernels enqueued.
        process: Id of the process that made the context; a context does not outlive a fork.
        options: For building programs.
    """

    record: DeviceRecord
    context: Any
    queue: Any
    lock: threading.Lock
    process: int
    options: tuple[str, ...]

    def check_process(self) -> None:
        """Refuse to run in a child process, where drivers hang.

        Raises:
            RlxBackendError: E0701 after a fork.
        """
        _check_process(self.process)


_opened: dict[DeviceRecord, OpenClDevice] = {}
_opening = threading.Lock()
_first_process: list[int] = []


def _check_process(process: int) -> None:
    if process != os.getpid():
        raise RlxBackendError(
            "OpenCL was used before this process was forked, and does not survive a fork",
            code="E0701",
            helps=["start processes with the `spawn` method, or use OpenCL in the child only"],
        )


def _found() -> list[tuple[DeviceRecord, Any]]:
    """All devices, the preferred ones first: graphics before processors, newer drivers before older ones.

    Raises:
        RlxBackendError: E0701 in a child of a process that has used OpenCL.
    """
    try:
        import pyopencl as cl
    except ImportError:
        return []
    with _opening:
        if not _first_process:
            _first_process.append(os.getpid())
        _check_process(_first_process[0])
    found: list[tuple[DeviceRecord, Any]] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # no driver is installed
        return []
    for platform in platforms:
        try:
            devices = platform.get_devices()
        except cl.Error:
            continue
        found += [(_record(device, platform), device) for device in devices]
    found.sort(key=lambda item: (_ORDER[item[0].kind], [-n for n in _numbers(item[0])]))
    return found


def _record(device: Any, platform: Any) -> DeviceRecord:
    import pyopencl as cl

    kind = "cpu"
    if device.type & cl.device_type.GPU:
        kind = "gpu"
    elif device.type & cl.device_type.ACCELERATOR:
        kind = "accelerator"
    fp64 = "cl_khr_fp64" in device.extensions.split()
    return DeviceRecord(device.name.strip(), platform.name.strip(), device.driver_version.strip(), kind, fp64)


def _numbers(record: DeviceRecord) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", record.version)[:4]]


def available_devices() -> tuple[DeviceRecord, ...]:
    """The devices of this machine, the preferred one first; none when there is no driver, and none after a fork."""
    try:
        return tuple(record for record, _ in _found())
    except RlxBackendError:
        return ()


def open_device(name: str | None = None) -> OpenClDevice:
    """The device to use; made once in a process.

    Args:
        name: A number of `available_devices()` or a part of a name; by default `RLX_OPENCL_DEVICE`, or the first device.

    Raises:
        RlxBackendError: E0701: there is none, none of that name, or the process was forked.
    """
    wanted = name if name is not None else os.environ.get("RLX_OPENCL_DEVICE", "")
    found = _found()
    if not found:
        raise RlxBackendError(
            "there is no OpenCL device",
            code="E0701",
            helps=["`pip install 'rlxlang[pocl]'` brings one that runs on the processor"],
        )
    if wanted.isdigit():
        matches = found[int(wanted) : int(wanted) + 1]
    else:
        matches = [f for f in found if wanted.lower() in f"{f[0].platform} {f[0].name}".lower()]
    if not matches:
        names = [f"{number}: {record.platform}, {record.name}" for number, (record, _) in enumerate(found)]
        raise RlxBackendError(f"there is no OpenCL device `{wanted}`", code="E0701", notes=names)
    record, device = matches[0]
    with _opening:
        if record not in _opened:
            _opened[record] = _open(record, device)
        return _opened[record]


def _open(record: DeviceRecord, device: Any) -> OpenClDevice:
    import pyopencl as cl

    try:
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        exact = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    except cl.Error as problem:
        raise RlxBackendError(f"cannot use {record.name}: {problem}", code="E0701") from problem
    quiet = "-w"  # remarks of a driver's compiler on correct code would land on the user's terminal
    options = (quiet, "-cl-fp32-correctly-rounded-divide-sqrt") if exact else (quiet,)
    return OpenClDevice(record, context, queue, threading.Lock(), os.getpid(), options)
