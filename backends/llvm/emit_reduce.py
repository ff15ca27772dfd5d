"""Reductions in lanes: initial values, updates, merging of accumulators, the horizontal step.

An accumulator is a tuple of values in lanes. Sums of F32 are kept in float lanes for a block of the innermost loop and
then folded into double lanes, which costs next to nothing and keeps long sums exact to a few ulp.
"""

from __future__ import annotations

from rlxlang.backends.llvm.emit_apply import element
from rlxlang.backends.llvm.vector import VectorEmitter, is_float
from rlxlang.kernels import Reduce
from rlxlang.types import BOOL, DType

ROW_BLOCK_STEPS = 32
COLUMN_BLOCK_STEPS = 16
"""Additions that a float lane takes before it is folded into a double lane; rows add up many lanes besides."""


def _extremum_start(dtype: DType, largest: bool) -> int | float:
    """The least value of a dtype (or the largest)."""
    if dtype.is_float:
        return float("inf") if largest else float("-inf")
    if dtype == BOOL:
        return int(largest)
    return dtype.integer_range[1 if largest else 0]


class Reducer:
    """How one reduction is emitted.

    Args:
        reduce: The reduction.
        blocked: Whether a float sum is folded into doubles.
        position: Type of the positions that `argmax` and `argmin` carry, `i32` or `i64`.
    """

    def __init__(self, reduce: Reduce, *, blocked: bool, position: str) -> None:
        self.reduce = reduce
        self.op = reduce.op
        self.positional = self.op in ("argmax", "argmin")
        self.dtype = reduce.value.dtype if self.positional else reduce.dtype
        self.elem = element(self.dtype)
        if self.op in ("any", "all"):
            self.elem = "i1"
        elif self.elem == "i1":
            self.elem = "i8"
        self.position = position
        is_sum = self.op in ("sum", "prod") and self.elem == "float"
        self.running_wide = is_sum and reduce.prefix
        self.blocked = is_sum and blocked and not reduce.prefix
        self.signed = self.dtype.kind == "int"

    # -- block accumulators ----------------------------------------------------------------------------

    @property
    def elems(self) -> tuple[str, ...]:
        """Element types of the accumulator inside a block."""
        if self.running_wide:
            return ("double",)
        return (self.elem, self.position) if self.positional else (self.elem,)

    def types(self, v: VectorEmitter) -> list[str]:
        """Types of the accumulator inside a block."""
        return [v.type(e) for e in self.elems]

    def initial(self, v: VectorEmitter) -> list[str]:
        """The accumulator of no points."""
        if self.op in ("sum", "any"):
            start: int | float = 0
        elif self.op in ("prod", "all"):
            start = 1
        else:
            start = _extremum_start(self.dtype, self.op in ("min", "argmin"))
        if self.positional:
            return [v.constant(self.elem, start), v.constant(self.position, 0)]
        return [v.constant(self.elems[0], start)]

    def value(self, v: VectorEmitter, text: str) -> str:
        """The value of a point in the type of the accumulator."""
        source = self.reduce.value.dtype
        if self.op in ("any", "all"):
            return v.convert(element(source), "i1", text)
        target = self.elems[0]
        if source == BOOL and target != "i1":
            return v.convert("i1", target, text)
        return v.convert(
            element(source), target, text, signed=source.kind != "uint", to_signed=self.dtype.kind != "uint"
        )

    def update(self, v: VectorEmitter, state: list[str], value: str, position: str, mask: str | None) -> list[str]:
        """The accumulator with one more point in every lane that `mask` has on."""
        if self.positional:
            better = self._better(v, value, state[0])
            if mask is not None:
                better = v.and_("i1", better, mask)
            return [
                v.select(self.elem, better, value, state[0]),
                v.select(self.position, better, position, state[1]),
            ]
        joined = self._join(v, self.elems[0], value, state[0])
        return [joined if mask is None else v.select(self.elems[0], mask, joined, state[0])]

    def times(self, v: VectorEmitter, state: list[str], factor: str) -> list[str]:
        """A running sum multiplied by a factor."""
        return [v.mul(self.elems[0], state[0], self.value(v, factor))]

    def merge(self, v: VectorEmitter, a: list[str], b: list[str]) -> list[str]:
        """Two accumulators as one."""
        if not self.positional:
            return [self._join(v, self.elems[0], b[0], a[0])]
        better = self._better(v, b[0], a[0])
        same = v.or_("i1", self._equal(v, a[0], b[0]), self._both_nan(v, a[0], b[0]))
        first = v.compare("ult", self.position, b[1], a[1])
        chosen = v.or_("i1", better, v.and_("i1", same, first))
        return [v.select(self.elem, chosen, b[0], a[0]), v.select(self.position, chosen, b[1], a[1])]

    def merge_all(self, v: VectorEmitter, states: list[list[str]]) -> list[str]:
        """Several accumulators as one, pairwise."""
        while len(states) > 1:
            pairs = [self.merge(v, states[i], states[i + 1]) for i in range(0, len(states) - 1, 2)]
            states = pairs + states[len(states) // 2 * 2 :]
        return states[0]

    # -- folding into doubles --------------------------------------------------------------------------

    def folded_types(self, v: VectorEmitter) -> list[str]:
        """Types of what is carried from block to block."""
        return [v.type("double")] if self.blocked else self.types(v)

    def folded_initial(self, v: VectorEmitter) -> list[str]:
        """What is carried into the first block."""
        if self.blocked:
            return [v.constant("double", 0 if self.op == "sum" else 1)]
        return self.initial(v)

    def fold(self, v: VectorEmitter, carried: list[str], block: list[str]) -> list[str]:
        """Add a block of a blocked reduction to what is carried."""
        return [self._join(v, "double", v.convert("float", "double", block[0]), carried[0])]

    # -- results ---------------------------------------------------------------------------------------

    def across_lanes(self, v: VectorEmitter, s: VectorEmitter, state: list[str], *, folded: bool) -> list[str]:
        """One accumulator for all lanes, as single values."""
        if v.lanes == 1:
            return state
        elem = "double" if folded and self.blocked else self.elems[0]
        if self.positional:
            return self._first_of_lanes(v, s, state)
        if self.op == "sum":
            return [v.reduce_add(elem, state[0])]
        if self.op == "prod":
            return [v.reduce_mul(elem, state[0])]
        if self.op in ("any", "all"):
            return [v.reduce_or("i1", state[0]) if self.op == "any" else v.reduce_and("i1", state[0])]
        reduce = v.reduce_max if self.op == "max" else v.reduce_min
        return [reduce(elem, state[0], signed=self.signed)]

    def result(self, v: VectorEmitter, state: list[str], *, folded: bool) -> str:
        """The result in the dtype of the reduction."""
        target = element(self.reduce.dtype)
        to_signed = self.reduce.dtype.kind != "uint"
        if self.positional:
            return v.convert(self.position, target, state[1], to_signed=to_signed)
        source = "double" if (folded and self.blocked) or self.running_wide else self.elem
        return v.convert(source, target, state[0], signed=self.signed, to_signed=to_signed)

    # -- parts -----------------------------------------------------------------------------------------

    def _join(self, v: VectorEmitter, elem: str, value: str, state: str) -> str:
        if self.op == "sum":
            return v.add(elem, state, value)
        if self.op == "prod":
            return v.mul(elem, state, value)
        if self.op in ("any", "all"):
            return v.or_(elem, state, value) if self.op == "any" else v.and_(elem, state, value)
        join = v.maximum if self.op == "max" else v.minimum
        return join(elem, value, state, signed=self.signed)

    def _better(self, v: VectorEmitter, value: str, best: str) -> str:
        """Lanes where a later value replaces the best so far: it lies beyond it, or is the first NaN."""
        above = self.op == "argmax"
        if not is_float(self.elem):
            return v.compare(("s" if self.signed else "u") + ("gt" if above else "lt"), self.elem, value, best)
        beyond = v.compare("ogt" if above else "olt", self.elem, value, best)
        value_nan = v.compare("uno", self.elem, value, value)
        best_number = v.compare("ord", self.elem, best, best)
        return v.or_("i1", beyond, v.and_("i1", value_nan, best_number))

    def _equal(self, v: VectorEmitter, a: str, b: str) -> str:
        return v.compare("oeq" if is_float(self.elem) else "eq", self.elem, a, b)

    def _both_nan(self, v: VectorEmitter, a: str, b: str) -> str:
        if not is_float(self.elem):
            return v.constant("i1", 0)
        return v.and_("i1", v.compare("uno", self.elem, a, a), v.compare("uno", self.elem, b, b))

    def _first_of_lanes(self, v: VectorEmitter, s: VectorEmitter, state: list[str]) -> list[str]:
        parts = [
            [v.extract(self.elem, state[0], lane), v.extract(self.position, state[1], lane)] for lane in range(v.lanes)
        ]
        return self.merge_all(s, parts)
