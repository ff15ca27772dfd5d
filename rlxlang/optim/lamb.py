"""Adam with a trust ratio for each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments


class Lamb(Moments):
    """`u = m̂/(√v̂ + ε) + λθ; θ −= lr·(‖θ‖/‖u‖)·u`, the ratio being 1 if either norm is 0.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        eps: ε, not negative.
        weight_decay: λ, inside the trust ratio.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes".
    """

    algorithm = "Lamb"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
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
        m, v = self.averages(grad, slots, hyper)
        move = self.move(x, grad, m, v, hyper)
        if weight_decay:
            move = move + weight_decay * param
        size, length = x.sqrt(x.sum(param * param)), x.sqrt(x.sum(move * move))
        trust = x.where_positive(size, x.where_positive(length, size / length, 1.0), 1.0)
        return param - (hyper["lr"] * trust) * move, {"m": m, "v": v}

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        return self.normalised(x, m, v, hyper)
