"""`use conv;`: convolutional networks against NumPy, one window at a time."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import rlxlang as rlx
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def padded(x: Array, before: int, after: int, value: float = 0.0) -> Array:
    return np.pad(x, [(0, 0), (0, 0), *[(before, after)] * (x.ndim - 2)], constant_values=value)


def convolved(
    x: Array, w: Array, stride: int = 1, padding: int | None = None, dilation: int = 1, groups: int = 1
) -> Array:
    """x: [b, c, *], w: [n, c / groups, kernel, …]; the sum of products of each window."""
    axes, (n, c, kernel) = x.ndim - 2, w.shape[:3]
    around = dilation * (kernel - 1) // 2 if padding is None else padding
    x, reach = padded(x, around, around), dilation * (kernel - 1) + 1
    sizes = [(s - reach) // stride + 1 for s in x.shape[2:]]
    y = np.zeros((len(x), n, *sizes))
    for place in product(*map(range, sizes)):
        window = x[(slice(None), slice(None), *(slice(p * stride, p * stride + reach, dilation) for p in place))]
        for out in range(n):
            first = out // (n // groups) * c
            part = window[:, first : first + c] * w[out]
            y[(slice(None), out, *place)] = part.sum(tuple(range(1, axes + 2)))
    return y


def spread(x: Array, w: Array, factor: int) -> Array:
    """A transposed convolution: each entry adds a multiple of the kernel; x: [b, c, *], w: [c, n, kernel, …]."""
    kernel, axes = w.shape[2], x.ndim - 2
    y = np.zeros((len(x), w.shape[1], *((s - 1) * factor + kernel for s in x.shape[2:])))
    for place in product(*map(range, x.shape[2:])):
        where = (slice(None), slice(None), *(slice(p * factor, p * factor + kernel) for p in place))
        y[where] += np.tensordot(x[(slice(None), slice(None), *place)], w, 1)
    cut = (kernel - factor) // 2
    return y[(slice(None), slice(None), *(slice(cut, s - cut) for s in y.shape[2:]))] if axes else y


def columns(v: Array, axes: int) -> Array:
    return v.reshape(-1, *[1] * axes)


def affine(v: Values, name: str, x: Array) -> Array:
    return np.asarray(x * columns(v[f"{name}.gamma"], x.ndim - 2) + columns(v[f"{name}.beta"], x.ndim - 2))


def grouped(v: Values, name: str, x: Array, groups: int) -> Array:
    """A norm of each group of channels of each sample."""
    parts = []
    for part in np.split(x, groups, 1):
        axes = tuple(range(1, x.ndim))
        centred = part - part.mean(axes, keepdims=True)
        parts.append(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5))
    return affine(v, name, np.concatenate(parts, 1))


def layer(v: Values, name: str, x: Array, stride: int = 1, groups: int = 1, norm: int = 2, act: Any = relu) -> Array:
    """`conv_norm` with a group norm."""
    return np.asarray(act(grouped(v, f"{name}.norm", convolved(x, v[f"{name}.conv.w"], stride, groups=groups), norm)))


def same(x: Array) -> Array:
    return x


def means(x: Array) -> Array:
    return np.asarray(x.reshape(*x.shape[:2], -1).mean(-1))


def excited(v: Values, name: str, x: Array) -> Array:
    h = relu(means(x) @ v[f"{name}.squeeze.w"] + v[f"{name}.squeeze.b"])
    gate = expit(h @ v[f"{name}.excite.w"] + v[f"{name}.excite.b"])
    return np.asarray(x * gate.reshape(*gate.shape, *[1] * (x.ndim - 2)))


def cut(v: Values, name: str, x: Array, stride: int = 1) -> Array:
    project = f"{name}.shortcut.project"
    return layer(v, project, x, stride, act=same) if f"{project}.conv.w" in v else x


def basic(v: Values, name: str, x: Array, stride: int = 1) -> Array:
    h = layer(v, f"{name}.conv2", layer(v, f"{name}.conv1", x, stride), act=same)
    if f"{name}.se.squeeze.w" in v:
        h = excited(v, f"{name}.se", h)
    return relu(cut(v, name, x, stride) + h)


def layers(*names: str) -> list[str]:
    """Parameters of `conv_norm`s."""
    return [f"{name}.{p}" for name in names for p in ("conv.w", "norm.gamma", "norm.beta")]


def excite(name: str) -> list[str]:
    return [f"{name}.{p}" for p in ("squeeze.w", "squeeze.b", "excite.w", "excite.b")]


SIZES: dict[int, tuple[str, list[tuple[int, ...]]]] = {
    1: ("?b, 4, ?s", [(2, 4, 7), (1, 4, 5)]),
    2: ("?b, 4, ?h, ?w", [(2, 4, 5, 6), (1, 4, 5, 5)]),
    3: ("?b, 4, ?d, ?h, ?w", [(1, 4, 3, 4, 3)]),
}


@pytest.mark.parametrize("axes", SIZES)
def test_conv(axes: int, rng: Rng) -> None:
    shape, sizes = SIZES[axes]
    text = f"""use conv;
    input x: [{shape}];
    out a = conv::conv(x, 3, axes: {axes}) as a;
    out b = conv::conv(x, 4, 2, 2, 1, 2, 2, "tanh", false, {axes}) as b;
    out c = conv::conv(x, 2, 1, padding: "valid", act: "silu", axes: {axes}) as c;"""

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        c = convolved(x, v["c.w"], padding=0) + columns(v["c.b"], axes)
        return [
            convolved(x, v["a.w"]) + columns(v["a.b"], axes),
            np.tanh(convolved(x, v["b.w"], 2, 1, 2, 2)),
            c * expit(c),
        ]

    sets = [{"x": rng.standard_normal(s)} for s in sizes]
    func = check(text, ["a.w", "a.b", "b.w", "c.w", "c.b"], oracle, *sets, rng=rng, factor=4)
    params = {n: func.param_binding(n) for n in func.param_names()}
    x = rng.standard_normal((3, *sizes[0])).astype(np.float32)
    mapped = func.vmap(["x"]).run_on("cpu", x=x)
    for lane in range(3):
        for result, right in zip(mapped, oracle({**params, "x": x[lane]}), strict=True):
            np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_start_of_weights() -> None:
    text = """use conv; input x: [?b, 16, 9, 9];
    let h = conv::conv(x, 64, act: "relu") as c; let y = conv::upsample(x, 64) as u;
    out z = conv::causal_conv(flatten(x, 2), 64, act: "relu") as d; out p = conv::half_padding(5, 3); out h, y;"""
    start = rlx.loads(text).init_params(seed=2)
    for name, fan in (("c.w", 16 * 9 / 2), ("d.w", 16 * 3 / 2), ("u.w", 64 * 16)):
        weights = start.param_binding(name)
        assert weights is not None
        assert abs(weights.std() * math.sqrt(fan) - 1) < 0.05
    assert int(start.run(x=np.zeros((1, 16, 9, 9), np.float32))[1]) == 6
    (problem, *_) = rlx.check("use conv; input x: [?b, 3, 8]; out y = conv::conv(x, 4, axes: 4);")
    assert problem.code == "E0201"
    assert "`y` has no value here" in problem.message


def test_other_convolutions(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?s];
    input z: [?b, 4, ?h, ?w];
    out a = conv::upsample(x, 3, axes: 1) as a;
    out b = conv::upsample(z, 3, 3, 3, "relu") as b;
    out c = conv::causal_conv(x, 3, 2, 3) as c;
    out d = conv::causal_conv(x, 3, act: "tanh", bias: false) as d;
    out e = conv::upsample(z[.., .., new], 2, 2, 2, bias: false, axes: 3) as e;"""

    def causal(x: Array, w: Array, dilation: int) -> Array:
        y = np.zeros((len(x), len(w), x.shape[2]))
        for i, k in product(range(x.shape[2]), range(w.shape[2])):
            if i - dilation * k >= 0:
                y[:, :, i] += x[:, :, i - dilation * k] @ w[:, :, w.shape[2] - 1 - k].T
        return y

    def oracle(v: Values) -> list[Array]:
        x, z = v["x"], v["z"]
        return [
            spread(x, v["a.w"], 2) + columns(v["a.b"], 1),
            relu(spread(z, v["b.w"], 3) + columns(v["b.b"], 2)),
            causal(x, v["c.w"], 3) + columns(v["c.b"], 1),
            np.tanh(causal(x, v["d.w"], 1)),
            spread(z[:, :, None], v["e.w"], 2),
        ]

    sets = [{"x": rng.standard_normal((2, 4, s)), "z": rng.standard_normal((2, 4, 2, s))} for s in (5, 1)]
    names = ["a.w", "a.b", "b.w", "b.b", "c.w", "c.b", "d.w", "e.w"]
    check(text, names, oracle, *sets, rng=rng, factor=4)


