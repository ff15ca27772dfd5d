"""Reductions of one work-item: the variables, their updates and their results in OpenCL C.

Sums of F32 run in F64 where the device has it. Elsewhere, and for F64, Neumaier's compensated sum keeps them exact to an ulp or two
(Neumaier 1974, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen").
"""

from __future__ import annotations

from dataclasses import dataclass

from rlxlang.backends.opencl.c_expr import Emitter, KernelScope
from rlxlang.backends.opencl.c_types import highest, literal, lowest, register_type
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import Reduce
from rlxlang.types import BOOL, F32, F64, DType


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The variables of one reduction: `name`, and beside it a compensation or a position."""

    reduce: Reduce
    name: str
    dtype: DType
    compensated: bool

    def declare(self) -> str:
        """Declarations with the identity."""
        op, own = self.reduce.op, register_type(self.dtype)
        if op in ("argmax", "argmin"):
            return f"{own} {self.name} = {literal(0, self.dtype)}; long {self.name}_at = 0;"
        starts = {"sum": literal(0, self.dtype), "prod": literal(1, self.dtype), "any": "0", "all": "1"}
        if op in ("max", "min"):
            starts[op] = lowest(self.dtype) if op == "max" else highest(self.dtype)
        if op not in starts:
            raise InternalError(f"unknown reduction `{op}`", stage="lower")
        text = f"{own} {self.name} = {starts[op]};"
        return f"{text} {own} {self.name}_low = {literal(0, self.dtype)};" if self.compensated else text

    def times(self, emitter: Emitter, factor: str) -> str:
        """The statement that multiplies the sum so far."""
        return f"{self.name} *= {emitter.scope.functions.convert(factor, self.reduce.value.dtype, self.dtype)};"

    def update(self, emitter: Emitter, value: str, position: str) -> list[str]:
        """Statements that take one more value in; `position` is the flat inner position, an I64."""
        op, x = self.reduce.op, self.name
        if op in ("argmax", "argmin"):
            sign = ">" if op == "argmax" else "<"
            better = f"({x} == {x} && ({value} {sign} {x} || {value} != {value}))"
            return [f"if ({position} == 0 || {better}) {{ {x} = {value}; {x}_at = {position}; }}"]
        converted = emitter.scope.functions.convert(value, self.reduce.value.dtype, self.dtype)
        if self.compensated:
            own = register_type(self.dtype)
            return [
                f"{{ const {own} y = {converted}; const {own} t = {x} + y;",
                f"  {x}_low += fabs({x}) >= fabs(y) ? ({x} - t) + y : (y - t) + {x}; {x} = t; }}",
            ]
        if op in ("any", "all"):
            return [f"{x} {'|' if op == 'any' else '&'}= {value} != 0;"]
        item = emitter.local(self.dtype, converted)
        if op in ("max", "min"):
            return [f"{x} = ({item} {'>' if op == 'max' else '<'} {x} || {item} != {item}) ? {item} : {x};"]
        function = "add" if op == "sum" else "mul"
        return [f"{x} = {emitter.scope.functions.call(function, (x, item), self.dtype, self.dtype)};"]

    def result(self, scope: KernelScope) -> str:
        """The text of the result so far, in the dtype of the reduction."""
        target, x = self.reduce.dtype, self.name
        if self.reduce.op in ("argmax", "argmin"):
            return f"({register_type(target)}){x}_at"
        if self.compensated:
            # An infinite or NaN sum leaves NaN in the compensation.
            x = f"(isfinite({x}_low) ? {x} + {x}_low : {x})"
        return scope.functions.convert(x, self.dtype, target)


def accumulation(reduce: Reduce, name: str, has_fp64: bool) -> Accumulation:
    """How a reduction is accumulated on a device."""
    target = reduce.dtype
    if reduce.op in ("argmax", "argmin"):
        return Accumulation(reduce, name, reduce.value.dtype, compensated=False)
    if reduce.op in ("any", "all"):
        return Accumulation(reduce, name, BOOL, compensated=False)
    if target.is_float and reduce.op in ("sum", "prod"):
        wide = F64 if has_fp64 else F32
        compensated = reduce.op == "sum" and (target == F64 or not has_fp64) and reduce.factor is None
        return Accumulation(reduce, name, wide, compensated)
    return Accumulation(reduce, name, target, compensated=False)
