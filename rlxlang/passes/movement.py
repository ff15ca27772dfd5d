"""Rules of ops that move elements: views that change nothing, views of views, slices of what was joined or padded."""

from __future__ import annotations

from rlxlang.ir import Node
from rlxlang.passes.rule import Rewriting, Rule, filling, same_shape, surely_at_most
from rlxlang.types import DimLike

# ------------------------------------------------------------------------------------------------ shapes


def _own_shape(r: Rewriting, node: Node) -> Node | None:
    return node.inputs[0] if same_shape(node.inputs[0].shape, node.shape) else None


def _twice_reshaped(r: Rewriting, node: Node) -> Node | None:
    inner = node.inputs[0]
    return r.b.emit("reshape", inner.inputs[0], shape=node.shape) if inner.op.name == "reshape" else None


def _reshaped_scalar(r: Rewriting, node: Node) -> Node | None:
    x = node.inputs[0]
    return r.b.emit("broadcast_to", x, shape=node.shape) if not x.shape and all(d == 1 for d in node.shape) else None


def _twice_broadcast(r: Rewriting, node: Node) -> Node | None:
    inner = node.inputs[0]
    return r.b.emit("broadcast_to", inner.inputs[0], shape=node.shape) if inner.op.name == "broadcast_to" else None


def _broadcast_of_units_in_front(r: Rewriting, node: Node) -> Node | None:
    """`broadcast_to` adds axes in front by itself."""
    inner = node.inputs[0]
    if inner.op.name != "reshape":
        return None
    x = inner.inputs[0]
    extra = inner.tensor.rank - x.tensor.rank
    if extra <= 0 or any(d != 1 for d in inner.shape[:extra]) or not same_shape(inner.shape[extra:], x.shape):
        return None
    return r.b.emit("broadcast_to", x, shape=node.shape)


def _view_of_filling(r: Rewriting, node: Node) -> Node | None:
    """Elements that are all the same look the same from everywhere."""
    scalar = filling(node.inputs[0])
    return None if scalar is None else r.b.emit("broadcast_to", scalar, shape=node.shape)


# ------------------------------------------------------------------------------------------------ transpose


def _in_order(r: Rewriting, node: Node) -> Node | None:
    perm = tuple(node.attrs["perm"])
    return node.inputs[0] if perm == tuple(range(len(perm))) else None


