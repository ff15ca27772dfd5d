"""What kind of loop an op is: the records in the `lower` field of the op table, read by the kernel builder.

A record names the shape of the computation only; axes, sizes and options are in the node's attributes, whose names are
listed with each record. An op whose `lower` is `VIA_DECOMPOSITION` is replaced by its decomposition before kernels are made,
unless a kernel takes it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlxlang.kernels import Expr
from rlxlang.types import DType

ScalarBuilder: TypeAlias = Callable[[tuple[Expr, ...], Mapping[str, Any], DType], Expr]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Every element of the result is a function of the elements at the same place of operands of equal shape.

    `function` is a scalar function of `rlxlang.kernels.functions`, or `f(args, attrs, dtype)` that builds the expression from
    those of the operands. `dtype` is the type of the result as computed (F32 where the node's is F16 or BF16).
    """

    function: str | ScalarBuilder


@dataclass(frozen=True, slots=True)
class View:
    """A rearrangement that an index map expresses.

    `kind` and the attributes: `transpose` (perm), `broadcast_to` (shape), `slice` (starts, stops, steps), `flip` (axes),
    `pad` (low, high, value), `windows` (axes, sizes, strides, dilations).
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in row-major order under another shape (attribute shape)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The operand unchanged (`stop_gradient`)."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """The operand unchanged, in the same buffer; nothing is fused across it (`barrier`)."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction over axes, which vanish.

    `op` is one of `kernels.functions.REDUCTIONS`; attributes: axes (ascending), for argmax and argmin axis. Where the type of
    the result is wider than the operand's, elements are cast first.
    """

    op: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix reduction along an axis (attributes axis, exclusive, reverse); `op` is `sum`, `prod`, `max` or `min`.

    Of two operands the first multiplies the sum so far before the second is added.
    """

    op: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """A batched matrix product (attributes batch and contract: pairs of tuples of axes of the left and right operand).

    The axes of the result are the batch axes, the free axes of the left and those of the right operand, each in order.
    """


@dataclass(frozen=True, slots=True)
class GatherAxis:
    """Entries along an axis: operands data, indices; attribute axis, which the axes of the indices replace."""


@dataclass(frozen=True, slots=True)
class TakeAlong:
    """One entry along an axis per place: data and indices agree except on attribute axis; the result is shaped as the indices."""


@dataclass(frozen=True, slots=True)
class ScatterAxis:
    """Data with updates combined into entries along an axis: operands data, indices, updates; attribute axis.

    The updates have the shape that `take` of data at the indices would have. `mode` is `add` (duplicates add up) or `set`
    (the last of equal indices in row-major order wins).
    """

    mode: str


@dataclass(frozen=True, slots=True)
class Concat:
    """Any number of operands joined along attribute axis."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The transpose of the view `windows`: its attributes, and the lengths of the axes in the result."""


@dataclass(frozen=True, slots=True)
class Iota:
    """The position along attribute axis, as the node's dtype; attribute shape."""


@dataclass(frozen=True, slots=True)
class SizeScalar:
    """A scalar that holds the value of a size; attributes dim, dtype."""


@dataclass(frozen=True, slots=True)
class ConstantData:
    """Known data; attribute data, a `Constant`."""


@dataclass(frozen=True, slots=True)
class InputData:
    """A named input or parameter; attributes name, kind."""


@dataclass(frozen=True, slots=True)
class ScanLoop:
    """A loop over a body graph; attributes body, length, carries, sources, reverse (see `rlxlang.ops.control`)."""


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """A loop over a body graph while a condition graph holds; attributes cond, body, carries, limit (see `rlxlang.ops.control_loop`)."""


@dataclass(frozen=True, slots=True)
class BranchOf:
    """One of two graphs, by a Bool scalar; attributes then, orelse (see `rlxlang.ops.control_branch`)."""


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of a routine of `rlxlang.kernels.library` on whole arrays; the attributes of the node are its options."""

    routine: str


@dataclass(frozen=True, slots=True)
class SortRows:
    """The first entries of the sorted last axis and their positions (attributes count, descending; see `rlxlang.kernels.sorting`)."""


@dataclass(frozen=True, slots=True)
class ComplexParts:
    """An op on complex numbers that is taken apart into ops on real and imaginary parts before kernels are made."""


@dataclass(frozen=True, slots=True)
class Reinterpret:
    """The operand's memory under another dtype: C64 as F32 with a last axis of 2, or back."""


@dataclass(frozen=True, slots=True)
class Item:
    """One result of a node with several; attribute index."""
