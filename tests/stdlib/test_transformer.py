"""`use transformer;`: layers and stacks against NumPy, and the names of their parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import rlxlang as rlx
from tests.stdlib import attention_oracles as oracles
from tests.stdlib.attention_oracles import layer, projections, self_attention
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator


def gelu(x: Array) -> Array:
    return np.asarray(x * special.ndtr(x))


def gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def silu(x: Array) -> Array:
    return np.asarray(x * special.expit(x))


def norm(v: Values, name: str, x: Array, eps: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * v[f"{name}.gamma"] + v[f"{name}.beta"]
    )


def rms(v: Values, name: str, x: Array) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * v[f"{name}.gamma"])


def ffn(v: Values, name: str, x: Array, act: Callable[[Array], Array]) -> Array:
    return layer(v, f"{name}.down", act(layer(v, f"{name}.up", x)))


def gated(v: Values, name: str, x: Array, act: Callable[[Array], Array] = silu) -> Array:
    return layer(v, f"{name}.down", act(layer(v, f"{name}.gate", x)) * layer(v, f"{name}.up", x))


def cross(v: Values, name: str, x: Array, memory: Array, heads: int, allowed: Array | None = None) -> Array:
    q, k, u = (layer(v, f"{name}.{p}", y) for p, y in zip("qkv", (x, memory, memory), strict=True))
    return layer(v, f"{name}.o", oracles.attend(q, k, u, heads, allowed=allowed))


def affine_names(*layers: str) -> list[str]:
    return [f"{name}.{p}" for name in layers for p in ("gamma", "beta")]


def dense_names(*layers: str) -> list[str]:
    return [f"{name}.{p}" for name in layers for p in "wb"]


def encoder_names(name: str, pre: bool = True) -> list[str]:
    """Parameters of an encoder layer in the order of the text."""
    first = [*affine_names(f"{name}.norm1"), *projections(f"{name}.attn")]
    network = dense_names(f"{name}.ffn.up", f"{name}.ffn.down")
    if pre:
        return [*first, *affine_names(f"{name}.norm2"), *network]
    return [*projections(f"{name}.attn"), *affine_names(f"{name}.norm1"), *network, *affine_names(f"{name}.norm2")]


def pre_layer(v: Values, name: str, x: Array, heads: int, causal: bool = False, allowed: Array | None = None) -> Array:
    x = x + self_attention(v, f"{name}.attn", norm(v, f"{name}.norm1", x), heads, causal=causal, allowed=allowed)
    return x + ffn(v, f"{name}.ffn", norm(v, f"{name}.norm2", x), gelu)


def post_layer(v: Values, name: str, x: Array, heads: int, causal: bool = False) -> Array:
    x = norm(v, f"{name}.norm1", x + self_attention(v, f"{name}.attn", x, heads, causal=causal), 1e-3)
    return norm(v, f"{name}.norm2", x + ffn(v, f"{name}.ffn", x, np.tanh), 1e-3)


def test_feed_forward(rng: Rng) -> None:
    text = """use transformer;
    input x: [?b, ?s, 4];
    out a = transformer::feed_forward(x, 6) as a;
    out b = transformer::feed_forward(x, 3, "relu", false) as b;
    out c = transformer::gated_feed_forward(x, 5) as c;
    out d = transformer::gated_feed_forward(x, 5, "gelu", true) as d;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        return [
            ffn(v, "a", x, gelu),
            ffn(v, "b", x, lambda h: np.maximum(h, 0)),
            gated(v, "c", x),
            gated(v, "d", x, gelu),
        ]

    names = [*dense_names("a.up", "a.down"), "b.up.w", "b.down.w", "c.gate.w", "c.up.w", "c.down.w"]
    names += dense_names("d.gate", "d.up", "d.down")
    sets = [{"x": rng.standard_normal((2, 3, 4))}, {"x": rng.standard_normal((1, 1, 4))}]
    check(text, names, oracle, *sets, rng=rng)


