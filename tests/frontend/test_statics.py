"""Arithmetic of static values."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from rlxlang.frontend import statics
from rlxlang.types import Dim, TypeProblem, evaluate

N = Dim.axis("?n")


@pytest.mark.parametrize(
    ("op", "left", "right", "want"),
    [
        ("+", 1, 2, 3),
        ("/", 6, 3, 2),
        ("/", 7, 2, 3.5),
        ("/", 6.0, 3, 2.0),
        ("div", -7, 2, -4),
        ("%", -7, 3, 2),
        ("**", 2, 10, 1024),
        ("**", 2, -1, 0.5),
        ("**", 0, 0, 1),
        ("+", True, True, 2),
        ("&", True, False, False),
        ("^", 5, 3, 6),
        ("==", 1, 1.0, True),
        ("<", "a", "b", True),
        ("==", "1", 1, False),
        ("!=", "1", 1, True),
        ("+", "a", "b", "ab"),
        ("-", N, N, 0),
        ("/", N * 4, 2, N * 2),
        ("==", N, N, True),
        ("**", N, 0, 1),
    ],
)
def test_binary(op: str, left: Any, right: Any, want: Any) -> None:
    got = statics.binary(op, left, right)
    assert got == want
    assert type(got) is type(want)


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [
        ("/", 1, 0),
        ("div", 1.5, 0),
        ("%", N, 0),
        ("**", 0, -1),
        ("**", -8, 0.5),
        ("**", 3, 10**9),
        ("**", 10.0, 400),
        ("*", 2**5000, 2**5000),
        ("*", 10**400, 1.0),
        ("&", 1, True),
        ("|", 1.0, 1),
        ("-", "a", "b"),
        ("<", "a", 1),
        ("@", 1, 2),
        ("+", N, 1.5),
        ("**", N, -1),
        ("+", "a" * 60000, "b" * 60000),
    ],
)
def test_errors(op: str, left: Any, right: Any) -> None:
    with pytest.raises(TypeProblem) as info:
        statics.binary(op, left, right)
    assert info.value.code == "E0352"


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("min", (3, 1, 2), 1),
        ("max", (3, 4.5), 4.5),
        ("floor", (-1.5,), -2),
        ("ceil", (1.2,), 2),
        ("trunc", (-1.5,), -1),
        ("round", (2.5,), 2),
        ("floor", (7,), 7),
        ("abs", (-3,), 3),
        ("pow", (2, 3), 8),
        ("rsqrt", (4,), 0.5),
        ("recip", (4,), 0.25),
        ("log2", (8,), 3.0),
        ("square", (3,), 9),
        ("exp2", (3,), 8.0),
        ("minimum", (N, N + 1), N),
    ],
)
def test_calls(name: str, args: tuple[Any, ...], want: Any) -> None:
    got = statics.call(name, args)
    assert got == want
    assert type(got) is type(want)


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("log", (0,), "E0352"),
        ("sqrt", (-1,), "E0352"),
        ("exp", (10**4,), "E0352"),
        ("floor", (math.inf,), "E0352"),
        ("round", (math.nan,), "E0352"),
        ("recip", (0,), "E0352"),
        ("sqrt", (10**400,), "E0352"),
        ("max", (1,), "E0220"),
        ("exp", (1, 2), "E0220"),
        ("pow", (1,), "E0220"),
        ("exp", (N,), "E0352"),
    ],
)
def test_calls_outside_of_the_domain(name: str, args: tuple[Any, ...], code: str) -> None:
    with pytest.raises(TypeProblem) as info:
        statics.call(name, args)
    assert info.value.code == code


def test_unary() -> None:
    assert statics.unary("-", 3) == -3
    assert statics.unary("!", True) is False
    assert statics.unary("!", 5) == ~5
    assert statics.unary("-", N) == -N
    for op, value in (("-", True), ("-", "a"), ("!", 1.5), ("!", "a")):
        with pytest.raises(TypeProblem):
            statics.unary(op, value)


def _repeated(step: Any) -> Any:
    size: Any = N + 1
    for _ in range(100):
        size = step(size)
    return size


def test_sizes_that_grow_without_end_are_refused() -> None:
    with pytest.raises(TypeProblem, match="too complicated"):
        _repeated(lambda d: statics.binary("*", d, d))
    with pytest.raises(TypeProblem, match="too complicated"):
        _repeated(lambda d: statics.binary("+", statics.binary("div", d, 2), statics.binary("%", d, 3)))


@settings(max_examples=200)
@given(
    st.integers(-1000, 1000),
    st.integers(-1000, 1000),
    st.sampled_from(["+", "-", "*", "div", "%", "==", "<", "&", "|", "^"]),
)
def test_integers_are_those_of_python(left: int, right: int, op: str) -> None:
    python = {"div": "//", "==": "==", "<": "<"}.get(op, op)
    if op in ("div", "%") and right == 0:
        return
    assert statics.binary(op, left, right) == eval(f"left {python} right", {"left": left, "right": right})


@settings(max_examples=100)
@given(st.integers(0, 50), st.integers(1, 9), st.sampled_from(["+", "-", "*", "div", "%"]))
def test_sizes_agree_with_their_numbers(n: int, right: int, op: str) -> None:
    size = statics.binary(op, N * 3 + 1, right)
    assert evaluate(size, {"?n": n}) == statics.binary(op, n * 3 + 1, right)


@pytest.mark.parametrize(
    ("op", "left", "right", "want"),
    [
        ("+", N, 1, True),
        ("/", N, 2, True),
        ("*", N, 0.5, False),
        ("<", N, 3, False),
        ("==", N, N, True),
        ("==", N, 3, False),
        ("**", N, 2, True),
        ("**", 2, N, False),
        ("@", N, N, False),
    ],
)
def test_what_is_a_size(op: str, left: Any, right: Any, want: bool) -> None:
    assert statics.is_sizes(op, left, right) is want
