"""Vector code over `text.Function`, polymorphic in the number of lanes.

Every kernel chooses one lane count W for all its element types, so masks, indices and values of different widths line
up; LLVM splits what does not fit a register. W = 1 gives plain scalar code from the same calls.

Element types are LLVM's names: `float double half bfloat i1 i8 i16 i32 i64`. Masks are lanes of `i1`. Where an operand
is a Python number it becomes a constant of the element type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlxlang.backends.llvm.text import Function, Operand, operand_text

Value = str | int | float
"""A vector operand: the text of a value, or a Python number that becomes a constant in every lane."""

FLOAT_TYPES = ("half", "bfloat", "float", "double")
BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
}
BYTES = {name: max(1, bits // 8) for name, bits in BITS.items()}
SUFFIXES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
INTEGER_OF = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}


@dataclass(frozen=True, slots=True)
class VectorTarget:
    """What the emitter needs to know of a machine.

    Attributes:
        width_bits: Register width used: 512, 256 or 128.
        has_fma: Whether fused multiply-add is one instruction.
        name: Short name for cache keys and reports.
    """

    width_bits: int
    has_fma: bool
    name: str

    @property
    def lanes(self) -> int:
        """Lanes of 32 bits in one register: the usual W of a kernel."""
        return self.width_bits // 32

    @property
    def attributes(self) -> str:
        """Function attributes for code of this target."""
        return f'nounwind "no-trapping-math"="true" "prefer-vector-width"="{self.width_bits}"'


AVX512 = VectorTarget(512, True, "avx512")
AVX2 = VectorTarget(256, True, "avx2")
BASELINE = VectorTarget(128, False, "baseline")


def target_of_features(features: dict[str, bool]) -> VectorTarget:
    """Choose the target for a set of LLVM CPU features."""
    if all(features.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        return AVX512
    if features.get("avx2") and features.get("fma"):
        return AVX2
    if features.get("neon"):
        return VectorTarget(128, True, "neon")
    return BASELINE


def target_of_host() -> VectorTarget:
    """Choose the target for the machine this process runs on."""
    import llvmlite.binding as llvm

    return target_of_features(dict(llvm.get_host_cpu_features()))


def is_float(elem: str) -> bool:
    """Whether the element type is a floating-point type."""
    return elem in FLOAT_TYPES


def float_literal(elem: str, number: float) -> str:
    """Return the exact LLVM constant of a number rounded to a floating-point element type."""
    with np.errstate(over="ignore"):
        if elem == "double":
            return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        if elem == "half":
            return f"0xH{np.float16(number).view(np.uint16):04X}"
        single = np.float32(number)
    if elem == "bfloat":
        bits = int(single.view(np.uint32))
        if single == single:
            bits += 0x7FFF + ((bits >> 16) & 1)
        return f"0xR{bits >> 16 & 0xFFFF:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(single)))[0]:016X}"


def literal(elem: str, number: int | float) -> str:
    """Return the LLVM constant of a number in an element type; integers wrap."""
    if is_float(elem):
        return float_literal(elem, float(number))
    if elem == "i1":
        return "true" if number else "false"
    bits = BITS[elem]
    wrapped = int(number) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


class VectorEmitter:
    """Emits operations on W lanes into a function.

    Args:
        function: Where the instructions go.
        target: The machine.
        lanes: W, a power of two.
        contract: Whether `add sub mul` may be fused into multiply-adds by the code generator (their default).
    """

    def __init__(self, function: Function, target: VectorTarget, lanes: int, *, contract: bool = False) -> None:
        if lanes < 1 or lanes & (lanes - 1):
            raise ValueError(f"the lane count must be a power of two, not {lanes}")
        self.function = function
        self.target = target
        self.lanes = lanes
        self.contract = contract

    # -- types and constants ---------------------------------------------------------------------------

    def type(self, elem: str) -> str:
        """LLVM type of W lanes."""
        return elem if self.lanes == 1 else f"<{self.lanes} x {elem}>"

    def suffix(self, elem: str) -> str:
        """Mangling suffix of W lanes in intrinsic names, for instance `v16f32`."""
        name = SUFFIXES.get(elem, elem)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def constant(self, elem: str, number: int | float) -> str:
        """The same number in every lane."""
        text = literal(elem, number)
        return text if self.lanes == 1 else f"splat ({elem} {text})"

    def constants(self, elem: str, numbers: Sequence[int | float]) -> str:
        """One number per lane."""
        if len(numbers) != self.lanes:
            raise ValueError(f"{len(numbers)} numbers for {self.lanes} lanes")
        texts = [literal(elem, number) for number in numbers]
        if self.lanes == 1:
            return texts[0]
        return "<" + ", ".join(f"{elem} {text}" for text in texts) + ">"

    def operand(self, elem: str, value: Value) -> str:
        """Text of an operand; numbers become constants."""
        return value if isinstance(value, str) else self.constant(elem, value)

    def zero(self, elem: str) -> str:
        """Zero in every lane."""
        return self.constant(elem, 0)

    def iota(self, elem: str, start: int = 0, step: int = 1) -> str:
        """start, start + step, …, one per lane."""
        return self.constants(elem, [start + step * lane for lane in range(self.lanes)])

    def splat(self, elem: str, scalar: Operand | float) -> str:
        """A scalar value (or number) in every lane."""
        if not isinstance(scalar, str):
            return self.constant(elem, scalar)
        if self.lanes == 1:
            return scalar
        kind = self.type(elem)
        first = self.function.value(f"insertelement {kind} poison, {elem} {scalar}, i32 0")
        return self.function.value(f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer")

    def extract(self, elem: str, value: Value, lane: Operand) -> str:
        """One lane as a scalar."""
        if self.lanes == 1:
            return self.operand(elem, value)
        text = self.operand(elem, value)
        return self.function.value(f"extractelement {self.type(elem)} {text}, i32 {operand_text(lane)}")

    def insert(self, elem: str, value: Value, scalar: str, lane: Operand) -> str:
        """The value with one lane replaced."""
        if self.lanes == 1:
            return scalar
        text = self.operand(elem, value)
        return self.function.value(f"insertelement {self.type(elem)} {text}, {elem} {scalar}, i32 {operand_text(lane)}")

    def shuffle(self, elem: str, a: str, b: str, indices: Sequence[int]) -> str:
        """Lanes picked from a (0 … W-1) and b (W … 2W-1)."""
        kind = self.type(elem)
        picks = ", ".join(f"i32 {index}" for index in indices)
        return self.function.value(f"shufflevector {kind} {a}, {kind} {b}, <{len(indices)} x i32> <{picks}>")

    # -- memory ----------------------------------------------------------------------------------------

    def all_lanes(self) -> str:
        """The mask with every lane on."""
        return self.constant("i1", True)

    def tail_mask(self, remaining: Operand) -> str:
        """The mask of lanes below `remaining` (i64, any sign; clamped before it is narrowed)."""
        if isinstance(remaining, int):
            if self.lanes == 1:
                return literal("i1", remaining > 0)
            return self.constants("i1", [lane < remaining for lane in range(self.lanes)])
        if self.lanes == 1:
            return operand_text(self.function.icmp("sgt", remaining, 0))
        function = self.function
        clamped = function.smax(function.smin(remaining, self.lanes), 0)
        narrow = function.trunc(clamped, "i64", "i32")
        return self.compare("ult", "i32", self.iota("i32"), self.splat("i32", narrow))

    def load(self, elem: str, pointer: str, mask: str | None = None, fill: Value = 0) -> str:
        """Load W consecutive elements; lanes off in `mask` are not read and get `fill`."""
        kind, align = self.type(elem), BYTES[elem]
        if mask is None:
            return self.function.value(f"load {kind}, ptr {pointer}, align {align}")
        fill_text = self.operand(elem, fill)
        if self.lanes == 1:
            with self.function.if_(mask, [(elem, fill_text)]) as branch:
                branch.merge(self.function.load(elem, pointer, align))
            return branch.results[0]
        return self.function.call(
            kind,
            f"llvm.masked.load.{self.suffix(elem)}.p0",
            [(f"ptr align {align}", pointer), (self.type("i1"), mask), (kind, fill_text)],
        )

    def store(self, elem: str, value: Value, pointer: str, mask: str | None = None) -> None:
        """Store W consecutive elements; lanes off in `mask` are not written."""
        kind, align = self.type(elem), BYTES[elem]
        text = self.operand(elem, value)
        if mask is None:
            self.function.emit(f"store {kind} {text}, ptr {pointer}, align {align}")
            return
        if self.lanes == 1:
            with self.function.if_(mask):
                self.function.store(elem, text, pointer, align)
            return
        self.function.call(
            "void",
            f"llvm.masked.store.{self.suffix(elem)}.p0",
            [(kind, text), (f"ptr align {align}", pointer), (self.type("i1"), mask)],
        )

    def load_broadcast(self, elem: str, pointer: str) -> str:
        """Load one element into every lane."""
        return self.splat(elem, self.function.load(elem, pointer, BYTES[elem]))

    def addresses(self, unit: str, base: str, offsets: Value, index: str = "i64") -> str:
        """Pointers base + offset per lane; offsets count elements of type `unit` (`"i8"`: bytes)."""
        text = self.operand(index, offsets)
        return self.function.value(f"getelementptr {unit}, ptr {base}, {self.type(index)} {text}")

    def gather(
        self,
        elem: str,
        base: str,
        offsets: Value,
        mask: str | None = None,
        fill: Value = 0,
        *,
        unit: str | None = None,
        index: str = "i64",
    ) -> str:
        """Load base[offset] per lane.

        Args:
            elem: Element type.
            base: Pointer.
            offsets: Signed offsets per lane, of type `index`.
            mask: Lanes that are read.
            fill: Value of the others.
            unit: What the offsets count: elements (None) or a type, `"i8"` for bytes.
            index: Integer type of the offsets.
        """
        pointers = self.addresses(unit or elem, base, offsets, index)
        if self.lanes == 1:
            return self.load(elem, pointers, mask, fill)
        kind = self.type(elem)
        return self.function.call(
            kind,
            f"llvm.masked.gather.{self.suffix(elem)}.v{self.lanes}p0",
            [
                (f"<{self.lanes} x ptr> align {BYTES[elem]}", pointers),
                (self.type("i1"), mask or self.all_lanes()),
                (kind, self.operand(elem, fill)),
            ],
        )

    def scatter(
        self,
        elem: str,
        value: Value,
        base: str,
        offsets: Value,
        mask: str | None = None,
        *,
        unit: str | None = None,
        index: str = "i64",
    ) -> None:
        """Store to base[offset] per lane; where offsets coincide the highest lane wins."""
        pointers = self.addresses(unit or elem, base, offsets, index)
        if self.lanes == 1:
            self.store(elem, value, pointers, mask)
            return
        self.function.call(
            "void",
            f"llvm.masked.scatter.{self.suffix(elem)}.v{self.lanes}p0",
            [
                (self.type(elem), self.operand(elem, value)),
                (f"<{self.lanes} x ptr> align {BYTES[elem]}", pointers),
                (self.type("i1"), mask or self.all_lanes()),
            ],
        )

    def load_strided(self, elem: str, pointer: str, stride: Operand, mask: str | None = None, fill: Value = 0) -> str:
        """Load pointer[0], pointer[stride], …; the stride counts elements (i64, any sign)."""
        if isinstance(stride, int) and stride == 1:
            return self.load(elem, pointer, mask, fill)
        return self.gather(elem, pointer, self.strided_offsets(stride), mask, fill)

    def store_strided(self, elem: str, value: Value, pointer: str, stride: Operand, mask: str | None = None) -> None:
        """Store to pointer[0], pointer[stride], …; the stride counts elements (i64, any sign)."""
        if isinstance(stride, int) and stride == 1:
            self.store(elem, value, pointer, mask)
            return
        self.scatter(elem, value, pointer, self.strided_offsets(stride), mask)

    def strided_offsets(self, stride: Operand) -> str:
        """0, stride, 2 stride, … as i64 lanes."""
        if isinstance(stride, int):
            return self.iota("i64", 0, stride)
        return self.mul("i64", self.iota("i64"), self.splat("i64", stride))

    # -- arithmetic ------------------------------------------------------------------------------------

    def binary(self, op: str, elem: str, a: Value, b: Value, flags: str = "") -> str:
        """Emit an LLVM binary instruction by name."""
        head = f"{op} {flags}" if flags else op
        return self.function.value(f"{head} {self.type(elem)} {self.operand(elem, a)}, {self.operand(elem, b)}")

    def _arithmetic(self, op: str, elem: str, a: Value, b: Value, contract: bool | None) -> str:
        if not is_float(elem):
            return self.binary(op, elem, a, b)
        fused = self.contract if contract is None else contract
        return self.binary("f" + op, elem, a, b, "contract" if fused else "")

    def add(self, elem: str, a: Value, b: Value, contract: bool | None = None) -> str:
        """Return a + b; integers wrap. `contract` overrides the emitter's."""
        return self._arithmetic("add", elem, a, b, contract)

    def sub(self, elem: str, a: Value, b: Value, contract: bool | None = None) -> str:
        """Return a - b; integers wrap."""
        return self._arithmetic("sub", elem, a, b, contract)

    def mul(self, elem: str, a: Value, b: Value, contract: bool | None = None) -> str:
        """Return a * b; integers wrap."""
        return self._arithmetic("mul", elem, a, b, contract)

    def div(self, elem: str, a: Value, b: Value) -> str:
        """Return a / b of floats (integers: see `vector_division`)."""
        return self.binary("fdiv", elem, a, b)

    def reciprocal_of_moderate(self, elem: str, a: Value) -> str:
        """Return 1 / a to about one ulp, for |a| between 2**-126 and 2**126 (NaN passes); cheaper than a division where the target has one.

        Source: a table estimate of 14 bits and one Newton step.
        """
        if elem != "float" or self.lanes != 16 or self.target.width_bits != 512:
            return self.div(elem, 1, a)
        vector = self.type(elem)
        estimate = self.function.call(
            vector,
            "llvm.x86.avx512.rcp14.ps.512",
            [(vector, self.operand(elem, a)), (vector, "zeroinitializer"), ("i16", "-1")],
        )
        error = self.fma(elem, self.neg(elem, a), estimate, 1)
        return self.fma(elem, estimate, error, estimate)

    def neg(self, elem: str, a: Value) -> str:
        """Return -a; integers wrap."""
        if is_float(elem):
            return self.function.value(f"fneg {self.type(elem)} {self.operand(elem, a)}")
        return self.binary("sub", elem, 0, a)

    def intrinsic(self, name: str, elem: str, *arguments: Value) -> str:
        """Call `llvm.<name>.<suffix>` with all operands of one type."""
        kind = self.type(elem)
        typed: list[tuple[str, Operand]] = [(kind, self.operand(elem, argument)) for argument in arguments]
        return self.function.call(kind, f"llvm.{name}.{self.suffix(elem)}", typed)

    def fma(self, elem: str, a: Value, b: Value, c: Value) -> str:
        """Return a * b + c, rounded once where the target has the instruction."""
        if self.target.has_fma:
            return self.intrinsic("fma", elem, a, b, c)
        return self.add(elem, self.mul(elem, a, b, contract=False), c, contract=False)

    def abs(self, elem: str, a: Value) -> str:
        """Return |a|; the least integer stays itself."""
        if is_float(elem):
            return self.intrinsic("fabs", elem, a)
        kind = self.type(elem)
        arguments: list[tuple[str, Operand]] = [(kind, self.operand(elem, a)), ("i1", False)]
        return self.function.call(kind, f"llvm.abs.{self.suffix(elem)}", arguments)

    def sqrt(self, elem: str, a: Value) -> str:
        """Correctly rounded square root; negative gives NaN."""
        return self.intrinsic("sqrt", elem, a)

    def copysign(self, elem: str, magnitude: Value, sign: Value) -> str:
        """The magnitude of one operand with the sign of the other."""
        return self.intrinsic("copysign", elem, magnitude, sign)

    def floor(self, elem: str, a: Value) -> str:
        """Largest integer not above a."""
        return self.intrinsic("floor", elem, a)

    def ceil(self, elem: str, a: Value) -> str:
        """Least integer not below a."""
        return self.intrinsic("ceil", elem, a)

    def trunc(self, elem: str, a: Value) -> str:
        """The integer part of a, towards zero."""
        return self.intrinsic("trunc", elem, a)

    def round_even(self, elem: str, a: Value) -> str:
        """Nearest integer, halves to even."""
        return self.intrinsic("roundeven", elem, a)

    def _float_extremum(self, predicate: str, elem: str, a: Value, b: Value) -> str:
        # `a > b ? a : b` is one max instruction and yields b when unordered: only a NaN in `a` needs a second select.
        picked = self.select(elem, self.compare(predicate, elem, a, b), a, b)
        if not isinstance(a, str):
            return picked if a == a else self.constant(elem, a)
        return self.select(elem, self.compare("uno", elem, a, a), a, picked)

    def maximum(self, elem: str, a: Value, b: Value, *, signed: bool = True) -> str:
        """Larger operand; NaN if either is NaN."""
        if is_float(elem):
            return self._float_extremum("ogt", elem, a, b)
        return self.intrinsic("smax" if signed else "umax", elem, a, b)

    def minimum(self, elem: str, a: Value, b: Value, *, signed: bool = True) -> str:
        """Smaller operand; NaN if either is NaN."""
        if is_float(elem):
            return self._float_extremum("olt", elem, a, b)
        return self.intrinsic("smin" if signed else "umin", elem, a, b)

    # -- bits, comparison, selection -------------------------------------------------------------------

    def and_(self, elem: str, a: Value, b: Value) -> str:
        """Bitwise and (masks: `elem` i1)."""
        return self.binary("and", elem, a, b)

    def or_(self, elem: str, a: Value, b: Value) -> str:
        """Bitwise or."""
        return self.binary("or", elem, a, b)

    def xor(self, elem: str, a: Value, b: Value) -> str:
        """Bitwise exclusive or."""
        return self.binary("xor", elem, a, b)

    def not_(self, elem: str, a: Value) -> str:
        """Bitwise complement."""
        return self.binary("xor", elem, a, 1 if elem == "i1" else -1)

    def _shift(self, op: str, elem: str, a: Value, count: Value) -> str:
        bits = BITS[elem]
        if isinstance(count, str):
            return self.binary(op, elem, a, self.and_(elem, count, bits - 1))
        return self.binary(op, elem, a, int(count) & (bits - 1))

    def shift_left(self, elem: str, a: Value, count: Value) -> str:
        """Return a << (count mod width)."""
        return self._shift("shl", elem, a, count)

    def shift_right(self, elem: str, a: Value, count: Value, *, signed: bool = True) -> str:
        """Return a >> (count mod width), with the sign (signed) or zeros shifted in."""
        return self._shift("ashr" if signed else "lshr", elem, a, count)

    def compare(self, predicate: str, elem: str, a: Value, b: Value) -> str:
        """Compare with an LLVM predicate (`oeq olt une uno …` for floats, `eq slt ult …` for integers): a mask."""
        op = "fcmp" if is_float(elem) else "icmp"
        return self.binary(f"{op} {predicate}", elem, a, b)

    def select(self, elem: str, mask: str, a: Value, b: Value) -> str:
        """A where the mask is on, else b."""
        a_text, b_text = self.operand(elem, a), self.operand(elem, b)
        kind = self.type(elem)
        return self.function.value(f"select {self.type('i1')} {mask}, {kind} {a_text}, {kind} {b_text}")

    def any_lane(self, mask: str) -> str:
        """Whether any lane of a mask is on: a scalar i1."""
        return self.reduce_or("i1", mask)

    # -- conversion ------------------------------------------------------------------------------------

    def bitcast(self, source: str, target: str, value: Value) -> str:
        """Reinterpret lanes of one width."""
        if source == target:
            return self.operand(source, value)
        return self._cast("bitcast", source, target, value)

    def _cast(self, op: str, source: str, target: str, value: Value) -> str:
        text = self.operand(source, value)
        return self.function.value(f"{op} {self.type(source)} {text} to {self.type(target)}")

    def convert(self, source: str, target: str, value: Value, *, signed: bool = True, to_signed: bool = True) -> str:
        """Convert between element types.

        Float to integer truncates, saturates and takes NaN to 0; integers wrap; anything to `i1` is `!= 0`;
        narrowing floats rounds to nearest even once.

        Args:
            source: Element type of the value.
            target: Element type wanted.
            value: The value.
            signed: Whether an integer source is signed (`i1` never is).
            to_signed: Whether an integer target is signed (matters for float sources only).
        """
        if source == target:
            return self.operand(source, value)
        if target == "i1":
            return self.compare("une" if is_float(source) else "ne", source, value, 0)
        signed = signed and source != "i1"
        if is_float(source):
            if is_float(target):
                return self._float_to_float(source, target, value)
            return self._float_to_int(source, target, value, to_signed)
        if is_float(target):
            if target in ("half", "bfloat"):
                wide = self._cast("sitofp" if signed else "uitofp", source, "double", value)
                return self._float_to_float("double", target, wide)
            return self._cast("sitofp" if signed else "uitofp", source, target, value)
        if BITS[source] > BITS[target]:
            return self._cast("trunc", source, target, value)
        if BITS[source] == BITS[target]:
            return self.operand(source, value)
        return self._cast("sext" if signed else "zext", source, target, value)

    def _float_to_int(self, source: str, target: str, value: Value, signed: bool) -> str:
        if source in ("half", "bfloat"):
            value = self._float_to_float(source, "float", value)
            source = "float"
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{self.suffix(target)}.{self.suffix(source)}"
        return self.function.call(self.type(target), name, [(self.type(source), self.operand(source, value))])

    def _float_to_float(self, source: str, target: str, value: Value) -> str:
        if source == "bfloat":
            # The upper half of a float's bits: exact, and independent of what the target knows of bfloat.
            bits = self._cast("zext", "i16", "i32", self._cast("bitcast", "bfloat", "i16", value))
            single = self._cast("bitcast", "i32", "float", self.shift_left("i32", bits, 16))
            return single if target == "float" else self._float_to_float("float", target, single)
        if source == "half":
            single = self._cast("fpext", "half", "float", value)
            return single if target == "float" else self._float_to_float("float", target, single)
        if target == "double":
            return self._cast("fpext", "float", "double", value)
        if source == "double" and target != "float":
            value, source = self._round_to_odd(value), "float"
        if target == "bfloat":
            return self._float_to_bfloat(value)
        return self._cast("fptrunc", source, target, value)

    def _round_to_odd(self, value: Value) -> str:
        """Double to float, inexact results made odd: a later rounding to fewer bits is then the correct one."""
        single = self._cast("fptrunc", "double", "float", value)
        back = self._cast("fpext", "float", "double", single)
        bits = self._cast("bitcast", "float", "i32", single)
        above = self.compare("ogt", "double", self.abs("double", back), self.abs("double", value))
        bits = self.add("i32", bits, self._cast("sext", "i1", "i32", above))
        inexact = self.compare("one", "double", back, value)
        bits = self.or_("i32", bits, self._cast("zext", "i1", "i32", inexact))
        return self._cast("bitcast", "i32", "float", bits)

    def _float_to_bfloat(self, value: Value) -> str:
        bits = self._cast("bitcast", "float", "i32", value)
        odd = self.and_("i32", self.shift_right("i32", bits, 16, signed=False), 1)
        rounded = self.add("i32", self.add("i32", bits, 0x7FFF), odd)
        quiet = self.or_("i32", bits, 0x400000)
        chosen = self.select("i32", self.compare("uno", "float", value, value), quiet, rounded)
        upper = self._cast("trunc", "i32", "i16", self.shift_right("i32", chosen, 16, signed=False))
        return self._cast("bitcast", "i16", "bfloat", upper)

    # -- across lanes ----------------------------------------------------------------------------------

    def reduce_add(self, elem: str, value: str) -> str:
        """Sum of the lanes, as a scalar (floats in tree order)."""
        return self._reduce("add", elem, value, -0.0)

    def reduce_mul(self, elem: str, value: str) -> str:
        """Product of the lanes, as a scalar (floats in tree order)."""
        return self._reduce("mul", elem, value, 1.0)

    def _reduce(self, op: str, elem: str, value: str, neutral: float) -> str:
        if self.lanes == 1:
            return value
        arguments: list[tuple[str, Operand]] = [(self.type(elem), value)]
        if not is_float(elem):
            return self.function.call(elem, f"llvm.vector.reduce.{op}.{self.suffix(elem)}", arguments)
        arguments.insert(0, (elem, literal(elem, neutral)))
        name = f"llvm.vector.reduce.f{op}.{self.suffix(elem)}"
        return self.function.call(elem, name, arguments, flags="reassoc")

    def reduce_max(self, elem: str, value: str, *, signed: bool = True) -> str:
        """Largest lane; NaN if any lane is NaN."""
        return self._reduce_extremum("max", elem, value, signed)

    def reduce_min(self, elem: str, value: str, *, signed: bool = True) -> str:
        """Smallest lane; NaN if any lane is NaN."""
        return self._reduce_extremum("min", elem, value, signed)

    def _reduce_extremum(self, op: str, elem: str, value: str, signed: bool) -> str:
        if self.lanes == 1:
            return value
        if not is_float(elem):
            name = f"llvm.vector.reduce.{'s' if signed else 'u'}{op}.{self.suffix(elem)}"
            return self.function.call(elem, name, [(self.type(elem), value)])
        # A tree of shuffles: the floating-point reduction intrinsics add slow fix-ups for NaN.
        distance = self.lanes // 2
        while distance:
            picks = [lane + distance if lane < distance else lane for lane in range(self.lanes)]
            other = self.shuffle(elem, value, "poison", picks)
            combine = self.maximum if op == "max" else self.minimum
            value = combine(elem, value, other)
            distance //= 2
        return self.extract(elem, value, 0)

    def reduce_or(self, elem: str, value: str) -> str:
        """Bitwise or of the lanes (masks: whether any is on)."""
        if self.lanes == 1:
            return value
        if elem == "i1":
            bits = self.function.value(f"bitcast {self.type('i1')} {value} to i{self.lanes}")
            return operand_text(self.function.icmp("ne", bits, 0, f"i{self.lanes}"))
        return self._reduce("or", elem, value, 0)

    def reduce_and(self, elem: str, value: str) -> str:
        """Bitwise and of the lanes (masks: whether all are on)."""
        if self.lanes == 1:
            return value
        if elem == "i1":
            bits = self.function.value(f"bitcast {self.type('i1')} {value} to i{self.lanes}")
            return operand_text(self.function.icmp("eq", bits, -1, f"i{self.lanes}"))
        return self._reduce("and", elem, value, 0)

    def of(self, elem: str) -> Lanes:
        """The operations with one element type filled in."""
        return Lanes(self, elem)


