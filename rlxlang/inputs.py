"""What a run is given: conversion of arrays, the sizes of dynamic axes, and the guards over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import (
    RlxError,
    Span,
    did_you_mean,
    error,
    error_class,
)
from rlxlang.ir import Graph, GraphInput, SourcedGuard
from rlxlang.types import (
    Dim,
    DimProblem,
    DType,
    Guard,
    TensorType,
    axes_of,
    evaluate,
    exact_quotient,
    from_numpy,
    shape_text,
    substitute,
)

Array: TypeAlias = "np.ndarray[Any, Any]"
Inputs: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]] | None"
_PYTHON_NUMBERS = (bool, int, float, complex)


def fault(
    code: str, message: str, span: Span | None = None, *, notes: Iterable[str] = (), helps: Iterable[str] = ()
) -> RlxError:
    """The exception of a code's class with one diagnostic."""
    return error_class(code)(error(code, message, span, notes=tuple(notes), helps=tuple(helps)))


# --------------------------------------------------------------------------------------------- one array


def convert(value: object, dtype: DType, what: str) -> Array:
    """A value as a C-contiguous, aligned array of exactly `dtype`.

    Python numbers and lists of them take the dtype if it can hold them; float64 becomes F32 and int64 I32 when all values fit;
    every other difference of dtypes is an error. An exact array is returned as it is, without a copy.

    Args:
        value: A NumPy array, a number, a nested list, or anything with `__array__` or `__dlpack__`.
        dtype: The declared element type.
        what: How messages call it, ``input `x` ``.

    Raises:
        RlxTypeError: E0806 the dtype differs, E0812 not an array at all.
        RlxValueError: E0810 a value does not fit.
    """
    if type(value) is np.ndarray and value.dtype == dtype.numpy and value.dtype.isnative:
        return _laid_out(value, dtype)
    array, is_python = _as_array(value, dtype, what)
    given = from_numpy(array.dtype)
    if given == dtype:
        return _laid_out(array, dtype)
    if is_python:
        return _from_python(array, dtype, what)
    if dtype.name == "F32" and given is not None and given.name == "F64":
        return _narrowed(array, dtype, what)
    if dtype.name == "I32" and given is not None and given.name == "I64":
        return _narrowed_integer(array, dtype, what)
    raise fault(
        "E0806",
        f"{what} is declared {dtype}, an array of dtype {array.dtype} is given",
        notes=("only float64 to F32 and int64 to I32 are converted by themselves",),
        helps=(f"convert it: `array.astype({_numpy_spelling(dtype)})`",),
    )


def _laid_out(array: Array, dtype: DType) -> Array:
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, dtype=dtype.numpy, order="C")


def _numpy_spelling(dtype: DType) -> str:
    return "ml_dtypes.bfloat16" if dtype.name == "BF16" else f"np.{dtype.numpy.name}"


def _as_array(value: object, dtype: DType, what: str) -> tuple[Array, bool]:
    """The value as an array, and whether it is made of Python numbers (whose dtype is weak)."""
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise fault("E0812", f"{what}: masked arrays are not accepted", helps=("fill it: `array.filled(0)`",))
        return np.asarray(value), False
    if isinstance(value, _PYTHON_NUMBERS):
        return python_array(value, what), True
    if isinstance(value, np.generic):
        return np.asarray(value), False
    if isinstance(value, (list, tuple)):
        return python_array(value, what), _only_python_numbers(value)
    try:
        if hasattr(value, "__array__"):
            return np.asarray(value), False
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value), False
    except Exception as problem:  # whatever a foreign array type raises
        raise fault("E0812", f"{what}: {type(value).__name__} gives no array: {problem}") from problem
    raise fault(
        "E0812",
        f"{what}: a value of type {type(value).__name__} is no array",
        notes=(f"expected {dtype}: a NumPy array, a number, a list, or an object with `__array__` or `__dlpack__`",),
    )


