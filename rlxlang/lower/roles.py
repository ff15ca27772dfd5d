"""What each node becomes: part of a fused kernel, an index map inside one, or a value with a buffer and a kernel of its own."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from rlxlang.ir import Node
from rlxlang.kernels import Apply, Const, Expr
from rlxlang.lower.coords import ZERO, Coord, Term, identity, reshape_coords, view_coords
from rlxlang.ops import lowering as how
from rlxlang.types import F32, I64, DType


class Role(Enum):
    """How a node takes part in the program."""

    FUSED = "computed inside a fused kernel: elementwise, reduction or contraction"
    INLINE = "an index map: read where it is used, never stored by itself"
    ALIAS = "the same buffer under another shape"
    OWN = "a kernel and a buffer of its own"
    GIVEN = "a buffer that exists before: inputs, parameters, constants"


def role_of(node: Node) -> Role:
    """The role of a node; depends on its op and shape alone."""
    record = node.op.lower
    if isinstance(record, (how.Elementwise, how.Reduction, how.Contraction)):
        return Role.FUSED
    if isinstance(record, how.View):
        return Role.OWN if record.kind == "pad" else Role.INLINE
    if isinstance(record, (how.Identity, how.GatherAxis, how.TakeAlong, how.Iota, how.SizeScalar)):
        return Role.INLINE
    if isinstance(record, how.Reshape):
        source = node.inputs[0].shape
        affine = reshape_coords(node.shape, source, identity(node.shape)) is not None
        return Role.INLINE if affine else Role.ALIAS
    if isinstance(record, (how.Barrier, how.Reinterpret)):
        return Role.ALIAS
    if isinstance(record, how.ConstantData):
        return Role.GIVEN if node.tensor.rank else Role.INLINE
    if isinstance(record, how.InputData):
        return Role.GIVEN
    return Role.OWN


def step_inward(node: Node, coords: tuple[Coord, ...]) -> tuple[Node, tuple[Coord, ...]] | None:
    """One step through a view with a single operand: that operand and its coordinates; None for other inline nodes."""
    record = node.op.lower
    if isinstance(record, how.View):
        moved = view_coords(node, coords, record.kind)
    elif isinstance(record, how.Identity):
        moved = coords
    elif isinstance(record, how.Reshape):
        moved = view_coords(node, coords, "reshape")
    else:
        return None
    return None if moved is None else (node.inputs[0], moved)


def index_operands(node: Node, coords: tuple[Coord, ...]) -> tuple[tuple[Coord, ...], int]:
    """Where a gather reads its indices, and the number of axes these take in the result."""
    axis = node.attrs["axis"]
    if isinstance(node.op.lower, how.GatherAxis):
        rank = node.inputs[1].tensor.rank
        return coords[axis : axis + rank], rank
    return coords, 1


def data_coords(node: Node, coords: tuple[Coord, ...], index: Expr) -> tuple[Coord, ...]:
    """Where a gather reads its data, given the index read at this point."""
    axis = node.attrs["axis"]
    size = node.inputs[0].shape[axis]
    picked = Coord(0, (), (Term(index, size, 1),))
    if isinstance(index, Const):
        value = int(index.value)
        picked = Coord(value) if value >= 0 else Coord(size + value)
    _, taken = index_operands(node, coords)
    return (*coords[:axis], picked, *coords[axis + taken :])


_SOME_INDEX = Apply("index", (), I64)  # stands for a run-time index while only the structure matters


def sources(node: Node, coords: tuple[Coord, ...]) -> Iterator[tuple[Node, tuple[Coord, ...]]]:
    """The nodes with a value of their own that are read to know `node` at `coords`, and where; through index maps only."""
    todo = [(node, coords)]
    seen: set[tuple[Node, tuple[Coord, ...]]] = set()
    while todo:
        current, place = todo.pop()
        if (current, place) in seen:
            continue
        seen.add((current, place))
        if role_of(current) is not Role.INLINE:
            yield current, place
            continue
        inner = step_inward(current, place)
        if inner is not None:
            todo.append(inner)
        elif isinstance(current.op.lower, (how.GatherAxis, how.TakeAlong)):
            where, _ = index_operands(current, place)
            todo.append((current.inputs[1], where))
            todo.append((current.inputs[0], data_coords(current, place, _SOME_INDEX)))


def operand_sources(node: Node) -> list[tuple[Node, tuple[Coord, ...]]]:
    """The sources of all operands of a fused node at the identity of its domain (the operand's shape for a reduction)."""
    found = []
    for operand in node.inputs:
        found += list(sources(operand, identity(operand.shape)))
    return found


def compute_dtype(dtype: DType) -> DType:
    """The type in which values of a dtype are computed: half precision in F32."""
    return F32 if dtype.name in ("F16", "BF16") else dtype


def is_unit(coord: Coord) -> bool:
    """Whether a coordinate is constantly 0."""
    return coord == ZERO
