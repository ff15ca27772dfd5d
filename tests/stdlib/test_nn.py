"""`use nn;`: layers against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import rlxlang as rlx
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "relu": lambda x: np.where(x > 0, x, 0),
    "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * special.expit(x),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "relu2": lambda x: np.maximum(x, 0) ** 2,
}


def normalised(x: Array, axes: Any = -1, eps: float = 1e-5) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps))


def table_of_sines(n: int, d: int, base: float = 10000.0) -> Array:
    """The formula of Vaswani et al. 2017, entry by entry."""
    table = np.zeros((n, d))
    for p in range(n):
        for i in range(d // 2):
            table[p, 2 * i] = math.sin(p / base ** (2 * i / d))
            table[p, 2 * i + 1] = math.cos(p / base ** (2 * i / d))
    return table


def test_activate(rng: Rng) -> None:
    outs = " ".join(f'out y{k} = nn::activate(x, "{act}");' for k, act in enumerate(ACTIVATIONS))
    x = np.concatenate([3 * rng.standard_normal(9), [-8.0, 8.0]])

    def oracle(v: Values) -> list[Array]:
        return [act(v["x"]) for act in ACTIVATIONS.values()]

    check(f"use nn; input x: [?n]; {outs}", [], oracle, {"x": x}, {"x": x[:1]}, rng=rng)


def test_an_activation_that_does_not_exist() -> None:
    found = rlx.check('use nn; input x: [3]; out y = nn::dense(x, 4, act: "rely");')
    assert [d.code for d in found] == ["E0201"]


def test_weight_gain() -> None:
    acts = ("relu", "silu", "tanh", "none", "sigmoid")
    listed = ", ".join(f'full([1], nn::weight_gain("{a}"))' for a in acts)
    (gains,) = rlx.loads(f"use nn; out y = concat([{listed}]);").run()
    np.testing.assert_allclose(gains, [math.sqrt(2), math.sqrt(2), 5 / 3, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("act", ["none", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_dense(act: str, bias: bool, rng: Rng) -> None:
    text = f'use nn; input x: [?b, ?s, 5]; out y = nn::dense(x, 3, "{act}", {str(bias).lower()}) as fc;'
    names = ["fc.w", "fc.b"] if bias else ["fc.w"]

    def oracle(v: Values) -> Array:
        return ACTIVATIONS[act](v["x"] @ v["fc.w"] + v.get("fc.b", 0))

    check(text, names, oracle, {"x": rng.standard_normal((2, 3, 5))}, {"x": rng.standard_normal((1, 7, 5))}, rng=rng)


def test_how_dense_starts() -> None:
    func = rlx.loads('use nn; input x: [1, 400]; out y = nn::dense(x, 300, "relu") as fc;').init_params(seed=3)
    w, b = func.param_binding("fc.w"), func.param_binding("fc.b")
    assert w is not None
    assert b is not None
    assert abs(w.std() / math.sqrt(2 / 400) - 1) < 0.02
    assert not b.any()


def test_mlp(rng: Rng) -> None:
    text = 'use nn::{mlp}; input x: [?b, 4]; out y = mlp(x, [6, 5, 2], "tanh", last: "sigmoid") as net;'
    names = [f"net.layers.{i}.{p}" for i in range(3) for p in "wb"]

    def oracle(v: Values) -> Array:
        h = v["x"]
        for i, act in enumerate((np.tanh, np.tanh, special.expit)):
            h = act(h @ v[f"net.layers.{i}.w"] + v[f"net.layers.{i}.b"])
        return np.asarray(h)

    func = check(
        text,
        names,
        oracle,
        {"x": rng.standard_normal((3, 4))},
        {"x": rng.standard_normal((9, 4))},
        rng=rng,
        derivative="cpu",
    )
    assert rlx.loads("use nn; input x: [4]; out y = nn::mlp(x, [2], bias: false);").param_names() == [
        "mlp_0.layers.0.w"
    ]
    params = {n: func.param_binding(n) for n in names}
    x = rng.standard_normal((4, 3, 4)).astype(np.float32)
    for device in DEVICES:
        (mapped,) = func.vmap(["x"]).run_on(device, x=x)
        np.testing.assert_allclose(mapped, oracle({"x": x, **params}), rtol=2e-5, atol=2e-6)


def test_gated_dense(rng: Rng) -> None:
    text = "use nn; input x: [?b, 4]; out y = nn::gated_dense(x, 3) as g;"

    def oracle(v: Values) -> Array:
        gate = special.expit(v["x"] @ v["g.gate.w"] + v["g.gate.b"])
        return np.asarray(gate * (v["x"] @ v["g.value.w"] + v["g.value.b"]))

    names = ["g.gate.w", "g.gate.b", "g.value.w", "g.value.b"]
    check(text, names, oracle, {"x": rng.standard_normal((3, 4))}, rng=rng)


def test_bilinear(rng: Rng) -> None:
    text = "use nn; input x: [?b, 4]; input z: [?b, 3]; out y = nn::bilinear(x, z, 2) as p;"

    def oracle(v: Values) -> Array:
        rows = []
        for x, z in zip(v["x"], v["z"], strict=True):
            rows.append([x @ w @ z for w in v["p.w"]] + v["p.b"])
        return np.array(rows)

    arrays = {"x": rng.standard_normal((3, 4)), "z": rng.standard_normal((3, 3))}
    check(text, ["p.w", "p.b"], oracle, arrays, rng=rng)


def test_embedding_and_tied_logits(rng: Rng) -> None:
    text = """use nn;
    input ids: [I32; ?b, ?s];
    let h = nn::embedding(ids, 7, 4) as tokens;
    out h, logits = nn::tied_logits(h, tokens.table);"""

    def oracle(v: Values) -> tuple[Array, Array]:
        h = v["tokens.table"][v["ids"]]
        return h, h @ v["tokens.table"].T

    ids = rng.integers(0, 7, (2, 5)).astype(np.int32)
    check(text, ["tokens.table"], oracle, {"ids": ids}, {"ids": ids[:1, :2]}, rng=rng)
    start = rlx.loads("use nn; input i: [I32; 2]; out y = nn::embedding(i, 500, 40, std: 0.1) as e;")
    table = start.init_params(seed=1).param_binding("e.table")
    assert table is not None
    assert abs(table.std() - 0.1) < 0.003


def test_learned_positions(rng: Rng) -> None:
    text = "use nn; input x: [?b, ?s, 3]; out y = nn::learned_positions(x, 6) as p; out z = nn::learned_positions(x, 9, 2) as q;"

    def oracle(v: Values) -> tuple[Array, Array]:
        s = v["x"].shape[1]
        return v["x"] + v["p.table"][:s], v["x"] + v["q.table"][2 : 2 + s]

    sets = [{"x": rng.standard_normal((2, s, 3))} for s in (4, 6)]
    func = check(text, ["p.table", "q.table"], oracle, *sets, rng=rng)
    with pytest.raises(rlx.RlxError):
        func.run(x=np.zeros((1, 7, 3), np.float32))


def test_sinusoids(rng: Rng) -> None:
    text = """use nn;
    input x: [?b, ?s, 6];
    out y = nn::sinusoid_positions(x);
    out z = nn::sinusoid_positions(x, 100.0);"""

    def oracle(v: Values) -> list[Array]:
        return [v["x"] + table_of_sines(v["x"].shape[1], 6, base) for base in (10000.0, 100.0)]

    check(text, [], oracle, {"x": rng.standard_normal((2, 9, 6))}, {"x": rng.standard_normal((1, 1, 6))}, rng=rng)


def test_layernorm_and_rmsnorm(rng: Rng) -> None:
    text = """use nn;
    input x: [?b, 5];
    out a = nn::layernorm(x) as ln;
    out b = nn::layernorm(x, bias: false) as lo;
    out c = nn::rmsnorm(x, 0.1) as rms;"""

    def oracle(v: Values) -> tuple[Array, Array, Array]:
        x = v["x"]
        return (
            normalised(x) * v["ln.gamma"] + v["ln.beta"],
            normalised(x) * v["lo.gamma"],
            x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1) * v["rms.gamma"],
        )

    names = ["ln.gamma", "ln.beta", "lo.gamma", "rms.gamma"]
    check(text, names, oracle, {"x": rng.standard_normal((4, 5))}, {"x": rng.standard_normal((1, 5))}, rng=rng)


def test_norms_of_images(rng: Rng) -> None:
    text = """use nn;
    input x: [?b, 6, ?h, ?w];
    out a = nn::groupnorm(x, 3) as gn;
    out b = nn::instancenorm(x) as inst;"""

    def oracle(v: Values) -> tuple[Array, Array]:
        x = v["x"]
        parts = [normalised(x[:, g : g + 2], (1, 2, 3)) for g in (0, 2, 4)]

        def affine(y: Array, name: str) -> Array:
            return y * v[f"{name}.gamma"][:, None, None] + v[f"{name}.beta"][:, None, None]

        return affine(np.concatenate(parts, 1), "gn"), affine(normalised(x, (2, 3)), "inst")

    names = ["gn.gamma", "gn.beta", "inst.gamma", "inst.beta"]
    sets = [{"x": rng.standard_normal((2, 6, 3, 4))}, {"x": rng.standard_normal((1, 6, 2, 2))}]
    check(text, names, oracle, *sets, rng=rng)


BATCHNORM = """use nn;
input x: [?b, 4];
input z: [?b, 4, 3, 2];
"""
MOMENTS = [f"{b}.{p}" for b in ("bn", "bm") for p in ("gamma", "beta", "running_mean", "running_var")]


def affine(v: Values, name: str, y: Array) -> Array:
    return np.asarray(y * v[f"{name}.gamma"] + v[f"{name}.beta"])


def last(y: Array) -> Array:
    """Channels as the last axis, or back."""
    return y.transpose(0, 2, 3, 1)


def test_batchnorm_of_stored_moments(rng: Rng) -> None:
    text = BATCHNORM + "out a = nn::batchnorm(x) as bn; out b = nn::batchnorm2d(z, eps: 1e-3) as bm;"
    frozen = [n for n in MOMENTS if "running" in n]
    arrays = {"x": rng.standard_normal((5, 4)), "z": rng.standard_normal((5, 4, 3, 2))}
    held: dict[str, Array] = {}

    def oracle(v: Values) -> tuple[Array, Array]:
        for n in frozen:
            held.setdefault(n, v[n])  # the stored moments count as constants
        x = (v["x"] - held["bn.running_mean"]) / np.sqrt(held["bn.running_var"] + 1e-5)
        z = (last(v["z"]) - held["bm.running_mean"]) / np.sqrt(held["bm.running_var"] + 1e-3)
        return affine(v, "bn", x), affine(v, "bm", z).transpose(0, 3, 1, 2)

    check(text, MOMENTS, oracle, arrays, rng=rng, positive=["bn.running_var", "bm.running_var"])


def test_batchnorm_in_training(rng: Rng) -> None:
    text = (
        BATCHNORM
        + """
    let (a, am, av) = nn::batchnorm(x, true) as bn;
    let (b, bm, bv) = nn::batchnorm2d(z, true, 0.25, 1e-3) as bm;
    out a, b, am, av, bm, bv;"""
    )
    arrays = {"x": rng.standard_normal((5, 4)), "z": rng.standard_normal((5, 4, 3, 2))}
    held: list[Array] = []

    def oracle(v: Values) -> tuple[Array, ...]:
        x, z = v["x"], last(v["z"])
        a = affine(v, "bn", (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5))
        b = affine(v, "bm", (z - z.mean((0, 1, 2))) / np.sqrt(z.var((0, 1, 2)) + 1e-3))
        if not held:  # the next moments have no derivative
            held.extend((
                0.9 * v["bn.running_mean"] + 0.1 * x.mean(0),
                0.9 * v["bn.running_var"] + 0.1 * x.var(0, ddof=1),
                0.75 * v["bm.running_mean"] + 0.25 * z.mean((0, 1, 2)),
                0.75 * v["bm.running_var"] + 0.25 * z.var((0, 1, 2), ddof=1),
            ))  # fmt: skip
        return a, b.transpose(0, 3, 1, 2), *held

    check(text, MOMENTS, oracle, arrays, rng=rng)
    moments = rlx.loads("""use nn; input x: [?b, 2]; input m: [2]; input v: [2];
    let (mean, var) = nn::running_moments(x, 0, m, v, 0.5); out mean, var;""")
    mean, var = moments.run(x=[[0, 1], [2, 5]], m=[1, 1], v=[0, 0])
    np.testing.assert_allclose([mean, var], [[1, 2], [1, 4]])


def test_residual_layers(rng: Rng) -> None:
    text = """use nn;
    input x: [?b, 4];
    out a = nn::layer_scale(x, 0.5) as ls;
    out b = nn::residual_mlp(x, 6, "tanh") as rm;
    out c = nn::highway(x, "tanh") as hw;"""

    def oracle(v: Values) -> tuple[Array, Array, Array]:
        x = v["x"]
        h = normalised(x) * v["rm.norm.gamma"] + v["rm.norm.beta"]
        h = np.tanh(h @ v["rm.up.w"] + v["rm.up.b"])
        gate = special.expit(x @ v["hw.gate_w"] + v["hw.gate_b"])
        value = np.tanh(x @ v["hw.value.w"] + v["hw.value.b"])
        return x * v["ls.gamma"], x + h @ v["rm.down.w"] + v["rm.down.b"], gate * value + (1 - gate) * x

    names = ["ls.gamma", *(f"rm.{n}" for n in ("norm.gamma", "norm.beta", "up.w", "up.b", "down.w", "down.b"))]
    names += ["hw.gate_w", "hw.gate_b", "hw.value.w", "hw.value.b"]
    check(text, names, oracle, {"x": rng.standard_normal((3, 4))}, rng=rng)
    start = rlx.loads(text).init_params(seed=0)
    np.testing.assert_array_equal(start.param_binding("ls.gamma"), np.full(4, 0.5, np.float32))
    np.testing.assert_array_equal(start.param_binding("hw.gate_b"), np.full(4, -2, np.float32))


def test_dropout_of_mlp_and_drop_path(rng: Rng) -> None:
    text = """use nn;
    input x: [?b, 3, 2];
    out a = nn::mlp(x, [400, 1], "none", drop: 0.25) as net;
    out b = nn::drop_path(x, 0.25);
    out c = nn::drop_path(x, 0.0);"""
    func = rlx.loads(text)
    # A network that counts the survivors of one dropout: every hidden entry is 1.
    params = {n: np.zeros(func.param_shape_of(n) or (), np.float32) for n in func.param_names()}
    params["net.layers.0.b"] += 1
    params["net.layers.1.w"] += 1
    x = (rng.standard_normal((2000, 3, 2)) + 9).astype(np.float32)
    for device in DEVICES:
        a, b, c = func.with_params(params).jit_on(device).run({"x": x}, seed=5)
        survivors = a * 0.75
        np.testing.assert_allclose(survivors, np.round(survivors), atol=1e-3)
        assert abs(a.mean() / 400 - 1) < 0.005
        assert a.std() > 5
        whole = (b != 0).any((1, 2))
        assert abs(whole.mean() - 0.75) < 0.05
        np.testing.assert_allclose(b[whole], x[whole] / 0.75, rtol=1e-6)
        assert not b[~whole].any()
        np.testing.assert_array_equal(c, x)
