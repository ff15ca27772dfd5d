"""What users call of products: `@`, linear, dot, outer, einsum and their relatives."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, choice, int_list, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, binary, describe, promoted, stretch
from rlxlang.ops.precision import PRECISION, of_precision
from rlxlang.ops.rules import require_guards
from rlxlang.types import ShapeContext, TypeProblem, broadcast_shapes, dims_equal

_PAIR = (tensor("x"), tensor("y"))


def _matrices(b: Builder, op: str, x: Value, y: Value) -> tuple[Node, Node]:
    left, right = promoted(b, op, (x, y))
    for node in (left, right):
        if not node.shape:
            raise TypeProblem(
                "E0404",
                f"`{op}` takes vectors, matrices or batches of them, and a scalar is given",
                (),
                "`*` scales a tensor",
            )
    return left, right


def _inner_sizes(op: str, left: Node, p: int, right: Node, q: int) -> None:
    if dims_equal(left.shape[p], right.shape[q]) is False:
        raise TypeProblem(
            "E0402",
            f"the inner sizes of `{op}` differ: {left.shape[p]} and {right.shape[q]}",
            (f"the left operand is {left.type}, the right one {right.type}",),
            _other_way_around(op, left, p, right),
        )


def _other_way_around(op: str, left: Node, p: int, right: Node) -> str:
    """What to write where the right operand would fit transposed."""
    if len(right.shape) != 2 or p != len(left.shape) - 1:
        return ""
    rows, columns = (dims_equal(left.shape[p], size) is True for size in right.shape)
    if op == "@" and columns:
        return "the right operand fits transposed: `x @ transpose(w)`, or `linear(x, w)` for weights [out, in]"
    return "`linear` takes weights [out, in]; for [in, out] write `x @ w`" if op == "linear" and rows else ""


def matmul(b: Builder, x: Value, y: Value, op: str = "@", transposed: bool = False, precision: Any = "highest") -> Node:
    """The product as NumPy's `matmul`; with `transposed` the last axis of `y` is summed over."""
    left, right = _matrices(b, op, *(of_precision(b, op, v, precision) for v in (x, y)))
    p, q = len(left.shape), len(right.shape)
    inner = q - 1 if transposed or q == 1 else q - 2
    _inner_sizes(op, left, p - 1, right, inner)
    if q <= 2:
        return emit.dot(b, left, right, ((p - 1,), (inner,)))
    if p == 1:
        lead = tuple(range(q - 2))
        product = emit.dot(b, left, right, ((0,), (inner,)))
        return emit.transpose(b, product, (*lead, q - 2))
    context = ShapeContext()
    lead_shape = broadcast_shapes(context, (left.shape[:-2], right.shape[:-2]), f"the leading axes of `{op}`")
    require_guards(b, context)
    left = stretch(b, left, (*lead_shape, *left.shape[-2:]))
    right = stretch(b, right, (*lead_shape, *right.shape[-2:]))
    rank = len(lead_shape) + 2
    lead = tuple(range(rank - 2))
    return emit.dot(b, left, right, ((rank - 1,), (rank - 1 if transposed else rank - 2,)), (lead, lead))


def linear(b: Builder, x: Value, w: Value, bias: Value | None = None, precision: Any = "highest") -> Node:
    """X · wᵀ + bias with the weight `[out, in]`."""
    left, right = _matrices(b, "linear", *(of_precision(b, "linear", v, precision) for v in (x, w)))
    if len(right.shape) != 2:
        raise TypeProblem("E0404", f"the weight of `linear` is a matrix [out, in], and {right.type} is given")
    result = matmul(b, left, right, "linear", transposed=True)
    if bias is None:
        return result
    node = as_node(b, bias, result.dtype)
    if len(node.shape) > 1:
        raise TypeProblem("E0404", f"the bias of `linear` is a vector [out], and {node.type} is given")
    if node.shape:
        context = ShapeContext()
        context.same(right.shape[0], node.shape[0], "the outputs of the weight and the size of the bias of `linear`")
        require_guards(b, context)
    return binary(b, "add", result, node)


ACTIVATIONS = ("none", "relu", "gelu", "gelu_approx", "silu", "tanh", "sigmoid")


def _linear_act(b: Builder, x: Value, w: Value, bias: Value | None, act: Any, precision: Any) -> Node:
    word = choice("linear_act", act, "act", ACTIVATIONS)
    result = linear(b, x, w, bias, precision)
    return result if word == "none" else b.emit(word, result)


def _dot(b: Builder, x: Value, y: Value, precision: Any = "highest") -> Node:
    left, right = _matrices(b, "dot", *(of_precision(b, "dot", v, precision) for v in (x, y)))
    if len(left.shape) == 1 or len(right.shape) == 1:
        return matmul(b, left, right, "dot")
    p, q = len(left.shape), len(right.shape)
    _inner_sizes("dot", left, p - 1, right, q - 2)
    return emit.dot(b, left, right, ((p - 1,), (q - 2,)))


def _outer(b: Builder, x: Value, y: Value) -> Node:
    left, right = (emit.reshape(b, n, (n.tensor.size,)) for n in promoted(b, "outer", (x, y)))
    return emit.dot(b, left, right, ((), ()))


