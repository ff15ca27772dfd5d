"""Places in sorted rows, and runs of equal entries."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from rlxlang.ir import UNDEFINED, VIA_DECOMPOSITION, ZERO, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.rules import require_kinds
from rlxlang.types import BOOL, I32, I64, DimLike, DType, ShapeContext, TensorType, TypeProblem

Array = np.ndarray[Any, Any]

_KINDS = ("float", "int", "uint", "bool")
_DYNAMIC_STEPS = 31  # bisections of an axis of any length below 2³¹


def index_dtype(size: DimLike) -> DType:
    """The dtype of a number `0 … size`."""
    return I64 if isinstance(size, int) and size > I32.integer_range[1] else I32


# --------------------------------------------------------------------------------------------- searchsorted


def _infer_search(context: ShapeContext, rows: TensorType, values: TensorType, *, right: bool) -> TensorType:
    require_kinds("searchsorted", rows.dtype, _KINDS)
    if rows.dtype != values.dtype:
        raise TypeProblem("E0302", f"the dtypes of `searchsorted` differ: {rows.dtype} and {values.dtype}")
    if rows.rank == 0 or (rows.rank > 1 and rows.rank != values.rank):
        raise TypeProblem(
            "E0404",
            "`searchsorted` takes one sorted row and values of any shape, or as many rows as there are rows of values; "
            f"{rows} and {values} are given",
        )
    if rows.rank > 1:
        context.same_shape(rows.shape[:-1], values.shape[:-1], "the numbers of rows of `searchsorted`")
    return values.with_dtype(index_dtype(rows.shape[-1]))


def _goes_before(b: Builder, entry: Node, value: Node, right: bool) -> Node:
    """Whether a sorted entry stands before the place of a value: less, or with `right` not greater; NaN is above everything."""
    first, second = (value, entry) if right else (entry, value)
    less = b.emit("lt", first, second)
    if entry.dtype.is_float:
        above = b.emit("bit_and", b.emit("isnan", second), b.emit("bit_not", b.emit("isnan", first)))
        less = b.emit("bit_or", less, above)
    return b.emit("bit_not", less) if right else less


def _search(b: Builder, rows: Node, values: Node, *, right: bool) -> Node:
    """Bisection by steps that are powers of 2, the same number for every value."""
    size = rows.shape[-1]
    kind = index_dtype(size)
    place = b.full(0, kind, values.shape)
    if rows.dtype == BOOL:
        rows, values = emit.cast(b, rows, I32), emit.cast(b, values, I32)
    count = emit.number(b, size, place)
    for k in reversed(range(size.bit_length() if isinstance(size, int) else _DYNAMIC_STEPS)):
        further = emit.shift(b, place, 2**k)
        index = emit.shift(b, place, 2**k - 1)
        entry = (
            emit.take(b, rows, index, 0)
            if len(rows.shape) == 1
            else b.emit("take_along_axis", rows, index, axis=len(rows.shape) - 1)
        )
        # What a step beyond the end reads is not looked at; the sum of all steps stays below 2³¹.
        inside = b.emit("le", further, count)
        place = emit.select(b, b.emit("bit_and", inside, _goes_before(b, entry, values, right)), further, place)
    return place


def _np_search(rows: Array, values: Array, *, right: bool) -> Array:
    side: Literal["left", "right"] = "right" if right else "left"
    found = np.zeros(values.shape, np.int32)
    if rows.ndim == 1:
        found[...] = np.searchsorted(rows, values, side)
        return found
    for place in np.ndindex(*values.shape[:-1]):
        found[place] = np.searchsorted(rows[place], values[place], side)
    return found


def _search_samples(rng: np.random.Generator) -> list[Sample]:
    ties = np.array([-np.inf, -1, 0, 0, 2, 2, 2, np.inf, np.nan, np.nan])
    asked = np.array([[np.nan, -np.inf, np.inf, 0.0, -0.0], [2, 1, 3, -5, -1]])
    rows = np.sort(rng.normal(size=(3, 7)), -1)
    cases: list[tuple[Array, Array]] = [
        (ties, asked),
        (rows, rng.normal(size=(3, 4))),
        (np.zeros(1), np.array(0.0)),
        (np.full(5, 3, np.int32), np.arange(6, dtype=np.int32)),
        (np.ones(3, np.bool_), np.array([True, False])),
    ]
    return [
        Sample(c, {"right": right}, smooth=False, mixable=c[0].dtype != np.float64)
        for c in cases
        for right in (False, True)
    ]


SEARCHSORTED = register(
    Op(
        "searchsorted",
        "Where values belong in sorted rows: before (with `right` behind) equal entries.",
        _infer_search,
        _np_search,
        ZERO,
        ZERO,
        VIA_DECOMPOSITION,
        VIA_DECOMPOSITION,
        _search_samples,
        decompose=_search,
    )
)

# --------------------------------------------------------------------------------------------- runs


def _run_starts(b: Builder, x: Node) -> tuple[Node, Node]:
    """Of every entry of a vector whether it differs from the one before, and the number of its run."""
    n = x.shape[0]
    before = emit.slice_axis(b, emit.pad_axis(b, x, 0, 1, 0), 0, 0, n)
    starts = b.emit("ne", x, before)
    starts = b.emit("bit_or", starts, emit.compare(b, "eq", emit.iota(b, (n,), 0, I32), 0))
    run = b.emit("cumsum", starts, axis=0, exclusive=False, reverse=False)
    return starts, emit.shift(b, run, -1)


def _unique(b: Builder, x: Node, *, size: DimLike, fill: float) -> Node:
    """The first entry of each run is written to the run's place, everything else to one that is cut off."""
    starts, run = _run_starts(b, x)
    last = emit.number(b, size, run)
    place = emit.select(b, starts, b.emit("minimum", run, last), last)
    slots = b.full(fill, x.dtype, (size + 1,))
    return emit.slice_axis(b, b.emit("scatter_set", slots, place, x, axis=0), 0, 0, size)