class Lanes:
    """A `VectorEmitter` with the element type filled in and no contraction: for code that controls its rounding."""

    def __init__(self, emitter: VectorEmitter, elem: str) -> None:
        self.emitter = emitter
        self.elem = elem

    def constant(self, number: int | float) -> str:
        """The number in every lane."""
        return self.emitter.constant(self.elem, number)

    def add(self, a: Value, b: Value) -> str:
        """Return a + b."""
        return self.emitter.add(self.elem, a, b, contract=False)

    def sub(self, a: Value, b: Value) -> str:
        """Return a - b."""
        return self.emitter.sub(self.elem, a, b, contract=False)

    def mul(self, a: Value, b: Value) -> str:
        """Return a * b."""
        return self.emitter.mul(self.elem, a, b, contract=False)

    def div(self, a: Value, b: Value) -> str:
        """Return a / b."""
        return self.emitter.div(self.elem, a, b)

    def reciprocal_of_moderate(self, a: Value) -> str:
        """Return 1 / a for a of moderate size; see `VectorEmitter.reciprocal_of_moderate`."""
        return self.emitter.reciprocal_of_moderate(self.elem, a)

    def fma(self, a: Value, b: Value, c: Value) -> str:
        """Return a * b + c."""
        return self.emitter.fma(self.elem, a, b, c)

    def neg(self, a: Value) -> str:
        """Return -a."""
        return self.emitter.neg(self.elem, a)

    def abs(self, a: Value) -> str:
        """Return |a|."""
        return self.emitter.abs(self.elem, a)

    def sqrt(self, a: Value) -> str:
        """Square root."""
        return self.emitter.sqrt(self.elem, a)

    def copysign(self, magnitude: Value, sign: Value) -> str:
        """Magnitude with another's sign."""
        return self.emitter.copysign(self.elem, magnitude, sign)

    def compare(self, predicate: str, a: Value, b: Value) -> str:
        """A mask."""
        return self.emitter.compare(predicate, self.elem, a, b)

    def select(self, mask: str, a: Value, b: Value) -> str:
        """A where the mask is on, else b."""
        return self.emitter.select(self.elem, mask, a, b)

    def and_(self, a: Value, b: Value) -> str:
        """Bitwise and."""
        return self.emitter.and_(self.elem, a, b)

    def or_(self, a: Value, b: Value) -> str:
        """Bitwise or."""
        return self.emitter.or_(self.elem, a, b)

    def xor(self, a: Value, b: Value) -> str:
        """Bitwise exclusive or."""
        return self.emitter.xor(self.elem, a, b)

    def shift_left(self, a: Value, count: int) -> str:
        """Return a << count."""
        return self.emitter.shift_left(self.elem, a, count)

    def shift_right(self, a: Value, count: int) -> str:
        """Return a >> count, arithmetic."""
        return self.emitter.shift_right(self.elem, a, count)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Evaluate a polynomial by Horner's rule; the leading coefficient comes first."""
        total: Value = coefficients[0]
        for coefficient in coefficients[1:]:
            total = self.fma(total, x, coefficient)
        return self.emitter.operand(self.elem, total)
