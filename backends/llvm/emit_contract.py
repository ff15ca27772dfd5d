"""Contractions: the matrix product's driver with an epilogue over hot blocks, or a loop nest for the small and the integer ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from rlxlang.backends.llvm.emit_context import ProgramContext
from rlxlang.backends.llvm.emit_domain import without_collapse
from rlxlang.backends.llvm.emit_nest import NestEmitter
from rlxlang.backends.llvm.gemm import emit_gemm_call
from rlxlang.backends.llvm.text import Function, Operand
from rlxlang.kernels import (
    Accumulator,
    Apply,
    Contract,
    Expr,
    Gathered,
    Index,
    Load,
    Nest,
    Pass,
    Reduce,
    Reduced,
    Store,
    walk,
)
from rlxlang.kernels import Operand as Matrix
from rlxlang.types import F32, F64, DimLike

SMALL_PRODUCT = 4096
"""Multiply-adds up to which a product is written out as a loop nest: the driver's plan would cost more."""

GEMM_NAMES = {"F32": "float32", "F64": "float64"}
RESULT = "product"


def as_nest(shared: ProgramContext, contract: Contract) -> Nest | None:
    """The loop nest for a contraction that the matrix product's driver should not or cannot take; else None."""
    sizes = (*contract.batch, contract.m, contract.n, contract.k)
    static = prod(s for s in sizes if isinstance(s, int)) if all(isinstance(s, int) for s in sizes) else None
    buffers = shared.program.buffers
    uniform = all(
        buffers[b].element == contract.dtype for b in (contract.left.buffer, contract.right.buffer, contract.target)
    )
    in_driver = contract.dtype in (F32, F64) and uniform and _driver_takes(contract)
    if in_driver and (static is None or static > SMALL_PRODUCT):
        return None
    return _nest(shared, contract)


def _driver_takes(contract: Contract) -> bool:
    """Whether one stride of each operand is 1, as the driver wants (axes of size 1 aside)."""
    left, right = contract.left, contract.right
    left_fits = 1 in (left.row, left.column) or contract.m == 1 or contract.k == 1
    right_fits = 1 in (right.row, right.column) or contract.k == 1 or contract.n == 1
    return left_fits and right_fits


def _nest(shared: ProgramContext, contract: Contract) -> Nest:
    """Outer axes batch …, m, n; inner axis k; the epilogue as final stores."""
    buffers, rank = shared.program.buffers, len(contract.batch)
    left, right, dtype = contract.left, contract.right, contract.dtype
    outer = (*contract.batch, contract.m, contract.n)
    a = _operand_value(shared, left, (*left.batch, left.row, 0, left.column), contract)
    b = _operand_value(shared, right, (*right.batch, 0, right.column, right.row), contract)
    total = Reduce(RESULT, "sum", Apply("mul", (a, b), dtype), dtype)
    result: Expr = Reduced(RESULT, dtype)
    finals: list[Store] = []
    if contract.keeps_target or not contract.epilogue:
        kept = buffers[contract.target].element
        value = result if kept == dtype else Apply("cast", (result,), kept)
        finals.append(Store(contract.target, Index(0, (*row_major(outer), 0)), value))
    finals += substituted(contract.epilogue, result, extra_axes=1)
    along_k = left.column == 1 and right.row == 1 and (contract.n == 1 or right.column != 1)
    vector = rank + 2 if along_k else rank + 1
    return Nest(contract.name, outer, (contract.k,), (Pass((total,)),), tuple(finals), vector, contract.ops)


def _operand_value(shared: ProgramContext, operand: Matrix, strides: Sequence[DimLike], contract: Contract) -> Expr:
    kept = shared.program.buffers[operand.buffer].element
    load = Load(operand.buffer, Index(operand.offset, tuple(strides)), kept)
    return load if kept == contract.dtype else Apply("cast", (load,), contract.dtype)


