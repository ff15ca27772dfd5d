"""Batches of training data: cut from arrays, or made by somebody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxTypeError
from rlxlang.inputs import check_names, fault
from rlxlang.ir import Graph, GraphInput
from rlxlang.training.numbers import whole_number
from rlxlang.types import Dim

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"
Batch: TypeAlias = "Mapping[str, object]"
# Whole arrays by name, which are cut into batches, or the batches themselves.
Data: TypeAlias = "Mapping[str, object] | Iterable[Batch]"


class ArrayData:
    """Whole arrays, cut into batches along the batch axis.

    The batch axis is the first axis of the first input; inputs that begin with it are cut, others go whole into each batch.

    Args:
        graph: The function's graph.
        arrays: Arrays of all inputs by name.
        batch_size: Rows of a batch. Where the graph fixes the number of rows it is that number.

    Raises:
        RlxNameError: E0807 an unknown input. RlxRuntimeError: E0803 a missing one.
        RlxShapeError: Inputs differ in their number of rows.
    """

    def __init__(self, graph: Graph, arrays: Mapping[str, object], batch_size: int) -> None:
        feeds = graph.feeds
        names = [e.name for e in feeds]
        check_names(arrays, names, "input", graph.name)
        missing = [n for n in names if n not in arrays]
        if missing:
            listed = ", ".join(f"`{n}`" for n in missing)
            raise fault("E0803", f"the data of `{graph.name}` lack {listed}", notes=(f"they hold {', '.join(arrays)}",))
        self._arrays = [np.asarray(arrays[n]) for n in names]
        self._names = names
        self._is_cut, fixed = _cut_inputs(feeds, self._arrays)
        counts = {n: a.shape[0] for n, a, cut in zip(names, self._arrays, self._is_cut, strict=True) if cut}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"`{n}` has {count}" for n, count in counts.items())
            raise RlxShapeError(f"the data differ in their number of rows: {listed}")
        self.rows = next(iter(counts.values()), 1)
        self.batch_size = fixed or min(whole_number("batch_size", batch_size, 1), max(self.rows, 1))
        # A fixed number of rows leaves no room for a smaller last batch.
        self.count = self.rows // fixed if fixed else -(-self.rows // self.batch_size)
        if self.count == 0:
            raise RlxShapeError(f"the data have {self.rows} rows, a batch needs {self.batch_size}")

    def cut_by_name(self) -> dict[str, bool]:
        """Whether an input is cut into batches, by name."""
        return dict(zip(self._names, self._is_cut, strict=True))

    def batches(self, order: Array | None = None) -> Iterator[tuple[tuple[object, ...], int]]:
        """The inputs of each batch by position, and its number of rows.

        Args:
            order: The rows in the order in which to take them; as they are when left out.
        """
        for k in range(self.count):
            start, stop = k * self.batch_size, min((k + 1) * self.batch_size, self.rows)
            rows: Any = slice(start, stop) if order is None else order[start:stop]
            pairs = zip(self._arrays, self._is_cut, strict=True)
            yield tuple(a[rows] if cut else a for a, cut in pairs), stop - start


def _cut_inputs(feeds: Sequence[GraphInput], arrays: Sequence[Array]) -> tuple[list[bool], int]:
    """Which inputs are cut into batches, and the number of rows if the graph fixes it, else 0."""
    leading = [e.node.shape[0] if e.node.shape else None for e in feeds]
    axis = next((d for d in leading if d is not None), None)
    if isinstance(axis, Dim):
        return [d == axis for d in leading], 0
    cut = [d == axis and a.ndim > 0 and a.shape[0] != d for d, a in zip(leading, arrays, strict=True)]
    return cut, axis or 1


class BatchData:
    """Batches made by somebody else; they are walked through once per epoch."""

    def __init__(self, func: Func, batches: Iterable[Batch]) -> None:
        if not isinstance(batches, Iterable):
            raise RlxTypeError(
                f"training data are arrays by name or batches of such, {type(batches).__name__} is given"
            )
        self._signature = func.traced.signature
        self._batches = batches
        self.count = len(batches) if isinstance(batches, Sequence) else None

    def batches(self, order: Array | None = None) -> Iterator[tuple[tuple[object, ...], int]]:
        """The inputs of each batch by position, and its number of rows."""
        for batch in self._batches:
            values = self._signature.inputs_by_position(batch, {})
            yield values, next((len(v) for v in map(np.asarray, values) if v.ndim), 1)


def source_of(func: Func, data: Data, batch_size: int) -> ArrayData | BatchData:
    """The batches of data, which are arrays by name or batches already."""
    return ArrayData(func.graph, data, batch_size) if isinstance(data, Mapping) else BatchData(func, data)