def test_norms_of_channels(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?s];
    input z: [?b, 4, ?h, ?w];
    out a = conv::channel_norm(x, groups: 2) as a;
    out b = conv::channel_norm(z, "layer") as b;
    out c = conv::channel_norm(z, "instance") as c;
    out d = conv::channel_norm(x, "batch") as d;
    out e = conv::channel_norm(x, "none") as e;
    out p = conv::per_channel(x[.., .., 0], 2);"""
    held: dict[str, Array] = {}

    def oracle(v: Values) -> list[Array]:
        x, z = v["x"], v["z"]
        for n in ("d.running_mean", "d.running_var"):
            held.setdefault(n, columns(v[n], 1))  # constants of the derivative
        d = (x - held["d.running_mean"]) / np.sqrt(held["d.running_var"] + 1e-5)
        return [
            grouped(v, "a", x, 2),
            grouped(v, "b", z, 1),
            grouped(v, "c", z, 4),
            affine(v, "d", d),
            x,
            x[:, :, 0, None, None],
        ]

    sets = [{"x": rng.standard_normal((2, 4, s)), "z": rng.standard_normal((2, 4, 3, s))} for s in (5, 2)]
    names = [f"{n}.{p}" for n in "abcd" for p in ("gamma", "beta")] + ["d.running_mean", "d.running_var"]
    check(text, names, oracle, *sets, rng=rng, positive=["d.running_var"], factor=4)


def test_batch_norms_in_training(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?s];
    let (a, am, av) = conv::channel_norm(x, "batch", train: true, momentum: 0.25) as a;
    let (b, bm, bv) = conv::conv_norm(x, 3, norm: "batch", train: true, axes: 1) as b;
    out a, am, av, b, bm, bv;"""
    held: list[Array] = []

    def batch(v: Values, name: str, x: Array) -> Array:
        mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
        return affine(v, name, (x - mean) / np.sqrt(var + 1e-5))

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        h = convolved(x, v["b.conv.w"])
        if not held:  # the next moments have no derivative
            for name, y, momentum in (("a", x, 0.25), ("b.norm", h, 0.1)):
                rows = y.transpose(0, 2, 1).reshape(-1, y.shape[1])
                held.append((1 - momentum) * v[f"{name}.running_mean"] + momentum * rows.mean(0))
                held.append((1 - momentum) * v[f"{name}.running_var"] + momentum * rows.var(0, ddof=1))
        return [batch(v, "a", x), *held[:2], relu(batch(v, "b.norm", h)), *held[2:]]

    moments = [f"{n}.{p}" for n in ("a", "b.norm") for p in ("gamma", "beta", "running_mean", "running_var")]
    names = [*moments[:4], "b.conv.w", *moments[4:]]
    check(text, names, oracle, {"x": rng.standard_normal((3, 4, 5))}, rng=rng, factor=4)


