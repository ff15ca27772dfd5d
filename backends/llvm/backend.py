"""The CPU backend: programs to native code through LLVM."""

from __future__ import annotations

from rlxlang.backends.llvm import cache, emit_program, jit
from rlxlang.backends.llvm.emit_program import DispatchRow, ProgramEmitter, with_own_outputs
from rlxlang.backends.llvm.executable import LlvmExecutable
from rlxlang.backends.llvm.gemm import gemm_symbols
from rlxlang.backends.llvm.runtime import runtime
from rlxlang.backends.llvm.vector import VectorTarget, target_of_host
from rlxlang.kernels import Program

_GEMM_DTYPES = {b"gemm_f32": "float32", b"gemm_f64": "float64"}


class LlvmBackend:
    """Compiles programs for the CPU.

    Args:
        target: The vectors to use; None takes the widest of this machine.
    """

    name = "cpu"

    def __init__(self, target: VectorTarget | None = None) -> None:
        self._target = target

    @property
    def target(self) -> VectorTarget:
        """The vectors that kernels use."""
        return self._target or target_of_host()

    def compile(self, program: Program, key: bytes | None = None) -> LlvmExecutable:
        """Compile a program, or load its object from the disk cache.

        Args:
            program: The program.
            key: What identifies it; with a key that is known on disk no code is generated. None: the text of the module.

        Raises:
            RlxBackendError: A kernel uses a dtype or function that this backend does not have.
        """
        own = with_own_outputs(program)
        found = name = None
        if key is not None:
            name = cache.cache_key("program", key, str(program.threads), self.target.name, source=True)
            found = cache.load("obj", name)
        if found is None:
            found = jit.compile_object(ProgramEmitter(own, self.target).emit(), name)
        symbols = runtime().symbols()
        for symbol, dtype in _GEMM_DTYPES.items():
            if symbol in found:
                symbols |= gemm_symbols(dtype, runtime().symbols(), self._target)
        loaded = jit.load(found, (emit_program.ENTRY,), symbols)
        return LlvmExecutable(program, own, loaded)

    def llvm_ir(self, program: Program) -> str:
        """The LLVM IR of a program."""
        return ProgramEmitter(with_own_outputs(program), self.target).emit()

    def assembly(self, program: Program) -> str:
        """The assembly of a program for this machine."""
        return jit.emit_assembly(self.llvm_ir(program))

    def dispatch_rows(self, program: Program) -> list[DispatchRow]:
        """Which kernel runs which ops."""
        return emit_program.dispatch_rows(program, self.target)
