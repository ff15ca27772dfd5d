"""Ops that are made of other ops: against NumPy, SciPy, and what their definitions say literally."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.special

import rlxlang as rlx

DEVICES = ("reference", "cpu", "opencl")
KINDS = {"float32": "F32", "float64": "F64", "float16": "F16", "int32": "I32"}
Array = np.ndarray[Any, Any]


def func(expression: str, **arrays: Array) -> rlx.Func:
    inputs = "".join(f"input {n}: [{KINDS[a.dtype.name]}; {', '.join(map(str, a.shape))}]; " for n, a in arrays.items())
    return rlx.loads(f"{inputs} out y = {expression};")


def run(expression: str, device: str = "cpu", **arrays: Array) -> Array:
    return func(expression, **arrays).run_on(device, arrays)[0]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    array: Array = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    return array


def check_gradient(expression: str, name: str, **arrays: Array) -> None:
    """The derivative of a weighted sum along a direction, in F64, against a difference; the same on the CPU and OpenCL."""
    wide = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    model = func(f"sum(square({expression}) + {expression} * 0.5)", **wide)
    way = np.random.default_rng(9).normal(size=wide[name].shape)
    value = [float(model.run_on("reference", {**wide, name: wide[name] + t * way})[0]) for t in (1e-6, -1e-6)]
    for device in DEVICES:
        (gradient,) = model.grad([name]).run_on(device, wide)
        np.testing.assert_allclose(np.vdot(gradient, way), (value[0] - value[1]) / 2e-6, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ gamma function
POINTS = np.array([1e-6, 0.1, 0.49, 0.5, 1, 1.5, 2, 2.5, 9.9, 10, 30, 1e3, 1e6, -0.5, -1.7, -3.2, -20.3])


@pytest.mark.parametrize("device", DEVICES)
def test_gamma_functions(device: str) -> None:
    for name, truth in (
        ("lgamma", scipy.special.gammaln),
        ("digamma", scipy.special.digamma),
        ("trigamma", lambda x: scipy.special.polygamma(1, x)),
    ):
        expected = np.array([float(truth(p)) if p > 0 or name != "trigamma" else _trigamma(p) for p in POINTS])
        np.testing.assert_allclose(run(f"{name}(x)", device, x=POINTS), expected, rtol=1e-11, atol=1e-13)
        narrow = run(f"{name}(x)", device, x=POINTS.astype(np.float32))
        np.testing.assert_allclose(narrow, expected, rtol=3e-4 if name == "trigamma" else 2e-5, atol=5e-6)


def _trigamma(x: float) -> float:
    return float((np.pi / np.sin(np.pi * x)) ** 2 - scipy.special.polygamma(1, 1 - x))


def test_gamma_functions_at_poles_and_infinity() -> None:
    x = np.array([0, -1, -2, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(run("lgamma(x)", x=x), [np.inf] * 5 + [np.nan])
    np.testing.assert_array_equal(run("digamma(x)", x=x[:4]), [np.nan, np.nan, np.nan, np.inf])


def test_threshold() -> None:
    x = np.array([-1, 0.5, 0.6, np.nan], np.float32)
    np.testing.assert_array_equal(run("threshold(x, 0.5, -7.0)", x=x), np.array([-7, -7, 0.6, -7], np.float32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [0, 1])
def test_cumlogsumexp(device: str, axis: int) -> None:
    x = np.array([[0, 1000, -1000, 3], [-np.inf, -np.inf, 2, 1]], np.float32)
    found = run(f"cumlogsumexp(x, {axis})", device, x=x)
    np.testing.assert_allclose(found, np.logaddexp.accumulate(x.astype(np.float64), axis), rtol=1e-6)
    backwards = np.flip(np.logaddexp.accumulate(np.flip(x, axis).astype(np.float64), axis), axis)
    np.testing.assert_allclose(run(f"cumlogsumexp(x, {axis}, reverse: true)", device, x=x), backwards, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ normalisation
def centred(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    found: Array = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_normalisations(device: str) -> None:
    x, g, b = normal(2, 6, 3, 4), normal(6, seed=1), normal(6, seed=2)
    scale, shift = g[:, None, None], b[:, None, None]
    groups = centred(x.reshape(2, 3, 2, 3, 4), (2, 3, 4)).reshape(x.shape)
    np.testing.assert_allclose(
        run("group_norm(x, 3, g, b)", device, x=x, g=g, b=b), groups * scale + shift, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(run("x.group_norm(3)", device, x=x), groups, rtol=1e-4, atol=1e-5)
    one = centred(x, (2, 3))
    np.testing.assert_allclose(run("instance_norm(x, beta: b)", device, x=x, b=b), one + shift, rtol=1e-4, atol=1e-5)
    m, v = normal(6, seed=3), np.abs(normal(6, seed=4)) + 0.1
    given = (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-3) * scale + shift
    found = run("batch_norm(x, m, v, g, b, eps: 1e-3)", device, x=x, m=m, v=v, g=g, b=b)
    np.testing.assert_allclose(found, given, rtol=1e-4, atol=1e-5)
    for size in (1, 2, 3):
        power = np.zeros_like(x)
        for c in range(6):
            low, high = max(0, c - size // 2), min(6, c - size // 2 + size)
            power[:, c] = (x[:, low:high] ** 2).sum(1)
        expected = x / (2 + 0.1 * power / size) ** 0.75
        np.testing.assert_allclose(run(f"local_response_norm(x, {size}, 0.1, k: 2)", device, x=x), expected, rtol=1e-5)


def test_groups_of_a_dynamic_number_of_channels() -> None:
    model = rlx.loads("input x: [2, ?c, 3]; out y = group_norm(x, 2);")
    x = normal(2, 4, 3)
    np.testing.assert_allclose(model(x=x), centred(x.reshape(2, 2, 6), (2,)).reshape(x.shape), rtol=1e-4, atol=1e-5)
    with pytest.raises(rlx.RlxError, match="group_norm"):
        model(x=normal(2, 5, 3))


def test_normalisations_have_gradients() -> None:
    check_gradient("group_norm(x, 2)", "x", x=normal(2, 4, 3))
    check_gradient("local_response_norm(x, 3, 0.5)", "x", x=normal(2, 4, 3))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("input x: [2, 5, 3]; out y = group_norm(x, 2);", "E0407"),
        ("input x: [2, 4]; out y = group_norm(x, 0);", "E0350"),
        ("input x: [4]; out y = group_norm(x, 2);", "E0404"),
        ("input x: [2, 3]; out y = instance_norm(x);", "E0404"),
        ('input x: [3]; out y = pad(x, 0, 3, 0, mode: "reflect");', "E0409"),
        ('input x: [3]; out y = pad(x, 0, 1, 0, mode: "mirror");', "E0350"),
        ("input x: [3, 3]; input i: [I32; 2, 3]; out y = gather_nd(x, i);", "E0404"),
        ("input x: [1, 1, 3, 3]; input g: [1, 2, 2]; out y = grid_sample(x, g);", "E0404"),
        ("out y = sinusoidal(4, 3);", "E0350"),
        ("out y = alibi(0, 2, 2);", "E0350"),
        ("input x: [3]; out y = clip_gradient(x, -1.0);", "E0350"),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    assert [d.code for d in rlx.check(text) if d.is_error] == [code]


# ------------------------------------------------------------------------------------------------ padding, coordinates
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("mode", "truth"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_by_entries(device: str, mode: str, truth: str) -> None:
    x = normal(3, 5)
    found = run(f'pad(x, 1, 2, 4, mode: "{mode}")', device, x=x)
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (2, 4)), truth))
    both = run(f'pad(x, [[1, 2], [0, 3]], mode: "{mode}")', device, x=x)
    np.testing.assert_array_equal(both, np.pad(x, ((1, 2), (0, 3)), truth))
    one = run(f'pad(x, 0, 0, 1, mode: "{mode}")', device, x=x)
    np.testing.assert_array_equal(one, np.pad(x, ((0, 1), (0, 0)), truth))


def test_padding_of_dynamic_axes_is_guarded() -> None:
    model = rlx.loads('input x: [?n]; out y = pad(x, 0, 2, 1, mode: "reflect");')
    for n in (3, 6):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(model(x=x), np.pad(x, (2, 1), "reflect"))
    with pytest.raises(rlx.RlxError, match="reflect"):
        model(x=np.zeros(2, np.float32))
    check_gradient('pad(x, 0, 2, 3, mode: "reflect")', "x", x=normal(5))


@pytest.mark.parametrize("device", DEVICES)
def test_coordinates(device: str) -> None:
    x = normal(3, 4, 2)
    i = np.array([[[0, 1], [2, 3]], [[-1, -4], [9, 0]]], np.int32)
    inside = np.array([[[0, 1], [2, 3]], [[2, 0], [2, 0]]])
    np.testing.assert_array_equal(run("gather_nd(x, i)", device, x=x, i=i), x[inside[..., 0], inside[..., 1]])
    j = np.array([[1], [0]], np.int32)
    np.testing.assert_array_equal(run("gather_nd(x, j)", device, x=x, j=j), x[[1, 0]])
    full = np.array([2, 3, 1], np.int32)
    np.testing.assert_array_equal(run("gather_nd(x, f)", device, x=x, f=full), x[2, 3, 1])
    u = normal(2, 2, 2, seed=5)
    expected = x.copy()
    for p, q in product(range(2), range(2)):
        expected[inside[p, q, 0], inside[p, q, 1]] = u[p, q]
    np.testing.assert_array_equal(run("scatter_nd(x, i, u)", device, x=x, i=i, u=u), expected)
    expected = x.copy()
    np.add.at(expected, (inside[..., 0], inside[..., 1]), u)
    np.testing.assert_allclose(run('scatter_nd(x, i, u, "add")', device, x=x, i=i, u=u), expected, rtol=1e-6)


def sampled(image: Array, grid: Array, corners: bool, border: str, order: int) -> Array:
    """`map_coordinates` on a frame of zeros (or of the border)."""
    n, c, h, w = image.shape
    result = np.zeros((n, c, *grid.shape[1:3]))
    for k, channel in product(range(n), range(c)):
        at = [
            (grid[k, ..., axis] + 1) / 2 * (size - 1) if corners else (grid[k, ..., axis] + 1) / 2 * size - 0.5
            for axis, size in ((1, h), (0, w))
        ]
        frame = np.pad(image[k, channel], 4, "edge" if border == "border" else "constant")
        result[k, channel] = scipy.ndimage.map_coordinates(frame.astype(np.float64), [p + 4 for p in at], order=order)
    return result


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("border", ["zeros", "border"])
def test_sampling_of_images(device: str, corners: bool, border: str) -> None:
    image, grid = normal(2, 3, 4, 5), np.random.default_rng(1).uniform(-1.3, 1.3, (2, 3, 2, 2)).astype(np.float32)
    options = f'padding: "{border}", align_corners: {str(corners).lower()}'
    found = run(f"grid_sample(x, g, {options})", device, x=image, g=grid)
    np.testing.assert_allclose(found, sampled(image, grid, corners, border, 1), rtol=1e-4, atol=1e-5)
    found = run(f'grid_sample(x, g, "nearest", {options})', device, x=image, g=grid)
    np.testing.assert_allclose(found, sampled(image, grid, corners, border, 0), rtol=1e-5)


def test_sampling_of_images_has_gradients() -> None:
    image, grid = normal(1, 2, 4, 5), np.random.default_rng(1).uniform(-0.9, 0.9, (1, 3, 2, 2)).astype(np.float32)
    check_gradient("grid_sample(x, g)", "x", x=image, g=grid)
    check_gradient("grid_sample(x, g, align_corners: true)", "g", x=image, g=grid)


# ------------------------------------------------------------------------------------------------ losses
@pytest.mark.parametrize("device", DEVICES)
def test_losses_of_examples(device: str) -> None:
    a, p, n = (normal(4, 3, seed=k) for k in range(3))
    near, far = np.linalg.norm(a - p, axis=-1), np.linalg.norm(a - n, axis=-1)
    expected = np.maximum(near - far + 0.5, 0)
    np.testing.assert_allclose(run("triplet(a, p, n, 0.5)", device, a=a, p=p, n=n), expected.mean(), rtol=1e-5)
    rows = run('triplet(a, p, n, 0.5, reduction: "none")', device, a=a, p=p, n=n)
    np.testing.assert_allclose(rows, expected, rtol=1e-5)
    x, y = normal(5), np.array([0, 1, 1, 0, 1], np.float32)
    q = 1 / (1 + np.exp(-x))
    right = np.where(y == 1, q, 1 - q)
    loss = -((1 - right) ** 3) * np.log(right)
    np.testing.assert_allclose(run("focal(x, y, gamma: 3)", device, x=x, y=y), loss.mean(), rtol=1e-5)
    weighed = loss * np.where(y == 1, 0.25, 0.75)
    np.testing.assert_allclose(run('focal(x, y, 3, 0.25, "sum")', device, x=x, y=y), weighed.sum(), rtol=1e-5)


def spelled(path: tuple[int, ...]) -> list[int]:
    """What a path of labels and blanks says: repetitions collapsed, blanks dropped."""
    return [k for t, k in enumerate(path) if k != 0 and (t == 0 or path[t - 1] != k)]


def alignments(log_probs: Array, labels: list[int]) -> float:
    """The negative log of the summed probability of every path."""
    steps, classes = log_probs.shape
    total = sum(
        np.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
        for path in product(range(classes), repeat=steps)
        if spelled(path) == labels
    )
    return float(-np.log(total)) if total else np.inf


@pytest.mark.parametrize("device", DEVICES)
def test_sequences_without_alignment(device: str) -> None:
    logits = normal(5, 5, 3)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    targets = np.array([[1, 2], [1, 1], [2, 0], [0, 0], [2, 2]], np.int32)
    times, counts = np.array([5, 4, 3, 2, 2], np.int32), np.array([2, 2, 1, 0, 2], np.int32)
    expected = [
        alignments(log_probs[:t, k], targets[k, :c].tolist())
        for k, (t, c) in enumerate(zip(times, counts, strict=True))
    ]
    assert expected[4] == np.inf  # two equal labels need a blank between them, and so three steps
    arrays = {"l": log_probs, "t": targets, "a": times, "c": counts}
    found = run('ctc_loss(l, t, a, c, reduction: "none")', device, **arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    possible = {"l": log_probs[:, :4], "t": targets[:4], "a": times[:4], "c": counts[:4]}
    mean = np.mean(np.array(expected[:4]) / np.maximum(counts[:4], 1))
    np.testing.assert_allclose(run("ctc_loss(l, t, a, c)", device, **possible), mean, rtol=1e-5)


def test_sequences_without_alignment_have_gradients() -> None:
    arrays = {"t": np.array([[1, 2]], np.int32), "a": np.array([4], np.int32), "c": np.array([2], np.int32)}
    check_gradient("ctc_loss(log_softmax(l), t, a, c)", "l", l=normal(4, 1, 3), **arrays)


# ------------------------------------------------------------------------------------------------ tables, products
@pytest.mark.parametrize("device", DEVICES)
def test_tables(device: str) -> None:
    table = rlx.loads("out y = sinusoidal(6, 4, 100.0);").run_on(device, {})[0]
    angle = np.arange(6)[:, None] * 100.0 ** (-np.array([0, 2]) / 4)
    np.testing.assert_allclose(table[:, 0::2], np.sin(angle), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(table[:, 1::2], np.cos(angle), rtol=1e-5, atol=1e-6)
    bias = rlx.loads("out y = alibi(4, 2, 3);").run_on(device, {})[0]
    distance = np.abs(np.arange(2)[:, None] + 1 - np.arange(3))
    np.testing.assert_allclose(bias, -np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None] * distance)
    assert rlx.loads("out y = alibi(6, 1, 1);").run_on(device, {})[0].shape == (6, 1, 1)


@pytest.mark.parametrize("device", DEVICES)
def test_products_with_structure(device: str) -> None:
    x, w, sizes = normal(6, 3), normal(3, 3, 2, seed=1), np.array([2, 0, 3], np.int32)
    expected = np.concatenate([x[:2] @ w[0], x[2:5] @ w[2], np.zeros((1, 2))])
    np.testing.assert_allclose(
        run("grouped_matmul(x, w, s)", device, x=x, w=w, s=sizes), expected, rtol=1e-5, atol=1e-6
    )
    a, b, m = normal(3, 2, seed=2), normal(2, 4, seed=3), normal(3, 4, seed=4)
    found = run("lora_matmul(x, m, a, b, 0.5)", device, x=x, m=m, a=a, b=b)
    np.testing.assert_allclose(found, x @ m + 0.5 * (x @ a) @ b, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ derivatives changed
@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_that_are_changed(device: str) -> None:
    x = np.array([-2, 0.1, 3], np.float32)
    model = rlx.loads("input x: [3]; out loss = sum(reverse_gradient(x, 0.5) ** 2);")
    np.testing.assert_allclose(model.run_on(device, x=x)[0], np.sum(x**2), rtol=1e-6)
    np.testing.assert_allclose(model.grad(["x"]).run_on(device, x=x)[0], -x)
    tangent = model.jvp(["x"]).run_on(device, x=x, tangent_x=np.ones(3, np.float32))[1]
    np.testing.assert_allclose(tangent, -np.sum(x), rtol=1e-6)
    model = rlx.loads("input x: [3]; out loss = sum(clip_gradient(x, 1.0) ** 2);")
    np.testing.assert_allclose(model.grad(["x"]).run_on(device, x=x)[0], [-1, 0.2, 1], rtol=1e-6)


def test_a_limited_gradient_has_no_forward_mode() -> None:
    with pytest.raises(rlx.RlxTransformError, match="clip_gradient"):
        rlx.loads("input x: [3]; out y = clip_gradient(x, 1.0);").jvp(["x"])