def test_blocks(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?s];
    input z: [?b, 4, ?h, ?w];
    out a = conv::conv_norm(z, 6, 3, 2, norm_groups: 2) as a;
    out b = conv::conv_norm(x, 3, norm: "none", act: "tanh", axes: 1) as b;
    out c = conv::separable(x, 6, norm_groups: 2, axes: 1) as c;
    out d = conv::squeeze_excite(z, 3) as d;
    out e = conv::residual(x, 4, norm_groups: 2, excite: 3, axes: 1) as e;
    out f = conv::shortcut(x, 4), g = conv::shortcut(x, 4, 2, norm_groups: 2, axes: 1) as g;"""

    def oracle(v: Values) -> list[Array]:
        x, z = v["x"], v["z"]
        return [
            layer(v, "a", z, 2),
            np.tanh(convolved(x, v["b.conv.w"]) + columns(v["b.conv.b"], 1)),
            layer(v, "c.point", layer(v, "c.depth", x, groups=4)),
            excited(v, "d", z),
            basic(v, "e", x),
            x,
            layer(v, "g.project", x, 2, act=same),
        ]

    names = [*layers("a"), "b.conv.w", "b.conv.b", *layers("c.depth", "c.point"), *excite("d")]
    names += [*layers("e.conv1", "e.conv2"), *excite("e.se"), *layers("g.project")]
    sets = [{"x": rng.standard_normal((2, 4, s)), "z": rng.standard_normal((2, 4, 3, s))} for s in (5, 4)]
    check(text, names, oracle, *sets, rng=rng, factor=8)


def test_residual_blocks(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?h, ?w];
    out b = conv::preact_residual(x, 4, norm_groups: 2) as b;
    out c = conv::preact_residual(x, 6, 3, 2, norm_groups: 2, act: "silu") as c;
    out d = conv::bottleneck(x, 8, stride: 2, expansion: 2, groups: 2, norm_groups: 2, excite: 2) as d;
    out f = conv::inverted_residual(x, 4, expansion: 2, norm_groups: 2, excite: 3) as f;
    out g = conv::inverted_residual(x, 6, stride: 2, expansion: 1, norm_groups: 2) as g;"""

    def preact(v: Values, name: str, x: Array, stride: int, act: Any) -> Array:
        h = act(grouped(v, f"{name}.norm1", x, 2))
        project = f"{name}.project.w"
        past = convolved(h, v[project], stride) if project in v else x
        h = act(grouped(v, f"{name}.norm2", convolved(h, v[f"{name}.conv1.w"], stride), 2))
        return np.asarray(past + convolved(h, v[f"{name}.conv2.w"]))

    def narrow(v: Values, name: str, x: Array, stride: int, groups: int) -> Array:
        h = layer(v, f"{name}.conv2", layer(v, f"{name}.conv1", x), stride, groups)
        h = layer(v, f"{name}.conv3", h, act=same)
        if f"{name}.se.squeeze.w" in v:
            h = excited(v, f"{name}.se", h)
        return relu(cut(v, name, x, stride) + h)

    def relu6(x: Array) -> Array:
        return np.clip(x, 0, 6)

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        f = layer(v, "f.depth", layer(v, "f.expand", x, act=relu6), groups=8, act=relu6)
        return [
            preact(v, "b", x, 1, relu),
            preact(v, "c", x, 2, lambda h: h * expit(h)),
            narrow(v, "d", x, 2, 2),
            x + layer(v, "f.project", excited(v, "f.se", f), act=same),
            layer(v, "g.project", layer(v, "g.depth", x, 2, 4, act=relu6), act=same),
        ]

    def preacts(name: str, *projections: str) -> list[str]:
        norms = [[f"{name}.norm{k}.{p}" for p in ("gamma", "beta")] for k in (1, 2)]
        return [*norms[0], *projections, f"{name}.conv1.w", *norms[1], f"{name}.conv2.w"]

    names = [*preacts("b"), *preacts("c", "c.project.w")]
    names += [*layers("d.conv1", "d.conv2", "d.conv3"), *excite("d.se"), *layers("d.shortcut.project")]
    names += [*layers("f.expand", "f.depth"), *excite("f.se"), *layers("f.project")]
    names += layers("g.depth", "g.project")
    sets = [{"x": rng.standard_normal(s)} for s in ((2, 4, 5, 4), (1, 4, 3, 4))]
    check(text, names, oracle, *sets, rng=rng, factor=8)


