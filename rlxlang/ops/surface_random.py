"""What users call of random numbers.

A `key` is a U32 tensor [2] or an integer; without one the op draws from the run's seed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, dtype_argument, static_dim, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node, number_node, operands, require_value, tensor_argument
from rlxlang.ops.random import entry_words, implicit_key, require_key, unit_numbers, wide_word
from rlxlang.ops.random import fold_in as keys_of
from rlxlang.ops.rules import require_guards
from rlxlang.ops.surface_shape import dims_argument
from rlxlang.ops.threefry import key_of_seed
from rlxlang.types import BOOL, F32, F64, U32, DType, Shape, ShapeContext, TypeProblem

_DIMS = Parameter("dims", "dims")
_KEY = tensor("key", None)
_DTYPE = Parameter("dtype", "dtype", None)


def _key(b: Builder, op: str, key: Any) -> Node:
    """The key given, that of an integer, or one of the run's seed."""
    if key is None:
        return implicit_key(b)
    if isinstance(key, int) and not isinstance(key, bool):
        return b.constant(np.array(key_of_seed(key), np.uint32))
    node = tensor_argument(op, key, "key")
    context = ShapeContext()
    require_key(context, op, node.tensor)
    require_guards(b, context)
    return node


def _form(op: str, dims: Any, dtype: Any) -> tuple[Shape, DType]:
    """Shape and dtype of the result: dims, or those of a tensor."""
    if isinstance(dims, Node):
        own = dims.dtype if dims.dtype.is_float else F32
        shape = dims.shape
    else:
        own, shape = F32, tuple(static_dim(op, d, "dims") for d in dims_argument(op, dims))
    target = own if dtype is None else dtype_argument(op, dtype)
    if not target.is_float:
        raise TypeProblem("E0301", f"`{op}` makes floats, and {target} is asked for")
    return shape, target


def _between(b: Builder, u: Node, low: float, high: float) -> Node:
    """`low + u·(high - low)` below `high`, the same on every device.

    A product that is added at once may be rounded once or twice, by device; the maximum between the two, which changes nothing, keeps
    them apart.
    """
    if (low, high) == (0, 1):
        return u
    apart = b.emit("maximum", emit.scale(b, u, high - low), b.zeros_like(u))
    return b.emit("minimum", emit.shift(b, apart, low), b.full_like(u, _below(high, u.dtype)))


def _below(high: float, dtype: DType) -> float:
    """The largest number of a dtype below another."""
    bound = np.asarray(high).astype(dtype.numpy)
    return float(np.nextafter(bound, np.asarray(-math.inf).astype(dtype.numpy)))


def _rng_uniform(b: Builder, dims: Any, low: Value, high: Value, dtype: Any, key: Any) -> Node:
    shape, target = _form("rng_uniform", dims, dtype)
    u = b.emit("rng_uniform", _key(b, "rng_uniform", key), shape=shape, dtype=target)
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        first, last = static_number("rng_uniform", low, "low"), static_number("rng_uniform", high, "high")
        if not first < last or not math.isfinite(last - first):
            raise TypeProblem("E0350", f"`rng_uniform` takes finite bounds, low < high, and {low} and {high} are given")
        for bound in (first, last, last - first):
            number_node(b, bound, target)  # refuses what the dtype cannot hold
        return _between(b, u, first, last)
    u, least, most = operands(b, "rng_uniform", (u, low, high), target)
    return emit.add(b, least, emit.mul(b, u, emit.sub(b, most, least)))


def _moved(b: Builder, op: str, z: Node, mean: Value, std: Value) -> Node:
    """`mean + std·z`."""
    if isinstance(std, (int, float)) and not (0 <= static_number(op, std, "std") < math.inf):
        raise TypeProblem("E0350", f"the standard deviation of `{op}` is not negative, and {std} is given")
    if std != 1 or isinstance(std, Node):
        z, scale = operands(b, op, (z, std), z.dtype)
        z = emit.mul(b, z, scale)
    if mean != 0 or isinstance(mean, Node):
        z, center = operands(b, op, (z, mean), z.dtype)
        z = emit.add(b, z, center)
    return z


def _rng_normal(b: Builder, dims: Any, mean: Value, std: Value, dtype: Any, key: Any) -> Node:
    shape, target = _form("rng_normal", dims, dtype)
    z = b.emit("rng_normal", _key(b, "rng_normal", key), shape=shape, dtype=target)
    return _moved(b, "rng_normal", z, mean, std)


def _truncated_normal(
    b: Builder, dims: Any, mean: Value, std: Value, low: Any, high: Any, dtype: Any, key: Any
) -> Node:
    op = "truncated_normal"
    shape, target = _form(op, dims, dtype)
    first, last = float(static_number(op, low, "low")), float(static_number(op, high, "high"))
    if not first < last:
        raise TypeProblem("E0350", f"`{op}` takes low < high, and {low} and {high} are given")
    node = b.emit("rng_truncated_normal", _key(b, op, key), shape=shape, dtype=target, low=first, high=last)
    return _moved(b, op, node, mean, std)


def _bernoulli(b: Builder, p: Value, dims: Any, key: Any) -> Node:
    require_value("bernoulli", p, "p")
    if isinstance(p, (int, float)) and not 0 <= static_number("bernoulli", p, "p") <= 1:
        raise TypeProblem("E0350", f"the probability of `bernoulli` is 0 … 1, and {p} is given")
    chance = as_float(b, "bernoulli", p)
    if dims is not None:
        chance = emit.broadcast_to(b, chance, _form("bernoulli", dims, None)[0])
    wide = chance if chance.dtype == F64 else emit.cast(b, chance, F32)
    words = entry_words(b, _key(b, "bernoulli", key), wide.shape)
    return emit.compare(b, "lt", unit_numbers(b, words, wide.dtype), wide)


