"""Rectified Adam."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments
from rlxlang.optim.settings import beta_scalars

_FEWEST_SAMPLES = 5.0


class RAdam(Moments):
    """Adam whose adaptive rate waits until the variance of its square average is bounded; before, `θ −= lr·m̂`.

    With `ρ∞ = 2/(1−β2) − 1` and `ρt = ρ∞ − 2tβ2^t/(1−β2^t)`: for `ρt > 5` the move is `r·m̂·√(1−β2^t)/(√v + ε)`,
    `r² = (ρt−4)(ρt−2)ρ∞ / ((ρ∞−4)(ρ∞−2)ρt)`.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        eps: ε, not negative.
        weight_decay: λ, coupled: it is part of the gradient.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Liu et al. 2020, "On the variance of the adaptive learning rate and beyond".
    """

    algorithm = "RAdam"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, groups=groups, state_dtype=state_dtype)

    def hyper(self, t: int) -> dict[str, float]:
        """`adaptive`: the factor of the adaptive move, 0 while it is not used."""
        beta1, beta2 = self.betas
        limit = 2.0 / (1.0 - beta2) - 1.0
        length = limit - 2.0 * t * beta2**t / (1.0 - beta2**t)
        adaptive = 0.0
        if length > _FEWEST_SAMPLES:
            squared = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            adaptive = math.sqrt(squared * (1.0 - beta2**t))
        return {**beta_scalars(self.betas), "unbias1": 1.0 / (1.0 - beta1**t), "adaptive": adaptive}

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
        if weight_decay:
            grad = grad + weight_decay * param
        return super().update(x, param, grad, slots, hyper, 0.0)

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        unbiased = m * hyper["unbias1"]
        return x.where_positive(hyper["adaptive"], unbiased * hyper["adaptive"] / (x.sqrt(v) + self.eps), unbiased)
