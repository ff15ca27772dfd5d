"""Descent preconditioned by Kronecker factors that learn to whiten the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_count, require_fraction, require_not_negative
from rlxlang.optim.probes import key_scalars, random_signs
from rlxlang.optim.settings import Momentum

Array: TypeAlias = "np.ndarray[Any, Any]"

_LEAST = 1e-30


class KronPsgd(Algorithm):
    """PSGD with a preconditioner `P = (qlᵀ·ql) ⊗ (qrᵀ·qr)`, whose triangular factors are learnt along with the parameters.

    P minimises the whitening criterion `E[gᵀPg + uᵀP⁻¹u]`, u with independent entries -1 and 1, so that the preconditioned
    gradient has a covariance near one. Each step, with `h = g + εu`, `A = ql·h·qrᵀ` and `B = ql⁻ᵀ·u·qr⁻¹`:
    `ql -= η·triu(A·Aᵀ - B·Bᵀ)·ql / ‖A·Aᵀ + B·Bᵀ‖`, likewise `qr` with `Aᵀ·A` and `Bᵀ·B`; the norm is a lower bound of the
    spectral norm, one power step from the greatest column. Then `v = μ·v + (1 - μ)·g`, and
    `θ -= lr·(P·v/(1 - μᵗ) + λθ)`, where `P·v` is scaled to an RMS of at most `clip`. Before each step both factors are
    brought to one greatest magnitude; the first step scales them by the magnitude of the gradient.

    Kernels of convolutions are seen as matrices of their first axis. Vectors and scalars have a diagonal factor `ql` alone.
    Axes of more than `max_size` entries have a diagonal factor; there the sums of squares take the place of the products,
    and the greatest entry that of the norm. All random signs are told by `seed`, the step and the name of the parameter.

    Args:
        lr: Learning rate.
        precond_lr: η, in [0, 1).
        momentum: μ in [0, 1).
        clip: Greatest RMS of the preconditioned gradient of a tensor; 0 clips nothing.
        weight_decay: λ, decoupled.
        eps: ε, not negative; the eigenvalues of P settle below 1/ε.
        max_size: Greatest axis with a triangular factor.
        seed: Of the random signs.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Li 2015, "Preconditioned stochastic gradient descent", arXiv:1512.04202; Li 2018, "Preconditioner on matrix Lie group for SGD",
        arXiv:1809.10232; Pooladzandi and Li 2024, "Curvature-informed SGD via general purpose Lie-group preconditioners",
        arXiv:2402.04553.
    """

    algorithm = "KronPsgd"
    momentum = Momentum(is_optional=False)

    def __init__(
        self,
        lr: float = 1e-3,
        precond_lr: float = 0.1,
        momentum: float = 0.9,
        clip: float = 1.0,
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        max_size: int = 2048,
        seed: int = 0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        require_fraction(self.algorithm, precond_lr=precond_lr)
        require_not_negative(self.algorithm, clip=clip, eps=eps)
        require_count(self.algorithm, max_size=max_size)
        self.precond_lr, self.momentum, self.clip = float(precond_lr), momentum, float(clip)
        self.eps, self.max_size, self.seed = float(eps), int(max_size), int(seed)

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """The momentum `v` and the factors `ql` and, of matrices, `qr`."""
        if not math.prod(shape):
            return {"v": shape}
        if len(shape) < 2:
            return {"ql": shape, "v": shape}
        return {"ql": self._factor(shape[0]), "qr": self._factor(math.prod(shape[1:])), "v": shape}

    def _factor(self, size: int) -> tuple[int, ...]:
        return (size, size) if size <= self.max_size else (size,)

    def shapes_from(self, slots: Mapping[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shape of the momentum."""
        return [slots["v"]] if "v" in slots else []

    def fresh(self, slot: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Factors start as identities."""
        array = super().fresh(slot, shape, dtype)
        if slot != "v":
            array[...] = np.eye(shape[0], dtype=dtype) if len(shape) == 2 else 1
        return array

    def hyper(self, t: int) -> dict[str, float]:
        """Whether the step is the first, the momentum and its correction, and the key of the random signs."""
        momentum = {"momentum": self.momentum, "rest": 1.0 - self.momentum, "unbias": 1.0 / (1.0 - self.momentum**t)}
        return {"first": float(t == 1), **momentum, **key_scalars(self.seed, t)}

    def probes(self, x: Arithmetic, name: str, param: Value, hyper: Mapping[str, Value]) -> dict[str, Value]:
        """The random signs."""
        return {"signs": random_signs(x, name, param, hyper)}

    def update(
        self,
        x: Arithmetic,
        param: Value,
        grad: Value,
        slots: Mapping[str, Value],
        hyper: Mapping[str, Value],
        weight_decay: float,
    ) -> tuple[Value, dict[str, Value]]:
        """See the class."""
        shape, size = tuple(param.shape), math.prod(param.shape)
        v = hyper["momentum"] * slots["v"] + hyper["rest"] * grad
        if not size:
            return param, {"v": v}
        flat = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (size, 1)
        factors = self._scaled(x, {s: slots[s] for s in ("ql", "qr") if s in slots}, grad, size, hyper)
        noisy, signs = x.reshape(grad + self.eps * slots["signs"], flat), x.reshape(slots["signs"], flat)
        factors = self._learnt(x, factors, noisy, signs)
        move = x.reshape(_preconditioned(x, factors, x.reshape(v * hyper["unbias"], flat)), shape)
        if self.clip:
            move = move / x.maximum(x.sqrt(x.sum(move * move) / float(size)) / self.clip, 1.0)
        if weight_decay:
            move = move + weight_decay * param
        kept = {slot: x.reshape(q, slots[slot].shape) for slot, q in factors.items()}
        return param - hyper["lr"] * move, {**kept, "v": v}

    def _scaled(
        self, x: Arithmetic, factors: Mapping[str, Value], grad: Value, size: int, hyper: Mapping[str, Value]
    ) -> dict[str, Value]:
        """Factors of one greatest magnitude; in the first step such that P whitens the mean square of the gradient."""
        magnitude = x.sqrt(x.sum(grad * grad) / float(size))
        root = x.sqrt(x.sqrt(magnitude)) if len(factors) == 2 else x.sqrt(magnitude)
        begin = x.where_positive(hyper["first"] * magnitude, 1.0 / root, 1.0)
        # A factor of a vector or scalar is a column, too.
        scaled = {
            s: begin * (q if len(q.shape) == 2 else x.reshape(q, (math.prod(q.shape),))) for s, q in factors.items()
        }
        if len(scaled) == 2:
            ratio = x.sqrt(x.max(x.abs(scaled["ql"])) / x.max(x.abs(scaled["qr"])))
            scaled = {"ql": scaled["ql"] / ratio, "qr": scaled["qr"] * ratio}
        return scaled

    def _learnt(self, x: Arithmetic, factors: Mapping[str, Value], h: Value, signs: Value) -> dict[str, Value]:
        """The factors after a step down the criterion."""
        left, right = factors["ql"], factors.get("qr")
        a, b = _applied(x, left, h), _unapplied(x, left, signs)
        if right is None:
            return {"ql": self._step(x, left, a, b)}
        a, b = _applied(x, right, x.transpose(a)), _unapplied(x, right, x.transpose(b))
        return {
            "ql": self._step(x, left, x.transpose(a), x.transpose(b)),
            "qr": self._step(x, right, a, b),
        }

    def _step(self, x: Arithmetic, factor: Value, a: Value, b: Value) -> Value:
        if len(factor.shape) == 1:
            first, second = (x.reshape(x.sum(m * m, (1,)), factor.shape) for m in (a, b))
            rate = self.precond_lr / x.maximum(x.max(first + second), _LEAST)
            return factor - (rate * (first - second)) * factor
        first, second = (x.matmul(m, x.transpose(m)) for m in (a, b))
        rate = self.precond_lr / x.maximum(_norm_from_below(x, first + second), _LEAST)
        return factor - x.matmul(rate * x.upper(first - second), factor)


def _applied(x: Arithmetic, factor: Value, m: Value) -> Value:
    """`q·m`."""
    return x.matmul(factor, m) if len(factor.shape) == 2 else x.reshape(factor, (factor.shape[0], 1)) * m


def _unapplied(x: Arithmetic, factor: Value, m: Value) -> Value:
    """`q⁻ᵀ·m`."""
    return x.solve_transposed(factor, m) if len(factor.shape) == 2 else m / x.reshape(factor, (factor.shape[0], 1))


def _whitened(x: Arithmetic, factor: Value, m: Value) -> Value:
    """`qᵀ·q·m`."""
    moved = _applied(x, factor, m)
    return _applied(x, x.transpose(factor) if len(factor.shape) == 2 else factor, moved)


def _preconditioned(x: Arithmetic, factors: Mapping[str, Value], m: Value) -> Value:
    moved = _whitened(x, factors["ql"], m)
    return x.transpose(_whitened(x, factors["qr"], x.transpose(moved))) if "qr" in factors else moved


def _norm_from_below(x: Arithmetic, s: Value) -> Value:
    """A lower bound of the spectral norm of a symmetric matrix that is not zero: one power step from its greatest column."""
    top = x.maximum(x.max(x.abs(s)), _LEAST)
    unit = s / top
    lengths = x.reshape(x.sum(unit * unit, (0,)), (s.shape[1],))
    column = x.matmul(unit, x.take(unit, x.greatest(lengths), 1))
    column = column / x.maximum(x.sqrt(x.sum(column * column)), _LEAST)
    moved = x.matmul(unit, column)
    return top * x.sqrt(x.sum(moved * moved))
