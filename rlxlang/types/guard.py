"""Conditions on dynamic sizes that cannot be decided before a run, and how a shape rule asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlxlang.types.dim import DimLike, dims_equal, evaluate, is_nonnegative, mod
from rlxlang.types.problem import TypeProblem
from rlxlang.types.tensor import Shape, shape_text


@dataclass(frozen=True, slots=True)
class Guard:
    """`left relation right` must hold at every run, before any kernel starts.

    Attributes:
        left: A size.
        relation: `==`, `<=` or `divides` (left divides right).
        right: A size.
        what: What needs it, `the inner sizes of `@``.
    """

    left: DimLike
    relation: str
    right: DimLike
    what: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition holds for these sizes of the axes."""
        left, right = evaluate(self.left, sizes), evaluate(self.right, sizes)
        if self.relation == "==":
            return left == right
        if self.relation == "<=":
            return left <= right
        return left != 0 and right % left == 0

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


@dataclass
class ShapeContext:
    """Handed to a shape rule: decides sizes, and keeps as guards what only a run can decide."""

    guards: list[Guard] = field(default_factory=list)

    def same(self, left: DimLike, right: DimLike, what: str, code: str = "E0401") -> DimLike:
        """Require two sizes to be equal; returns the more static one.

        Raises:
            TypeProblem: They can never be equal.
        """
        answer = dims_equal(left, right)
        if answer is False:
            raise TypeProblem(code, f"{what} differ: {left} and {right}")
        if answer is None:
            self.guards.append(Guard(left, "==", right, what))
        return right if isinstance(right, int) else left

    def same_shape(self, left: Shape, right: Shape, what: str, code: str = "E0401") -> Shape:
        """Require two shapes to be equal, axis by axis."""
        if len(left) != len(right):
            raise TypeProblem(code, f"{what} differ in rank: {shape_text(left)} and {shape_text(right)}")
        try:
            return tuple(self.same(a, b, what, code) for a, b in zip(left, right, strict=True))
        except TypeProblem:
            raise TypeProblem(code, f"{what} differ: {shape_text(left)} and {shape_text(right)}") from None

    def at_most(self, left: DimLike, right: DimLike, what: str, code: str = "E0406") -> None:
        """Require `left <= right`."""
        answer = is_nonnegative(right - left)
        if answer is False:
            raise TypeProblem(code, f"{what}: {left} is more than {right}")
        if answer is None:
            self.guards.append(Guard(left, "<=", right, what))

    def divides(self, left: DimLike, right: DimLike, what: str, code: str = "E0407") -> None:
        """Require `right` to be a multiple of `left`."""
        rest = mod(right, left)
        if isinstance(rest, int):
            if rest:
                raise TypeProblem(code, f"{what}: {right} is not a multiple of {left}")
            return
        self.guards.append(Guard(left, "divides", right, what))


def broadcast_shapes(context: ShapeContext, shapes: tuple[Shape, ...], what: str) -> Shape:
    """The common shape of several: a static 1 stretches; every other unequal or undecided pair must agree.

    Raises:
        TypeProblem: E0401 with all shapes when two sizes can never agree.
    """
    rank = max(len(s) for s in shapes)
    result: list[DimLike] = []
    for position in range(rank):
        dim: DimLike = 1
        for shape in shapes:
            k = position - (rank - len(shape))
            if k < 0 or shape[k] == 1:
                continue
            if dim == 1:
                dim = shape[k]
                continue
            try:
                dim = context.same(dim, shape[k], f"sizes of axis {position - rank} in {what}")
            except TypeProblem as problem:
                texts = " and ".join(shape_text(s) for s in shapes)
                help_ = _ALIGNMENT if _fits_at_front(shapes) else ""
                raise TypeProblem("E0401", f"{what}: shapes {texts} do not fit", (problem.message,), help_) from None
        result.append(dim)
    return tuple(result)


_ALIGNMENT = "axes are aligned at the end; `v[.., new]` gives a vector an axis of size 1 there"


def _fits_at_front(shapes: tuple[Shape, ...]) -> bool:
    """Whether a vector among the shapes would fit the first axis of the others."""
    longest = max(shapes, key=len)
    return any(len(s) == 1 and len(longest) == 2 and dims_equal(s[0], longest[0]) is True for s in shapes)
