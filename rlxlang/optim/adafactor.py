"""Adam with a factored second moment and no first one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.groups import require_not_negative

_GREATEST_RELATIVE_STEP = 1e-2


class Adafactor(Algorithm):
    """Steps normalised by row and column averages of squares; for rank 2 and more these are all the state.

    `u = g / √v̂`, `v̂ = r⊗c / mean(r)` over the last two axes, `u /= max(1, RMS(u)/clip)`, `θ −= α·(u + λθ)` with the averages
    decaying by `1 − t^decay`. Without a rate, `α = min(1/√t, 1e-2)·max(ε2, RMS(θ))`.

    Args:
        lr: Learning rate; relative steps when left out and no schedule sets one.
        decay: Exponent of the averages' decay, negative.
        eps: ε1, added to squares, and ε2, the least scale of relative steps.
        clip: Greatest root mean square of a step, greater than 0.
        weight_decay: λ, decoupled.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Shazeer and Stern 2018, "Adafactor: adaptive learning rates with sublinear memory cost".
    """

    algorithm = "Adafactor"

    def __init__(
        self,
        lr: float | None = None,
        decay: float = -0.8,
        eps: Sequence[float] = (1e-30, 1e-3),
        clip: float = 1.0,
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(0.0 if lr is None else lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        if len(eps) != 2:
            raise RlxValueError(f"`Adafactor`: `eps` are two numbers, {len(eps)} are given")
        require_not_negative(self.algorithm, eps1=eps[0], eps2=eps[1], clip=clip)
        if not (math.isfinite(decay) and decay < 0 and clip > 0):
            raise RlxValueError("`Adafactor`: `decay` is less than 0 and `clip` greater than 0")
        self.decay, self.eps, self.clip = float(decay), (float(eps[0]), float(eps[1])), float(clip)
        self._is_relative = lr is None

    def set_lr(self, lr: float) -> None:
        """Change the learning rate; steps are no longer relative."""
        super().set_lr(lr)
        self._is_relative = False

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`r` and `c` for rank 2 and more, else `v`."""
        return {"v": shape} if len(shape) < 2 else {"r": shape[:-1], "c": (*shape[:-2], shape[-1])}

    def shapes_from(self, slots: Mapping[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """See `Algorithm.shapes_from`."""
        if "r" in slots and slots.get("c"):
            return [(*slots["r"], slots["c"][-1])]
        return super().shapes_from(slots)

    def hyper_values(self, t: int) -> dict[str, float]:
        """`lr`, `relative` (1 or 0), and the weight of the latest squares."""
        rate = min(1.0 / math.sqrt(t), _GREATEST_RELATIVE_STEP) if self._is_relative else self.lr
        return {"lr": rate, "relative": float(self._is_relative), "fresh": float(t) ** self.decay}

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
        fresh, (eps1, eps2) = hyper["fresh"], self.eps
        kept = 1.0 - fresh
        squares = grad * grad + eps1
        shape = tuple(grad.shape)
        if len(shape) < 2:
            changed = {"v": kept * slots["v"] + fresh * squares}
            step = grad / x.sqrt(changed["v"])
        else:
            rows, columns = (*shape[:-1], 1), (*shape[:-2], 1, shape[-1])
            r = kept * x.reshape(slots["r"], rows) + fresh * (x.sum(squares, (-1,)) / float(shape[-1]))
            c = kept * x.reshape(slots["c"], columns) + fresh * (x.sum(squares, (-2,)) / float(shape[-2]))
            mean = x.sum(r, (-2,)) / float(shape[-2])
            step = grad / (x.sqrt(r / mean) * x.sqrt(c))
            changed = {"r": x.reshape(r, shape[:-1]), "c": x.reshape(c, (*shape[:-2], shape[-1]))}
        step = step / x.maximum(_rms(x, step) / self.clip, 1.0)
        scale = x.where_positive(hyper["relative"], x.maximum(_rms(x, param), eps2), 1.0)
        if weight_decay:
            step = step + weight_decay * param
        return param - (hyper["lr"] * scale) * step, changed


def _rms(x: Arithmetic, value: Value) -> Value:
    """The root of the mean square over all elements."""
    return x.sqrt(x.sum(value * value) / float(max(math.prod(value.shape), 1)))