def python_array(value: object, what: str) -> Array:
    """An array of Python numbers, in NumPy's dtype for them.

    Raises:
        RlxTypeError: E0812 a ragged list, or no numbers.
    """
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        notes = ("rows of a list have one length, and their items are numbers of at most 64 bits",)
        raise fault("E0812", f"{what}: the list is ragged or holds no numbers", notes=notes) from None
    if array.dtype.kind not in "biufc":
        raise fault("E0812", f"{what}: the list holds no numbers, or numbers beyond 64 bits")
    return array


def _only_python_numbers(value: Sequence[object]) -> bool:
    todo: list[object] = list(value)
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            todo.extend(item)
        elif type(item) not in _PYTHON_NUMBERS:
            return False
    return True


def _from_python(array: Array, dtype: DType, what: str) -> Array:
    """An array of Python numbers in the declared dtype."""
    kind = array.dtype.kind
    fits = {
        "bool": kind == "b",
        "int": kind in "iu",
        "uint": kind in "iu",
        "float": kind in "iuf",
        "complex": kind in "iufc",
    }[dtype.kind]
    if array.size and not fits:
        word = {"b": "bool", "f": "float", "c": "complex"}.get(kind, "int")
        raise fault("E0806", f"{what} is declared {dtype}, a Python {word} is given")
    if dtype.is_integer:
        return _narrowed_integer(array, dtype, what)
    if dtype.kind == "bool":
        return np.array(array, dtype=dtype.numpy)
    return _narrowed(array, dtype, what)


def _narrowed(array: Array, dtype: DType, what: str) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        result = np.array(array, dtype=dtype.numpy, order="C")
    lost = np.isfinite(array) & ~np.isfinite(result)
    if lost.any():
        raise fault("E0810", f"{what}: {array[lost].flat[0]!s} is beyond the range of {dtype}")
    return result


def _narrowed_integer(array: Array, dtype: DType, what: str) -> Array:
    low, high = dtype.integer_range
    if array.size:
        least, greatest = int(array.min()), int(array.max())
        if least < low or greatest > high:
            wrong = least if least < low else greatest
            helps = ("declare it I64",) if -(2**63) <= wrong < 2**63 else ()
            raise fault("E0810", f"{what}: {wrong} is beyond the range of {dtype} ({low} … {high})", helps=helps)
    return np.array(array, dtype=dtype.numpy, order="C")


def key_array(seed: object) -> Array:
    """The key of a run's random numbers, uint32 [2].

    Args:
        seed: An integer, of which the low 64 bits count, or a key: an array of two uint32.

    Raises:
        RlxTypeError: E0806 neither.
    """
    if isinstance(seed, np.ndarray) and seed.shape == (2,) and seed.dtype == np.uint32:
        return np.ascontiguousarray(seed)
    if isinstance(seed, np.ndarray) and seed.shape == () and seed.dtype.kind in "iu":
        seed = int(seed)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise fault(
            "E0806",
            f"the seed of a run is an integer, {type(seed).__name__} is given",
            notes=("or a key, which is an array of two uint32",),
        )
    number = int(seed)
    return np.array([number & 0xFFFFFFFF, (number >> 32) & 0xFFFFFFFF], np.uint32)


# --------------------------------------------------------------------------------------------- names


def check_names(given: Iterable[str], known: Sequence[str], kind: str, graph: str) -> None:
    """Refuse names that do not exist.

    Raises:
        RlxNameError: E0807 with the nearest names.
    """
    for name in given:
        if name not in known:
            raise fault(
                "E0807",
                f"`{graph}` has no {kind} `{name}`",
                notes=(f"its {kind}s are {', '.join(known)}" if known else f"it has no {kind}s",),
                helps=(did_you_mean(str(name), known),),
            )


