"""What the relatives of Adam share: moving averages of the gradient and of its square."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_not_negative
from rlxlang.optim.settings import Betas, beta_scalars


class Moments(Algorithm):
    """`m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²`, and a move made of them.

    Args:
        lr: Learning rate.
        betas: Decay of the averages of gradient and square, each in [0, 1).
        eps: ε, not negative.
        weight_decay: λ.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.
    """

    betas = Betas()

    def __init__(
        self,
        lr: float,
        betas: Sequence[float],
        eps: float,
        weight_decay: float,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        self.betas = betas
        require_not_negative(self.algorithm, eps=eps)
        self.eps = float(eps)

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m` and `v`."""
        return {"m": shape, "v": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """The decays, and the factors that undo the averages' bias towards their start at zero."""
        unbias = {f"unbias{k}": 1.0 / (1.0 - beta**t) for k, beta in enumerate(self.betas, 1)}
        return {**beta_scalars(self.betas), **unbias}

    def update(
        self,
        x: Arithmetic,
        param: Value,
        grad: Value,
        slots: Mapping[str, Value],
        hyper: Mapping[str, Value],
        weight_decay: float,
    ) -> tuple[Value, dict[str, Value]]:
        """See the class; weight decay is decoupled."""
        m, v = self.averages(grad, slots, hyper)
        move = self.move(x, grad, m, v, hyper)
        if weight_decay:
            move = move + weight_decay * param
        return param - hyper["lr"] * move, {"m": m, "v": v}

    def averages(self, grad: Value, slots: Mapping[str, Value], hyper: Mapping[str, Value]) -> tuple[Value, Value]:
        """The new averages."""
        m = hyper["beta1"] * slots["m"] + hyper["rest1"] * grad
        v = hyper["beta2"] * slots["v"] + hyper["rest2"] * (grad * grad)
        return m, v

    @abstractmethod
    def move(self, x: Arithmetic, grad: Value, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """What the learning rate multiplies, weight decay apart."""

    def normalised(self, x: Arithmetic, m: Value, v: Value, hyper: Mapping[str, Value]) -> Value:
        """Adam's `m̂ / (√v̂ + ε)`."""
        return (m * hyper["unbias1"]) / (x.sqrt(v * hyper["unbias2"]) + self.eps)
