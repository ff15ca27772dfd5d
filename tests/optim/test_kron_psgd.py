"""PSGD with Kronecker factors against its equations, written once more in the plainest way."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from rlxlang.diagnostics import RlxValueError
from rlxlang.ops.threefry import PROBES, fold_number, random_words
from rlxlang.optim import KronPsgd

Array = np.ndarray
LR, STEPS, SEED = 0.01, 50, 5


def signs(t: int, shape: tuple[int, ...]) -> Array:
    key = fold_number((SEED, 0), t, PROBES)
    count = int(np.prod(shape, dtype=int))
    words = random_words((np.uint32(key[0]), np.uint32(key[1])), (np.arange(count, dtype=np.uint32), zlib.crc32(b"w")))
    return np.where(words[0] % 2 == 1, -1.0, 1.0).reshape(shape)


def norm_bound(s: Array) -> float:
    """Of Li's implementation, for symmetric matrices."""
    column = s[:, np.argmax((s**2).sum(0))]
    x = s @ column
    return float(np.linalg.norm(s @ (x / np.linalg.norm(x))))


def psgd(w: Array, grads: list[Array]) -> Iterator[Array]:
    """Both factors triangular."""
    ql, qr, v = np.eye(w.shape[0]), np.eye(w.shape[1]), np.zeros_like(w)
    for t, g in enumerate(grads, 1):
        if t == 1:
            scale = np.sqrt((g**2).mean()) ** -0.25
            ql, qr = scale * ql, scale * qr
        rho = np.sqrt(np.abs(ql).max() / np.abs(qr).max())
        ql, qr = ql / rho, rho * qr
        u = signs(t, w.shape)
        h = g + 1e-8 * u
        a = ql @ h @ qr.T
        b = solve_triangular(ql.T, u, lower=True) @ np.linalg.inv(qr)
        left, right = a @ a.T + b @ b.T, a.T @ a + b.T @ b
        ql = ql - 0.1 / norm_bound(left) * np.triu(a @ a.T - b @ b.T) @ ql
        qr = qr - 0.1 / norm_bound(right) * np.triu(a.T @ a - b.T @ b) @ qr
        v = 0.9 * v + 0.1 * g
        move = ql.T @ ql @ (v / (1 - 0.9**t)) @ qr.T @ qr
        move = move / max(1.0, np.sqrt((move**2).mean()))
        w = w - LR * (move + 0.05 * w)
        yield w


def psgd_diagonal(w: Array, grads: list[Array]) -> Iterator[Array]:
    """A vector, or a matrix whose columns are too many for a triangular factor."""
    matrix = w.reshape(-1, 1) if w.ndim < 2 else w
    q = [np.eye(len(matrix)) if w.ndim == 2 else np.ones(len(matrix)), np.ones(matrix.shape[1])]
    v = np.zeros_like(matrix)
    for t, grad in enumerate(grads, 1):
        g = grad.reshape(matrix.shape)
        if t == 1:
            scale = np.sqrt((g**2).mean()) ** (-0.25 if w.ndim == 2 else -0.5)
            q = [scale * q[0], q[1] * (scale if w.ndim == 2 else 1.0)]
        if w.ndim == 2:
            rho = np.sqrt(np.abs(q[0]).max() / np.abs(q[1]).max())
            q = [q[0] / rho, rho * q[1]]
        u = signs(t, matrix.shape)
        h = g + 1e-8 * u
        left = q[0] if w.ndim == 2 else np.diag(q[0])
        a, b = left @ h @ np.diag(q[1]), np.linalg.inv(left).T @ u @ np.diag(1 / q[1])
        if w.ndim == 2:
            s = a @ a.T + b @ b.T
            q[0] = q[0] - 0.1 / norm_bound(s) * np.triu(a @ a.T - b @ b.T) @ q[0]
            first, second = (a**2).sum(0), (b**2).sum(0)
            q[1] = q[1] - 0.1 / (first + second).max() * (first - second) * q[1]
            left = q[0]
        else:
            first, second = (a**2).sum(1), (b**2).sum(1)
            q[0] = q[0] - 0.1 / (first + second).max() * (first - second) * q[0]
            left = np.diag(q[0])
        v = 0.9 * v + 0.1 * g
        move = left.T @ left @ (v / (1 - 0.9**t)) @ np.diag(q[1] ** 2)
        move = move / max(1.0, np.sqrt((move**2).mean()))
        matrix = matrix - LR * (move + 0.05 * matrix)
        yield matrix.reshape(w.shape)


@pytest.mark.parametrize(
    ("formula", "shape", "largest"),
    [(psgd, (3, 4), 4), (psgd_diagonal, (3, 4), 3), (psgd_diagonal, (5,), 5), (psgd_diagonal, (), 5)],
)
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_fifty_steps(
    formula: object, shape: tuple[int, ...], largest: int, scale: float, rng: np.random.Generator
) -> None:
    mix = rng.normal(size=(*shape[:1], *shape[:1])) if shape else 2.0
    w = np.asarray(rng.normal(size=shape))
    grads = [scale * np.asarray(np.dot(mix, rng.normal(size=shape))) for _ in range(STEPS)]
    opt, own = KronPsgd(LR, weight_decay=0.05, max_size=largest, seed=SEED), w.copy()
    for g, expected in zip(grads, formula(w, grads), strict=True):  # type: ignore[operator]
        opt.step("w", shape, own, g)
        np.testing.assert_allclose(own, expected, rtol=1e-8, atol=1e-10)


def test_the_preconditioned_gradient_becomes_white(rng: np.random.Generator) -> None:
    left, right = rng.normal(size=(3, 3)) + 2 * np.eye(3), np.diag([0.1, 1.0, 5.0, 2.0])
    opt, w = KronPsgd(0.0, precond_lr=0.05), np.zeros((3, 4))
    for _ in range(800):
        opt.step("w", (3, 4), w, left @ rng.normal(size=(3, 4)) @ right)
    buffers = opt.state_dict()["buffers"]
    ql, qr = buffers["ql/w"], buffers["qr/w"]
    assert np.all(np.tril(ql, -1) == 0)
    assert np.all(np.tril(qr, -1) == 0)
    draws = np.stack([left @ rng.normal(size=(3, 4)) @ right for _ in range(5000)])
    white = (ql.T @ ql @ draws @ qr.T @ qr).reshape(-1, 12)
    before, after = (np.linalg.cond(np.cov(x.reshape(-1, 12).T)) for x in (draws, white))
    assert before > 5000
    assert after < 15


def test_signs_are_told_by_seed_and_name() -> None:
    def moved(name: str, seed: int) -> Array:
        opt, w = KronPsgd(0.1, seed=seed), np.zeros((3, 4))
        for k in range(3):
            opt.step(name, (3, 4), w, np.cos(np.arange(12.0).reshape(3, 4) + k))
        return w

    first = moved("a", 0)
    assert first.tobytes() == moved("a", 0).tobytes()
    assert np.abs(first - moved("b", 0)).max() > 1e-3
    assert np.abs(first - moved("a", 2**40)).max() > 1e-3


@pytest.mark.parametrize("options", [{"precond_lr": 1.0}, {"momentum": -0.1}, {"clip": -1.0}, {"max_size": 0}])
def test_settings_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(RlxValueError, match=next(iter(options))):
        KronPsgd(**options)  # type: ignore[arg-type]