# --------------------------------------------------------------------------------------------- shapes and sizes


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where the size of an axis was read off."""

    size: int
    place: str


def described(entry: GraphInput) -> str:
    """How messages call an input or param."""
    return f"{entry.kind} `{entry.name}`"


def check_shape(entry: GraphInput, shape: Sequence[int]) -> None:
    """Refuse a shape whose rank or static dims differ from the declared ones.

    Raises:
        RlxShapeError: E0805.
    """
    declared: TensorType = entry.node.tensor
    fits = len(shape) == declared.rank and all(
        isinstance(d, Dim) or d == n for d, n in zip(declared.shape, shape, strict=True)
    )
    if not fits:
        raise _wrong_shape(entry, shape)


def _wrong_shape(entry: GraphInput, shape: Sequence[int], *notes: str) -> RlxError:
    declared = entry.node.tensor
    if len(shape) != declared.rank:
        notes = (*notes, f"the rank is {len(shape)}, expected {declared.rank}")
    return fault(
        "E0805",
        f"{described(entry)} has shape {shape_text(tuple(shape))}, expected {shape_text(declared.shape)}",
        entry.node.origin.span,
        notes=notes,
    )


class Sizes:
    """The sizes of dynamic axes, told from the shapes of inputs and params."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._derived: list[tuple[GraphInput, tuple[int, ...], int]] = []

    def add(self, entry: GraphInput, shape: tuple[int, ...]) -> None:
        """Take the sizes of one array whose rank and static dims are right.

        Raises:
            RlxShapeError: E0808 an axis has another size in another input.
        """
        for axis, (dim, size) in enumerate(zip(entry.node.shape, shape, strict=True)):
            if isinstance(dim, Dim):
                name = str(dim)
                if axes_of(dim) == (name,):
                    self._set(name, size, f"axis {axis} of {described(entry)}", entry.node.origin.span)
                else:
                    self._derived.append((entry, shape, axis))

    def _set(self, name: str, size: int, place: str, span: Span | None) -> None:
        before = self._seen.get(name)
        if before is None:
            self._seen[name] = _Seen(size, place)
        elif before.size != size:
            raise fault(
                "E0808",
                f"the axis `{name}` is {before.size} in {before.place} and {size} in {place}",
                span,
                notes=("one name is one size everywhere in a graph; another axis needs another name",),
            )

    def finish(self, needed: Iterable[str]) -> dict[str, int]:
        """The size of every axis.

        Args:
            needed: Axes that must have a size.

        Raises:
            RlxShapeError: E0805 a derived size does not fit, E0808 sizes disagree.
            RlxRuntimeError: E0811 a needed axis is in no input.
        """
        waiting = self._derived
        while waiting:  # a derived dim may tell its one unknown axis, which may settle others
            later = [item for item in waiting if not self._settle(*item)]
            if len(later) == len(waiting):
                break
            waiting = later
        sizes = {name: seen.size for name, seen in self._seen.items()}
        for name in needed:
            if name not in sizes:
                help_ = f"use `{name}` in the shape of an input, or make the size a config"
                raise fault("E0811", f"the size of the axis `{name}` cannot be told from the inputs", helps=(help_,))
        return sizes

    def _settle(self, entry: GraphInput, shape: tuple[int, ...], axis: int) -> bool:
        dim = entry.node.shape[axis]
        unknown = [a for a in axes_of(dim) if a not in self._seen]
        if not unknown:
            known = {name: seen.size for name, seen in self._seen.items()}
            value = evaluate(dim, known)
            if value != shape[axis]:
                facts = [f"`{a}` is {self._seen[a].size}, from {self._seen[a].place}" for a in axes_of(dim)]
                raise _wrong_shape(entry, shape, f"axis {axis} is `{dim}` = {value}", *facts)
            return True
        if len(unknown) > 1:
            return False
        size = _solve(dim, unknown[0], {n: s.size for n, s in self._seen.items()}, shape[axis])
        if size is None:
            return False
        if size < 0:
            raise _wrong_shape(entry, shape, f"no size of `{unknown[0]}` makes axis {axis} equal to {shape[axis]}")
        self._set(unknown[0], size, f"axis {axis} of {described(entry)}", entry.node.origin.span)
        return True

    def origin_of(self, name: str) -> str:
        """Where the size of an axis came from, for messages."""
        seen = self._seen.get(name)
        return f"`{name}` is {seen.size}, from {seen.place}" if seen else f"`{name}` is unknown"


