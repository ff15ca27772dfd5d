"""From LLVM IR text to machine code that can be called: compile to an object, keep it on disk, link it.

`compile_object` runs no IR pass pipeline: the emitters already write the vector code they want, the default
pipeline spills GEMM tiles and costs most of the compile time, and LLVM's ready-made module pipeline leaks
about 100 KiB a run and aborts the process when one is run twice. `light_passes` asks for SROA and CFG
simplification only, which is all that IR written with stack slots needs.

An object never contains an address of this process: everything outside is a named symbol, bound by `load`.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlxlang.backends.llvm import cache
from rlxlang.diagnostics.errors import RlxBackendError

if TYPE_CHECKING:
    from llvmlite.binding.orcjit import LLJIT

# Held around every use of LLVM, and across fork, so that no child inherits LLVM in the middle of something.
_lock = threading.RLock()
_serial = itertools.count()
_immortal: list[Loaded] = []
_session: Session | None = None


class Session:
    """LLVM set up for this machine. Use `session()`; there is one per process.

    Attributes:
        triple: target triple of the process.
        cpu: LLVM's name of the host CPU.
        features: the host's features, as LLVM's comma-separated list.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # without it inline assembly in IR aborts the process
        self.triple: str = llvm.get_process_triple()
        self.cpu: str = llvm.get_host_cpu_name()
        self.features: str = llvm.get_host_cpu_features().flatten()
        self._machines: dict[int, Any] = {}
        # The linker takes over the machine it is given, so it gets one of its own.
        self.linker: LLJIT = llvm.create_lljit_compiler(self._new_machine(1), use_jit_link=True)
        if not llvm.address_of_symbol("sinf"):  # pragma: no cover - a Python that is not linked with libm
            import ctypes.util

            library = ctypes.util.find_library("m")
            if library:
                llvm.load_library_permanently(library)

    def machine(self, opt: int) -> Any:
        """Target machine that generates code at level `opt` (0 to 3)."""
        if opt not in self._machines:
            self._machines[opt] = self._new_machine(opt)
        return self._machines[opt]

    def _new_machine(self, opt: int) -> Any:
        import llvmlite.binding as llvm

        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=opt, jit=True)


class Loaded:
    """Linked code and the addresses of what it exports.

    The code is unmapped when this object is collected, so whoever may call an address keeps it alive. That
    is enough for kernels: `parallel_for` returns only after the last worker has left the function it was
    given, hence no thread is inside a kernel that nobody is calling. Code that threads rest in (the pool
    itself) is loaded as immortal.
    """

    __slots__ = ("_addresses", "_tracker")

    def __init__(self, tracker: Any, exports: tuple[str, ...]) -> None:
        self._tracker = tracker
        self._addresses = {name: int(tracker[name]) for name in exports}

    def address(self, name: str) -> int:
        """Address of the exported symbol `name`.

        Raises:
            KeyError: it was not among the exports.
        """
        return self._addresses[name]

    def symbols(self) -> dict[str, int]:
        """Every exported symbol with its address."""
        return dict(self._addresses)


def session() -> Session:
    """The LLVM session of this process, made at first use (about 3 ms after `import llvmlite`)."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
        return _session


def compile_object(ir_text: str, key: str | None = None, opt: int = 1, *, light_passes: bool = False) -> bytes:
    """Compile a module to an object file, or take it from the disk cache.

    Args:
        ir_text: the module as text; its triple and data layout are set here.
        key: cache key from `cache.cache_key` that stands for the text, `opt` and `light_passes`; made from
            them when left out.
        opt: code generation level, 0 to 3. Level 1 is as good as 3 for fused kernels and three times as fast.
        light_passes: run SROA and CFG simplification on every function first.

    Returns:
        A relocatable object.

    Raises:
        RlxBackendError: the text is not valid IR, which is a fault of this compiler.
    """
    if key is None:
        key = cache.cache_key("ir", str(opt), str(light_passes), ir_text)
    found = cache.load("obj", key)
    if found is not None:
        return found
    with _lock:
        machine = session().machine(opt)
        module = _parse(ir_text, machine)
        if light_passes:
            _run_light_passes(module, machine)
        result: bytes = machine.emit_object(module)
    cache.store("obj", key, result)
    return result


def load(
    obj: bytes, exports: Iterable[str], symbols: Mapping[str, int] | None = None, *, immortal: bool = False
) -> Loaded:
    """Link an object into this process.

    Args: obj: from `compile_object`. exports: symbols whose addresses are wanted. symbols: addresses of
        symbols the object imports. Symbols of the process (libc, libm, the Python C API) need not be named;
        those given and not used cost nothing. immortal: never unmap the code, even when the result is
        dropped.

    Raises:
        RlxBackendError: a symbol is missing or the object does not fit this machine.
    """
    import llvmlite.binding as llvm

    names = tuple(exports)
    builder = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process()
    for name, address in (symbols or {}).items():
        if name.encode() in obj:
            builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(session().linker, f"rlx{next(_serial)}")
        except RuntimeError as error:
            raise RlxBackendError(f"internal fault: generated code does not link: {error}") from error
    loaded = Loaded(tracker, names)
    if immortal:
        _immortal.append(loaded)
    return loaded


def compile_and_load(
    ir_text: str, exports: Iterable[str], symbols: Mapping[str, int] | None = None, opt: int = 1
) -> Loaded:
    """`compile_object`, then `load`."""
    return load(compile_object(ir_text, opt=opt), exports, symbols)


def emit_assembly(ir_text: str, opt: int = 1, *, light_passes: bool = False) -> str:
    """Assembly text of what `compile_object` would produce, for debugging.

    Raises:
        RlxBackendError: the text is not valid IR.
    """
    with _lock:
        machine = session().machine(opt)
        module = _parse(ir_text, machine)
        if light_passes:
            _run_light_passes(module, machine)
        return str(machine.emit_assembly(module))


def _parse(ir_text: str, machine: Any) -> Any:
    """Parse and verify a module for `machine`; unverified IR can crash the code generator."""
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(ir_text)
        module.triple = session().triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        place = _dump(ir_text)
        raise RlxBackendError(
            f"internal fault: the compiler generated invalid LLVM IR: {str(error).strip()}",
            notes=(f"the module was written to {place}" if place else "the module could not be written to a file",),
            helps=("please report this with that file; it is not an error in your program",),
        ) from error
    return module


def _run_light_passes(module: Any, machine: Any) -> None:
    """SROA and CFG simplification with a pass list of our own (the ready-made pipelines leak and abort)."""
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def _dump(ir_text: str) -> str | None:
    """Write IR to a temporary file and return its path, or None where that is impossible."""
    import tempfile  # with shutil and random a tenth of a warm start

    try:
        descriptor, path = tempfile.mkstemp(prefix="rlx-", suffix=".ll")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(ir_text)
    except OSError:
        return None
    return path


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
