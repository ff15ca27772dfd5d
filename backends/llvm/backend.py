"""The CPU backend: programs to native code through LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlxlang.backends.llvm import cache, jit
from rlxlang.backends.llvm.executable import LlvmExecutable
from rlxlang.backends.llvm.plan import ENTRY, Plan, plan_from_bytes, plan_of, plan_to_bytes
from rlxlang.backends.llvm.runtime import runtime

# A process that finds plan and object on disk emits nothing, so the emitters are imported where they are used.
if TYPE_CHECKING:
    from rlxlang.backends.llvm.emit_program import DispatchRow
    from rlxlang.backends.llvm.vector import VectorTarget
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
        from rlxlang.backends.llvm.vector import target_of_host

        return self._target or target_of_host()

    def compile(self, program: Program, key: bytes | None = None, plan_key: str | None = None) -> LlvmExecutable:
        """Compile a program, or load its object from the disk cache.

        Args:
            program: The program.
            key: What identifies it; with a key that is known on disk no code is generated. None: the text of the module.
            plan_key: Under which to keep what `load` needs to run it without the program; from `plan_key`. It takes a `key`.

        Raises:
            RlxBackendError: A kernel uses a dtype or function that this backend does not have.
        """
        from rlxlang.backends.llvm.emit_program import ProgramEmitter, with_own_outputs

        own = with_own_outputs(program)
        found = name = None
        if key is not None:
            name = cache.cache_key("program", key, str(program.threads), self.target.name, source=True)
            found = cache.load("obj", name)
        if found is None:
            found = jit.compile_object(ProgramEmitter(own, self.target).emit(), name)
        plan = plan_of(own)
        if plan_key is not None and name is not None:
            record = plan_to_bytes(plan, name)
            if record is not None:
                cache.store("plan", plan_key, record)
        return self._link(plan, found)

    def plan_key(self, key: str, threads: int, *more: str) -> str:
        """Where the plan of a program is kept.

        Args:
            key: What the program was made from.
            threads: For how many threads.
            more: Whatever else decides what the program is, such as which outputs are written in place.
        """
        target = "widest" if self._target is None else self._target.name
        return cache.cache_key("plan", key, str(threads), target, *more, source=True)

    def load(self, plan_key: str) -> LlvmExecutable | None:
        """The executable that an earlier `compile` kept, or None when plan or object are not there."""
        record = cache.load("plan", plan_key)
        if record is None:
            return None
        try:
            plan, name = plan_from_bytes(record)
        except ValueError:
            return None
        found = cache.load("obj", name)
        return None if found is None else self._link(plan, found)

    def _link(self, plan: Plan, found: bytes) -> LlvmExecutable:
        symbols = runtime().symbols()
        for symbol, dtype in _GEMM_DTYPES.items():
            if symbol in found:
                from rlxlang.backends.llvm.gemm import gemm_symbols

                symbols |= gemm_symbols(dtype, runtime().symbols(), self._target)
        if plan.libraries:
            from rlxlang.backends.llvm import library

            symbols |= library.symbols()
        return LlvmExecutable(plan, jit.load(found, (ENTRY,), symbols))

    def llvm_ir(self, program: Program) -> str:
        """The LLVM IR of a program."""
        from rlxlang.backends.llvm.emit_program import ProgramEmitter, with_own_outputs

        return ProgramEmitter(with_own_outputs(program), self.target).emit()

    def assembly(self, program: Program) -> str:
        """The assembly of a program for this machine."""
        return jit.emit_assembly(self.llvm_ir(program))

    def dispatch_rows(self, program: Program) -> list[DispatchRow]:
        """Which kernel runs which ops."""
        from rlxlang.backends.llvm import emit_program

        return emit_program.dispatch_rows(program, self.target)
