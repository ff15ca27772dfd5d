"""`init_randn` draws the documented stream, here computed anew with Python's integers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import rlxlang as rlx

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def uniforms(seed: int) -> Iterator[float]:
    """SplitMix64 (Steele, Lea and Flood 2014), its top 53 bits as a number in [0, 1)."""
    state = (seed ^ GOLDEN) & MASK
    while True:
        state = (state + GOLDEN) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        yield (z >> 11) / 2**53


def normals(seed: int) -> Iterator[np.float32]:
    """The cosine branch of Box and Muller (1958), one value of two uniforms."""
    draw = uniforms(seed)
    for first in draw:
        radius = math.sqrt(-2 * math.log(max(first, 1e-12)))
        yield np.float32(radius * math.cos(2 * math.pi * next(draw)))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63 + 5])
def test_one_stream_in_order_of_declaration(seed: int) -> None:
    func = rlx.loads("""
        input x: [?n, 3];
        param b: [4];
        param steps: [I32; 2];
        param w[2]: [3, 4];
        param a @ "first.by.name": [2, 2];
        let y = x @ w[0] + x @ w[1] + b;
        out y; out a; out steps;
    """).init_randn(seed, 0.5)
    stream = normals(seed)
    for name, shape in (("b", (4,)), ("w_0", (3, 4)), ("w_1", (3, 4)), ("first.by.name", (2, 2))):
        want = np.array([next(stream) for _ in range(math.prod(shape))], np.float32).reshape(shape) * np.float32(0.5)
        got = func.param_binding(name)
        assert got is not None
        np.testing.assert_array_max_ulp(got, want, 1)
    assert func.param_binding("steps") is None
