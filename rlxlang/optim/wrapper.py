"""What optimizers around another optimizer share: they pass on what they do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlxlang.diagnostics import RlxTypeError
from rlxlang.ir import Builder, Node
from rlxlang.optim.base import Array, Optimizer

if TYPE_CHECKING:
    from rlxlang.trainer_step import TracedOptimizer


class Wrapper(Optimizer):
    """An optimizer around another one.

    Args:
        inner: The optimizer inside.

    Raises:
        RlxTypeError: It is no optimizer.
    """

    def __init__(self, inner: Optimizer) -> None:
        if not isinstance(inner, Optimizer):
            given = f"the class {inner.__name__}" if isinstance(inner, type) else type(inner).__name__
            raise RlxTypeError(
                f"`{type(self).__name__}` goes around an optimizer, {given} is given",
                helps=("use one of rlx.optim, such as `rlx.optim.AdamW(1e-3)`, or a subclass of rlx.optim.Optimizer",),
            )
        self.inner = inner

    @property
    def _traced(self) -> TracedOptimizer:
        """The optimizer inside, of which `is_traceable` has been asked."""
        return cast("TracedOptimizer", self.inner)

    # ----------------------------------------------------------------------------------------- settings

    @property
    def lr(self) -> float | None:
        """The present learning rate; None when the optimizer inside does not tell."""
        return getattr(self.inner, "lr", None)

    def set_lr(self, lr: float) -> None:
        """Change the learning rate."""
        self.inner.set_lr(lr)

    def lr_scale(self, name: str) -> float:
        """The factor on the learning rate of one parameter."""
        return self.inner.lr_scale(name)

    def is_frozen(self, name: str) -> bool:
        """Whether a parameter stays as it is."""
        return self.inner.is_frozen(name)

    def end_iteration(self) -> None:
        """All parameters have had their step of this iteration."""
        self.inner.end_iteration()

    # ----------------------------------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any] | None:
        """The state of the optimizer inside."""
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Take over the state of the optimizer inside."""
        return self.inner.load_state_dict(state)

    @property
    def step_count(self) -> int:
        """The greatest number of steps any parameter has had; 0 when the optimizer inside does not count."""
        return int(getattr(self.inner, "step_count", 0))

    # ----------------------------------------------------------------------------------------- curvature

    @property
    def needs_hessian(self) -> bool:
        """Whether the optimizer inside takes estimates of curvature."""
        return self.inner.needs_hessian

    def hessian_direction(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """See `Optimizer.hessian_direction`."""
        return self.inner.hessian_direction(name, shape)

    def observe_hessian(self, name: str, estimate: Array) -> None:
        """See `Optimizer.observe_hessian`."""
        self.inner.observe_hessian(name, estimate)

    # ----------------------------------------------------------------------------------------- the compiled form

    @property
    def is_traceable(self) -> bool:
        """Whether a `Trainer` may compile the update."""
        return bool(getattr(self.inner, "is_traceable", False))

    def compute_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype in which a parameter of `dtype` is updated."""
        own = getattr(self.inner, "compute_dtype", None)
        if own is None:
            return np.dtype(np.float64 if dtype.name == "float64" else np.float32)
        found: np.dtype[Any] = own(dtype)
        return found

    def state_of(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
        """The arrays of a parameter's state."""
        return self._traced.state_of(name, shape, dtype)

    def hyper_values(self, t: int) -> dict[str, float]:
        """All scalars of step `t`, counted from 1."""
        return self._traced.hyper_values(t)

    def steps_of(self, name: str) -> int:
        """How many steps a parameter has had."""
        return self._traced.steps_of(name)

    def advance(self, names: Iterable[str]) -> None:
        """Count a step for each of these parameters."""
        self._traced.advance(names)

    def trace_direction(self, b: Builder, name: str, param: Node, hyper: Mapping[str, Node]) -> tuple[Node, Node]:
        """See `Algorithm.trace_direction`."""
        return self._traced.trace_direction(b, name, param, hyper)

    def trace_gradients(self, b: Builder, gradients: Mapping[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """See `Algorithm.trace_gradients`."""
        return self._traced.trace_gradients(b, gradients)

    def trace(
        self, b: Builder, name: str, param: Node, grad: Node, slots: Mapping[str, Node], hyper: Mapping[str, Node]
    ) -> tuple[Node, dict[str, Node]]:
        """See `Algorithm.trace`."""
        return self._traced.trace(b, name, param, grad, slots, hyper)
