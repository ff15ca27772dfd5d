"""Jacobians in chunks and within a budget, of complex values, the diagonal of a Hessian, derivatives of any order along a line."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.lower import lower

DEVICES = ["reference", "cpu"]


def _arena(func: rlx.Func) -> int:
    size = lower(func.graph).program.arena
    assert isinstance(size, int)
    return size


def _wide(n: int = 40, rows: int = 512) -> rlx.Func:
    """Σ tanh²(X w) + (Σ w)², whose products with unit vectors are `rows` long."""

    def build(s: rlx.GraphScope) -> rlx.Tensor:
        w, x = s.input("w", [n]), s.input("x", [rows, n])
        return ((x @ w).tanh() ** 2.0).sum() + w.sum() ** 2.0

    return rlx.Func("wide", build)


def _wide_hessian(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    t = np.tanh(x @ w)
    return (x.T * ((1 - t**2) * (2 - 6 * t**2))) @ x + 2.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("chunk", [None, 1, 7, 20, 39, 41, "auto"])
def test_hessians_in_chunks(device: str, chunk: object) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=12) * 0.3, rng.normal(size=(9, 12))
    func = _wide(12, 9)
    if isinstance(chunk, int):
        chunk = chunk % 13 or 13
    want = _wide_hessian(w, x)
    np.testing.assert_allclose(func.hessian(["w"], chunk=chunk).run_on(device, w=w, x=x)[0], want, rtol=1e-4, atol=1e-4)
    diagonal = func.hessian_diag(["w"], chunk=chunk).run_on(device, w=w, x=x)[0]
    np.testing.assert_allclose(diagonal, np.diag(want), rtol=1e-4, atol=1e-4)


def test_the_budget_bounds_the_arena() -> None:
    func = _wide(400, 2048)
    own = 400 * 400 * 4
    whole = _arena(func.hessian(["w"]))
    for budget in (2**21, 2**19, 2**17):
        within = _arena(func.hessian(["w"], chunk="auto", memory=budget))
        # The two halves of an uneven division are joined, and columns become rows: twice the matrix. One lane is the least.
        assert within <= 2 * own + max(budget, 2048 * 4 * 4) + 2**16
    assert whole > 2 * own + 2**21
    assert _arena(func.hessian_diag(["w"], memory=2**17)) < 2**18
    assert len(func.hessian(["w"], chunk=8).graph.nodes) < 2 * len(func.hessian(["w"]).graph.nodes)  # no copies


def test_what_all_lanes_share_is_computed_once() -> None:
    func = rlx.Func("f", lambda s: (s.input("a", [6, 6]).inv() @ s.input("x", [6])).tanh())
    graph = func.jacfwd(["x"], chunk=2).graph
    loop = next(n for n in graph.nodes if n.op.name == "scan")
    assert "inv" in {n.op.name for n in graph.nodes}
    assert "inv" not in {n.op.name for n in loop.attrs["body"].nodes}


def test_chunks_compose_with_other_transforms() -> None:
    func = rlx.Func("f", lambda s: (s.input("x", [5]) ** 3.0) * s.input("k", []))
    x, xs = np.arange(1.0, 6.0), np.arange(10.0).reshape(2, 5)
    jacobian = func.jacrev(["x"], chunk=2)
    np.testing.assert_allclose(jacobian.vmap(["x"]).run(x=xs, k=2)[0], [np.diag(6 * row**2) for row in xs], rtol=1e-5)
    tangent = jacobian.jvp(["x", "k"]).run(x=x, k=2, tangent_x=np.ones(5), tangent_k=1)[1]
    np.testing.assert_allclose(tangent, np.diag(12 * x + 3 * x**2), rtol=1e-5)
    third = rlx.Func("g", lambda s: (s.input("x", [3]) ** 4.0).sum()).hessian(["x"], chunk=2).jacfwd(["x"], chunk=1)
    want = np.zeros((3, 3, 3))
    want[range(3), range(3), range(3)] = 24 * x[:3]
    np.testing.assert_allclose(third.run(x=x[:3])[0], want, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"chunk": 0}, "1 or more"), ({"chunk": True}, "1 or more"), ({"chunk": "all"}, '"auto"'), ({"chunk": 2.0}, "1 or more"),
        ({"memory": 5}, "budget"), ({"chunk": 2, "memory": 5}, "budget"), ({"chunk": "auto", "memory": 0}, "bytes"),
    ],
)  # fmt: skip
def test_faults_of_chunks(options: dict[str, object], word: str) -> None:
    func = rlx.Func("f", lambda s: s.input("x", [3]).exp().sum())
    for transform in (func.jacfwd, func.jacrev, func.hessian):
        with pytest.raises(rlx.RlxTransformError, match=word):
            transform(["x"], **options)  # type: ignore[arg-type]
    dynamic = rlx.Func("f", lambda s: s.input("x", ["?n"]).exp().sum())
    with pytest.raises(rlx.RlxTransformError, match="static"):
        dynamic.hessian_diag(["x"])
    np.testing.assert_allclose(dynamic.hessian_diag(["x"], chunk=None).run(x=[0, 1])[0], [1, math.e], rtol=1e-6)


def test_the_diagonal_ignores_infinite_neighbours() -> None:
    func = rlx.Func("f", lambda s: (lambda x: x[0] * x[1] ** 1.5 + x[0] ** 2.0)(s.input("x", [2])))
    found = func.hessian_diag(["x"], chunk=1).run(x=[1.0, 1.0])[0]
    np.testing.assert_allclose(found, [2.0, 0.75], rtol=1e-5)
    far = rlx.Func("f", lambda s: (lambda x: x[0].sqrt() * x[1] + x[1] ** 3.0)(s.input("x", [2])))
    assert far.hessian_diag(["x"]).run(x=[0.0, 2.0])[0][1] == 12  # ∂²/∂x₀∂x₁ is infinite


# ------------------------------------------------------------------------------------------ along a line


@pytest.mark.parametrize("device", DEVICES)
def test_orders_along_a_direction(device: str) -> None:
    func = rlx.Func("f", lambda s: {"y": (s.input("a", [3]) * s.param("x", [3])).sin(), "k": s.constant(2)})
    a, x, v = np.array([1.0, 2.0, 0.3]), np.array([0.1, 0.5, 2.0]), np.array([1.0, -1.0, 0.5])
    d = func.with_param("x", x).directional(["x"], order=4)
    assert d.input_names() == ["a", "tangent_x"]
    assert d.output_names() == ["y", "k", *(f"d{k}_{n}" for k in (1, 2, 3, 4) for n in ("y", "k"))]
    found = dict(zip(d.output_names(), d.run_on(device, a=a, tangent_x=v), strict=True))
    p, u = a * v, a * x
    for k, want in enumerate((np.cos(u) * p, -np.sin(u) * p**2, -np.cos(u) * p**3, np.sin(u) * p**4), 1):
        np.testing.assert_allclose(found[f"d{k}_y"], want, rtol=2e-5, atol=1e-6)
        assert found[f"d{k}_k"] == 0


def test_several_inputs_move_together() -> None:
    func = rlx.Func("f", lambda s: s.input("x", []) ** 2.0 * s.input("y", []))
    d = func.directional(["x", "y"], order=4).run(x=2.0, y=3.0, tangent_x=1.0, tangent_y=5.0)
    # (2 + t)² (3 + 5t) = 12 + 32 t + 23 t² + 5 t³
    np.testing.assert_allclose(d, [12, 32, 2 * 23, 6 * 5, 0], rtol=1e-6)
    for order in (0, -1, 1.5, True):
        with pytest.raises(rlx.RlxTransformError, match="order"):
            func.directional(["x"], order=order)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ complex values

Z = np.array([1 + 2j, -0.5 + 0.3j], np.complex64)


def test_reverse_jacobians_in_complex_inputs() -> None:
    func = rlx.Func("f", lambda s: (lambda z: (z * z).real())(s.input("z", [2], "C64")))
    # u = x² − y²: ∂u/∂x − i ∂u/∂y = 2x + 2iy
    for chunk in (None, 1):
        np.testing.assert_allclose(func.jacrev(["z"], chunk=chunk).run(z=Z)[0], np.diag(2 * Z), rtol=1e-6)
    single = rlx.Func("f", lambda s: (lambda z: (z * z).real().sum())(s.input("z", [2], "C64")))
    np.testing.assert_allclose(single.jacrev(["z"]).run(z=Z)[0], single.grad(["z"]).run(z=Z)[0], rtol=1e-6)


def test_forward_jacobians_of_complex_outputs() -> None:
    func = rlx.Func("f", lambda s: (lambda x: x.complex(x * x) * 1j)(s.input("x", [2])))
    x = np.array([1.0, -2.0], np.float32)
    np.testing.assert_allclose(func.jacfwd(["x"]).run(x=x)[0], np.diag(1j * (1 + 2j * x)), rtol=1e-6)
    with pytest.raises(rlx.RlxTransformError, match="`out` is C64") as caught:
        func.jacrev(["x"])
    assert caught.value.diagnostics[0].code == "E0501"


def test_forward_jacobians_in_complex_inputs_are_refused() -> None:
    func = rlx.Func("f", lambda s: (lambda z: (z * z).real().sum())(s.input("z", [2], "C64")))
    for transform in (func.jacfwd, func.hessian, func.hessian_diag):
        with pytest.raises(rlx.RlxTransformError, match="`z` is C64") as caught:
            transform(["z"])
        assert caught.value.diagnostics[0].code == "E0501"


def test_complex_derivatives_of_holomorphic_functions() -> None:
    func = rlx.Func("f", lambda s: (lambda z: (z * z * z).exp())(s.input("z", [2], "C64")))
    want = np.diag(3 * Z**2 * np.exp(Z**3))
    for transform in (func.jacfwd, func.jacrev):
        np.testing.assert_allclose(transform(["z"], holomorphic=True).run(z=Z)[0], want, rtol=1e-4)
    real = rlx.Func("f", lambda s: s.input("z", [2], "C64").real())
    for transform in (real.jacfwd, real.jacrev):
        with pytest.raises(rlx.RlxTransformError, match="`out` is real"):
            transform(["z"], holomorphic=True)
