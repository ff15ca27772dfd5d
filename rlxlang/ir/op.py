"""The record that holds everything about one operation, and the table of all of them.

An op is a row: its shape rule, its meaning in NumPy, its derivative rules in both modes, its batching rule, its lowering
and its samples stand together in one file of `rlxlang.ops`. Rules emit nodes through the `Builder`, so transforms compose.

Conventions of the rules (`Node` values throughout; None stands for a zero tangent or cotangent):

- `infer(context, *types, **attrs)` gives the result type, or raises `TypeProblem`; sizes it cannot decide become guards.
- `reference(*arrays, **attrs)` is the meaning: NumPy in, NumPy out; sizes in attributes arrive as numbers.
- `jvp(b, node, primals, tangents)` gives the tangent of `node`, the result already emitted for `primals`.
- `vjp(b, node, primals, cotangent)` gives one cotangent per input.
- `batch(b, node, args, axes, size)` applies the op to `args`, whose batch axis is `axes[k]` (None: not batched) and gives
  the result with the position of its batch axis. `node` is the unbatched node: its attributes and input types count.
- For a node with several results tangents, cotangents and results are tuples.
- `lower` is a record of `rlxlang.ops.lowering` that tells the kernel builder what kind of loop the op is.
- `decompose(b, *inputs, **attrs)` of a composite op expresses it in other ops; a rule may be `VIA_DECOMPOSITION`.
- `bound(node)` of an op that takes positions tells which operand holds them and what they count in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlxlang.types import DimLike

if TYPE_CHECKING:
    from rlxlang.ir.surface import Surface

Infer = Callable[..., Any]
Reference = Callable[..., Any]
Decompose = Callable[..., Any]
Samples = Callable[[np.random.Generator], Sequence["Sample"]]


class Rule(Enum):
    """Rules that are not functions: explicit values, so that no absence is an accident."""

    VIA_DECOMPOSITION = "through the op's decomposition"
    ZERO = "no gradient: zero tangents and cotangents"
    UNDEFINED = "differentiating raises an error"


VIA_DECOMPOSITION, ZERO, UNDEFINED = Rule.VIA_DECOMPOSITION, Rule.ZERO, Rule.UNDEFINED
DerivativeRule = Callable[..., Any] | Rule
BatchRule = Callable[..., Any] | Rule


class Bound(NamedTuple):
    """Which positions an op takes: operand `operand` holds numbers in `-size … size-1`, or the one that is skipped."""

    operand: int
    size: DimLike
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One application of an op for the conformance tests: NumPy operands and attributes.

    Attributes:
        args: Operands, float64 where the op takes floats (tests cast them).
        attrs: Attributes of the node.
        smooth: Whether the op is differentiable around these operands (else only values and special points are tested).
        mixable: Whether operands with the same entries in any other order are in the domain too (else multiples of them are).
    """

    args: tuple[np.ndarray[Any, Any], ...]
    attrs: dict[str, Any]
    smooth: bool = True
    mixable: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One row of the op table; see the module's text for the conventions of each field."""

    name: str
    doc: str
    infer: Infer
    reference: Reference
    jvp: DerivativeRule
    vjp: DerivativeRule
    batch: BatchRule
    lower: Any
    samples: Samples
    surface: Surface | None = None
    decompose: Decompose | None = None
    bound: Callable[[Any], Bound] | None = None

    def __post_init__(self) -> None:
        if self.decompose is None and VIA_DECOMPOSITION in (self.jvp, self.vjp, self.batch, self.lower):
            raise ValueError(f"op `{self.name}` has a rule through its decomposition, and no decomposition")

    def __repr__(self) -> str:
        return f"op {self.name}"


OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add a row to the table; returns it.

    Raises:
        ValueError: The name is taken.
    """
    if op.name in OPS:
        raise ValueError(f"op `{op.name}` is defined twice")
    OPS[op.name] = op
    if op.surface is not None:
        from rlxlang.ir.surface import add_surface

        add_surface(op.surface)
    return op