def test_heads(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 4, ?s];
    input z: [?b, 4, 4, 6];
    out a = conv::pooled(x), b = conv::pooled(z, "max"), c = conv::pooled(z, "both");
    out d = conv::pooled(x, "generalised", 4.0, 0.1);
    out e = conv::pool_head(x, 3) as e;
    out f = conv::pool_head(z, 3, "grid") as f;
    out g = conv::pool_head(z, 3, "both") as g;"""

    def oracle(v: Values) -> list[Array]:
        x, z = v["x"], v["z"]
        flat = z.reshape(len(z), 4, -1)
        both = np.concatenate([flat.mean(-1), flat.max(-1)], 1)
        grid = np.stack([z[:, :, 2 * i : 2 * i + 2, 3 * j : 3 * j + 3].mean((2, 3)) for i in (0, 1) for j in (0, 1)], 2)
        return [
            x.mean(2),
            flat.max(-1),
            both,
            (np.maximum(x, 0.1) ** 4).mean(2) ** 0.25,
            x.mean(2) @ v["e.fc.w"] + v["e.fc.b"],
            grid.reshape(len(z), -1) @ v["f.fc.w"] + v["f.fc.b"],
            both @ v["g.fc.w"] + v["g.fc.b"],
        ]

    sets = [{"x": rng.standard_normal((b, 4, s)), "z": rng.standard_normal((b, 4, 4, 6))} for b, s in ((2, 5), (1, 1))]
    check(text, [f"{n}.fc.{p}" for n in "efg" for p in "wb"], oracle, *sets, rng=rng)


def test_stages(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 3, ?h, ?w];
    out a = conv::resnet(x, 5, [4, 6], [1, 2], norm_groups: 2) as net;"""

    def oracle(v: Values) -> Array:
        x = basic(v, "net.stages.0.0", layer(v, "net.stem", v["x"]))
        x = basic(v, "net.stages.1.1", basic(v, "net.stages.1.0", x, 2))
        return np.asarray(means(x) @ v["net.head.fc.w"] + v["net.head.fc.b"])

    stages = [f"net.stages.{k}" for k in ("0.0.conv1", "0.0.conv2", "1.0.conv1", "1.0.conv2", "1.0.shortcut.project")]
    names = layers("net.stem", *stages, "net.stages.1.1.conv1", "net.stages.1.1.conv2")
    sets = [{"x": rng.standard_normal(s)} for s in ((2, 3, 5, 4), (1, 3, 4, 4))]
    func = check(text, [*names, "net.head.fc.w", "net.head.fc.b"], oracle, *sets, rng=rng, factor=16, derivative="cpu")
    params = {n: func.param_binding(n) for n in func.param_names()}
    x = rng.standard_normal((2, 1, 3, 4, 4)).astype(np.float32)
    (mapped,) = func.vmap(["x"]).run_on("reference", x=x)
    for lane in range(2):
        np.testing.assert_allclose(mapped[lane], oracle({**params, "x": x[lane]}), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["preact_residual", "bottleneck", "inverted_residual"])
