"""Batches of training data: cut from arrays, or made by somebody else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxTypeError, RlxValueError
from rlxlang.inputs import check_names, convert, described, fault
from rlxlang.ir import Graph, GraphInput
from rlxlang.training.numbers import whole_number
from rlxlang.types import Dim

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"
# The inputs of a step: by name, by position, or the only one.
Batch: TypeAlias = "Mapping[str, object] | Sequence[object] | object"
# Whole arrays by name, which are cut into batches; the batches themselves; or a function that gives them anew for each epoch.
Data: TypeAlias = "Mapping[str, object] | Iterable[Batch] | Callable[[], Iterable[Batch]]"


def batch_input(feeds: Sequence[GraphInput]) -> GraphInput | None:
    """The input whose first axis counts the rows of a batch.

    It is the first one that begins with a dynamic axis, else the first one that has axes; None where no input has.
    """
    ranked = [e for e in feeds if e.node.shape]
    return next((e for e in ranked if isinstance(e.node.shape[0], Dim)), ranked[0] if ranked else None)


class ArrayData:
    """Whole arrays, cut into batches along the batch axis (see `batch_input`).

    Inputs that begin with it are cut, others go whole into each batch.

    Args:
        graph: The function's graph.
        arrays: Arrays of all inputs by name.
        batch_size: Rows of a batch. Where the graph fixes the number of rows it is that number.

    Raises:
        RlxNameError: E0807 an unknown input. RlxRuntimeError: E0803 a missing one.
        RlxShapeError: Inputs differ in their number of rows.
        RlxTypeError: E0806 the dtype of an array differs, E0812 it is no array.
    """

    def __init__(self, graph: Graph, arrays: Mapping[str, object], batch_size: int) -> None:
        feeds = graph.feeds
        names = [e.name for e in feeds]
        check_names(arrays, names, "input", graph.name)
        missing = [n for n in names if n not in arrays]
        if missing:
            listed = ", ".join(f"`{n}`" for n in missing)
            raise fault("E0803", f"the data of `{graph.name}` lack {listed}", notes=(f"they hold {', '.join(arrays)}",))
        self._arrays = [convert(arrays[e.name], e.node.dtype, described(e)) for e in feeds]
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
    first = batch_input(feeds)
    axis = None if first is None else first.node.shape[0]
    if isinstance(axis, Dim):
        return [d == axis for d in leading], 0
    cut = [d == axis and a.ndim > 0 and a.shape[0] != d for d, a in zip(leading, arrays, strict=True)]
    return cut, axis or 1


class BatchData:
    """Batches made by somebody else, walked through once per epoch.

    A batch is a mapping by name, a list or tuple of the inputs in order of declaration, or the array of an only input; arrays may be
    anything with `__array__` or `__dlpack__`.

    Args:
        func: The function.
        batches: What gives them: a list, a loader, a generator, or a function that makes one for each epoch.

    Raises:
        RlxTypeError: It is nothing of that kind.
    """

    def __init__(self, func: Func, batches: Any) -> None:
        if isinstance(batches, (str, bytes, type)) or not (isinstance(batches, Iterable) or callable(batches)):
            given = f"the class {batches.__name__}" if isinstance(batches, type) else type(batches).__name__
            raise RlxTypeError(
                f"data are arrays by name, batches of such, or a function that gives batches; {given} is given"
            )
        self._signature = func.traced.signature
        first = batch_input(func.graph.feeds)
        self._counted = None if first is None else self._signature.feed_names.index(first.name)
        self._batches = batches
        self.count = len(batches) if isinstance(batches, Sized) else None

    def require_epochs(self, epochs: int) -> None:
        """Refuse to walk more than once through what can be walked through once.

        Raises:
            RlxValueError: The batches come from a generator, and there are several epochs.
        """
        if epochs > 1 and isinstance(self._batches, Iterator):
            raise RlxValueError(
                f"{epochs} epochs need the batches {epochs} times, a {type(self._batches).__name__} gives them once",
                helps=("give the function that makes the generator: `fit(lambda: batches(…), …)`, or a list",),
            )

    def batches(self, order: Array | None = None) -> Iterator[tuple[tuple[object, ...], int]]:
        """The inputs of each batch by position, and its number of rows.

        Raises:
            RlxTypeError: A function gives no batches, or a batch is no inputs.
            RlxError: As `Func.run` for inputs that are missing or too many.
        """
        batches = self._batches
        given = batches() if callable(batches) and not isinstance(batches, Iterable) else batches
        if not isinstance(given, Iterable):
            raise RlxTypeError(f"the function of the data gives batches; {type(given).__name__} is given")
        for batch in given:
            values = self._values(batch)
            shape = () if self._counted is None else _shape(values[self._counted])
            yield values, shape[0] if shape else 1

    def _values(self, batch: Batch) -> tuple[object, ...]:
        """The inputs by position."""
        signature = self._signature
        if isinstance(batch, (tuple, list)) and not all(_is_named(entry) for entry in batch):
            if len(batch) != len(signature.feed_names):
                raise signature.miscounted(len(batch))
            return tuple(batch)
        if len(signature.feed_names) == 1 and hasattr(batch, "shape"):
            return (batch,)
        return signature.inputs_by_position(cast("Mapping[str, object]", batch), {})


def _is_named(entry: object) -> bool:
    """Whether an entry of a batch is a pair of name and value."""
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)


def _shape(value: object) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(cast("Any", value))


def source_of(func: Func, data: Data, batch_size: int) -> ArrayData | BatchData:
    """The batches of data, which are arrays by name or batches already."""
    return ArrayData(func.graph, data, batch_size) if isinstance(data, Mapping) else BatchData(func, data)
