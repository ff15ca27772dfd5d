"""What `where` leaves out has no influence on derivatives, whatever is infinite there; zeros of constants are zeros in both modes."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx

DEVICES = [str(d) for d in rlx.devices()]

USED = "const u = [0.0, 1.0];"

# Expressions that overflow at 1000 or at 3e38, and their derivatives at 0.5.
CHAINS = {
    "exp(x)": np.exp(0.5),
    "exp2(x)": np.log(2) * 2**0.5,
    "expm1(x)": np.exp(0.5),
    "sinh(x)": np.cosh(0.5),
    "cosh(x)": np.sinh(0.5),
    "x * exp(x)": 1.5 * np.exp(0.5),
    "exp(x) * exp(x) * x": 2 * np.exp(1),
    "x * x * x": 0.75,
    "x ** 3.0": 0.75,
    "exp(exp(x))": np.exp(np.exp(0.5) + 0.5),
    "tan(x)": 1 / np.cos(0.5) ** 2,
    "sum(exp(x + u))": np.exp(0.5) + np.exp(1.5),
    "log(x) * exp(x)": (2 + np.log(0.5)) * np.exp(0.5),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_branches_that_are_not_taken(chain: str) -> None:
    func = rlx.loads(f"input x: []; {USED if 'u)' in chain else ''} out y = where(abs(x) < 10.0, {chain}, 2.0 * x);")
    for x, want in ((0.5, CHAINS[chain]), (1000.0, 2), (3e38, 2), (np.inf, 2), (-np.inf, 2)):
        for device in DEVICES if x == 1000.0 else ("reference", "cpu"):
            reverse = func.grad(["x"]).run_on(device, x=x)[0]
            forward = func.jvp(["x"]).run_on(device, x=x, tangent_x=1.0)[1]
            np.testing.assert_allclose([reverse, forward], [want, want], rtol=2e-5)


def test_long_chains_in_a_branch() -> None:
    deep = "x * exp(x)"
    for _ in range(40):
        deep = f"atan({deep})"
    func = rlx.loads(f"input x: []; out y = where(x < 10.0, {deep}, 3.0 * x);").grad(["x"])
    assert func.run_on("reference", x=1000.0)[0] == 3
    assert func.run_on("cpu", x=1000.0)[0] == 3


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("sqrt(x) * 0.0", 0), ("sqrt(x * 0.0)", 0), ("log(x) * 0.0", 0), ("0.0 * (sqrt(x) * 3.0)", 0),
        ("sum(sqrt(x + u) * 2.0 * u)", 1), ("sum(sqrt((x + u) * u))", 0.5),
    ],
)  # fmt: skip
def test_constant_zeros_stop_infinite_slopes_in_both_modes(text: str, want: float) -> None:
    func = rlx.loads(f"input x: []; {USED if 'u)' in text else ''} out y = {text};")
    for device in ("reference", "cpu"):
        assert func.grad(["x"]).run_on(device, x=0.0)[0] == pytest.approx(want)
        assert func.jvp(["x"]).run_on(device, x=0.0, tangent_x=1.0)[1] == pytest.approx(want)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_finished_lanes_of_a_loop_that_are_out_of_its_domain(device: str) -> None:
    # `exp` of a lane that has ended at 200 is infinite; its cotangent is 0, and the weights sum over all lanes.
    func = rlx.loads(
        "input x: [2]; input w: [2, 2]; loop a = x while sum(a) < 3.0 max 12 { let a = w @ exp(a); } out y = sum(a);"
    )
    x = np.array([[0.1, 0.2], [200, 200], [-1, -2], [0.5, 0.1]], np.float32)
    w = np.array([[0.5, 0.4], [0.3, 0.7]], np.float32)
    lanes = func.vmap(["x"])
    values, d_x, d_w = lanes.vjp(["x", "w"]).run_on(device, x=x, w=w, ct_y=np.ones(4))
    singles = [func.value_and_grad(["x", "w"]).run_on("reference", x=a, w=w) for a in x]
    np.testing.assert_allclose(values, [s[0] for s in singles], rtol=1e-5)
    np.testing.assert_allclose(d_x, [s[1] for s in singles], rtol=1e-4)
    np.testing.assert_allclose(d_w, np.sum([s[2] for s in singles], 0), rtol=1e-4)
    assert (np.abs(d_x[[0, 2, 3]]) > 0.1).all()
    assert (d_x[1] == 1).all()
    pushed = lanes.jvp(["x"]).run_on(device, x=x, w=w, tangent_x=np.ones_like(x))[1]
    np.testing.assert_allclose(pushed, d_x.sum(1), rtol=1e-4)
