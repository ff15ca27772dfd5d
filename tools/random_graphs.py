"""Compare devices and transforms with the interpreter on many random graphs.

    python tools/random_graphs.py --start 10000 --count 2000 --devices cpu,opencl --checks values,gradients,modes,batches

A graph that fails is shortened: its seed is printed with the least number of steps that fail, with `--show` the graph as
well. Exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.devices.campaign import SIZES, check_batches, check_graph, check_modes, gradients
from tests.devices.random_programs import RandomProgram

CHECKS = ("values", "gradients", "modes", "batches")


def failure(check: str, seed: int, steps: int, devices: list[str]) -> str:
    """What goes wrong with a graph of so many steps; empty when nothing does."""
    try:
        maker = RandomProgram(seed, steps, smooth=check in ("gradients", "modes"))
        if check == "modes":
            check_modes(maker)
        elif check == "batches":
            check_batches(maker)
        else:
            graph = maker.build() if check == "values" else gradients(maker)
            for device in devices:
                check_graph(maker, graph, device, [maker.sizes, SIZES[1]])
    except Exception as problem:  # any exception is a fault
        return f"{type(problem).__name__}: {problem}"
    return ""


def shortened(check: str, seed: int, steps: int, devices: list[str]) -> tuple[int, str]:
    """The least number of steps with which the graph fails, and how."""
    for fewer in range(1, steps):
        if found := failure(check, seed, fewer, devices):
            return fewer, found
    return steps, failure(check, seed, steps, devices)


def main() -> int:
    """Run the campaign; returns the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--start", type=int, default=10_000, help="first seed")
    options.add_argument("--count", type=int, default=500, help="how many graphs")
    options.add_argument("--steps", type=int, default=14, help="steps of each")
    options.add_argument("--devices", default="cpu,opencl", help="comma-separated")
    options.add_argument("--checks", default=",".join(CHECKS), help="comma-separated, of: " + ", ".join(CHECKS))
    options.add_argument("--show", action="store_true", help="print the graphs that fail")
    given = options.parse_args()
    checks, devices = given.checks.split(","), given.devices.split(",")
    if not set(checks) <= set(CHECKS):
        options.error(f"the checks are {', '.join(CHECKS)}")
    started, bad = time.monotonic(), 0
    with np.errstate(all="ignore"):
        for number, seed in enumerate(range(given.start, given.start + given.count), 1):
            for check in checks:
                if not failure(check, seed, given.steps, devices):
                    continue
                bad += 1
                steps, found = shortened(check, seed, given.steps, devices)
                print(f"seed {seed}, {steps} steps, {check}: {found}", flush=True)
                if given.show:
                    print(RandomProgram(seed, steps, smooth=check in ("gradients", "modes")).build(), flush=True)
            if number % 1000 == 0:
                print(f"{number} graphs, {bad} failed, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{given.count} graphs, {bad} failed, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
