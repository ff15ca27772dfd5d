"""Random numbers: pure functions of a key and of the place in the result, equal on every device and in every recomputation.

A key is a U32 tensor [2]. The words of entry k of a tensor are those of `threefry` at the counter k, its position in row-major order,
so they depend neither on the device, nor on threads, nor on what else is computed. Uniform numbers and masks are exact functions of
these words and equal bit for bit everywhere; normal numbers go through `log`, `sqrt` and `cos`, which devices round differently in
the last place.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, ZERO, Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.elementwise import elementwise, uniform
from rlxlang.ops.function import scalar_reference
from rlxlang.ops.lowering import Elementwise
from rlxlang.ops.rules import batch_elementwise, infer_elementwise, require_kinds
from rlxlang.ops.threefry import FOLDS, LANES, random_expr, random_words
from rlxlang.types import F32, F64, I32, U32, U64, DimLike, DType, Shape, ShapeContext, TensorType, TypeProblem, product

Array = np.ndarray[Any, Any]

_SECOND_STREAM = 0x80000000
"""Set in the high word of the counter where a tensor needs more than 64 bits for each entry; positions stay below it."""

_WORDS = 2**32

# --------------------------------------------------------------------------------------------- words


def _infer_bits(context: ShapeContext, *types: TensorType, word: int) -> TensorType:
    for t in types:
        if t.dtype != U32:
            raise TypeProblem("E0301", f"`random_bits` takes keys and counters of U32, and {t.dtype} is given")
    result: TensorType = infer_elementwise("random_bits", ("uint",))(context, *types)
    return result


def _samples_bits(rng: np.random.Generator) -> list[Sample]:
    def words(shape: tuple[int, ...]) -> tuple[Array, ...]:
        return tuple(rng.integers(0, _WORDS, shape, np.uint32) for _ in range(4))

    return [Sample(words(s), {"word": w}, smooth=False) for s, w in (((5,), 0), ((2, 3), 1), ((), 1))]


RANDOM_BITS = register(
    Op(
        "random_bits",
        "A random word of a key (two operands) and a counter (two operands): Threefry-2x32 (Salmon et al. 2011).",
        _infer_bits,
        lambda k, k2, low, high, *, word: np.asarray(random_words((k, k2), (low, high))[word]),
        ZERO,
        ZERO,
        batch_elementwise,
        Elementwise(random_expr),
        _samples_bits,
    )
)


def require_key(context: ShapeContext, op: str, key: TensorType) -> None:
    """Refuse what is no key.

    Raises:
        TypeProblem: E0301 not U32, E0404 no vector, E0401 not two numbers.
    """
    if key.dtype != U32:
        raise TypeProblem("E0301", f"the key of `{op}` is U32, and {key.dtype} is given")
    if key.rank != 1:
        raise TypeProblem("E0404", f"the key of `{op}` is a tensor [2], and {key} is given")
    context.same_shape(key.shape, (2,), f"the key of `{op}`")


def _key_word(b: Builder, key: Node, word: int, shape: Shape) -> Node:
    part = emit.reshape(b, emit.slice_axis(b, key, 0, word, word + 1), ())
    return emit.broadcast_to(b, part, shape)


def _counter(b: Builder, shape: Shape) -> tuple[Node, Node]:
    """Low and high words of the position of every entry in row-major order."""
    count = product(shape)
    if isinstance(count, int) and count <= _WORDS:
        low = emit.reshape(b, emit.iota(b, (count,), 0, U32), shape)
        return low, b.zeros_like(low)
    place = emit.reshape(b, emit.iota(b, (count,), 0, U64), shape)
    high = b.emit("shift_right", place, b.full_like(place, 32))
    return emit.cast(b, place, U32), emit.cast(b, high, U32)


def entry_words(b: Builder, key: Node, shape: Shape, second: bool = False) -> tuple[Node, Node]:
    """Two random words for every entry of a shape; two more with `second`."""
    low, high = _counter(b, shape)
    if second:
        high = b.emit("bit_or", high, b.full_like(high, _SECOND_STREAM))
    keys = _key_word(b, key, 0, shape), _key_word(b, key, 1, shape)
    return tuple(b.emit("random_bits", *keys, low, high, word=w) for w in (0, 1))  # type: ignore[return-value]


def np_entry_words(key: Array, shape: tuple[int, ...], second: bool = False) -> tuple[Array, Array]:
    """The same in NumPy."""
    place = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    low, high = (place & np.uint64(0xFFFFFFFF)).astype(np.uint32), (place >> np.uint64(32)).astype(np.uint32)
    if second:
        high = high | np.uint32(_SECOND_STREAM)
    return random_words((key[0], key[1]), (low, high))


def fold_in(b: Builder, key: Node, data: Node, domain: int = FOLDS) -> Node:
    """Keys that a key [2] and every U32 number of `data` make together: data's shape, then 2."""
    place = [_key_word(b, key, w, data.shape) for w in (0, 1)]
    words = [b.emit("random_bits", *place, data, b.full_like(data, domain), word=w) for w in (0, 1)]
    rank = len(data.shape)
    return emit.concat(b, [emit.reshape(b, w, (*w.shape, 1)) for w in words], rank)


