"""`use attention;`: masks, positions and blocks against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import rlxlang as rlx
from tests.stdlib import attention_oracles as oracles
from tests.stdlib.attention_oracles import layer, projections, self_attention
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator


def test_masks(rng: Rng) -> None:
    text = """use attention;
    input x: [?s, ?t];
    input lengths: [I32; ?b];
    input segments: [I32; ?b, ?n];
    out causal = attention::causal_mask(dim(x, 0), dim(x, 1));
    out window = attention::window_mask(dim(x, 0), dim(x, 1), 2);
    out padding = attention::padding_mask(lengths, dim(x, 1));
    out segment = attention::segment_mask(segments);
    out fixed = attention::causal_mask(2, 3);"""

    def oracle(v: Values) -> list[Array]:
        s, t = v["x"].shape
        b, n = v["segments"].shape
        back = [[i + t - s - j for j in range(t)] for i in range(s)]  # how far a key lies back
        return [
            np.array([[d >= 0 for d in row] for row in back]),
            np.array([[0 <= d <= 2 for d in row] for row in back]),
            np.array([[[j < length for j in range(t)]] for length in v["lengths"]]),
            np.array([[[v["segments"][m, i] == v["segments"][m, j] for j in range(n)] for i in range(n)] for m in range(b)]),
            np.array([[True, True, False], [True, True, True]]),
        ]  # fmt: skip

    sets = [
        {
            "x": np.zeros(shape),
            "lengths": np.array([0, 3, shape[1]], np.int32),
            "segments": rng.integers(0, 2, (3, 4)).astype(np.int32),
        }
        for shape in ((4, 4), (2, 5))
    ]
    check(text, [], oracle, *sets, rng=rng, derivative="")


@pytest.mark.parametrize(("heads", "exponents"), [(1, [8]), (4, [2, 4, 6, 8]), (6, [2, 4, 6, 8, 1, 3]), (3, [4, 8, 2])])
def test_alibi(heads: int, exponents: list[int], rng: Rng) -> None:
    text = f"""use attention::{{alibi_bias}};
    input x: [?s, ?t];
    out bias = alibi_bias({heads}, dim(x, 0), dim(x, 1));"""
    slopes = 0.5 ** np.array(exponents)

    def oracle(v: Values) -> Array:
        s, t = v["x"].shape
        distance = np.array([[abs(i + t - s - j) for j in range(t)] for i in range(s)])
        return -slopes[None, :, None, None] * distance

    check(text, [], oracle, {"x": np.zeros((3, 5))}, {"x": np.zeros((2, 2))}, rng=rng, derivative="")


def test_rotate(rng: Rng) -> None:
    text = """use attention;
    input x: [?b, ?s, 12];
    input past: [?t];
    out a = attention::rotate(x, 4);
    out b = attention::rotate(x, 6, dim(past, 0), base: 50.0);"""

    def oracle(v: Values) -> tuple[Array, Array]:
        return oracles.rotate(v["x"], 4), oracles.rotate(v["x"], 6, len(v["past"]), 50.0)

    sets = [{"x": rng.standard_normal((2, s, 12)), "past": np.zeros(t)} for s, t in ((4, 3), (1, 7), (5, 0))]
    check(text, [], oracle, *sets, rng=rng)


def test_attend(rng: Rng) -> None:
    text = """use attention::{attend, alibi_bias, padding_mask};
    input q: [?b, ?s, 8];
    input k: [?b, ?t, 4];
    input v: [?b, ?t, 4];
    input lengths: [I32; ?b];
    let bias = alibi_bias(4, dim(q, 1), dim(k, 1));
    let allowed = padding_mask(lengths, dim(k, 1));
    out plain = attend(q, k, v, 4);
    out causal = attend(q, k, v, 4, causal: true, score_bias: bias);
    out window = attend(q, k, v, 4, window: 1, softcap: 0.7);
    out masked = attend(q, k, v, 4, allowed: allowed, scale: 0.3);
    out both = attend(q, k, v, 4, causal: true, allowed: allowed, score_bias: bias);
    out near = attend(q, k, v, 4, window: 2, allowed: allowed, softcap: 2.0);"""

    def oracle(v: Values) -> list[Array]:
        q, k, u = v["q"], v["k"], v["v"]
        s, t = q.shape[1], k.shape[1]
        distance = np.abs(np.arange(t) - np.arange(s)[:, None] - t + s)
        bias = -(0.25 ** np.arange(1, 5))[:, None, None] * distance
        allowed = (np.arange(t) < v["lengths"][:, None])[:, None, None]
        return [
            oracles.attend(q, k, u, 4),
            oracles.attend(q, k, u, 4, causal=True, bias=bias),
            oracles.attend(q, k, u, 4, window=1, softcap=0.7),
            oracles.attend(q, k, u, 4, allowed=allowed, scale=0.3),
            oracles.attend(q, k, u, 4, causal=True, allowed=allowed, bias=bias),
            oracles.attend(q, k, u, 4, window=2, allowed=allowed, softcap=2.0),
        ]

    sets = [
        {
            "q": rng.standard_normal((2, s, 8)),
            "k": rng.standard_normal((2, t, 4)),
            "v": rng.standard_normal((2, t, 4)),
            "lengths": np.array([t, t // 2], np.int32),
        }
        for s, t in ((3, 5), (4, 4))
    ]
    check(text, [], oracle, *sets, rng=rng)


def test_mha(rng: Rng) -> None:
    text = """use attention;
    input x: [?b, ?s, 8];
    out a = attention::mha(x, 2) as a;
    out b = attention::mha(x, 4, causal: true, bias: false) as b;
    out c = attention::mha(x, 2, window: 1, rope_base: 100.0) as c;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        return [
            self_attention(v, "a", x, 2),
            self_attention(v, "b", x, 4, causal=True),
            self_attention(v, "c", x, 2, rope=100.0, window=1),
        ]

    names = [*projections("a"), *projections("b", bias=False), *projections("c")]
    sets = [{"x": rng.standard_normal((2, 4, 8))}, {"x": rng.standard_normal((1, 6, 8))}]
    func = check(text, names, oracle, *sets, rng=rng, derivative="cpu")
    x = rng.standard_normal((2, 2, 3, 8)).astype(np.float32)
    params = {n: func.param_binding(n) for n in names}
    for device in DEVICES:
        mapped = func.vmap(["x"]).run_on(device, x=x)
        for lane in range(2):
            for result, right in zip(mapped, oracle({"x": x[lane], **params}), strict=True):
                np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_mha_with_masks(rng: Rng) -> None:
    text = """use attention::{mha, padding_mask, alibi_bias};
    input x: [?b, ?s, 4];
    input lengths: [I32; ?b];
    let s = dim(x, 1);
    out y = mha(x, 2, true, allowed: padding_mask(lengths, s), score_bias: alibi_bias(2, s, s)) as m;"""

    def oracle(v: Values) -> Array:
        s = v["x"].shape[1]
        bias = -np.array([1 / 16, 1 / 256])[:, None, None] * np.abs(np.arange(s) - np.arange(s)[:, None])
        allowed = (np.arange(s) < v["lengths"][:, None])[:, None, None]
        return self_attention(v, "m", v["x"], 2, causal=True, allowed=allowed, bias=bias)

    arrays = {"x": rng.standard_normal((2, 5, 4)), "lengths": np.array([3, 5], np.int32)}
    check(text, projections("m"), oracle, arrays, rng=rng)