def row_major(extents: Sequence[DimLike]) -> tuple[DimLike, ...]:
    """Strides of a contiguous array."""
    strides: list[DimLike] = []
    step: DimLike = 1
    for extent in reversed(extents):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def substituted(stores: Sequence[Store], result: Expr, *, extra_axes: int = 0) -> list[Store]:
    """Stores in which `result` stands for the accumulator, over a domain with more axes at its end."""
    roots = [e for s in stores for e in (s.value, *(g.value for g in s.index.gathered), *_optional(s.where))]
    new: dict[int, Expr] = {}
    for expr in walk(*roots):
        new[id(expr)] = _replaced(expr, new, result, extra_axes)
    return [
        replace(
            s,
            value=new[id(s.value)],
            index=_index(s.index, new, extra_axes),
            where=None if s.where is None else new[id(s.where)],
        )
        for s in stores
    ]


def _optional(expr: Expr | None) -> tuple[Expr, ...]:
    return () if expr is None else (expr,)


def _index(index: Index, new: Mapping[int, Expr], extra_axes: int) -> Index:
    gathered = tuple(Gathered(new[id(g.value)], g.size, g.stride) for g in index.gathered)
    return Index(index.offset, (*index.strides, *(0,) * extra_axes), gathered)


def _replaced(expr: Expr, new: Mapping[int, Expr], result: Expr, extra_axes: int) -> Expr:
    if isinstance(expr, Accumulator):
        return result
    if isinstance(expr, Apply):
        return Apply(expr.function, tuple(new[id(a)] for a in expr.args), expr.dtype)
    if isinstance(expr, Load):
        where = None if expr.where is None else new[id(expr.where)]
        return Load(expr.buffer, _index(expr.index, new, extra_axes), expr.dtype, where, expr.fill)
    return expr


def emit_contract(shared: ProgramContext, contract: Contract) -> str:
    """Emit a contraction; returns the symbol of its step, `i32 (ptr context)`."""
    nest = as_nest(shared, contract)
    if nest is not None:
        return NestEmitter(shared, nest).emit()
    epilogue: Operand = 0
    if contract.epilogue:
        epilogue = f"@{_emit_epilogue(shared, contract)}"
    function = Function(shared.module, contract.name, (("ptr", "ctx"),), "i32", linkage="internal")
    left, right = contract.left, contract.right
    outer = (*contract.batch, contract.m, contract.n)
    wanted = (*outer, contract.k, left.offset, *left.batch, left.row, left.column)
    dims = shared.load_dims(function, "%ctx", (*wanted, right.offset, *right.batch, right.row, right.column))
    bases = shared.load_bases(function, "%ctx", (left.buffer, right.buffer, contract.target), dims, 0)
    call = _ProductCall(shared, contract, function, dims, bases, epilogue)
    function.ret(call.emit())
    return contract.name


def _emit_epilogue(shared: ProgramContext, contract: Contract) -> str:
    """The epilogue as a map over a block of rows and columns of one product."""
    outer = (*contract.batch, contract.m, contract.n)
    result = Load(contract.target, Index(0, row_major(outer)), contract.dtype)
    stores = substituted(contract.epilogue, result)
    nest = Nest(f"{contract.name}.epilogue", outer, (), (Pass((), tuple(stores)),), (), len(outer) - 1)
    return NestEmitter(shared, nest, without_collapse(nest)).emit_region(nest.name)


