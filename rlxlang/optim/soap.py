"""Adam in the eigenbasis of Shampoo's factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_count, require_not_negative
from rlxlang.optim.settings import Betas, beta_scalars


class Soap(Algorithm):
    """Matrices are updated by Adam in the eigenbasis of the averages of `g·gᵀ` and `gᵀ·g`, all others by AdamW.

    `l = β2·l + (1 - β2)·g·gᵀ`, `r` likewise of `gᵀ·g`; in their eigenbases `ql`, `qr` the gradient is `h = qlᵀ·g·qr`, and
    `m = β1·m + (1 - β1)·h; v = β2·v + (1 - β2)·h²; θ -= lr·(√(1 - β2ᵗ)/(1 - β1ᵗ)·ql·(m/(√v + ε))·qrᵀ + λθ)`. Every `every` steps the bases
    are improved by one power step and QR; `m` is projected on the new basis, `v` is put into its order. The first step only makes
    the bases and moves nothing. Kernels of convolutions are seen as matrices of their first axis.

    Args:
        lr: Learning rate.
        betas: β1 and β2, in [0, 1).
        eps: ε, not negative.
        weight_decay: λ, decoupled.
        every: Steps between improvements of the bases, 1 or more.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Vyas et al. 2024, "SOAP: Improving and Stabilizing Shampoo using Adam", arXiv:2409.11321, algorithms 3 and 4.
    """

    algorithm = "Soap"
    betas = Betas()

    def __init__(
        self,
        lr: float = 3e-3,
        betas: Sequence[float] = (0.95, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        every: int = 10,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        require_not_negative(self.algorithm, eps=eps)
        require_count(self.algorithm, every=every)
        self.betas = betas
        self.eps, self.every = float(eps), int(every)

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m` and `v`; of matrices also the factors `l`, `r` and their bases `ql`, `qr`."""
        moments = {"m": shape, "v": shape}
        if len(shape) < 2 or not math.prod(shape):
            return moments
        rows, columns = shape[0], math.prod(shape[1:])
        left, right = (rows, rows), (columns, columns)
        return {"l": left, "r": right, "ql": left, "qr": right, **moments}

    def shapes_from(self, slots: Mapping[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shape of the moments."""
        return [slots["m"]] if "m" in slots else []

    def hyper(self, t: int) -> dict[str, float]:
        """The decays, whether the step is the first, whether it improves the bases, and the corrections of both moments.

        Matrices count from their second step, as the first only makes the bases.
        """
        beta1, beta2 = self.betas
        late = max(t - 1, 1)
        return {
            **beta_scalars(self.betas),
            "first": float(t == 1),
            "refresh": float(t > 1 and (t - 1) % self.every == 0),
            "unbias": math.sqrt(1.0 - beta2**late) / (1.0 - beta1**late),
            "unbias1": 1.0 / (1.0 - beta1**t),
            "unbias2": 1.0 / (1.0 - beta2**t),
        }

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
        if "l" not in slots:
            return self._adamw(x, param, grad, slots, hyper, weight_decay)
        shape = tuple(param.shape)
        flat = (shape[0], math.prod(shape[1:]))
        g = x.reshape(grad, flat)
        left = hyper["beta2"] * slots["l"] + hyper["rest2"] * x.matmul(g, x.transpose(g))
        right = hyper["beta2"] * slots["r"] + hyper["rest2"] * x.matmul(x.transpose(g), g)
        values = [
            x.reshape(param, flat), g, left, right, slots["ql"], slots["qr"],
            x.reshape(slots["m"], flat), x.reshape(slots["v"], flat),
            hyper["lr"], hyper["unbias"], hyper["refresh"], *(hyper[k] for k in ("beta1", "rest1", "beta2", "rest2")),
        ]  # fmt: skip

        def begin(theta: Value, g: Value, left: Value, right: Value, ql: Value, qr: Value, *rest: Value) -> Any:
            return theta, x.eigenvectors(left), x.eigenvectors(right), *rest[:2]

        def move(
            theta: Value, g: Value, left: Value, right: Value, ql: Value, qr: Value, m: Value, v: Value,
            lr: Value, unbias: Value, refresh: Value, beta1: Value, rest1: Value, beta2: Value, rest2: Value,
        ) -> Any:  # fmt: skip
            h = x.matmul(x.matmul(x.transpose(ql), g), qr)
            m = beta1 * m + rest1 * h
            v = beta2 * v + rest2 * (h * h)
            direction = x.matmul(x.matmul(ql, m / (x.sqrt(v) + self.eps)), x.transpose(qr))
            change = unbias * direction
            theta = theta - lr * (change + weight_decay * theta if weight_decay else change)
            return (theta, *x.choose(refresh, _improved(x), lambda *same: same[2:], [left, right, ql, qr, m, v]))

        new, ql, qr, m, v = x.choose(hyper["first"], begin, move, values)
        changed = {"l": left, "r": right, "ql": ql, "qr": qr, "m": x.reshape(m, shape), "v": x.reshape(v, shape)}
        return x.reshape(new, shape), changed

    def _adamw(
        self,
        x: Arithmetic,
        param: Value,
        grad: Value,
        slots: Mapping[str, Value],
        hyper: Mapping[str, Value],
        weight_decay: float,
    ) -> tuple[Value, dict[str, Value]]:
        m = hyper["beta1"] * slots["m"] + hyper["rest1"] * grad
        v = hyper["beta2"] * slots["v"] + hyper["rest2"] * (grad * grad)
        move = (m * hyper["unbias1"]) / (x.sqrt(v * hyper["unbias2"]) + self.eps)
        if weight_decay:
            move = move + weight_decay * param
        return param - hyper["lr"] * move, {"m": m, "v": v}


def _improved(x: Arithmetic) -> Any:
    """The bases after a power step, and the moments in them."""

    def improve(left: Value, right: Value, ql: Value, qr: Value, m: Value, v: Value) -> tuple[Value, ...]:
        raw = x.matmul(x.matmul(ql, m), x.transpose(qr))
        new_left, rows = _power_step(x, left, ql)
        new_right, columns = _power_step(x, right, qr)
        v = x.take(x.take(v, rows, 0), columns, 1)
        return new_left, new_right, x.matmul(x.matmul(x.transpose(new_left), raw), new_right), v

    return improve


def _power_step(x: Arithmetic, factor: Value, basis: Value) -> tuple[Value, Value]:
    """A basis nearer to the eigenvectors, in the order of the present estimates of the eigenvalues, and that order."""
    reached = x.matmul(factor, basis)
    estimates = x.reshape(x.sum(basis * reached, (0,)), (basis.shape[1],))
    order = x.descending(estimates)
    return x.orthonormal(x.take(reached, order, 1)), order
