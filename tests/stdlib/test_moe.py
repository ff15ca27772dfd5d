"""`use moe;`: routing and experts against loops over tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

import rlxlang as rlx
from tests.stdlib.attention_oracles import self_attention
from tests.stdlib.measure import Array, Values, check

Rng = np.random.Generator


def silu(x: Array) -> Array:
    return np.asarray(x * special.expit(x))


def route(logits: Array, k: int, renormalise: bool = True) -> tuple[Array, Array]:
    """Weights and experts of each token, the largest probability first."""
    probabilities = special.softmax(logits, -1)
    chosen = np.argsort(-probabilities, -1, kind="stable")[:, :k]
    weights = np.take_along_axis(probabilities, chosen, -1)
    return weights / weights.sum(-1, keepdims=True) if renormalise else weights, chosen


def roomy(chosen: Array, room: float) -> Array:
    """Which choices find room: first choices in order, then second ones."""
    taken: dict[int, int] = {}
    kept = np.zeros(chosen.shape, bool)
    for j in range(chosen.shape[1]):
        for t in range(len(chosen)):
            expert = int(chosen[t, j])
            kept[t, j] = taken.get(expert, 0) < room
            taken[expert] = taken.get(expert, 0) + 1
    return kept


def balance(logits: Array, chosen: Array) -> Any:
    count = logits.shape[1]
    parts = np.array([np.mean(chosen == i) for i in range(count)])
    return count * (parts * special.softmax(logits, -1).mean(0)).sum()


def network(v: Values, name: str, expert: int, x: Array, act: Any = silu) -> Array:
    up, down = x @ v[f"{name}.up"][expert], v[f"{name}.down"][expert]
    gate = v.get(f"{name}.gate")
    return np.asarray((act(up) if gate is None else act(x @ gate[expert]) * up) @ down)


def mixed(
    v: Values, name: str, x: Array, k: int, act: Any = silu, capacity: float | None = None, **options: Any
) -> list[Any]:
    tokens = x.reshape(-1, x.shape[-1])
    logits = tokens @ v[f"{name}.router"]
    weights, chosen = route(logits, k, **options)
    if capacity is not None:
        weights = weights * roomy(chosen, math.ceil(capacity * chosen.size / logits.shape[1]))
    y = np.zeros_like(tokens)
    for t, token in enumerate(tokens):
        for weight, expert in zip(weights[t], chosen[t], strict=True):
            y[t] += weight * network(v, f"{name}.experts", expert, token, act)
    if f"{name}.shared.up.w" in v:
        gate, up, down = (v[f"{name}.shared.{p}.w"] for p in ("gate", "up", "down"))
        y += (silu(tokens @ gate) * (tokens @ up)) @ down
    return [y.reshape(x.shape), balance(logits, chosen), (special.logsumexp(logits, -1) ** 2).mean()]


def test_gates(rng: Rng) -> None:
    text = """use moe::*;
    input x: [?t, 5];
    let (a, b) = top_k_gate(x, 2);
    let (c, d) = top_k_gate(x, 3, false);
    out a, b, c, d, e = load_balance_loss(x, b), f = router_z_loss(x);
    out g = within_capacity(d, 5, 2), h = within_capacity(b, 5, ?t / 2.0);"""

    def oracle(v: Values) -> list[Any]:
        x = v["x"]
        a, b = route(x, 2)
        c, d = route(x, 3, renormalise=False)
        z = (special.logsumexp(x, -1) ** 2).mean()
        return [a, b, c, d, balance(x, b), z, roomy(d, 2), roomy(b, len(x) / 2)]

    check(text, [], oracle, *({"x": rng.standard_normal((t, 5))} for t in (7, 1)), rng=rng)
    even = rlx.loads("""use moe; input x: [4, 2]; let (w, e) = moe::top_k_gate(x, 1);
    out l = moe::load_balance_loss(x, e), w;""")
    level, weights = even.run(x=[[9, -9], [-9, 9], [9, -9], [-9, 9]])
    np.testing.assert_allclose(level, 1, rtol=1e-6)
    np.testing.assert_array_equal(weights, 1)
    uneven, _ = even.run(x=[[9, -9]] * 4)
    np.testing.assert_allclose(uneven, 2, rtol=1e-6)


def test_experts(rng: Rng) -> None:
    text = """use moe::*;
    input x: [?r, 3]; input sizes: [I32; 4];
    out a = experts(x, sizes, 5) as a, b = experts(x, sizes, 5, "tanh", false) as b;"""

    def oracle(v: Values) -> list[Array]:
        owner = np.repeat(np.arange(4), v["sizes"])
        rows = [(network(v, "a", e, x), network(v, "b", e, x, np.tanh)) for e, x in zip(owner, v["x"], strict=True)]
        return [np.array(part) for part in zip(*rows, strict=True)]

    names = ["a.up", "a.gate", "a.down", "b.up", "b.down"]
    sets = [
        {"x": rng.standard_normal((sum(s), 3)), "sizes": np.array(s, np.int32)} for s in ((2, 0, 3, 1), (0, 1, 0, 0))
    ]
    check(text, names, oracle, *sets, rng=rng, factor=4)
    start = rlx.loads("use moe; input x: [?r, 64]; input s: [I32; 4]; out y = moe::experts(x, s, 32) as e;")
    start = start.init_params(seed=1)
    for part, width in (("up", 64), ("gate", 64), ("down", 32)):
        weights = start.param_binding(f"e.{part}")
        assert weights is not None
        assert abs(weights.std() * math.sqrt(width) - 1) < 0.05


def test_mixtures(rng: Rng) -> None:
    text = """use moe::*;
    input x: [?b, ?s, 3];
    let (a, ab, az) = mixture(x, 4, 5) as a;
    let (c, cb, cz) = mixture(x, 4, 5, 1, "tanh", false, 1.0, 2, false) as c;
    out a, ab, az, c, cb, cz;"""

    def oracle(v: Values) -> list[Any]:
        return [
            *mixed(v, "a", v["x"], 2),
            *mixed(v, "c", v["x"], 1, np.tanh, 1.0, renormalise=False),
        ]

    names = ["a.router", *(f"a.experts.{p}" for p in ("up", "gate", "down"))]
    names += ["c.router", "c.experts.up", "c.experts.down", *(f"c.shared.{p}.w" for p in ("gate", "up", "down"))]
    sets = [{"x": rng.standard_normal((b, s, 3))} for b, s in ((2, 5), (1, 1))]
    func = check(text, names, oracle, *sets, rng=rng, factor=4, derivative="cpu")
    x = rng.standard_normal((3, 2, 2, 3)).astype(np.float32)
    params = {n: func.param_binding(n) for n in names}
    mapped = func.vmap(["x"]).run_on("reference", x=x)
    for lane in range(3):
        for result, right in zip(mapped, oracle({**params, "x": x[lane]}), strict=True):
            np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_expert_choice(rng: Rng) -> None:
    text = "use moe; input x: [?b, ?s, 3]; out y = moe::expert_choice(x, 4, 5, 3) as e, z = moe::expert_choice(x, 4, 5) as f;"

    def choice(v: Values, name: str, capacity: int) -> Array:
        tokens = v["x"].reshape(-1, 3)
        probabilities = special.softmax(tokens @ v[f"{name}.router"], -1)
        y, room = np.zeros_like(tokens), max(1, capacity * len(tokens) // 4)
        for expert in range(4):
            for t in np.argsort(-probabilities[:, expert])[:room]:
                y[t] += probabilities[t, expert] * network(v, f"{name}.experts", expert, tokens[t])
        return y.reshape(v["x"].shape)

    def oracle(v: Values) -> list[Array]:
        return [choice(v, "e", 3), choice(v, "f", 2)]

    names = [f"{n}.{p}" for n in "ef" for p in ("router", "experts.up", "experts.gate", "experts.down")]
    check(text, names, oracle, *({"x": rng.standard_normal((b, s, 3))} for b, s in ((2, 3), (1, 1))), rng=rng, factor=4)


def test_mixture_block(rng: Rng) -> None:
    text = """use moe; input x: [?b, ?s, 4];
    let (y, b, z) = moe::mixture_block(x, 2, 3, 5, 2, 1, none) as m; out y, b, z;"""

    def rms(x: Array) -> Array:
        return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5))

    def oracle(v: Values) -> list[Any]:
        x = v["x"]
        x = x + self_attention(v, "m.attn", rms(x) * v["m.attn_norm.gamma"], 2, causal=True)
        y, level, z = mixed(v, "m.moe", rms(x) * v["m.ffn_norm.gamma"], 2)
        return [x + y, level, z]

    names = ["m.attn_norm.gamma", *(f"m.attn.{p}.w" for p in "qkvo"), "m.ffn_norm.gamma", "m.moe.router"]
    names += [f"m.moe.experts.{p}" for p in ("up", "gate", "down")]
    func = check(text, names, oracle, {"x": rng.standard_normal((2, 3, 4))}, rng=rng, factor=8)
    x = rng.standard_normal((2, 9, 4)).astype(np.float32)
    given = {"m.attn.k.w": (4, 4), "m.attn.v.w": (4, 4)}
    params = {n: func.param_binding(n) for n in names} | {n: np.eye(*s, dtype=np.float32) for n, s in given.items()}
    usual, written = (
        rlx.loads(f"use moe; input x: [?b, ?s, 4]; let (y, _, _) = moe::mixture_block({options}) as m; out y;")
        for options in ("x, 2, 3, 5", "x, 2, 3, 5, 2, 2, 10000.0, none, none, none, 1e-5")
    )
    results = [f.with_params(params).run_on("reference", x=x)[0] for f in (usual, written)]
    np.testing.assert_array_equal(*results)