def _tensordot(b: Builder, x: Value, y: Value, axes: Any = 2, precision: Any = "highest") -> Node:
    left, right = promoted(b, "tensordot", [of_precision(b, "tensordot", v, precision) for v in (x, y)])
    p, q = len(left.shape), len(right.shape)
    if isinstance(axes, int) and not isinstance(axes, bool):
        if not 0 <= axes <= min(p, q):
            raise TypeProblem("E0403", f"`tensordot` over {axes} axes of {left.type} and {right.type}")
        pairs: tuple[tuple[int, ...], tuple[int, ...]] = (tuple(range(p - axes, p)), tuple(range(axes)))
    elif isinstance(axes, tuple) and len(axes) == 2:
        first, second = (int_list("tensordot", a, "axes") for a in axes)
        pairs = (
            tuple(canonical_axis("tensordot", k, p, "axes") for k in first),
            tuple(canonical_axis("tensordot", k, q, "axes") for k in second),
        )
    else:
        raise TypeProblem(
            "E0306", f"argument `axes` of `tensordot` is a number or two lists, and {describe(axes)} is given"
        )
    if len(pairs[0]) != len(pairs[1]):
        raise TypeProblem(
            "E0408", f"`tensordot` sums {len(pairs[0])} axes of one and {len(pairs[1])} of the other operand"
        )
    return emit.dot(b, left, right, pairs)


def _dot_general(
    b: Builder, x: Value, y: Value, contract: Any, batch: Any = ((), ()), precision: Any = "highest"
) -> Node:
    left, right = promoted(b, "dot_general", [of_precision(b, "dot_general", v, precision) for v in (x, y)])
    sides = []
    for given, name in ((batch, "batch"), (contract, "contract")):
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeProblem("E0306", f"argument `{name}` of `dot_general` is two lists of axes")
        axes = [int_list("dot_general", a, name) for a in given]
        sides.append(
            tuple(
                tuple(canonical_axis("dot_general", k, len(n.shape), name) for k in a)
                for a, n in zip(axes, (left, right), strict=True)
            )
        )
    return emit.dot(b, left, right, (sides[1][0], sides[1][1]), (sides[0][0], sides[0][1]))


def _mm(b: Builder, x: Value, y: Value, precision: Any = "highest") -> Node:
    return matmul(b, x, y, precision=precision)


def _matrix_power(b: Builder, x: Value, n: Any) -> Node:
    from rlxlang.ops.arguments import static_int

    node = as_node(b, x)
    exponent = static_int("matrix_power", n, "n")
    if len(node.shape) < 2 or exponent < 1:
        raise TypeProblem(
            "E0350", f"`matrix_power` takes square matrices and a power of 1 or more, given {node.type} and {exponent}"
        )
    result: Node | None = None
    square = node
    while exponent:
        if exponent & 1:
            result = square if result is None else matmul(b, result, square)
        exponent >>= 1
        if exponent:
            square = matmul(b, square, square)
    assert result is not None
    return result


def _trace(b: Builder, x: Value) -> Node:
    from rlxlang.ops.surface_make import diagonal

    node = as_node(b, x)
    rank = len(node.shape)
    if rank < 2:
        raise TypeProblem("E0404", f"`trace` takes matrices, and {node.type} is given")
    return emit.reduce_sum(b, diagonal(b, node, rank - 2, rank - 1), (rank - 2,))


surface(
    "matmul",
    (*_PAIR, PRECISION),
    _mm,
    'Matrix product as NumPy\'s: vectors promote, leading axes broadcast (`x @ y`). `precision` of products of F32: `"highest"` and '
    '`"high"` (at least that of three products of BF16 parts), or `"bf16"`: the operands are rounded to BF16, their products summed '
    "in F32; the gradient passes the rounding.",
    "mm",
)
surface(
    "matmul_t",
    (*_PAIR, PRECISION),
    lambda b, x, y, precision: matmul(b, x, y, "matmul_t", transposed=True, precision=precision),
    "Matrix product with the transpose of y.",
)
surface(
    "linear",
    (tensor("x"), tensor("w"), tensor("b", None), PRECISION),
    lambda builder, /, x, w, b, precision: linear(builder, x, w, b, precision),
    "x·wᵀ + b with the weight w [out, in]; `precision` as of `matmul`.",
)
surface(
    "linear_act",
    (tensor("x"), tensor("w"), tensor("b", None), Parameter("act", "str", "relu"), PRECISION),
    lambda builder, /, x, w, b, act, precision: _linear_act(builder, x, w, b, act, precision),
    "An activation of `linear(x, w, b)`.",
)
surface(
    "dot",
    (*_PAIR, PRECISION),
    _dot,
    "Product over the last axis of x and the last but one of y; of vectors their inner product.",
)
surface("outer", _PAIR, _outer, "All products of two flattened tensors.")
surface("tensordot", (*_PAIR, Parameter("axes", "any", 2), PRECISION), _tensordot, "Product summed over some axes.")
surface(
    "dot_general",
    (*_PAIR, Parameter("contract", "any"), Parameter("batch", "any", ((), ())), PRECISION),
    _dot_general,
    "Product summed over pairs of axes, with batch axes first.",
)
surface("matrix_power", (tensor("x"), Parameter("n", "int")), _matrix_power, "Repeated matrix product.")
surface("trace", (tensor("x"),), _trace, "Sum of the diagonal of matrices.")