def implicit_key(b: Builder) -> Node:
    """A key of its own for an op that is given none: of the run's seed, the number of the op, and the steps of the loops around it."""
    key = fold_in(b, b.seed(), b.full(b.draws, U32))
    b.draws += 1
    for step in b.steps:
        key = fold_in(b, key, step)
    return key


def lane_keys(b: Builder, key: Node, count: DimLike) -> Node:
    """A key for each lane of a batch, [count, 2]."""
    return fold_in(b, key, emit.iota(b, (count,), 0, U32), LANES)


# --------------------------------------------------------------------------------------------- uniform


def _digits(dtype: DType) -> int:
    """Binary digits of a uniform number, so that all of them are exact."""
    return {"F16": 11, "BF16": 8, "F32": 24, "F64": 53}[dtype.name]


def _infer_made(name: str) -> Callable[..., TensorType]:
    def infer(context: ShapeContext, key: TensorType, *, shape: Shape, dtype: DType, **_: Any) -> TensorType:
        require_key(context, name, key)
        require_kinds(name, dtype, ("float",))
        return TensorType(dtype, tuple(shape))

    return infer


def wide_word(b: Builder, words: tuple[Node, Node]) -> Node:
    """Two words as one of 64 bits."""
    high = emit.cast(b, words[1], U64)
    return b.emit("bit_or", b.emit("shift_left", high, b.full_like(high, 32)), emit.cast(b, words[0], U64))


def _np_wide_word(words: tuple[Array, Array]) -> Array:
    return (words[1].astype(np.uint64) << np.uint64(32)) | words[0].astype(np.uint64)


def unit_numbers(b: Builder, words: tuple[Node, Node], dtype: DType) -> Node:
    """Numbers 0 ≤ u < 1 of random words: their leading digits, exactly."""
    bits, width = (wide_word(b, words), 64) if dtype == F64 else (words[0], 32)
    digits = _digits(dtype)
    leading = b.emit("shift_right", bits, b.full_like(bits, width - digits))
    wide = emit.cast(b, leading, F64 if dtype == F64 else F32)
    return emit.cast(b, emit.scale(b, wide, 2.0**-digits), dtype)


def _rng_uniform(b: Builder, key: Node, *, shape: Shape, dtype: DType) -> Node:
    return unit_numbers(b, entry_words(b, key, tuple(shape)), dtype)


def np_unit_numbers(words: tuple[Array, Array], dtype: DType) -> Array:
    """The same in NumPy."""
    bits, width = (_np_wide_word(words), 64) if dtype == F64 else (words[0], 32)
    digits = _digits(dtype)
    leading = bits >> bits.dtype.type(width - digits)
    return np.asarray(leading.astype(np.float64) * 2.0**-digits).astype(dtype.numpy)


def _np_uniform(key: Array, *, shape: tuple[int, ...], dtype: DType) -> Array:
    return np_unit_numbers(np_entry_words(key, shape), dtype)


def _keys(rng: np.random.Generator) -> Array:
    return rng.integers(0, _WORDS, 2, np.uint32)


def _samples_made(*dtypes: DType, **options: Any) -> Callable[[np.random.Generator], list[Sample]]:
    def samples(rng: np.random.Generator) -> list[Sample]:
        shapes: tuple[tuple[int, ...], ...] = ((3, 5), (), (7,), (2, 1))
        return [
            Sample((_keys(rng),), {"shape": s, "dtype": dtypes[k % len(dtypes)], **options}, smooth=False)
            for k, s in enumerate(shapes)
        ]

    return samples


def _made(name: str, doc: str, reference: Any, decompose: Any, samples: Any) -> Op:
    """A row of random numbers from a key: attributes shape and dtype, no derivative."""
    return register(
        Op(
            name,
            doc,
            _infer_made(name),
            reference,
            ZERO,
            ZERO,
            VIA_DECOMPOSITION,
            VIA_DECOMPOSITION,
            samples,
            decompose=decompose,
        )
    )


RNG_UNIFORM = _made(
    "rng_uniform", "Uniform numbers 0 ≤ u < 1 of a key, multiples of 2⁻²⁴ for F32.", _np_uniform, _rng_uniform,
    _samples_made(F32, F64),
)  # fmt: skip

# --------------------------------------------------------------------------------------------- normal


