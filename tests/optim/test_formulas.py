"""Every algorithm against its published formula, written once more in float64 and in the plainest way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rlxlang.diagnostics import RlxShapeError, RlxValueError
from rlxlang.optim import (
    Adafactor,
    Adam,
    Algorithm,
    KronPsgd,
    Lamb,
    Lion,
    Mars,
    Muon,
    NAdamW,
    QHAdamW,
    RAdam,
    Soap,
    Stiefel,
    newton_schulz_orth,
)

Array = np.ndarray
LR, STEPS = 0.01, 50


def adam(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        g = g + 0.1 * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - LR * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        yield w


def nadamw(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        ahead = 0.9 * m / (1 - 0.9 ** (t + 1)) + 0.1 * g / (1 - 0.9**t)
        w = w - LR * (ahead / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.01 * w)
        yield w


def radam(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    limit = 2 / (1 - 0.9) - 1
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g**2
        unbiased = m / (1 - 0.9**t)
        length = limit - 2 * t * 0.9**t / (1 - 0.9**t)
        if length > 5:
            r = math.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            w = w - LR * r * unbiased * math.sqrt(1 - 0.9**t) / (np.sqrt(v) + 1e-8)
        else:
            w = w - LR * unbiased
        yield w


def qhadamw(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        m, v = 0.995 * m + 0.005 * g, 0.999 * v + 0.001 * g**2
        first = 0.3 * g + 0.7 * m / (1 - 0.995**t)
        second = 0.2 * g**2 + 0.8 * v / (1 - 0.999**t)
        w = w - LR * (first / (np.sqrt(second) + 1e-8) + 0.01 * w)
        yield w


def lamb(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        u = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.01 * w
        w = w - LR * np.linalg.norm(w) / np.linalg.norm(u) * u
        yield w


def lion(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = np.zeros_like(w)
    for g in grads:
        w = w - LR * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w)
        m = 0.99 * m + 0.01 * g
        yield w


def mars(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = v = 0.0
    before = None
    for t, g in enumerate(grads, 1):
        c = g
        if before is not None:
            c = g + 0.025 * 0.95 / 0.05 * (g - before)
            c = c / max(1.0, float(np.linalg.norm(c)))
        before = g
        m, v = 0.95 * m + 0.05 * c, 0.99 * v + 0.01 * c**2
        w = w - LR * ((m / (1 - 0.95**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.1 * w)
        yield w


def adafactor(w: Array, grads: list[Array]) -> Iterator[Array]:
    r = c = 0.0
    for t, g in enumerate(grads, 1):
        beta = 1 - t**-0.8
        s = g**2 + 1e-30
        r, c = beta * r + (1 - beta) * s.mean(1), beta * c + (1 - beta) * s.mean(0)
        u = g / np.sqrt(np.outer(r, c) / r.mean())
        u = u / max(1.0, math.sqrt((u**2).mean()))
        w = w - min(1 / math.sqrt(t), 1e-2) * max(1e-3, math.sqrt((w**2).mean())) * u
        yield w


def muon(w: Array, grads: list[Array]) -> Iterator[Array]:
    m = np.zeros_like(w)
    for g in grads:
        m = 0.95 * m + g
        x = (g + 0.95 * m).T  # 4 rows, 3 columns: the shorter side first
        x = x.T if x.shape[0] > x.shape[1] else x
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        w = w - LR * (0.2 * 2.0 * x.reshape(w.shape) + 0.1 * w)
        yield w


def soap(w: Array, grads: list[Array]) -> Iterator[Array]:
    """Transcribed from the algorithm of the paper, with bases improved every second step."""
    left, right = np.zeros((3, 3)), np.zeros((4, 4))
    m, v = np.zeros_like(w), np.zeros_like(w)
    ql = qr = np.zeros(0)

    def improved(factor: Array, basis: Array) -> tuple[Array, Array]:
        order = np.argsort(-np.diag(basis.T @ factor @ basis))
        q, r = np.linalg.qr(factor @ basis[:, order])
        return q * np.where(np.diag(r) < 0, -1, 1), order

    for t, g in enumerate(grads):
        left, right = 0.95 * left + 0.05 * g @ g.T, 0.95 * right + 0.05 * g.T @ g
        if t == 0:
            ql, qr = np.linalg.eigh(left)[1][:, ::-1], np.linalg.eigh(right)[1][:, ::-1]
            yield w
            continue
        h = ql.T @ g @ qr
        m, v = 0.95 * m + 0.05 * h, 0.95 * v + 0.05 * h**2
        rate = LR * math.sqrt(1 - 0.95**t) / (1 - 0.95**t)
        w = w - rate * ql @ (m / (np.sqrt(v) + 1e-8)) @ qr.T - LR * 0.01 * w
        if t % 2 == 0:
            raw = ql @ m @ qr.T
            ql, rows = improved(left, ql)
            qr, columns = improved(right, qr)
            m, v = ql.T @ raw @ qr, v[rows][:, columns]
        yield w


def stiefel(w: Array, grads: list[Array]) -> Iterator[Array]:
    """On columns, as textbooks have it."""
    x, v = w.T, np.zeros_like(w.T)

    def tangent(z: Array) -> Array:
        inner = x.T @ z
        return z - x @ (inner + inner.T) / 2

    for g in grads:
        v = 0.9 * tangent(v) + tangent(g.T)
        q, r = np.linalg.qr(x - LR * v)
        x = q * np.sign(np.diag(r))
        yield x.T


CASES: list[tuple[Callable[[Array, list[Array]], Iterator[Array]], Callable[[], Algorithm]]] = [
    (adam, lambda: Adam(LR, weight_decay=0.1)),
    (nadamw, lambda: NAdamW(LR)),
    (radam, lambda: RAdam(LR, betas=(0.9, 0.9))),
    (qhadamw, lambda: QHAdamW(LR, nus=(0.7, 0.8))),
    (lamb, lambda: Lamb(LR)),
    (lion, lambda: Lion(LR, weight_decay=0.1)),
    (mars, lambda: Mars(LR, weight_decay=0.1)),
    (adafactor, lambda: Adafactor()),
    (muon, lambda: Muon(LR, weight_decay=0.1)),
    (soap, lambda: Soap(LR, every=2)),
    (stiefel, lambda: Stiefel(LR, momentum=0.9)),
]


@pytest.mark.parametrize(("formula", "make"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_formula(formula: Any, make: Any, rng: np.random.Generator) -> None:
    w, grads = rng.normal(size=(3, 4)), [rng.normal(size=(3, 4)) for _ in range(STEPS)]
    opt, own = make(), w.copy()
    for g, expected in zip(grads, formula(w, grads), strict=True):
        opt.step("w", (3, 4), own, g)
        opt.end_iteration()
        np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [KronPsgd, *(m for _, m in CASES)], ids=["psgd", *(f.__name__ for f, _ in CASES)])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (4, 3), (2, 3, 2, 2), (0, 3)])
def test_every_shape_takes_steps(make: Any, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    opt, w = make(), np.asarray(rng.normal(size=shape), np.float32)
    w = np.array(w)
    before = w.copy()
    for _ in range(3):
        opt.step("w", shape, w, np.asarray(rng.normal(size=shape), np.float32))
    assert np.all(np.isfinite(w))
    assert w.size == 0 or np.any(w != before)
    assert make().load_state_dict(opt.state_dict())


@pytest.mark.parametrize("make", [KronPsgd, *(m for _, m in CASES)], ids=["psgd", *(f.__name__ for f, _ in CASES)])
def test_zero_parameters_and_gradients_stay_finite(make: Any) -> None:
    opt, w = make(), np.zeros((3, 4), np.float32)
    opt.step("w", (3, 4), w, np.zeros((3, 4), np.float32))
    assert np.all(np.isfinite(w))


def test_adafactor_with_a_rate_is_not_relative() -> None:
    absolute, relative = np.full((2, 2), 100.0), np.full((2, 2), 100.0)
    Adafactor(0.5).step("w", (2, 2), absolute, np.ones((2, 2)))
    Adafactor().step("w", (2, 2), relative, np.ones((2, 2)))
    np.testing.assert_allclose(absolute, 99.5)
    np.testing.assert_allclose(relative, 99.0)
    opt = Adafactor()
    opt.set_lr(0.5)
    opt.step("w", (2, 2), relative, np.ones((2, 2)))
    np.testing.assert_allclose(relative, 98.5)


def test_muon_leaves_vectors_and_named_matrices_to_adamw(rng: np.random.Generator) -> None:
    opt = Muon(adamw=["embed*"])
    for name, shape in {"w": (3, 4), "embed.w": (3, 4), "b": (4,)}.items():
        opt.step(name, shape, rng.normal(size=shape), rng.normal(size=shape))
    assert list(opt.state_dict()["buffers"]) == ["m/b", "m/embed.w", "m/w", "v/b", "v/embed.w"]


def test_a_schedule_scales_both_rates_of_muon() -> None:
    opt, b = Muon(0.02, adamw_lr=0.1), np.zeros(1)
    opt.set_lr(0.01)
    opt.step("b", (1,), b, np.ones(1))
    np.testing.assert_allclose(b, -0.05, rtol=1e-6)


def test_newton_schulz(rng: np.random.Generator) -> None:
    for shape in ((6, 4), (4, 6)):
        matrix = rng.normal(size=shape)
        u, _, vt = np.linalg.svd(matrix, full_matrices=False)
        found = newton_schulz_orth(matrix, steps=10)
        inner = u.T @ found @ vt.T
        assert np.all(np.abs(np.diagonal(inner) - 1) < 0.4)
        assert np.abs(inner - np.diag(np.diagonal(inner))).max() < 1e-6
    with pytest.raises(RlxShapeError):
        newton_schulz_orth(np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: QHAdamW(nus=(0.5, 1.5)),
        lambda: Adafactor(clip=0.0),
        lambda: Adafactor(decay=0.5),
        lambda: Muon(scale="other"),
        lambda: Muon(momentum=1.0),
        lambda: Mars(gamma=-1.0),
        lambda: Lion(betas=(0.9, 1.0)),
        lambda: Soap(every=0),
        lambda: Stiefel(momentum=1.0),
    ],
)
def test_settings_are_checked(make: Callable[[], object]) -> None:
    with pytest.raises(RlxValueError):
        make()


def test_stiefel_keeps_rows_orthonormal_and_finds_the_largest_eigenvectors(rng: np.random.Generator) -> None:
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = basis @ np.diag([9.0, 7, 1, 0.5, 0.3, 0.1]) @ basis.T
    w, opt = rng.normal(size=(2, 6)), Stiefel(0.05)
    for _ in range(300):
        opt.step("w", (2, 6), w, -2 * w @ matrix)
        np.testing.assert_allclose(w @ w.T, np.eye(2), atol=1e-12)
    assert np.trace(w @ matrix @ w.T) == pytest.approx(16, rel=1e-6)
