"""Attention in NumPy, one query at a time, as the papers write it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.stdlib.measure import Array, Values


def attend(
    q: Array,
    k: Array,
    v: Array,
    heads: int,
    *,
    causal: bool = False,
    window: int | None = None,
    allowed: Array | None = None,
    bias: Array | None = None,
    softcap: float | None = None,
    scale: float | None = None,
) -> Array:
    """q: [b, s, heads·d]; k, v: [b, t, groups·d]; allowed and bias broadcast to [b, heads, s, t]."""
    b, s, width = q.shape
    t, d = k.shape[1], width // heads
    groups = k.shape[2] // d
    y = np.zeros_like(q)
    for n in range(b):
        for h in range(heads):
            g = h // (heads // groups)
            for i in range(s):
                seen = [j for j in range(t) if not causal or j <= i + t - s]
                if window is not None:
                    seen = [j for j in range(t) if i + t - s - window <= j <= i + t - s]
                if allowed is not None:
                    whole = np.broadcast_to(allowed, (b, heads, s, t))
                    seen = [j for j in seen if whole[n, h, i, j]]
                if not seen:
                    continue
                query = q[n, i, h * d : (h + 1) * d]
                keys, rows = k[n, seen, g * d : (g + 1) * d], v[n, seen, g * d : (g + 1) * d]
                scores = keys @ query * (1 / math.sqrt(d) if scale is None else scale)
                if softcap is not None:
                    scores = softcap * np.tanh(scores / softcap)
                if bias is not None:
                    scores = scores + np.broadcast_to(bias, (b, heads, s, t))[n, h, i, seen]
                weights = np.exp(scores - scores.max())
                y[n, i, h * d : (h + 1) * d] = weights / weights.sum() @ rows
    return y


def rotate(x: Array, head_dim: int, start: int = 0, base: float = 10000.0) -> Array:
    """Each pair (entry i, entry i + d/2) of a head is turned by p · base^(-2i/d), as a complex number."""
    b, s, width = x.shape
    half = head_dim // 2
    heads = x.reshape(b, s, width // head_dim, head_dim)
    turned = heads[..., :half] + 1j * heads[..., half:]
    angle = np.arange(start, start + s)[:, None] * base ** (-2 * np.arange(half) / head_dim)
    turned = turned * np.exp(1j * angle)[:, None, :]
    return np.concatenate([turned.real, turned.imag], -1).reshape(b, s, width)


def layer(v: Values, name: str, x: Array) -> Array:
    """The dense layer of a name."""
    return np.asarray(x @ v[f"{name}.w"] + v.get(f"{name}.b", 0))


def self_attention(v: Values, name: str, x: Array, heads: int, rope: float | None = None, **options: Any) -> Array:
    """The projections of a name around `attend`."""
    q, k, u = (layer(v, f"{name}.{p}", x) for p in "qkv")
    if rope is not None:
        q, k = (rotate(p, q.shape[-1] // heads, 0, rope) for p in (q, k))
    return layer(v, f"{name}.o", attend(q, k, u, heads, **options))


def projections(name: str, bias: bool = True) -> list[str]:
    """Names of the parameters of an attention block."""
    return [f"{name}.{p}.{w}" for p in "qkvo" for w in ("wb" if bias else "w")]
