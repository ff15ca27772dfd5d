"""Watching what a run computes: NaN and infinities, positions outside of their axis, a log of all values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias

import numpy as np

from rlxlang.compiler import ReferenceCompiled
from rlxlang.diagnostics import Diagnostic, Label, RlxRuntimeError, Span, error
from rlxlang.ir import Node
from rlxlang.types import Dim, evaluate

Array: TypeAlias = "np.ndarray[Any, Any]"
Range: TypeAlias = tuple[float, float]

_CHAIN = 6  # so many values are shown that led to one that is not finite
_active: dict[type[_Switch], _Switch] = {}


class _Switch:
    """What looks at every op while it is on: from now on, or in a `with` block until its end."""

    def __init__(self, on: bool = True) -> None:
        kind = type(self)
        self._before = _active.get(kind)
        if on:
            _active[kind] = self
        else:
            _active.pop(kind, None)

    def __enter__(self) -> Any:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is None:
            _active.pop(type(self), None)
        else:
            _active[type(self)] = self._before

    def begin(self) -> None:
        """A run begins."""

    def see(self, node: Node, operands: Sequence[Any], value: Any, sizes: Mapping[str, int]) -> None:
        """An op has run; see `interp.Observe`. An input comes without operands."""
        raise NotImplementedError


def is_watching() -> bool:
    """Whether runs are watched."""
    return bool(_active)


class WatchedCompiled(ReferenceCompiled):
    """A graph run by the interpreter, all values shown to what is switched on."""

    def run(self, feeds: Sequence[Array], params: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
        """See `Compiled.run`."""
        from rlxlang.interp import evaluate

        switches = tuple(_active.values())
        arrays = {**params, **dict(zip(self._names, feeds, strict=True))}

        def observe(node: Node, operands: Sequence[Any], value: Any, sizes: Mapping[str, int]) -> None:
            for switch in switches:
                switch.see(node, operands, value, sizes)

        for switch in switches:
            switch.begin()
        with np.errstate(all="ignore"):
            for entry in self._graph.inputs:
                observe(entry.node, (), np.asarray(arrays[entry.name]), sizes)
            return [np.array(a, order="C") for a in evaluate(self._graph, arrays, sizes, observe)]


# ------------------------------------------------------------------------------------------ NaN and infinities
class debug_nans(_Switch):  # noqa: N801 - a switch that reads as a function
    """Watch every run for NaN and infinities; the first op that makes one from finite operands is named with its source line.

    While it is on, functions run op by op in NumPy, on whatever device they are asked for. What `jit` returned before is not
    watched. The error E0813 shows the values that led there, also inside of loops and in derivatives.

    Args:
        on: Whether to watch from now on; in a `with` block, until its end.

    Example:
        >>> import rlxlang as rlx
        >>> with rlx.debug_nans():  # doctest: +SKIP
        ...     model.run(x=x)
    """

    def __init__(self, on: bool = True) -> None:
        super().__init__(on)
        self.begin()

    def begin(self) -> None:
        """See `_Switch`."""
        self._ranges: dict[Node, Range] = {}
        self._varying: set[Node] = set()  # what depends on inputs and params

    def see(self, node: Node, operands: Sequence[Any], value: Any, sizes: Mapping[str, int]) -> None:
        """See `_Switch`.

        Raises:
            RlxRuntimeError: E0813 the value is not finite and the operands are.
        """
        if node.op.name == "input" or any(i.op.name == "input" or i in self._varying for i in node.inputs):
            self._varying.add(node)
        for array in _floats(value):
            if _is_finite(array):
                if array.size and node in self._varying:
                    shown = np.abs(array) if array.dtype.kind == "c" else array
                    self._ranges[node] = (float(shown.min()), float(shown.max()))
            elif node.op.name != "constant" and all(_is_finite(a) for o in operands for a in _floats(o)):
                raise RlxRuntimeError(self._found(node, array))

    def _found(self, node: Node, value: Array) -> Diagnostic:
        bad = ~np.isfinite(value)
        place = [int(i) for i in np.argwhere(bad)[0]]
        made = f"`{node.op.name}` makes"
        what = f"the {node.attrs['kind']} `{node.attrs['name']}` holds" if node.op.name == "input" else made
        notes = [f"{int(bad.sum())} of {value.size} values are not finite"]
        if node.origin.via:
            notes.append(f"the op comes from {' of '.join(reversed(node.origin.via))}")
        labels: list[Label] = []
        for source in self._sources(node):
            text = f"{_name(source)}: {_range_text(self._ranges[source])}"
            span = source.origin.span
            if span is None or span == node.origin.span or any(x.span == span for x in labels):
                notes.append(f"it is computed from {text}")
            else:
                labels.append(Label(span, text))
        found = error("E0813", f"{what} {value[tuple(place)]} at {place}", node.origin.span, notes=notes)
        return found.with_labels(*labels)

    def _sources(self, node: Node) -> list[Node]:
        """The values that led to a node, the nearest first: at each step the operand that reaches farthest from 0."""
        found: list[Node] = []
        while len(found) < _CHAIN:
            known = [i for i in node.inputs if i in self._ranges]
            if not known:
                break
            node = max(known, key=lambda i: max(map(abs, self._ranges[i])))
            found.append(node)
        return found


def _floats(value: Any) -> list[Array]:
    arrays = value if isinstance(value, tuple) else (value,)
    return [np.asarray(a) for a in arrays if isinstance(a, np.ndarray | np.generic) and _is_inexact(a)]


def _is_inexact(array: Any) -> bool:
    return array.dtype.kind in "fc" or array.dtype.name == "bfloat16"


def _is_finite(array: Array) -> bool:
    return bool(np.isfinite(array).all())


def _name(node: Node) -> str:
    return f"`{node.attrs['name']}`" if node.op.name == "input" else f"`{node.op.name}`"


def _range_text(values: Range) -> str:
    low, high = values
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


# ------------------------------------------------------------------------------------------ positions
class debug_checks(_Switch):  # noqa: N801 - a switch that reads as a function
    """Watch every run for positions outside of their axis, which are clamped otherwise: indices, labels, tokens.

    While it is on, functions run op by op in NumPy, on whatever device they are asked for; a position below `-size` or from
    `size` on is the error E0815, which shows the line, the number and its place.

    Args:
        on: Whether to watch from now on; in a `with` block, until its end.
    """

    def see(self, node: Node, operands: Sequence[Any], value: Any, sizes: Mapping[str, int]) -> None:
        """See `_Switch`.

        Raises:
            RlxRuntimeError: E0815 a position is outside.
        """
        if node.op.bound is None:
            return
        bound = node.op.bound(node)
        indices = np.asarray(operands[bound.operand])
        size = evaluate(bound.size, sizes) if isinstance(bound.size, Dim) else bound.size
        wide = indices.astype(np.int64)
        outside = (wide < -size) | (wide >= size)
        if bound.skipped is not None:
            outside &= wide != bound.skipped
        if outside.any():
            place = [int(i) for i in np.argwhere(outside)[0]]
            where = f" at {place}" if place else ""
            raise RlxRuntimeError(
                f"`{node.op.name}` is given the position {int(wide[tuple(place)])}{where}, and the axis has {size} entries",
                code="E0815",
                span=node.origin.span,
                notes=(f"{int(outside.sum())} of {indices.size} positions are outside of {-size} … {size - 1}",),
            )


# ------------------------------------------------------------------------------------------ a log of values
@dataclass(frozen=True, slots=True)
class OpRecord:
    """What an op computed in a run.

    Attributes:
        op: Name of the op, or of the input or param.
        type: Dtype and shape, sizes as numbers: `F32 [2, 3]`.
        low: Least number that is not NaN; None where there is none, and for complex values.
        high: Greatest.
        nans: How many entries are NaN.
        place: File, line and column, or "".
        via: Transforms that made the op, innermost first.
    """

    op: str
    type: str
    low: float | None
    high: float | None
    nans: int
    place: str
    via: tuple[str, ...]

    def __str__(self) -> str:
        values = "no numbers" if self.low is None else f"{self.low:.6g} … {self.high:.6g}"
        nans = f", {self.nans} NaN" if self.nans else ""
        origin = " ".join([self.place, *(f"({' of '.join(reversed(self.via))})" for _ in self.via[:1])]).strip()
        return f"{self.op:<20} {self.type:<20} {values}{nans}{'  ' + origin if origin else ''}"


class trace(_Switch):  # noqa: N801 - a switch that reads as a function
    """Log every op of every run: its name, type, least and greatest number, count of NaN, and place in the source.

    While it is on, functions run op by op in NumPy, on whatever device they are asked for. Ops in the bodies of loops are logged
    in every step.

    Args:
        on: Whether to log from now on; in a `with` block, until its end.
        file: Where lines are written: standard error when left out, nowhere for None.

    Example:
        >>> import rlxlang as rlx
        >>> with rlx.trace(file=None) as records:  # doctest: +SKIP
        ...     model.run(x=x)
        >>> max(records, key=lambda r: r.nans)  # doctest: +SKIP
    """

    def __init__(self, on: bool = True, *, file: TextIO | Literal["stderr"] | None = "stderr") -> None:
        super().__init__(on)
        self._file = file
        self._records: list[OpRecord] | None = None

    def __enter__(self) -> list[OpRecord]:
        self._records = []
        return self._records

    def see(self, node: Node, operands: Sequence[Any], value: Any, sizes: Mapping[str, int]) -> None:
        """See `_Switch`."""
        if isinstance(value, tuple):  # its items are logged by themselves
            return
        record = _record(node, np.asarray(value))
        if self._records is not None:
            self._records.append(record)
        file = sys.stderr if self._file == "stderr" else self._file
        if file is not None:
            print(record, file=file)


def _record(node: Node, value: Array) -> OpRecord:
    wide = value.astype(np.float64) if value.dtype.kind != "c" else np.abs(value)
    sound = wide[~np.isnan(wide)]
    ordered = sound.size > 0 and value.dtype.kind != "c"
    name = str(node.attrs["name"]) if node.op.name == "input" else node.op.name
    return OpRecord(
        name,
        f"{node.dtype} {list(value.shape)}",
        float(sound.min()) if ordered else None,
        float(sound.max()) if ordered else None,
        int(wide.size - sound.size),
        _place(node.origin.span),
        node.origin.via,
    )


def _place(span: Span | None) -> str:
    return "" if span is None else span.location
