"""Transforms as methods of `Func`, on every device."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx

DEVICES = [str(d) for d in rlx.devices()]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Return the name of each device of this machine."""
    name: str = request.param
    return name


def cubic(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
    x, w = s.input("x", ["?n"]), s.param("w", ["?n"])
    return {"loss": (w * x * x * x).sum(), "y": w * x}


@pytest.fixture
def model() -> rlx.Func:
    """Return Σ w x³ with w bound."""
    return rlx.Func("cubic", cubic).with_param("w", [1, 2, 3])


X, W = np.array([1.0, -2.0, 0.5]), np.array([1.0, 2.0, 3.0])


def check(results: list[np.ndarray], *want: object) -> None:
    assert len(results) == len(want)
    for result, right in zip(results, want, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)
        assert result.shape == np.shape(right)


def test_grad(model: rlx.Func, device: str) -> None:
    g = model.grad(["x", "w"])
    assert g.output_names() == ["d_x", "d_w"]
    check(g.run_on(device, x=X), 3 * W * X**2, X**3)
    v = model.value_and_grad(["x"])
    assert v.output_names() == ["loss", "d_x", "y"]
    check(v.run_on(device, x=X), (W * X**3).sum(), 3 * W * X**2, W * X)
    check(model.grad_all().run_on(device, x=X), X**3)
    assert model.value_and_grad_all().output_names() == ["loss", "d_w", "y"]


def test_forward_and_second(model: rlx.Func, device: str) -> None:
    t = np.array([1.0, 0.0, -1.0])
    j = model.jvp(["x"])
    assert j.input_names() == ["x", "tangent_x"]
    check(j.run_on(device, x=X, tangent_x=t), (W * X**3).sum(), W * X, (3 * W * X**2 * t).sum(), W * t)
    check(model.linearize(["x"]).run_on(device, x=X, tangent_x=t), (3 * W * X**2 * t).sum(), W * t)
    check(model.hvp(["x"]).run_on(device, x=X, tangent_x=t), 6 * W * X * t)
    v = model.vjp(["x"])
    assert v.input_names() == ["x", "ct_loss", "ct_y"]
    check(v.run_on(device, x=X, ct_loss=2, ct_y=t), (W * X**3).sum(), W * X, 6 * W * X**2 + W * t)


def test_jacobians(model: rlx.Func, device: str) -> None:
    want = (3 * W * X**2, X**3, np.diag(W), np.diag(X))
    names = ["jac_loss_x", "jac_loss_w", "jac_y_x", "jac_y_w"]
    for transform in (model.jacfwd(["x", "w"]), model.jacrev(["x", "w"])):
        assert transform.output_names() == names
        check(transform.run_on(device, x=X), *want)
    h = model.hessian(["x", "w"])
    assert h.output_names() == ["hess_x_x", "hess_x_w", "hess_w_x", "hess_w_w"]
    cross = np.diag(3 * X**2)
    check(h.run_on(device, x=X), np.diag(6 * W * X), cross, cross, np.zeros((3, 3)))


def test_jacobians_in_chunks() -> None:
    func = rlx.Func("f", lambda s: (s.input("x", [5]) @ s.input("a", [5, 3])).exp())
    x, a = np.linspace(-1, 1, 5), np.linspace(0, 1, 15).reshape(5, 3)
    whole = func.jacfwd(["x"]).run(x=x, a=a)
    for chunk in (1, 2, 5, 9):
        check(func.jacfwd(["x"], chunk=chunk).run(x=x, a=a), *whole)
        check(func.jacrev(["x"], chunk=chunk).run(x=x, a=a), *whole)
    with pytest.raises(rlx.RlxTransformError, match="chunk"):
        func.jacfwd(["x"], chunk=0)
    dynamic = rlx.Func("f", lambda s: s.input("x", ["?n"]).exp())
    with pytest.raises(rlx.RlxTransformError, match="static"):
        dynamic.jacfwd(["x"], chunk=2)


def test_vmap(device: str) -> None:
    func = rlx.Func("f", lambda s: {"y": s.input("x", [3]) @ s.param("w", [3, 2]), "c": s.input("k", [2]) * 2.0})
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    func = func.with_param("w", w)
    batched = func.vmap(["x"])
    for n in (1, 4, 0):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        check(batched.run_on(device, x=x, k=[1, 2]), x @ w, np.tile([2, 4], (n, 1)))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = func.vmap(["x"], 4, in_axes={"x": 1}, out_axes={"y": -1})
    check(moved.run_on(device, x=x, k=[1, 2]), (x.T @ w).T, np.tile([2, 4], (4, 1)))
    several = func.vmap(["w"])
    assert several.param_binding("w") is None
    stack = np.stack([w, 2 * w])
    check(
        several.with_param("w", stack).run_on(device, x=[1, 0, 1], k=[1, 1]), np.array([1, 0, 1]) @ stack, [[2, 2]] * 2
    )


def test_compositions(model: rlx.Func, device: str) -> None:
    twice = model.grad(["x"]).vmap(["x"])
    x = np.stack([X, 2 * X])
    check(twice.run_on(device, x=x), 3 * W * x**2)
    nested = model.vmap(["x"]).vmap(["x"])
    assert "?vmap_2" in str(nested.graph.input("x").node.type)
    check(nested.run_on(device, x=x[None])[1:], (W * x)[None])
    second = model.value_and_grad(["x"])
    power = rlx.Func("s", lambda s: s.input("x", []) ** 3.0)
    again = power.grad(["x"]).value_and_grad(["x"])
    assert again.output_names() == ["d_x", "d_x_2"]
    check(again.run_on(device, x=2), 12, 12)
    both = power.value_and_grad(["x"]).value_and_grad(["x"])
    assert both.output_names() == ["out", "d_x_2", "d_x"]
    check(both.run_on(device, x=2), 8, 12, 12)
    assert second.output_count == 3


def test_bindings_survive(model: rlx.Func) -> None:
    for func in (model.grad(["w"]), model.jvp(["x"]), model.vjp(["w"]), model.hvp(["x"]), model.vmap(["x"])):
        np.testing.assert_array_equal(func.param_binding("w"), model.param_binding("w"))


def test_transforms_of_one_graph_are_made_once(model: rlx.Func) -> None:
    first = model.grad(["x"])
    other = model.with_param("w", [0, 0, 0]).grad(["x"])
    assert first.traced is other.traced
    assert model.grad(["w"]).traced is not first.traced
    assert model.vmap(["x"], 2).traced is not model.vmap(["x"]).traced


@pytest.mark.parametrize(
    ("attempt", "word"),
    [
        (lambda f: f.grad(["z"]), "`z`"),
        (lambda f: f.grad("x"), 'write \\["x"\\]'),
        (lambda f: f.grad(["x", "x"]), "twice"),
        (lambda f: f.vmap("x"), 'write \\["x"\\]'),
        (lambda f: f.vmap([]), "at least one"),
        (lambda f: f.vmap(["x", "x"]), "twice"),
        (lambda f: f.vmap(["x"], in_axes={"y": 0}), "`in_axes` names `y`"),
        (lambda f: f.vmap(["x"], out_axes={"z": 0}), "`out_axes` names `z`"),
        (lambda f: f.vmap(["x"], in_axes=3), "in_axes"),
        (lambda f: f.vmap(["x"], -1), "-1"),
    ],
)
def test_faults(model: rlx.Func, attempt: object, word: str) -> None:
    with pytest.raises(rlx.RlxTransformError, match=word):
        attempt(model)  # type: ignore[operator]


def test_losses_and_dtypes_that_have_no_gradient() -> None:
    vector = rlx.Func("f", lambda s: s.input("x", [3]).exp())
    with pytest.raises(rlx.RlxTransformError, match="mean\\("):
        vector.grad(["x"])
    integer = rlx.Func("f", lambda s: (s.input("i", [3], "I32").cast("F32") * s.input("x", [3])).sum())
    with pytest.raises(rlx.RlxTransformError, match="`i` \\(I32\\)"):
        integer.grad(["i"])
    check(integer.grad(["x"]).run(i=np.int32([1, 2, 3]), x=[1, 1, 1]), [1, 2, 3])
