"""Ops that leave values alone and change derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.ir import UNDEFINED, Builder, Node, Op, Parameter, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_float
from rlxlang.ops.lowering import Identity
from rlxlang.ops.rules import require_kinds
from rlxlang.types import DimLike, ShapeContext, TensorType, TypeProblem


def _infer(name: str) -> Any:
    def infer(context: ShapeContext, x: TensorType, **options: float) -> TensorType:
        require_kinds(name, x.dtype, ("float",))
        return x

    return infer


def _batch(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Any:
    return b.emit(node.op, args[0], **node.attrs), axes[0]


def _scaled(b: Builder, node: Node, change: Node) -> Node:
    return emit.scale(b, change, -node.attrs["scale"])


register(
    Op(
        "reverse_gradient",
        "x, whose derivative is minus `scale` in both modes.",
        _infer("reverse_gradient"),
        lambda x, *, scale: x,
        lambda b, node, primals, tangents: _scaled(b, node, tangents[0]),
        lambda b, node, primals, ct: (_scaled(b, node, ct),),
        _batch,
        Identity(),
        lambda rng: [Sample((rng.normal(size=(2, 3)),), {"scale": 0.5}, smooth=False)],
    )
)


def _clipped(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Node]:
    limit = node.attrs["limit"]
    low, high = b.full_like(ct, -limit), b.full_like(ct, limit)
    return (b.emit("minimum", b.emit("maximum", ct, low), high),)


register(
    Op(
        "clip_gradient",
        "x, whose cotangent is limited to -limit … limit; the map is not linear, so there is no forward mode.",
        _infer("clip_gradient"),
        lambda x, *, limit: x,
        UNDEFINED,
        _clipped,
        _batch,
        Identity(),
        lambda rng: [Sample((rng.normal(size=(2, 3)),), {"limit": 0.1}, smooth=False)],
    )
)


def _reverse(b: Builder, x: Value, scale: Any = 1.0) -> Node:
    return b.emit(
        "reverse_gradient",
        as_float(b, "reverse_gradient", x),
        scale=float(static_number("reverse_gradient", scale, "scale")),
    )


def _clip(b: Builder, x: Value, limit: Any) -> Node:
    bound = float(static_number("clip_gradient", limit, "limit"))
    if not bound >= 0:
        raise TypeProblem("E0350", f"argument `limit` of `clip_gradient` is 0 or more, and {bound} is given")
    return b.emit("clip_gradient", as_float(b, "clip_gradient", x), limit=bound)


surface(
    "reverse_gradient",
    (tensor(), Parameter("scale", "float", 1.0)),
    _reverse,
    "x; its derivative is multiplied by -scale (Ganin et al. 2016).",
)
surface(
    "clip_gradient",
    (tensor(), Parameter("limit", "float")),
    _clip,
    "x; its cotangent is limited to -limit … limit, element by element.",
)
