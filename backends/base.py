"""What a backend offers: it compiles a program of kernels and runs it on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from rlxlang.kernels import Program

Array: TypeAlias = "np.ndarray[Any, Any]"

# Validates and converts the positional arguments of one call: gives C-contiguous, aligned arrays of exactly the declared dtypes,
# in the order of the program's `input` buffers, and the size of every dynamic axis; raises the user's typed errors.
Prepare: TypeAlias = Callable[[tuple[object, ...]], "tuple[Sequence[Array], Mapping[str, int]]"]


class Executable(Protocol):
    """A compiled program, for every combination of dynamic sizes."""

    def run(self, arrays: Mapping[int, Array], sizes: Mapping[str, int]) -> list[Array]:
        """Run once.

        Args:
            arrays: The array of every `input`, `param` and `state` buffer by id: C-contiguous, of the buffer's dtype and shape.
                `state` arrays are written in place.
            sizes: The size of every axis in `program.axes`.

        Returns:
            A new array for each of `program.outputs`.
        """
        ...

    def bind(
        self,
        fixed: Mapping[int, Array],
        prepare: Prepare,
        result: str,
        name: str,
    ) -> Callable[..., object]:
        """A function of the program's `input` buffers, by position, with params and states fixed.

        Args:
            fixed: Arrays of all `param` and `state` buffers; kept alive, `state` ones written in place by each call. When no input has a
                dynamic axis and sizes are all static this is the fastest path; the same function serves every size.
            prepare: Called for arguments that are not already exact arrays of a combination of sizes met before.
            result: `array` (the single output), `tuple` (all of them), or `float` (the first output, of one element, as a Python float;
                further outputs are computed and dropped).
            name: For error messages.
        """
        ...


class Backend(Protocol):
    """A device kind."""

    name: str

    def compile(self, program: Program, key: bytes | None = None) -> Executable:
        """Compile a program; `key` identifies it in the disk cache (None: the backend makes one from the program's text).

        Raises:
            RlxBackendError: The device lacks something the program needs, by name.
        """
        ...
