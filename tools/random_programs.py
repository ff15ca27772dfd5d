"""Compare the devices with the interpreter on many random programs.

    python tools/random_programs.py --start 1000 --count 500 --devices cpu,opencl --checks values,gradients,layout

Prints the seed of every program that fails, its text with `--show`, and exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.programs.campaign import check_format, check_gradients, check_values
from tests.programs.random_programs import RandomProgram

CHECKS = ("values", "gradients", "layout")


def failures(seed: int, statements: int, checks: list[str], devices: list[str]) -> list[str]:
    """What goes wrong with one program."""
    program = RandomProgram(seed, statements)
    found = []
    for check in checks:
        try:
            if check == "values":
                check_values(program, devices)
            elif check == "gradients":
                check_gradients(program, devices)
            else:
                check_format(program)
        except Exception as problem:  # any exception of a valid program is a fault
            found.append(f"{check}: {type(problem).__name__}: {problem}")
    return found


def optimise_less() -> None:
    """Let the OpenCL driver compile without optimising, in half the time; the source is the same."""
    import pyopencl

    build = pyopencl.Program.build
    pyopencl.Program.build = lambda self, options=(), **more: build(self, [*options, "-cl-opt-disable"], **more)


def main() -> int:
    """Run the campaign; returns the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--start", type=int, default=1000, help="first seed")
    options.add_argument("--count", type=int, default=500, help="how many programs")
    options.add_argument("--statements", type=int, default=8, help="statements of each")
    options.add_argument("--devices", default="cpu,opencl", help="comma-separated")
    options.add_argument("--checks", default=",".join(CHECKS), help="comma-separated, of: " + ", ".join(CHECKS))
    options.add_argument("--quick", action="store_true", help="the OpenCL driver does not optimise")
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    given = options.parse_args()
    checks, devices = given.checks.split(","), given.devices.split(",")
    if not set(checks) <= set(CHECKS):
        options.error(f"the checks are {', '.join(CHECKS)}")
    if given.quick:
        optimise_less()
    started, bad = time.monotonic(), 0
    for number, seed in enumerate(range(given.start, given.start + given.count), 1):
        found = failures(seed, given.statements, checks, devices)
        bad += bool(found)
        for line in found:
            print(f"seed {seed}: {line}", flush=True)
        if found and given.show:
            print(RandomProgram(seed, given.statements).text, flush=True)
        if number % 500 == 0:
            print(f"{number} programs, {bad} failed, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{given.count} programs, {bad} failed, {time.monotonic() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
