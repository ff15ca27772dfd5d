"""Expressions as OpenCL C statements, each shared subexpression in a local of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rlxlang.backends.opencl.c_functions import Functions
from rlxlang.backends.opencl.c_types import literal, load_text, memory_type, register_type, store_text
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import (
    Apply,
    AxisValue,
    Const,
    Expr,
    Gathered,
    Index,
    Load,
    Program,
    Reduced,
    Running,
    SizeValue,
    Store,
    walk,
)
from rlxlang.types import DimLike, DType, ceil_div, product

ARENA = -1
"""Stands for the arena among the numbers of buffers."""

SCRATCH = -2
"""Stands for the memory of private buffers, which is apart from the arena: more work-items run than there are threads."""


@dataclass(slots=True)
class Layout:
    """Where buffers lie, and the numbers that a run hands to kernels.

    Attributes:
        program: Whose buffers.
        bases: The base buffer of every view.
        table: Sizes that kernels read, in the order of the table on the device.
    """

    program: Program
    bases: Mapping[int, int]
    table: list[DimLike]
    _places: dict[DimLike, int] = field(default_factory=dict)

    def place(self, dim: DimLike) -> int:
        """The place of a size in the table."""
        if dim not in self._places:
            self._places[dim] = len(self.table)
            self.table.append(dim)
        return self._places[dim]

    def root(self, buffer: int) -> int:
        """The memory object of a buffer: its own, that of a view's base, `ARENA` or `SCRATCH`."""
        while self.program.buffers[buffer].kind == "view":
            if buffer not in self.bases:
                raise InternalError(f"view {buffer} has no window", stage="lower")
            buffer = self.bases[buffer]
        return {"temp": ARENA, "private": SCRATCH}.get(self.program.buffers[buffer].kind, buffer)

    def owner(self, buffer: int) -> int:
        """The buffer below all views."""
        while self.program.buffers[buffer].kind == "view":
            buffer = self.bases[buffer]
        return buffer


@dataclass(slots=True)
class KernelScope:
    """What one kernel touches, and the text of it."""

    layout: Layout
    functions: Functions
    buffers: dict[int, None] = field(default_factory=dict)
    places: dict[int, None] = field(default_factory=dict)
    names: int = 0

    def dim(self, dim: DimLike) -> str:
        """The text of a size: a number, or a constant at the head of the kernel."""
        if isinstance(dim, int):
            return f"{dim}L" if dim >= 0 else f"({dim}L)"
        place = self.layout.place(dim)
        self.places[place] = None
        return f"d{place}"

    def pointer(self, buffer: int) -> str:
        """The name of a pointer to the elements of a buffer."""
        self.buffers[buffer] = None
        return f"b{buffer}"

    def fresh(self) -> str:
        """A new name."""
        self.names += 1
        return f"v{self.names}"

    def dtype(self, buffer: int) -> DType:
        """Type of the numbers in a buffer."""
        return self.layout.program.buffers[buffer].element

    def is_private(self, buffer: int) -> bool:
        """Whether each work-item has a copy."""
        return self.layout.program.buffers[buffer].kind == "private"

    @property
    def scratch(self) -> DimLike:
        """Bytes of the private buffers of one work-item."""
        total: DimLike = 0
        for buffer in self.buffers:
            if self.is_private(buffer):
                total = total + self._private_bytes(buffer)
        return total

    def _private_bytes(self, buffer: int) -> DimLike:
        record = self.layout.program.buffers[buffer]
        return ceil_div(product(record.shape) * record.dtype.bytes, 8) * 8

    @property
    def roots(self) -> tuple[int, ...]:
        """The memory objects that the kernel is handed."""
        return tuple(sorted({self.layout.root(b) for b in self.buffers}))

    @property
    def views(self) -> tuple[int, ...]:
        """The views whose byte offset the kernel is handed."""
        return tuple(b for b in sorted(self.buffers) if self.layout.program.buffers[b].kind == "view")

    def parameters(self) -> str:
        """The parameter list."""
        parts = [f"global uchar* {_root_name(r)}" for r in self.roots]
        parts.append("global const long* sizes")
        parts += [f"const long start{v}" for v in self.views]
        return ", ".join(parts)

    def head(self) -> list[str]:
        """Declarations of the sizes and pointers; made last, when all are known."""
        starts = {b: self._start(b) for b in self.buffers}
        lines = [f"const long d{p} = sizes[{p}];" for p in sorted(self.places)]
        for buffer, start in starts.items():
            kind = memory_type(self.dtype(buffer))
            root = _root_name(self.layout.root(buffer))
            lines.append(f"global {kind}* b{buffer} = (global {kind}*)({root}{start});")
        return lines

    def _start(self, buffer: int) -> str:
        record = self.layout.program.buffers[buffer]
        if record.kind == "view":
            owner = self.layout.program.buffers[self.layout.owner(buffer)]
            offset = f" + {self.dim(owner.offset)}" if owner.kind == "temp" else ""
            return f"{offset} + start{buffer}"
        if record.kind == "temp":
            return f" + {self.dim(record.offset)}"
        if record.kind == "private":
            before: DimLike = 0
            for other in self.buffers:
                if other == buffer:
                    break
                before = before + (self._private_bytes(other) if self.is_private(other) else 0)
            return f" + (long)get_global_id(0) * {self.dim(self.scratch)} + {self.dim(before)}"
        return ""