def _run_lengths(b: Builder, x: Node, *, size: DimLike) -> Node:
    _, run = _run_starts(b, x)
    place = b.emit("minimum", run, emit.number(b, size, run))
    slots = b.full(0, I32, (size + 1,))
    return emit.slice_axis(b, emit.scatter_add(b, slots, place, b.full_like(place, 1), 0), 0, 0, size)


def _infer_runs(name: str, dtype: DType | None) -> Any:
    def infer(context: ShapeContext, x: TensorType, *, size: DimLike, **_: Any) -> TensorType:
        require_kinds(name, x.dtype, _KINDS)
        if x.rank != 1:
            raise TypeProblem("E0404", f"`{name}` takes a vector, and {x} is given")
        return TensorType(dtype or x.dtype, (size,))

    return infer


def _np_runs(x: Array, size: int) -> tuple[Array, Array]:
    """Starts of the first runs, and their lengths."""
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]])) if x.size else np.zeros(0, np.int64)
    return starts[:size], np.diff(np.append(starts, x.size))[:size]


def _padded(found: Array, size: int, fill: float) -> Array:
    result = np.full(size, fill, found.dtype)
    result[: len(found)] = found
    return result


def _run_samples(**options: Any) -> Any:
    def samples(rng: np.random.Generator) -> list[Sample]:
        runs = np.array([2.0, 2, 3, 3, 3, 2, 5, 5])
        cases: list[tuple[Array, int]] = [
            (runs, 6), (runs, 2), (runs[:1], 1), (runs[:0], 2), (runs, 0), (np.array([np.nan, np.nan, -0.0, 0.0]), 4),
            (rng.integers(0, 2, 20).astype(np.int32), 20), (np.array([True, True, False]), 3),
        ]  # fmt: skip
        return [Sample((x,), {"size": size, **options}, smooth=False) for x, size in cases]

    return samples


UNIQUE_CONSECUTIVE = register(
    Op(
        "unique_consecutive",
        "The first entry of every run of equal entries of a vector: `size` of them, then `fill`.",
        _infer_runs("unique_consecutive", None),
        lambda x, *, size, fill: _padded(x[_np_runs(x, size)[0]], size, fill),
        UNDEFINED,
        UNDEFINED,
        VIA_DECOMPOSITION,
        VIA_DECOMPOSITION,
        _run_samples(fill=0),
        decompose=_unique,
    )
)
RUN_LENGTHS = register(
    Op(
        "run_lengths",
        "The lengths of the runs of equal entries of a vector: of the first `size`, then 0.",
        _infer_runs("run_lengths", I32),
        lambda x, *, size: _padded(_np_runs(x, size)[1].astype(np.int32), size, 0),
        ZERO,
        ZERO,
        VIA_DECOMPOSITION,
        VIA_DECOMPOSITION,
        _run_samples(),
        decompose=_run_lengths,
    )
)
