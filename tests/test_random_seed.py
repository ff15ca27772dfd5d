"""Random numbers of the run's seed: ops, steps of loops, lanes, transforms, devices, training that resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rlxlang as rlx
from rlxlang.backends.opencl import available_devices
from rlxlang.diagnostics import RlxError
from rlxlang.ir.parser import parse_graph
from rlxlang.ir.printer import print_graph
from rlxlang.warm import from_bytes, to_bytes

DEVICES = ("cpu", "reference", *(("opencl",) if available_devices() else ()))
X = np.linspace(1, 2, 8, dtype=np.float32)
TWO = "input x: [8]; out y = dropout(x, 0.5); out u = rng_uniform(x); out v = rng_uniform(x);"


def mask(dropped: np.ndarray) -> np.ndarray:
    return (np.asarray(dropped) != 0).astype(np.float32)


# --------------------------------------------------------------------------------------------- runs


def test_the_page_about_random_numbers() -> None:
    page = (Path(__file__).parent.parent / "docs" / "random.md").read_text(encoding="utf-8")
    texts = [part.split("```")[0] for part in page.split("```rlx\n")[1:]]
    x, key = np.ones((3, 16), np.float32), np.array([1, 2], np.uint32)
    drawn = []
    for text in texts:
        func = rlx.loads(text)
        func = func.init_params(seed=0) if func.param_names() else func
        given = {"x": x, "key": key} if "key" in func.input_names() else {"x": x}
        drawn.append(func.traced.signature.seed is not None)
        assert all(np.isfinite(v).all() for v in func.run(given))
    assert drawn == [True, True, False]


def test_the_seed_is_an_argument_that_may_be_left_out() -> None:
    func = rlx.loads(TWO)
    assert func.input_names() == ["x"]
    zero, one = func.run(x=X), func.run(x=X, seed=1)
    assert not np.array_equal(zero[1], one[1])
    assert not np.array_equal(zero[1], zero[2])  # two ops, two streams
    jitted = func.jit()
    for found in (
        func.run(x=X, seed=0),
        func.run({"x": X, "seed": np.array([0, 0], np.uint32)}),
        list(func.run_dict(x=X).values()),
        func(X),
        jitted(X),
        jitted(X, seed=0),
        jitted.call(X),
        jitted.call(X, seed=np.int64(0)),
        jitted.run(x=X),
        list(jitted.run_dict({"x": X}, seed=0).values()),
    ):
        for left, right in zip(found, zero, strict=True):
            assert_array_equal(left, right)
    assert_array_equal(jitted.call(X, seed=1)[2], one[2])
    assert_array_equal(func.run(x=X, seed=-1)[1], func.run(x=X, seed=2**64 - 1)[1])


def test_devices_threads_and_texts_agree() -> None:
    func = rlx.loads(TWO)
    again = rlx.loads(TWO.replace("out u", "let _unused = 1; out u"))
    want = func.run_on("reference", x=X, seed=12345678901234)
    for device in DEVICES:
        for count in (1, 2):
            with rlx.threads(count):
                for f in (func, again):
                    for left, right in zip(f.run_on(device, x=X, seed=12345678901234), want, strict=True):
                        assert_array_equal(left, right)


def test_graphs_of_python_draw_the_same_numbers() -> None:
    def build(s: rlx.GraphScope) -> tuple[rlx.Tensor, ...]:
        x = s.input("x", [8])
        return x.dropout(0.5), s.rng_uniform(x), s.rng_uniform([8])

    for left, right in zip(rlx.Func("two", build).run(x=X, seed=5), rlx.loads(TWO).run(x=X, seed=5), strict=True):
        assert_array_equal(left, right)


def test_a_taken_name_moves_the_seed() -> None:
    func = rlx.loads("input seed: [8]; out y = dropout(seed, 0.5);")
    assert not np.array_equal(func.run(seed=X)[0], func.run({"seed": X, "seed_2": 1})[0])


def test_nothing_is_drawn_without_need() -> None:
    func = rlx.loads(
        "config train = true; input x: [8]; let y = x * 2; if train { let y = dropout(y, 0.5); } out y;", train=False
    )
    assert func.traced.signature.seed is None
    with pytest.raises(RlxError, match="seed"):
        func.run(x=X, seed=1)
    assert rlx.loads("input x: [8]; let _d = dropout(x, 0.5); out y = dropout(x, 0);").traced.signature.seed is None


@pytest.mark.parametrize("seed", ["1", 1.0, True, np.zeros(2)])
def test_wrong_seeds(seed: object) -> None:
    with pytest.raises(RlxError) as caught:
        rlx.loads(TWO).run(x=X, seed=seed)
    assert caught.value.diagnostics[0].code == "E0806"


def test_counts_of_positional_inputs() -> None:
    jitted = rlx.loads(TWO).jit()
    for values, code in (((), "E0803"), ((X, X), "E0220")):
        with pytest.raises(RlxError) as caught:
            jitted.call(*values)
        assert caught.value.diagnostics[0].code == code


def test_the_seed_survives_text_and_disk() -> None:
    graph = rlx.loads(TWO).graph
    again = rlx.Func.from_graph(parse_graph(print_graph(graph)))
    assert_array_equal(again.run(x=X, seed=3)[0], rlx.Func.from_graph(graph).run(x=X, seed=3)[0])
    data = to_bytes(rlx.Func("f", lambda s: s.input("x", [8]).dropout(0.5)).graph, (), None)
    assert data is not None
    outline, _ = from_bytes(data, None)  # type: ignore[misc]
    assert [e.kind for e in outline.arguments] == ["input", "seed"]
    assert [e.name for e in outline.feeds] == ["x"]


def test_a_fn_with_a_rule_takes_a_key() -> None:
    text = "fn f(v) { return dropout(v, 0.5); } vjp f(v, g) { return g; } input x: [8]; out y = f(x);"
    with pytest.raises(RlxError, match="random numbers"):
        rlx.loads(text)


# --------------------------------------------------------------------------------------------- loops


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_scans_differ(device: str) -> None:
    text = "input x: [8]; scan h = x for 4 { let h = h + rng_uniform(x); emit rng_uniform([3]) as u; } out h, u;"
    h, u = rlx.loads(text).run_on(device, x=X, seed=2)
    assert len(np.unique(u)) == 12
    longer = rlx.loads(text.replace("for 4", "for 6")).run_on(device, x=X, seed=2)[1]
    assert_array_equal(longer[:4], u)
    assert (h > X).all()


def test_steps_of_nested_and_dynamic_scans_differ() -> None:
    text = """
    input xs: [?n, 2];
    scan h = zeros([2]) over v in xs reverse {
        scan g = v for 3 { let g = g * 1; emit rng_uniform([]) as u; }
        let h = h + g;
        emit u as us;
    }
    out us, h;
    """
    func = rlx.loads(text)
    us = func.run(xs=np.zeros((5, 2), np.float32))[0]
    assert len(np.unique(us)) == 15
    assert_array_equal(func.run_on("reference", xs=np.zeros((5, 2), np.float32))[0], us)


@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_loops_differ(device: str) -> None:
    text = """
    input n: [; I32];
    loop h = zeros([4]), last = zeros([4]), i = 0 while i < n max 9 {
        let last = rng_uniform([4]);
        let h = h + last;
        let i = i + 1;
    }
    out h, last;
    """
    func = rlx.loads(text.replace("[; I32]", "[I32;]"))
    total, lasts = np.zeros(4, np.float32), []
    for n in (1, 2, 3):
        h, last = func.run_on(device, n=n)
        total = total + last
        assert_allclose(h, total, rtol=1e-6)
        lasts.append(last)
    assert len(np.unique(lasts)) == 12


def test_reverse_mode_sees_the_numbers_of_each_step() -> None:
    text = "input x: [8]; scan h = x for 3 { let h = dropout(h, 0.25); emit h as hs; } out loss = sum(h); out hs;"
    func = rlx.loads(text)
    loss, slope, hs = func.value_and_grad(["x"]).run(x=X, seed=4)
    assert_allclose(slope, mask(hs[-1]) / 0.75**3, rtol=1e-6)
    assert 0 < mask(hs[-1]).sum() < mask(hs[0]).sum()
    assert_allclose(loss, (X * slope).sum(), rtol=1e-6)


def test_branches_draw() -> None:
    text = "input x: [8]; if sum(x) > 0 { let y = dropout(x, 0.5); } else { let y = rng_uniform(x); } out y;"
    func = rlx.loads(text)
    assert set(np.unique(func.run(x=X)[0] / X)) == {0, 2}
    assert len(np.unique(func.run(x=-X)[0])) == 8


def test_remat_sees_the_same_numbers() -> None:
    text = "WORD fn f(v) { return tanh(dropout(v, 0.5) + rng_normal(v)); } input x: [8]; out y = sum(f(f(x)));"
    plain, again = (rlx.loads(text.replace("WORD", w)).value_and_grad(["x"]) for w in ("", "remat"))
    whole = rlx.loads(text.replace("WORD", "")).remat().value_and_grad(["x"])
    for f in (again, whole):
        for left, right in zip(f.run(x=X, seed=6), plain.run(x=X, seed=6), strict=True):
            assert_allclose(left, right, rtol=1e-5)


# --------------------------------------------------------------------------------------------- transforms


def test_gradients_use_the_mask_of_the_run() -> None:
    func = rlx.loads("input x: [8]; let d = dropout(x * x, 0.5); out loss = sum(d); out d;")
    loss, slope, dropped = func.value_and_grad(["x"]).run(x=X, seed=9)
    assert_allclose(loss, dropped.sum(), rtol=1e-6)
    assert_allclose(slope, 4 * X * mask(dropped), rtol=1e-6)
    assert_array_equal(func.run(x=X, seed=9)[1], dropped)
    assert_allclose(func.hessian(["x"]).run(x=X, seed=9)[0], np.diag(4 * mask(dropped)), rtol=1e-6)
    _, _, _, pushed = func.jvp(["x"]).run({"x": X, "tangent_x": np.ones(8), "seed": 9})
    assert_allclose(pushed, slope, rtol=1e-6)
    pulled = func.vjp(["x"]).run({"x": X, "ct_loss": 0.0, "ct_d": np.ones(8), "seed": 9})[-1]
    assert_allclose(pulled, slope, rtol=1e-6)


def test_lanes_differ() -> None:
    func = rlx.loads("input x: [8]; out y = dropout(x, 0.5); out u = rng_uniform([3]);")
    for device in DEVICES:
        y, u = func.vmap(["x"]).run_on(device, x=np.stack([X] * 5), seed=1)
        assert len(np.unique(u)) == 15
        assert len(np.unique(mask(y), axis=0)) == 5
        shorter = func.vmap(["x"]).run_on(device, x=np.stack([X] * 2), seed=1)
        assert_array_equal(shorter[1], u[:2])
    twice = func.vmap(["x"]).vmap(["x"]).run(x=np.ones((3, 4, 8), np.float32))[1]
    assert len(np.unique(twice)) == 36
    with pytest.raises(RlxError, match="lanes"):
        func.vmap(["x", "seed"])


def test_gradients_of_lanes_use_their_masks() -> None:
    func = (
        rlx.loads("input x: [8]; let d = dropout(x, 0.5); out loss = sum(d); out d;").value_and_grad(["x"]).vmap(["x"])
    )
    _, slope, dropped = func.run(x=np.stack([X] * 3))
    assert_allclose(slope, 2 * mask(dropped))


# --------------------------------------------------------------------------------------------- training

MODEL = """
input x: [?b, 4]; input t: [?b, 1];
param w: [4, 16] = normal(0.5); param v: [16, 1] = normal(0.5);
let h = dropout(relu(x @ w), 0.4);
out loss = mse(h @ v, t);
"""


def _data(rows: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return {"x": x, "t": x.sum(1, keepdims=True)}


def _func() -> rlx.Func:
    return rlx.loads(MODEL).init_params(seed=0)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_every_step_of_a_trainer_has_its_numbers(accumulate: int) -> None:
    frozen = [_func().trainer(rlx.optim.Sgd(0.0), accumulate=accumulate, seed=s) for s in (0, 0, 1)]
    losses = [[t.step(**_data()) for _ in range(4)] for t in frozen]
    assert len(set(losses[0])) == 4
    assert losses[0] == losses[1]
    assert not set(losses[0]) & set(losses[2])
    assert frozen[0].evaluate(_data()) == frozen[1].evaluate(_data())


def test_trainers_agree_on_devices() -> None:
    losses = []
    for device in DEVICES:
        trainer = _func().trainer(rlx.optim.Adam(0.01), device=device)
        losses.append([trainer.step(**_data()) for _ in range(3)])
    for other in losses[1:]:
        assert_allclose(other, losses[0], rtol=1e-4)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_training_resumes_bit_for_bit(accumulate: int, tmp_path: Path) -> None:
    options = {"accumulate": accumulate}
    trainer = _func().trainer(rlx.optim.Adam(0.01), seed=2**40 + 3, **options)
    for _ in range(2 * accumulate):
        trainer.step(**_data())
    trainer.save(tmp_path / "run.safetensors")
    again = rlx.Trainer.resume(tmp_path / "run.safetensors", rlx.loads(MODEL), rlx.optim.Adam(0.01), **options)
    assert again.seed == 2**40 + 3
    for _ in range(2 * accumulate):
        assert trainer.step(**_data()) == again.step(**_data())
    for name in ("w", "v"):
        assert_array_equal(trainer.param(name), again.param(name))


def test_fit_learns_with_dropout() -> None:
    trainer = _func().trainer(rlx.optim.Adam(0.02))
    history = trainer.fit(_data(64), epochs=30, batch_size=16, progress=False)
    assert history.losses[-1] < 0.5 * history.losses[0]


def test_train_step_takes_a_seed() -> None:
    func, opt = _func(), rlx.optim.Sgd(0.0)
    same = [func.train_step_all(opt, _data())[1][0] for _ in range(2)]
    assert same[0] == same[1]
    apart = [func.train_step_all(opt, {**_data(), "seed": k})[1][0] for k in range(3)]
    assert len({float(v) for v in apart}) == 3
    steady = rlx.LrSchedule.constant(0.1)
    assert_array_equal([func.train_step_all_at(opt, steady, k, _data())[1][0] for k in range(3)], apart)