def _root_name(root: int) -> str:
    return {ARENA: "arena", SCRATCH: "scratch"}.get(root, f"memory{root}")


@dataclass(slots=True)
class Emitter:
    """Statements that compute expressions at one point.

    Attributes:
        scope: The kernel.
        axes: Text of the position on every domain axis.
        reduced: Names of finished reductions, with their text.
        accumulator: Text of the contracted value in an epilogue.
        running: Text of prefix reductions, once known.
        lines: The statements so far.
    """

    scope: KernelScope
    axes: Sequence[str]
    reduced: Mapping[str, str] = field(default_factory=dict)
    accumulator: str = ""
    running: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    _done: dict[int, str] = field(default_factory=dict)

    def value(self, expr: Expr) -> str:
        """The text of a value: a name or a literal; its statements come before."""
        for part in walk(expr):
            if id(part) not in self._done:
                self._done[id(part)] = self._text(part)
        return self._done[id(expr)]

    def _text(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return literal(expr.value, expr.dtype)
        if isinstance(expr, AxisValue):
            return f"({register_type(expr.dtype)}){self.axes[expr.axis]}"
        if isinstance(expr, SizeValue):
            return f"({register_type(expr.dtype)}){self.scope.dim(expr.dim)}"
        if isinstance(expr, Apply):
            args = tuple(self._done[id(a)] for a in expr.args)
            call = self.scope.functions.call(expr.function, args, expr.args[-1].dtype, expr.dtype)
            return self.local(expr.dtype, call)
        if isinstance(expr, Load):
            return self._load(expr)
        if isinstance(expr, Reduced):
            return self._known(self.reduced, expr.name)
        if isinstance(expr, Running):
            return self._known(self.running, expr.name)
        if not self.accumulator:
            raise InternalError("an Accumulator outside of an epilogue", stage="lower")
        return self.accumulator

    @staticmethod
    def _known(names: Mapping[str, str], name: str) -> str:
        if name not in names:
            raise InternalError(f"`{name}` is not reduced yet", stage="lower")
        return names[name]

    def local(self, dtype: DType, text: str) -> str:
        """Name a value."""
        name = self.scope.fresh()
        self.lines.append(f"const {register_type(dtype)} {name} = {text};")
        return name

    def _load(self, load: Load) -> str:
        dtype = self.scope.dtype(load.buffer)
        text = load_text(self.scope.pointer(load.buffer), self.position(load.index), dtype)
        if load.where is not None:
            where, fill = self._done[id(load.where)], literal(load.fill, load.dtype)
            return self.local(load.dtype, f"{where} ? {self._as(text, dtype, load.dtype)} : {fill}")
        return self.local(load.dtype, self._as(text, dtype, load.dtype))

    def _as(self, text: str, source: DType, target: DType) -> str:
        return text if source == target else f"({self.scope.functions.convert(f'({text})', source, target)})"

    def position(self, index: Index) -> str:
        """The text of a position, an I64."""
        terms = [] if index.offset == 0 else [self.scope.dim(index.offset)]
        for axis, stride in zip(self.axes, index.strides, strict=True):
            if stride == 0 or axis == "0L":
                continue
            terms.append(axis if stride == 1 else f"{self.scope.dim(stride)} * {axis}")
        terms += [self._gathered(g) for g in index.gathered]
        return " + ".join(terms) or "0L"

    def _gathered(self, gathered: Gathered) -> str:
        raw, size = self.value(gathered.value), self.scope.dim(gathered.size)
        signed = self.scope.fresh()
        self.lines.append(f"const long {signed} = (long)({raw});")
        inside = self.scope.fresh()
        wrapped = f"{signed} < 0L ? {signed} + {size} : {signed}"
        self.lines.append(f"const long {inside} = max(min({wrapped}, {size} - 1L), 0L);")
        return f"{inside} * {self.scope.dim(gathered.stride)}"

    def store_all(self, stores: Sequence[Store]) -> None:
        """Compute all values and positions, then write in order."""
        writes: list[Callable[[], None]] = [self._prepare(s) for s in stores]
        for write in writes:
            write()

    def _prepare(self, store: Store) -> Callable[[], None]:
        dtype = self.scope.dtype(store.buffer)
        if dtype.name == "BF16":
            self.scope.functions.needs_bf16_store()
        value = self.value(store.value)
        where = None if store.where is None else self.value(store.where)
        position = self.scope.fresh()
        text = self.position(store.index)
        self.lines.append(f"const long {position} = {text};")
        pointer = self.scope.pointer(store.buffer)
        converted = self._as(value, store.value.dtype, dtype)

        def write() -> None:
            guard = "" if where is None else f"if ({where}) "
            if store.mode == "set":
                self.lines.append(f"{guard}{{ {store_text(pointer, position, converted, dtype)} }}")
                return
            old, new, kind = self.scope.fresh(), self.scope.fresh(), register_type(dtype)
            function = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}[store.mode]
            if dtype.kind == "bool":
                function = {"add": "or", "mul": "and"}.get(function, function)
            combined = self.scope.functions.call(function, (old, new), dtype, dtype)
            self.lines.append(
                f"{guard}{{ const {kind} {old} = {load_text(pointer, position, dtype)}; const {kind} {new} = {converted}; "
                f"{store_text(pointer, position, combined, dtype)} }}"
            )

        return write
