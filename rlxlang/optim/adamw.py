"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments


class AdamW(Moments):
    """Moving averages of gradient and square, `θ −= lr·(m̂ / (√v̂ + ε) + λθ)`.

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
        Loshchilov and Hutter 2019, "Decoupled weight decay regularization".
    """

    algorithm = "AdamW"

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

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        return self.normalised(x, m, v, hyper)
