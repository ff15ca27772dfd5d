"""Momentum divided by estimates of the curvature, and clipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxRuntimeError, RlxShapeError
from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.arrays import HOST, Arithmetic, Value
from rlxlang.optim.groups import require_count, require_not_negative
from rlxlang.optim.probes import key_scalars, random_signs
from rlxlang.optim.settings import Betas, beta_scalars
from rlxlang.optim.traced import GRAPH, Traced

Array: TypeAlias = "np.ndarray[Any, Any]"


class Sophia(Algorithm):
    """Sophia-H: `m = β1·m + (1−β1)·g; θ −= lr·(clip(m / max(γ·h, ε), ±ρ) + λθ)`, h an average of the diagonal of the Hessian.

    In the first step and every `every` steps after it `h = β2·h + (1−β2)·u·(H·u)` beforehand, with random signs u told by `seed`, the
    step and the name of the parameter. Training steps (`Trainer`, `Func.train_step*`) compute the product of the Hessian with the signs in
    these steps alone; whoever calls `step` by hand passes `u·(H·u)` for the u of `hessian_direction` to `observe_hessian` before. Where
    the curvature is not positive a parameter moves by lr·ρ.

    Args:
        lr: Learning rate; no element moves by more than lr·ρ, weight decay apart.
        betas: Decay of the averages of gradient and curvature, each in [0, 1).
        gamma: γ, not negative.
        rho: ρ, not negative.
        eps: ε, greater than 0 in effect: 0 divides by zero where there is no curvature.
        weight_decay: λ, decoupled.
        every: Steps from one estimate of the curvature to the next, 1 or more.
        seed: Of the random signs.
        groups: See `Algorithm`.
        state_dtype: See `Algorithm`.

    Raises:
        RlxValueError: A setting is out of its range.

    Source:
        Liu et al. 2023, "Sophia: a scalable stochastic second-order optimizer for language model pre-training", arXiv:2305.14342,
        algorithms 1 and 3.
    """

    algorithm = "Sophia"
    betas = Betas()

    def __init__(
        self,
        lr: float = 3e-3,
        betas: Sequence[float] = (0.965, 0.99),
        gamma: float = 0.01,
        rho: float = 0.04,
        eps: float = 1e-12,
        weight_decay: float = 0.1,
        every: int = 10,
        seed: int = 0,
        *,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay, groups=groups, state_dtype=state_dtype)
        self.betas = betas
        require_not_negative(self.algorithm, gamma=gamma, rho=rho, eps=eps)
        require_count(self.algorithm, every=every)
        self.gamma, self.rho, self.eps = float(gamma), float(rho), float(eps)
        self.every, self.seed = int(every), int(seed)
        self._observed: dict[str, Array] = {}

    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """`m` and `h`."""
        return {"m": shape, "h": shape}

    def hyper(self, t: int) -> dict[str, float]:
        """The decays, whether the step takes an estimate, and the key of its signs."""
        return {**beta_scalars(self.betas), "fresh": float(self._is_due(t)), **key_scalars(self.seed, t)}

    def _is_due(self, t: int) -> bool:
        return (t - 1) % self.every == 0

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
        m = hyper["beta1"] * slots["m"] + hyper["rest1"] * grad
        h = hyper["beta2"] * slots["h"] + hyper["rest2"] * slots["estimate"]
        h = x.where_positive(hyper["fresh"], h, slots["h"])
        move = x.maximum(x.minimum(m / x.maximum(self.gamma * h, self.eps), self.rho), -self.rho)
        if weight_decay:
            move = move + weight_decay * param
        return param - hyper["lr"] * move, {"m": m, "h": h}

    # ----------------------------------------------------------------------------------------- curvature

    @property
    def needs_hessian(self) -> bool:
        """True."""
        return True

    def hessian_direction(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """The random signs of the next step, float32, or None when it takes no estimate."""
        t = self.steps_of(name) + 1
        if self.is_frozen(name) or not self._is_due(t):
            return None
        scalars = {key: np.float64(value) for key, value in key_scalars(self.seed, t).items()}
        signs: Array = random_signs(HOST, name, np.zeros(shape, np.float32), scalars)
        return signs

    def observe_hessian(self, name: str, estimate: Array) -> None:
        """Take `u·(H·u)` for the next step of a parameter."""
        self._observed[name] = np.asarray(estimate)

    def trace_direction(self, b: Builder, name: str, param: Node, hyper: Mapping[str, Node]) -> tuple[Node, Node]:
        """See `TracedOptimizer.trace_direction`."""
        scalars = {key: Traced(b, node) for key, node in hyper.items()}
        like = Traced(b, param)
        signs = GRAPH.where_positive(scalars["fresh"], random_signs(GRAPH, name, like, scalars), 0.0)
        return emit.compare(b, "gt", hyper["fresh"], 0), signs.node

    def probes(self, x: Arithmetic, name: str, param: Value, hyper: Mapping[str, Value]) -> dict[str, Value]:
        """The estimate of a step on the host; a compiled step has it among its slots.

        Raises:
            RlxRuntimeError: None has been observed.
            RlxShapeError: It has another shape than the parameter.
        """
        if x is not HOST:
            return {}
        if not hyper["fresh"] > 0:
            return {"estimate": np.zeros_like(param)}
        if name not in self._observed:
            raise RlxRuntimeError(
                f"`Sophia` needs an estimate of the curvature for this step of `{name}`",
                helps=(
                    "training steps of a function or a `Trainer` make it; by hand: `u = opt.hessian_direction(name, shape)`, then "
                    "`opt.observe_hessian(name, u * hessian_product_with_u)`",
                ),
            )
        estimate = self._observed.pop(name)
        if estimate.size != param.size:
            raise RlxShapeError(
                f"the estimate of the curvature of `{name}` has {estimate.size} elements, the parameter {param.size}"
            )
        return {"estimate": estimate.reshape(param.shape).astype(param.dtype)}
