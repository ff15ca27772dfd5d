"""Sign of a momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.settings import Betas, beta_scalars


class Lion(Algorithm):
    """`θ −= lr·(sign(β1·m + (1−β1)·g) + λθ)`, then `m = β2·m + (1−β2)·g`.

    Args:
        lr: Learning rate.
        betas: Weights of the momentum in the move and in its own average, each in [0, 1).
        weight_decay: λ, decoupled.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Chen et al. 2023, "Symbolic discovery of optimization algorithms".
    """

    algorithm = "Lion"
    betas = Betas()

    def __init__(
        self,
        lr: float = 1e-4,
        betas: Sequence[float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        self.betas = betas

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m`."""
        return {"m": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """The weights."""
        return beta_scalars(self.betas)

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
        move = x.sign(hyper["beta1"] * slots["m"] + hyper["rest1"] * grad)
        if weight_decay:
            move = move + weight_decay * param
        return param - hyper["lr"] * move, {"m": hyper["beta2"] * slots["m"] + hyper["rest2"] * grad}