def _categorical(b: Builder, logits: Value, axis: Any, key: Any) -> Node:
    """The largest of logits + Gumbel numbers (Gumbel 1954); numbers are of 23 digits and a half, so neither 0 nor 1."""
    node = emit.widen(b, as_float(b, "categorical", logits))
    over = canonical_axis("categorical", axis, len(node.shape))
    word = entry_words(b, _key(b, "categorical", key), node.shape)[0]
    digits = emit.cast(b, b.emit("shift_right", word, b.full_like(word, 9)), node.dtype)
    u = emit.scale(b, emit.shift(b, digits, 0.5), 2.0**-23)
    waiting = emit.neg(b, b.emit("log", u))
    return b.emit("argmax", emit.sub(b, node, b.emit("log", waiting)), axis=over)


def _dropout(b: Builder, x: Value, p: Any, key: Any) -> Node:
    node = as_float(b, "dropout", x)
    chance = static_number("dropout", p, "p")
    if not 0 <= chance <= 1:
        raise TypeProblem("E0350", f"the probability of `dropout` is 0 … 1, and {p} is given")
    if chance == 0:
        return node
    return b.emit("dropout", node, _key(b, "dropout", key), p=float(chance))


def _permutation(b: Builder, x: Any, axis: Any = 0, key: Any = None) -> Node:
    """The order of one random number of 64 bits for each place; of equal ones, which hardly occur, the first comes first."""
    op = "permutation"
    if isinstance(x, Node):
        along = canonical_axis(op, axis, len(x.shape))
        size = x.shape[along]
    else:
        along, size = canonical_axis(op, axis, 1), static_dim(op, x, "x")
    numbers = wide_word(b, entry_words(b, _key(b, op, key), (size,)))
    order = b.emit("item", b.emit("sort", numbers, count=size, descending=False), index=1)
    return emit.take(b, x, order, along) if isinstance(x, Node) else order


def _random_bits(b: Builder, dims: Any, key: Any) -> Node:
    shape = dims.shape if isinstance(dims, Node) else _form("random_bits", dims, None)[0]
    return entry_words(b, _key(b, "random_bits", key), shape)[0]


def _fold_in(b: Builder, key: Any, data: Value) -> Node:
    require_value("fold_in", data, "data")
    node = as_node(b, data)
    if not node.dtype.is_integer and node.dtype != BOOL:
        raise TypeProblem("E0301", f"`fold_in` takes integers, and {node.dtype} is given")
    return keys_of(b, _key(b, "fold_in", key), emit.cast(b, node, U32))


surface(
    "rng_uniform",
    (_DIMS, Parameter("low", "tensor", 0), Parameter("high", "tensor", 1), _DTYPE, _KEY),
    _rng_uniform,
    "Uniform numbers, low ≤ u < high, of a shape or of the shape of a tensor; the same on every device.",
    method=False,
    example="rng_uniform([3, 4], key: k)",
)
surface(
    "rng_normal",
    (_DIMS, Parameter("mean", "tensor", 0), Parameter("std", "tensor", 1), _DTYPE, _KEY),
    _rng_normal,
    "Normal numbers of a shape or of the shape of a tensor (Box and Muller 1958).",
    method=False,
    example="rng_normal([3, 4], key: k)",
)
surface(
    "truncated_normal",
    (
        _DIMS, Parameter("mean", "tensor", 0), Parameter("std", "tensor", 1), Parameter("low", "float", -2),
        Parameter("high", "float", 2), _DTYPE, _KEY,
    ),
    _truncated_normal,
    "Normal numbers that lie between low and high standard deviations from the mean.",
    method=False,
    example="truncated_normal([3, 4], std: 0.02, key: k)",
)  # fmt: skip
surface(
    "bernoulli",
    (tensor("p"), Parameter("dims", "dims", None), _KEY),
    _bernoulli,
    "true with probability p, at every entry of p, or of dims where p is one number.",
    example="bernoulli(p, key: k)",
)
surface(
    "categorical",
    (tensor("logits"), Parameter("axis", "axis", -1), _KEY),
    _categorical,
    "Random indices along an axis with the probabilities softmax(logits).",
    example="categorical(logits, key: k)",
)
surface(
    "dropout",
    (tensor("x"), Parameter("p", "float", 0.5), _KEY),
    _dropout,
    "x with entries set to 0 with probability p, the others divided by 1 - p; x itself for p = 0.",
    example="dropout(x, 0.1, key: k)",
)
surface(
    "permutation",
    (Parameter("x", "any"), Parameter("axis", "axis", 0), _KEY),
    _permutation,
    "The numbers 0 … n-1 in random order, or the entries of a tensor along an axis; the same on every device.",
    example="permutation(10, key: k)",
)
surface(
    "random_bits",
    (_DIMS, _KEY),
    _random_bits,
    "Random U32 words of a shape or of the shape of a tensor: Threefry-2x32 (Salmon et al. 2011).",
    method=False,
    example="random_bits([8], key: k)",
)
surface(
    "fold_in",
    (tensor("key"), tensor("data")),
    _fold_in,
    "Keys that a key makes with whole numbers: of data's shape and then 2; `fold_in(key, arange(n))` is n keys.",
    example="fold_in(k, step)",
)
surface(
    "erfinv",
    (tensor("x"),),
    lambda b, x: b.emit("erfinv", as_float(b, "erfinv", x)),
    "The number whose error function is x.",
)
