"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.settings import Momentum


class Sgd(Algorithm):
    """Gradient descent, `d = g + λθ; v = μv + d; θ −= lr·v`, with Nesterov's step `lr·(d + μv)`.

    Args:
        lr: Learning rate.
        momentum: μ in [0, 1).
        nesterov: Whether to look ahead by the momentum; needs one.
        weight_decay: λ, coupled: it is part of the gradient.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning".
    """

    algorithm = "Sgd"
    momentum = Momentum(is_optional=True)

    def __init__(
        self,
        lr: float = 1e-2,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        self.momentum, self.nesterov = momentum, bool(nesterov)
        if nesterov and momentum == 0:
            raise RlxValueError("`Sgd`: `nesterov` needs a `momentum` greater than 0")

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`v`, if there is momentum."""
        return {"v": shape} if self.momentum else {}

    def hyper(self, t: int) -> dict[str, float]:
        """The momentum, if there is any."""
        return {"momentum": self.momentum} if self.momentum else {}

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
        direction = grad + weight_decay * param if weight_decay else grad
        if not self.momentum:
            return param - hyper["lr"] * direction, {}
        v = hyper["momentum"] * slots["v"] + direction
        move = direction + hyper["momentum"] * v if self.nesterov else v
        return param - hyper["lr"] * move, {"v": v}
