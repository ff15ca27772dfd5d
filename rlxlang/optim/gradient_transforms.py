"""What a `Chain` does with gradients before an optimizer sees them; written once for the host form and the compiled one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from rlxlang.diagnostics import RlxValueError
from rlxlang.optim.arrays import Arithmetic, Value


class GradientTransform(ABC):
    """A step of a `Chain`; a subclass written over `Arithmetic` is compiled into the steps of a `Trainer`.

    Attributes:
        is_joint: Whether it looks at all gradients together.
    """

    is_joint: ClassVar[bool] = False

    @abstractmethod
    def apply(self, x: Arithmetic, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """The new gradients by parameter, of the same shapes and dtypes.

        Args:
            x: Functions beyond the operators.
            gradients: All gradients of the step by name of their parameter, F32 or F64.
        """

    def veto(self, x: Arithmetic, gradients: Mapping[str, Value]) -> Value | None:
        """A number that is greater than 0 when the step is to be left out; None: never."""
        return None


class ClipByValue(GradientTransform):
    """Every element is brought into [-limit, limit].

    Args:
        limit: Greater than 0.

    Raises:
        RlxValueError: It is not.

    Source:
        Elementary.
    """

    def __init__(self, limit: float) -> None:
        self.limit = _positive("ClipByValue", "limit", limit)

    def apply(self, x: Arithmetic, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """See the class."""
        return {name: x.maximum(x.minimum(g, self.limit), -self.limit) for name, g in gradients.items()}


class ClipPerLayer(GradientTransform):
    """Every gradient is scaled so that its norm is at most `max_norm`.

    Args:
        max_norm: Greater than 0.

    Raises:
        RlxValueError: It is not.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks", for each tensor alone.
    """

    def __init__(self, max_norm: float) -> None:
        self.max_norm = _positive("ClipPerLayer", "max_norm", max_norm)

    def apply(self, x: Arithmetic, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """See the class."""
        return {name: g * _factor(x, x.sum(g * g), self.max_norm) for name, g in gradients.items()}


class ClipByGlobalNorm(GradientTransform):
    """All gradients are scaled by one factor so that their norm together is at most `max_norm`.

    Args:
        max_norm: Greater than 0.

    Raises:
        RlxValueError: It is not.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks".
    """

    is_joint = True

    def __init__(self, max_norm: float) -> None:
        self.max_norm = _positive("ClipByGlobalNorm", "max_norm", max_norm)

    def apply(self, x: Arithmetic, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """See the class."""
        if not gradients:
            return {}
        widest = max(gradients.values(), key=lambda g: int(g.dtype.itemsize))
        total: Value = 0.0
        for g in gradients.values():
            total = x.like(x.sum(g * g), widest) + total
        factor = _factor(x, total, self.max_norm)
        return {name: g * x.like(factor, g) for name, g in gradients.items()}


class SkipNonFinite(GradientTransform):
    """The whole step is left out when any gradient holds an infinite element or NaN: parameters, state and step count stay.

    It looks at the gradients as they stand at its place in the chain.

    Source:
        Micikevicius et al. 2018, "Mixed precision training", section 3.2.
    """

    is_joint = True

    def apply(self, x: Arithmetic, gradients: Mapping[str, Value]) -> dict[str, Value]:
        """The gradients as they are."""
        return dict(gradients)

    def veto(self, x: Arithmetic, gradients: Mapping[str, Value]) -> Value | None:
        """How many elements are infinite or NaN."""
        counts = [x.nonfinite(g) for g in gradients.values()]
        return sum(counts[1:], counts[0]) if counts else None


def _factor(x: Arithmetic, squares: Value, limit: float) -> Value:
    """What brings a norm, given by its square, down to a limit."""
    norm = x.sqrt(squares)
    return x.where_positive(norm - limit, limit / norm, 1.0)


def _positive(transform: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise RlxValueError(f"`{transform}`: `{name}` is a finite number greater than 0, {value!r} is given")
    return float(value)
