"""Scaled dot-product attention (Vaswani et al. 2017), with masks, grouped key heads, score capping and bias.

The op works on queries [*batch, heads, q, d], keys and values [*batch, key heads, k, d]; key heads divide heads. A row without
any visible key gives zeros, with zero gradients. Query i of q sees keys up to i + (k - q) when causal, so that the last
query sees the last key; a sliding window of w keeps the last w + 1 of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, Builder, MaskKind, Node, Op, Parameter, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.arguments import static_int, static_number, surface, tensor
from rlxlang.ops.broadcasting import Value, as_node, common_dtype, describe, promoted, stretch
from rlxlang.ops.rules import Batched, require_kinds, to_front
from rlxlang.types import BOOL, I32, DimLike, ShapeContext, TensorType, TypeProblem, float_dtype

Array = np.ndarray[Any, Any]


def _infer(
    context: ShapeContext,
    q: TensorType,
    k: TensorType,
    v: TensorType,
    *extra: TensorType,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
    masked: bool,
    biased: bool,
) -> TensorType:
    require_kinds("attention", q.dtype, ("float",))
    if q.rank < 3 or k.rank != q.rank or v.rank != q.rank:
        raise TypeProblem(
            "E0404", f"`attention` of queries {q}, keys {k}, values {v}: the ranks must agree, 3 at least"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeProblem("E0302", f"the dtypes of `attention` differ: {q.dtype}, {k.dtype}, {v.dtype}")
    batch = context.same_shape(q.shape[:-3], k.shape[:-3], "the batch axes of queries and keys")
    context.same_shape(k.shape[:-1], v.shape[:-1], "the heads and positions of keys and values")
    context.divides(k.shape[-3], q.shape[-3], "the key heads and heads of `attention`")
    context.same(q.shape[-1], k.shape[-1], "the head sizes of queries and keys", "E0402")
    scores = (*batch, q.shape[-3], q.shape[-2], k.shape[-2])
    if len(extra) != masked + biased:
        raise TypeProblem("E0220", "`attention`: a mask and a bias are announced by `masked` and `biased`")
    for operand in extra:
        context.same_shape(scores, operand.shape, "the scores of `attention` and its mask or bias")
    return q.with_shape((*q.shape[:-1], v.shape[-1]))


def _split_extra(extra: Sequence[Any], masked: bool, biased: bool) -> tuple[Any, Any]:
    rest = list(extra)
    mask = rest.pop(0) if masked else None
    return mask, rest.pop(0) if biased else None


def _grouped(b: Builder, x: Node, heads: DimLike) -> Node:
    """Keys or values repeated for the heads that share them."""
    own = x.shape[-3]
    if own == heads:
        return x
    lead, rest = x.shape[:-3], x.shape[-2:]
    split = emit.reshape(b, x, (*lead, own, 1, *rest))
    spread = emit.broadcast_to(b, split, (*lead, own, heads // own, *rest))
    return emit.reshape(b, spread, (*lead, heads, *rest))


def _visible(b: Builder, shape: tuple[Any, ...], causal: bool, window: int | None) -> Node | None:
    if not causal:
        return None
    rank = len(shape)
    row, column = emit.iota(b, shape, rank - 2, I32), emit.iota(b, shape, rank - 1, I32)
    newest = emit.add(b, row, emit.number(b, shape[-1] - shape[-2], row))
    seen = emit.compare(b, "le", column, newest)
    if window is None:
        return seen
    oldest = emit.shift(b, newest, -window)
    return b.emit("bit_and", seen, emit.compare(b, "ge", column, oldest))


def _decompose(
    b: Builder,
    q: Node,
    k: Node,
    v: Node,
    *extra: Node,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
    masked: bool,
    biased: bool,
) -> Node:
    rank = len(q.shape)
    lead = tuple(range(rank - 2))
    mask, bias = _split_extra(extra, masked, biased)
    queries = emit.scale(b, emit.widen(b, q), scale)
    keys, values = (_grouped(b, emit.widen(b, x), q.shape[-3]) for x in (k, v))
    scores = emit.dot(b, queries, keys, ((rank - 1,), (rank - 1,)), (lead, lead))
    if softcap is not None:
        scores = emit.scale(b, b.emit("tanh", emit.scale(b, scores, 1 / softcap)), softcap)
    if bias is not None:
        scores = emit.add(b, scores, emit.cast(b, bias, scores.dtype))
    for visible in (_visible(b, scores.shape, causal, window), mask):
        if visible is not None:
            scores = emit.select(b, visible, scores, b.full_like(scores, float("-inf")))
    weights = b.emit("softmax", scores, axis=rank - 1)
    result = emit.dot(b, weights, values, ((rank - 1,), (rank - 2,)), (lead, lead))
    return emit.cast(b, result, q.dtype)


def _reference(
    q: Array,
    k: Array,
    v: Array,
    *extra: Array,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
    masked: bool,
    biased: bool,
) -> Array:
    mask, bias = _split_extra(extra, masked, biased)
    repeat = q.shape[-3] // k.shape[-3] if k.shape[-3] else 1
    k, v = np.repeat(k, repeat, -3), np.repeat(v, repeat, -3)
    scores = np.matmul(q * np.asarray(scale, q.dtype), np.swapaxes(k, -1, -2))
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    visible = np.ones(scores.shape[-2:], bool)
    if causal:
        newest = np.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2]
        column = np.arange(k.shape[-2])[None, :]
        visible = column <= newest
        if window is not None:
            visible = visible & (column >= newest - window)
    if mask is not None:
        visible = visible & mask
    scores = np.where(visible, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    weights = e / np.maximum(np.sum(e, axis=-1, keepdims=True), 1)
    return np.asarray(np.matmul(weights, v)).astype(q.dtype)


def _batch(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Batched:
    moved = [to_front(b, x, a, size) for x, a in zip(args, axes, strict=True)]
    return b.emit(node.op, *moved, **node.attrs), 0


def _samples(rng: np.random.Generator) -> list[Sample]:
    def attrs(**options: Any) -> dict[str, Any]:
        base = {"scale": 0.5, "causal": False, "window": None, "softcap": None, "masked": False, "biased": False}
        return base | options

    def qkv(h: int = 2, kh: int = 2, q: int = 3, k: int = 3) -> tuple[Array, Array, Array]:
        return rng.normal(size=(2, h, q, 4)), rng.normal(size=(2, kh, k, 4)), rng.normal(size=(2, kh, k, 4))

    mask = np.array([[True, False, True], [True, True, False], [False, False, False]])
    return [
        Sample(qkv(), attrs()),
        Sample(qkv(), attrs(causal=True)),
        Sample(qkv(4, 2, 2, 4), attrs(causal=True, window=1)),
        Sample((*qkv(), np.broadcast_to(mask, (2, 2, 3, 3)).copy()), attrs(masked=True)),
        Sample((*qkv(), rng.normal(size=(2, 2, 3, 3))), attrs(biased=True, softcap=1.5)),
    ]


ATTENTION = register(
    Op(
        "attention",
        "Values weighted by the softmax of scaled products of queries and keys; a row without visible keys gives zeros.",
        _infer,
        _reference,
        VIA_DECOMPOSITION,
        VIA_DECOMPOSITION,
        _batch,
        VIA_DECOMPOSITION,
        _samples,
        decompose=_decompose,
    )
)

# --------------------------------------------------------------------------------------------- surfaces


def _split_heads(b: Builder, x: Node, heads: int | None, head_dim: int | None, name: str) -> Node:
    """[…, S, H·D] as […, H, S, D]."""
    width = x.shape[-1]
    if heads is None and head_dim is None:
        raise TypeProblem("E0223", f"`attention` of {name} {x.type} needs `heads` or `head_dim`")
    if head_dim is None:
        assert heads is not None
        if not isinstance(width, int) or heads < 1 or width % heads:
            raise TypeProblem(
                "E0407", f"`attention`: the width {width} of the {name} is not a multiple of {heads} heads"
            )
        head_dim = width // heads
    if not isinstance(width, int) or head_dim < 1 or width % head_dim:
        raise TypeProblem(
            "E0407", f"`attention`: the width {width} of the {name} is not a multiple of the head size {head_dim}"
        )
    count = width // head_dim
    if heads is not None and count != heads:
        raise TypeProblem(
            "E0405", f"`attention`: the width {width} of the {name} is not {heads} heads of size {head_dim}"
        )
    split = emit.reshape(b, x, (*x.shape[:-1], count, head_dim))
    rank = len(split.shape)
    return emit.move_axis(b, split, rank - 2, rank - 3)


def _merge_heads(b: Builder, x: Node) -> Node:
    rank = len(x.shape)
    moved = emit.move_axis(b, x, rank - 3, rank - 2)
    return emit.reshape(b, moved, (*moved.shape[:-2], moved.shape[-2] * moved.shape[-1]))


def _mask_options(mask: Any) -> tuple[bool, int | None]:
    if mask is None or (isinstance(mask, MaskKind) and mask.name == "None"):
        return False, None
    if isinstance(mask, MaskKind):
        if mask.name == "Causal":
            return True, None
        if mask.name == "SlidingWindow" and mask.window >= 0:
            return True, mask.window
    raise TypeProblem(
        "E0306",
        f"argument `mask` of `attention` is MaskKind::None, Causal or SlidingWindow(w), and {describe(mask)} is given",
        (),
        "`attention_masked(k, v, mask, heads, head_dim)` takes a tensor" if isinstance(mask, Node) else "",
    )


def _over_scores(b: Builder, value: Node, shape: tuple[Any, ...]) -> Node:
    """A mask or bias for all scores: [q, k], [batch, q, k] or with heads."""
    rank = len(value.shape)
    if rank == len(shape) - 1 and rank >= 3:  # no axis of heads
        value = emit.reshape(b, value, (*value.shape[:-2], 1, *value.shape[-2:]))
    return stretch(b, value, shape)


def _attention(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    heads: Any = None,
    head_dim: Any = None,
    mask: Any = None,
    scale: Any = None,
    bias: Any = None,
    softcap: Any = None,
    tensor_mask: Any = None,
) -> Node:
    name = "attention"
    dtype = float_dtype(common_dtype(name, (q, k, v)))
    nodes = promoted(b, name, (q, k, v), dtype)
    count = None if heads is None else static_int(name, heads, "heads")
    size = None if head_dim is None else static_int(name, head_dim, "head_dim")
    rank = len(nodes[0].shape)
    flat = rank in (2, 3)
    if rank < 2 or rank > 4 or any(len(n.shape) != rank for n in nodes):
        raise TypeProblem(
            "E0404",
            "`attention` takes [B, S, H·D] or [B, H, S, D], and "
            + ", ".join(str(n.type) for n in nodes)
            + " are given",
        )
    if flat:
        first = _split_heads(b, nodes[0], count, size, "queries")
        inner = first.shape[-1]
        nodes = [
            first,
            _split_heads(b, nodes[1], None, inner, "keys"),  # fewer key heads are grouped
            _split_heads(b, nodes[2], None, inner, "values"),
        ]
    elif count is not None and nodes[0].shape[1] != count:
        raise TypeProblem("E0405", f"`attention`: queries {nodes[0].type} do not have {count} heads in axis 1")
    queries, keys, values = nodes
    causal, window = _mask_options(mask)
    width = queries.shape[-1]
    if scale is None:
        if not isinstance(width, int):
            raise TypeProblem("E0303", "`attention` needs `scale` where the head size is dynamic")
        factor = 1 / math.sqrt(width) if width else 1.0
    else:
        factor = float(static_number(name, scale, "scale"))
    scores = (*queries.shape[:-1], keys.shape[-2])
    extra = []
    if tensor_mask is not None:
        extra.append(_over_scores(b, emit.cast(b, as_node(b, tensor_mask), BOOL), scores))
    if bias is not None:
        extra.append(_over_scores(b, emit.cast(b, as_node(b, bias), dtype), scores))
    result = b.emit(
        "attention",
        queries,
        keys,
        values,
        *extra,
        scale=factor,
        causal=causal,
        window=window,
        softcap=None if softcap is None else float(static_number(name, softcap, "softcap")),
        masked=tensor_mask is not None,
        biased=bias is not None,
    )
    return _merge_heads(b, result) if flat else result


def _attention_masked(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value,
    heads: Any = None,
    head_dim: Any = None,
    scale: Any = None,
    bias: Any = None,
    softcap: Any = None,
) -> Node:
    given = as_node(b, mask)
    if given.dtype.is_float:  # an additive mask
        bias = given if bias is None else emit.add(b, given, as_node(b, bias))
        return _attention(b, q, k, v, heads, head_dim, None, scale, bias, softcap)
    return _attention(b, q, k, v, heads, head_dim, None, scale, bias, softcap, given)


_OPTIONS = (Parameter("scale", "float", None), tensor("bias", None), Parameter("softcap", "float", None))
_HEADS = (Parameter("heads", "int", None), Parameter("head_dim", "int", None))
surface(
    "attention",
    (tensor("q"), tensor("k"), tensor("v"), *_HEADS, Parameter("mask", "mask", None), *_OPTIONS),
    _attention,
    "Scaled dot-product attention of [B, S, H·D] or [B, H, S, D]; key heads may be fewer.",
)
surface(
    "attention_masked",
    (tensor("q"), tensor("k"), tensor("v"), tensor("mask"), *_HEADS, *_OPTIONS),
    _attention_masked,
    "Attention to the keys where a mask is true; a float mask is added to the scores.",
)
