"""Settings that may be changed between steps; a compiled step reads them as scalars and is not compiled anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.groups import require_fraction

if TYPE_CHECKING:
    from rlxlang.optim.algorithm import Algorithm


class Betas:
    """An attribute `betas`: the decays of two averages, each in [0, 1)."""

    def __get__(self, opt: Algorithm, owner: type[Algorithm]) -> tuple[float, float]:
        found: tuple[float, float] = opt.__dict__["betas"]
        return found

    def __set__(self, opt: Algorithm, betas: Sequence[float]) -> None:
        if len(betas) != 2:
            raise RlxValueError(f"`{opt.algorithm}`: `betas` are two numbers, {len(betas)} are given")
        require_fraction(opt.algorithm, beta1=betas[0], beta2=betas[1])
        opt.__dict__["betas"] = float(betas[0]), float(betas[1])


class Momentum:
    """An attribute `momentum` in [0, 1). Where an algorithm has no state without momentum, 0 stays 0 and others stay above 0.

    Args:
        is_optional: Whether 0 means that there is no state.
    """

    def __init__(self, is_optional: bool) -> None:
        self._is_optional = is_optional

    def __get__(self, opt: Algorithm, owner: type[Algorithm]) -> float:
        found: float = opt.__dict__["momentum"]
        return found

    def __set__(self, opt: Algorithm, momentum: float) -> None:
        require_fraction(opt.algorithm, momentum=momentum)
        before = opt.__dict__.get("momentum")
        if self._is_optional and before is not None and (before == 0) != (momentum == 0):
            raise RlxValueError(
                f"`{opt.algorithm}`: a momentum of 0 has no state, so {before!r} cannot become {momentum!r}",
                helps=("make a new optimizer, or go down to a small number such as 1e-6",),
            )
        opt.__dict__["momentum"] = float(momentum)


def beta_scalars(betas: Sequence[float]) -> dict[str, float]:
    """`beta1`, `rest1` = 1 − β1 and so on: the difference is taken in double precision."""
    return {
        f"{name}{k}": value for k, beta in enumerate(betas, 1) for name, value in (("beta", beta), ("rest", 1.0 - beta))
    }
