"""Inputs and initial weights of every workload, made with NumPy alone so that all frameworks start equal.

Each function returns arrays of float32 and int32 (and, for some, the sizes of the model);
docs/benchmarks.md says what is computed from them. The order of the draws is part of the
definition: changing it changes the check values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Draw float32 normal values with standard deviation ``scale``."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def dense(rng: np.random.Generator, fan_in: int, fan_out: int) -> np.ndarray:
    """Draw the weight of a dense layer with He's scale."""
    return normal(rng, fan_in, fan_out, scale=(2.0 / fan_in) ** 0.5)


def zeros(*shape: int) -> np.ndarray:
    """Return float32 zeros."""
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> np.ndarray:
    """Return float32 ones."""
    return np.ones(shape, np.float32)


def mlp(sizes: Sequence[int] = (784, 256, 10), batch: int = 128, batches: int = 10, seed: int = 0) -> Arrays:
    """Return a multilayer perceptron's ``params`` and lists ``x``, ``y`` of batches."""
    rng = np.random.default_rng(seed)
    params = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes), 1):
        params[f"w{layer}"] = dense(rng, fan_in, fan_out)
        params[f"b{layer}"] = zeros(fan_out)
    xs = [normal(rng, batch, sizes[0]) for _ in range(batches)]
    ys = [rng.integers(0, sizes[-1], batch).astype(np.int32) for _ in range(batches)]
    return {"params": params, "x": xs, "y": ys}


def gpt(
    layers: int = 4,
    d: int = 128,
    heads: int = 4,
    seq: int = 128,
    batch: int = 8,
    vocab: int = 256,
    batches: int = 4,
    seed: int = 1,
) -> Arrays:
    """Return a decoder's ``params``, batches of token ids ``x`` and ``y``, and its sizes."""
    rng = np.random.default_rng(seed)
    params = {"wte": normal(rng, vocab, d, scale=0.02), "wpe": normal(rng, seq, d, scale=0.02)}
    for layer in range(layers):
        at = f"h{layer}."
        params |= {at + "ln1.g": ones(d), at + "ln1.b": zeros(d)}
        params |= {at + name: normal(rng, d, d, scale=0.02) for name in ("wq", "wk", "wv", "wo")}
        params |= {at + "ln2.g": ones(d), at + "ln2.b": zeros(d)}
        params |= {at + "w1": normal(rng, d, 4 * d, scale=0.02), at + "b1": zeros(4 * d)}
        params |= {at + "w2": normal(rng, 4 * d, d, scale=0.02), at + "b2": zeros(d)}
    params |= {"lnf.g": ones(d), "lnf.b": zeros(d), "head": normal(rng, d, vocab, scale=0.02)}
    xs = [rng.integers(0, vocab, (batch, seq)).astype(np.int32) for _ in range(batches)]
    ys = [rng.integers(0, vocab, (batch, seq)).astype(np.int32) for _ in range(batches)]
    return {"params": params, "x": xs, "y": ys, "layers": layers, "heads": heads, "d": d}


