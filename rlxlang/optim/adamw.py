"""Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_fraction, require_not_negative


class AdamW(Algorithm):
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
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        if len(betas) != 2:
            raise RlxValueError(f"`AdamW`: `betas` are two numbers, {len(betas)} are given")
        require_fraction(self.algorithm, beta1=betas[0], beta2=betas[1])
        require_not_negative(self.algorithm, eps=eps)
        self.betas, self.eps = (float(betas[0]), float(betas[1])), float(eps)

    def slots(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m` and `v`."""
        return {"m": shape, "v": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """The factors that undo the averages' bias towards their start at zero."""
        return {f"unbias{k}": 1.0 / (1.0 - beta**t) for k, beta in enumerate(self.betas, 1)}

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
        beta1, beta2 = self.betas
        m = beta1 * slots["m"] + (1.0 - beta1) * grad
        v = beta2 * slots["v"] + (1.0 - beta2) * (grad * grad)
        move = (m * hyper["unbias1"]) / (x.sqrt(v * hyper["unbias2"]) + self.eps)
        if weight_decay:
            move = move + weight_decay * param
        return param - hyper["lr"] * move, {"m": m, "v": v}
