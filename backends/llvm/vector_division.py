"""Division and remainder in lanes: integers that never trap, floats bit for bit as NumPy, integer powers.

Integer quotients of up to 32 bits are computed in double lanes: with |a|, |b| < 2**32 the rounded quotient never
crosses an integer (a gap of at least 1/|b| against an error of 2**-53 |a/b|), so its integer part is exact.
"""

from __future__ import annotations

from rlxlang.backends.llvm.vector import BITS, VectorEmitter, is_float


def _truncated(v: VectorEmitter, elem: str, a: str, b: str, signed: bool) -> tuple[str, str]:
    """Quotient towards zero and remainder for a safe divisor: (quotient, remainder)."""
    if BITS[elem] <= 32:
        wide_a = v.convert(elem, "double", a, signed=signed)
        wide_b = v.convert(elem, "double", b, signed=signed)
        ratio = v.trunc("double", v.div("double", wide_a, wide_b))
        quotient = v.convert("double", elem, ratio, to_signed=signed)
    else:
        quotient = v.binary("sdiv" if signed else "udiv", elem, a, b)
    return quotient, v.sub(elem, a, v.mul(elem, quotient, b))


def _safe_divisor(v: VectorEmitter, elem: str, a: str, b: str, signed: bool) -> tuple[str, str]:
    """Mask of zero divisors, and the divisor with 1 in place of 0 and of the -1 that would overflow."""
    zero = v.compare("eq", elem, b, 0)
    unsafe = zero
    if signed:
        least = v.compare("eq", elem, a, -1 << (BITS[elem] - 1))
        unsafe = v.or_("i1", unsafe, v.and_("i1", least, v.compare("eq", elem, b, -1)))
    return zero, v.select(elem, unsafe, 1, b)


def floor_divide(v: VectorEmitter, elem: str, a: str, b: str, *, signed: bool = True) -> str:
    """Floor of the quotient.

    Integers: 0 for a zero divisor, MIN for MIN / -1. Floats: `np.floor_divide`.

    Args:
        v: The emitter.
        elem: Element type.
        a: Dividend.
        b: Divisor.
        signed: Whether integers are signed.

    Returns:
        The quotient.
    """
    if is_float(elem):
        return _float_divmod(v, elem, a, b)[0]
    zero, safe = _safe_divisor(v, elem, a, b, signed)
    quotient, remainder = _truncated(v, elem, a, safe, signed)
    if signed:
        opposite = v.compare("slt", elem, v.xor(elem, remainder, safe), 0)
        below = v.and_("i1", opposite, v.compare("ne", elem, remainder, 0))
        quotient = v.add(elem, quotient, v.select(elem, below, -1, 0))
    return v.select(elem, zero, 0, quotient)


def modulo(v: VectorEmitter, elem: str, a: str, b: str, *, signed: bool = True) -> str:
    """Remainder with the sign of the divisor (integers: 0 for a zero divisor; floats: `np.remainder`)."""
    if is_float(elem):
        return _float_divmod(v, elem, a, b)[1]
    _, safe = _safe_divisor(v, elem, a, b, signed)
    _, remainder = _truncated(v, elem, a, safe, signed)
    zero = v.compare("eq", elem, b, 0)
    if signed:
        opposite = v.compare("slt", elem, v.xor(elem, remainder, safe), 0)
        below = v.and_("i1", opposite, v.compare("ne", elem, remainder, 0))
        remainder = v.select(elem, below, v.add(elem, remainder, safe), remainder)
    return v.select(elem, zero, 0, remainder)


def remainder(v: VectorEmitter, elem: str, a: str, b: str, *, signed: bool = True) -> str:
    """Remainder with the sign of the dividend (integers: 0 for a zero divisor; floats: `np.fmod`)."""
    if is_float(elem):
        return float_fmod(v, elem, a, b)
    zero, safe = _safe_divisor(v, elem, a, b, signed)
    return v.select(elem, zero, 0, _truncated(v, elem, a, safe, signed)[1])


