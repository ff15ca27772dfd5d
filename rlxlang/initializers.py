"""How parameters start: a reproducible stream of random numbers, and the initialisers of the module `init`.

Every number comes from SplitMix64 and Box–Muller in float64, so the same seed gives the same parameters on every machine.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxNameError, RlxTypeError, RlxValueError, did_you_mean
from rlxlang.ir import GraphInput, Initializer
from rlxlang.types import DType

Array: TypeAlias = "np.ndarray[Any, Any]"
Number: TypeAlias = "float | int | bool | str"

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_SMALLEST_UNIFORM = 1e-12
_TRUNCATED_STDDEV = 0.87962566103423978  # of a unit normal cut off at ±2


def _whole(seed: object) -> int:
    """A seed as a Python integer of any size; NumPy's integers are taken, too."""
    try:
        return operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise RlxTypeError(f"a seed is an integer, {seed!r} is given") from None


class Stream:
    """The SplitMix64 stream of a seed.

    Args:
        seed: Any integer; its low 64 bits count.

    Raises:
        RlxTypeError: `seed` is no integer.

    Source:
        Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    """

    def __init__(self, seed: int) -> None:
        self._state = (_whole(seed) ^ _GOLDEN) & _MASK

    @classmethod
    def named(cls, seed: int, name: str) -> Stream:
        """The stream that belongs to a seed and a run-time name; independent for different names."""
        return cls(_whole(seed) ^ int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))

    def uniform(self, count: int) -> Array:
        """The next `count` numbers in [0, 1), float64 with 53 bits."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
        z = steps + np.uint64(self._state)
        self._state = (self._state + count * _GOLDEN) & _MASK
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        result: Array = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return result

    def normal(self, count: int) -> Array:
        """The next `count` standard normal numbers, float64, two uniforms each.

        Source:
            Box and Muller 1958, "A note on the generation of random normal deviates" (the cosine branch).
        """
        pairs = self.uniform(2 * count).reshape(count, 2)
        radius = np.sqrt(-2.0 * np.log(np.maximum(pairs[:, 0], _SMALLEST_UNIFORM)))
        result: Array = radius * np.cos(2.0 * math.pi * pairs[:, 1])
        return result


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Number of inputs and outputs of one unit: `[in, out]` for matrices, `[out, in, …window]` for kernels of convolutions."""
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


# --------------------------------------------------------------------------------------------- the table

Draw: TypeAlias = Callable[..., Array]


def _zeros(stream: Stream, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape)


def _ones(stream: Stream, shape: tuple[int, ...]) -> Array:
    return np.ones(shape)


def _constant(stream: Stream, shape: tuple[int, ...], value: float = 0.0) -> Array:
    return np.full(shape, value)