def encoder(
    batch: int, seq: int, layers: int = 6, d: int = 384, heads: int = 12, ff: int = 1536, seed: int = 2
) -> Arrays:
    """Return an encoder's ``params``, embedded text ``x``, padding ``mask`` (1 where text), and its sizes."""
    rng = np.random.default_rng(seed)
    params = {}
    for layer in range(layers):
        at = f"l{layer}."
        for name in "qkvo":
            params[f"{at}w{name}"] = normal(rng, d, d, scale=0.03)
            params[f"{at}b{name}"] = normal(rng, d, scale=0.01)
        params |= {at + "w1": normal(rng, d, ff, scale=0.03), at + "b1": normal(rng, ff, scale=0.01)}
        params |= {at + "w2": normal(rng, ff, d, scale=0.03), at + "b2": normal(rng, d, scale=0.01)}
        params |= {
            at + "ln1.g": ones(d),
            at + "ln1.b": zeros(d),
            at + "ln2.g": ones(d),
            at + "ln2.b": zeros(d),
        }
    lengths = rng.integers(max(1, seq // 2), seq + 1, batch)
    mask = (np.arange(seq)[None, :] < lengths[:, None]).astype(np.float32)
    x = normal(rng, batch, seq, d)
    return {"params": params, "x": x, "mask": mask, "layers": layers, "heads": heads, "d": d}


def dynamic_batches(count: int = 100, largest: int = 512, seed: int = 3) -> Arrays:
    """Return ``params`` of 784-512-512-10 and ``count`` batches ``x``, no two of one size."""
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.arange(1, largest + 1))[:count]
    params = mlp(sizes=(784, 512, 512, 10), batch=1, batches=0, seed=seed)["params"]
    return {"params": params, "x": [normal(rng, int(size), 784) for size in sizes]}


def elementwise(n: int = 4_194_304, seed: int = 4) -> Arrays:
    """Return a long ``x`` and three scalars ``a``, ``b``, ``c``."""
    rng = np.random.default_rng(seed)
    return {"x": normal(rng, n), "a": np.float32(1.3), "b": np.float32(-0.2), "c": np.float32(0.7)}


def rows(m: int = 4096, n: int = 1024, seed: int = 5) -> Arrays:
    """Return a matrix ``x`` with a scale ``g`` and a shift ``b`` for its columns."""
    rng = np.random.default_rng(seed)
    return {"x": normal(rng, m, n), "g": normal(rng, n), "b": normal(rng, n)}


def per_sample(batch: int = 64, seed: int = 6) -> Arrays:
    """Return 784-64-10 with one batch, for gradients of every row."""
    return mlp(sizes=(784, 64, 10), batch=batch, batches=1, seed=seed)


def hvp(batch: int = 256, seed: int = 7) -> Arrays:
    """Return a regression 64-64-1, its data, and a direction ``v`` in parameter space."""
    rng = np.random.default_rng(seed)
    data = mlp(sizes=(64, 64, 1), batch=batch, batches=1, seed=seed)
    y = normal(rng, batch, 1)
    direction = {name: normal(rng, *value.shape) for name, value in data["params"].items()}
    return {"params": data["params"], "x": data["x"][0], "y": y, "v": direction}


def lstm(steps: int = 128, batch: int = 16, d: int = 64, h: int = 128, seed: int = 8) -> Arrays:
    """Return an LSTM's ``params`` (gates i, f, g, o), a sequence ``x``, and a zero start ``h0``."""
    rng = np.random.default_rng(seed)
    params = {
        "wx": normal(rng, d, 4 * h, scale=0.1),
        "wh": normal(rng, h, 4 * h, scale=0.1),
        "b": zeros(4 * h),
    }
    return {"params": params, "x": normal(rng, steps, batch, d), "h0": zeros(batch, h)}


def cnn(batch: int = 64, batches: int = 4, seed: int = 9) -> Arrays:
    """Return two 3×3 convolutions and a dense layer for 28×28 images, with batches ``x``, ``y``."""
    rng = np.random.default_rng(seed)
    params = {"k1": normal(rng, 16, 1, 3, 3, scale=0.3), "c1": zeros(16)}
    params |= {"k2": normal(rng, 32, 16, 3, 3, scale=0.1), "c2": zeros(32)}
    params |= {"w": dense(rng, 32 * 7 * 7, 10), "b": zeros(10)}
    xs = [normal(rng, batch, 1, 28, 28) for _ in range(batches)]
    ys = [rng.integers(0, 10, batch).astype(np.int32) for _ in range(batches)]
    return {"params": params, "x": xs, "y": ys}


def tiny(seed: int = 10) -> Arrays:
    """Return a 1×4 input and a 4×4 layer."""
    rng = np.random.default_rng(seed)
    return {"x": normal(rng, 1, 4), "w": normal(rng, 4, 4), "b": normal(rng, 4)}


def adamw_state(tensors: int = 20, height: int = 1024, width: int = 512, seed: int = 11) -> Arrays:
    """Return many equal ``params`` and their ``grads``."""
    rng = np.random.default_rng(seed)
    params = {f"p{i}": normal(rng, height, width) for i in range(tensors)}
    grads = {f"p{i}": normal(rng, height, width, scale=0.1) for i in range(tensors)}
    return {"params": params, "grads": grads}
