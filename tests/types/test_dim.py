"""Sizes behave as the integers they stand for, whatever the axes turn out to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlxlang.types import (
    Dim,
    DimProblem,
    axes_of,
    ceil_div,
    dims_equal,
    evaluate,
    exact_quotient,
    floor_div,
    is_nonnegative,
    substitute,
)
from rlxlang.types.dim import maximum, minimum, mod

A, B = Dim.axis("?a"), Dim.axis("?b")
SIZES = st.fixed_dictionaries({"?a": st.integers(0, 40), "?b": st.integers(0, 40)})


@st.composite
def dims(draw: st.DrawFn) -> Dim | int:
    """Polynomials in two axes of degree at most 3, and quotients, remainders and extrema of such."""

    def small() -> Dim | int:
        total: Dim | int = draw(st.integers(-6, 6))
        for atom in (A, B, A * B, A * A):
            total = total + draw(st.integers(-3, 3)) * atom
        return total

    value = small()
    kind = draw(st.sampled_from(["plain", "plain", "floor", "mod", "min", "max"]))
    divisor = draw(st.integers(1, 5))
    if kind == "floor":
        return floor_div(value, divisor) + small()
    if kind == "mod":
        return mod(value, divisor) * 2 + small()
    if kind == "min":
        return minimum(value, small())
    return maximum(value, small()) if kind == "max" else value


@given(dims(), dims(), dims(), SIZES)
def test_ring_laws(p: Dim | int, q: Dim | int, r: Dim | int, sizes: dict[str, int]) -> None:
    assert p + q == q + p
    assert p * q == q * p
    assert (p + q) + r == p + (q + r)
    assert p * (q + r) == p * q + p * r
    assert p - p == 0
    assert p * 1 == p
    assert hash(p + q) == hash(q + p)


@given(dims(), dims(), SIZES)
def test_evaluation_commutes_with_arithmetic(p: Dim | int, q: Dim | int, sizes: dict[str, int]) -> None:
    x, y = evaluate(p, sizes), evaluate(q, sizes)
    assert evaluate(p + q, sizes) == x + y
    assert evaluate(p - q, sizes) == x - y
    assert evaluate(p * q, sizes) == x * y
    assert evaluate(minimum(p, q), sizes) == min(x, y)
    assert evaluate(maximum(p, q), sizes) == max(x, y)


@given(dims(), st.integers(1, 9), SIZES)
def test_division_by_numbers(p: Dim | int, d: int, sizes: dict[str, int]) -> None:
    x = evaluate(p, sizes)
    assert evaluate(floor_div(p, d), sizes) == x // d
    assert evaluate(mod(p, d), sizes) == x % d
    assert evaluate(ceil_div(p, d), sizes) == -(-x // d)
    assert floor_div(p * d, d) == p
    assert mod(p * d, d) == 0


@given(dims(), dims(), SIZES)
def test_exact_quotients_are_exact(p: Dim | int, q: Dim | int, sizes: dict[str, int]) -> None:
    quotient = exact_quotient(p, q)
    if quotient is not None:
        assert evaluate(quotient, sizes) * evaluate(q, sizes) == evaluate(p, sizes)
    if q != 0:
        found = exact_quotient(q * A, q)
        assert found == A


@given(dims(), dims(), SIZES)
def test_equality_is_never_wrong(p: Dim | int, q: Dim | int, sizes: dict[str, int]) -> None:
    answer = dims_equal(p, q)
    if answer is not None:
        assert (evaluate(p, sizes) == evaluate(q, sizes)) is answer


@given(dims(), SIZES)
def test_substitution(p: Dim | int, sizes: dict[str, int]) -> None:
    replaced = substitute(p, {"?a": B + 1})
    assert evaluate(replaced, sizes) == evaluate(p, {**sizes, "?a": sizes["?b"] + 1})
    assert substitute(p, {}) == p


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        (A, A, True),
        (A + 1, 0, False),  # an axis is never negative
        (2 * A, 2 * B + 1, False),  # even against odd
        (A, B, None),
        (A, 3, None),
        (4, 4, True),
        (4, 5, False),
        (A * B, B * A, True),
        ((A + 1) * (A - 1), A * A - 1, True),
    ],
)
def test_equality_decides_what_it_can(left: Dim | int, right: Dim | int, answer: bool | None) -> None:
    assert dims_equal(left, right) is answer


@given(dims(), dims(), SIZES)
def test_signs_are_right_where_known(p: Dim | int, q: Dim | int, sizes: dict[str, int]) -> None:
    for value in (p, p * p + 1, minimum(p, q), maximum(p, q), p - q):
        answer = is_nonnegative(value)
        assert answer is None or answer is (evaluate(value, sizes) >= 0)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (0, True),
        (-1, False),
        (A * B + 2, True),
        (-A - 1, False),
        (-A, None),
        (A - B, None),
        (A - 1, None),
        (mod(A - B, 3), True),
        (floor_div(A + B, 2) + B, True),
        (floor_div(A - B, 2), None),
        (maximum(A, B - A), True),
        (minimum(A, B), True),
        (minimum(A, B - A), None),
        (floor_div(A - B, 2) * floor_div(A - B, 2), True),
    ],
)
def test_signs(value: Dim | int, answer: bool | None) -> None:
    assert is_nonnegative(value) is answer


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (A, "?a"),
        (2 * A + 3, "2*?a + 3"),
        (3 - A, "-?a + 3"),
        (A * A * B, "?a**2*?b"),
        (floor_div(A + 1, 2), "((?a + 1) div 2)"),
        (mod(A, 3), "(?a % 3)"),
        (minimum(A, B), "min(?a, ?b)"),
    ],
)
def test_printing(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_constants_are_plain_integers() -> None:
    assert type(A - A + 4) is int
    assert type(floor_div(6 * A, 2) - 3 * A) is int


def test_axes_are_found_inside_quotients() -> None:
    assert axes_of(floor_div(A + 1, 2) * B) == ("?a", "?b")
    assert axes_of(7) == ()


def test_faults() -> None:
    with pytest.raises(DimProblem, match="zero"):
        floor_div(A, 0)
    with pytest.raises(DimProblem, match="zero"):
        mod(A, 0)
    with pytest.raises(DimProblem, match=r"\?b"):
        evaluate(A + B, {"?a": 1})
    with pytest.raises(DimProblem, match="divides by zero"):
        evaluate(floor_div(A, B), {"?a": 1, "?b": 0})
