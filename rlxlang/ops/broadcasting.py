"""From what users write to strict ops: weak numbers, promotion of element types, broadcasting of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.types import (
    I32,
    Dim,
    DType,
    PromotionProblem,
    Shape,
    ShapeContext,
    TypeProblem,
    broadcast_shapes,
    float_dtype,
    promote,
    weak_dtype,
)

Number: TypeAlias = bool | int | float | complex
Value: TypeAlias = Node | Number | Dim
"""What an argument for a tensor may be: a node, a weak number, or a size used as a number."""


def is_value(value: Any) -> bool:
    """Whether an argument is a tensor, a number or a size."""
    return isinstance(value, (Node, bool, int, float, complex, Dim, np.bool_, np.integer, np.floating))


def require_value(op: str, value: Any, name: str = "") -> None:
    """Refuse an argument that is no tensor or number (E0304)."""
    if not is_value(value):
        wanted = (
            f"argument `{name}` of `{op}` is a tensor"
            if name
            else f"`{op}` takes tensors"
            if op
            else "a tensor is expected"
        )
        help_ = "index the list, as in `parts[0]`, or `stack` it" if isinstance(value, (list, tuple)) else ""
        raise TypeProblem("E0304", f"{wanted}, and {describe(value)} is given", (), help_)


def describe(value: Any) -> str:
    """A static value as messages name it."""
    if isinstance(value, Node):
        return f"a tensor {value.type}"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the string "{value}"'
    return f"{value}"


def _check_range(value: Number, dtype: DType) -> None:
    if isinstance(value, (complex, bool)):
        return
    if dtype.is_integer:
        low, high = dtype.integer_range
        if not low <= value <= high:
            raise TypeProblem(
                "E0351",
                f"{value} is outside the range {low} … {high} of {dtype}",
                (),
                f"cast the {dtype} tensor to a wider dtype",
            )
    if dtype.is_float and math.isfinite(value) and abs(value) > dtype.largest:
        with np.errstate(over="ignore"):
            overflows = not np.isfinite(np.asarray(float(value)).astype(dtype.numpy))
        if overflows:
            help_ = f"write `{'-' if value < 0 else ''}inf`, or cast the {dtype} tensor to F32"
            largest = f"whose largest value is {dtype.largest:g}"
            raise TypeProblem(
                "E0351", f"{value} is too large for {dtype}, {largest}", (), help_ if dtype.bits < 32 else ""
            )


def number_node(b: Builder, value: Number | Dim, dtype: DType) -> Node:
    """A scalar of a weak number or size.

    Raises:
        TypeProblem: E0351 the number is outside the range of the dtype.
    """
    if isinstance(value, Dim):
        return b.emit("dim_size", dim=value, dtype=dtype)
    if dtype.kind != "bool":
        _check_range(value, dtype)
    return b.full(value, dtype)  # type: ignore[arg-type]


def weak_type(value: Number | Dim, tensor: DType | None = None) -> DType:
    """The dtype of a weak number or size beside a tensor's, or alone."""
    return weak_dtype(1 if isinstance(value, Dim) else value, tensor)


def as_node(b: Builder, value: Value, like: DType | None = None) -> Node:
    """A value as a tensor: a node stays, a number becomes a scalar of the dtype it takes beside `like`."""
    if isinstance(value, Node):
        return value
    require_value("", value)
    return number_node(b, value, weak_type(value, like))


def common_dtype(op: str, values: Sequence[Value]) -> DType:
    """The element type that operands of an op take together.

    Raises:
        TypeProblem: E0302 U64 with a signed integer.
    """
    tensors = [v.dtype for v in values if isinstance(v, Node)]
    strong: DType | None = None
    for dtype in tensors:
        try:
            strong = dtype if strong is None else promote(strong, dtype)
        except PromotionProblem as problem:
            raise TypeProblem("E0302", f"`{op}`: {problem}", (), "cast one of them first") from None
    result = strong
    for value in values:
        if not isinstance(value, Node):
            own = weak_type(value, strong)
            result = own if result is None else promote(result, own)
    assert result is not None
    return result


def promoted(b: Builder, op: str, values: Sequence[Value], dtype: DType | None = None) -> list[Node]:
    """The values as nodes of one dtype (the common one unless given)."""
    for value in values:
        require_value(op, value)
    target = dtype or common_dtype(op, values)
    return [emit.cast(b, v, target) if isinstance(v, Node) else number_node(b, v, target) for v in values]


def broadcast(b: Builder, op: str, nodes: Sequence[Node]) -> list[Node]:
    """Nodes stretched to their common shape; dynamic axes never stretch.

    Sizes that only a run can compare become guards of the strict op that takes the nodes.

    Raises:
        TypeProblem: E0401 with the shapes.
    """
    shape = broadcast_shapes(ShapeContext(), tuple(n.shape for n in nodes), f"`{op}`")
    return [stretch(b, n, shape) for n in nodes]


def stretch(b: Builder, node: Node, shape: Shape) -> Node:
    """`node` with axes of size 1 repeated and axes added in front, where the shape needs it."""
    own = node.shape
    extra = len(shape) - len(own)
    if extra == 0 and all(a != 1 or t == 1 for a, t in zip(own, shape, strict=True)):
        return node
    return emit.broadcast_to(b, node, shape)


def operands(b: Builder, op: str, values: Sequence[Value], dtype: DType | None = None) -> list[Node]:
    """The values as nodes of one dtype and one shape."""
    return broadcast(b, op, promoted(b, op, values, dtype))


def binary(b: Builder, name: str, x: Value, y: Value, dtype: DType | None = None) -> Node:
    """An elementwise op of two values after promotion and broadcasting."""
    left, right = operands(b, name, (x, y), dtype)
    return b.emit(name, left, right)


def as_float(b: Builder, op: str, value: Value, *, is_complex_allowed: bool = False) -> Node:
    """A value as a tensor of floats: integers and Bool become F32, and C64 stays where it is allowed."""
    require_value(op, value)
    node = as_node(b, value)
    if node.dtype.kind == "complex" and not is_complex_allowed:
        help_ = "`real`, `imag`, `abs` and `angle` give real numbers"
        raise TypeProblem("E0301", f"`{op}` is not defined for C64", (), help_)
    return emit.cast(b, node, float_dtype(node.dtype))


def tensor_argument(op: str, value: Any, name: str) -> Node:
    """An argument that must be a tensor.

    Raises:
        TypeProblem: E0304.
    """
    if not isinstance(value, Node):
        raise TypeProblem("E0304", f"argument `{name}` of `{op}` is a tensor, and {describe(value)} is given")
    return value


def integer_indices(b: Builder, op: str, value: Value) -> Node:
    """Indices as integers; floats that encode integers are truncated and have no gradient.

    Raises:
        TypeProblem: E0301 for Bool and complex indices.
    """
    node = as_node(b, value)
    if node.dtype.is_integer:
        return node
    if node.dtype.is_float:
        return emit.cast(b, node, I32)
    help_ = "use `where` to choose by a Bool tensor" if node.dtype.kind == "bool" else ""
    raise TypeProblem("E0301", f"the indices of `{op}` are integers, and {node.dtype} is given", (), help_)
