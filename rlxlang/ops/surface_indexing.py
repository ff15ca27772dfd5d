"""What users call to read and write at positions given by tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import canonical_axis, choice, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, integer_indices
from rlxlang.types import TypeProblem, shape_text

_AXIS0 = Parameter("axis", "axis", 0)
SCATTER_MODES = ("set", "add", "mul", "min", "max")


def _as_index(b: Builder, op: str, value: Any) -> Node:
    if isinstance(value, tuple):
        value = b.constant(np.asarray(value, np.int32))
    return integer_indices(b, op, value)


def _check_constant(op: str, indices: Node, x: Node, axis: int) -> None:
    """Refuse constant indices outside a static axis (E0406)."""
    data, size = emit.constant_of(indices), x.shape[axis]
    if data is None or not isinstance(size, int) or data.size == 0:
        return
    wrong = data[(data < -size) | (data >= size)]
    if wrong.size:
        raise TypeProblem(
            "E0406", f"`{op}`: index {wrong.flat[0]} is out of range for axis {axis} of {shape_text(x.shape)}"
        )


def take(b: Builder, x: Value, indices: Any, axis: Any = 0, op: str = "take") -> Node:
    """Entries along an axis at integer positions."""
    node = as_node(b, x)
    k = canonical_axis(op, axis, len(node.shape))
    places = _as_index(b, op, indices)
    _check_constant(op, places, node, k)
    return emit.take(b, node, places, k)


def _index_select(b: Builder, x: Value, axis: Any, indices: Any) -> Node:
    return take(b, x, indices, axis, "index_select")


def _embed(b: Builder, table: Value, ids: Any) -> Node:
    node = as_node(b, table)
    if len(node.shape) < 1:
        raise TypeProblem("E0404", f"the table of `embed` has rows, and {node.type} is given")
    return take(b, node, ids, 0, "embed")


def _take_along(b: Builder, x: Value, indices: Any, axis: Any = -1) -> Node:
    node = as_node(b, x)
    k = canonical_axis("take_along_axis", axis, len(node.shape))
    places = _as_index(b, "take_along_axis", indices)
    _check_constant("take_along_axis", places, node, k)
    return b.emit("take_along_axis", node, places, axis=k)


def _scatter(b: Builder, x: Value, indices: Any, updates: Value, axis: Any = 0, mode: Any = "set") -> Node:
    node = as_node(b, x)
    k = canonical_axis("scatter", axis, len(node.shape))
    places = _as_index(b, "scatter", indices)
    _check_constant("scatter", places, node, k)
    word = choice("scatter", mode, "mode", SCATTER_MODES)
    given = as_node(b, updates, node.dtype)
    if given.dtype != node.dtype:
        given = emit.cast(b, given, node.dtype)
    shape = (*node.shape[:k], *places.shape, *node.shape[k + 1 :])
    filled = emit.broadcast_to(b, given, shape) if len(given.shape) < len(shape) or 1 in given.shape else given
    return b.emit(f"scatter_{word}", node, places, filled, axis=k)


surface(
    "take",
    (tensor("x"), tensor("indices"), _AXIS0),
    take,
    "Entries along an axis at the positions of an integer tensor.",
    "gather",
)
surface(
    "index_select",
    (tensor("x"), Parameter("axis", "axis"), tensor("indices")),
    _index_select,
    "Entries along an axis at integer positions.",
)
surface("embed", (tensor("table"), tensor("ids")), _embed, "Rows of a table.")
surface(
    "take_along_axis",
    (tensor("x"), tensor("indices"), Parameter("axis", "axis", -1)),
    _take_along,
    "One entry along an axis per place.",
)
surface(
    "scatter",
    (tensor("x"), tensor("indices"), tensor("updates"), _AXIS0, Parameter("mode", "str", "set")),
    _scatter,
    "x with entries along an axis replaced at integer positions, or combined: `mode` set, add, mul, min or max.",
)
surface(
    "scatter_add",
    (tensor("x"), tensor("indices"), tensor("updates"), _AXIS0),
    lambda b, x, indices, updates, axis: _scatter(b, x, indices, updates, axis, "add"),
    "x with updates added to entries along an axis; equal positions add up.",
)
surface(
    "index_update",
    (tensor("x"), tensor("indices"), tensor("updates"), _AXIS0),
    lambda b, x, indices, updates, axis: _scatter(b, x, indices, updates, axis, "set"),
    "x with entries along an axis replaced; the last of equal positions wins.",
)
