"""The buffers of one run as flat arrays, every access checked against their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import Buffer, Program
from rlxlang.types import DimLike, evaluate, product

Array: TypeAlias = "np.ndarray[Any, Any]"


def poison(array: Array) -> None:
    """Fill with bits that are NaN in every float type, so that reading before writing shows."""
    array.view(np.uint8)[...] = 0xFF


class Memory:
    """Flat arrays of all buffers of a program for one run.

    Args:
        program: Whose buffers.
        arrays: Arrays of the inputs, params and states, by id.
        sizes: Sizes of the dynamic axes.

    Raises:
        InternalError: An array has not the declared dtype and size, or a temporary leaves the arena.
    """

    def __init__(self, program: Program, arrays: Mapping[int, Array], sizes: Mapping[str, int]) -> None:
        self.program = program
        self.sizes = sizes
        self.outputs: dict[int, Array] = {}
        self._flat: dict[int, Array] = {}
        self._private: dict[int, Array] = {}
        self._arena = np.empty(max(self.value(program.arena), 0), np.uint8)
        poison(self._arena)
        for buffer in program.buffers:
            self._place(buffer, arrays)

    def value(self, dim: DimLike) -> int:
        """The number that a size has in this run."""
        return evaluate(dim, self.sizes)

    def elements(self, buffer: int) -> int:
        """How many numbers kernels see in a buffer."""
        record = self.program.buffers[buffer]
        return self.value(product(record.shape)) * (record.dtype.bytes // record.element.bytes)

    def flat(self, buffer: int) -> Array:
        """The elements of a buffer that is not private.

        Raises:
            InternalError: It is a private buffer, or a view outside of its loop.
        """
        if buffer not in self._flat:
            raise InternalError(f"{self.describe(buffer)} has no place here", stage="lower")
        return self._flat[buffer]

    def describe(self, buffer: int) -> str:
        """A buffer in words."""
        b = self.program.buffers[buffer]
        return f"buffer {buffer} ({b.kind} {b.dtype}[{', '.join(map(str, b.shape))}]{f' `{b.name}`' if b.name else ''})"

    def is_private(self, buffer: int) -> bool:
        """Whether each outer point of a kernel has a copy of its own."""
        return self.program.buffers[buffer].kind == "private"

    def private(self, buffer: int) -> Array:
        """All copies of a private buffer, one after the other."""
        return self._private[buffer]

    def open_private(self, points: int) -> None:
        """Make poisoned copies of the private buffers for `points` outer points."""
        for buffer in self.program.buffers:
            if buffer.kind == "private":
                copies = np.empty(points * self.elements(buffer.id), buffer.dtype.numpy)
                poison(copies)
                self._private[buffer.id] = copies

    def move_view(self, view: int, base: int, start: int) -> None:
        """Let a view start at an element of its base."""
        count, whole = self.elements(view), self.flat(base)
        if start < 0 or start + count > whole.size:
            text = f"{self.describe(view)} at {start} leaves {self.describe(base)} of {whole.size} elements"
            raise InternalError(text, stage="lower")
        self._flat[view] = whole[start : start + count]

    def close_view(self, view: int) -> None:
        """Forget a view after its loop."""
        self._flat.pop(view, None)

    def _place(self, buffer: Buffer, arrays: Mapping[int, Array]) -> None:
        count = self.value(product(buffer.shape))
        if buffer.kind in ("input", "param", "state"):
            self._flat[buffer.id] = self._given(buffer, arrays, count).view(buffer.element.numpy)
        elif buffer.kind == "constant":
            if buffer.data is None:
                raise InternalError(f"{self.describe(buffer.id)} has no data", stage="lower")
            self._flat[buffer.id] = np.ascontiguousarray(buffer.data).reshape(-1)
        elif buffer.kind == "output":
            shape = tuple(self.value(d) for d in buffer.shape)
            self.outputs[buffer.id] = np.empty(shape, buffer.dtype.numpy)
            self._flat[buffer.id] = self.outputs[buffer.id].reshape(-1).view(buffer.element.numpy)
            poison(self._flat[buffer.id])
        elif buffer.kind in ("temp", "private"):
            self._in_arena(buffer, count)
        elif buffer.kind != "view":
            raise InternalError(f"unknown kind of {self.describe(buffer.id)}", stage="lower")

    def _given(self, buffer: Buffer, arrays: Mapping[int, Array], count: int) -> Array:
        array = arrays.get(buffer.id)
        if array is None or array.dtype != buffer.dtype.numpy or array.size != count or not array.flags.c_contiguous:
            found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise InternalError(f"{self.describe(buffer.id)} was given {found}", stage="run")
        return array.reshape(-1)

    def _in_arena(self, buffer: Buffer, count: int) -> None:
        copies = self.program.threads if buffer.kind == "private" else 1
        start = self.value(buffer.offset)
        stop = start + count * buffer.dtype.bytes * copies
        if start < 0 or stop > self._arena.size or start % buffer.dtype.bytes:
            text = f"{self.describe(buffer.id)} at bytes {start}…{stop} of an arena of {self._arena.size}"
            raise InternalError(text, stage="lower")
        if buffer.kind == "temp":
            self._flat[buffer.id] = self._arena[start:stop].view(buffer.element.numpy)
