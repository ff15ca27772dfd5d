"""What a shape rule decides at once, what it leaves to the run, and what can never be."""

from __future__ import annotations

import pytest

from rlxlang.types import Dim, Guard, ShapeContext, TypeProblem, broadcast_shapes

N, M = Dim.axis("?n"), Dim.axis("?m")


def test_equal_sizes_need_no_guard() -> None:
    context = ShapeContext()
    assert context.same(2 * N, N + N, "sizes") == 2 * N
    assert context.guards == []


def test_undecided_sizes_become_a_guard_and_the_static_one_counts() -> None:
    context = ShapeContext()
    assert context.same(N, 4, "sizes") == 4
    assert context.same(N, M, "sizes") == N
    assert context.guards == [Guard(N, "==", 4, "sizes"), Guard(N, "==", M, "sizes")]
    assert context.guards[1].holds({"?n": 3, "?m": 3})
    assert not context.guards[1].holds({"?n": 3, "?m": 4})


def test_unequal_sizes_are_refused_with_both_shapes() -> None:
    with pytest.raises(TypeProblem, match=r"\[3, \?n\] and \[4, \?n\]") as caught:
        ShapeContext().same_shape((3, N), (4, N), "shapes")
    assert caught.value.code == "E0401"
    with pytest.raises(TypeProblem, match="rank"):
        ShapeContext().same_shape((3,), (3, 1), "shapes")


def test_bounds_and_multiples() -> None:
    context = ShapeContext()
    context.at_most(2, 3, "bound")
    context.divides(2, 6 * N, "multiple")
    assert context.guards == []
    context.at_most(3, N, "bound")
    context.divides(4, N, "multiple")
    assert [g.relation for g in context.guards] == ["<=", "divides"]
    assert context.guards[1].holds({"?n": 8})
    assert not context.guards[1].holds({"?n": 9})
    with pytest.raises(TypeProblem):
        context.at_most(4, 3, "bound")
    with pytest.raises(TypeProblem):
        context.divides(4, 6, "multiple")


def test_bounds_that_hold_for_every_size_need_no_guard() -> None:
    context = ShapeContext()
    context.at_most(0, 3 * N, "bound")
    context.at_most(M, N + M + 1, "bound")
    assert context.guards == []
    with pytest.raises(TypeProblem, match=r"bound: 2\*\?n \+ 1 is more than \?n"):
        context.at_most(2 * N + 1, N, "bound")


@pytest.mark.parametrize(
    ("shapes", "result", "guards"),
    [
        (((3, 1), (4,)), (3, 4), 0),
        (((N, 1), (1, M)), (N, M), 0),
        (((N,), (N,)), (N,), 0),
        (((N,), (M,)), (N,), 1),  # a dynamic axis never stretches, whatever its size at run time
        (((N,), (1,)), (N,), 0),
        (((N, 4), (7, 4)), (7, 4), 1),
        (((), (2, 3)), (2, 3), 0),
        (((0,), (1,)), (0,), 0),
        (((2, 1), (1, 3), (3,)), (2, 3), 0),
    ],
)
def test_broadcasting(shapes: tuple[tuple[Dim | int, ...], ...], result: tuple[Dim | int, ...], guards: int) -> None:
    context = ShapeContext()
    assert broadcast_shapes(context, shapes, "`+`") == result
    assert len(context.guards) == guards


def test_broadcasting_names_all_shapes() -> None:
    with pytest.raises(TypeProblem, match=r"\[2, 3\] and \[4\]"):
        broadcast_shapes(ShapeContext(), ((2, 3), (4,)), "`+`")
