"""Rules that many ops share: shape rules, derivatives from an expression, batching by shifting axes, linear ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rlxlang.ir import Builder, Node, SourcedGuard
from rlxlang.ops import emit
from rlxlang.types import BOOL, DimLike, DType, Shape, ShapeContext, TensorType, TypeProblem

Partial: TypeAlias = Callable[[Builder, tuple[Node, ...], Node], Node]
"""`partial(b, operands, result)`: the derivative of an elementwise result by one operand."""

Batched: TypeAlias = tuple[Node, int | None]

_KIND_WORDS = {
    "float": "float",
    "int": "signed integer",
    "uint": "unsigned integer",
    "bool": "Bool",
    "complex": "complex",
}


# --------------------------------------------------------------------------------------------- shape rules


def require_kinds(op: str, dtype: DType, kinds: Sequence[str]) -> None:
    """Refuse an element type of another kind.

    Raises:
        TypeProblem: E0301.
    """
    if dtype.kind not in kinds:
        words = ", ".join(_KIND_WORDS[k] for k in kinds)
        help_ = "`real`, `imag`, `abs` and `angle` give real numbers" if dtype.kind == "complex" else ""
        raise TypeProblem("E0301", f"`{op}` takes tensors of kind {words}, and {dtype} is given", (), help_)


def infer_elementwise(op: str, kinds: Sequence[str], result: DType | None = None) -> Callable[..., TensorType]:
    """The shape rule of an op whose operands have one type, and whose result has it too or the dtype `result`."""

    def infer(context: ShapeContext, *types: TensorType, **_: Any) -> TensorType:
        first = types[0]
        require_kinds(op, first.dtype, kinds)
        shape = first.shape
        for other in types[1:]:
            if other.dtype != first.dtype:
                raise TypeProblem(
                    "E0302", f"the dtypes of the operands of `{op}` differ: {first.dtype} and {other.dtype}"
                )
            shape = context.same_shape(shape, other.shape, f"the shapes of the operands of `{op}`")
        return TensorType(result or first.dtype, shape)

    return infer


def require_axis(op: str, axis: int, rank: int) -> None:
    """Refuse a canonical axis outside `0 … rank-1` (E0403)."""
    if not 0 <= axis < rank:
        raise TypeProblem("E0403", f"`{op}` of a tensor of rank {rank} has no axis {axis}")


def infer_through(decompose: Callable[..., Any]) -> Callable[..., TensorType]:
    """The shape rule of a composite op: that of its decomposition."""

    def infer(context: ShapeContext, *types: TensorType, **attrs: Any) -> TensorType:
        scratch = Builder()
        inputs = [scratch.input(f"x{k}", t.dtype, t.shape) for k, t in enumerate(types)]
        result = decompose(scratch, *inputs, **attrs)
        context.guards.extend(scratch.guards)
        return result.tensor  # type: ignore[no-any-return]

    return infer


# --------------------------------------------------------------------------------------------- derivatives


def derivative_rules(*partials: Partial | None, guarded: bool = False) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The jvp and vjp rules of an elementwise op from its partial derivatives, one for each operand (None: zero).

    With `guarded` a zero tangent or cotangent gives zero even where the derivative is infinite or NaN; one that `where` has set to
    zero does always.
    """

    def times(b: Builder, change: Node, slope: Node) -> Node:
        return emit.mul_safe(b, change, slope) if guarded or emit.is_gated(change) else emit.mul(b, change, slope)

    def jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
        terms = [
            times(b, t, d(b, tuple(primals), node))
            for d, t in zip(partials, tangents, strict=True)
            if d is not None and t is not None
        ]
        return emit.add_present(b, *terms)

    def vjp(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node | None, ...]:
        return tuple(None if d is None else times(b, ct, d(b, tuple(primals), node)) for d in partials)

    return jvp, vjp


def jvp_linear(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    """The tangent of an op that is linear in all its operands together: the op itself, zeros for absent tangents."""
    if all(t is None for t in tangents):
        return None
    filled = [b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    return b.emit(node.op, *filled, **node.attrs)


def jvp_multilinear(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    """The tangent of an op that is linear in each operand: the sum over operands of the op with one replaced."""
    terms = [
        b.emit(node.op, *primals[:k], t, *primals[k + 1 :], **node.attrs)
        for k, t in enumerate(tangents)
        if t is not None
    ]
    return emit.add_present(b, *terms)


# --------------------------------------------------------------------------------------------- batching


def to_front(b: Builder, x: Node, axis: int | None, size: DimLike) -> Node:
    """`x` with its batch axis first; repeated along a new one when it is not batched."""
    return emit.insert_axis(b, x, 0, size) if axis is None else emit.move_axis(b, x, axis, 0)


def batch_elementwise(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> Batched:
    """Batching of an op on operands of one shape: all batch axes at one place."""
    target = next(a for a in axes if a is not None)
    moved = [
        emit.insert_axis(b, x, target, size) if a is None else emit.move_axis(b, x, a, target)
        for x, a in zip(args, axes, strict=True)
    ]
    return b.emit(node.op, *moved, **node.attrs), target


def batch_leaf(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    """Batching of an op without operands: the op itself, not batched."""
    return b.emit(node.op, **node.attrs), None


def batch_front(shift: Callable[[dict[str, Any], Node], dict[str, Any]]) -> Callable[..., Batched]:
    """Batching with the batch axis of every operand first; `shift(attrs, node)` gives the attributes for it."""

    def batch(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
        moved = [to_front(b, x, a, size) for x, a in zip(args, axes, strict=True)]
        return b.emit(node.op, *moved, **shift(dict(node.attrs), node)), 0

    return batch


def shift_axis(attrs: dict[str, Any], node: Node) -> dict[str, Any]:
    """Attributes with `axis` one further."""
    return attrs | {"axis": attrs["axis"] + 1}


def shift_axes(attrs: dict[str, Any], node: Node) -> dict[str, Any]:
    """Attributes with `axes` one further."""
    return attrs | {"axes": tuple(a + 1 for a in attrs["axes"])}


batch_axis = batch_front(shift_axis)
batch_axes = batch_front(shift_axes)


# --------------------------------------------------------------------------------------------- guards of surfaces


def require_guards(b: Builder, context: ShapeContext) -> None:
    """Hand the guards of a surface's own shape decisions to the builder."""
    for guard in context.guards:
        b.require(SourcedGuard(guard, b.origin))


def bool_type(shape: Shape) -> TensorType:
    """A Bool tensor of a shape."""
    return TensorType(BOOL, shape)
