"""What a rewrite rule is, and the questions that rules ask about their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rlxlang.ir import Node
from rlxlang.types import DimLike, dims_equal, is_nonnegative

if TYPE_CHECKING:
    from rlxlang.ir import Builder

Array = np.ndarray[Any, Any]


class Rewriting(Protocol):
    """What a rule may use: the builder of the new graph, and how often a value is read."""

    b: Builder

    def is_shared(self, node: Node) -> bool:
        """Whether more than one node or output reads this value, so that a rewrite would compute it twice."""
        ...


Replace = Callable[[Rewriting, Node], Node | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite.

    Attributes:
        name: What it does, `x * 1 -> x`; unique.
        op: The op it looks at, or `*` for every op.
        replace: `replace(rewriting, node)` gives an equal node of the same type, or None where the rule does not apply. Operands
            of `node` are simplified already; the driver simplifies what the rule makes.
    """

    name: str
    op: str
    replace: Replace


def number_of(node: Node) -> np.generic | None:
    """The one number that a tensor is filled with, seen through broadcasts and reshapes; None for anything else."""
    while node.op.name in ("broadcast_to", "reshape"):
        node = node.inputs[0]
    if node.op.name != "constant" or node.attrs["data"].array.ndim:
        return None
    number: np.generic = node.attrs["data"].array[()]
    return number


def is_number(node: Node, value: float) -> bool:
    """Whether a tensor is filled with this real number; 0.0 and -0.0 differ."""
    if node.dtype.kind == "complex":
        return False
    found = number_of(node)
    return found is not None and bool(found == value) and bool(np.signbit(float(found)) == np.signbit(value))


def filling(node: Node) -> Node | None:
    """The scalar that a tensor repeats at every place, or None."""
    scalar = node.inputs[0] if node.op.name == "broadcast_to" else None
    return scalar if scalar is not None and not scalar.shape else None


def same_shape(left: Sequence[DimLike], right: Sequence[DimLike]) -> bool:
    """Whether two shapes are equal whatever the dynamic sizes are."""
    return len(left) == len(right) and all(dims_equal(p, q) is True for p, q in zip(left, right, strict=True))


def surely_at_most(left: DimLike, right: DimLike) -> bool:
    """Whether `left <= right` is known now."""
    return is_nonnegative(right - left) is True
