"""What users call to make tensors from nothing, and masks of triangles."""

from __future__ import annotations

import math
from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import dtype_argument, static_dim, static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, integer_indices, number_node
from rlxlang.ops.surface_shape import dims_argument
from rlxlang.types import F32, I32, Dim, DimLike, DType, Shape, TypeProblem

_F32 = Parameter("dtype", "dtype", F32)
_DIMS = Parameter("dims", "dims")


def _shape(op: str, dims: Any) -> Shape:
    return tuple(static_dim(op, d, "dims") for d in dims_argument(op, dims))


def _filled(op: str, value: int) -> Any:
    def build(b: Builder, dims: Any, dtype: Any = F32) -> Node:
        return b.full(value, dtype_argument(op, dtype), _shape(op, dims))

    return build


def _full(b: Builder, dims: Any, value: Value, dtype: Any = None) -> Node:
    target = None if dtype is None else dtype_argument("full", dtype)
    node = as_node(b, value) if target is None or isinstance(value, Node) else number_node(b, value, target)
    if target is not None:
        node = emit.cast(b, node, target)
    return emit.broadcast_to(b, node, _shape("full", dims))


def _like(value: int) -> Any:
    return lambda b, x: b.full_like(as_node(b, x), value)


def _full_like(b: Builder, x: Value, value: Value) -> Node:
    node = as_node(b, x)
    filled = value if isinstance(value, Node) else number_node(b, value, node.dtype)
    return emit.broadcast_to(b, emit.cast(b, filled, node.dtype), node.shape)


