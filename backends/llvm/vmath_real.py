"""The number format a function is computed in, and the pieces that the families of functions share.

Nothing here converts a float to an integer with `fptosi` (poison for NaN and out of range): adding 1.5 · 2**mantissa
rounds to the nearest integer and leaves that integer in the low bits of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlxlang.backends.llvm import vmath_coefficients as coefficients
from rlxlang.backends.llvm.text import Function, ModuleText
from rlxlang.backends.llvm.vector import BYTES, INTEGER_OF, Lanes, VectorEmitter

LOG2_E = 1.4426950408889634
PI = 3.141592653589793
PI_LOW = 1.2246467991473532e-16
INFINITY = float("inf")
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Format:
    """Constants of a binary format.

    Attributes:
        elem: LLVM element type.
        mantissa_bits: Stored bits of the significand.
        bias: Exponent bias.
        magic: 1.5 · 2**mantissa_bits, the rounding constant.
        least_normal: Smallest positive normal number.
        log2_high: log(2) with so few bits that its product with any exponent is exact.
        log2_low: The rest of log(2).
        sqrt_half_bits: Bits of sqrt(1/2), rounded down: significands are brought to [sqrt(1/2), sqrt(2)).
    """

    elem: str
    mantissa_bits: int
    bias: int
    magic: float
    least_normal: float
    log2_high: float
    log2_low: float
    sqrt_half_bits: int


FLOAT = Format(
    elem="float",
    mantissa_bits=23,
    bias=127,
    magic=12582912.0,
    least_normal=2.0**-126,
    log2_high=0.693145751953125,
    log2_low=1.4286068203094173e-06,
    sqrt_half_bits=0x3F3504F3,
)
DOUBLE = Format(
    elem="double",
    mantissa_bits=52,
    bias=1023,
    magic=6755399441055744.0,
    least_normal=2.0**-1022,
    log2_high=0.6931471805601177,
    log2_low=-1.7239444525614835e-13,
    sqrt_half_bits=0x3FE6A09E667F3BCD,
)


class Real:
    """Lanes of floating-point numbers with what elementary functions need.

    Attributes:
        v: The emitter.
        f: Lanes of the floating-point type.
        i: Lanes of the integer type of the same width.
        format: Its constants.
        short: Double arithmetic whose result will be rounded to float: shorter polynomials, no double denormals.
    """

    def __init__(self, v: VectorEmitter, number_format: Format, *, short: bool = False) -> None:
        self.v = v
        self.format = number_format
        self.short = short
        self.f: Lanes = v.of(number_format.elem)
        self.i: Lanes = v.of(INTEGER_OF[number_format.elem])

    def bits(self, x: str) -> str:
        """The bits of x as integers."""
        return self.v.bitcast(self.f.elem, self.i.elem, x)

    def number(self, bits: str) -> str:
        """The number with these bits."""
        return self.v.bitcast(self.i.elem, self.f.elem, bits)

    def coefficients(self, name: str) -> Sequence[float]:
        """The polynomial of a double-precision function at the precision wanted."""
        table: Sequence[float] = getattr(coefficients, f"{name}_{'S' if self.short else 'D'}")
        return table

    def clamp_above(self, x: str, limit: float) -> str:
        """min(x, limit), NaN kept."""
        return self.f.select(self.f.compare("ogt", x, limit), limit, x)

    def clamp_below(self, x: str, limit: float) -> str:
        """max(x, limit), NaN kept."""
        return self.f.select(self.f.compare("olt", x, limit), limit, x)

    def power_of_two(self, exponent: str) -> str:
        """2**exponent for integer lanes in the normal range."""
        biased = self.i.add(exponent, self.format.bias)
        return self.number(self.i.shift_left(biased, self.format.mantissa_bits))

    def scale(self, x: str, exponent: str) -> str:
        """X · 2**exponent where the factor alone may be out of range: two steps, so denormals round once."""
        half = self.i.shift_right(exponent, 1)
        rest = self.i.sub(exponent, half)
        return self.f.mul(self.f.mul(x, self.power_of_two(half)), self.power_of_two(rest))

    def to_float_exponent(self, exponent: str) -> str:
        """Small integer lanes as floating-point lanes."""
        if self.i.elem == "i32":
            return self.v.convert("i32", self.f.elem, exponent)
        return self.v.convert("i32", self.f.elem, self.v.convert("i64", "i32", exponent))


def through_double(function: Callable[[Real, str], str]) -> Callable[[VectorEmitter, str], str]:
    """A float function computed in double arithmetic with short polynomials."""

    def emit(v: VectorEmitter, x: str) -> str:
        wide = v.convert("float", "double", x)
        return v.convert("double", "float", function(Real(v, DOUBLE, short=True), wide))

    return emit


def in_double(function: Callable[[Real, str], str]) -> Callable[[VectorEmitter, str], str]:
    """A double function at full precision."""

    def emit(v: VectorEmitter, x: str) -> str:
        return function(Real(v, DOUBLE), x)

    return emit


def in_float(function: Callable[[Real, str], str]) -> Callable[[VectorEmitter, str], str]:
    """A float function in float arithmetic."""

    def emit(v: VectorEmitter, x: str) -> str:
        return function(Real(v, FLOAT), x)

    return emit


def call_lanes(v: VectorEmitter, elem: str, symbol: str, *arguments: str) -> str:
    """Call a C function of the process lane by lane.

    Args:
        v: The emitter.
        elem: `float` or `double`, the type of arguments and result.
        symbol: Name in the C library, for instance `sinf`.
        arguments: Lanes.

    Returns:
        The results in lanes.
    """
    function = v.function
    if v.lanes == 1:
        return function.call(elem, symbol, [(elem, argument) for argument in arguments])
    # Through memory: passing vectors in registers would tie caller and callee to one choice of register width.
    slots = [function.alloca(v.type(elem)) for _ in arguments]
    for slot, argument in zip(slots, arguments, strict=True):
        v.store(elem, argument, slot)
    name = _lane_function(function.module, elem, symbol, len(arguments), v.lanes)
    function.call("void", name, [("ptr", slot) for slot in slots])
    return v.load(elem, slots[0])


def _lane_function(module: ModuleText, elem: str, symbol: str, arity: int, lanes: int) -> str:
    """Define (once) the loop that replaces the first array by the function's results."""
    name = f"rlx.lanes.{symbol}.{lanes}"
    if module.is_defined(name):
        return name
    parameters = [("ptr", f"p{position}") for position in range(arity)]
    loop_function = Function(
        module, name, parameters, linkage="internal", attributes=module.attributes + " noinline cold"
    )
    with loop_function.loop(0, lanes) as loop:
        places = [loop_function.gep(elem, f"%p{position}", loop.index) for position in range(arity)]
        values = [(elem, loop_function.load(elem, place, BYTES[elem])) for place in places]
        result = loop_function.call(elem, symbol, values)
        loop_function.store(elem, result, places[0], BYTES[elem])
    loop_function.ret()
    return name
