"""AdamW on gradients with reduced variance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_not_negative
from rlxlang.optim.moments import Moments


class Mars(Moments):
    """AdamW on `c = g + γ·β1/(1−β1)·(g − g_prev)`, each tensor of which is clipped to norm 1; in the first step `c = g`.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        gamma: γ, the weight of the correction, not negative.
        eps: ε, not negative.
        weight_decay: λ, decoupled: it acts on parameters whose gradient is zero, too.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Yuan et al. 2024, "MARS: unleashing the power of variance reduction for training large models".
    """

    algorithm = "Mars"

    def __init__(
        self,
        lr: float = 3e-3,
        betas: Sequence[float] = (0.95, 0.99),
        gamma: float = 0.025,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, groups=groups, state_dtype=state_dtype)
        require_not_negative(self.algorithm, gamma=gamma)
        self.gamma = float(gamma)

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m`, `v`, and the gradient before."""
        return {"m": shape, "v": shape, "prev": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """Also `later`, 0 in the first step, then 1, and the weight of the correction."""
        correction = self.gamma * self.betas[0] / (1.0 - self.betas[0])
        return {**super().hyper(t), "later": 0.0 if t == 1 else 1.0, "correction": correction}

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
        corrected = grad + hyper["correction"] * (grad - slots["prev"])
        norm = x.sqrt(x.sum(corrected * corrected))
        clipped = corrected / x.maximum(norm, 1.0)
        chosen = x.where_positive(hyper["later"], clipped, grad)
        new, changed = super().update(x, param, chosen, slots, hyper, weight_decay)
        return new, {**changed, "prev": grad}

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        return self.normalised(x, m, v, hyper)