def _rng_normal(b: Builder, key: Node, *, shape: Shape, dtype: DType) -> Node:
    """sqrt(-2 ln u) · cos(π v) with u in (0, 1] and v in [-1, 1)."""
    wide = F64 if dtype == F64 else F32
    first = entry_words(b, key, tuple(shape))
    if dtype == F64:
        # The leading 53 bits, so that the conversion is exact; one more half keeps 0 out.
        radius, turn, width = wide_word(b, first), wide_word(b, entry_words(b, key, tuple(shape), second=True)), 53
        radius, turn = (b.emit("shift_right", w, b.full_like(w, 11)) for w in (radius, turn))
        angle = emit.scale(b, emit.shift(b, emit.cast(b, turn, wide), -(2.0**52)), math.pi * 2.0**-52)
    else:
        (radius, turn), width = first, 32
        angle = emit.scale(b, emit.cast(b, emit.cast(b, turn, I32), wide), math.pi * 2.0**-31)
    u = emit.scale(b, emit.shift(b, emit.cast(b, radius, wide), 0.5), 2.0**-width)
    length = b.emit("sqrt", emit.scale(b, b.emit("log", u), -2.0))
    return emit.cast(b, emit.mul(b, length, b.emit("cos", angle)), dtype)


def _np_normal(key: Array, *, shape: tuple[int, ...], dtype: DType) -> Array:
    first = np_entry_words(key, shape)
    angle: Array
    u: Array
    if dtype == F64:
        second = np_entry_words(key, shape, second=True)
        radius, turn, width = _np_wide_word(first) >> np.uint64(11), _np_wide_word(second) >> np.uint64(11), 53
        angle = (turn.astype(np.float64) - 2.0**52) * (math.pi * 2.0**-52)
        u = (radius.astype(np.float64) + 0.5) * 2.0**-width
    else:
        single = np.float32
        angle = first[1].astype(np.int32).astype(single) * single(math.pi * 2.0**-31)
        u = (first[0].astype(single) + single(0.5)) * single(2.0**-32)
    return np.asarray(np.sqrt(-2 * np.log(u)) * np.cos(angle)).astype(dtype.numpy)


RNG_NORMAL = _made(
    "rng_normal",
    "Normal numbers of mean 0 and standard deviation 1 of a key (Box and Muller 1958).",
    _np_normal,
    _rng_normal,
    _samples_made(F64),
)

# --------------------------------------------------------------------------------------------- inverse error function

# Giles 2012, "Approximating the erfinv function": of w = -ln(1 - x²), highest power first, in w - 2.5 and in √w - 3.
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def _horner(b: Builder, x: Node, coefficients: Sequence[float]) -> Node:
    total = b.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = emit.shift(b, emit.mul(b, total, x), coefficient)
    return total


def _erfinv(b: Builder, x: Node) -> Node:
    wide = emit.widen(b, x)
    product_of_sides = emit.mul(b, emit.one_minus(b, wide), emit.shift(b, wide, 1))
    w = emit.neg(b, b.emit("log", product_of_sides))
    central = _horner(b, emit.shift(b, w, -2.5), _CENTRAL)
    tail = _horner(b, emit.shift(b, b.emit("sqrt", b.emit("maximum", w, b.full_like(w, 5.0))), -3.0), _TAIL)
    y = emit.mul(b, wide, emit.select(b, emit.compare(b, "lt", w, 5.0), central, tail))
    if wide.dtype == F64:
        for _ in range(2):  # Halley's method: each step has three times the digits
            slope = emit.scale(b, b.emit("exp", emit.neg(b, emit.square(b, y))), 2 / math.sqrt(math.pi))
            gap = emit.div(b, _erf_less(b, y, wide), slope)
            y = emit.sub(b, y, emit.div(b, gap, emit.shift(b, emit.mul(b, y, gap), 1)))
    at_end = emit.compare(b, "eq", b.emit("abs", wide), 1)
    return emit.cast(b, emit.select(b, at_end, emit.scale(b, wide, float("inf")), y), x.dtype)


def _erf_less(b: Builder, y: Node, x: Node) -> Node:
    """erf(y) - x, for large values from what is missing to 1, which has its digits."""
    size = b.emit("abs", x)
    rest = emit.sub(b, emit.one_minus(b, size), b.emit("erfc", b.emit("abs", y)))
    near = emit.sub(b, b.emit("erf", y), x)
    return emit.select(b, emit.compare(b, "lt", size, 0.5), near, emit.mul(b, rest, b.emit("sign", x)))


def _d_erfinv(b: Builder, operands: tuple[Node, ...], result: Node) -> Node:
    return emit.scale(b, b.emit("exp", emit.square(b, result)), math.sqrt(math.pi) / 2)


def _scalar_erfinv(x: float) -> float:
    if abs(x) >= 1 or x != x:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-8:  # the quantile at 1/2 has absolute digits only
        return x * math.sqrt(math.pi) / 2
    return math.copysign(statistics.NormalDist().inv_cdf((1 - abs(x)) / 2) * math.sqrt(0.5), x)