def _solve(dim: Dim, unknown: str, known: Mapping[str, int], value: int) -> int | None:
    """The size of the one unknown axis of a linear dim; -1 when none fits, None when the dim is not linear in it."""
    left = substitute(dim, dict(known))
    if not isinstance(left, Dim):
        return None
    constant = substitute(left, {unknown: 0})
    slope = exact_quotient(left - constant, Dim.axis(unknown))
    if not isinstance(constant, int) or not isinstance(slope, int) or slope == 0:
        return None
    return (value - constant) // slope if (value - constant) % slope == 0 else -1


def check_guards(guards: Iterable[SourcedGuard], sizes: Mapping[str, int], origins: Sizes) -> None:
    """Refuse sizes that a guard forbids.

    Raises:
        RlxRuntimeError: E0801 with the axes, both sizes, the inputs and the source line.
    """
    for sourced in guards:
        guard = sourced.guard
        try:
            if guard.holds(sizes):
                continue
            values = (evaluate(guard.left, sizes), evaluate(guard.right, sizes))
        except DimProblem as problem:
            raise fault("E0801", f"{guard.what}: {problem}", sourced.origin.span) from None
        raise fault(
            "E0801",
            f"{guard.what}: {_violated(guard, *values)}",
            sourced.origin.span,
            notes=tuple(origins.origin_of(a) for a in sorted({*axes_of(guard.left), *axes_of(guard.right)})),
        )


def _violated(guard: Guard, left: int, right: int) -> str:
    left_text, right_text = _with_value(guard.left, left), _with_value(guard.right, right)
    if guard.relation == "==":
        return f"{left_text} and {right_text} differ"
    if guard.relation == "<=":
        return f"{left_text} is more than {right_text}"
    return f"{right_text} is not a multiple of {left_text}"


def _with_value(dim: object, value: int) -> str:
    return f"`{dim}` = {value}" if isinstance(dim, Dim) else str(value)


# --------------------------------------------------------------------------------------------- a whole call


