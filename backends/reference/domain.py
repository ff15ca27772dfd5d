"""Evaluation of expressions over all points of an iteration domain at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from rlxlang.backends.reference.functions import apply, cast
from rlxlang.backends.reference.memory import Memory
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import (
    Apply,
    AxisValue,
    Const,
    Expr,
    Gathered,
    Index,
    Load,
    Reduced,
    Running,
    SizeValue,
    Store,
    walk,
)
from rlxlang.types import DType

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Domain:
    """A box of points: the half-open range of every axis, the outer axes first.

    Attributes:
        ranges: Start and stop of each axis.
        outer: How many of the axes are outer ones.
    """

    ranges: tuple[tuple[int, int], ...]
    outer: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(stop - start for start, stop in self.ranges)

    @property
    def outer_shape(self) -> tuple[int, ...]:
        """The shape with 1 for every inner axis: what results of reductions have."""
        return (*self.shape[: self.outer], *(1 for _ in self.ranges[self.outer :]))

    def axis(self, k: int) -> Array:
        """Positions along an axis, shaped to broadcast over the domain."""
        start, stop = self.ranges[k]
        return np.arange(start, stop, dtype=np.int64).reshape([-1 if d == k else 1 for d in range(len(self.ranges))])

    def first_inner(self) -> Domain:
        """The outer points alone: inner axes stand at 0."""
        return Domain((*self.ranges[: self.outer], *((0, 1) for _ in self.ranges[self.outer :])), self.outer)

    def outer_number(self) -> Array:
        """The number of each outer point within this box."""
        return np.arange(prod(self.outer_shape), dtype=np.int64).reshape(self.outer_shape)


@dataclass(slots=True)
class Evaluator:
    """Values of expressions over one domain; an expression is computed once.

    Attributes:
        memory: Where loads read.
        domain: The points.
        results: Values of `Reduced`, shaped as `domain.outer_shape`.
        running: Values of `Running`.
        accumulator: Value of `Accumulator`.
        kernel: Name of the kernel, for errors.
    """

    memory: Memory
    domain: Domain
    kernel: str
    results: dict[str, Array] = field(default_factory=dict)
    running: dict[str, Array] = field(default_factory=dict)
    accumulator: Array | None = None
    _done: dict[int, tuple[Expr, Array]] = field(default_factory=dict)

    def value(self, expr: Expr) -> Array:
        """The value at every point, of a shape that broadcasts to the domain's."""
        for part in walk(expr):
            if id(part) not in self._done:
                self._done[id(part)] = (part, self._evaluate(part))
        return self._done[id(expr)][1]

    def _evaluate(self, expr: Expr) -> Array:
        if isinstance(expr, Const):
            return cast(np.asarray(expr.value), expr.dtype)
        if isinstance(expr, AxisValue):
            return self.domain.axis(expr.axis).astype(expr.dtype.numpy)
        if isinstance(expr, SizeValue):
            return np.asarray(self.memory.value(expr.dim)).astype(expr.dtype.numpy)
        if isinstance(expr, Apply):
            return apply(expr.function, tuple(self._done[id(a)][1] for a in expr.args), expr.dtype)
        if isinstance(expr, Load):
            return self._load(expr)
        if isinstance(expr, Reduced):
            return self._named(self.results, expr.name, "is not reduced yet")
        if isinstance(expr, Running):
            return self._named(self.running, expr.name, "is no prefix of this pass")
        if self.accumulator is None:
            raise self.problem("an Accumulator outside of an epilogue")
        return self.accumulator

    def _named(self, values: dict[str, Array], name: str, why: str) -> Array:
        if name not in values:
            raise self.problem(f"`{name}` {why}")
        return values[name]

    def _load(self, load: Load) -> Array:
        where = None if load.where is None else self._done[id(load.where)][1]
        position = self.positions(load.buffer, load.index, where, "reads")
        source = self.source(load.buffer)
        if where is None:
            return self._as(source[position], load.dtype)
        fill = cast(np.asarray(load.fill), load.dtype)
        if not np.any(where):
            return np.broadcast_to(fill, np.broadcast_shapes(position.shape, where.shape))
        return np.asarray(np.where(where, self._as(source[np.where(where, position, 0)], load.dtype), fill))

    @staticmethod
    def _as(values: Array, dtype: DType) -> Array:
        return values if values.dtype == dtype.numpy else cast(values, dtype)

    def source(self, buffer: int) -> Array:
        """The flat array that positions of a buffer count in."""
        return self.memory.private(buffer) if self.memory.is_private(buffer) else self.memory.flat(buffer)

    def positions(self, buffer: int, index: Index, where: Array | None, verb: str) -> Array:
        """Positions in `source(buffer)` at every point.

        Raises:
            InternalError: A position that `where` lets through lies outside of the buffer.
        """
        if len(index.strides) != len(self.domain.ranges):
            raise self.problem(f"{len(index.strides)} strides for {len(self.domain.ranges)} axes")
        position = np.full((1,) * len(self.domain.ranges), self.memory.value(index.offset), np.int64)
        for k, dim in enumerate(index.strides):
            stride = self.memory.value(dim)
            if stride:
                position = position + stride * self.domain.axis(k)
        for gathered in index.gathered:
            position = position + self._gathered(gathered)
        size = self.memory.elements(buffer)
        outside = (position < 0) | (position >= size)
        if where is not None:
            outside = outside & where
        if np.any(outside):
            bad = np.broadcast_to(position, outside.shape)[outside].flat[0]
            raise self.problem(f"{verb} element {bad} of {self.memory.describe(buffer)} with {size} elements")
        if self.memory.is_private(buffer):
            position = position + size * self.domain.outer_number()
        return position

    def _gathered(self, gathered: Gathered) -> Array:
        size = self.memory.value(gathered.size)
        value = self.value(gathered.value).astype(np.int64)
        value = np.where(value < 0, value + size, value)
        return np.asarray(np.clip(value, 0, max(size - 1, 0)) * self.memory.value(gathered.stride))

    def problem(self, text: str) -> InternalError:
        """An error with the name of the kernel."""
        return InternalError(f"kernel `{self.kernel}`: {text}", stage="lower")

    def store_all(self, stores: tuple[Store, ...]) -> None:
        """Perform the stores at every point: all values first, then the writes in order.

        Raises:
            InternalError: A store leaves its buffer.
        """
        pending: list[Callable[[], None]] = [self._prepare(store) for store in stores]
        for write in pending:
            write()

    def _prepare(self, store: Store) -> Callable[[], None]:
        value = self.value(store.value)
        where = None if store.where is None else self.value(store.where)
        position = self.positions(store.buffer, store.index, where, "writes")
        shapes = [position.shape, value.shape, () if where is None else where.shape]
        # A combining store counts at every point; a setting one only where something differs.
        shape = np.broadcast_shapes(*shapes) if store.mode == "set" else self.domain.shape
        position, value = np.broadcast_to(position, shape).reshape(-1), np.broadcast_to(value, shape).reshape(-1)
        if where is not None:
            chosen = np.broadcast_to(where, shape).reshape(-1)
            position, value = position[chosen], value[chosen]
        target = self.source(store.buffer)
        if self.memory.program.buffers[store.buffer].kind in ("input", "param", "constant"):
            raise self.problem(f"writes {self.memory.describe(store.buffer)}")
        dtype = self.memory.program.buffers[store.buffer].element

        def write() -> None:
            if store.mode == "set":
                target[position] = self._as(value, dtype)
            else:
                _combine(store.mode, target, position, value, dtype)

        return write


def _combine(mode: str, target: Array, position: Array, value: Array, dtype: DType) -> None:
    """Fold values into `target`, floats in F64; places may repeat."""
    ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[mode]
    places, which = np.unique(position, return_inverse=True)
    wide = np.dtype(np.float64) if dtype.is_float else dtype.numpy
    folded = target[places].astype(wide)
    with np.errstate(all="ignore"):
        ufunc.at(folded, which, value.astype(wide))
        target[places] = folded.astype(dtype.numpy)
