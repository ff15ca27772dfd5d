"""The backend for OpenCL devices."""

from __future__ import annotations

from rlxlang.backends.opencl.device import DeviceRecord, available_devices, open_device
from rlxlang.backends.opencl.executable import OpenClExecutable
from rlxlang.backends.opencl.program import program_source
from rlxlang.kernels import Program


class OpenClBackend:
    """Compiles programs for one OpenCL device.

    Args:
        device: A number of `available_devices()` or a part of a name; by default `RLX_OPENCL_DEVICE`, or the preferred device.

    Raises:
        RlxBackendError: E0701: there is no such device, or the process was forked after OpenCL was used.
    """

    name = "opencl"

    def __init__(self, device: str | None = None) -> None:
        self._device = open_device(device)

    @property
    def device(self) -> DeviceRecord:
        """The device in words."""
        return self._device.record

    @staticmethod
    def devices() -> tuple[DeviceRecord, ...]:
        """The devices of this machine, the preferred one first."""
        return available_devices()

    def compile(self, program: Program, key: bytes | None = None) -> OpenClExecutable:
        """Compile a program; drivers keep machine code on disk by the program's text, so `key` is not needed.

        Raises:
            RlxBackendError: E0702, the device lacks F64 and a kernel needs it, or it computes with C64; E0701 after a fork.
        """
        self._device.check_process()
        record = self._device.record
        source = program_source(program, has_fp64=record.fp64, is_cpu=record.kind == "cpu")
        return OpenClExecutable(program, source, self._device)
