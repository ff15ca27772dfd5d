"""A program: buffers, and the kernels that run over them in order. What `lower` makes and a backend compiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlxlang.kernels.expr import Expr
from rlxlang.kernels.library import Library
from rlxlang.kernels.nest import Nest, Store
from rlxlang.kernels.sorting import Sort
from rlxlang.types import C64, F32, DimLike, DType


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A contiguous piece of memory.

    Attributes:
        id: Its number, the position in `Program.buffers`.
        kind: `input` and `param` (given, read only), `output` (made for each run), `constant` (`data`), `temp` (in the arena),
            `private` (in the arena, one copy of `size` elements for each thread), `view` (a moving window on another buffer,
            inside a loop), `state` (given, read and written: parameters of a training step).
        dtype: Element type.
        shape: Dims; the buffer is row-major.
        name: Run-time name of inputs, params, outputs and states.
        data: The array of a constant.
        offset: Byte offset of a `temp` or `private` buffer in the arena; two buffers may share bytes when they never live at once.
    """

    id: int
    kind: str
    dtype: DType
    shape: tuple[DimLike, ...]
    name: str = ""
    data: np.ndarray[Any, Any] | None = None
    offset: DimLike = 0

    @property
    def element(self) -> DType:
        """Type of the numbers that kernels read and write: a C64 buffer is to them one of F32 with a last axis of 2."""
        return F32 if self.dtype == C64 else self.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A matrix operand of a `Contract`, in elements: `offset + Σ batch[k]·i_k + row·r + column·c`.

    For the left operand rows are `m` and columns `k`; for the right one rows are `k` and columns `n`. One of `row` and
    `column` is 1 unless that axis has size 1. Batch strides may be 0.
    """

    buffer: int
    offset: DimLike
    batch: tuple[DimLike, ...]
    row: DimLike
    column: DimLike


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """A batched matrix product `C[b, m, n] = Σ_k A[b, m, k]·B[b, k, n]`, C contiguous in `target` from its start.

    With an `epilogue` every element of C is then visited once, while it is hot: the stores range over the domain axes
    `(*batch, m, n)` and read C's value as `Accumulator`. If `keeps_target` is false nobody reads `target` afterwards, so it
    need not hold C (the epilogue has stored what is wanted).

    `dtype` is F32, F64, or an integer type (for which C wraps).
    """

    name: str
    batch: tuple[DimLike, ...]
    m: DimLike
    n: DimLike
    k: DimLike
    left: Operand
    right: Operand
    target: int
    dtype: DType
    epilogue: tuple[Store, ...] = ()
    keeps_target: bool = True
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Copy all elements of one buffer to another of the same `element` and as many bytes."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A `view` buffer that moves with the loop: at step `i` it starts `i·stride` elements into `base` (from the end when `reverse`)."""

    view: int
    base: int
    stride: DimLike
    reverse: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Run `body` `count` times; windows move with the step, `index` (an I64 buffer of one element, or -1) holds the step's number.

    Carries are ordinary buffers that the body reads and, at its end, overwrites.
    """

    name: str
    count: DimLike
    body: tuple[Step, ...]
    windows: tuple[Window, ...] = ()
    index: int = -1
    reverse: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """Run `condition` and then, if it has left true in the Bool buffer `predicate`, `body`, again and again.

    Stops after `limit` runs of the body (None: no limit) without another test. Carries are ordinary buffers, as in `Loop`.
    """

    name: str
    condition: tuple[Step, ...]
    predicate: int
    body: tuple[Step, ...]
    limit: DimLike | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Run `then` if the Bool buffer `predicate` (one element) holds true, else `orelse`."""

    name: str
    predicate: int
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


Step: TypeAlias = Nest | Contract | Library | Sort | Copy | Loop | While | Branch


def bodies(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The sequences of steps inside a step; none in a kernel."""
    if isinstance(step, Loop):
        return (step.body,)
    if isinstance(step, While):
        return (step.condition, step.body)
    return (step.then, step.orelse) if isinstance(step, Branch) else ()


@dataclass(frozen=True, slots=True, eq=False)
class SizeGuard:
    """A condition on sizes with the text of the error to raise when it does not hold."""

    left: DimLike
    relation: str
    right: DimLike
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Everything a backend needs.

    Attributes:
        name: Name of the graph.
        axes: Names of the dynamic axes.
        buffers: All buffers, by id.
        steps: Kernels in order; later ones may read what earlier ones wrote.
        dims: Every non-constant size that the steps use, and the number of elements of every buffer; at run time a
            backend is given their values in this order.
        arena: Bytes of temporary memory (a size: it may depend on the axes).
        threads: For how many threads `private` buffers have copies.
        outputs: Buffer ids of the outputs, in order.
    """

    name: str
    axes: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    dims: tuple[DimLike, ...]
    arena: DimLike
    threads: int
    outputs: tuple[int, ...]

    def walk(self) -> Iterator[Step]:
        """Every step, also those inside loops and branches."""
        todo = list(reversed(self.steps))
        while todo:
            step = todo.pop()
            yield step
            for inner in reversed(bodies(step)):
                todo.extend(reversed(inner))


def roots(step: Nest | Contract) -> tuple[Expr, ...]:
    """The expressions that a kernel evaluates directly."""
    if isinstance(step, Contract):
        stores: tuple[Store, ...] = step.epilogue
        values: list[Expr] = []
    else:
        stores = (*(s for p in step.passes for s in p.stores), *step.finals)
        values = [e for p in step.passes for r in p.reduces for e in r.exprs]
    for store in stores:
        values.append(store.value)
        values += [g.value for g in store.index.gathered]
        if store.where is not None:
            values.append(store.where)
    return tuple(values)
