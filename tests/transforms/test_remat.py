"""Func.remat as a transform of graphs: names, order, guards and derivatives stay; by name; loops in segments."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.interp import evaluate
from rlxlang.lower import lower
from rlxlang.transforms import grad, jvp, remat, vmap
from tests.frontend.elaboration import graph_of

TEXT = "input x: [?n]; param w: [?m]; let h = tanh(x * w); out loss = sum(h * h), other = h; tap h;"
GIVEN = {"x": np.array([0.5, -1.0], np.float32), "w": np.array([2.0, 0.3], np.float32)}


def test_the_interface_stays() -> None:
    graph = graph_of(TEXT)
    found = remat(graph)
    assert [(i.name, i.kind) for i in found.inputs] == [("x", "input"), ("w", "param")]
    assert [(o.name, o.role) for o in found.outputs] == [("loss", "out"), ("other", "out"), ("h", "tap")]
    assert {str(g.guard) for g in found.guards} >= {str(g.guard) for g in graph.guards}


def test_transforms_in_any_order() -> None:
    graph = graph_of(TEXT)
    way = {"tangent_w": GIVEN["x"]}
    lanes = GIVEN | {"x": np.stack([GIVEN["x"], GIVEN["w"]])}
    for transform, arrays in (
        (lambda g: grad(g, ["x", "w"]), GIVEN),
        (lambda g: jvp(g, ["w"]), GIVEN | way),
        (lambda g: jvp(grad(g, ["x"]), ["w"]), GIVEN | way),
        (lambda g: vmap(grad(g, ["w"]), {"x": 0}, 2), lanes),
    ):
        want = evaluate(transform(graph), arrays)
        for found in (transform(remat(graph)), remat(transform(graph)), remat(transform(remat(graph)))):
            for a, b in zip(evaluate(found, arrays), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_recomputation_starts_behind_barriers() -> None:
    found = grad(remat(graph_of(TEXT)), ["x"])
    tanhs = [n for n in found.nodes if n.op.name == "tanh"]
    assert tanhs
    for node in tanhs:
        assert all(factor.op.name == "barrier" for factor in node.inputs[0].inputs)


# ------------------------------------------------------------------------------------------ loops in segments


def _recurrent(steps: int | str, checkpoint: object = None, reverse: bool = False, width: int = 64) -> rlx.Func:
    """h ↦ tanh(h x + h), x of every step given; Σ h² of the last step and of sums of all steps."""

    def step(h: rlx.Tensor, x: rlx.Tensor) -> tuple[rlx.Tensor, rlx.Tensor]:
        new = (h * x + h).tanh()
        return new, (new * x).sum()

    def build(s: rlx.GraphScope) -> rlx.Tensor:
        h, x = s.input("h", [width]), s.input("x", [steps, width])
        last, sums = rlx.scan(step, h, x, reverse=reverse, checkpoint=checkpoint)  # type: ignore[arg-type]
        return (last * last).sum() + (sums * sums).sum()

    return rlx.Func("recurrent", build)


def _arena(func: rlx.Func) -> int:
    size = lower(func.graph).program.arena
    assert isinstance(size, int)
    return size


@pytest.mark.parametrize("steps", [0, 1, 9, 10, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_segments_change_no_number(steps: int, reverse: bool) -> None:
    rng = np.random.default_rng(steps)
    given = {"h": rng.normal(size=3).astype(np.float32), "x": rng.normal(size=(steps, 3)).astype(np.float32)}
    plain = _recurrent(steps, None, reverse, 3)
    want = plain.value_and_grad(["h", "x"]).run_on("reference", given)
    for checkpoint in ("sqrt", 1, 4, 20):
        for func in (_recurrent(steps, checkpoint, reverse, 3), plain.remat(scans=checkpoint)):  # type: ignore[arg-type]
            for a, b in zip(func.value_and_grad(["h", "x"]).run(given), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_memory_is_linear_in_the_steps_and_with_segments_their_square_root() -> None:
    plain = {n: _arena(_recurrent(n).grad(["h"])) for n in (500, 2000)}
    carries = 64 * 4  # bytes of one
    assert plain[2000] <= 2000 * carries + 2**15
    assert 3.9 < plain[2000] / plain[500] < 4.1
    for func in (_recurrent(2000, "sqrt"), _recurrent(2000).remat(scans="sqrt")):
        # One carry a segment and one a step of a segment; the emitted sums of all steps are one number a step.
        assert _arena(func.grad(["h"])) <= (40 + 50) * carries + 2 * 2000 * 4 + 2**12
    inner = next(n for n in _recurrent(2000, "sqrt").graph.nodes if n.op.name == "scan")
    assert inner.attrs["length"] in (40, 50)


def test_a_dynamic_number_of_steps() -> None:
    func = _recurrent("?n", 4, width=3)
    rng = np.random.default_rng(0)
    for n in (0, 3, 4, 11):
        given = {"h": rng.normal(size=3).astype(np.float32), "x": rng.normal(size=(n, 3)).astype(np.float32)}
        want = _recurrent(n, width=3).value_and_grad(["h"]).run_on("reference", given)
        for a, b in zip(func.value_and_grad(["h"]).run(given), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(rlx.RlxTransformError, match="square root"):
        _recurrent("?n", "sqrt")
    with pytest.raises(rlx.RlxTransformError, match="square root"):
        _recurrent("?n").remat(scans="sqrt")


def test_random_numbers_of_segments_are_those_of_the_plain_loop() -> None:
    text = "input x: [7, 3]; param w: [3]; scan h = w over t in x { let h = tanh(h + dropout(t * w, 0.5)); } out y = sum(h * h);"
    func = rlx.loads(text).with_param("w", [0.5, 1, -1])
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    want = func.value_and_grad_all().run(x=x, seed=3)
    for a, b in zip(func.remat(scans=3).value_and_grad_all().run(x=x, seed=3), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------ by name

LAYERS = """
fn act(x) { return tanh(x * 2.0); }
block layer(x, n: int) {
    param w: [dim(x, 1), n] = normal(0.5);
    let h = dropout(act(x @ w), 0.25);
    return act(h + scale);
}
block head(x) { param w: [dim(x, 1), 1] = normal(0.5); return x @ w; }
input x: [4, 8];
param scale: [8] = 1.0;
let h = x;
repeat i in 0..3 { let h = layer(h, 8) as "l.{i}"; }
out loss = mean(exp(head(h)));
"""


def test_by_name_of_fn_block_and_instance() -> None:
    func = rlx.loads(LAYERS).init_params(seed=0)
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    names = ["x", *func.trainable_names()]
    want = func.value_and_grad(names).run(x=x, seed=5)
    for fns, calls in ((["layer"], 3), (["act"], 6), (["l.1"], 1), (["head", "l.0"], 2), (["layer", "act"], 3)):
        saving = func.remat(fns=fns)
        bodies = [n.attrs["body"] for n in saving.graph.nodes if n.op.name == "remat"]
        assert len(bodies) == calls
        assert all(e.node.op.name == "input" for body in bodies for e in body.inputs)
        for a, b in zip(saving.value_and_grad(names).run(x=x, seed=5), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    kept = {n.op.name for n in func.remat(fns=["layer"]).graph.nodes}
    assert "tanh" not in kept  # all of them stand in bodies now
    assert "exp" in kept


def test_calls_inside_of_loops_and_branches() -> None:
    text = (
        "fn cell(h, t) { return tanh(h * w + t); } input x: [5, 3]; param w: [3];"
        "scan h = w over t in x { let h = cell(h, t); } if sum(h) > 0.0 { let y = cell(h, h); } else { let y = h; }"
        "out loss = sum(y * y);"
    )
    func = rlx.loads(text).with_param("w", [0.5, 1, -1])
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    saving = func.remat(fns=["cell"])
    loop = next(n for n in saving.graph.nodes if n.op.name == "scan")
    assert [n.op.name for n in loop.attrs["body"].nodes if n.inputs] == ["remat"]
    for a, b in zip(saving.value_and_grad_all().run(x=x), func.value_and_grad_all().run(x=x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_arena_shrinks_by_name() -> None:
    text = (
        "fn part(h, a: int) { repeat i in a..a + 8 { let h = tanh(h @ w[i]); } return h; } input x: [16, 8];"
        "param w[40]: [8, 8]; let h = x; repeat s in 0..5 { let h = part(h, s * 8); } out loss = mean(h * h);"
    )
    func = rlx.loads(text)
    assert _arena(func.remat(fns=["part"]).grad_all()) < _arena(func.grad_all()) / 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"fns": ["lager"]}, "`layer`"), ({"fns": "layer"}, 'write \\["layer"\\]'), ({"scans": "sqrt"}, "no `scan`"),
        ({"scans": 0}, "1 or more"), ({"scans": "root"}, '"sqrt"'),
    ],
)  # fmt: skip
def test_faults(options: dict[str, object], word: str) -> None:
    with pytest.raises(rlx.RlxTransformError, match=word):
        rlx.loads(LAYERS).remat(**options)  # type: ignore[arg-type]


def test_closed_over_tensors_and_random_numbers_in_python() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x, w = s.input("x", [64]), s.param("w", [64])

        @rlx.remat
        def part(v: rlx.Tensor) -> rlx.Tensor:
            return (v * w).tanh().dropout(0.5) * w

        return (part(x) * part(x)).sum()

    func = rlx.Func("f", build).with_param("w", np.linspace(-1, 1, 64))
    x = np.random.default_rng(0).normal(size=64).astype(np.float32)
    w = np.linspace(-1, 1, 64)
    t, slope = np.tanh(x * w), 1 - np.tanh(x * w) ** 2
    for seed in (0, 7):
        loss, d_x, d_w = func.value_and_grad(["x", "w"]).run(x=x, seed=seed)
        both = np.abs(d_x) > 0  # lanes that both draws keep: 2t · 2t · w²
        np.testing.assert_allclose(loss, (4 * t * t * w * w)[both].sum(), rtol=1e-4)
        np.testing.assert_allclose(d_x, np.where(both, 8 * t * slope * w**3, 0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(d_w, np.where(both, 8 * t * (slope * x * w * w + t * w), 0), rtol=1e-4, atol=1e-6)
        assert 4 < both.sum() < 40