ERFINV = elementwise(
    "erfinv",
    "The number whose error function is x (Giles 2012).",
    scalar_reference(_scalar_erfinv),
    uniform((-0.95, 0.95)),
    (_d_erfinv,),
    guarded=True,
    decompose=_erfinv,
)


def _inside(dtype: DType) -> float:
    """The largest number of a dtype below 1, whose quantile is finite."""
    return 1 - 2.0 ** -_digits(dtype)


def _rng_truncated(b: Builder, key: Node, *, shape: Shape, dtype: DType, low: float, high: float) -> Node:
    """The quantile of a uniform number between the probabilities of the bounds."""
    wide = F64 if dtype == F64 else F32
    first, last = (math.erf(v * math.sqrt(0.5)) for v in (low, high))
    u = b.emit("rng_uniform", key, shape=tuple(shape), dtype=wide)
    place = emit.shift(b, emit.scale(b, u, last - first), first)
    place = b.emit(
        "minimum", b.emit("maximum", place, b.full_like(place, -_inside(wide))), b.full_like(place, _inside(wide))
    )
    z = emit.scale(b, b.emit("erfinv", place), math.sqrt(2))
    bounded = b.emit("minimum", b.emit("maximum", z, b.full_like(z, low)), b.full_like(z, high))
    return emit.cast(b, bounded, dtype)


def _np_truncated(key: Array, *, shape: tuple[int, ...], dtype: DType, low: float, high: float) -> Array:
    wide = F64 if dtype == F64 else F32
    first, last = (math.erf(v * math.sqrt(0.5)) for v in (low, high))
    u = _np_uniform(key, shape=shape, dtype=wide).astype(np.float64)
    place = np.clip(u * (last - first) + first, -_inside(wide), _inside(wide))
    z = math.sqrt(2) * ERFINV.reference(place)
    return np.asarray(np.clip(z, low, high)).astype(dtype.numpy)


RNG_TRUNCATED = _made(
    "rng_truncated_normal",
    "Standard normal numbers of a key between low and high, by their quantiles.",
    _np_truncated,
    _rng_truncated,
    _samples_made(F64, low=-2.0, high=1.5),
)

# --------------------------------------------------------------------------------------------- dropout


def _infer_dropout(context: ShapeContext, x: TensorType, key: TensorType, *, p: float) -> TensorType:
    require_kinds("dropout", x.dtype, ("float",))
    require_key(context, "dropout", key)
    if not 0 <= p <= 1:
        raise TypeProblem("E0350", f"the probability of `dropout` is 0 … 1, and {p} is given")
    return x


def _threshold(p: float) -> int:
    """Words below this are dropped."""
    return min(round(p * _WORDS), _WORDS - 1)


def _dropout(b: Builder, x: Node, key: Node, *, p: float) -> Node:
    if p == 0:
        return x
    if p == 1:
        return b.zeros_like(x)
    kept = emit.compare(b, "ge", entry_words(b, key, x.shape)[0], _threshold(p))
    return emit.keep(b, kept, emit.scale(b, x, 1 / (1 - p)))


def _np_dropout(x: Array, key: Array, *, p: float) -> Array:
    if p == 0:
        return x
    if p == 1:
        return np.zeros_like(x)
    kept = np_entry_words(key, x.shape)[0] >= np.uint32(_threshold(p))
    scaled = x * np.asarray(1 / (1 - p)).astype(x.dtype)
    return np.where(kept, scaled, np.zeros((), x.dtype)).astype(x.dtype)


def _again(b: Builder, node: Node, primals: Sequence[Node], change: Node) -> Node:
    """The same entries dropped of a tangent or cotangent: the op is linear and its mask is recomputed, not kept."""
    return b.emit("dropout", change, primals[1], **node.attrs)


DROPOUT = register(
    Op(
        "dropout",
        "x with entries set to 0 with probability p, the others divided by 1 - p (Srivastava et al. 2014).",
        _infer_dropout,
        _np_dropout,
        lambda b, node, primals, tangents: None if tangents[0] is None else _again(b, node, primals, tangents[0]),
        lambda b, node, primals, ct: (_again(b, node, primals, ct), None),
        VIA_DECOMPOSITION,
        VIA_DECOMPOSITION,
        lambda rng: [
            Sample((rng.normal(size=(3, 4)), _keys(rng)), {"p": 0.4}),
            Sample((rng.normal(size=(5,)), _keys(rng)), {"p": 0.0}),
            Sample((rng.normal(size=(5,)), _keys(rng)), {"p": 1.0}),
            Sample((rng.normal(size=()), _keys(rng)), {"p": 0.1}),
        ],
        decompose=_dropout,
    )
)
