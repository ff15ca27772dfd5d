"""What users call of reductions, prefix reductions and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlxlang.ir import OPS, Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import (
    canonical_axes,
    canonical_axis,
    guard_nonempty,
    static_bool,
    static_int,
    static_number,
    surface,
    tensor,
)
from rlxlang.ops.broadcasting import Value, as_float, as_node
from rlxlang.ops.statistics import mean_over
from rlxlang.ops.surface_arithmetic import truth
from rlxlang.types import C64, I32, I64, TypeProblem

_AXES = Parameter("axes", "axes", None)
_AXIS_LAST = Parameter("axis", "axis", -1)
_KEEP = Parameter("keep_dim", "bool", False)


def _kept(b: Builder, op: str, reduced: Node, x: Node, axes: tuple[int, ...], keep_dim: Any) -> Node:
    if not static_bool(op, keep_dim, "keep_dim"):
        return reduced
    return emit.reshape(b, reduced, emit.with_unit_axes(x.shape, axes))


def _plain(name: str, needs_entries: bool = False) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axes: Any = None, keep_dim: Any = False) -> Node:
        node = as_node(b, x)
        over = canonical_axes(name, axes, len(node.shape))
        if needs_entries:
            guard_nonempty(b, name, node, over)
        return _kept(b, name, emit.reduce(b, name, node, over), node, over, keep_dim)

    return build


for _name, _needs in (("sum", False), ("prod", False), ("max", True), ("min", True)):
    surface(_name, (tensor("x"), _AXES, _KEEP), _plain(_name, _needs), OPS[_name].doc)


def _logical(name: str) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axes: Any = None, keep_dim: Any = False) -> Node:
        node = truth(b, x)
        over = canonical_axes(name, axes, len(node.shape))
        return _kept(b, name, emit.reduce(b, name, node, over), node, over, keep_dim)

    return build


for _name in ("any", "all"):
    surface(_name, (tensor("x"), _AXES, _KEEP), _logical(_name), OPS[_name].doc)


def _count_nonzero(b: Builder, x: Value, axes: Any = None, keep_dim: Any = False) -> Node:
    node = truth(b, x)
    over = canonical_axes("count_nonzero", axes, len(node.shape))
    size = emit.size_of(node.shape, over)
    wide = isinstance(size, int) and size > I32.integer_range[1]
    counted = emit.reduce_sum(b, emit.cast(b, node, I64 if wide else I32), over)
    return _kept(b, "count_nonzero", counted, node, over, keep_dim)


surface("count_nonzero", (tensor("x"), _AXES, _KEEP), _count_nonzero, "Number of entries that are not 0.")


def _statistic(name: str, option: Parameter | None = None) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axes: Any = None, keep_dim: Any = False, **options: Any) -> Node:
        node = as_float(b, name, x, is_complex_allowed=name == "mean")
        over = canonical_axes(name, axes, len(node.shape))
        if node.dtype == C64:
            return _kept(b, name, mean_over(b, node, over), node, over, keep_dim)
        attrs: dict[str, Any] = {}
        if option is not None and option.name == "ddof":
            attrs = {"ddof": static_int(name, options["ddof"], "ddof")}
            if attrs["ddof"] < 0:
                raise TypeProblem("E0350", f"argument `ddof` of `{name}` is not negative, and {attrs['ddof']} is given")
        elif option is not None:
            attrs = {"p": float(static_number(name, options["p"], "p"))}
        return _kept(b, name, b.emit(name, node, axes=over, **attrs), node, over, keep_dim)

    return build


_DDOF = Parameter("ddof", "int", 0)
_P = Parameter("p", "float", 2)
surface("mean", (tensor("x"), _AXES, _KEEP), _statistic("mean"), OPS["mean"].doc)
surface("var", (tensor("x"), _AXES, _KEEP, _DDOF), _statistic("var", _DDOF), OPS["var"].doc)
surface("std", (tensor("x"), _AXES, _KEEP, _DDOF), _statistic("std", _DDOF), OPS["std"].doc)
surface("norm", (tensor("x"), _AXES, _KEEP, _P), _statistic("norm", _P), OPS["norm"].doc)
surface("logsumexp", (tensor("x"), _AXES, _KEEP), _statistic("logsumexp"), OPS["logsumexp"].doc)
surface("mean_all", (tensor("x"),), lambda b, x: _statistic("mean")(b, x), "Mean of all entries.")
surface("sum_all", (tensor("x"),), lambda b, x: _plain("sum")(b, x), "Sum of all entries.")


def _position(name: str) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axis: Any = None, keep_dim: Any = False) -> Node:
        node = as_node(b, x)
        keep = static_bool(name, keep_dim, "keep_dim")
        if axis is None:
            flat = emit.reshape(b, node, (node.tensor.size,))
            guard_nonempty(b, name, flat, (0,))
            found = b.emit(name, flat, axis=0)
            return emit.reshape(b, found, (1,) * len(node.shape)) if keep else found
        k = canonical_axis(name, axis, len(node.shape))
        guard_nonempty(b, name, node, (k,))
        return _kept(b, name, b.emit(name, node, axis=k), node, (k,), keep)

    return build


for _name in ("argmax", "argmin"):
    surface(_name, (tensor("x"), Parameter("axis", "axis", None), _KEEP), _position(_name), OPS[_name].doc)


def _prefix(name: str) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axis: Any, exclusive: Any = False, reverse: Any = False) -> Node:
        node = as_node(b, x)
        return b.emit(
            name,
            node,
            axis=canonical_axis(name, axis, len(node.shape)),
            exclusive=static_bool(name, exclusive, "exclusive"),
            reverse=static_bool(name, reverse, "reverse"),
        )

    return build


def _cumlogsumexp(b: Builder, x: Value, axis: Any = -1, reverse: Any = False) -> Node:
    """Sums of exp relative to the largest entry so far, which are scaled anew wherever that changes."""
    op = "cumlogsumexp"
    node = as_float(b, op, x)
    k, backwards = canonical_axis(op, axis, len(node.shape)), static_bool(op, reverse, "reverse")
    wide = emit.widen(b, node)
    # Results do not depend on what they are relative to, so neither do derivatives.
    at = b.emit("stop_gradient", wide)
    top, before = (b.emit("cummax", at, axis=k, exclusive=e, reverse=backwards) for e in (False, True))
    nothing = float("-inf")
    base = emit.drop(b, emit.compare(b, "eq", top, nothing), top)
    rescaled = b.emit("exp", emit.sub(b, before, base))
    factor = emit.drop(b, emit.compare(b, "eq", before, nothing), rescaled)
    terms = b.emit("exp", emit.sub(b, wide, base))
    total = b.emit("linear_recurrence", factor, terms, axis=k, reverse=backwards)
    empty = emit.compare(b, "eq", total, 0)
    logarithm = b.emit("log", emit.select(b, empty, b.full_like(total, 1), total))
    return emit.cast(b, emit.select(b, empty, b.full_like(total, nothing), emit.add(b, base, logarithm)), node.dtype)


surface(
    "cumlogsumexp",
    (tensor(), Parameter("axis", "axis", -1), Parameter("reverse", "bool", False)),
    _cumlogsumexp,
    "log of the sum of exp along an axis up to each place, without overflow.",
)
for _name in ("cumsum", "cumprod", "cummax", "cummin"):
    surface(
        _name,
        (
            tensor("x"),
            Parameter("axis", "axis", -1),
            Parameter("exclusive", "bool", False),
            Parameter("reverse", "bool", False),
        ),
        _prefix(_name),
        OPS[_name].doc,
    )


def _along(name: str) -> Callable[..., Node]:
    def build(b: Builder, x: Value, axis: Any = -1) -> Node:
        node = as_float(b, name, x)
        return b.emit(name, node, axis=canonical_axis(name, axis, len(node.shape)))

    return build


for _name in ("softmax", "log_softmax"):
    surface(_name, (tensor("x"), _AXIS_LAST), _along(_name), OPS[_name].doc)
