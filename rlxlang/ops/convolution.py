"""Convolutions of any rank as products with sliding windows, and their transposes; `unfold` and `fold`.

A convolution is written [N, C, …] by [Cout, Cin/groups, …] and does not turn the kernel around (cross-correlation, as
every library of neural networks has it). Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import int_list, static_int, surface, tensor
from rlxlang.ops.broadcasting import describe, promoted, tensor_argument
from rlxlang.ops.rules import require_guards
from rlxlang.ops.windows import Ints, fold, span, windows
from rlxlang.types import DimLike, ShapeContext, TypeProblem, ceil_div, product, sum_dtype
from rlxlang.types.dim import maximum

Padding = tuple[tuple[DimLike, DimLike], ...]


def spatial_ints(op: str, value: Any, name: str, count: int, least: int = 1) -> Ints:
    """One integer per spatial axis, from a list or from one integer for all.

    Raises:
        TypeProblem: E0350 too small or another number of them, E0303 or E0306 no static integers.
    """
    given = int_list(op, value, name)
    if not isinstance(value, tuple):
        given = given * count
    if len(given) != count:
        raise TypeProblem(
            "E0350",
            f"argument `{name}` of `{op}` lists {len(given)} integers, and there are {count} spatial axes",
            (),
            "one integer serves all axes",
        )
    if min(given) < least:
        raise TypeProblem("E0350", f"argument `{name}` of `{op}` is at least {least}, and {min(given)} is given")
    return given


def spatial_padding(
    op: str, value: Any, lengths: Sequence[DimLike], sizes: Ints, strides: Ints, dilations: Ints
) -> Padding:
    """Padding before and after each spatial axis, from integers, "valid" (none) or "same" (ceil(length / stride) windows).

    Raises:
        TypeProblem: E0350 another word or a negative number.
    """
    if isinstance(value, str):
        if value == "valid":
            return ((0, 0),) * len(sizes)
        if value != "same":
            raise TypeProblem(
                "E0350", f'padding of `{op}` is a list of integers, "same" or "valid", and {describe(value)} is given'
            )
        return tuple(_same(n, k, s, d) for n, k, s, d in zip(lengths, sizes, strides, dilations, strict=True))
    return tuple((p, p) for p in spatial_ints(op, value, "padding", len(sizes), least=0))


def _same(length: DimLike, size: int, stride: int, dilation: int) -> tuple[DimLike, DimLike]:
    reach = span(size, dilation)
    if stride == 1:
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    total = maximum((ceil_div(length, stride) - 1) * stride + reach - length, 0)
    low = total // 2
    return low, total - low


def pad_spatial(b: Builder, x: Node, first: int, padding: Padding, value: float | int = 0) -> Node:
    """`x` with a number around the axes from `first` on."""
    if all(p == 0 for pair in padding for p in pair):
        return x
    low = (*(0,) * first, *(p for p, _ in padding))
    high = (*(0,) * first, *(q for _, q in padding))
    return b.emit("pad", x, low=low, high=high, value=value)


def require_windows(
    b: Builder, op: str, lengths: Sequence[DimLike], padding: Padding, sizes: Ints, dilations: Ints
) -> None:
    """Require a padded axis to hold at least one window.

    Raises:
        TypeProblem: E0405 it statically does not.
    """
    context = ShapeContext()
    for k, (n, (low, high), size, dilation) in enumerate(zip(lengths, padding, sizes, dilations, strict=True)):
        reach = span(size, dilation)
        padded = low + n + high
        if isinstance(padded, int) and padded < reach:
            raise TypeProblem(
                "E0405",
                f"`{op}`: a kernel that reaches over {reach} does not fit spatial axis {k}, of size {padded} with padding",
                (),
                "a larger padding, or a smaller kernel or dilation",
            )
        context.at_most(reach, padded, f"the reach of the kernel of `{op}` on spatial axis {k}", "E0405")
    require_guards(b, context)


def _operands(b: Builder, op: str, x: Any, w: Any, rank: int) -> tuple[Node, Node]:
    left, right = promoted(b, op, [tensor_argument(op, x, "x"), tensor_argument(op, w, "w")])
    for node, form in ((left, "[N, C, …]"), (right, "[Cout, Cin/groups, …]")):
        if len(node.shape) != rank + 2:
            raise TypeProblem(
                "E0404",
                f"`{op}` takes tensors of rank {rank + 2}, and {node.type} is given",
                (f"the form is {form} with {rank} spatial ax{'is' if rank == 1 else 'es'}",),
                "`x[new, ...]` adds an axis for the batch" if node is left and len(node.shape) == rank + 1 else "",
            )
    for size in right.shape[2:]:
        if not isinstance(size, int) or size < 1:
            raise TypeProblem("E0404", f"the kernel of `{op}` has static sizes, at least 1, and {right.type} is given")
    return left, right


def _kernel(node: Node) -> Ints:
    return tuple(int(d) for d in node.shape[2:] if isinstance(d, int))


def _group_count(op: str, groups: Any) -> int:
    count = static_int(op, groups, "groups")
    if count < 1:
        raise TypeProblem("E0350", f"argument `groups` of `{op}` is at least 1, and {count} is given")
    return count


def _per_group(b: Builder, op: str, what: str, size: DimLike, groups: int) -> DimLike:
    if groups == 1:
        return size
    if isinstance(size, int) and size % groups:
        raise TypeProblem("E0407", f"`{op}`: {what}, {size}, is not a multiple of groups, {groups}")
    context = ShapeContext()
    context.divides(groups, size, f"{what} of `{op}`")
    require_guards(b, context)
    return size // groups


def _require_same(b: Builder, left: DimLike, right: DimLike, what: str, help_text: str) -> None:
    context = ShapeContext()
    try:
        context.same(left, right, what, "E0402")
    except TypeProblem as problem:
        raise TypeProblem("E0402", problem.message, problem.notes, help_text) from None
    require_guards(b, context)


def _six(op: str, w: Any, kernel: Any, rank: int) -> None:
    """Check the kernel sizes of the form with six arguments after the first."""
    node = tensor_argument(op, w, "w")
    wanted = spatial_ints(op, kernel, "kernel", rank)
    if tuple(node.shape[2:]) != wanted:
        raise TypeProblem(
            "E0405",
            f"`{op}`: the kernel is given as {list(wanted)}, and the weights are {node.type}",
            (),
            "the form is conv2d(x, w, stride, padding, dilation, groups); the kernel's size is that of w",
        )


def convolve(
    b: Builder, op: str, x: Any, w: Any, rank: int, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Node:
    """The convolution of x [N, C, …] with w [Cout, C/groups, …].

    Raises:
        TypeProblem: E0404 wrong rank, E0402 channels differ, E0407 groups do not divide, E0405 the kernel does not fit.
    """
    left, right = _operands(b, op, x, w, rank)
    strides = spatial_ints(op, stride, "stride", rank)
    dilations = spatial_ints(op, dilation, "dilation", rank)
    count = _group_count(op, groups)
    sizes = _kernel(right)
    pads = spatial_padding(op, padding, left.shape[2:], sizes, strides, dilations)
    channels = _per_group(b, op, "the number of channels", left.shape[1], count)
    filters = _per_group(b, op, "the number of filters", right.shape[0], count)
    _require_same(
        b,
        channels,
        right.shape[1],
        f"the channels of a group of `{op}` and axis 1 of its weights",
        f"weights are [Cout, Cin/groups, …]: for {left.type} with groups {count}, axis 1 is {channels}",
    )
    require_windows(b, op, left.shape[2:], pads, sizes, dilations)
    padded = pad_spatial(b, left, 2, pads)
    axes = tuple(range(2, rank + 2))
    if count > 1 and right.shape[1] == 1 and right.shape[0] == count:
        return _depthwise(b, padded, right, axes, sizes, strides, dilations)
    if count == 1:
        seen = windows(b, padded, axes, sizes, strides, dilations)
        summed = (1, *range(rank + 2, 2 * rank + 2))
        found = emit.dot(b, right, seen, (tuple(range(1, rank + 2)), summed))
    else:
        split = emit.reshape(b, padded, (padded.shape[0], count, channels, *padded.shape[2:]))
        seen = windows(b, split, tuple(a + 1 for a in axes), sizes, strides, dilations)
        weights = emit.reshape(b, right, (count, filters, *right.shape[1:]))
        summed = (2, *range(rank + 3, 2 * rank + 3))
        found = emit.dot(b, weights, seen, (tuple(range(2, rank + 3)), summed), ((0,), (1,)))
        found = emit.reshape(b, found, (right.shape[0], *found.shape[2:]))
    return emit.move_axis(b, found, 0, 1)


def _depthwise(b: Builder, x: Node, w: Node, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Node:
    """Every channel with a kernel of its own: a weighted sum of windows, without a matrix product."""
    rank = len(axes)
    wide = sum_dtype(x.dtype)
    seen = emit.widen(b, emit.cast(b, windows(b, x, axes, sizes, strides, dilations), wide))
    weights = emit.widen(b, emit.cast(b, w, wide))
    spread = emit.reshape(b, weights, (w.shape[0], *(1,) * rank, *sizes))
    total = emit.reduce_sum(
        b,
        emit.mul(b, seen, emit.broadcast_to(b, spread, seen.shape)),
        range(rank + 2, 2 * rank + 2),
    )
    return emit.cast(b, total, wide)


def transpose_convolve(
    b: Builder,
    op: str,
    x: Any,
    w: Any,
    rank: int,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: Any,
) -> Node:
    """The transpose of a convolution: x [N, Cin, …] with w [Cin, Cout/groups, …].

    Raises:
        TypeProblem: E0404 wrong rank, E0402 channels differ, E0407 groups do not divide, E0350 arguments out of range.
    """
    left, right = _operands(b, op, x, w, rank)
    strides = spatial_ints(op, stride, "stride", rank)
    dilations = spatial_ints(op, dilation, "dilation", rank)
    pads = spatial_ints(op, padding, "padding", rank, least=0)
    extra = spatial_ints(op, output_padding, "output_padding", rank, least=0)
    count = _group_count(op, groups)
    sizes = _kernel(right)
    channels = _per_group(b, op, "the number of channels", left.shape[1], count)
    _require_same(
        b,
        left.shape[1],
        right.shape[0],
        f"the channels of `{op}` and axis 0 of its weights",
        "weights of a transposed convolution are [Cin, Cout/groups, …]",
    )
    for s, d, e in zip(strides, dilations, extra, strict=True):
        if e >= max(s, d):
            raise TypeProblem("E0350", f"`output_padding` of `{op}`, {e}, is smaller than its stride or dilation")
    split = emit.reshape(b, left, (left.shape[0], count, channels, *left.shape[2:]))
    weights = emit.reshape(b, right, (count, channels, *right.shape[1:]))
    # [groups, Cout/groups, kernel…, N, positions…]
    terms = emit.dot(b, weights, split, ((1,), (2,)), ((0,), (1,)))
    rows = right.shape[1] * count
    terms = emit.reshape(b, terms, (rows, *sizes, left.shape[0], *left.shape[2:]))
    perm = (rank + 1, 0, *range(rank + 2, 2 * rank + 2), *range(1, rank + 1))
    terms = emit.transpose(b, terms, perm)
    context = ShapeContext()
    for k, n in enumerate(left.shape[2:]):
        context.at_most(1, n, f"the size of spatial axis {k} of `{op}`", "E0405")
    require_guards(b, context)
    steps = list(zip(left.shape[2:], sizes, strides, dilations, strict=True))
    lengths = tuple((n - 1) * s + span(k, d) for n, k, s, d in steps)
    full = fold(b, terms, tuple(range(2, rank + 2)), sizes, strides, dilations, lengths)
    grown = pad_spatial(b, full, 2, tuple((0, e) for e in extra))
    for k, p in enumerate(pads):
        length = grown.shape[k + 2]
        grown = emit.slice_axis(b, grown, k + 2, p, length - p) if p else grown
    return grown


def unfold(b: Builder, x: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Node:
    """Patches as columns: [N, C, H, W] gives [N, C·kernel, windows] (im2col).

    Raises:
        TypeProblem: E0404 fewer than one spatial axis, E0405 the kernel does not fit.
    """
    node = tensor_argument("unfold", x, "x")
    rank = len(node.shape) - 2
    if rank < 1:
        raise TypeProblem("E0404", f"`unfold` takes [N, C, …] with spatial axes, and {node.type} is given")
    sizes = spatial_ints("unfold", kernel, "kernel", rank)
    strides = spatial_ints("unfold", stride, "stride", rank)
    dilations = spatial_ints("unfold", dilation, "dilation", rank)
    pads = spatial_padding("unfold", padding, node.shape[2:], sizes, strides, dilations)
    require_windows(b, "unfold", node.shape[2:], pads, sizes, dilations)
    padded = pad_spatial(b, node, 2, pads)
    seen = windows(b, padded, tuple(range(2, rank + 2)), sizes, strides, dilations)
    order = (0, 1, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2))
    moved = emit.transpose(b, seen, order)
    columns = product(seen.shape[2 : rank + 2])
    return emit.reshape(b, moved, (node.shape[0], node.shape[1] * product(sizes), columns))


def fold_columns(
    b: Builder, x: Any, size: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Node:
    """The transpose of `unfold`: columns [N, C·kernel, windows] added up in [N, C, *size].

    Raises:
        TypeProblem: E0404 wrong rank, E0405 sizes that do not belong together, E0407 channels that do not divide.
    """
    node = tensor_argument("fold", x, "x")
    if len(node.shape) != 3:
        raise TypeProblem("E0404", f"`fold` takes [N, C·kernel, windows], and {node.type} is given")
    target = size if isinstance(size, tuple) else (size,)
    rank = len(target)
    sizes = spatial_ints("fold", kernel, "kernel", rank)
    strides = spatial_ints("fold", stride, "stride", rank)
    dilations = spatial_ints("fold", dilation, "dilation", rank)
    pads = spatial_padding("fold", padding, target, sizes, strides, dilations)
    require_windows(b, "fold", target, pads, sizes, dilations)
    taps = product(sizes)
    assert isinstance(taps, int)
    channels = _per_group(b, "fold", "axis 1", node.shape[1], taps)
    lengths = tuple(p + n + q for n, (p, q) in zip(target, pads, strict=True))
    steps = zip(lengths, sizes, strides, dilations, strict=True)
    counts = tuple((n - span(k, d)) // s + 1 for n, k, s, d in steps)
    split = emit.reshape(b, node, (node.shape[0], channels, *sizes, *counts))
    order = (0, 1, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2))
    moved = emit.transpose(b, split, order)
    full = fold(b, moved, tuple(range(2, rank + 2)), sizes, strides, dilations, lengths)
    for k, (low, _) in enumerate(pads):
        full = emit.slice_axis(b, full, k + 2, low, low + target[k])
    return full


def _define(rank: int) -> None:
    name, transposed = f"conv{rank}d", f"conv_transpose{rank}d"

    def conv(
        b: Builder,
        x: Any,
        w: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
        groups_after_kernel: Any = None,
    ) -> Node:
        if groups_after_kernel is not None:
            _six(name, w, stride, rank)
            stride, padding, dilation, groups = padding, dilation, groups, groups_after_kernel
        return convolve(b, name, x, w, rank, stride, padding, dilation, groups)

    def conv_transpose(
        b: Builder,
        x: Any,
        w: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
    ) -> Node:
        return transpose_convolve(b, transposed, x, w, rank, stride, padding, output_padding, dilation, groups)

    axes = " × ".join(["k"] * rank)
    surface(
        name,
        (
            *_COMMON,
            Parameter("stride", "ints", 1),
            Parameter("padding", "any", 0),
            Parameter("dilation", "ints", 1),
            Parameter("groups", "any", 1),
            Parameter("groups_after_kernel", "any", None),
        ),
        conv,
        f'Convolution of x [N, C, …] with w [Cout, C/groups, {axes}]; padding may be "same" or "valid".',
    )
    surface(
        transposed,
        (
            *_COMMON,
            Parameter("stride", "ints", 1),
            Parameter("padding", "ints", 0),
            Parameter("output_padding", "ints", 0),
            Parameter("dilation", "ints", 1),
            Parameter("groups", "int", 1),
        ),
        conv_transpose,
        f"Transposed convolution of x [N, Cin, …] with w [Cin, Cout/groups, {axes}].",
    )


def _depthwise_surface(b: Builder, x: Any, w: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Node:
    node = tensor_argument("depthwise", x, "x")
    rank = len(node.shape) - 2
    if rank < 1:
        raise TypeProblem("E0404", f"`depthwise` takes [N, C, …] with spatial axes, and {node.type} is given")
    channels = node.shape[1]
    if not isinstance(channels, int):
        raise TypeProblem("E0404", f"`depthwise` needs a static number of channels, and {node.type} is given")
    return convolve(b, "depthwise", node, w, rank, stride, padding, dilation, max(channels, 1))


_COMMON = (tensor("x"), tensor("w"))
for _rank in (1, 2, 3):
    _define(_rank)

surface(
    "depthwise",
    (*_COMMON, Parameter("stride", "ints", 1), Parameter("padding", "any", 0), Parameter("dilation", "ints", 1)),
    _depthwise_surface,
    "Convolution of every channel of x [N, C, …] by itself, with w [C·m, 1, …].",
)
_WINDOW = (Parameter("stride", "ints", 1), Parameter("padding", "any", 0), Parameter("dilation", "ints", 1))
surface(
    "unfold",
    (tensor("x"), Parameter("kernel", "ints"), *_WINDOW),
    unfold,
    "Patches of x [N, C, …] as columns [N, C·kernel, windows] (im2col).",
)
surface(
    "fold",
    (tensor("x"), Parameter("size", "dims"), Parameter("kernel", "ints"), *_WINDOW),
    fold_columns,
    "Columns [N, C·kernel, windows] added up in [N, C, …]: the transpose of `unfold`.",
)

__all__ = ["convolve", "fold_columns", "pad_spatial", "spatial_ints", "spatial_padding", "transpose_convolve", "unfold"]