def _uniform(stream: Stream, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> Array:
    return low + (high - low) * stream.uniform(math.prod(shape)).reshape(shape)


def _normal(stream: Stream, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0) -> Array:
    return mean + std * stream.normal(math.prod(shape)).reshape(shape)


def _trunc_normal(
    stream: Stream, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0
) -> Array:
    """Normal numbers between `low` and `high` standard deviations, by rejection."""
    if not low < high:
        raise RlxValueError(f"`trunc_normal`: low is {low} and high is {high}")
    count = math.prod(shape)
    kept = np.empty(0)
    for _ in range(1000):
        if kept.size >= count:
            return mean + std * kept[:count].reshape(shape)
        drawn = stream.normal(max(64, 2 * (count - kept.size)))
        kept = np.concatenate([kept, drawn[(drawn >= low) & (drawn <= high)]])
    raise RlxValueError(f"`trunc_normal`: almost no normal numbers lie between {low} and {high}")


def _scaled_normal(fan: Callable[[int, int], float], truncated: bool = False) -> Draw:
    def draw(stream: Stream, shape: tuple[int, ...], gain: float = 1.0) -> Array:
        std = gain / math.sqrt(max(1.0, fan(*fans(shape))))
        if truncated:
            return _trunc_normal(stream, shape, 0.0, std / _TRUNCATED_STDDEV)
        return _normal(stream, shape, 0.0, std)

    return draw


def _scaled_uniform(fan: Callable[[int, int], float]) -> Draw:
    def draw(stream: Stream, shape: tuple[int, ...], gain: float = 1.0) -> Array:
        bound = gain * math.sqrt(3.0 / max(1.0, fan(*fans(shape))))
        return _uniform(stream, shape, -bound, bound)

    return draw


def _orthogonal(stream: Stream, shape: tuple[int, ...], gain: float = 1.0) -> Array:
    """Orthonormal rows or columns, whichever are fewer, of the tensor seen as a matrix of its first axis.

    Source:
        Saxe, McClelland and Ganguli 2014, "Exact solutions to the nonlinear dynamics of learning in deep linear networks".
    """
    if len(shape) < 2:
        raise RlxValueError(f"`orthogonal` needs two axes or more, the shape is {list(shape)}")
    rows, columns = shape[0], math.prod(shape[1:])
    tall = stream.normal(rows * columns).reshape(max(rows, columns), min(rows, columns))
    q, r = np.linalg.qr(tall)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return gain * (q if rows >= columns else q.T).reshape(shape)


def _eye(stream: Stream, shape: tuple[int, ...], gain: float = 1.0) -> Array:
    if len(shape) != 2:
        raise RlxValueError(f"`eye` needs two axes, the shape is {list(shape)}")
    return gain * np.eye(*shape)


_HE = _scaled_normal(lambda fan_in, _: fan_in / 2)
_HE_UNIFORM = _scaled_uniform(lambda fan_in, _: fan_in / 2)
_GLOROT = _scaled_normal(lambda fan_in, fan_out: (fan_in + fan_out) / 2)
_GLOROT_UNIFORM = _scaled_uniform(lambda fan_in, fan_out: (fan_in + fan_out) / 2)

# Name -> names of its arguments, in order, and the function. He: He et al. 2015; Glorot (Xavier): Glorot and Bengio 2010;
# LeCun: LeCun et al. 1998.
INITIALIZERS: dict[str, tuple[tuple[str, ...], Draw]] = {
    "zeros": ((), _zeros),
    "ones": ((), _ones),
    "constant": (("value",), _constant),
    "full": (("value",), _constant),
    "uniform": (("low", "high"), _uniform),
    "normal": (("mean", "std"), _normal),
    "trunc_normal": (("mean", "std", "low", "high"), _trunc_normal),
    "truncated_normal": (("mean", "std", "low", "high"), _trunc_normal),
    "he_normal": (("gain",), _HE),
    "kaiming_normal": (("gain",), _HE),
    "he_uniform": (("gain",), _HE_UNIFORM),
    "kaiming_uniform": (("gain",), _HE_UNIFORM),
    "glorot_normal": (("gain",), _GLOROT),
    "xavier_normal": (("gain",), _GLOROT),
    "glorot_uniform": (("gain",), _GLOROT_UNIFORM),
    "xavier_uniform": (("gain",), _GLOROT_UNIFORM),
    "lecun_normal": (("gain",), _scaled_normal(lambda fan_in, _: fan_in)),
    "lecun_uniform": (("gain",), _scaled_uniform(lambda fan_in, _: fan_in)),
    "orthogonal": (("gain",), _orthogonal),
    "eye": (("gain",), _eye),
    "identity": (("gain",), _eye),
}

# One positional argument of these is the standard deviation, not the mean: `normal(0.02)`.
_STDDEV_FIRST = ("normal", "trunc_normal", "truncated_normal")
_ALIASES = {"stddev": "std", "sigma": "std", "a": "low", "b": "high", "v": "value", "scale": "gain"}


_OF_ANY_NUMBERS = ("zeros", "ones", "constant", "eye", "identity")


def _of_real_numbers(name: str, who: str) -> RlxTypeError:
    return RlxTypeError(
        f"the parameter `{name}` is C64, and {who} real numbers",
        code="E0301",
        helps=("use `init_params(fn)`, or two real parameters as `complex(re, im)`",),
    )


def draw(init: Initializer, name: str, shape: Sequence[int], dtype: DType, seed: int) -> Array:
    """The start of a parameter.

    Args:
        init: The initialiser; a positional argument has an empty name, or its position as a name.
        name: Run-time name of the parameter; with the seed it keys the stream.
        shape: Its dims.
        dtype: Its element type; numbers are drawn in float64, rounded to float32 and then cast.
        seed: Any integer.

    Raises:
        RlxNameError: E0202 there is no such initialiser.
        RlxTypeError: E0220, E0221, E0222 its arguments are wrong; E0301 the parameter is C64 and the numbers are random.
        RlxValueError: It cannot fill this shape.
    """
    row = INITIALIZERS.get(init.name)
    if row is None:
        raise RlxNameError(
            f"there is no initialiser `{init.name}`", code="E0202", helps=(did_you_mean(init.name, INITIALIZERS),)
        )
    arguments = _arguments(init, row[0])
    if dtype.kind == "complex" and init.name not in _OF_ANY_NUMBERS:
        raise _of_real_numbers(name, f"`{init.name}` draws")
    array = row[1](Stream.named(seed, name), tuple(shape), **arguments)
    return array.astype(dtype.numpy) if dtype.name == "F64" else array.astype(np.float32).astype(dtype.numpy)


def _arguments(init: Initializer, names: tuple[str, ...]) -> dict[str, float]:
    positional = [value for key, value in init.args if not key or key.isdigit()]
    named = [(key, value) for key, value in init.args if key and not key.isdigit()]
    if len(positional) > len(names):
        raise RlxTypeError(
            f"`{init.name}` takes at most {len(names)} arguments, {len(positional)} are given", code="E0220"
        )
    if init.name == "uniform" and len(positional) == 1 and not named and not isinstance(positional[0], str):
        return {"low": -float(positional[0]), "high": float(positional[0])}  # `uniform(0.1)` is symmetric
    order = ("std",) if init.name in _STDDEV_FIRST and len(positional) == 1 else names
    bound: dict[str, Number] = dict(zip(order, positional, strict=False))
    for key, value in named:
        own = _ALIASES.get(key, key)
        if own not in names:
            raise RlxTypeError(
                f"`{init.name}` has no argument `{key}`", code="E0221", helps=(did_you_mean(key, names),)
            )
        if own in bound:
            raise RlxTypeError(f"argument `{key}` of `{init.name}` is given twice", code="E0222")
        bound[own] = value
    wrong = [key for key, value in bound.items() if isinstance(value, str)]
    if wrong:
        raise RlxTypeError(f"argument `{wrong[0]}` of `{init.name}` must be a number", code="E0306")
    return {key: float(value) for key, value in bound.items()}


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)


