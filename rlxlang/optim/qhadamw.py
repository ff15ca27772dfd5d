"""Quasi-hyperbolic Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.moments import Moments


class QHAdamW(Moments):
    """Adam that mixes each average with the latest value.

    The move is `((1−ν1)·g + ν1·m̂) / (√((1−ν2)·g² + ν2·v̂) + ε) + λθ`.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        nus: Weights of the averages ν1 and ν2, each in [0, 1].
        eps: ε, not negative.
        weight_decay: λ, decoupled: it acts on parameters whose gradient is zero, too.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Ma and Yarats 2019, "Quasi-hyperbolic momentum and Adam for deep learning".
    """

    algorithm = "QHAdamW"

    def __init__(
        self,
        lr: float = 1e-3,
        betas: Sequence[float] = (0.995, 0.999),
        nus: Sequence[float] = (0.7, 1.0),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, groups=groups, state_dtype=state_dtype)
        if len(nus) != 2 or not all(0 <= nu <= 1 for nu in nus):
            raise RlxValueError(f"`QHAdamW`: `nus` are two numbers in [0, 1], {tuple(nus)!r} is given")
        self.nus = (float(nus[0]), float(nus[1]))

    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """See the class."""
        nu1, nu2 = self.nus
        first = (1.0 - nu1) * grad + nu1 * (m * hyper["unbias1"])
        second = (1.0 - nu2) * (grad * grad) + nu2 * (v * hyper["unbias2"])
        return first / (x.sqrt(second) + self.eps)