class Signature:
    """The inputs and params of a graph, ready to check one call after another.

    Attributes:
        name: Name of the graph.
        feeds: What a call takes by position: the inputs, and the seed of a graph that draws random numbers.
        params: The params.
        feed_names: Names of the inputs alone.
        seed_place: Position of the seed among `feeds`, or None.
    """

    def __init__(self, graph: Graph) -> None:
        self.name = graph.name
        self.feeds = graph.arguments
        self.params = graph.params
        self.feed_names = tuple(e.name for e in graph.feeds)
        self.seed_place = next((k for k, e in enumerate(self.feeds) if e.kind == "seed"), None)
        self._guards = graph.guards
        self._axes = graph.axes()
        self._checked: dict[tuple[tuple[str, int], ...], None] = {}

    @property
    def seed(self) -> GraphInput | None:
        """The seed of a graph that draws random numbers."""
        return None if self.seed_place is None else self.feeds[self.seed_place]

    def by_position(self, inputs: Inputs, named: Mapping[str, object], seed: object = 0) -> tuple[object, ...]:
        """The values of all inputs and the seed in order of declaration, from a mapping or pairs and from keywords.

        Args:
            inputs: Values by name; the seed, called `seed` or by the next free name, may be among them.
            named: Further values.
            seed: The seed if it is not among them.

        Raises:
            RlxNameError: E0807 unknown, E0211 given twice.
            RlxRuntimeError: E0803 missing.
        """
        given = self._gathered(inputs, named)
        if self.seed is not None:
            seed = given.pop(self.seed.name, seed)
        return self.with_seed(self._ordered(given), seed)

    def inputs_by_position(self, inputs: Inputs, named: Mapping[str, object]) -> tuple[object, ...]:
        """The values of the inputs alone; see `by_position`."""
        return self._ordered(self._gathered(inputs, named))

    def _gathered(self, inputs: Inputs, named: Mapping[str, object]) -> dict[str, object]:
        """All values by name."""
        given: dict[str, object] = {}
        if inputs is not None:
            pairs = inputs.items() if isinstance(inputs, Mapping) else inputs
            try:
                pairs = [(name, value) for name, value in pairs]
            except (TypeError, ValueError):
                raise fault(
                    "E0812",
                    f"the inputs of `{self.name}` are a mapping by name, {type(inputs).__name__} is given",
                ) from None
            for name, value in pairs:
                self._put(given, name, value)
        for name, value in named.items():
            self._put(given, name, value)
        return given

    def _ordered(self, given: Mapping[str, object]) -> tuple[object, ...]:
        """The values of the inputs in order of declaration."""
        check_names(given, self.feed_names, "input", self.name)
        missing = [n for n in self.feed_names if n not in given]
        if missing:
            raise self.missing(missing)
        return tuple(given[n] for n in self.feed_names)

    def with_seed(self, values: Sequence[object], seed: object = 0) -> tuple[object, ...]:
        """The values of the inputs with the seed at its place, where the graph has one."""
        if self.seed_place is None:
            return tuple(values)
        if len(values) != len(self.feed_names):
            raise self.miscounted(len(values))
        return (*values[: self.seed_place], key_array(seed), *values[self.seed_place :])

    def _put(self, given: dict[str, object], name: str, value: object) -> None:
        if name in given:
            raise fault("E0211", f"the input `{name}` of `{self.name}` is given twice")
        given[name] = value

    def missing(self, names: Sequence[str]) -> RlxError:
        """The error for inputs that are not given."""
        listed = ", ".join(f"`{n}`" for n in names)
        types = [f"`{e.name}` is {e.node.type}" for e in self.feeds if e.name in names]
        return fault("E0803", f"`{self.name}` lacks the input{'s' if len(names) > 1 else ''} {listed}", notes=types)

    def miscounted(self, count: int) -> RlxError:
        """The error for too few or too many inputs by position."""
        if count < len(self.feed_names):
            return self.missing(self.feed_names[count:])
        return fault(
            "E0220",
            f"`{self.name}` takes {len(self.feed_names)} input{'s' * (len(self.feed_names) != 1)}, {count} are given",
            notes=(f"its inputs are {', '.join(self.feed_names)}" if self.feed_names else "it has no inputs",),
        )

    def require_params(self, bound: Mapping[str, Array]) -> None:
        """Refuse a run with params that have no value.

        Raises:
            RlxRuntimeError: E0809 naming them all.
        """
        unbound = [e.name for e in self.params if e.name not in bound]
        if unbound:
            listed = ", ".join(f"`{n}`" for n in unbound)
            raise fault(
                "E0809",
                f"`{self.name}`: the param{'s' if len(unbound) > 1 else ''} {listed} {'have' if len(unbound) > 1 else 'has'} no value",
                helps=("bind them: `func.with_params({…})`, `func.init_params(seed=0)` or `func.init_randn(0, 0.02)`",),
            )

    def prepare(self, values: Sequence[object], bound: Mapping[str, Array]) -> tuple[list[Array], dict[str, int]]:
        """Arrays of the declared dtypes in order of declaration, and the sizes of all axes.

        Raises:
            RlxError: As `convert`, `check_shape`, `Sizes` and `check_guards`; E0803 when too few or many values are given.
        """
        if len(values) != len(self.feeds):
            raise self.miscounted(len(values) - (self.seed_place is not None))
        sizes = Sizes()
        arrays = []
        for entry, value in zip(self.feeds, values, strict=True):
            array = convert(value, entry.node.dtype, described(entry))
            check_shape(entry, array.shape)
            sizes.add(entry, array.shape)
            arrays.append(array)
        for entry in self.params:
            sizes.add(entry, bound[entry.name].shape)
        found = sizes.finish(self._axes)
        key = tuple(sorted(found.items()))
        if key not in self._checked:
            check_guards(self._guards, found, sizes)
            if len(self._checked) > 4096:
                self._checked.clear()
            self._checked[key] = None
        return arrays, found