def test_gqa(rng: Rng) -> None:
    text = """use attention::{gqa};
    input x: [?b, ?s, 8];
    out a = gqa(x, 4, 2) as a;
    out b = gqa(x, 4, 1, head_dim: 6, causal: false, rope_base: none, softcap: 1.5, bias: true) as b;
    out c = gqa(x, 2, 2, window: 2, qk_norm: true, rope_base: 30.0) as c;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        a = self_attention(v, "a", x, 4, rope=10000.0, causal=True)
        b = self_attention(v, "b", x, 4, softcap=1.5)
        q, k, u = (layer(v, f"c.{p}", x).reshape(*x.shape[:2], 2, 4) for p in "qkv")
        q, k = (
            p / np.sqrt((p**2).mean(-1, keepdims=True) + 1e-5) * v[f"c.{n}_norm.gamma"] for n, p in (("q", q), ("k", k))
        )
        q, k, u = (p.reshape(x.shape) for p in (q, k, u))
        c = oracles.attend(oracles.rotate(q, 4, 0, 30.0), oracles.rotate(k, 4, 0, 30.0), u, 2, window=2)
        return [a, b, layer(v, "c.o", c)]

    names = [*projections("a", bias=False), *projections("b")]
    names += ["c.q.w", "c.k.w", "c.v.w", "c.q_norm.gamma", "c.k_norm.gamma", "c.o.w"]
    sets = [{"x": rng.standard_normal((2, 4, 8))}, {"x": rng.standard_normal((1, 1, 8))}]
    check(text, names, oracle, *sets, rng=rng)


def test_cross_attention(rng: Rng) -> None:
    text = """use attention::{cross_attention, padding_mask};
    input x: [?b, ?s, 4];
    input memory: [?b, ?t, 6];
    input lengths: [I32; ?b];
    out a = cross_attention(x, memory, 2) as a;
    out b = cross_attention(x, memory, 1, padding_mask(lengths, dim(memory, 1)), bias: false) as b;"""

    def oracle(v: Values) -> list[Array]:
        x, memory = v["x"], v["memory"]
        allowed = (np.arange(memory.shape[1]) < v["lengths"][:, None])[:, None, None]
        results = []
        for name, heads, mask in (("a", 2, None), ("b", 1, allowed)):
            q, k, u = (layer(v, f"{name}.{p}", y) for p, y in zip("qkv", (x, memory, memory), strict=True))
            results.append(layer(v, f"{name}.o", oracles.attend(q, k, u, heads, allowed=mask)))
        return results

    sets = [
        {
            "x": rng.standard_normal((2, s, 4)),
            "memory": rng.standard_normal((2, t, 6)),
            "lengths": np.array([1, t], np.int32),
        }
        for s, t in ((2, 5), (3, 1))
    ]
    check(text, [*projections("a"), *projections("b", bias=False)], oracle, *sets, rng=rng)


@pytest.mark.parametrize("options", ["4", "4, 2, rope_base: 100.0, bias: false", "4, 2, window: 2, bias: false"])
def test_cached_steps_equal_the_whole_sequence(options: str, rng: Rng) -> None:
    """The whole sequence by `gqa` (whose values are tested above), and the same in steps of 3, 1 and 2 positions."""
    settings = options if "2" in options else "4, 4, bias: true"
    rope = "" if "rope" in options else ", rope_base: none"
    whole = rlx.loads(f"use attention; input x: [?b, ?s, 16]; out y = attention::gqa(x, {settings}{rope}) as attn;")
    width = 8 if "2" in options else 16
    steps = rlx.loads(f"""use attention;
    input x: [?b, ?s, 16];
    input k: [?b, ?t, {width}];
    input v: [?b, ?t, {width}];
    let (y, new_k, new_v) = attention::cached_attention(x, k, v, {options}) as attn;
    out y, new_k, new_v;""")
    assert whole.param_names() == steps.param_names() == projections("attn", bias="false" not in options)
    whole = whole.init_params(seed=int(rng.integers(100)))
    steps = steps.with_params(whole.bindings)
    x = rng.standard_normal((2, 6, 16)).astype(np.float32)
    (right,) = whole.run_on("reference", x=x)
    for device in DEVICES:
        compiled = steps.jit_on(device)
        k = v = np.zeros((2, 0, width), np.float32)
        parts = []
        for a, b in ((0, 3), (3, 4), (4, 6)):
            y, k, v = compiled.run({"x": x[:, a:b], "k": k, "v": v})
            parts.append(y)
        np.testing.assert_allclose(np.concatenate(parts, 1), right, rtol=1e-4, atol=1e-5)


def test_cached_attention(rng: Rng) -> None:
    text = """use attention;
    input x: [?b, ?s, 8];
    input k: [?b, ?t, 4];
    input v: [?b, ?t, 4];
    let (y, new_k, new_v) = attention::cached_attention(x, k, v, 4, 2, rope_base: 10.0) as c;
    out y, new_k, new_v;"""

    def oracle(v: Values) -> list[Array]:
        start = v["k"].shape[1]
        q, k, u = (layer(v, f"c.{p}", v["x"]) for p in "qkv")
        q, k = (oracles.rotate(p, 2, start, 10.0) for p in (q, k))
        k, u = np.concatenate([v["k"], k], 1), np.concatenate([v["v"], u], 1)
        return [layer(v, "c.o", oracles.attend(q, k, u, 4, causal=True)), k, u]

    sets = [
        {n: rng.standard_normal((2, size, width)) for n, size, width in (("x", s, 8), ("k", t, 4), ("v", t, 4))}
        for s, t in ((2, 3), (1, 0))
    ]
    check(text, projections("c"), oracle, *sets, rng=rng)


def test_attention_pool(rng: Rng) -> None:
    text = """use attention::{attention_pool};
    input x: [?b, ?s, 4];
    input seen: [Bool; ?b, ?s];
    out a = attention_pool(x) as a;
    out b = attention_pool(x, seen) as b;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        a = special.softmax(x @ v["a.score.w"][:, 0], -1)
        b = special.softmax(np.where(v["seen"], x @ v["b.score.w"][:, 0], -np.inf), -1)
        return [np.einsum("bs,bsn->bn", w, x) for w in (a, b)]

    seen = np.array([[True, False, True], [False, True, True]])
    arrays = {"x": rng.standard_normal((2, 3, 4)), "seen": seen}
    check(text, ["a.score.w", "b.score.w"], oracle, arrays, rng=rng)
