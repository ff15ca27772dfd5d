"""`use lora;`: adapted layers against NumPy, what stays frozen, and what a merge makes of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

import rlxlang as rlx
from tests.stdlib.attention_oracles import attend
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator


class Frozen:
    """Parameters as the first call saw them: constants of the derivative."""

    def __init__(self, *names: str) -> None:
        self._names, self._held = names, {}  # type: tuple[str, ...], dict[str, Any]

    def of(self, v: Values) -> dict[str, Any]:
        for n in self._names:
            self._held.setdefault(n, v[n])
        return {**v, **self._held}


def low(v: Values, name: str, x: Array, scale: float) -> Array:
    return np.asarray(x @ v[f"{name}.w"] + scale * x @ (v[f"{name}.lora_a"] @ v[f"{name}.lora_b"]))


def test_layers(rng: Rng) -> None:
    text = """use lora::*;
    input x: [?b, 4]; input ids: [I32; ?b, ?s];
    out a = lora_dense(x, 3, 2, 8.0) as a;
    out b = lora_dense(x, 3, 4, 8.0, "tanh", bias: false, rooted: true) as b;
    out c = frozen_dense(x, 3, "silu") as c;
    out d = lora_embedding(ids, 5, 3, 2, 3.0) as d, g = lora_dense(x, 3, 2) as g, h = lora_embedding(ids, 5, 3, 2) as h;
    out e = projection(x, 3, "e", true, 2, 1.0, false), f = projection(x, 3, "f", false, 2, 1.0, true);"""
    frozen = Frozen("a.w", "a.b", "b.w", "c.w", "c.b", "d.table", "g.w", "g.b", "h.table", "e.w", "f.w", "f.b")

    def oracle(given: Values) -> list[Array]:
        v = frozen.of(given)
        x, ids = v["x"], v["ids"]
        h = x @ v["c.w"] + v["c.b"]
        return [
            low(v, "a", x, 4) + v["a.b"],
            np.tanh(low(v, "b", x, 4)),
            h * special.expit(h),
            (v["d.table"] + 1.5 * v["d.lora_a"] @ v["d.lora_b"])[ids],
            low(v, "g", x, 0.5) + v["g.b"],
            (v["h.table"] + 0.5 * v["h.lora_a"] @ v["h.lora_b"])[ids],
            low(v, "e", x, 0.5),
            x @ v["f.w"] + v["f.b"],
        ]

    names = ["a.w", "a.lora_a", "a.lora_b", "a.b", "b.w", "b.lora_a", "b.lora_b", "c.w", "c.b"]
    names += [
        "d.table",
        "d.lora_a",
        "d.lora_b",
        "g.w",
        "g.lora_a",
        "g.lora_b",
        "g.b",
        "h.table",
        "h.lora_a",
        "h.lora_b",
    ]
    names += ["e.w", "e.lora_a", "e.lora_b", "f.w", "f.b"]
    sets = [{"x": rng.standard_normal((b, 4)), "ids": rng.integers(0, 5, (b, 2)).astype(np.int32)} for b in (3, 1)]
    func = check(text, names, oracle, *sets, rng=rng, factor=4)
    x, ids = rng.standard_normal((2, 3, 4)).astype(np.float32), sets[0]["ids"]
    params = {n: func.param_binding(n) for n in names}
    for device in DEVICES:
        mapped = func.vmap(["x"]).run_on(device, x=x, ids=ids)
        for result, right in zip(mapped[:3], oracle({**params, "x": x, "ids": ids})[:3], strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)


def test_start_and_merge(rng: Rng) -> None:
    text = """use lora; use nn; input x: [?b, 40];
    out y = lora::lora_dense(x, 60, 2, 8.0, "relu") as l;"""
    start = rlx.loads(text).init_params(seed=1)
    v: dict[str, Any] = {n: start.param_binding(n) for n in start.param_names()}
    assert abs(v["l.w"].std() * math.sqrt(20) - 1) < 0.05
    assert not v["l.lora_b"].any()
    assert v["l.lora_a"].any()
    x = rng.standard_normal((3, 40)).astype(np.float32)
    plain = rlx.loads('use nn; input x: [?b, 40]; out y = nn::dense(x, 60, "relu") as l;')
    before = plain.with_params({n: v[n] for n in ("l.w", "l.b")}).run(x=x)[0]
    np.testing.assert_allclose(start.run(x=x)[0], before, rtol=1e-5, atol=1e-5)
    trained = {**v, "l.lora_b": rng.standard_normal((2, 60)).astype(np.float32)}
    table = rlx.loads("use lora; input i: [I32; 2]; out y = lora::lora_embedding(i, 500, 20, 40) as e;").init_params(
        seed=1
    )
    for name, std in (("table", 0.02), ("lora_a", 0), ("lora_b", 1)):
        values = table.param_binding(f"e.{name}")
        assert values is not None
        assert abs(values.std() - std) <= 0.06 * std
    for option, scale in (("", 4), (", true", 8 / math.sqrt(2))):
        merge = rlx.loads(f"""use lora; input w: [40, 60]; input a: [40, 2]; input b: [2, 60];
        out w2 = lora::lora_merge(w, a, b, 8.0{option}), s = lora::lora_scale(8.0, 2{option});""")
        merged, s = merge.run(w=v["l.w"], a=v["l.lora_a"], b=trained["l.lora_b"])
        assert abs(s - scale) < 1e-6
        np.testing.assert_allclose(merged, v["l.w"] + scale * v["l.lora_a"] @ trained["l.lora_b"], rtol=1e-5, atol=1e-5)
    rooted = rlx.loads(text.replace('"relu"', '"relu", rooted: true')).with_params(trained)
    after = plain.with_params({"l.w": merged, "l.b": v["l.b"]}).run(x=x)[0]
    np.testing.assert_allclose(rooted.run(x=x)[0], after, rtol=1e-4, atol=1e-4)


def test_attention(rng: Rng) -> None:
    text = """use lora;
    input x: [?b, ?s, 4];
    out a = lora::lora_attention(x, 2, 2, 3.0, causal: true) as a;
    out b = lora::lora_attention(
        x, 2, 1, adapt_q: false, adapt_k: true, adapt_v: false, adapt_o: true, kv_heads: 1, head_dim: 4, bias: false
    ) as b;"""
    layers = {"a": "qv", "b": "ko"}
    frozen = [f"{n}.{p}.w" for n in layers for p in "qkvo"] + [f"a.{p}.b" for p in "qkvo"]
    constants = Frozen(*frozen)

    def layer(v: Values, name: str, part: str, x: Array, scale: float) -> Array:
        full = f"{name}.{part}"
        y = low(v, full, x, scale) if part in layers[name] else x @ v[f"{full}.w"]
        return y + v.get(f"{full}.b", 0)

    def oracle(given: Values) -> list[Array]:
        v = constants.of(given)
        results = []
        for name, scale, causal in (("a", 1.5, True), ("b", 1.0, False)):
            q, k, u = (layer(v, name, part, v["x"], scale) for part in "qkv")
            results.append(layer(v, name, "o", attend(q, k, u, 2, causal=causal), scale))
        return results

    names = []
    for name, adapted in layers.items():
        for part in "qkvo":
            thin = ["lora_a", "lora_b"] if part in adapted else []
            names += [f"{name}.{part}.{p}" for p in ("w", *thin, *(["b"] if name == "a" else []))]
    sets = [{"x": rng.standard_normal((b, s, 4))} for b, s in ((2, 3), (1, 1))]
    check(text, names, oracle, *sets, rng=rng, factor=4)
    plain = rlx.loads("use attention; input x: [?b, ?s, 4]; out y = attention::mha(x, 2) as a;")
    assert set(plain.param_names()) < set(names)
    rotated = rlx.loads("""use lora; input x: [?b, ?s, 4];
    out y = lora::lora_attention(x, 2, 2, rope_base: 100.0, window: 1, causal: true) as a;""").init_params(seed=1)
    same = rlx.loads("""use attention; input x: [?b, ?s, 4];
    out y = attention::mha(x, 2, rope_base: 100.0, window: 1, causal: true) as a;""")
    same = same.with_params({n: rotated.param_binding(n) for n in same.param_names()})
    x = sets[0]["x"].astype(np.float32)
    np.testing.assert_allclose(rotated.run(x=x)[0], same.run(x=x)[0], rtol=1e-5, atol=1e-6)


def test_dropout_leaves_the_frozen_part_alone(rng: Rng) -> None:
    text = "use lora; input x: [?b, 30]; out y = lora::lora_dense(x, 2, 3, drop: 0.5) as l;"
    func = rlx.loads(text).init_params(seed=1)
    x = rng.standard_normal((4000, 30)).astype(np.float32)
    for device in DEVICES:
        frozen = func.jit_on(device).run({"x": x}, seed=1)[0]
        np.testing.assert_allclose(frozen, x @ func.param_binding("l.w"), rtol=1e-4, atol=1e-4)
    ones = {"l.w": np.zeros((30, 2), np.float32), "l.lora_a": np.ones((30, 3), np.float32) / 30}
    ones["l.lora_b"] = np.ones((3, 2), np.float32)
    dropped = func.with_params(ones).run({"x": 1 + 0 * x}, seed=1)[0]
    assert abs(dropped.mean() - 1) < 0.02
    assert dropped.std() > 0.1
