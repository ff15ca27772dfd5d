"""Loop kernels: elementwise maps, reductions of rows, columns and whole tensors, prefix sums, scatters.

A `Nest` iterates over `outer` axes (independent, run in parallel) and, below them, over `inner` axes (in order; a reduction
may be blocked). Its passes run one after the other for every outer point, each over all inner points:

    for each outer point (in parallel):
        for each pass:
            for each inner point:  update the reductions, write the stores
        write the `finals`

A map has no inner axes and one pass of stores. Softmax has three passes: a maximum, a sum of exponentials, a store. A sum over
the rows of a matrix (axis 0) has the columns as outer and the rows as inner axis: `vector_axis` tells a backend which domain axis
lies contiguous in memory, so that it runs through that one with vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.kernels.expr import Expr, Index
from rlxlang.types import DimLike, DType


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """A reduction over the inner points of one pass.

    Attributes:
        name: Under which `Reduced(name)` (after the pass) and `Running(name)` (inside it) read it.
        op: One of `kernels.functions.REDUCTIONS`. `max` and `min` propagate NaN; `argmax` and `argmin` give the flat inner
            position of the first extremum (the first NaN, if any) as an integer of `dtype`.
        value: What is reduced at each inner point; must not read this pass's own results.
        dtype: Type of the result. A `sum` of F32 is accumulated in blocks and those in F64 (or pairwise), so that long sums stay exact
            to a few ulp.
        prefix: Whether `Running` is read: the pass then runs in order of the inner points.
        exclusive: For a prefix: `Running` excludes the current point.
        factor: For a prefix sum of floats: what the sum so far is multiplied by before the value is added, of the dtype of the value.
    """

    name: str
    op: str
    value: Expr
    dtype: DType
    prefix: bool = False
    exclusive: bool = False
    factor: Expr | None = None

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The expressions that it evaluates at each inner point."""
        return (self.value,) if self.factor is None else (self.value, self.factor)


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Write `value` at `index` of `buffer`; `mode` is `set`, or `add`, `mul`, `min`, `max` to combine with what is there.

    Combining stores may hit one place from several inner points of one outer point, never from two outer points.
    """

    buffer: int
    index: Index
    value: Expr
    mode: str = "set"
    where: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One walk over the inner points: reductions, then stores (which may read `Reduced` of earlier passes)."""

    reduces: tuple[Reduce, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop kernel; see the module's text.

    Attributes:
        name: Identifier, unique in its program.
        outer: Extents of the parallel axes.
        inner: Extents of the sequential axes; `()` for a map.
        passes: At least one.
        finals: Stores at each outer point after all passes; their indices have no inner strides.
        vector_axis: The domain axis (outer ones counted first) that is best run through with vectors, or -1 for none.
        ops: Names of the graph ops inside, for reports.
    """

    name: str
    outer: tuple[DimLike, ...]
    inner: tuple[DimLike, ...]
    passes: tuple[Pass, ...]
    finals: tuple[Store, ...] = ()
    vector_axis: int = -1
    ops: tuple[str, ...] = ()

    @property
    def extents(self) -> tuple[DimLike, ...]:
        """Extents of all domain axes, outer first."""
        return (*self.outer, *self.inner)
