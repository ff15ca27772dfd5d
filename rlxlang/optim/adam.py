"""Adam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments


class Adam(Moments):
    """Moving averages of gradient and square, `θ −= lr·m̂ / (√v̂ + ε)`.

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
        Kingma and Ba 2015, "Adam: a method for stochastic optimization".
    """

    algorithm = "Adam"

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
        return self.normalised(x, m, v, hyper)
