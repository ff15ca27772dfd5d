"""What all kernels of a program share while they are emitted: the module, buffers, sizes, and the context record.

Every kernel is given one pointer to `{ptr buffers, ptr dims}`: addresses of the buffers by id, and the values of
`Program.dims` in order. The first functions of a kernel load what it uses from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlxlang.backends.llvm.emit_memory import element_bytes
from rlxlang.backends.llvm.text import Function, ModuleText, Operand
from rlxlang.backends.llvm.vector import VectorTarget
from rlxlang.diagnostics.errors import RlxBackendError
from rlxlang.kernels import Program
from rlxlang.types import Dim, DimLike

CONTEXT_BYTES = 16


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """A program being emitted.

    Attributes:
        module: The module of all its kernels.
        program: The program.
        target: The machine.
        dim_slots: Position of every dynamic size in the array of sizes.
    """

    module: ModuleText
    program: Program
    target: VectorTarget
    dim_slots: dict[Dim, int]

    @staticmethod
    def of(program: Program, target: VectorTarget) -> ProgramContext:
        """The context of a program in a new module."""
        module = ModuleText(program.name.replace('"', ""), attributes=target.attributes)
        slots = {dim: slot for slot, dim in enumerate(program.dims) if isinstance(dim, Dim)}
        return ProgramContext(module, program, target, slots)

    def load_dims(self, function: Function, context: str, wanted: Iterable[DimLike]) -> dict[object, Operand]:
        """Load the dynamic sizes among `wanted`.

        Raises:
            RlxBackendError: The program does not list one of them.
        """
        dims = dict.fromkeys(d for d in wanted if isinstance(d, Dim))
        if not dims:
            return {}
        table = function.load("ptr", function.gep_bytes(context, 8))
        loaded: dict[object, Operand] = {}
        for dim in dims:
            slot = self.dim_slots.get(dim)
            if slot is None:
                raise RlxBackendError(f"internal fault: the size {dim} is not among the dims of the program")
            loaded[dim] = function.load("i64", function.gep("i64", table, slot))
        return loaded

    def load_bases(
        self, function: Function, context: str, buffers: Iterable[int], dims: dict[object, Operand], thread: Operand
    ) -> dict[int, str]:
        """Load the address of every buffer; of a private one that of this thread's copy."""
        table = function.load("ptr", context)
        bases: dict[int, str] = {}
        for number in dict.fromkeys(buffers):
            buffer = self.program.buffers[number]
            pointer = function.load("ptr", function.gep("ptr", table, number))
            if buffer.kind == "private":
                size = self.product(function, buffer.shape, dims)
                bytes_each = function.mul(size, element_bytes(buffer.dtype))
                pointer = function.gep_bytes(pointer, function.mul(thread, bytes_each))
            bases[number] = pointer
        return bases

    @staticmethod
    def product(function: Function, sizes: Iterable[DimLike], dims: dict[object, Operand]) -> Operand:
        """Emit the product of sizes."""
        result: Operand = 1
        for size in sizes:
            result = function.mul(result, size if isinstance(size, int) else dims[size])
        return result
