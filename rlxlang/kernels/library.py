"""Steps that call a function of NumPy on whole arrays: what no loop over elements computes well, such as a factorisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxRuntimeError

Array: TypeAlias = np.ndarray[Any, Any]
Routine: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """Call a routine on the arrays of some buffers and write what it gives to others.

    Attributes:
        name: Name of the step.
        routine: Name in the table of routines.
        arguments: Buffers that it is given.
        results: Buffers that it fills, in the order of its results.
        options: Its options, plain values.
        where: Place in the source that messages name; may be empty.
        ops: Names of the graph ops inside.
    """

    name: str
    routine: str
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    options: tuple[tuple[str, Any], ...] = ()
    where: str = ""
    ops: tuple[str, ...] = ()


_ROUTINES: dict[str, Routine] = {}
_HOMES = ("rlxlang.kernels.linear", "rlxlang.kernels.fourier")  # modules whose import fills the table


def routine(name: str) -> Callable[[Routine], Routine]:
    """Add a function of arrays (and options by name) to the table.

    It gives an array or a tuple of arrays, never views of its arguments that are written later; it raises `RlxRuntimeError`
    for arguments without a result.
    """

    def add(function: Routine) -> Routine:
        _ROUTINES[name] = function
        return function

    return add


def call_routine(name: str, arrays: Sequence[Array], options: Mapping[str, Any], where: str = "") -> tuple[Array, ...]:
    """The results of a routine.

    Raises:
        RlxRuntimeError: The arguments have no result, with the place in the source.
    """
    if name not in _ROUTINES:
        for home in _HOMES:
            import_module(home)
    try:
        with np.errstate(all="ignore"):
            found = _ROUTINES[name](*arrays, **options)
    except RlxRuntimeError as problem:
        if not where:
            raise
        first = problem.diagnostics[0]
        notes = (*first.notes, f"at {where}")
        raise RlxRuntimeError(first.message, code=first.code, notes=notes, helps=first.helps) from problem
    return found if isinstance(found, tuple) else (found,)