def test_encoder_layer(rng: Rng) -> None:
    text = """use transformer::{encoder_layer};
    use attention;
    input x: [?b, ?s, 4];
    input lengths: [I32; ?b];
    out a = encoder_layer(x, 2, 6, allowed: attention::padding_mask(lengths, dim(x, 1))) as a;
    out b = encoder_layer(x, 1, 6, "tanh", pre: false, causal: true, eps: 1e-3) as b;"""

    def oracle(v: Values) -> list[Array]:
        allowed = (np.arange(v["x"].shape[1]) < v["lengths"][:, None])[:, None, None]
        return [pre_layer(v, "a", v["x"], 2, allowed=allowed), post_layer(v, "b", v["x"], 1, causal=True)]

    sets = [{"x": rng.standard_normal((2, s, 4)), "lengths": np.array([s - 1, s], np.int32)} for s in (4, 2)]
    func = check(text, encoder_names("a") + encoder_names("b", pre=False), oracle, *sets, rng=rng, factor=4)
    x, lengths = rng.standard_normal((3, 1, 4, 4)).astype(np.float32), np.array([4], np.int32)
    params = {n: func.param_binding(n) for n in func.param_names()}
    for device in DEVICES:
        mapped = func.vmap(["x"]).run_on(device, x=x, lengths=lengths)
        for lane in range(3):
            for result, right in zip(mapped, oracle({"x": x[lane], "lengths": lengths, **params}), strict=True):
                np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_decoder_layer(rng: Rng) -> None:
    text = """use transformer::{decoder_layer};
    input x: [?b, ?s, 4];
    input memory: [?b, ?t, 6];
    input seen: [Bool; ?b, ?t];
    out a = decoder_layer(x, memory, 2, 5, "tanh", allowed: seen[.., new, ..]) as a;
    out b = decoder_layer(x, memory, 1, 5, pre: false) as b;"""

    def oracle(v: Values) -> list[Array]:
        x, memory, seen = v["x"], v["memory"], v["seen"][:, None, None]
        x = x + self_attention(v, "a.attn", norm(v, "a.norm1", x), 2, causal=True)
        x = x + cross(v, "a.cross", norm(v, "a.norm2", x), memory, 2, seen)
        a = x + ffn(v, "a.ffn", norm(v, "a.norm3", x), np.tanh)
        x = norm(v, "b.norm1", v["x"] + self_attention(v, "b.attn", v["x"], 1, causal=True))
        x = norm(v, "b.norm2", x + cross(v, "b.cross", x, memory, 1))
        return [a, norm(v, "b.norm3", x + ffn(v, "b.ffn", x, gelu))]

    network = [dense_names(f"{n}.ffn.up", f"{n}.ffn.down") for n in "ab"]
    names = [*affine_names("a.norm1"), *projections("a.attn"), *affine_names("a.norm2"), *projections("a.cross")]
    names += [*affine_names("a.norm3"), *network[0]]
    names += [*projections("b.attn"), *affine_names("b.norm1"), *projections("b.cross"), *affine_names("b.norm2")]
    names += [*network[1], *affine_names("b.norm3")]
    seen = np.array([[True, True, False], [False, True, True]])
    arrays = {"x": rng.standard_normal((2, 2, 4)), "memory": rng.standard_normal((2, 3, 6)), "seen": seen}
    check(text, names, oracle, arrays, rng=rng, factor=4)


def gpt_names(name: str) -> list[str]:
    return [
        *affine_names(f"{name}.ln_1"),
        *projections(f"{name}.attn"),
        *affine_names(f"{name}.ln_2"),
        *dense_names(f"{name}.mlp.up", f"{name}.mlp.down"),
    ]


def gpt_layer(v: Values, name: str, x: Array, heads: int) -> Array:
    x = x + self_attention(v, f"{name}.attn", norm(v, f"{name}.ln_1", x), heads, causal=True)
    return x + ffn(v, f"{name}.mlp", norm(v, f"{name}.ln_2", x), gelu_tanh)


def llama_names(name: str) -> list[str]:
    return [
        f"{name}.attn_norm.gamma",
        *projections(f"{name}.attn", bias=False),
        f"{name}.ffn_norm.gamma",
        *(f"{name}.ffn.{p}.w" for p in ("gate", "up", "down")),
    ]


def llama_layer(v: Values, name: str, x: Array, heads: int, window: int | None = None, rope: float = 1e4) -> Array:
    x = x + self_attention(
        v, f"{name}.attn", rms(v, f"{name}.attn_norm", x), heads, rope=rope, causal=True, window=window
    )
    return x + gated(v, f"{name}.ffn", rms(v, f"{name}.ffn_norm", x))


