"""Indexing of tensors: `x[0]`, `x[1..5, ..]`, `x[..., new]`, `x[ids]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.frontend.values import describe
from rlxlang.ir import Builder, Node, RangeValue, SourcedGuard
from rlxlang.ops import emit
from rlxlang.types import Dim, DimLike, Guard, TypeProblem, ceil_div, shape_text


class NewAxisItem:
    """`new`: an axis of size 1."""


class EllipsisItem:
    """`...`: as many whole axes as are left."""


@dataclass
class Indexed:
    """The result of indexing, and remarks for the user (slice bounds that were clamped)."""

    node: Node
    warnings: tuple[str, ...] = ()


def index_tensor(b: Builder, x: Node, items: Sequence[Any]) -> Indexed:
    """`x[items]`; an item is an int, a `Dim`, a `RangeValue`, an integer tensor, `NewAxisItem` or `EllipsisItem`.

    Raises:
        TypeProblem: E0404 too many items, E0406 out of range, E0301 a Bool or float tensor as index.
    """
    taken = sum(1 for i in items if not isinstance(i, (NewAxisItem, EllipsisItem)))
    ellipses = sum(isinstance(i, EllipsisItem) for i in items)
    if ellipses > 1:
        raise TypeProblem("E0404", "an index has at most one `...`")
    if taken > x.tensor.rank:
        raise TypeProblem(
            "E0404", f"the index has {taken} items, the tensor {shape_text(x.shape)} has {x.tensor.rank} axes"
        )
    tensors = [i for i in items if isinstance(i, Node)]
    if len(tensors) > 1:
        raise TypeProblem("E0404", "an index holds at most one integer tensor", (), "use `gather_nd`, or index twice")
    expanded: list[Any] = []
    for item in items:
        if isinstance(item, EllipsisItem):
            expanded += [RangeValue(None, None)] * (x.tensor.rank - taken)
        else:
            expanded.append(item)
    if not ellipses:
        expanded += [RangeValue(None, None)] * (x.tensor.rank - taken)
    return _apply(b, x, expanded)


def _apply(b: Builder, x: Node, items: Sequence[Any]) -> Indexed:
    warnings: list[str] = []
    starts: list[DimLike] = []
    stops: list[DimLike] = []
    steps: list[int] = []
    flipped: list[int] = []
    kept: list[DimLike | None] = []  # the result's dims before a gather; None for a dropped axis
    shape: list[DimLike] = []
    gather: tuple[int, Node] | None = None
    axis = 0
    start: DimLike
    stop: DimLike
    for item in items:
        if isinstance(item, NewAxisItem):
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(item, Node):
            if item.dtype.kind not in ("int", "uint"):
                help_ = "use `where` to select by a mask" if item.dtype.kind == "bool" else "cast it: `cast(i, I32)`"
                raise TypeProblem("E0301", f"a tensor index holds integers, not {item.dtype}", (), help_)
            _check_positions(item, size, axis)
            gather = (len(shape), item)
            start, stop, step = 0, size, 1
            shape.append(size)
        elif isinstance(item, RangeValue):
            start, stop, step, reverse = _range(b, item, size, axis, warnings)
            if reverse:
                flipped.append(axis)
            shape.append(ceil_div(stop - start, step))
        else:
            start, step = _position(b, item, size, axis), 1
            stop = start + 1
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        kept.append(None)
        axis += 1
    result = x
    whole = all(s == 0 and e == n and t == 1 for s, e, t, n in zip(starts, stops, steps, x.shape, strict=True))
    if not whole:
        result = b.emit("slice", result, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
    if flipped:
        result = b.emit("flip", result, axes=tuple(flipped))
    if tuple(shape) != tuple(result.shape):
        result = b.emit("reshape", result, shape=tuple(shape))
    if gather is not None:
        result = b.emit("take", result, gather[1], axis=gather[0])
    return Indexed(result, tuple(warnings))


def _check_positions(item: Node, size: DimLike, axis: int) -> None:
    """Refuse constant indices outside a static axis."""
    data = emit.constant_of(item)
    if data is None or not isinstance(size, int):
        return
    wrong = data[(data < -size) | (data >= size)]
    if wrong.size:
        message = f"index {wrong.flat[0]} is out of range for axis {axis} of size {size}"
        raise TypeProblem("E0406", message, _bounds(size))


def _bounds(size: int) -> tuple[str, ...]:
    return (f"indices go from {-size} to {size - 1}" if size else "the axis is empty",)


def _position(b: Builder, item: Any, size: DimLike, axis: int) -> DimLike:
    if isinstance(item, bool) or not isinstance(item, (int, Dim)):
        raise TypeProblem("E0303", f"an index is an integer, a range or an integer tensor, not {describe(item)}")
    if isinstance(item, Dim):
        _require(b, item + 1, size, f"index `{item}` of axis {axis}")
        return item
    if isinstance(size, int):
        if not -size <= item < size:
            raise TypeProblem("E0406", f"index {item} is out of range for axis {axis} of size {size}", _bounds(size))
        return item % size
    _require(b, item + 1 if item >= 0 else -item, size, f"index {item} of axis {axis}")
    return item if item >= 0 else size + item


def _require(b: Builder, least: DimLike, size: DimLike, what: str) -> None:
    difference = size - least
    if isinstance(difference, int):
        if difference < 0:
            raise TypeProblem("E0406", f"{what} is out of range, its size is {size}")
        return
    b.require(SourcedGuard(Guard(least, "<=", size, what), b.origin))


def _range(
    b: Builder, item: RangeValue, size: DimLike, axis: int, warnings: list[str]
) -> tuple[DimLike, DimLike, int, bool]:
    """Start, stop, positive step, and whether the result is then reversed."""
    step: Any = item.step
    if isinstance(step, bool) or not isinstance(step, int) or step == 0:
        raise TypeProblem("E0350", f"the step of a slice is an integer other than 0, not {step}")
    stop = item.stop
    if item.inclusive and stop is not None:
        stop = None if stop == -1 else stop + 1
    if step > 0:
        start = _bound(b, item.start, size, axis, 0, warnings)
        end = _bound(b, stop, size, axis, size, warnings)
        return start, _not_before(b, start, end, axis), step, False
    # `a..b by -s` runs a, a-s, … and stops before b: the same elements in ascending order, then reversed.
    first = _bound(b, item.start, size, axis, size - 1, warnings, last=True)
    low: DimLike = 0 if stop is None else _bound(b, stop, size, axis, 0, warnings) + 1
    count = ceil_div(first + 1 - low, -step)
    if isinstance(count, int) and count <= 0:
        return 0, 0, -step, True
    return first - (count - 1) * -step, first + 1, -step, True


def _bound(
    b: Builder, value: Any, size: DimLike, axis: int, default: DimLike, warnings: list[str], *, last: bool = False
) -> DimLike:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, Dim)):
        raise TypeProblem("E0303", f"a slice bound is an integer known while the graph is built, not {describe(value)}")
    limit = size - 1 if last else size
    if isinstance(value, int) and value < 0:
        if isinstance(size, int) and value < -size:
            warnings.append(f"slice bound {value} lies before axis {axis} of size {size}")
            return 0
        if not isinstance(size, int):
            _require(b, -value, size, f"slice bound {value} of axis {axis}")
        return size + value
    if isinstance(value, int) and isinstance(limit, int):
        if value > limit:
            warnings.append(f"slice bound {value} lies past axis {axis} of size {size}")
            return limit
        return value
    _require(b, value + 1 if last else value, size, f"slice bound {value} of axis {axis}")
    return value


def _not_before(b: Builder, start: DimLike, stop: DimLike, axis: int) -> DimLike:
    difference = stop - start
    if isinstance(difference, int):
        return start if difference < 0 else stop
    b.require(SourcedGuard(Guard(start, "<=", stop, f"the slice of axis {axis}"), b.origin))
    return stop
