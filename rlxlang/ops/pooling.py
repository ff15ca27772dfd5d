"""Pooling: the largest or mean entry of windows over the spatial axes of [N, C, …]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import choice, guard_nonempty, static_bool, surface, tensor
from rlxlang.ops.broadcasting import as_float, tensor_argument
from rlxlang.ops.convolution import Padding, pad_spatial, require_windows, spatial_ints, spatial_padding
from rlxlang.ops.rules import require_guards, require_kinds
from rlxlang.ops.statistics import mean_over
from rlxlang.ops.windows import Ints, span, windows
from rlxlang.types import Dim, DimLike, DType, ShapeContext, TypeProblem, ceil_div, product
from rlxlang.types.dim import maximum, minimum


@dataclass(frozen=True, slots=True)
class _Pool:
    """Where windows lie: sizes, strides, dilations and the padding of every spatial axis."""

    sizes: Ints
    strides: Ints
    dilations: Ints
    padding: Padding

    @property
    def is_tiling(self) -> bool:
        """Whether windows stand side by side, so that every element is in at most one."""
        return self.sizes == self.strides and all(d == 1 for d in self.dilations)


def _pool(
    b: Builder, op: str, x: Node, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any
) -> _Pool:
    if len(x.shape) != rank + 2:
        raise TypeProblem(
            "E0404",
            f"`{op}` takes a tensor of rank {rank + 2}, [N, C, …], and {x.type} is given",
            (),
            "`unsqueeze` adds an axis" if len(x.shape) < rank + 2 else "",
        )
    sizes = spatial_ints(op, kernel, "kernel", rank)
    strides = sizes if stride is None else spatial_ints(op, stride, "stride", rank)
    dilations = spatial_ints(op, dilation, "dilation", rank)
    lengths = x.shape[2:]
    pads = spatial_padding(op, padding, lengths, sizes, strides, dilations)
    if not isinstance(padding, str):
        for (low, _), k, d in zip(pads, sizes, dilations, strict=True):
            if isinstance(low, int) and 2 * low > span(k, d):
                raise TypeProblem(
                    "E0350",
                    f"padding of `{op}`, {low}, is more than half of its kernel: windows would lie in the padding alone",
                )
    require_windows(b, op, lengths, pads, sizes, dilations)
    if static_bool(op, ceil, "ceil"):
        steps = zip(lengths, sizes, strides, dilations, pads, strict=True)
        pads = tuple(_rounded_up(n, k, s, d, pair) for n, k, s, d, pair in steps)
    return _Pool(sizes, strides, dilations, pads)


def _rounded_up(
    length: DimLike, size: int, stride: int, dilation: int, pair: tuple[DimLike, DimLike]
) -> tuple[DimLike, DimLike]:
    """Padding with which the last, partial window counts, too; no window starts behind the data."""
    low, high = pair
    reach = span(size, dilation)
    count = ceil_div(low + length + high - reach, stride) + 1
    count = minimum(count, (low + length - 1) // stride + 1)
    return low, high + maximum((count - 1) * stride + reach - (low + length + high), 0)


def _patches(b: Builder, x: Node, pool: _Pool, fill: float | int) -> tuple[Node, tuple[int, ...]]:
    """Windows of `x`, and the axes along which the entries of a window lie."""
    padded = pad_spatial(b, x, 2, pool.padding, fill)
    rank = len(pool.sizes)
    if not pool.is_tiling:
        seen = windows(b, padded, tuple(range(2, rank + 2)), pool.sizes, pool.strides, pool.dilations)
        return seen, tuple(range(rank + 2, 2 * rank + 2))
    shape: list[DimLike] = list(padded.shape[:2])
    for axis, k in enumerate(pool.sizes, start=2):
        count = (padded.shape[axis] - k) // k + 1
        padded = emit.slice_axis(b, padded, axis, 0, count * k)
        shape += [count, k]
    return emit.reshape(b, padded, tuple(shape)), tuple(range(3, 2 * rank + 2, 2))


def lowest_number(dtype: DType) -> float | int:
    """The value that never is a maximum: -inf, or the least integer."""
    return float("-inf") if dtype.is_float else dtype.integer_range[0]


def max_pool(
    b: Builder, op: str, x: Any, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any
) -> Node:
    """The largest entry of every window; NaN wins, tied entries share the gradient, padding never wins.

    Padding is -inf: in a window whose data are all -inf it is tied with them, and its share of the gradient is lost.

    Raises:
        TypeProblem: E0301 Bool or complex, E0404 wrong rank, E0405 the kernel does not fit, E0350 arguments out of range.
    """
    node = tensor_argument(op, x, "x")
    require_kinds(op, node.dtype, ("float", "int", "uint"))
    pool = _pool(b, op, node, rank, kernel, stride, padding, dilation, ceil)
    seen, axes = _patches(b, node, pool, lowest_number(node.dtype))
    return emit.reduce_max(b, seen, axes)


def avg_pool(
    b: Builder,
    op: str,
    x: Any,
    rank: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    count_include_pad: Any,
    ceil: Any,
) -> Node:
    """The mean of every window; padding counts as zeros, or not at all.

    Raises:
        TypeProblem: E0301 complex, E0404 wrong rank, E0405 the kernel does not fit, E0350 arguments out of range.
    """
    node = as_float(b, op, x)
    pool = _pool(b, op, node, rank, kernel, stride, padding, 1, ceil)
    wide = emit.widen(b, node)
    seen, axes = _patches(b, wide, pool, 0)
    total = emit.reduce_sum(b, seen, axes)
    padded = any(p != 0 for pair in pool.padding for p in pair)
    if static_bool(op, count_include_pad, "count_include_pad") or not padded:
        size = product(pool.sizes)
        assert isinstance(size, int)
        return emit.cast(b, emit.scale(b, total, 1.0 / size), node.dtype)
    ones = b.full(1, wide.dtype, (1, 1, *node.shape[2:]))
    covered, axes = _patches(b, ones, pool, 0)
    count = emit.reduce_sum(b, covered, axes)
    return emit.cast(b, emit.div(b, total, emit.broadcast_to(b, count, total.shape)), node.dtype)


def adaptive_avg_pool(b: Builder, x: Any, size: Any) -> Node:
    """Means over a grid of `size` cells: cell i of n covers entries floor(i·L/n) to ceil((i+1)·L/n).

    Raises:
        TypeProblem: E0404 wrong rank, E0407 a dynamic axis (or its guard) that the number of cells does not divide.
    """
    op = "adaptive_avg_pool"
    node = as_float(b, op, x)
    rank = len(node.shape) - 2
    if rank < 1:
        raise TypeProblem("E0404", f"`{op}` takes [N, C, …] with spatial axes, and {node.type} is given")
    cells = spatial_ints(op, size, "size", rank)
    guard_nonempty(b, op, node, range(2, rank + 2))
    value = emit.widen(b, node)
    for axis, count in enumerate(cells, start=2):
        value = _cell_means(b, op, value, axis, count)
    return emit.cast(b, value, node.dtype)


def _cell_means(b: Builder, op: str, x: Node, axis: int, count: int) -> Node:
    length = x.shape[axis]
    if isinstance(length, Dim) or length % count == 0:
        context = ShapeContext()
        context.divides(count, length, f"spatial axis {axis - 2} of `{op}`")
        require_guards(b, context)
        split = emit.reshape(b, x, (*x.shape[:axis], count, length // count, *x.shape[axis + 1 :]))
        return mean_over(b, split, (axis + 1,))
    parts = []
    for k in range(count):
        start, stop = k * length // count, -(-(k + 1) * length // count)
        part = mean_over(b, emit.slice_axis(b, x, axis, start, stop), (axis,))
        parts.append(emit.reshape(b, part, emit.with_unit_axes(x.shape, (axis,))))
    return b.emit("concat", *parts, axis=axis)


def _global(op: str, reduce: Callable[[Builder, Node, Sequence[int]], Node]) -> Callable[..., Node]:
    def build(b: Builder, x: Any, keep_dim: Any = False) -> Node:
        node = as_float(b, op, x) if op == "global_avg_pool" else tensor_argument(op, x, "x")
        if len(node.shape) < 3:
            raise TypeProblem("E0404", f"`{op}` takes [N, C, …] with spatial axes, and {node.type} is given")
        axes = tuple(range(2, len(node.shape)))
        guard_nonempty(b, op, node, axes)
        value = reduce(b, node, axes)
        if static_bool(op, keep_dim, "keep_dim"):
            value = emit.reshape(b, value, emit.with_unit_axes(node.shape, axes))
        return value

    return build


def _wide_mean(b: Builder, x: Node, axes: Sequence[int]) -> Node:
    return emit.cast(b, mean_over(b, emit.widen(b, x), tuple(axes)), x.dtype)


_X = tensor("x")
_KERNEL = (Parameter("kernel", "ints"), Parameter("stride", "ints", None), Parameter("padding", "any", 0))
_CEIL = Parameter("ceil", "bool", False)


def _define(rank: int) -> None:
    largest, mean, either = f"max_pool{rank}d", f"avg_pool{rank}d", f"pool{rank}d"

    def build_max(
        b: Builder, x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: Any = False
    ) -> Node:
        return max_pool(b, largest, x, rank, kernel, stride, padding, dilation, ceil)

    def build_mean(
        b: Builder,
        x: Any,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        count_include_pad: Any = True,
        ceil: Any = False,
    ) -> Node:
        return avg_pool(b, mean, x, rank, kernel, stride, padding, count_include_pad, ceil)

    def build_either(
        b: Builder, x: Any, kernel: Any, stride: Any = None, padding: Any = 0, kind: Any = "max", ceil: Any = False
    ) -> Node:
        if choice(either, kind, "kind", ("max", "avg")) == "max":
            return max_pool(b, either, x, rank, kernel, stride, padding, 1, ceil)
        return avg_pool(b, either, x, rank, kernel, stride, padding, True, ceil)

    surface(
        largest,
        (_X, *_KERNEL, Parameter("dilation", "ints", 1), _CEIL),
        build_max,
        "Largest entry of every window of [N, C, …]; the stride is the kernel's size unless given.",
    )
    surface(
        mean,
        (_X, *_KERNEL, Parameter("count_include_pad", "bool", True), _CEIL),
        build_mean,
        "Mean of every window of [N, C, …]; the stride is the kernel's size unless given.",
    )
    surface(
        either,
        (_X, *_KERNEL, Parameter("kind", "str", "max"), _CEIL),
        build_either,
        'Pooling of every window of [N, C, …] of the kind "max" or "avg".',
    )


for _rank in (1, 2, 3):
    _define(_rank)

surface(
    "adaptive_avg_pool",
    (_X, Parameter("size", "ints")),
    adaptive_avg_pool,
    "Means of [N, C, …] over a grid with so many cells along each spatial axis.",
)
surface(
    "global_avg_pool",
    (_X, Parameter("keep_dim", "bool", False)),
    _global("global_avg_pool", _wide_mean),
    "Mean of [N, C, …] over all spatial axes.",
)
surface(
    "global_max_pool",
    (_X, Parameter("keep_dim", "bool", False)),
    _global("global_max_pool", emit.reduce_max),
    "Largest entry of [N, C, …] over all spatial axes.",
)

__all__ = ["adaptive_avg_pool", "avg_pool", "lowest_number", "max_pool"]