def test_blocks_of_language_models(rng: Rng) -> None:
    text = """use transformer;
    input x: [?b, ?s, 8];
    out a = transformer::gpt_block(x, 2) as a;
    out b = transformer::gpt_block(x, 1, hidden: 5) as b;
    out c = transformer::llama_block(x, 2, 6) as c;
    out d = transformer::llama_block(x, 4, 6, 2, 50.0, window: 1) as d;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        return [
            gpt_layer(v, "a", x, 2),
            gpt_layer(v, "b", x, 1),
            llama_layer(v, "c", x, 2),
            llama_layer(v, "d", x, 4, 1, 50.0),
        ]

    names = [*gpt_names("a"), *gpt_names("b"), *llama_names("c"), *llama_names("d")]
    func = check(text, names, oracle, {"x": rng.standard_normal((2, 3, 8))}, rng=rng, factor=4)
    assert func.param_shape_of("a.mlp.up.w") == (8, 32)
    assert func.param_shape_of("d.attn.k.w") == (8, 4)


@pytest.mark.parametrize("pre", [True, False])
def test_encoder_and_decoder(pre: bool, rng: Rng) -> None:
    options = "" if pre else ', "tanh", pre: false, causal: true, eps: 1e-3'
    text = f"""use transformer;
    input x: [?b, ?s, 4];
    out y = transformer::encoder(x, 2, 2, 6{options}) as e;"""

    def oracle(v: Values) -> Array:
        x = v["x"]
        for i in range(2):
            one = f"e.layers.{i}"
            x = pre_layer(v, one, x, 2) if pre else post_layer(v, one, x, 2, causal=True)
        return norm(v, "e.norm", x) if pre else x

    names = [*encoder_names("e.layers.0", pre), *encoder_names("e.layers.1", pre)]
    names += affine_names("e.norm") if pre else []
    sets = [{"x": rng.standard_normal((2, 3, 4))}, {"x": rng.standard_normal((1, 5, 4))}]
    check(text, names, oracle, *sets, rng=rng, factor=4)


def test_a_decoder_is_its_layers_in_order(rng: Rng) -> None:
    text = """use transformer;
    use nn;
    input x: [?b, ?s, 4];
    input memory: [?b, ?t, 6];
    out y = transformer::{};"""
    stack = rlx.loads(text.format("decoder(x, memory, 2, 2, 6) as d").replace("use nn;", ""))
    params = stack.init_params(seed=int(rng.integers(99))).bindings
    layers = """decoder_layer(
      transformer::decoder_layer(x, memory, 2, 6) as "d.layers.0", memory, 2, 6) as "d.layers.1" """
    by_hand = rlx.loads(text.format(f'{layers}; out z = nn::layernorm(y) as "d.norm"'))
    assert by_hand.param_names() == stack.param_names()
    x, memory = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (2, 5, 6)))
    expected = by_hand.with_params(params).run_on("reference", x=x, memory=memory)[1]
    for device in DEVICES:
        (found,) = stack.with_params(params).run_on(device, x=x, memory=memory)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_gpt(rng: Rng) -> None:
    text = """use transformer;
    input ids: [I32; ?b, ?s];
    out logits = transformer::gpt(ids, vocab: 7, longest: 5, depth: 2, heads: 2, n: 4) as g;"""

    def oracle(v: Values) -> Array:
        ids = v["ids"]
        x = v["g.tokens.table"][ids] + v["g.positions.table"][: ids.shape[1]]
        for i in range(2):
            x = gpt_layer(v, f"g.h.{i}", x, 2)
        return np.asarray(norm(v, "g.ln_f", x) @ v["g.tokens.table"].T)

    names = ["g.tokens.table", "g.positions.table", *gpt_names("g.h.0"), *gpt_names("g.h.1"), *affine_names("g.ln_f")]
    sets = [{"ids": rng.integers(0, 7, shape).astype(np.int32)} for shape in ((2, 3), (1, 5))]
    check(text, names, oracle, *sets, rng=rng, factor=4, derivative="cpu")


def test_llama(rng: Rng) -> None:
    text = """use transformer;
    input ids: [I32; ?b, ?s];
    out logits = transformer::llama(ids, vocab: 7, depth: 2, heads: 4, n: 8, hidden: 6, kv_heads: 2, rope_base: 30.0) as m;"""

    def oracle(v: Values) -> Array:
        x = v["m.tokens.table"][v["ids"]]
        for i in range(2):
            x = llama_layer(v, f"m.layers.{i}", x, 4, rope=30.0)
        return layer(v, "m.head", rms(v, "m.norm", x))

    names = ["m.tokens.table", *llama_names("m.layers.0"), *llama_names("m.layers.1"), "m.norm.gamma", "m.head.w"]
    sets = [{"ids": rng.integers(0, 7, shape).astype(np.int32)} for shape in ((2, 3), (1, 5))]
    check(text, names, oracle, *sets, rng=rng, factor=4)


def test_vit(rng: Rng) -> None:
    text = """use transformer;
    input image: [?b, 3, 4, 6];
    out logits = transformer::vit(image, classes: 5, patch: 2, depth: 1, heads: 2, n: 4, hidden: 6) as v;"""

    def oracle(v: Values) -> Array:
        rows = []
        for image in v["image"]:
            patches = [image[:, i : i + 2, j : j + 2].ravel() for i in (0, 2) for j in (0, 2, 4)]
            tokens = layer(v, "v.patches", np.array(patches))
            rows.append(np.concatenate([v["v.class_token"][None], tokens]) + v["v.positions.table"])
        x = norm(v, "v.encoder.norm", pre_layer(v, "v.encoder.layers.0", np.array(rows), 2))
        return layer(v, "v.head", x[:, 0])

    names = [*dense_names("v.patches"), "v.class_token", "v.positions.table", *encoder_names("v.encoder.layers.0")]
    names += [*affine_names("v.encoder.norm"), *dense_names("v.head")]
    sets = [{"image": rng.standard_normal((b, 3, 4, 6))} for b in (2, 1)]
    check(text, names, oracle, *sets, rng=rng, factor=4)


@pytest.mark.parametrize(
    ("block", "by_hand"),
    [
        (
            "encoder_layer(x, 2, 6, drop: 0.5)",
            """let h = nn::layernorm(x) as "m.norm1";
            let x = x + dropout(attention::mha(h, 2) as "m.attn", 0.5);
            let h = nn::layernorm(x) as "m.norm2";
            let y = x + dropout(transformer::feed_forward(h, 6) as "m.ffn", 0.5);""",
        ),
        (
            "encoder_layer(x, 2, 6, pre: false, drop: 0.5)",
            """let x = x + dropout(attention::mha(x, 2) as "m.attn", 0.5);
            let x = nn::layernorm(x) as "m.norm1";
            let x = x + dropout(transformer::feed_forward(x, 6) as "m.ffn", 0.5);
            let y = nn::layernorm(x) as "m.norm2";""",
        ),
        (
            "decoder_layer(x, x, 2, 6, drop: 0.5)",
            """let m = x;
            let h = nn::layernorm(x) as "m.norm1";
            let x = x + dropout(attention::mha(h, 2, true) as "m.attn", 0.5);
            let h = nn::layernorm(x) as "m.norm2";
            let x = x + dropout(attention::cross_attention(h, m, 2) as "m.cross", 0.5);
            let h = nn::layernorm(x) as "m.norm3";
            let y = x + dropout(transformer::feed_forward(h, 6) as "m.ffn", 0.5);""",
        ),
        (
            "decoder_layer(x, x, 2, 6, pre: false, drop: 0.5)",
            """let m = x;
            let x = x + dropout(attention::mha(x, 2, true) as "m.attn", 0.5);
            let x = nn::layernorm(x) as "m.norm1";
            let x = x + dropout(attention::cross_attention(x, m, 2) as "m.cross", 0.5);
            let x = nn::layernorm(x) as "m.norm2";
            let x = x + dropout(transformer::feed_forward(x, 6) as "m.ffn", 0.5);
            let y = nn::layernorm(x) as "m.norm3";""",
        ),
        (
            "encoder(x, 1, 2, 6, drop: 0.5)",
            """let y = nn::layernorm(transformer::encoder_layer(x, 2, 6, drop: 0.5) as "m.layers.0") as "m.norm";""",
        ),
        (
            "decoder(x, x, 1, 2, 6, pre: false, drop: 0.5)",
            """let y = transformer::decoder_layer(x, x, 2, 6, pre: false, drop: 0.5) as "m.layers.0";""",
        ),
        (
            "gpt_block(x, 2, drop: 0.5)",
            """let h = nn::layernorm(x) as "m.ln_1";
            let x = x + dropout(attention::mha(h, 2, true) as "m.attn", 0.5);
            let h = nn::layernorm(x) as "m.ln_2";
            let y = x + dropout(transformer::feed_forward(h, 16, "gelu_tanh") as "m.mlp", 0.5);""",
        ),
        (
            "gpt(ids, 9, 5, 1, 2, 4, drop: 0.5)",
            """let h = nn::embedding(ids, 9, 4) as "m.tokens";
            let h = dropout(nn::learned_positions(h, 5) as "m.positions", 0.5);
            let h = transformer::gpt_block(h, 2, drop: 0.5) as "m.h.0";
            let h = nn::layernorm(h) as "m.ln_f";
            param own @ "table": [9, 4];
            let y = linear(h, own);""",
        ),
    ],
)
def test_where_dropout_stands(block: str, by_hand: str, rng: Rng) -> None:
    uses = "use nn; use attention; use transformer; input x: [?b, ?s, 4]; input ids: [I32; ?b, ?s]; tap t = x + ids[.., .., new];"
    func = rlx.loads(f"{uses} out y = transformer::{block} as m;").init_params(seed=1)
    twin = rlx.loads(f"{uses} {by_hand} out y;")
    params = dict(func.bindings)
    assert [n for n in twin.param_names() if n != "table"] == func.param_names()
    if "table" in twin.param_names():
        params["table"] = params["m.tokens.table"]
    twin = twin.with_params(params)
    arrays = {
        "x": rng.standard_normal((2, 3, 4)).astype(np.float32),
        "ids": rng.integers(0, 9, (2, 3)).astype(np.int32),
    }
    results = [[f.jit_on("reference").run(arrays, seed=s)[0] for s in (0, 1)] for f in (func, twin)]
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0][0], results[0][1])
