"""Descent on matrices with orthonormal rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import Arithmetic, Value
from rlxlang.optim.settings import Momentum


class Stiefel(Algorithm):
    """Matrices with no more rows than columns keep their rows orthonormal; all other parameters move as with `Sgd`.

    The gradient and the momentum are projected on the directions in which the rows stay orthonormal,
    `P(x) = x - sym(x·θᵀ)·θ`, and each step ends on the manifold: `v = μ·P(v) + P(g)`, `θ = Qᵀ` of the QR decomposition of
    `(θ - lr·v)ᵀ` with a positive diagonal. Kernels of convolutions are seen as matrices of their first axis. A matrix that does
    not start with orthonormal rows has them after the first step.

    Args:
        lr: Learning rate.
        momentum: μ in [0, 1).
        weight_decay: λ of `Sgd`; rows on the manifold have norm 1.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Absil, Mahony and Sepulchre 2008, "Optimization Algorithms on Matrix Manifolds", sections 3.6.1 and 4.1.1; momentum by
        projection as in Li, Fuxin and Todorovic 2020, "Efficient Riemannian optimization on the Stiefel manifold".
    """

    algorithm = "Stiefel"
    momentum = Momentum(is_optional=True)

    def __init__(
        self,
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        self.momentum = momentum

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`v` if there is momentum."""
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
        shape = tuple(param.shape)
        if len(shape) < 2 or not 0 < shape[0] <= math.prod(shape[1:]):
            move = grad + weight_decay * param if weight_decay else grad
            move = hyper["momentum"] * slots["v"] + move if self.momentum else move
            return param - hyper["lr"] * move, {"v": move} if self.momentum else {}
        flat = (shape[0], math.prod(shape[1:]))
        theta = x.reshape(param, flat)
        move = _tangent(x, theta, x.reshape(grad, flat))
        if self.momentum:
            move = hyper["momentum"] * _tangent(x, theta, x.reshape(slots["v"], flat)) + move
        moved = x.transpose(x.orthonormal(x.transpose(theta - hyper["lr"] * move)))
        return x.reshape(moved, shape), {"v": x.reshape(move, shape)} if self.momentum else {}


def _tangent(x: Arithmetic, theta: Value, direction: Value) -> Value:
    """The part of a direction along which the rows of θ stay orthonormal to first order."""
    inner = x.matmul(direction, x.transpose(theta))
    return direction - x.matmul(0.5 * (inner + x.transpose(inner)), theta)