def float_fmod(v: VectorEmitter, elem: str, a: str, b: str) -> str:
    """C's fmod, exactly.

    Float operands with a quotient below 2**22 are divided in double lanes, where quotient and product are exact;
    every other lane goes through the C library.
    """
    if elem == "double":
        return v.binary("frem", elem, a, b)
    wide_a, wide_b = v.convert("float", "double", a), v.convert("float", "double", b)
    ratio = v.div("double", wide_a, wide_b)
    whole = v.trunc("double", ratio)
    rest = v.sub("double", wide_a, v.mul("double", whole, wide_b, contract=False), contract=False)
    # The sign of a zero remainder is that of the dividend.
    fast = v.copysign("float", v.convert("double", "float", rest), a)
    small = v.compare("olt", "double", v.abs("double", ratio), 4194304.0)
    finite = v.compare("olt", "float", v.abs("float", b), float("inf"))
    slow_lanes = v.not_("i1", v.and_("i1", small, finite))
    with v.function.if_(v.any_lane(slow_lanes), [(v.type(elem), fast)], cold=True) as branch:
        branch.merge(v.select(elem, slow_lanes, v.binary("frem", elem, a, b), fast))
    return branch.results[0]


def _float_divmod(v: VectorEmitter, elem: str, a: str, b: str) -> tuple[str, str]:
    """NumPy's floor_divide and remainder of floats."""
    f = v.of(elem)
    rest = float_fmod(v, elem, a, b)
    quotient = f.div(f.sub(a, rest), b)
    some = f.compare("une", rest, 0.0)
    signs_differ = v.xor("i1", f.compare("olt", b, 0.0), f.compare("olt", rest, 0.0))
    adjust = v.and_("i1", some, signs_differ)
    modulus = f.select(adjust, f.add(rest, b), rest)
    quotient = f.select(adjust, f.sub(quotient, 1.0), quotient)
    modulus = f.select(some, modulus, f.copysign(0.0, b))
    ratio = f.div(a, b)
    floored = v.floor(elem, quotient)
    high = f.compare("ogt", f.sub(quotient, floored), 0.5)
    floored = f.select(high, f.add(floored, 1.0), floored)
    floored = f.select(f.compare("une", quotient, 0.0), floored, f.copysign(0.0, ratio))
    zero_divisor = f.compare("oeq", b, 0.0)
    return f.select(zero_divisor, ratio, floored), f.select(zero_divisor, rest, modulus)


def integer_power(v: VectorEmitter, elem: str, base: str, exponent: str, *, signed: bool = True) -> str:
    """Base ** exponent, wrapping; a negative exponent gives the truncated value (±1 for base ±1, else 0)."""
    function, kind = v.function, v.type(elem)
    magnitude = v.maximum(elem, exponent, 0) if signed else exponent
    largest = v.reduce_max(elem, magnitude, signed=False)
    leading = function.call(elem, f"llvm.ctlz.{elem}", [(elem, largest), ("i1", False)])
    used = function.sub(BITS[elem], leading, elem)
    steps = used if elem == "i64" else function.zext(used, elem, "i64")
    carried = [(kind, v.constant(elem, 1)), (kind, base), (kind, magnitude)]
    with function.loop(0, steps, carried=carried) as loop:
        result, square, rest = loop.carried
        odd = v.compare("ne", elem, v.and_(elem, rest, 1), 0)
        result = v.select(elem, odd, v.mul(elem, result, square), result)
        loop.next(result, v.mul(elem, square, square), v.shift_right(elem, rest, 1, signed=False))
    power = loop.results[0]
    if not signed:
        return power
    parity = v.compare("ne", elem, v.and_(elem, exponent, 1), 0)
    alternating = v.select(elem, parity, -1, 1)
    inverse = v.select(elem, v.compare("eq", elem, base, -1), alternating, 0)
    inverse = v.select(elem, v.compare("eq", elem, base, 1), 1, inverse)
    return v.select(elem, v.compare("slt", elem, exponent, 0), inverse, power)
