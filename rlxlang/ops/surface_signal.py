"""What users call of Fourier transforms; arguments, defaults and `norm` as in `numpy.fft`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import (
    canonical_axes,
    canonical_axis,
    choice,
    static_bool,
    static_dim,
    static_int,
    static_number,
    surface,
    tensor,
)
from rlxlang.ops.broadcasting import Value, as_float
from rlxlang.ops.complex_numbers import as_complex
from rlxlang.ops.compose import one
from rlxlang.ops.signal import half_length
from rlxlang.types import C64, F32, I32, DimLike, TypeProblem, dims_equal, floor_div
from rlxlang.types.dim import minimum

_X = tensor("x")
_N = Parameter("n", "dim", None)
_LAST = Parameter("axis", "axis", -1)
_NORM = Parameter("norm", "str", "backward")
NORMS = ("backward", "ortho", "forward")


def complex_operand(b: Builder, op: str, x: Value) -> Node:
    """A value as C64; real numbers get the imaginary part 0."""
    return emit.cast(b, as_float(b, op, x, is_complex_allowed=True), C64)


def real_operand(b: Builder, op: str, x: Value) -> Node:
    """A value as F32.

    Raises:
        TypeProblem: E0301, it is C64.
    """
    node = as_float(b, op, x, is_complex_allowed=True)
    if node.dtype == C64:
        raise TypeProblem(
            "E0301", f"`{op}` takes real numbers, and {node.type} is given", (), "`fft` takes complex ones"
        )
    return emit.cast(b, node, F32)


def resized(b: Builder, x: Node, axis: int, size: DimLike) -> Node:
    """An axis cut, or continued with zeros, to a size."""
    own = x.shape[axis]
    if dims_equal(own, size) is True:
        return x
    kept = minimum(own, size)
    return emit.pad_axis(b, emit.slice_axis(b, x, axis, 0, kept), axis, 0, size - kept)


def _length(op: str, n: Any, default: DimLike) -> DimLike:
    return default if n is None else static_dim(op, n, "n")


def _scaled(b: Builder, op: str, x: Node, count: DimLike, norm: Any, *, inverse: bool) -> Node:
    """What the norm asks for beyond 1 forward and 1/count backward."""
    word = choice(op, norm, "norm", NORMS)
    if word == "backward":
        return x
    power = (0.5 if word == "ortho" else 1.0) * (1 if inverse else -1)
    if isinstance(count, int):
        weight = b.full(float(count) ** power, F32, x.shape)
    else:
        size = emit.broadcast_to(b, b.emit("dim_size", dim=count, dtype=F32), x.shape)
        weight = b.emit("pow", size, b.full_like(size, power))
    return emit.mul(b, x, as_complex(b, weight) if x.dtype == C64 else weight)


# --------------------------------------------------------------------------------------------- fft
def _over(b: Builder, op: str, x: Node, axes: Sequence[int], norm: Any, *, inverse: bool) -> Node:
    if not axes:
        return x
    result = b.emit("fft", x, axes=tuple(axes), inverse=inverse)
    return _scaled(b, op, result, emit.size_of(x.shape, axes), norm, inverse=inverse)


def _fft(op: str, *, inverse: bool) -> Callable[..., Node]:
    def build(b: Builder, x: Value, n: Any = None, axis: Any = -1, norm: Any = "backward") -> Node:
        node = complex_operand(b, op, x)
        k = canonical_axis(op, axis, len(node.shape))
        node = resized(b, node, k, _length(op, n, node.shape[k]))
        return _over(b, op, node, (k,), norm, inverse=inverse)

    return build


def _fft_axis(b: Builder, x: Value, axis: Any, inverse: Any = False) -> Node:
    backwards = static_bool("fft_axis", inverse, "inverse")
    return _fft("fft_axis", inverse=backwards)(b, x, axis=axis)


def _fftn(op: str, *, inverse: bool) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axes: Any = None, norm: Any = "backward") -> Node:
        node = complex_operand(b, op, x)
        return _over(b, op, node, canonical_axes(op, axes, len(node.shape)), norm, inverse=inverse)

    return build


# --------------------------------------------------------------------------------------------- rfft
def _rfft(b: Builder, x: Value, n: Any = None, axis: Any = -1, norm: Any = "backward") -> Node:
    op = "rfft"
    node = real_operand(b, op, x)
    k = canonical_axis(op, axis, len(node.shape))
    node = resized(b, node, k, _length(op, n, node.shape[k]))
    return _scaled(b, op, b.emit("rfft", node, axis=k), node.shape[k], norm, inverse=False)


def _irfft(b: Builder, x: Value, n: Any = None, axis: Any = -1, norm: Any = "backward", op: str = "irfft") -> Node:
    node = complex_operand(b, op, x)
    k = canonical_axis(op, axis, len(node.shape))
    count = _length(op, n, (node.shape[k] - 1) * 2)
    node = resized(b, node, k, half_length(count))
    return _scaled(b, op, b.emit("irfft", node, n=count, axis=k), count, norm, inverse=True)


def _some_axes(op: str, axes: Any, rank: int) -> tuple[tuple[int, ...], int]:
    """The axes but for the last one of the list, along which numbers are real, and that one."""
    given = axes if isinstance(axes, tuple) else tuple(range(rank)) if axes is None else (axes,)
    canonical_axes(op, axes, rank)
    if not given:
        raise TypeProblem("E0350", f"`{op}` over no axis: numbers are real along the last one")
    found = [canonical_axis(op, k, rank) for k in given]
    return tuple(found[:-1]), found[-1]


def _rfftn(b: Builder, x: Value, axes: Any = None, norm: Any = "backward") -> Node:
    op = "rfftn"
    node = real_operand(b, op, x)
    others, last = _some_axes(op, axes, len(node.shape))
    return _over(b, op, _rfft(b, node, None, last, norm), others, norm, inverse=False)


def _irfftn(b: Builder, x: Value, n: Any = None, axes: Any = None, norm: Any = "backward") -> Node:
    op = "irfftn"
    node = complex_operand(b, op, x)
    others, last = _some_axes(op, axes, len(node.shape))
    return _irfft(b, _over(b, op, node, others, norm, inverse=True), n, last, norm, op)


# --------------------------------------------------------------------------------------------- frequencies
def _shift(op: str, *, inverse: bool) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axes: Any = None) -> Node:
        node = as_float(b, op, x, is_complex_allowed=True)
        for k in canonical_axes(op, axes, len(node.shape)):
            size = node.shape[k]
            # What comes first: frequency -(n div 2), or 0 when going back.
            cut = floor_div(size, 2) if inverse else size - floor_div(size, 2)
            parts = [emit.slice_axis(b, node, k, cut, size), emit.slice_axis(b, node, k, 0, cut)]
            node = emit.concat(b, parts, k)
        return node

    return build


def _frequencies(op: str, *, real: bool) -> Callable[..., Node]:
    def build(b: Builder, n: Any, d: Any = 1.0) -> Node:
        size = static_dim(op, n, "n")
        if size == 0:
            raise TypeProblem("E0350", f"argument `n` of `{op}` is at least 1")
        spacing = static_number(op, d, "d")
        if not spacing > 0:
            raise TypeProblem("E0350", f"argument `d` of `{op}` is positive, and {spacing} is given")
        k = emit.iota(b, (half_length(size) if real else size,), 0, I32)
        if not real:
            negative = b.emit("ge", emit.scale(b, k, 2), emit.number(b, size, k))
            k = emit.select(b, negative, emit.sub(b, k, emit.number(b, size, k)), k)
        line = emit.cast(b, k, F32)
        return emit.div(
            b, line, emit.scale(b, emit.number(b, float(size) if isinstance(size, int) else size, line), spacing)
        )

    return build


# --------------------------------------------------------------------------------------------- windows
# Coefficients of cosines of multiples of 2πk/n: Harris, "On the use of windows for harmonic analysis" (1978).
_COSINES = {"hann": (0.5, -0.5), "hamming": (0.54, -0.46), "blackman": (0.42, -0.5, 0.08)}


_LONGEST = 1 << 24  # a window is a constant of the graph


def _cosine_window(name: str, n: int) -> np.ndarray[Any, Any]:
    if n == 1:
        return np.ones(1, np.float32)
    angle = 2 * np.pi * np.arange(n) / n
    return np.asarray(sum(c * np.cos(k * angle) for k, c in enumerate(_COSINES[name])), np.float32)


def _window_function(name: str) -> Callable[..., Node]:
    op = f"{name}_window"
    return lambda b, n: b.constant(_cosine_window(name, _positive(op, n, "n")))


def _positive(op: str, value: Any, name: str) -> int:
    number = static_int(op, value, name)
    if number < 1:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is at least 1, and {number} is given")
    if number > _LONGEST and name != "hop":
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is at most {_LONGEST}, and {number} is given")
    return number


def _window(b: Builder, op: str, window: Any, n: int) -> Node:
    if window is None:
        return b.full(1.0, F32, (n,))
    if isinstance(window, str):
        return b.constant(_cosine_window(choice(op, window, "window", tuple(_COSINES)), n))
    node = real_operand(b, op, window)
    if len(node.shape) != 1 or dims_equal(node.shape[0], n) is not True:
        raise TypeProblem("E0404", f"the window of `{op}` is F32[{n}], and {node.type} is given")
    return node


# --------------------------------------------------------------------------------------------- short-time transforms
def _stft(b: Builder, x: Value, n: Any, hop: Any = None, window: Any = "hann", center: Any = True) -> Node:
    """Frames of n entries every `hop`, times the window, transformed: frequencies and then frames on the last axes."""
    op = "stft"
    node = real_operand(b, op, x)
    size, step = _positive(op, n, "n"), _step(op, hop, n)
    if not node.shape:
        raise TypeProblem("E0404", f"`{op}` takes a signal along the last axis, and {node.type} is given")
    last = len(node.shape) - 1
    if static_bool(op, center, "center"):
        node = one(b, "pad", node, last, size // 2, size // 2, mode="reflect")
    frames = b.emit("windows", node, axes=(last,), sizes=(size,), strides=(step,), dilations=(1,))
    weights = emit.broadcast_to(b, _window(b, op, window, size), frames.shape)
    spectrum = b.emit("rfft", emit.mul(b, frames, weights), axis=last + 1)
    return emit.move_axis(b, spectrum, last + 1, last)


def _step(op: str, hop: Any, n: int) -> int:
    return max(n // 4, 1) if hop is None else _positive(op, hop, "hop")


def _istft(
    b: Builder,
    x: Value,
    n: Any = None,
    hop: Any = None,
    window: Any = "hann",
    center: Any = True,
    length: Any = None,
) -> Node:
    """Least squares of all frames: Griffin and Lim, "Signal estimation from modified short-time Fourier transform" (1984)."""
    op = "istft"
    node = complex_operand(b, op, x)
    if len(node.shape) < 2:
        raise TypeProblem("E0404", f"`{op}` takes [frequencies, frames], and {node.type} is given")
    last = len(node.shape) - 1
    count = node.shape[last - 1]
    if n is None and not isinstance(count, int):
        raise TypeProblem("E0350", f"`{op}` of a dynamic number of frequencies needs its argument `n`")
    size = _positive(op, (count - 1) * 2 if n is None else n, "n")
    step = _step(op, hop, size)
    frames = _irfft(b, emit.move_axis(b, node, last, last - 1), size, last, "backward", op)
    weights = emit.broadcast_to(b, _window(b, op, window, size), frames.shape)
    total = (node.shape[last] - 1) * step + size
    options = {"axes": (last - 1,), "sizes": (size,), "strides": (step,), "dilations": (1,), "lengths": (total,)}
    signal = b.emit("fold", emit.mul(b, frames, weights), **options)
    cover = b.emit("fold", emit.square(b, weights), **options)
    is_covered = emit.compare(b, "gt", cover, 1e-10)
    signal = emit.keep(b, is_covered, emit.div(b, signal, emit.select(b, is_covered, cover, b.full_like(cover, 1))))
    border = size // 2 if static_bool(op, center, "center") else 0
    signal = emit.slice_axis(b, signal, last - 1, border, total if length is not None else total - border)
    return signal if length is None else resized(b, signal, last - 1, static_dim(op, length, "length"))


# --------------------------------------------------------------------------------------------- convolution
def _fast_length(n: DimLike) -> DimLike:
    """The least number from n on without prime factors above 5; dynamic sizes stay."""
    if not isinstance(n, int):
        return n
    best = 1 << max(n - 1, 0).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            two = three << max(math.ceil(n / three) - 1, 0).bit_length()
            best = min(best, two)
            three *= 3
        five *= 5
    return best


def _fft_convolve(b: Builder, x: Value, h: Value, mode: Any = "full") -> Node:
    op = "fft_convolve"
    word = choice(op, mode, "mode", ("full", "same", "valid"))
    given = [as_float(b, op, v, is_complex_allowed=True) for v in (x, h)]
    if not all(v.shape for v in given):
        raise TypeProblem("E0404", f"`{op}` takes signals along the last axis, and a scalar is given")
    is_complex = C64 in (given[0].dtype, given[1].dtype)
    signals = [emit.cast(b, v, C64 if is_complex else F32) for v in given]
    p, q = (v.shape[-1] for v in signals)
    full = p + q - 1
    size = _fast_length(full)
    spectra = [one(b, "fft" if is_complex else "rfft", resized(b, v, len(v.shape) - 1, size)) for v in signals]
    found = one(b, "mul", *spectra)
    found = one(b, "ifft", found) if is_complex else one(b, "irfft", found, size)
    last = len(found.shape) - 1
    start, count = {"full": (0, full), "same": (floor_div(q - 1, 2), p), "valid": (q - 1, p - q + 1)}[word]
    if word == "valid" and isinstance(count, int) and count < 1:
        raise TypeProblem("E0405", f"`{op}` with mode valid: {q} entries do not fit into {p}")
    return emit.slice_axis(b, found, last, start, start + count)


# --------------------------------------------------------------------------------------------- names
surface("fft", (_X, _N, _LAST, _NORM), _fft("fft", inverse=False), "Discrete Fourier transform along an axis.")
surface("ifft", (_X, _N, _LAST, _NORM), _fft("ifft", inverse=True), "Inverse of `fft`, divided by n.")
surface(
    "fft_axis",
    (_X, Parameter("axis", "axis"), Parameter("inverse", "bool", False)),
    _fft_axis,
    "Discrete Fourier transform along an axis, or its inverse.",
)
_LAST_TWO = Parameter("axes", "axes", (-2, -1))
_AXES = Parameter("axes", "axes", None)
for _prefix, _backwards in (("", False), ("i", True)):
    _words = "Inverse of the" if _backwards else "The"
    surface(
        f"{_prefix}fft2",
        (_X, _LAST_TWO, _NORM),
        _fftn(f"{_prefix}fft2", inverse=_backwards),
        f"{_words} discrete Fourier transform over two axes.",
    )
    surface(
        f"{_prefix}fftn",
        (_X, _AXES, _NORM),
        _fftn(f"{_prefix}fftn", inverse=_backwards),
        f"{_words} discrete Fourier transform over axes.",
    )
    surface(
        f"{_prefix}fftshift",
        (_X, _AXES),
        _shift(f"{_prefix}fftshift", inverse=_backwards),
        "The order of `fft` again: frequency 0 comes first." if _backwards else "Frequency 0 in the middle of axes.",
    )
surface(
    "rfft",
    (_X, _N, _LAST, _NORM),
    _rfft,
    "Discrete Fourier transform of real numbers: frequencies 0 to n div 2.",
)
surface(
    "irfft",
    (_X, _N, _LAST, _NORM),
    lambda b, x, n, axis, norm: _irfft(b, x, n, axis, norm),
    "Inverse of `rfft`: n real numbers, 2(m - 1) of m frequencies.",
)
surface(
    "rfftn",
    (_X, _AXES, _NORM),
    _rfftn,
    "Transform of real numbers over axes; of the last one it keeps frequencies 0 to n div 2.",
)
surface(
    "irfftn", (_X, _N, _AXES, _NORM), _irfftn, "Inverse of `rfftn`, with n real numbers along the last of the axes."
)
_SPACING = Parameter("d", "float", 1.0)
surface(
    "fftfreq",
    (Parameter("n", "dim"), _SPACING),
    _frequencies("fftfreq", real=False),
    "Frequencies of `fft` of n entries at distance d, in cycles per unit of d.",
    method=False,
)
surface(
    "rfftfreq",
    (Parameter("n", "dim"), _SPACING),
    _frequencies("rfftfreq", real=True),
    "Frequencies of `rfft` of n entries at distance d.",
    method=False,
)
for _name in _COSINES:
    surface(
        f"{_name}_window",
        (Parameter("n", "int"),),
        _window_function(_name),
        f"The {_name.capitalize()} window of n entries, periodic (Harris 1978).",
        method=False,
    )
_FRAMES = (Parameter("hop", "int", None), Parameter("window", "any", "hann"), Parameter("center", "bool", True))
surface(
    "stft",
    (_X, Parameter("n", "int"), *_FRAMES),
    _stft,
    "Short-time Fourier transform, C64[…, n div 2 + 1, frames]: frames of n entries every `hop` (n div 4), times the window; with"
    " `center` frame t is centred at entry t·hop, the signal being reflected at its ends.",
)
surface(
    "istft",
    (_X, Parameter("n", "int", None), *_FRAMES, Parameter("length", "dim", None)),
    _istft,
    "The signal whose `stft` is closest in least squares (Griffin and Lim 1984), cut or continued to `length`.",
)
surface(
    "fft_convolve",
    (_X, tensor("h"), Parameter("mode", "str", "full")),
    _fft_convolve,
    'Convolution along the last axis by transforms; mode "full", "same" (as x) or "valid".',
)
