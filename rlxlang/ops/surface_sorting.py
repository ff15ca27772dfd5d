"""What users call to sort."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, static_bool, static_dim, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node
from rlxlang.types import DimLike

_AXIS = Parameter("axis", "axis", -1)
_DESCENDING = Parameter("descending", "bool", False)


def sorted_along(b: Builder, x: Node, axis: int, count: DimLike, *, descending: bool) -> tuple[Node, Node]:
    """The first `count` entries of a sorted axis, and their positions."""
    last = len(x.shape) - 1
    found = b.emit("sort", emit.move_axis(b, x, axis, last), count=count, descending=descending)
    values, positions = (emit.move_axis(b, b.emit("item", found, index=k), last, axis) for k in (0, 1))
    return values, positions


def _whole(b: Builder, op: str, x: Value, axis: Any, descending: Any) -> tuple[Node, Node]:
    node = as_node(b, x)
    k = canonical_axis(op, axis, len(node.shape))
    return sorted_along(b, node, k, node.shape[k], descending=static_bool(op, descending, "descending"))


def _topk(b: Builder, x: Value, k: Any, axis: Any = -1) -> tuple[Node, Node]:
    node = as_node(b, x)
    along = canonical_axis("topk", axis, len(node.shape))
    return sorted_along(b, node, along, static_dim("topk", k, "k"), descending=True)


surface(
    "sort",
    (tensor(), _AXIS, _DESCENDING),
    lambda b, x, axis=-1, descending=False: _whole(b, "sort", x, axis, descending)[0],
    "Entries in ascending (descending) order along an axis; stable, NaN last (first).",
)
surface(
    "argsort",
    (tensor(), _AXIS, _DESCENDING),
    lambda b, x, axis=-1, descending=False: _whole(b, "argsort", x, axis, descending)[1],
    "Positions that sort an axis, equal entries in their order; NaN last (descending: first).",
)
surface(
    "topk",
    (tensor(), Parameter("k", "dim"), _AXIS),
    _topk,
    "The k largest entries along an axis, largest first, and their positions; of equal entries the first.",
    example="topk(x, k: 2)",
)