def _twice_transposed(r: Rewriting, node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.op.name != "transpose":
        return None
    perm = inner.attrs["perm"]
    return r.b.emit("transpose", inner.inputs[0], perm=tuple(perm[k] for k in node.attrs["perm"]))


def _moves_units_only(r: Rewriting, node: Node) -> Node | None:
    """A transpose that keeps the order of all axes but those of size 1 is a reshape."""
    x = node.inputs[0]
    moved = [k for k in node.attrs["perm"] if x.shape[k] != 1]
    return r.b.emit("reshape", x, shape=node.shape) if moved == sorted(moved) else None


# ------------------------------------------------------------------------------------------------ slice


def _slice(r: Rewriting, x: Node, starts: list[DimLike], stops: list[DimLike], steps: tuple[int, ...]) -> Node:
    return r.b.emit("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def _whole(r: Rewriting, node: Node) -> Node | None:
    attrs, x = node.attrs, node.inputs[0]
    plain = all(s == 0 for s in attrs["starts"]) and all(s == 1 for s in attrs["steps"])
    return x if plain and same_shape(attrs["stops"], x.shape) else None


def _twice_sliced(r: Rewriting, node: Node) -> Node | None:
    inner = node.inputs[0]
    if inner.op.name != "slice" or any(s != 1 for s in inner.attrs["steps"]):
        return None
    offsets = inner.attrs["starts"]
    starts = [p + q for p, q in zip(offsets, node.attrs["starts"], strict=True)]
    stops = [p + q for p, q in zip(offsets, node.attrs["stops"], strict=True)]
    return _slice(r, inner.inputs[0], starts, stops, node.attrs["steps"])


def _inside_padding(r: Rewriting, node: Node) -> Node | None:
    """A slice that meets no padding, of what was padded."""
    padded = node.inputs[0]
    if padded.op.name != "pad":
        return None
    x, low = padded.inputs[0], padded.attrs["low"]
    starts = [s - p for s, p in zip(node.attrs["starts"], low, strict=True)]
    stops = [s - p for s, p in zip(node.attrs["stops"], low, strict=True)]
    inside = all(surely_at_most(0, s) for s in starts)
    inside = inside and all(surely_at_most(s, d) for s, d in zip(stops, x.shape, strict=True))
    return _slice(r, x, starts, stops, node.attrs["steps"]) if inside else None


def _inside_one_part(r: Rewriting, node: Node) -> Node | None:
    """A slice of joined tensors that lies in one of them."""
    joined = node.inputs[0]
    if joined.op.name != "concat":
        return None
    axis, begin = joined.attrs["axis"], 0
    starts, stops = list(node.attrs["starts"]), list(node.attrs["stops"])
    offset: DimLike = begin
    for part in joined.inputs:
        end = offset + part.shape[axis]
        if surely_at_most(offset, starts[axis]) and surely_at_most(stops[axis], end):
            starts[axis], stops[axis] = starts[axis] - offset, stops[axis] - offset
            return _slice(r, part, starts, stops, node.attrs["steps"])
        offset = end
    return None


# ------------------------------------------------------------------------------------------------ flip, pad, concat


def _flipped_axes(r: Rewriting, node: Node) -> Node | None:
    """Only axes longer than 1 turn round; those turned twice do not."""
    x = node.inputs[0]
    axes = {k for k in node.attrs["axes"] if x.shape[k] != 1}
    if x.op.name == "flip":
        x, axes = x.inputs[0], axes ^ set(x.attrs["axes"])
    if not axes:
        return x
    kept = tuple(sorted(axes))
    same = x is node.inputs[0] and len(kept) == len(node.attrs["axes"])
    return None if same else r.b.emit("flip", x, axes=kept)


def _no_padding(r: Rewriting, node: Node) -> Node | None:
    return node.inputs[0] if all(n == 0 for n in (*node.attrs["low"], *node.attrs["high"])) else None


def _single(r: Rewriting, node: Node) -> Node | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _nested(r: Rewriting, node: Node) -> Node | None:
    """Parts that are joined themselves, along the same axis and for nobody else, are joined at once."""
    axis = node.attrs["axis"]
    parts: list[Node] = []
    for part in node.inputs:
        inner = part.op.name == "concat" and part.attrs["axis"] == axis and not r.is_shared(part)
        parts += part.inputs if inner else (part,)
    return r.b.emit("concat", *parts, axis=axis) if len(parts) > len(node.inputs) else None


MOVEMENT: tuple[Rule, ...] = (
    Rule("broadcast to the own shape -> x", "broadcast_to", _own_shape),
    Rule("broadcast of a broadcast -> one", "broadcast_to", _twice_broadcast),
    Rule("broadcast of units in front -> without them", "broadcast_to", _broadcast_of_units_in_front),
    Rule("reshape to the own shape -> x", "reshape", _own_shape),
    Rule("reshape of a reshape -> one", "reshape", _twice_reshaped),
    Rule("reshape of a scalar -> the scalar broadcast", "reshape", _reshaped_scalar),
    Rule("reshape of a broadcast number -> the number broadcast", "reshape", _view_of_filling),
    Rule("transpose that changes nothing -> x", "transpose", _in_order),
    Rule("transpose of a broadcast number -> the number broadcast", "transpose", _view_of_filling),
    Rule("transpose of a transpose -> one", "transpose", _twice_transposed),
    Rule("transpose of axes of size 1 -> reshape", "transpose", _moves_units_only),
    Rule("slice of everything -> x", "slice", _whole),
    Rule("slice of a broadcast number -> the number broadcast", "slice", _view_of_filling),
    Rule("slice of a slice -> one", "slice", _twice_sliced),
    Rule("slice inside of padding -> slice of what was padded", "slice", _inside_padding),
    Rule("slice of one part of a concat -> slice of the part", "slice", _inside_one_part),
    Rule("flip of no axes -> x", "flip", _flipped_axes),
    Rule("flip of a broadcast number -> the number broadcast", "flip", _view_of_filling),
    Rule("pad by nothing -> x", "pad", _no_padding),
    Rule("concat of one -> it", "concat", _single),
    Rule("concat of a concat -> one", "concat", _nested),
)
