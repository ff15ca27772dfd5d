"""The arrays of a session: what inputs and parameters were set to, and what parameters start with."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import Diagnostic, RlxRuntimeError, RlxValueError, did_you_mean, error
from rlxlang.initializers import Stream, draw
from rlxlang.inputs import check_shape, convert, described
from rlxlang.ir import GraphInput
from rlxlang.types import Dim, DType, axes_of, evaluate

Array: TypeAlias = "np.ndarray[Any, Any]"

_FILL = re.compile(r"(randn|rand|randint|zeros|ones|arange)\s*(?:\(([\d\s,]*)\))?")
_DEFAULT_SIZE = 2  # of a dynamic axis of which nothing is known
_DEFAULT_RANGE = 2  # integers are drawn below this


@dataclass(frozen=True, slots=True)
class Fill:
    """A way to fill an array: `randn`, `rand`, `randint(10)`, `zeros`, `ones`, `arange`, perhaps with a shape.

    Attributes:
        kind: The word.
        numbers: What stands in parentheses: the shape, or the bound of `randint`.
    """

    kind: str
    numbers: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Fill | None:
        """The fill that a text names; None for every other text."""
        match = _FILL.fullmatch(text.strip())
        if match is None:
            return None
        return cls(match[1], tuple(int(n) for n in (match[2] or "").replace(",", " ").split()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that was written, empty when there is none."""
        return () if self.kind == "randint" else self.numbers

    def array(self, shape: Sequence[int], dtype: DType, name: str, seed: int) -> Array:
        """The array; the same for the same name and seed."""
        count = math.prod(shape)
        stream = Stream.named(seed, name)
        if self.kind == "randint":
            bound = self.numbers[0] if self.numbers else _DEFAULT_RANGE
            made: Array = np.floor(stream.uniform(count) * bound)
        elif self.kind == "arange":
            made = np.arange(count)
        elif self.kind in ("zeros", "ones"):
            made = np.full(count, float(self.kind == "ones"))
        elif dtype.is_differentiable:
            made = stream.normal(count) if self.kind == "randn" else stream.uniform(count)
        else:
            made = np.floor(stream.uniform(count) * _DEFAULT_RANGE)
        return made.reshape(tuple(shape)).astype(dtype.numpy)


