"""Loops and branches of the language on every device, against Python and against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rlxlang as rlx
from rlxlang.device import Device
from tests.devices.running import DEVICES

Array = np.ndarray
ALL = ("reference", *DEVICES)

NEWTON = """
input a: [?n];
scan total = 0.0, n = 0 over v in a {
    loop x = v, k = 0 while abs(x * x - v) > 1e-3 * v max 30 {
        if k > 2 { let x = 0.5 * (x + v / x); } else { let x = x - (x * x - v) / (2.0 * x); }
        let k = k + 1;
    }
    let total = total + x;
    let n = n + k;
    emit k as steps;
}
out total, n, steps;
"""


def _newton(a: Array) -> tuple[float, list[int]]:
    total, steps = 0.0, []
    for v in a.astype(np.float64):
        x, k = v, 0
        while abs(x * x - v) > 1e-3 * v and k < 30:
            x, k = 0.5 * (x + v / x), k + 1
        total, steps = total + x, [*steps, k]
    return total, steps


@pytest.mark.parametrize("device", ALL)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_branch_in_loop_in_scan(device: str, count: int, rng: np.random.Generator) -> None:
    a = rng.uniform(1, 300, count).astype(np.float32)
    total, n, steps = rlx.loads(NEWTON).run_on(device, a=a)
    want, counts = _newton(a)
    assert_allclose(total, want, rtol=1e-5)
    assert_array_equal(steps, counts)
    assert n == sum(counts)


@pytest.mark.parametrize("device", ALL)
def test_gradients_agree(device: str, rng: np.random.Generator) -> None:
    f = rlx.loads(NEWTON.replace("out total, n, steps;", "out total; tap n, steps;")).grad(["a"])
    a = rng.uniform(1, 300, 4).astype(np.float32)
    assert_allclose(f.run_on(device, a=a)[0], 0.5 / np.sqrt(a), rtol=2e-2)
    assert_allclose(f.run_on(device, a=a)[0], f.run_on("reference", a=a)[0], rtol=1e-5)


LANES = """
input x: [3]; param w: [3, 3];
loop h = x, i = 0 while sum(h * h) < 50.0 max 40 { let h = h @ w + 1.0; let i = i + 1; }
let y = sum(h);
if y > 8.0 { let y = y * 2.0; let kind = 1; } else { let kind = 0; }
out y; tap i, kind;
"""


@pytest.mark.parametrize("device", ALL)
@pytest.mark.parametrize("which", ["value", "grad"])
def test_lanes(device: str, which: str, rng: np.random.Generator) -> None:
    w = rng.uniform(0.1, 0.6, (3, 3)).astype(np.float32)
    f = rlx.loads(LANES).with_params({"w": w})
    f = f if which == "value" else f.grad(["w"])
    x = rng.uniform(-1, 3, (6, 3)).astype(np.float32)
    found = f.vmap({"x": 0}).run_on(device, x=x)
    want = [f.run_on("reference", x=row) for row in x]
    for k, result in enumerate(found):
        assert_allclose(result, np.stack([row[k] for row in want]), rtol=2e-5)


@pytest.mark.parametrize("device", ALL)
def test_only_the_taken_branch_runs(device: str) -> None:
    """The other branch would loop forever."""
    text = "input x: []; if x > 0.0 { let y = x + 1.0; } else { loop y = x while y <= 0.0 { let y = y - 1.0; } } out y;"
    assert rlx.loads(text).run_on(device, x=np.float32(2))[0] == 3


@pytest.mark.parametrize("device", ALL)
def test_loops_in_a_branch_move_their_slices(device: str, rng: np.random.Generator) -> None:
    text = """input xs: [?n, 2]; input p: [Bool;];
    if p { scan h = xs[0] * 0.0 + 1.0 over x in xs { let h = h * x; emit h as hs; } let t = hs + 0.0 * h; } else { let t = xs; } out t;"""
    xs = rng.uniform(0.5, 2, (5, 2)).astype(np.float32)
    f = rlx.loads(text)
    assert_allclose(f.run_on(device, xs=xs, p=np.bool_(True))[0], np.cumprod(xs, 0), rtol=1e-5)
    assert_array_equal(f.run_on(device, xs=xs, p=np.bool_(False))[0], xs)


@pytest.mark.parametrize("device", ALL)
def test_carries_that_trade_places(device: str) -> None:
    f = rlx.loads(
        "input n: [I32;]; loop a = 0, b = 1, k = 0 while k < n { let c = a + b; let a = b; let b = c; let k = k + 1; } out a;"
    )
    for n, want in ((0, 0), (1, 1), (10, 55), (30, 832040)):
        assert f.run_on(device, n=np.int32(n))[0] == want
    swap = rlx.loads(
        "input n: [I32;]; loop a = 1, b = 2, k = 0 while k < n { let t = a; let a = b; let b = t; let k = k + 1; } out a, b;"
    )
    assert [int(v) for v in swap.run_on(device, n=np.int32(3))] == [2, 1]


def test_devices_are_named_as_expected() -> None:
    assert {Device.parse(d).kind for d in ALL} == set(ALL)
