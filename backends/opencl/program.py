"""The source of a whole program: its kernels and the helper functions that they call, in one text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from rlxlang.backends.opencl.c_contract import contract_kernels
from rlxlang.backends.opencl.c_expr import Layout
from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_nest import KernelPlan, nest_kernel
from rlxlang.backends.opencl.c_sort import SortPlan, SortSource
from rlxlang.diagnostics.errors import InternalError, RlxBackendError
from rlxlang.kernels import Contract, Copy, Library, Loop, Nest, Program, Sort
from rlxlang.types import DimLike

_PRELUDE = "typedef float16 rlx_float16 __attribute__((aligned(4)));\n"


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """What a program becomes.

    Attributes:
        text: OpenCL C.
        kernels: The kernels of every step that has some, by the identity of the step.
        sorts: How sorts are launched, by the identity of the step.
        table: Sizes that the kernels read, in order.
        layout: Where buffers lie.
        written: Buffers that some step writes, below all views.
    """

    text: str
    kernels: dict[int, tuple[KernelPlan, ...]]
    sorts: dict[int, SortPlan]
    table: tuple[DimLike, ...]
    layout: Layout
    written: frozenset[int]


def program_source(program: Program, *, has_fp64: bool, is_cpu: bool) -> ProgramSource:
    """Make the source of a program for a kind of device.

    Args:
        program: What to compile.
        has_fp64: Whether the device computes with F64; sums of F32 use it.
        is_cpu: Whether the device is a processor: wide vectors and small work-groups.

    Raises:
        RlxBackendError: E0702, the program needs F64 and the device has none, or it computes with C64.
    """
    layout = Layout(program, _bases(program), [])
    for dim in program.dims:
        layout.place(dim)
    functions = Functions(fused=not is_cpu)
    kernels: dict[int, tuple[KernelPlan, ...]] = {}
    sorts: dict[int, SortPlan] = {}
    parts: list[str] = []
    for number, step in enumerate(program.walk()):
        function = f"rlx_kernel{number}"
        if isinstance(step, Nest):
            plans = [nest_kernel(step, function, layout, functions, has_fp64=has_fp64, is_cpu=is_cpu)]
        elif isinstance(step, Contract):
            plans = contract_kernels(step, function, layout, functions, has_fp64=has_fp64, is_cpu=is_cpu)
        elif isinstance(step, Sort):
            sorts[id(step)] = SortSource(step, function, layout, functions).plan(is_cpu=is_cpu)
            plans = list(sorts[id(step)].kernels)
        else:
            continue
        if not has_fp64 and any("double" in plan.source for plan in plans):
            _refuse_f64(step)
        kernels[id(step)] = tuple(plans)
        parts += [plan.source for plan in plans]
    text = "\n\n".join([_PRELUDE, *functions.helpers.values(), *parts]) + "\n"
    return ProgramSource(text, kernels, sorts, tuple(layout.table), layout, _written(program, layout))


def _bases(program: Program) -> dict[int, int]:
    """The base of every view."""
    bases: dict[int, int] = {}
    for step in program.walk():
        for window in step.windows if isinstance(step, Loop) else ():
            if bases.setdefault(window.view, window.base) != window.base:
                raise InternalError(f"view {window.view} has two bases", stage="lower")
    return bases


def _written(program: Program, layout: Layout) -> frozenset[int]:
    targets: set[int] = set()
    for step in program.walk():
        if isinstance(step, Nest):
            targets |= {s.buffer for p in step.passes for s in p.stores} | {s.buffer for s in step.finals}
        elif isinstance(step, Contract):
            targets |= {step.target} | {s.buffer for s in step.epilogue}
        elif isinstance(step, Loop):
            targets |= {step.index} if step.index >= 0 else set()
        elif isinstance(step, Copy):
            targets.add(step.target)
        elif isinstance(step, Library):
            targets |= set(step.results)
        elif isinstance(step, Sort):
            targets |= {b for b in (step.values, step.indices) if b >= 0}
    return frozenset(layout.owner(t) for t in targets)


def _refuse_f64(step: Nest | Contract | Sort) -> NoReturn:
    """Say what needs F64.

    Raises:
        RlxBackendError: E0702.
    """
    ops = f" ({', '.join(step.ops)})" if step.ops else ""
    raise RlxBackendError(
        f"the device has no F64 arithmetic, which kernel `{step.name}`{ops} needs",
        code="E0702",
        helps=["cast to F32, or use another device"],
    )