def as_initializer(value: object) -> Initializer | None:
    """What users give as `init=`: an `Initializer`, a number, or a call as text, ``"normal(std: 0.02)"``, ``"zeros"``.

    Raises:
        RlxNameError: E0202 there is no such initialiser.
        RlxTypeError: Not any of these.
    """
    if value is None or isinstance(value, Initializer):
        return value
    if isinstance(value, (int, float)):
        return Initializer("constant", (("value", value),))
    match = _CALL.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise RlxTypeError(f"not an initialiser: {value!r}", helps=('write a number, or a call such as "he_normal()"',))
    name, text = match.group(1), (match.group(2) or "").strip()
    if name not in INITIALIZERS:
        raise RlxNameError(f"there is no initialiser `{name}`", code="E0202", helps=(did_you_mean(name, INITIALIZERS),))
    arguments = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        key, mark, number = part.replace("=", ":").rpartition(":")
        try:
            arguments.append((key.strip() if mark else "", float(number)))
        except ValueError:
            raise RlxTypeError(f"`{part}` is no number in the initialiser {value!r}") from None
    init = Initializer(name, tuple(arguments))
    _arguments(init, INITIALIZERS[name][0])
    return init


def randn_params(
    entries: Sequence[GraphInput], shapes: Mapping[str, Sequence[int]], seed: int, stddev: float
) -> dict[str, Array]:
    """Normal numbers for all float parameters from one stream, in order of declaration, row-major; integers draw nothing.

    Each is drawn in float64, rounded to float32, scaled by `stddev` in float32, then cast to the parameter's dtype.

    Raises:
        RlxTypeError: `seed` is no integer; E0301 a parameter is C64.
        RlxValueError: `stddev` is no finite number.
    """
    number: object = stddev
    if not isinstance(number, (int, float, np.integer, np.floating)) or not math.isfinite(number):
        raise RlxValueError(f"`stddev` is a finite number, {stddev!r} is given")
    stream = Stream(seed)
    result = {}
    for entry in entries:
        dtype = entry.node.dtype
        if dtype.kind == "complex":
            raise _of_real_numbers(entry.name, "`init_randn` draws")
        if dtype.is_differentiable:
            shape = tuple(shapes[entry.name])
            numbers = stream.normal(math.prod(shape)).astype(np.float32) * np.float32(stddev)
            result[entry.name] = numbers.reshape(shape).astype(dtype.numpy)
    return result