def test_a_stage_is_its_blocks(kind: str, rng: Rng) -> None:
    single = {
        "preact_residual": "conv::preact_residual(x, 8, stride: S, norm_groups: 2, axes: 1)",
        "bottleneck": "conv::bottleneck(x, 8, stride: S, norm_groups: 2, axes: 1)",
        "inverted_residual": 'conv::inverted_residual(x, 8, stride: S, norm_groups: 2, act: "relu", axes: 1)',
    }[kind]
    first, second = single.replace("S", "2"), single.replace("S", "1")
    whole = rlx.loads(f"""use conv; input x: [?b, 4, ?s];
    out y = conv::stage(x, 8, 2, kind: "{kind}", norm_groups: 2, axes: 1) as s;""").init_params(seed=4)
    parts = rlx.loads(f'use conv; input x: [?b, 4, ?s]; let x = {first} as "s.0"; out y = {second} as "s.1";')
    assert parts.param_names() == whole.param_names()
    parts = parts.with_params({n: whole.param_binding(n) for n in whole.param_names()})
    x = rng.standard_normal((2, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(whole.run_on("reference", x=x)[0], parts.run_on("reference", x=x)[0])
    assert rlx.check('use conv; input x: [?b, 4, ?s]; out y = conv::stage(x, 8, 2, kind: "dense");')


@pytest.mark.parametrize("axes", [2, 3])
def test_pools_behind_the_stem(axes: int, rng: Rng) -> None:
    dims = ", ".join("4" * axes)
    func = rlx.loads(f"""use conv; input x: [?b, 2, {dims}];
    out y = conv::resnet(x, 3, [2], [0], stem_pool: true, norm: "layer", axes: {axes}) as r;""").init_params(seed=1)
    v: dict[str, Any] = {n: func.param_binding(n) for n in func.param_names()}
    x = rng.standard_normal((2, 2, *[4] * axes)).astype(np.float32)
    h = padded(layer(v, "r.stem", x, norm=1), 1, 1, -math.inf)
    windows = [
        h[(slice(None), slice(None), *(slice(2 * i, 2 * i + 3) for i in p))] for p in product((0, 1), repeat=axes)
    ]
    pooled = np.mean([w.max(tuple(range(2, 2 + axes))) for w in windows], 0)
    (y,) = func.run_on("reference", x=x)
    np.testing.assert_allclose(y, pooled @ v["r.head.fc.w"] + v["r.head.fc.b"], rtol=1e-4, atol=1e-5)


def test_large_images_and_dropped_branches(rng: Rng) -> None:
    text = """use conv;
    input x: [?b, 2, 32];
    out y = conv::resnet(x, 3, [4], [1], stem_kernel: 7, stem_stride: 2, stem_pool: true, norm_groups: 2, axes: 1) as r;
    out z = conv::residual(x, 2, norm_groups: 1, drop: 0.5, axes: 1) as d;"""
    func = rlx.loads(text).init_params(seed=1)
    v: dict[str, Any] = {n: func.param_binding(n) for n in func.param_names()}
    x = rng.standard_normal((200, 2, 32)).astype(np.float32)
    h = padded(layer(v, "r.stem", x[:4], 2), 1, 1, -math.inf)
    h = np.stack([h[:, :, 2 * i : 2 * i + 3].max(2) for i in range(8)], 2)
    expected = means(basic(v, "r.stages.0.0", h)) @ v["r.head.fc.w"] + v["r.head.fc.b"]
    branch = layer(v, "d.conv2", layer(v, "d.conv1", x, norm=1), norm=1, act=same)
    for device in DEVICES:
        y, z = func.jit_on(device).run({"x": x}, seed=6)
        np.testing.assert_allclose(y[:4], expected, rtol=1e-3, atol=1e-4)
        dropped = (z == relu(x)).all((1, 2))
        assert 60 < dropped.sum() < 140
        np.testing.assert_allclose(z[~dropped], relu(x + 2 * branch)[~dropped], rtol=1e-3, atol=1e-4)
