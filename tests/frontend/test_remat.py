"""`remat fn`: values and derivatives as without, in less memory."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.lower import lower

DEVICES = ["reference", "cpu"]


def chain(word: str) -> rlx.Func:
    return rlx.loads(
        f"{word} fn part(h, a: int) {{ repeat i in a..a + 8 {{ let h = tanh(h @ w[i]); }} return h; }}"
        "input x: [16, 8]; param w[40]: [8, 8];"
        "let h = x; repeat s in 0..5 { let h = part(h, s * 8); } out loss = mean(h * h);"
    ).init_params(lambda name, dims: np.random.default_rng(int(name[2:])).normal(size=dims).astype(np.float32) * 0.4)


def test_derivatives_of_closed_over_params_agree() -> None:
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    want = chain("").grad_all().run_on("reference", x=x)
    for device in DEVICES:
        found = chain("remat").grad_all().run_on(device, x=x)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


def test_the_arena_shrinks() -> None:
    plain, saving = (lower(chain(word).grad_all().graph).program for word in ("", "remat"))
    assert saving.arena < plain.arena / 2
    assert len(saving.steps) > len(plain.steps)


@pytest.mark.parametrize("device", DEVICES)
def test_results_lists_statics_and_further_transforms(device: str) -> None:
    text = (
        "input x: [3]; input z: [3]; let k = z * 2;"
        "WORD fn f(xs, n: int) { let a = tanh(xs[0] * xs[1]) * k; return a * n, xs[1], n; }"
        "let (u, v, n) = f([x, z], 3); let y = sum(u * v) * n;"
        "let g = grad(y, z); out y, s = sum(g * g);"
    )
    plain, saving = (rlx.loads(text.replace("WORD", word)) for word in ("", "remat"))
    given = {"x": np.array([0.5, -1, 2], np.float32), "z": np.array([1, 0.3, -0.7], np.float32)}
    lanes = {n: np.stack([a, a + 1]) for n, a in given.items()}
    way = {"tangent_z": given["x"]}
    pairs = [
        (lambda f: f, given), (lambda f: f.grad(["x", "z"]), given), (lambda f: f.hvp(["z"]), given | way),
        (lambda f: f.jvp(["z"]), given | way), (lambda f: f.vmap(["x", "z"]), lanes),
        (lambda f: f.grad(["z"]).vmap(["x", "z"]), lanes), (lambda f: f.vmap(["x"]), given | {"x": lanes["x"]}),
    ]  # fmt: skip
    for transform, arrays in pairs:
        want = transform(plain).run_on("reference", **arrays)
        for a, b in zip(transform(saving).run_on(device, **arrays), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_func_remat() -> None:
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    f = chain("")
    assert any(n.op.name == "remat" for n in f.remat().graph.nodes)
    for device in DEVICES:
        np.testing.assert_allclose(f.remat().run_on(device, x=x)[0], f.run(x=x)[0], rtol=1e-5)
        for a, b in zip(f.remat().grad_all().run_on(device, x=x), f.grad_all().run(x=x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


def test_without_tensor_arguments_it_is_a_plain_fn() -> None:
    f = rlx.loads("remat fn f(n: int) { return x * n; } input x: [3]; out y = f(2);")
    assert not any(n.op.name == "remat" for n in f.graph.nodes)
    assert f.run(x=[1, 2, 3])[0].tolist() == [2, 4, 6]
