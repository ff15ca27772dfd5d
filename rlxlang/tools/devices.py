"""`rlx devices`: what this machine can run models on."""

from __future__ import annotations

import argparse
import platform

from rlxlang.device import Device, cache_info, devices, fastest_device, thread_count
from rlxlang.tools.summary import readable_bytes, table

EXAMPLES = """\
examples:
  rlx devices
  rlx train model.rlx --data data.npz --device opencl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(options: argparse.Namespace) -> int:
    """Print; returns the exit code."""
    rows = [("device", "what it is")]
    rows += [(str(device), _described(device)) for device in devices()]
    print("\n".join(table(rows)))
    print(f"\nfastest: {fastest_device()}, threads: {thread_count()}")
    cache = cache_info()
    where = cache.path or "no folder"
    print(f"compiled code: {cache.entries:,} entries, {readable_bytes(cache.bytes)} in {where}")
    return 0


def _described(device: Device) -> str:
    if device.kind == "reference":
        return "NumPy, op by op: slow, for comparison"
    if device.kind == "cpu":
        return f"native code by LLVM for this {platform.machine()} processor"
    from rlxlang.backends.opencl.device import available_devices

    record = available_devices()[device.index]
    return f"{record.name}, {record.kind} of {record.platform} {record.version}".strip()