def _arange(b: Builder, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Node:
    if stop is None:
        start, stop = 0, start
    whole = all(isinstance(v, (int, Dim)) and not isinstance(v, bool) for v in (start, stop, step))
    target: DType = dtype_argument("arange", dtype) if dtype is not None else I32 if whole else F32
    if any(isinstance(v, Dim) for v in (start, stop)):
        by: float = static_int("arange", step, "step")
        if by != 1:
            raise TypeProblem("E0350", f"`arange` to a dynamic size has step 1, and {by} is given")
        count: DimLike = stop - start
    else:
        first, last, by = (static_number("arange", v, n) for v, n in ((start, "start"), (stop, "stop"), (step, "step")))
        if by == 0:
            raise TypeProblem("E0350", "the step of `arange` is 0")
        count = max(0, math.ceil((last - first) / by))
    line = emit.iota(b, (count,), 0, target)
    if isinstance(start, Dim):
        return emit.add(b, line, emit.number(b, start, line))
    return emit.shift(b, emit.scale(b, line, by), start)


def _linspace(b: Builder, start: Any, stop: Any, count: Any, dtype: Any = F32) -> Node:
    target = dtype_argument("linspace", dtype)
    first, last = static_number("linspace", start, "start"), static_number("linspace", stop, "stop")
    number = static_int("linspace", count, "count")
    if number < 0 or not target.is_float:
        raise TypeProblem("E0350", f"`linspace` makes floats, {number} of {target} are asked for")
    if number < 2:
        return b.full(first, target, (number,))
    line = emit.iota(b, (number,), 0, target)
    # From both ends, so that each end is exact.
    up = emit.shift(b, emit.scale(b, line, (last - first) / (number - 1)), first)
    is_last = emit.compare(b, "eq", line, number - 1)
    return emit.select(b, is_last, b.full_like(up, last), up)


def _eye(b: Builder, n: Any, m: Any = None, dtype: Any = F32) -> Node:
    target = dtype_argument("eye", dtype)
    rows = static_dim("eye", n, "n")
    shape = (rows, rows if m is None else static_dim("eye", m, "m"))
    equal = emit.compare(b, "eq", emit.iota(b, shape, 0, I32), emit.iota(b, shape, 1, I32))
    return emit.cast(b, equal, target)


def _triangle(name: str, relation: str) -> Any:
    def build(b: Builder, x: Value, diagonal: Any = 0) -> Node:
        node = as_node(b, x)
        rank = len(node.shape)
        if rank < 2:
            raise TypeProblem("E0404", f"`{name}` takes matrices, and {node.type} is given")
        row, column = emit.iota(b, node.shape, rank - 2, I32), emit.iota(b, node.shape, rank - 1, I32)
        limit = emit.shift(b, row, static_int(name, diagonal, "diagonal"))
        return emit.keep(b, emit.compare(b, relation, column, limit), node)

    return build


def _diag(b: Builder, x: Value) -> Node:
    node = as_node(b, x)
    rank = len(node.shape)
    if rank == 1:
        size = node.shape[0]
        shape = (size, size)
        equal = emit.compare(b, "eq", emit.iota(b, shape, 0, I32), emit.iota(b, shape, 1, I32))
        return emit.keep(b, equal, emit.broadcast_to(b, node, shape))
    if rank < 2:
        raise TypeProblem("E0404", f"`diag` takes a vector or matrices, and {node.type} is given")
    return diagonal(b, node, rank - 2, rank - 1)


def diagonal(b: Builder, x: Node, first: int, second: int) -> Node:
    """The entries where two axes agree; the second axis vanishes, the first one keeps its place."""
    from rlxlang.types.dim import minimum

    equal = emit.compare(b, "eq", emit.iota(b, x.shape, first, I32), emit.iota(b, x.shape, second, I32))
    line = emit.reduce_sum(b, emit.keep(b, equal, x), (second,))
    axis = first if first < second else first - 1
    return emit.slice_axis(b, line, axis, 0, minimum(x.shape[first], x.shape[second]))


def _one_hot(b: Builder, indices: Value, n: Any, dtype: Any = F32) -> Node:
    target = dtype_argument("one_hot", dtype)
    node = integer_indices(b, "one_hot", indices)
    count = static_dim("one_hot", n, "n")
    shape = (*node.shape, count)
    spread = emit.insert_axis(b, node, len(node.shape), count)
    return emit.cast(b, emit.compare(b, "eq", spread, emit.iota(b, shape, len(node.shape), node.dtype)), target)


surface("zeros", (_DIMS, _F32), _filled("zeros", 0), "A tensor of zeros.", method=False)
surface("ones", (_DIMS, _F32), _filled("ones", 1), "A tensor of ones.", method=False)
surface(
    "full",
    (_DIMS, Parameter("value", "tensor"), Parameter("dtype", "dtype", None)),
    _full,
    "A tensor filled with a number.",
    method=False,
)
surface("zeros_like", (tensor("x"),), _like(0), "Zeros of the type of x.")
surface("ones_like", (tensor("x"),), _like(1), "Ones of the type of x.")
surface("full_like", (tensor("x"), Parameter("value", "tensor")), _full_like, "A number in the type of x.")
surface(
    "arange",
    (Parameter("start", "any"), Parameter("stop", "any", None), Parameter("step", "any", 1), Parameter("dtype", "dtype", None)),
    _arange,
    "Numbers from start (0 if left out) up to stop; I32, or F32 when a bound is a float.",
    method=False,
)  # fmt: skip
surface(
    "linspace",
    (Parameter("start", "float"), Parameter("stop", "float"), Parameter("count", "int"), _F32),
    _linspace,
    "Evenly spaced numbers, both ends included.",
    method=False,
)
surface("eye", (Parameter("n", "dim"), Parameter("m", "dim", None), _F32), _eye, "Ones on the diagonal.", method=False)
surface(
    "tril",
    (tensor("x"), Parameter("diagonal", "int", 0)),
    _triangle("tril", "le"),
    "Zeros above a diagonal of the last two axes.",
)
surface(
    "triu",
    (tensor("x"), Parameter("diagonal", "int", 0)),
    _triangle("triu", "ge"),
    "Zeros below a diagonal of the last two axes.",
)
surface("diag", (tensor("x"),), _diag, "The diagonal of matrices, or the matrix with a diagonal.")
surface(
    "one_hot",
    (tensor("indices"), Parameter("n", "dim"), _F32),
    _one_hot,
    "Ones at the indices along a new last axis; zeros for an index out of range.",
)
