"""`use physics;`: derivatives against those of a network on paper, and residuals of solutions that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from tests.stdlib.measure import DEVICES, Array, Values, check

Rng = np.random.Generator

NETWORK = """use physics::*;
input x: [?n, 3]; param w: [3, 4]; param b: [4]; param m: [4, 3];
let v = tanh(x @ w + b) @ m;
"""
PARAMS = ["w", "b", "m"]


def network(v: Values, x: Array) -> tuple[Array, Array, Array]:
    """The field [n, 3], its first derivatives [n, 3, d] and its second ones [n, 3, d, d]."""
    t = np.tanh(x @ v["w"] + v["b"])
    slope = 1 - t**2
    first = np.einsum("nh,dh,hk->nkd", slope, v["w"], v["m"])
    second = np.einsum("nh,dh,eh,hk->nkde", -2 * t * slope, v["w"], v["w"], v["m"])
    return t @ v["m"], first, second


def trace(second: Array, start: int = 0) -> Array:
    return np.asarray(np.einsum("...ii->...", second[..., start:, start:]))


def points(rng: Rng, *counts: int) -> list[dict[str, Any]]:
    return [{"x": rng.standard_normal((n, 3)), "s": rng.standard_normal(n)} for n in counts]


def test_first_derivatives(rng: Rng) -> None:
    text = (
        NETWORK
        + """let u = v[.., ..1]; let p = v[.., 1];
    out a = gradient(u, x), b2 = partial(p, x, 2), c = time_derivative(p, x), d = jacobian_row(v, x, 2);
    out e = jacobian(v, x), f = divergence(v, x), g = divergence(v[.., ..2], x, 1), h = curl(v, x);
    out i = advected(v, x, x), j = advected(v, v[.., 1..], x, 1);"""
    )

    def oracle(v: Values) -> list[Array]:
        x = v["x"]
        y, first, _ = network(v, x)
        (_, ay, az), (bx, _, bz), (cx, cy, _) = np.moveaxis(first, 0, -1)
        return [
            first[:, 0],
            first[:, 1, 2],
            first[:, 1, 0],
            first[:, 2],
            first,
            first[:, 0, 0] + first[:, 1, 1] + first[:, 2, 2],
            first[:, 0, 1] + first[:, 1, 2],
            np.stack([cy - bz, az - cx, bx - ay], 1),
            np.einsum("nkd,nd->nk", first, x),
            np.einsum("nkd,nd->nk", first[:, :, 1:], y[:, 1:]),
        ]

    sets = [{"x": s["x"]} for s in points(rng, 3, 1)]
    func = check(text, PARAMS, oracle, *sets, rng=rng, factor=4)
    x = rng.standard_normal((2, 3, 3)).astype(np.float32)
    params = {n: func.param_binding(n) for n in PARAMS}
    mapped = func.vmap(["x"]).run_on("cpu", x=x)
    for lane in range(2):
        for result, right in zip(mapped, oracle({**params, "x": x[lane]}), strict=True):
            np.testing.assert_allclose(result[lane], right, rtol=1e-4, atol=1e-5)


def test_second_derivatives(rng: Rng) -> None:
    text = (
        NETWORK
        + """let u = v[.., ..1]; let p = v[.., 1];
    out a = second_partial(p, x, 0, 2), b2 = hessian(u, x), c = laplacian(u, x), d = laplacian(p, x, 1);"""
    )

    def oracle(v: Values) -> list[Array]:
        _, _, second = network(v, v["x"])
        return [second[:, 1, 0, 2], second[:, 0], trace(second[:, 0]), trace(second[:, 1], 1)]

    check(text, PARAMS, oracle, *({"x": s["x"]} for s in points(rng, 3, 1)), rng=rng, factor=4)


def test_residuals(rng: Rng) -> None:
    text = (
        NETWORK
        + """input s: [?n]; let u = v[.., ..1]; let p = v[.., 1];
    out a = poisson_residual(u, x, s), c = helmholtz_residual(u, x, 3.0, s), d = heat_residual(u, x, 0.5, s);
    out e = wave_residual(p, x, 1.5, s), f = transport_residual(u, x, v[.., 1..], s);
    out g = momentum_residual(v[.., 1..], u, x, 0.3, s[.., new]);
    out h = burgers_residual(u, x, 0.2), i = heat_residual(p, x);"""
    )

    def oracle(v: Values) -> list[Array]:
        s = v["s"]
        y, first, second = network(v, v["x"])
        velocity = y[:, 1:]
        moved = np.einsum("nkd,nd->nk", first[:, 1:, 1:], velocity)
        spread = np.stack([trace(second[:, k], 1) for k in (1, 2)], 1)
        return [
            trace(second[:, 0]) - s,
            trace(second[:, 0]) + 9 * y[:, 0] - s,
            first[:, 0, 0] - 0.5 * trace(second[:, 0], 1) - s,
            second[:, 1, 0, 0] - 2.25 * trace(second[:, 1], 1) - s,
            first[:, 0, 0] + (first[:, 0, 1:] * velocity).sum(1) - s,
            first[:, 1:, 0] + moved + first[:, 0, 1:] - 0.3 * spread - s[:, None],
            first[:, 0, 0] + y[:, 0] * first[:, 0, 1] - 0.2 * second[:, 0, 1, 1],
            first[:, 1, 0] - trace(second[:, 1], 1),
        ]

    check(text, PARAMS, oracle, *points(rng, 3, 1), rng=rng, factor=4)


# Solutions, with `k` in the equation and its right value.
SOLUTIONS = {
    "heat": ("let u = exp(-2.5 * t) * sin(x) * cos(2 * y); out r = heat_residual(u, at, k);", 0.5),
    "heat with a source": (
        "let u = cos(x + y) * sin(t); out r = heat_residual(u, at, k, cos(x + y) * (cos(t) + 4 * sin(t)));",
        2.0,
    ),
    "wave": ("let u = sin(3 * x + 4 * y - 10 * t); out r = wave_residual(u, at, k);", 2.0),
    "transport": (
        "let u = exp(-square(x - 2 * t) - square(y + t)); out r = transport_residual(u, at, stack([2.0, k]));",
        -1.0,
    ),
    "Poisson": ("let u = sin(x) * exp(y) + t * t; out r = poisson_residual(u, at, k);", 2.0),
    "Helmholtz": ("let u = sin(2 * x) * cos(y) * cos(2 * t); out r = helmholtz_residual(u, at, k);", 3.0),
    "Burgers": ("let u = 2 - tanh((x - 2 * t) / 0.6) + 0 * y; out r = burgers_residual(u, at, k);", 0.3),
    "Taylor and Green": (
        """let f = exp(-0.6 * t);
        let v = stack([cos(x) * sin(y) * f, -sin(x) * cos(y) * f], axis: 1);
        let p = -(cos(2 * x) + cos(2 * y)) / 4 * f * f;
        out r = momentum_residual(v, p, at, k), s = divergence(v, at, 1);""",
        0.3,
    ),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solutions_have_no_residual(name: str, rng: Rng) -> None:
    body, right = SOLUTIONS[name]
    text = f"use physics::*; config k = {right};"
    text += "input at: [?n, 3]; let t = at[.., 0]; let x = at[.., 1]; let y = at[.., 2];" + body
    at = rng.uniform(-1, 1, (20, 3)).astype(np.float32)
    for residual in rlx.loads(text).run_on("reference", at=at):
        assert abs(residual).max() < 2e-4
    assert abs(rlx.loads(text, k=1.2 * right).run_on("reference", at=at)[0]).max() > 1e-2


def test_losses_at_the_boundary(rng: Rng) -> None:
    text = (
        NETWORK
        + """input s: [?n]; let u = v[.., ..1]; let p = v[.., 1];
    param normal: [3];
    let y = x + 1; let q = (tanh(y @ w + b) @ m)[.., 1];
    out a = residual_loss(p), c = residual_loss(p, square(s), "none"), d = dirichlet_loss(u, s), e = dirichlet_loss(p);
    out m1 = dirichlet_loss(u, s, square(s), "none"), m2 = neumann_loss(u, x, normal, s, square(s), "none");
    out m3 = robin_loss(u, x, normal);
    out f = neumann_loss(u, x, normal, s), g = robin_loss(u, x, x, s, 2.0, 0.5, square(s), "none");
    out h = periodic_loss(p, x, q, y, 1), i = periodic_loss(p, x, q, y, 0, square(s), "none");
    out j = ritz_energy(u, x, s), k = with_ends(p, x[.., 0], -1.0, 2.0, 5.0, 7.0), l = with_ends(u, x[.., ..1]);"""
    )

    def oracle(v: Values) -> list[Any]:
        x, s = v["x"], v["s"]
        y, first, _ = network(v, x)
        z, other, _ = network(v, x + 1)
        u, p, q = y[:, 0], y[:, 1], z[:, 1]

        def apart(i: int) -> Array:
            return np.asarray((p - q) ** 2 + (first[:, 1, i] - other[:, 1, i]) ** 2)

        t = (x[:, 0] + 1) / 3
        return [
            (p**2).mean(),
            p**2 * s**2,
            ((u - s) ** 2).mean(),
            (p**2).mean(),
            s**2 * (u - s) ** 2,
            s**2 * (first[:, 0] @ v["normal"] - s) ** 2,
            ((u + first[:, 0] @ v["normal"]) ** 2).mean(),
            ((first[:, 0] @ v["normal"] - s) ** 2).mean(),
            s**2 * (s * u + 2 * (first[:, 0] * x).sum(1) - 0.5) ** 2,
            apart(1).mean(),
            s**2 * apart(0),
            (first[:, 0] ** 2).sum(1) / 2 - s * u,
            5 * (1 - t) + 7 * t + t * (1 - t) * p,
            (x[:, 0] * (1 - x[:, 0]) * u)[:, None],
        ]

    check(text, [*PARAMS, "normal"], oracle, *points(rng, 3, 1), rng=rng, factor=8)


def test_motion(rng: Rng) -> None:
    text = """use physics; input q: [?n, 2]; input p: [?n, 2];
    let energy = sum(square(p), 1) / 2 - sum(cos(q), 1);
    let (dq, dp) = physics::hamiltonian_field(energy, q, p);
    out dq, dp;"""
    arrays = {"q": rng.standard_normal((3, 2)), "p": rng.standard_normal((3, 2))}
    check(text, [], lambda v: [v["p"], -np.sin(v["q"])], arrays, rng=rng)


def test_a_field_of_other_points_has_no_slope() -> None:
    func = rlx.loads("use physics; input x: [?n, 2]; input y: [?n, 2]; out g = physics::gradient(y[.., 0], x);")
    for device in DEVICES:
        np.testing.assert_array_equal(func.run_on(device, x=[[1, 2]], y=[[3, 4]])[0], [[0, 0]])
