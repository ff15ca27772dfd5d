"""Kernels as OpenCL C, for graphics processors and, with PoCL, for any processor; `pyopencl` is loaded when a device is asked for."""

from __future__ import annotations

from rlxlang.backends.opencl.backend import OpenClBackend
from rlxlang.backends.opencl.device import DeviceRecord, available_devices
from rlxlang.backends.opencl.executable import OpenClExecutable

__all__ = ["DeviceRecord", "OpenClBackend", "OpenClExecutable", "available_devices"]