class _ProductCall:
    """Emits the call of the driver, inside of loops over batch axes that do not compose."""

    def __init__(
        self,
        shared: ProgramContext,
        contract: Contract,
        function: Function,
        dims: Mapping[object, Operand],
        bases: Mapping[int, str],
        epilogue: Operand,
    ) -> None:
        self.shared = shared
        self.contract = contract
        self.function = function
        self.dims = dims
        self.bases = bases
        self.epilogue = epilogue

    def size(self, dim: DimLike) -> Operand:
        """Operand of a size."""
        return dim if isinstance(dim, int) else self.dims[dim]

    def emit(self) -> Operand:
        """Emit it all; returns the status."""
        groups = self._batch_groups()
        left, right = self.contract.left, self.contract.right
        a = self._element(self.bases[left.buffer], self.size(left.offset))
        b = self._element(self.bases[right.buffer], self.size(right.offset))
        c = self.bases[self.contract.target]
        if len(groups) <= 1:
            return self._call(groups[0] if groups else None, a, b, c, 0)
        return self._loops(groups, a, b, c)

    def _element(self, pointer: str, index: Operand) -> str:
        kind = "float" if self.contract.dtype == F32 else "double"
        return self.function.gep(kind, pointer, index)

    def _batch_groups(self) -> list[tuple[list[DimLike], int]]:
        """Runs of batch axes that are one evenly spaced axis: (sizes, last axis)."""
        contract, groups = self.contract, list[tuple[list[DimLike], int]]()
        for axis, extent in enumerate(contract.batch):
            if extent == 1:
                continue
            if groups:
                sizes, last = groups[-1]
                operands = (contract.left.batch, contract.right.batch)
                if all(s[last] == s[axis] * extent for s in operands):
                    groups[-1] = ([*sizes, extent], axis)
                    continue
            groups.append(([extent], axis))
        return groups

    def _product(self, sizes: Sequence[DimLike]) -> Operand:
        return self.shared.product(self.function, sizes, dict(self.dims))

    def _loops(self, groups: list[tuple[list[DimLike], int]], a: str, b: str, c: str) -> Operand:
        """One loop over all outer runs, its number taken apart; the last run is the driver's batch."""
        function, contract = self.function, self.contract
        *outer, last = groups
        counts = [self._product(sizes) for sizes, _ in outer]
        total: Operand = 1
        for count in counts:
            total = function.mul(total, count)
        inner = self._product(last[0])
        plane = function.mul(self.size(contract.m), self.size(contract.n))
        with function.loop(0, total, 1, [("i32", 0)]) as loop:
            rest: Operand = loop.index
            here = (a, b)
            for count, (_, axis) in zip(reversed(counts), reversed(outer), strict=True):
                digit, rest = function.urem(rest, count), function.udiv(rest, count)
                strides = (contract.left.batch[axis], contract.right.batch[axis])
                moved = [
                    self._element(p, function.mul(digit, self.size(s))) for p, s in zip(here, strides, strict=True)
                ]
                here = (moved[0], moved[1])
            first = function.mul(loop.index, inner)
            status = self._call(last, *here, self._element(c, function.mul(first, plane)), first)
            loop.next(function.or_(loop.carried[0], status, "i32"))
        return loop.results[0]

    def _call(self, group: tuple[list[DimLike], int] | None, a: str, b: str, c: str, first: Operand) -> Operand:
        contract, function = self.contract, self.function
        left, right = contract.left, contract.right
        batch: Operand = 1
        steps: tuple[Operand, Operand] = (0, 0)
        if group is not None:
            batch = self._product(group[0])
            steps = (self.size(left.batch[group[1]]), self.size(right.batch[group[1]]))
        m, n = self.size(contract.m), self.size(contract.n)
        context: Operand = 0
        if self.epilogue:
            context = function.alloca("ptr", 3, 8)
            for offset in (0, 8):
                word = function.load("ptr", function.gep_bytes("%ctx", offset))
                function.store("ptr", word, function.gep_bytes(context, offset))
            function.store("i64", first, function.gep_bytes(context, 16))
        return emit_gemm_call(
            function,
            GEMM_NAMES[contract.dtype.name],
            batch=batch,
            m=m,
            n=n,
            k=self.size(contract.k),
            a=a,
            a_row=self.size(left.row),
            a_column=self.size(left.column),
            a_batch=steps[0],
            b=b,
            b_row=self.size(right.row),
            b_column=self.size(right.column),
            b_batch=steps[1],
            c=c,
            c_row=n,
            c_batch=function.mul(m, n),
            epilogue=self.epilogue,
            context=context,
            threads=self.shared.program.threads,
        )
