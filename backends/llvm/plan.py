"""What running a program needs besides its code: buffers, sizes, constants. Kept on disk beside the object.

With a plan and an object a program runs without its kernels, so a process that starts warm neither lowers a graph nor
imports the kernel records.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlxlang.types import DTYPES, DimLike, DimProblem, DType, evaluate
from rlxlang.types.portable import dim_from_plain, dim_to_plain, shape_from_plain, shape_to_plain

if TYPE_CHECKING:
    from rlxlang.kernels import Program

ENTRY = "rlx_main"
"""Symbol of the function that runs a program."""

LIBRARY = "rlx_library"
"""Symbol through which a program calls routines of `rlxlang.kernels.library`."""

GIL_WORK = 100_000
"""Elements touched (or a tenth of the multiply-adds) from which on a call gives up the GIL."""

LOOP_WORK = 1000
"""The same for one step of a loop."""

CONSTANT_LIMIT = 64 << 20
"""Bytes of constants up to which a plan is kept on disk."""


class PlanBuffer(NamedTuple):
    """A buffer, as `rlxlang.kernels.Buffer` without what only the emitter reads."""

    id: int
    kind: str
    dtype: DType
    shape: tuple[DimLike, ...]
    name: str
    data: np.ndarray[Any, Any] | None
    offset: DimLike


class PlanLibrary(NamedTuple):
    """A call of a routine, as `rlxlang.kernels.Library`."""

    routine: str
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    options: tuple[tuple[str, Any], ...]
    where: str


class Plan(NamedTuple):
    """A program whose outputs have buffers of their own, without its steps.

    Attributes:
        name: Name of the graph.
        axes: Names of the dynamic axes.
        buffers: All buffers, by id.
        dims: The sizes that the code reads, in its order.
        arena: Bytes of temporary memory.
        outputs: Buffer ids of the outputs, in order.
        contracts: Sizes whose product is the multiply-adds of a matrix product, for every one.
        loops: How often each loop runs.
        libraries: Calls of routines, in the order of the program.
    """

    name: str
    axes: tuple[str, ...]
    buffers: tuple[PlanBuffer, ...]
    dims: tuple[DimLike, ...]
    arena: DimLike
    outputs: tuple[int, ...]
    contracts: tuple[tuple[DimLike, ...], ...]
    loops: tuple[DimLike, ...]
    libraries: tuple[PlanLibrary, ...]

    def work(self, shapes: Mapping[int, tuple[int, ...]], sizes: Mapping[str, int]) -> int:
        """How much a run does, in elements touched."""
        total = sum(prod(shape) for shape in shapes.values())
        for contract in self.contracts:
            try:
                total += prod(evaluate(d, sizes) for d in contract) // 10
            except DimProblem:
                total += GIL_WORK
        return total + sum(evaluate(count, sizes) * LOOP_WORK for count in self.loops)


def plan_of(program: Program) -> Plan:
    """The plan of a program whose outputs have buffers of their own."""
    from rlxlang.kernels import Contract, Library, Loop, While

    contracts: list[tuple[DimLike, ...]] = []
    loops: list[DimLike] = []
    libraries: list[PlanLibrary] = []
    for step in program.walk():
        if isinstance(step, Contract):
            contracts.append((*step.batch, step.m, step.n, step.k))
        elif isinstance(step, Library):
            libraries.append(PlanLibrary(step.routine, step.arguments, step.results, step.options, step.where))
        elif isinstance(step, Loop):
            loops.append(step.count)
        elif isinstance(step, While):
            loops.append(GIL_WORK if step.limit is None else step.limit)  # it may run for long: others go on meanwhile
    buffers = tuple(PlanBuffer(b.id, b.kind, b.dtype, b.shape, b.name, b.data, b.offset) for b in program.buffers)
    return Plan(
        program.name,
        program.axes,
        buffers,
        program.dims,
        program.arena,
        program.outputs,
        tuple(contracts),
        tuple(loops),
        tuple(libraries),
    )


def plan_to_bytes(plan: Plan, object_key: str) -> bytes | None:
    """A plan with the key of its object; None when its constants are too large to keep twice."""
    if sum(b.data.nbytes for b in plan.buffers if b.data is not None) > CONSTANT_LIMIT:
        return None
    buffers = tuple(
        (
            b.kind,
            b.dtype.name,
            shape_to_plain(b.shape),
            b.name,
            None if b.data is None else np.ascontiguousarray(b.data, b.dtype.numpy).tobytes(),
            None if b.data is None else b.data.shape,
            dim_to_plain(b.offset),
        )
        for b in plan.buffers
    )
    return marshal.dumps(
        (
            object_key,
            plan.name,
            plan.axes,
            buffers,
            shape_to_plain(plan.dims),
            dim_to_plain(plan.arena),
            plan.outputs,
            tuple(shape_to_plain(c) for c in plan.contracts),
            shape_to_plain(plan.loops),
            tuple(tuple(library) for library in plan.libraries),
        )
    )


def plan_from_bytes(data: bytes) -> tuple[Plan, str]:
    """The plan that `plan_to_bytes` wrote, and the key of its object.

    Raises:
        ValueError: It is none; the cache's checksum has let through what another program wrote.
    """
    try:
        object_key, name, axes, rows, dims, arena, outputs, contracts, loops, libraries = marshal.loads(data)
        buffers = []
        for number, (kind, dtype_name, shape, label, content, content_shape, offset) in enumerate(rows):
            dtype = DTYPES[dtype_name]
            array = None if content is None else np.frombuffer(content, dtype.numpy).reshape(content_shape)
            buffers.append(
                PlanBuffer(number, kind, dtype, shape_from_plain(shape), label, array, dim_from_plain(offset))
            )
        plan = Plan(
            name,
            axes,
            tuple(buffers),
            shape_from_plain(dims),
            dim_from_plain(arena),
            outputs,
            tuple(shape_from_plain(c) for c in contracts),
            shape_from_plain(loops),
            tuple(PlanLibrary(*library) for library in libraries),
        )
    except (EOFError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"not a plan: {problem}") from problem
    return plan, object_key
