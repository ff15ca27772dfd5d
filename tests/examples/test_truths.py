"""What the example models compute, against closed forms and against other ways of computing it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rlxlang as rlx
from tests.examples.models import EXAMPLES, MODELS

Array = np.ndarray[Any, Any]


def digits(rows: int) -> dict[str, Array]:
    with np.load(EXAMPLES / "digits" / "digits.npz") as data:
        return {"x": data["x"][:rows], "y": data["y"][:rows]}


def softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def without_weights(model: rlx.Func) -> rlx.Func:
    return model.with_params({n: np.zeros_like(a) for n, a in model.bindings.items()})


# ---------------------------------------------------------------------------- learning
@pytest.mark.parametrize(
    ("name", "configs", "steps", "part"),
    [
        ("residual_network", {"channels": 8, "stages": 2}, 30, 0.7),
        ("vision_transformer", {"depth": 1, "width": 32}, 80, 0.7),
        ("recurrent", {}, 60, 0.7),
        ("autoencoder", {}, 60, 0.75),
        ("diffusion", {}, 60, 0.7),
        ("two_towers", {}, 30, 0.6),
    ],
)
def test_a_few_steps_of_training_lower_the_loss(name: str, configs: dict[str, Any], steps: int, part: float) -> None:
    model = rlx.load(EXAMPLES / MODELS[name].file, config=configs).init_params(seed=0)
    data = {n: a for n, a in digits(64).items() if n in model.input_names()}
    trainer = model.trainer(rlx.optim.Adam(3e-3), seed=0)
    losses = [trainer.step(**data) for _ in range(steps)]
    assert np.mean(losses[-3:]) < part * losses[0]


def test_the_language_model_learns_a_text() -> None:
    model = MODELS["language_model"].load()
    ids = np.tile(np.arange(10, dtype=np.int32), (4, 3))
    trainer = model.trainer(rlx.optim.Adam(1e-2))
    losses = [trainer.step(ids=ids) for _ in range(60)]
    assert losses[0] == pytest.approx(math.log(50), rel=0.1)
    assert losses[-1] < 0.2
    _, logits = trainer.func().run(ids=ids)
    assert (logits[:, 1:-1].argmax(-1) == ids[:, 2:]).all()


# ---------------------------------------------------------------------------- networks
def test_the_language_model_sees_no_later_token(rng: np.random.Generator) -> None:
    model = MODELS["language_model"].load()
    ids = rng.integers(0, 50, (2, 9)).astype(np.int32)
    loss, logits = model.run(ids=ids)
    other = ids.copy()
    other[:, 6:] = (ids[:, 6:] + 1) % 50
    np.testing.assert_allclose(model.run(ids=other)[1][:, :6], logits[:, :6], 1e-5, 1e-6)
    chances = np.take_along_axis(softmax(logits[:, :-1].astype(np.float64)), ids[:, 1:, None].astype(np.int64), -1)
    assert loss == pytest.approx(-np.log(chances).mean(), rel=1e-5)


def test_the_language_model_has_twelve_layers() -> None:
    names = rlx.load(EXAMPLES / "language_model.rlx").param_names()
    layers = {n.split(".")[1] for n in names if n.startswith("layers.")}
    assert layers == {str(i) for i in range(12)}
    assert {n for n in names if not n.startswith("layers.")} == {
        "tokens.table", "positions.table", "norm.gamma", "norm.beta",
    }  # fmt: skip


def test_recurrent_is_a_gru() -> None:
    model = MODELS["recurrent"].load()
    w, u, b = (model.bindings[n].astype(np.float64) for n in "wub")
    data = digits(4)
    h, states = np.zeros((4, 16)), []
    for row in data["x"].reshape(4, 8, 8).swapaxes(0, 1):
        (wr, wz, wn), (ur, uz, un) = np.split(row @ w + b, 3, -1), np.split(h @ u, 3, -1)
        keep = sigmoid(wz + uz)
        h = keep * h + (1 - keep) * np.tanh(wn + sigmoid(wr + ur) * un)
        states.append(h)
    _, logits, found = model.run(data)
    np.testing.assert_allclose(found, states, 1e-4, 1e-5)
    np.testing.assert_allclose(logits, h @ model.bindings["head"], 1e-4, 1e-5)


def test_a_graph_network_passes_messages_along_its_edges(rng: np.random.Generator) -> None:
    example = MODELS["graph_network"]
    model, inputs = example.load(), example.inputs(rng)
    p = {n: a.astype(np.float64) for n, a in model.bindings.items()}

    def layers(x: Array, name: str) -> Array:
        hidden = np.maximum(x @ p[f"{name}.layers.0.w"] + p[f"{name}.layers.0.b"], 0)
        return hidden @ p[f"{name}.layers.1.w"] + p[f"{name}.layers.1.b"]

    h = inputs["nodes"] @ p["encode.w"] + p["encode.b"]
    heard = np.zeros_like(h)
    for node in range(7):
        coming = [layers(np.concatenate([h[s], h[t]]), "rounds.0.message")
                  for s, t in zip(inputs["source"], inputs["target"], strict=True) if t == node]  # fmt: skip
        heard[node] = np.mean(coming, axis=0) if coming else 0
    h = h + layers(np.concatenate([h, heard], 1), "rounds.0.update")
    h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
    want = (h * p["rounds.0.norm.gamma"] + p["rounds.0.norm.beta"]) @ p["decode.w"] + p["decode.b"]
    np.testing.assert_allclose(model.run(inputs)[1], want, 1e-3, 1e-4)


def test_two_towers_compare_every_pair(rng: np.random.Generator) -> None:
    example = MODELS["two_towers"]
    model, inputs = example.load(), example.inputs(rng)
    loss, likeness, hits = model.run(inputs)
    assert np.abs(likeness).max() <= 1 + 1e-6
    logits = likeness.astype(np.float64) / 0.07
    forth, back = (np.log(np.diagonal(softmax(part))) for part in (logits, logits.T))
    assert loss == pytest.approx(-(forth + back).mean() / 2, rel=1e-3)
    assert hits == pytest.approx((likeness.argmax(1) == np.arange(6)).mean())


# ---------------------------------------------------------------------------- densities and noise
def test_an_autoencoder_without_weights_spends_a_bit_a_pixel() -> None:
    loss, image, center, rate = without_weights(MODELS["autoencoder"].load()).run(x=digits(3)["x"])
    assert loss == pytest.approx(64 * math.log(2), rel=1e-5)
    assert rate == 0
    assert (image == 0.5).all()
    assert not center.any()


def test_the_rate_of_an_autoencoder_is_a_divergence_of_normals() -> None:
    model = MODELS["autoencoder"].load()
    model = without_weights(model).with_params({"center.b": np.full(4, 0.5, np.float32),
                                                "log_variance.b": np.full(4, -1, np.float32)})  # fmt: skip
    rate = model.run(x=digits(3)["x"])[3]
    assert rate == pytest.approx(4 * 0.5 * (0.25 + math.exp(-1) - 1 + 1), rel=1e-5)


def test_the_volume_of_the_flow_is_that_of_its_jacobian(rng: np.random.Generator) -> None:
    model = MODELS["flow"].load()
    x = rng.normal(size=(3, 2)).astype(np.float32)
    _, log_density, z = (a.astype(np.float64) for a in model.run(x=x))
    text = (EXAMPLES / "flow.rlx").read_text("utf-8").replace("tap log_density, z;", "tap log_density; out z;")
    places = rlx.loads(text, config=MODELS["flow"].configs).with_params(model.bindings)
    moved = places.jacfwd(["x"]).run_dict(x=x)["jac_z_x"]  # [3, 2, 3, 2]
    for k in range(3):
        normal = -0.5 * (z[k] ** 2).sum() - math.log(2 * math.pi)
        volume = np.linalg.slogdet(moved[k, :, k].astype(np.float64))[1]
        assert log_density[k] == pytest.approx(normal + volume, rel=1e-4, abs=1e-4)


def test_the_density_of_the_flow_integrates_to_one(rng: np.random.Generator) -> None:
    model = MODELS["flow"].load()
    model = model.with_params(
        {n: a + np.float32(0.05) * rng.normal(size=a.shape).astype(np.float32) for n, a in model.bindings.items()}
    )
    line = np.linspace(-16, 16, 401, dtype=np.float32)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    density = np.exp(model.run(x=grid)[1].astype(np.float64))
    assert density.sum() * (line[1] - line[0]) ** 2 == pytest.approx(1, abs=5e-3)


def test_diffusion_adds_and_takes_the_noise_of_its_schedule(rng: np.random.Generator) -> None:
    example = MODELS["diffusion"]
    # A network that guesses no noise misses all of it, whose mean square is 1.
    loss = without_weights(example.load()).run(x=np.zeros((500, 64), np.float32))[0]
    assert loss == pytest.approx(1, abs=0.03)
    # Drawing with it is a chain of normal numbers whose variance is known.
    variance = 1.0
    betas = np.linspace(1e-4, 0.1, 100)
    for number in reversed(range(100)):
        variance = variance / (1 - betas[number]) + (betas[number] if number else 0)
    drawing = without_weights(example.load(draw=True))
    images = drawing(x=rng.normal(size=(300, 64)).astype(np.float32))
    assert (2 * images - 1).var() == pytest.approx(variance, rel=0.05)


# ---------------------------------------------------------------------------- statistics and equations
def test_the_regression_has_the_derivatives_of_textbooks(rng: np.random.Generator) -> None:
    example = MODELS["logistic_regression"]
    inputs = example.inputs(rng)
    w, b = rng.normal(size=3).astype(np.float32), np.float32(0.3)
    model = example.load().with_params({"w": w, "b": b})
    x, wins, tries = inputs["x"].astype(np.float64), inputs["successes"], inputs["trials"]
    chance = sigmoid(x @ w + b)
    loss, probability = model.run(inputs)
    np.testing.assert_allclose(probability, chance, 1e-5)
    want = -(wins * np.log(chance) + (tries - wins) * np.log(1 - chance)).sum() + 0.05 * (w**2).sum()
    assert loss == pytest.approx(want, rel=1e-5)
    dw, db = model.grad(["w", "b"]).run(inputs)
    np.testing.assert_allclose(dw, x.T @ (tries * chance - wins) + 0.1 * w, 1e-4, 1e-4)
    assert db == pytest.approx((tries * chance - wins).sum(), rel=1e-4, abs=1e-4)
    push = rng.normal(size=3).astype(np.float32)
    assert model.jvp(["w"]).run(inputs | {"tangent_w": push})[2] == pytest.approx(float(push @ dw), rel=1e-3, abs=1e-4)
    hessian = model.grad(["w"]).jacrev(["w"]).run(inputs)[0]
    np.testing.assert_allclose(hessian, (x.T * (tries * chance * (1 - chance))) @ x + 0.1 * np.eye(3), 1e-4, 1e-4)


def test_the_filter_knows_the_joint_normal_of_all_measurements(rng: np.random.Generator) -> None:
    model = MODELS["kalman"].load()
    measured = rng.normal(size=8).astype(np.float32).cumsum()
    # Measurements are linear in the first state and in the pushes; hence their covariance.
    motion, lever = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.5], [1.0]])
    sources = np.diag([100.0, 100.0] + [math.exp(-2.0)] * 8)
    states, rows = np.hstack([np.eye(2), np.zeros((2, 8))]), []
    for k in range(8):
        states = motion @ states
        states[:, 2 + k] += lever[:, 0]
        rows.append(states[0].copy())
    seen = np.array(rows)
    cov = seen @ sources @ seen.T + np.eye(8)
    want = 0.5 * (measured @ np.linalg.solve(cov, measured) + np.linalg.slogdet(2 * math.pi * cov)[1])
    loss, filtered, covariances = model.run(measured=measured)
    assert loss == pytest.approx(want, rel=1e-3)
    # The last state is the conditional mean, given everything that was measured.
    gain = states @ sources @ seen.T @ np.linalg.inv(cov)
    np.testing.assert_allclose(filtered[-1], gain @ measured, 1e-3, 1e-3)
    np.testing.assert_allclose(
        covariances[-1], states @ sources @ states.T - gain @ seen @ sources @ states.T, 5e-3, 5e-3
    )


def test_the_filter_learns_how_noisy_its_world_is() -> None:
    rng = np.random.default_rng(0)
    speed = np.cumsum(0.1 * rng.normal(size=400))
    measured = (np.cumsum(speed) + 2.0 * rng.normal(size=400)).astype(np.float32)
    trainer = rlx.load(EXAMPLES / "kalman.rlx").init_params(seed=0).trainer(rlx.optim.Adam(0.05))
    for _ in range(150):
        trainer.step(measured=measured)
    found = trainer.func().bindings
    assert math.exp(found["log_error"]) == pytest.approx(2.0, rel=0.15)
    assert math.exp(found["log_push"]) == pytest.approx(0.1, rel=0.4)


def test_the_planet_obeys_the_equation_and_its_derivative(rng: np.random.Generator) -> None:
    model = rlx.load(EXAMPLES / "kepler.rlx")
    inputs = {"mean_anomaly": rng.uniform(-3, 3, 20).astype(np.float32), "eccentricity": np.float32(0.6)}
    place, angle, steps = model.run(inputs)
    assert 1 <= steps <= 8
    np.testing.assert_allclose(angle - 0.6 * np.sin(angle), inputs["mean_anomaly"], 0, 1e-5)
    # The sun is in a focus: the distance to it is 1 - e cos E.
    np.testing.assert_allclose(np.hypot(*place.T), 1 - 0.6 * np.cos(angle), 1e-4)
    ones = np.ones(20, np.float32)
    pushed = model.jvp(["mean_anomaly"])
    by_name = dict(zip(pushed.output_names(), pushed.run(inputs | {"tangent_mean_anomaly": ones}), strict=True))
    np.testing.assert_allclose(by_name["tangent_angle"], 1 / (1 - 0.6 * np.cos(angle)), 1e-3)


def test_the_hamiltonian_network_keeps_its_energy_and_learns_that_of_a_spring(rng: np.random.Generator) -> None:
    # A weight on a spring: H = (q² + p²) / 2, so that q moves by p and p by -q.
    q, p = rng.normal(size=(2, 128, 1)).astype(np.float32)
    trainer = MODELS["hamiltonian_network"].load(hidden=32).trainer(rlx.optim.Adam(1e-2))
    losses = [trainer.step(q=q, p=p, dq=p, dp=-q) for _ in range(400)]
    assert losses[-1] < losses[0] / 30
    model = trainer.func()
    _, energy, dq, dp = model.run(q=q, p=p, dq=p, dp=-q)
    assert np.corrcoef(energy[:, 0], (q**2 + p**2)[:, 0] / 2)[0, 1] > 0.99
    step = np.float32(1e-2)
    ahead, behind = (model.run(q=q + s * dq, p=p + s * dp, dq=p, dp=-q)[1] for s in (step, -step))
    across = model.run(q=q + step * dp, p=p - step * dq, dq=p, dp=-q)[1]
    assert np.abs(ahead - behind).max() < 0.05 * np.abs(across - energy).max()


def test_the_neural_equation_is_solved_as_scipy_solves_it(rng: np.random.Generator) -> None:
    model = MODELS["neural_ode"].load(substeps=4)
    p = {n: 3 * a.astype(np.float64) for n, a in model.bindings.items()}
    model = model.with_params({n: a.astype(np.float32) for n, a in p.items()})
    start = rng.normal(size=(2, 2)).astype(np.float32)
    _, path = model.run(start=start, seen=np.zeros((5, 2, 2), np.float32))

    def speed(_: float, x: Array) -> Array:
        return (np.tanh(x.reshape(2, 2) @ p["w1"] + p["b1"]) @ p["w2"]).ravel()

    times = 0.1 * np.arange(1, 6)
    found = solve_ivp(speed, (0, 0.5), start.ravel(), t_eval=times, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(path, found.y.T.reshape(5, 2, 2), 1e-4, 1e-5)


def test_the_neural_equation_learns_to_turn() -> None:
    times = 0.1 * np.arange(1, 11)
    start = np.float32([[1, 0], [0, 1]])
    turn = np.stack([np.cos(times), np.sin(times), -np.sin(times), np.cos(times)], -1).reshape(10, 2, 2)
    seen = (start @ turn).astype(np.float32)
    trainer = MODELS["neural_ode"].load().trainer(rlx.optim.Adam(2e-2))
    losses = [trainer.step(start=start, seen=seen) for _ in range(150)]
    assert losses[-1] < losses[0] / 100
