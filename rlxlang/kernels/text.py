"""A program as text: what `lower` made of a graph, for people who look at its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence

from rlxlang.kernels.expr import (
    Accumulator,
    Apply,
    AxisValue,
    Const,
    Expr,
    Index,
    Load,
    Reduced,
    Running,
    SizeValue,
    children,
    walk,
)
from rlxlang.kernels.library import Library
from rlxlang.kernels.nest import Nest, Store
from rlxlang.kernels.program import Branch, Buffer, Contract, Copy, Loop, Operand, Program, Step, While
from rlxlang.types import DimLike

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_NARROW = 100  # an expression that is longer is taken apart


def program_text(program: Program) -> str:
    """Buffers with their types and places, then the steps: loops over named axes with what each point computes.

    Axes of a kernel are `i0, i1, …`, buffers `b0, b1, …`. An expression that is used several times has a name, `t0`.
    """
    return "\n".join(_Printer(program).lines())


class _Printer:
    def __init__(self, program: Program) -> None:
        self._program = program

    def lines(self) -> Iterator[str]:
        program = self._program
        axes = f" for all {', '.join(program.axes)}" if program.axes else ""
        yield f"program {program.name}{axes}: {program.arena} bytes of temporary memory, {program.threads} threads"
        yield ""
        for buffer in program.buffers:
            yield self._buffer(buffer)
        for step in program.steps:
            yield ""
            yield from self._step(step)

    @staticmethod
    def _buffer(buffer: Buffer) -> str:
        place = f" at {buffer.offset}" if buffer.kind in ("temp", "private") else ""
        name = f" `{buffer.name}`" if buffer.name else ""
        data = ""
        if buffer.data is not None and buffer.data.size == 1:
            data = f" = {buffer.data.reshape(-1)[0]}"
        return f"b{buffer.id:<4} {buffer.kind:<9} {buffer.dtype} [{_list(buffer.shape)}]{name}{place}{data}"

    def _step(self, step: Step) -> Iterator[str]:
        if isinstance(step, Nest):
            yield from self._nest(step)
        elif isinstance(step, Contract):
            yield from self._contract(step)
        elif isinstance(step, Copy):
            yield f"copy b{step.source} to b{step.target}"
        elif isinstance(step, Loop):
            direction = " from the last to the first" if step.reverse else ""
            index = f", step number in b{step.index}" if step.index >= 0 else ""
            yield f"loop {step.name}: {step.count} times{direction}{index}"
            for w in step.windows:
                yield f"  window b{w.view} of b{w.base}, {w.stride} elements a step{', backwards' if w.reverse else ''}"
            yield from self._body(step.body)
        elif isinstance(step, While):
            limit = "" if step.limit is None else f", at most {step.limit} times"
            yield f"while {step.name}: b{step.predicate}{limit}"
            yield "  condition"
            yield from self._body(step.condition, 2)
            yield "  body"
            yield from self._body(step.body, 2)
        elif isinstance(step, Branch):
            yield f"if {step.name}: b{step.predicate}"
            yield from self._body(step.then)
            yield "else"
            yield from self._body(step.orelse)
        elif isinstance(step, Library):
            options = "".join(f", {k} = {v}" for k, v in step.options)
            arguments = ", ".join(f"b{k}" for k in step.arguments)
            yield f"call {step.name}: {', '.join(f'b{k}' for k in step.results)} = {step.routine}({arguments}{options})"
        else:
            results = ", ".join(f"b{k}" for k in (step.values, step.indices) if k >= 0)
            order = "descending" if step.descending else "ascending"
            yield (
                f"sort {step.name}: {results} = first {step.count} of {step.length} in each of {step.rows} rows of"
                f" b{step.source}, {order}"
            )

    def _body(self, steps: Sequence[Step], depth: int = 1) -> Iterator[str]:
        for step in steps:
            for line in self._step(step):
                yield "  " * depth + line

    def _nest(self, nest: Nest) -> Iterator[str]:
        outer, inner = len(nest.outer), len(nest.inner)
        yield f"nest {nest.name}{_ops(nest.ops)}"
        vector = f", vectors along i{nest.vector_axis}" if nest.vector_axis >= 0 else ""
        yield f"  for all {_ranges(nest.outer, 0)}{vector}" if outer else f"  once{vector}"
        for number, part in enumerate(nest.passes):
            pad = "    "
            if inner:
                yield f"    pass {number} over {_ranges(nest.inner, outer)}"
                pad = "      "
            values = [e for r in part.reduces for e in r.exprs]
            names = yield from self._named([*values, *_store_values(part.stores)], pad)
            for r in part.reduces:
                kind = ("exclusive prefix " if r.exclusive else "prefix ") if r.prefix else ""
                times = "" if r.factor is None else f" times {names.text(r.factor)}"
                yield f"{pad}{r.name} = {kind}{r.op}{times} {names.text(r.value)}  # {r.dtype}"
            for store in part.stores:
                yield pad + names.store(store)
        names = yield from self._named(_store_values(nest.finals), "    ")
        for store in nest.finals:
            yield "    " + names.store(store)

    def _contract(self, step: Contract) -> Iterator[str]:
        batch = f"[{_list(step.batch)}] times " if step.batch else ""
        yield f"contract {step.name}{_ops(step.ops)}"
        product = f"{_operand(step.left)} @ {_operand(step.right)}"
        yield f"  b{step.target} [{step.m}, {step.n}] = {batch}{product}, sums of {step.k} products, {step.dtype}"
        if step.epilogue:
            axes = ", ".join(f"i{k}" for k in range(len(step.batch) + 2))
            kept = "" if step.keeps_target else f", b{step.target} is not kept"
            yield f"  then for all {axes}{kept}"
            names = yield from self._named(_store_values(step.epilogue), "    ")
            for store in step.epilogue:
                yield "    " + names.store(store)

    @staticmethod
    def _named(roots: Sequence[Expr], pad: str) -> Generator[str, None, _Names]:
        """Lines that name what is used several times; returns the names."""
        uses = Counter(id(c) for expr in walk(*roots) for c in children(expr))
        uses.update(id(r) for r in roots)
        names = _Names()
        for expr in walk(*roots):
            text = names.text(expr)
            if isinstance(expr, Apply | Load) and (uses[id(expr)] > 1 or len(text) > _NARROW):
                yield f"{pad}{names.add(expr)} = {text}"
        return names


class _Names:
    """Names of expressions that are used several times, and the text of all others."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def add(self, expr: Expr) -> str:
        name = self._names[id(expr)] = f"t{len(self._names)}"
        return name

    def text(self, expr: Expr) -> str:
        if id(expr) in self._names:
            return self._names[id(expr)]
        if isinstance(expr, Const):
            return str(expr.value)
        if isinstance(expr, Load):
            found = f"b{expr.buffer}[{self.index(expr.index)}]"
            return found if expr.where is None else f"({found} where {self.text(expr.where)} else {expr.fill})"
        if isinstance(expr, AxisValue):
            return f"i{expr.axis}"
        if isinstance(expr, SizeValue):
            return str(expr.dim)
        if isinstance(expr, Reduced | Running):
            return expr.name if isinstance(expr, Reduced) else f"running {expr.name}"
        if isinstance(expr, Accumulator):
            return "product"
        args = [self.text(a) for a in expr.args]
        if expr.function in _INFIX and len(args) == 2:
            return f"({args[0]} {_INFIX[expr.function]} {args[1]})"
        if expr.function == "cast":
            return f"{expr.dtype}({args[0]})"
        return f"{expr.function}({', '.join(args)})"

    def store(self, store: Store) -> str:
        sign = "=" if store.mode == "set" else f"{store.mode}="
        where = "" if store.where is None else f" where {self.text(store.where)}"
        return f"b{store.buffer}[{self.index(store.index)}] {sign} {self.text(store.value)}{where}"

    def index(self, index: Index) -> str:
        terms = [] if index.offset == 0 else [str(index.offset)]
        terms += [_scaled(s, f"i{k}") for k, s in enumerate(index.strides) if s != 0]
        terms += [_scaled(g.stride, f"in {g.size}: {self.text(g.value)}") for g in index.gathered]
        return " + ".join(terms) or "0"


def _scaled(stride: DimLike, what: str) -> str:
    if stride == 1:
        return what if what.isalnum() else f"({what})"
    factor = str(stride) if isinstance(stride, int) else f"({stride})"
    return f"{factor}*{what}" if what.isalnum() else f"{factor}*({what})"


def _store_values(stores: Sequence[Store]) -> list[Expr]:
    found: list[Expr] = []
    for store in stores:
        found.append(store.value)
        found += [g.value for g in store.index.gathered]
        if store.where is not None:
            found.append(store.where)
    return found


def _operand(operand: Operand) -> str:
    terms = [] if operand.offset == 0 else [str(operand.offset)]
    terms += [_scaled(s, f"i{k}") for k, s in enumerate(operand.batch) if s != 0]
    terms += [_scaled(operand.row, "row"), _scaled(operand.column, "column")]
    return f"b{operand.buffer}[{' + '.join(terms)}]"


def _ops(ops: Sequence[str]) -> str:
    return f": {', '.join(ops)}" if ops else ""


def _ranges(extents: Sequence[DimLike], first: int) -> str:
    return ", ".join(f"i{first + k} < {n}" for k, n in enumerate(extents))


def _list(dims: Sequence[DimLike]) -> str:
    return ", ".join(map(str, dims))
