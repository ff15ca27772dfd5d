"""Tables of positions: slopes of ALiBi, sines and cosines."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_count, static_dim, static_radix, surface
from rlxlang.ops.compose import one
from rlxlang.types import F32, TypeProblem


def _slopes(heads: int) -> np.ndarray[Any, Any]:
    """2^(-8k/n) for the next lower power of two, and every other slope of twice as many for the rest."""
    whole = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8.0 * np.arange(1, whole + 1) / whole)
    more = 2.0 ** (-4.0 * np.arange(1, 2 * (heads - whole), 2) / whole)
    return np.concatenate([first, more]).astype(np.float32)


def _alibi(b: Builder, heads: Any, q: Any, k: Any) -> Node:
    count = static_count("alibi", heads, "heads")
    if count < 1:
        raise TypeProblem("E0350", f"argument `heads` of `alibi` is 1 or more, and {count} is given")
    rows, columns = static_dim("alibi", q, "q"), static_dim("alibi", k, "k")
    row = emit.iota(b, (rows, columns), 0, F32)
    row = emit.add(b, row, emit.number(b, columns - rows, row))  # the last query sees the last key
    distance = b.emit("abs", emit.sub(b, row, emit.iota(b, (rows, columns), 1, F32)))
    slopes = emit.reshape(b, b.constant(_slopes(count), F32), (count, 1, 1))
    return one(b, "neg", one(b, "mul", slopes, distance))


def _sinusoidal(b: Builder, n: Any, d: Any, base: Any = 10000.0) -> Node:
    length, width = static_dim("sinusoidal", n, "n"), static_count("sinusoidal", d, "d")
    if width < 0 or width % 2:
        raise TypeProblem("E0350", f"argument `d` of `sinusoidal` is even, and {width} is given")
    radix = static_radix("sinusoidal", base)
    rate = (radix ** (-np.arange(0, width, 2) / max(width, 1))).astype(np.float32)
    position = emit.iota(b, (length, width // 2), 0, F32)
    angle = one(b, "mul", position, b.constant(rate, F32))
    waves = one(b, "stack", (one(b, "sin", angle), one(b, "cos", angle)), 2)
    return emit.reshape(b, waves, (length, width))


surface(
    "alibi",
    (Parameter("heads", "int"), Parameter("q", "dim"), Parameter("k", "dim")),
    _alibi,
    "Attention bias [heads, q, k] that falls with distance, queries aligned with the last keys (Press et al. 2022).",
    method=False,
)
surface(
    "sinusoidal",
    (Parameter("n", "dim"), Parameter("d", "int"), Parameter("base", "float", 10000.0)),
    _sinusoidal,
    "Position table [n, d] of sines (even columns) and cosines (odd columns) (Vaswani et al. 2017).",
    method=False,
)
