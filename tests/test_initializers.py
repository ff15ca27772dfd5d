"""The stream of random numbers and the initialisers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.initializers import INITIALIZERS, Stream, as_initializer, draw, fans
from rlxlang.ir import Initializer
from rlxlang.types import BF16, F16, F32, F64

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix(seed: int, count: int) -> list[float]:
    """The generator once more, one number at a time in Python integers."""
    state = (seed ^ GOLDEN) & MASK
    found = []
    for _ in range(count):
        state = (state + GOLDEN) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        found.append((z >> 11) / 2**53)
    return found


@pytest.mark.parametrize("seed", [0, 1, 42, 2**63 + 5, -1, 2**64 + 3])
def test_uniform(seed: int) -> None:
    assert Stream(seed).uniform(50).tolist() == splitmix(seed, 50)
    stream = Stream(seed)
    parts = [*stream.uniform(7), *stream.uniform(0), *stream.uniform(20)]
    assert parts == splitmix(seed, 27)


def test_normal() -> None:
    pairs = np.array(splitmix(7, 20)).reshape(10, 2)
    want = [math.sqrt(-2 * math.log(max(u, 1e-12))) * math.cos(2 * math.pi * v) for u, v in pairs]
    np.testing.assert_allclose(Stream(7).normal(10), want, rtol=1e-14)
    many = Stream(3).normal(100_000)
    assert abs(many.mean()) < 0.02
    assert abs(many.std() - 1) < 0.02


@pytest.mark.parametrize(
    ("shape", "want"),
    [((), (1, 1)), ((5,), (5, 5)), ((4, 7), (4, 7)), ((8, 3, 5, 5), (75, 200)), ((8, 3, 5), (15, 40))],
)
def test_fans(shape: tuple[int, ...], want: tuple[int, int]) -> None:
    assert fans(shape) == want


def deviation(name: str, shape: tuple[int, ...], *args: tuple[str, float]) -> float:
    return float(draw(Initializer(name, args), "w", shape, F64, 0).std())


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("he_normal", (), math.sqrt(2 / 300)),
        ("he_uniform", (), math.sqrt(2 / 300)),
        ("glorot_normal", (), math.sqrt(2 / 500)),
        ("xavier_uniform", (), math.sqrt(2 / 500)),
        ("lecun_normal", (), math.sqrt(1 / 300)),
        ("he_normal", (("gain", 3.0),), 3 * math.sqrt(2 / 300)),
        ("normal", (("", 0.5),), 0.5),
        ("normal", (("mean", 2.0), ("std", 0.25)), 0.25),
        ("uniform", (("low", 1.0), ("high", 3.0)), 2 / math.sqrt(12)),
        ("trunc_normal", (("std", 1.0),), 0.8796),
        ("zeros", (), 0.0),
    ],
)
def test_deviation(name: str, args: tuple[tuple[str, float], ...], want: float) -> None:
    assert abs(deviation(name, (300, 200), *args) - want) < 0.02 * want + 1e-12


def test_values() -> None:
    assert draw(Initializer("ones"), "w", (2,), F32, 0).tolist() == [1, 1]
    assert draw(Initializer("constant", (("value", 0.5),)), "w", (2,), F16, 0).dtype == np.float16
    assert draw(Initializer("eye"), "w", (2, 3), BF16, 0).tolist() == [[1, 0, 0], [0, 1, 0]]
    cut = draw(Initializer("trunc_normal"), "w", (1000,), F64, 0)
    assert np.abs(cut).max() <= 2
    for shape in ((4, 7), (7, 4), (3, 2, 4)):
        q = draw(Initializer("orthogonal"), "w", shape, F64, 0).reshape(shape[0], -1)
        small = q @ q.T if shape[0] <= q.shape[1] else q.T @ q
        np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-12)


def test_streams_are_keyed_by_seed_and_name() -> None:
    init = Initializer("normal")
    first = draw(init, "a", (8,), F32, 1)
    np.testing.assert_array_equal(first, draw(init, "a", (8,), F32, 1))
    assert not np.array_equal(first, draw(init, "b", (8,), F32, 1))
    assert not np.array_equal(first, draw(init, "a", (8,), F32, 2))


@pytest.mark.parametrize("name", sorted(INITIALIZERS))
def test_every_initialiser_fills_a_matrix_and_an_empty_one(name: str) -> None:
    assert draw(Initializer(name), "w", (3, 4), F32, 0).shape == (3, 4)
    assert draw(Initializer(name), "w", (3, 0), F32, 0).shape == (3, 0)


def test_text() -> None:
    assert as_initializer(None) is None
    assert as_initializer(0.5) == Initializer("constant", (("value", 0.5),))
    assert as_initializer("zeros") == as_initializer("zeros()") == Initializer("zeros")
    assert as_initializer("normal(std: 0.02)") == as_initializer("normal(std=0.02)")
    assert as_initializer("uniform(-1, 2)") == Initializer("uniform", (("", -1.0), ("", 2.0)))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("he_norml", "did you mean `he_normal`"),
        ("normal(a, b)", "no number"),
        ("zeros(1)", "at most 0"),
        ("normal(size: 3)", "no argument `size`"),
        ("normal(std: 1, std: 2)", "twice"),
        ("1 + 1", "not an initialiser"),
        ([1], "not an initialiser"),
    ],
)
def test_faults(value: object, word: str) -> None:
    with pytest.raises(rlx.RlxError, match=word):
        as_initializer(value)


def test_wrong_shapes() -> None:
    for name in ("orthogonal", "eye"):
        with pytest.raises(rlx.RlxValueError, match=name):
            draw(Initializer(name), "w", (3,), F32, 0)
    with pytest.raises(rlx.RlxNameError, match="no initialiser"):
        draw(Initializer("nothing"), "w", (3,), F32, 0)
