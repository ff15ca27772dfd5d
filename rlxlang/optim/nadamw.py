"""Adam with Nesterov's momentum and decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments
from rlxlang.optim.settings import beta_scalars


class NAdamW(Moments):
    """AdamW that looks one step ahead: `m̄ = β1·m/(1−β1^(t+1)) + (1−β1)·g/(1−β1^t)` instead of `m̂`.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        eps: ε, not negative.
        weight_decay: λ, decoupled: it acts on parameters whose gradient is zero, too.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Dozat 2016, "Incorporating Nesterov momentum into Adam".
    """

    algorithm = "NAdamW"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, groups=groups, state_dtype=state_dtype)

    def hyper(self, t: int) -> dict[str, float]:
        """The decays, and the weights of momentum and gradient in the look-ahead."""
        beta1, beta2 = self.betas
        return {
            **beta_scalars(self.betas),
            "ahead": beta1 / (1.0 - beta1 ** (t + 1)),
            "now": (1.0 - beta1) / (1.0 - beta1**t),
            "unbias2": 1.0 / (1.0 - beta2**t),
        }

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        return (m * hyper["ahead"] + grad * hyper["now"]) / (x.sqrt(v * hyper["unbias2"]) + self.eps)