@dataclass(eq=False)
class Values:
    """What inputs and parameters hold, by run-time name.

    Attributes:
        seed: Of everything that is drawn.
        arrays: What was set.
        fills: How arrays that were filled were filled.
        sizes: Sizes of dynamic axes that were set.
    """

    seed: int = 0
    arrays: dict[str, Array] = field(default_factory=dict)
    fills: dict[str, Fill] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _drawn: dict[tuple[object, ...], Array] = field(default_factory=dict)

    def set(self, entry: GraphInput, value: object) -> Array:
        """Set an input or parameter to an array, or to what is accepted for one.

        Raises:
            RlxTypeError: E0806, E0812 wrong dtype, or no array.
            RlxShapeError: E0805 wrong shape.
        """
        array = convert(value, entry.node.dtype, described(entry))
        check_shape(entry, array.shape)
        self.fills.pop(entry.name, None)
        self.arrays[entry.name] = np.array(array, order="C")
        return self.arrays[entry.name]

    def fill(self, entry: GraphInput, fill: Fill, entries: Iterable[GraphInput]) -> Array:
        """Fill an input or parameter; unknown axes take the sizes they have in other inputs.

        Raises:
            RlxShapeError: E0805 the shape that was written does not fit.
        """
        shape = fill.shape or self._shape(entry, [e for e in entries if e.name != entry.name])
        array = self.set(entry, fill.array(shape, entry.node.dtype, entry.name, self.seed))
        self.fills[entry.name] = fill
        return array

    def _shape(self, entry: GraphInput, others: Iterable[GraphInput]) -> tuple[int, ...]:
        known = {**self.known_sizes(others), **self.sizes}
        for dim in entry.node.shape:
            for axis in axes_of(dim):
                known.setdefault(axis, _DEFAULT_SIZE)
        return tuple(evaluate(dim, known) if isinstance(dim, Dim) else dim for dim in entry.node.shape)

    def known_sizes(self, entries: Iterable[GraphInput]) -> dict[str, int]:
        """The sizes of the dynamic axes of inputs that have a value."""
        found: dict[str, int] = {}
        for entry in entries:
            array = self.arrays.get(entry.name)
            if array is None or array.ndim != entry.node.tensor.rank:
                continue
            for dim, size in zip(entry.node.shape, array.shape, strict=True):
                if isinstance(dim, Dim) and axes_of(dim) == (str(dim),):
                    found.setdefault(str(dim), size)
        return found

    def resize(self, axis: str, size: int, entries: Sequence[GraphInput]) -> list[str]:
        """Give a dynamic axis a size; what was filled along it is filled again. Gives the names of that."""
        self.sizes[axis] = size
        again = [
            e for e in entries
            if e.name in self.fills and not self.fills[e.name].shape and any(axis in axes_of(d) for d in e.node.shape)
        ]  # fmt: skip
        for entry in again:
            self.arrays.pop(entry.name, None)
        for entry in again:
            self.fill(entry, self.fills[entry.name], entries)
        return [e.name for e in again]

    def reseed(self, seed: int, entries: Sequence[GraphInput]) -> None:
        """Draw everything that is drawn from another seed."""
        self.seed = seed
        for entry in entries:
            fill = self.fills.get(entry.name)
            if fill is not None:
                array = self.arrays[entry.name]
                self.arrays[entry.name] = fill.array(array.shape, entry.node.dtype, entry.name, seed)

    def forget_misfits(self, entries: Sequence[GraphInput]) -> list[str]:
        """Drop arrays whose input or parameter is gone or has another type now. Gives their names."""
        by_name = {e.name: e for e in entries}
        wrong = [name for name, array in self.arrays.items() if not _fits(by_name.get(name), array)]
        for name in wrong:
            del self.arrays[name]
            self.fills.pop(name, None)
        return wrong

    def param(self, entry: GraphInput) -> Array | None:
        """The value of a parameter: what was set, else what its initialiser draws; None without either."""
        if entry.name in self.arrays:
            return self.arrays[entry.name]
        if entry.init is None or not entry.node.tensor.is_static:
            return None
        key = (entry.name, str(entry.init), str(entry.node.type), self.seed)
        if key not in self._drawn:
            self._drawn[key] = draw(entry.init, entry.name, tuple(entry.node.shape), entry.node.dtype, self.seed)
        return self._drawn[key]

    def missing(self, entries: Iterable[GraphInput], bound: Mapping[str, Any]) -> list[Diagnostic]:
        """An error for every input and parameter that has no value."""
        found = []
        for entry in entries:
            given = entry.name in self.arrays or entry.name in bound or entry.kind == "seed"
            if given or (entry.kind == "param" and self.param(entry) is not None):
                continue
            code, more = ("E0809", " and no initialiser") if entry.kind == "param" else ("E0803", "")
            found.append(
                error(
                    code,
                    f"{described(entry)} has no value{more}",
                    entry.node.origin.span,
                    notes=(f"its type is {entry.node.type}",),
                    helps=(f"give one: `:set {entry.name} = randn`, `:set {entry.name} = {_example(entry)}`",),
                )
            )
        return found


def _fits(entry: GraphInput | None, array: Array) -> bool:
    if entry is None or array.dtype != entry.node.dtype.numpy or array.ndim != entry.node.tensor.rank:
        return False
    return all(isinstance(d, Dim) or d == n for d, n in zip(entry.node.shape, array.shape, strict=True))


def _example(entry: GraphInput) -> str:
    return ("1", "[1, 2]", "[[1, 2], [3, 4]]")[min(entry.node.tensor.rank, 2)]


def read_array(path: str, name: str) -> Array:
    """The array of a `.npy` file, or the one of a name in a `.npz` file (`file.npz:key` says which).

    Raises:
        RlxRuntimeError: The file cannot be read.
        RlxValueError: It is no such file, or holds no such array.
    """
    base, mark, key = path.partition(".npz:")
    place = Path(base + ".npz" if mark else path)
    try:
        place = place.expanduser()
        with place.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            names = list(loaded.files)
            wanted = key or (names[0] if len(names) == 1 else name)
            if wanted in names:
                found: Array = loaded[wanted]
                return found
    except (OSError, RuntimeError) as problem:  # the latter: no such user
        why = getattr(problem, "strerror", None) or problem
        raise RlxRuntimeError(f"`{place}` cannot be read: {why}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise RlxValueError(f"`{place}` is no file of arrays as NumPy saves them, or it holds objects") from None
    raise RlxValueError(
        f"`{place}` has no array `{wanted}`",
        notes=(f"it has {', '.join(names) or 'none'}",),
        helps=(did_you_mean(wanted, names) or f"write which: `{place}:NAME`",),
    )


def is_array_file(text: str) -> bool:
    """Whether the right side of `:set` is a file of arrays."""
    return re.search(r"\.np[yz](?::[^/]*)?\"?$", text.strip()) is not None
