"""Loop kernels, a box of outer points at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, TypeAlias

import numpy as np

from rlxlang.backends.reference.domain import Domain, Evaluator
from rlxlang.backends.reference.functions import cast
from rlxlang.backends.reference.memory import Memory
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import Nest, Reduce
from rlxlang.types import DType

Array: TypeAlias = "np.ndarray[Any, Any]"

# Points evaluated at once; bounds the memory that a large kernel takes.
_POINTS = 1 << 21


def run_nest(nest: Nest, memory: Memory) -> None:
    """Run a loop kernel.

    Raises:
        InternalError: An access leaves its buffer, or a name is read before it is reduced.
    """
    shape = tuple(max(memory.value(d), 0) for d in nest.extents)
    if 0 in shape[: len(nest.outer)]:
        return
    for domain in _boxes(shape, len(nest.outer)):
        memory.open_private(prod(domain.outer_shape))
        _run_box(nest, memory, domain)


def _boxes(shape: tuple[int, ...], outer: int) -> Iterator[Domain]:
    """Cut the domain along its longest outer axis into boxes of bounded size."""
    whole = tuple((0, n) for n in shape)
    if not outer or prod(shape) <= _POINTS:
        yield Domain(whole, outer)
        return
    axis = max(range(outer), key=lambda k: shape[k])
    step = max(_POINTS * shape[axis] // prod(shape), 1)
    for start in range(0, shape[axis], step):
        part = (start, min(start + step, shape[axis]))
        yield Domain((*whole[:axis], part, *whole[axis + 1 :]), outer)


def _run_box(nest: Nest, memory: Memory, domain: Domain) -> None:
    results: dict[str, Array] = {}
    for walked in nest.passes:
        evaluator = Evaluator(memory, domain, nest.name, results=dict(results))
        for reduce in walked.reduces:
            if reduce.name in results:
                raise evaluator.problem(f"`{reduce.name}` is reduced twice")
            rows = _rows(evaluator.value(reduce.value), domain)
            results[reduce.name] = reduce_rows(reduce.op, rows, reduce.dtype).reshape(domain.outer_shape)
            if reduce.factor is not None:
                factors = _rows(evaluator.value(reduce.factor), domain)
                evaluator.running[reduce.name] = _recurrence(reduce, rows, factors).reshape(domain.shape)
            elif reduce.prefix:
                evaluator.running[reduce.name] = _running(reduce, rows).reshape(domain.shape)
        if 0 not in domain.shape:
            evaluator.store_all(walked.stores)
    Evaluator(memory, domain.first_inner(), nest.name, results=results).store_all(nest.finals)


def _rows(value: Array, domain: Domain) -> Array:
    """A row of the inner points for every outer point: `[outer points, inner points]`."""
    inner = prod(domain.shape[domain.outer :])
    return np.asarray(np.broadcast_to(value, domain.shape)).reshape(prod(domain.outer_shape), inner)


def identity(op: str, dtype: DType) -> Any:
    """The value of a reduction over nothing."""
    if op in ("sum", "any", "argmax", "argmin"):
        return dtype.numpy.type(0)
    if op in ("prod", "all"):
        return dtype.numpy.type(1)
    if dtype.kind == "bool":
        return np.bool_(op == "min")
    if dtype.is_float:
        return dtype.numpy.type("-inf" if op == "max" else "inf")
    return dtype.numpy.type(dtype.integer_range[0 if op == "max" else 1])


def _prepared(op: str, rows: Array, dtype: DType) -> Array:
    """The rows in the type that they are reduced in: floats in F64, so that long sums stay exact."""
    if op in ("argmax", "argmin"):
        return rows
    if op in ("any", "all"):
        return np.asarray(rows != 0)
    if dtype.is_float and op in ("sum", "prod"):
        return rows.astype(np.float64)
    return rows if rows.dtype == dtype.numpy else cast(rows, dtype)


def reduce_rows(op: str, rows: Array, dtype: DType) -> Array:
    """Reduce the last axis of `rows[n, k]`; a row of nothing gives the identity."""
    if not rows.shape[1]:
        return np.full(rows.shape[0], identity(op, dtype), dtype.numpy)
    functions: dict[str, Any] = {
        "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all,
        "argmax": np.argmax, "argmin": np.argmin,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        prepared = _prepared(op, rows, dtype)
        more = {"dtype": prepared.dtype} if op in ("sum", "prod") else {}
        return np.asarray(functions[op](prepared, axis=1, **more)).astype(dtype.numpy)


def _running(reduce: Reduce, rows: Array) -> Array:
    """Every prefix of the reduction."""
    op, dtype = reduce.op, reduce.dtype
    ufuncs: dict[str, Any] = {
        "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
        "any": np.logical_or, "all": np.logical_and,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        prepared = _prepared(op, rows, dtype)
        if op in ufuncs:
            more = {"dtype": prepared.dtype} if op in ("sum", "prod") else {}
            result = np.asarray(ufuncs[op].accumulate(prepared, axis=1, **more)).astype(dtype.numpy)
        elif op in ("argmax", "argmin"):
            result = _running_position(op, prepared).astype(dtype.numpy)
        else:
            raise InternalError(f"no prefix of `{op}`", stage="lower")
    if not reduce.exclusive:
        return result
    first = np.full((rows.shape[0], 1), identity(op, dtype), dtype.numpy)
    return np.concatenate([first, result[:, :-1]], axis=1)[:, : rows.shape[1]]


def _recurrence(reduce: Reduce, rows: Array, factors: Array) -> Array:
    """A running sum that is multiplied before each addition.

    Raises:
        InternalError: It is no prefix sum.
    """
    if reduce.op != "sum" or not reduce.prefix:
        raise InternalError(f"`{reduce.name}` has a factor and is no prefix sum", stage="lower")
    total = np.zeros(rows.shape[0], np.float64)
    result = np.empty(rows.shape, reduce.dtype.numpy)
    with np.errstate(all="ignore"):
        for k in range(rows.shape[1]):
            before, total = total, total * factors[:, k] + rows[:, k]
            result[:, k] = before if reduce.exclusive else total
    return result


def _running_position(op: str, rows: Array) -> Array:
    """Position of the first extremum so far; NaN wins."""
    ufunc = np.maximum if op == "argmax" else np.minimum
    best = ufunc.accumulate(rows, axis=1)
    before = np.concatenate([best[:, :1], best[:, :-1]], axis=1)
    same = (best == before) | ((best != best) & (before != before))
    positions = np.where(same, 0, np.arange(rows.shape[1], dtype=np.int64))
    return np.asarray(np.maximum.accumulate(positions, axis=1))
