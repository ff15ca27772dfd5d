"""Normalisations over groups of channels, over a batch, and across neighbouring channels; channels are axis 1."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_count, static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float, as_node
from rlxlang.ops.compose import one
from rlxlang.ops.rules import require_guards
from rlxlang.types import ShapeContext, TypeProblem, floor_div, product

_SCALES = (tensor("gamma", None), tensor("beta", None))
_EPS = Parameter("eps", "float", 1e-5)


def _channels(b: Builder, op: str, x: Value, least: int) -> Node:
    node = as_float(b, op, x)
    if len(node.shape) < least:
        raise TypeProblem("E0404", f"`{op}` takes a batch with channels on axis 1, and {node.type} is given")
    return node


def _per_channel(b: Builder, value: Value, x: Node) -> Node:
    """A value for every channel, ready to meet X."""
    node = emit.cast(b, as_node(b, value, x.dtype), x.dtype)
    return emit.reshape(b, node, (*node.shape, *(1 for _ in x.shape[2:]))) if node.shape else node


def _scaled(b: Builder, y: Node, gamma: Value | None, beta: Value | None) -> Node:
    if gamma is not None:
        y = one(b, "mul", y, _per_channel(b, gamma, y))
    return y if beta is None else one(b, "add", y, _per_channel(b, beta, y))


def _group_norm(b: Builder, x: Value, groups: Any, gamma: Any = None, beta: Any = None, eps: Any = 1e-5) -> Node:
    op = "group_norm"
    node, count = _channels(b, op, x, 2), static_int(op, groups, "groups")
    if count < 1:
        raise TypeProblem("E0350", f"argument `groups` of `{op}` is 1 or more, and {count} is given")
    n, c, *rest = node.shape
    context = ShapeContext()
    context.divides(count, c, f"the groups and the channels of `{op}`")
    require_guards(b, context)
    rows = one(b, "reshape", node, (n, count, product((floor_div(c, count), *rest))))
    unit = one(b, "layer_norm", rows, eps=eps)
    return _scaled(b, emit.reshape(b, unit, node.shape), gamma, beta)


def _instance_norm(b: Builder, x: Value, gamma: Any = None, beta: Any = None, eps: Any = 1e-5) -> Node:
    node = _channels(b, "instance_norm", x, 3)
    rows = emit.reshape(b, node, (*node.shape[:2], product(node.shape[2:])))
    return _scaled(b, emit.reshape(b, one(b, "layer_norm", rows, eps=eps), node.shape), gamma, beta)


def _batch_norm(
    b: Builder, x: Value, mean: Value, var: Value, gamma: Any = None, beta: Any = None, eps: Any = 1e-5
) -> Node:
    node = _channels(b, "batch_norm", x, 2)
    small = static_number("batch_norm", eps, "eps")
    wide = emit.widen(b, node)
    factor = one(b, "rsqrt", one(b, "add", _per_channel(b, var, wide), small))
    centred = one(b, "sub", wide, _per_channel(b, mean, wide))
    return emit.cast(b, _scaled(b, one(b, "mul", centred, factor), gamma, beta), node.dtype)


def _local_response_norm(b: Builder, x: Value, size: Any, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0) -> Node:
    op = "local_response_norm"
    node, width = _channels(b, op, x, 2), static_count(op, size, "size")
    if width < 1:
        raise TypeProblem("E0350", f"argument `size` of `{op}` is 1 or more, and {width} is given")
    before = width // 2
    padded = emit.pad_axis(b, one(b, "square", node), 1, before, width - 1 - before)
    c = node.shape[1]
    power = emit.slice_axis(b, padded, 1, 0, c)
    for shift in range(1, width):
        power = emit.add(b, power, emit.slice_axis(b, padded, 1, shift, shift + c))
    base = one(b, "add", one(b, "mul", power, static_number(op, alpha, "alpha") / width), static_number(op, k, "k"))
    return one(b, "div", node, one(b, "pow", base, static_number(op, beta, "beta")))


surface(
    "group_norm",
    (tensor(), Parameter("groups", "int"), *_SCALES, _EPS),
    _group_norm,
    "Channels in groups, each group of each sample centred and scaled to unit variance (Wu, He 2018).",
)
surface(
    "instance_norm",
    (tensor(), *_SCALES, _EPS),
    _instance_norm,
    "Each channel of each sample centred and scaled to unit variance (Ulyanov et al. 2016).",
)
surface(
    "batch_norm",
    (tensor(), tensor("mean"), tensor("var"), *_SCALES, _EPS),
    _batch_norm,
    "Channels centred and scaled by given means and variances (Ioffe, Szegedy 2015).",
)
surface(
    "local_response_norm",
    (
        tensor(),
        Parameter("size", "int"),
        Parameter("alpha", "float", 1e-4),
        Parameter("beta", "float", 0.75),
        Parameter("k", "float", 1.0),
    ),
    _local_response_norm,
    "x / (k + alpha · mean of squares of `size` neighbouring channels)^beta (Krizhevsky et al. 2012).",
)
