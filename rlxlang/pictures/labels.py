"""The words of a picture: types, ops with their constants and options, constants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rlxlang.diagnostics import escape
from rlxlang.ir import Constant, Graph, Node
from rlxlang.pictures.scene import Box
from rlxlang.types import Dim, DType, TensorType, TupleType

_LONGEST = 36  # characters of a line of a box
_FEW = 4  # numbers of a constant that are written out

_CATEGORIES = {
    "linear": "dot_general attention solve triangular_solve cholesky inv det slogdet lu qr svd eigh expm adjugate fma windows fold"
    " spectral_divide root",
    "norm": "layer_norm rms_norm softmax log_softmax logsumexp norm var std",
    "reduce": "sum mean max min prod all any argmax argmin cumsum cumprod cummax cummin",
    "move": "reshape transpose broadcast_to concat slice pad flip take take_along_axis scatter_add scatter_set cast select item iota"
    " dim_size barrier stop_gradient",
    "random": "dropout random_bits rng_normal rng_truncated_normal rng_uniform",
    "loss": "softmax_cross_entropy cross_entropy",
    "activation": "relu relu6 gelu gelu_approx silu sigmoid tanh softplus elu selu celu mish leaky_relu hard_swish hard_tanh"
    " hard_sigmoid softsign softcap log_sigmoid hardshrink softshrink tanhshrink",
}
_CATEGORY_OF = {op: category for category, ops in _CATEGORIES.items() for op in ops.split()}
# Ops that only move numbers: they disappear in the op that they were made for by one expression.
PLUMBING = frozenset({"reshape", "transpose", "broadcast_to", "cast", "slice", "concat", "pad", "item"})
_NO_CONSTANTS = frozenset({"layer_norm", "rms_norm", "dropout", "broadcast_to", "random_bits"})
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne", "bit_and", "bit_or", "bit_xor"})
# Options worth a place in the box; the others stand in the tooltip.
_OPTIONS = {
    "sum": "axes", "mean": "axes", "max": "axes", "min": "axes", "prod": "axes", "softmax": "axis", "log_softmax": "axis",
    "concat": "axis", "take": "axis", "argmax": "axis", "argmin": "axis", "transpose": "perm", "cumsum": "axis", "dropout": "p",
    "std": "axes", "var": "axes", "logsumexp": "axes",
}  # fmt: skip


def category(op: str) -> str:
    """Family of an op, by which it is coloured."""
    return _CATEGORY_OF.get(op, "plain")


def dims_text(tensor: TensorType) -> str:
    """The shape: dynamic axes without their question marks where they have names."""
    return "[" + ", ".join(_dim(d) for d in tensor.shape) + "]"


def _dim(dim: Dim | int) -> str:
    text = str(dim)
    for axis in dim_axes(dim):
        if axis != "?" and not axis[1:].isdigit():
            text = text.replace(axis, axis[1:])
    return text.replace("*", "·")


def dim_axes(dim: Dim | int) -> list[str]:
    """Names of the axes in a size, longest first, so that replacing one leaves the others alone."""
    from rlxlang.types import axes_of

    return sorted(axes_of(dim), key=lambda a: (-len(a), a)) if isinstance(dim, Dim) else []


@lru_cache(maxsize=4096)
def type_text(tensor: TensorType) -> str:
    """Element type and shape, `f32 [batch, 784]`; a scalar is its element type alone."""
    dtype = str(tensor.dtype).lower()
    return f"{dtype} {dims_text(tensor)}" if tensor.shape else dtype


def satellite_dims(tensor: TensorType) -> str:
    """The shape of a parameter, with its element type where that is not F32."""
    if str(tensor.dtype) == "F32":
        return dims_text(tensor) if tensor.shape else ""
    return type_text(tensor)


def constant_text(array: np.ndarray[Any, Any]) -> str:
    """A constant in few characters, or "" where it has too many numbers."""
    if array.size > _FEW:
        return ""
    numbers = [number_text(v) for v in array.reshape(-1).tolist()]
    return numbers[0] if not array.shape else f"[{', '.join(numbers)}]"


def number_text(value: Any) -> str:
    """A number as short as six digits allow."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e")
    return str(value)


def op_title(node: Node) -> str:
    """The op as it is called in a picture."""
    if node.op.name == "dot_general":
        return "matmul" if _is_plain_product(node) else "dot_general"
    return node.op.name


def _is_plain_product(node: Node) -> bool:
    contract = node.attrs["contract"]
    return len(contract[0]) == 1


def op_args(node: Node, constants: Sequence[tuple[int, str]]) -> str:
    """What follows the op in its box.

    Args:
        node: The op.
        constants: Position and text of operands that are written into the box.
    """
    op, parts = node.op.name, []
    if len(node.inputs) == 2 and node.inputs[0] is node.inputs[1] and op in ("mul", "add"):
        parts.append("with itself" if op == "mul" else "to itself")
    if constants and op not in _NO_CONSTANTS:
        if len(node.inputs) == 2:
            (position, text), *more = constants
            first = position == 0 and not more and op not in _COMMUTATIVE
            parts.append(f"{text}, ·" if first else ", ".join(t for _, t in constants))
        else:
            parts.append(", ".join(t for _, t in constants))
    option = _OPTIONS.get(op)
    if option is not None:
        parts.append(_option(node, option))
    return shortened(" ".join(p for p in parts if p))


def _option(node: Node, option: str) -> str:
    value = node.attrs.get(option)
    if value is None:
        return ""
    if option == "axes":
        rank = len(node.inputs[0].shape)
        value = tuple(value)
        return "" if not value or len(value) == rank else "axis " + ", ".join(map(str, value))
    if option == "axis":
        return f"axis {value}"
    if option == "perm":
        return " ".join(map(str, value))
    return value_text(value)


def value_text(value: Any) -> str:
    """An option of an op."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, (int, float)):
        return number_text(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    if isinstance(value, Constant):
        return constant_text(value.array) or f"{value.array.size} numbers"
    if isinstance(value, (Dim, DType)):
        return str(value)
    if isinstance(value, Graph):
        return "{…}"
    return escape(str(value))


def tooltip(box: Box) -> list[str]:
    """Lines on a box; on an op: itself with its options, its type, its work, where it stands."""
    return [*box.tooltip, *(_node_lines(box.node) if box.node is not None else [])]


def _node_lines(node: Node) -> list[str]:
    options = ", ".join(f"{k}: {value_text(node.attrs[k])}" for k in sorted(node.attrs) if k != "data")
    lines = [f"{node.op.name}({options})" if options else node.op.name]
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    lines.append(", ".join(type_text(t) for t in types))
    work = flops(node)
    if work:
        lines.append(f"{work} floating-point operations")
    lines += place_lines(node)
    return lines


def place_lines(node: Node) -> list[str]:
    """The source line of a node."""
    span = node.origin.span
    if span is None:
        return []
    text = " ".join(span.source.line_text(span.line).split())
    via = f" ({', '.join(node.origin.via)})" if node.origin.via else ""
    return [f"{span.location}{via}", escape(shortened(text, 100))]


def flops(node: Node) -> str:
    """Multiplications and additions of a matrix product, with separators; "" for other ops."""
    if node.op.name != "dot_general":
        return ""
    from rlxlang.types import product

    left = node.inputs[0].shape
    inner = product(left[k] for k in node.attrs["contract"][0])
    work = 2 * product(node.shape) * inner
    return f"{work:,}" if isinstance(work, int) else str(work)


def shortened(text: str, most: int = _LONGEST) -> str:
    """A text cut to so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def counted(number: int, what: str) -> str:
    """`1 op`, `1,234 ops`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
