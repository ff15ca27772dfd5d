"""From the axes of a nest to the loops that are emitted: collapsing, ordering, form, lanes.

Axes whose strides compose in every access (`stride[k] == stride[k+1]·extent[k+1]`) become one loop, so a contiguous map
of any rank is a flat loop. What remains is run through in one of two forms:

- *rows*: the vector axis is the last inner axis; every outer point is one unit, reductions end with a horizontal step;
- *columns*: the vector axis is the last outer axis (or there is none); a unit is a block of columns at one point of the
  other outer axes, inner loops are scalar and accumulators are vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from rlxlang.kernels import AxisValue, Expr, Index, Load, Nest, Store, walk
from rlxlang.types import DimLike

ROWS, COLUMNS = "rows", "columns"


@dataclass(frozen=True, slots=True)
class LoopAxis:
    """One emitted loop: a run of domain axes that are walked as one.

    Attributes:
        axis: The last domain axis of the run; the strides of an index along it are those of the loop.
        extents: Sizes of the axes of the run; the loop has as many steps as their product.
    """

    axis: int
    extents: tuple[DimLike, ...]

    @property
    def static(self) -> int | None:
        """Number of steps, or None when it depends on dynamic axes."""
        return prod(e for e in self.extents if isinstance(e, int)) if self.is_static else None

    @property
    def is_static(self) -> bool:
        """Whether the number of steps is known at compile time."""
        return all(isinstance(e, int) for e in self.extents) or 0 in self.extents


@dataclass(frozen=True, slots=True)
class Domain:
    """The loops of a nest.

    Attributes:
        form: `ROWS` or `COLUMNS`.
        rows: Outer loops other than the vector loop of the column form.
        column: The vector loop of the column form; None when it has none.
        inner: Inner loops; the last one is the vector loop of the row form.
        vectorised: Whether lanes run along the vector loop.
        zero: Whether the domain has no point at all.
    """

    form: str
    rows: tuple[LoopAxis, ...]
    column: LoopAxis | None
    inner: tuple[LoopAxis, ...]
    vectorised: bool

    @property
    def vector(self) -> LoopAxis | None:
        """The loop that lanes run along, if any."""
        if not self.vectorised:
            return None
        return self.column if self.form == COLUMNS else self.inner[-1]

    def inner_steps(self) -> int | None:
        """Number of inner points, or None when it is dynamic."""
        counts = [loop.static for loop in self.inner]
        known = [c for c in counts if c is not None]
        return prod(known) if len(known) == len(counts) else None


def accesses(nest: Nest) -> list[Load | Store]:
    """Every load and store of a nest."""
    found: list[Load | Store] = []
    values: list[Expr] = []
    for walked in nest.passes:
        values += [e for r in walked.reduces for e in r.exprs]
        found += walked.stores
    found += nest.finals
    for store in (*(s for p in nest.passes for s in p.stores), *nest.finals):
        values += store_roots(store)
    found += [e for e in walk(*values) if isinstance(e, Load)]
    return found


def store_roots(store: Store) -> list[Expr]:
    """The expressions that a store evaluates."""
    values = [store.value, *(g.value for g in store.index.gathered)]
    return values if store.where is None else [*values, store.where]


def _axis_values(nest: Nest) -> set[int]:
    """Axes whose position is used as a number."""
    roots = [e for p in nest.passes for r in p.reduces for e in r.exprs]
    for store in (*(s for p in nest.passes for s in p.stores), *nest.finals):
        roots += store_roots(store)
    return {e.axis for e in walk(*roots) if isinstance(e, AxisValue)}


def _composes(indices: list[Index], first: int, second: int, extent: DimLike) -> bool:
    return all(i.strides[first] == i.strides[second] * extent for i in indices)


def collapse(nest: Nest, *, keep: frozenset[int] = frozenset()) -> tuple[list[LoopAxis], list[LoopAxis]]:
    """Outer and inner loops after dropping axes of size 1 and joining axes whose strides compose.

    Args:
        nest: The kernel.
        keep: Axes that stay loops of their own.
    """
    indices = list({access.index for access in accesses(nest)})
    fixed = _axis_values(nest) | keep
    extents, outer = nest.extents, len(nest.outer)
    parts: tuple[list[LoopAxis], list[LoopAxis]] = ([], [])
    for axis, extent in enumerate(extents):
        part = parts[0] if axis < outer else parts[1]
        if extent == 1 and axis not in keep:
            continue
        last = part[-1] if part else None
        joins = last is not None and not {last.axis, axis} & fixed and last.axis != nest.vector_axis
        if last is not None and joins and _composes(indices, last.axis, axis, extent):
            part[-1] = LoopAxis(axis, (*last.extents, extent))
        else:
            part.append(LoopAxis(axis, (extent,)))
    return parts


def plan_domain(nest: Nest, *, keep: frozenset[int] = frozenset()) -> Domain:
    """Choose the loops of a nest and the form in which they run."""
    outer, inner = collapse(nest, keep=keep)
    vector = nest.vector_axis
    if any(loop.axis == vector for loop in outer):
        # Outer axes are independent, so the vector axis may come last.
        column = next(loop for loop in outer if loop.axis == vector)
        rows = tuple(loop for loop in outer if loop.axis != vector)
        return Domain(COLUMNS, _contiguous_last(nest, rows, vector), column, tuple(inner), True)
    if inner:
        last = inner[-1].axis == vector
        if not last and any(loop.axis == vector for loop in inner) and _order_is_free(nest):
            moved = next(loop for loop in inner if loop.axis == vector)
            inner = [loop for loop in inner if loop.axis != vector] + [moved]
            last = True
        return Domain(ROWS, tuple(outer), None, tuple(inner), last)
    if not outer or vector < 0 or nest.extents[vector] != 1:
        return Domain(COLUMNS, tuple(outer), None, tuple(inner), False)
    # The vector axis has size 1: the last remaining outer axis takes its place.
    return Domain(COLUMNS, tuple(outer[:-1]), outer[-1], tuple(inner), True)


def _contiguous_last(nest: Nest, rows: tuple[LoopAxis, ...], vector: int) -> tuple[LoopAxis, ...]:
    """The outer loops with the one last that is contiguous in an access that strides along the vector axis."""
    across = [a.index for a in accesses(nest) if a.index.strides[vector] not in (0, 1, -1)]
    for loop in rows:
        if any(index.strides[loop.axis] == 1 for index in across):
            return (*(other for other in rows if other is not loop), loop)
    return rows


def _order_is_free(nest: Nest) -> bool:
    """Whether inner points may be visited in another order: no prefixes, no positions, no combining stores."""
    reduces = [r for p in nest.passes for r in p.reduces]
    stores = [s for p in nest.passes for s in p.stores]
    ordered = any(r.prefix or r.op in ("argmax", "argmin") for r in reduces)
    return not ordered and all(s.mode == "set" and not s.index.gathered for s in stores)


def without_collapse(nest: Nest) -> Domain:
    """The loops of a map over all its axes, each of them kept and in order; the last one is the vector loop."""
    domain = plan_domain(nest, keep=frozenset(range(len(nest.outer))))
    # A contraction hands blocks to its epilogue by batch, row and column, so no axis may change places.
    return replace(domain, rows=tuple(sorted(domain.rows, key=lambda loop: loop.axis)))
