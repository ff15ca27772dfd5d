"""What every optimizer is: something that changes parameters in place, one by one or all together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

# Name, shape, parameter (changed in place), gradient.
OptItem: TypeAlias = "tuple[str, tuple[int, ...], Array, Array]"


class Optimizer(ABC):
    """Base of all optimizers; a subclass needs `step` and nothing else.

    Example:
        >>> class SignDescent(Optimizer):
        ...     def step(self, name, shape, param, grad):
        ...         param -= 0.01 * np.sign(grad)
        >>> w = np.ones(2, np.float32)
        >>> SignDescent().step("w", (2,), w, np.array([3.0, -1.0], np.float32))
        >>> w
        array([0.99, 1.01], dtype=float32)
    """

    @abstractmethod
    def step(self, name: str, shape: tuple[int, ...], param: Array, grad: Array) -> None:
        """Update one parameter in place.

        Args:
            name: Run-time name; the state is kept under it.
            shape: Its dims.
            param: f32[*shape] or f64[*shape], written to.
            grad: The derivative of the loss, of the same shape.
        """

    def step_batch(self, items: Sequence[OptItem]) -> None:
        """Update all parameters in place; the result is bit for bit that of `step` for one after the other."""
        for name, shape, param, grad in items:
            self.step(name, shape, param, grad)

    def end_iteration(self) -> None:
        """All parameters have had their step of this iteration."""
        return

    def set_lr(self, lr: float) -> None:
        """Change the learning rate, as schedules do; an algorithm without one ignores it."""
        return

    def lr_scale(self, name: str) -> float:
        """The factor on the learning rate of one parameter."""
        return 1.0

    def is_frozen(self, name: str) -> bool:
        """Whether a parameter stays as it is; training steps then leave out its gradient."""
        return False

    @property
    def needs_hessian(self) -> bool:
        """Whether training steps are to ask for directions and hand over estimates of curvature, see `hessian_direction`."""
        return False

    def hessian_direction(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """The random direction u in which the next step wants to know the curvature; None: it needs none.

        Training steps ask an optimizer whose `needs_hessian` is True, take the product of the Hessian H of the loss with the
        directions of all parameters together, and hand `u·(H·u)`, element by element, to `observe_hessian`.
        """
        return None

    def observe_hessian(self, name: str, estimate: Array) -> None:
        """Take an estimate of the diagonal of the Hessian, of the parameter's shape, for the next step of that parameter."""
        return

    def state_dict(self) -> dict[str, Any] | None:
        """A copy of the state for a checkpoint, `{"algorithm", "step", "buffers": {"slot/param": array}}`; None: it has none."""
        return None

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Take over a state; False, and nothing changes, when it belongs to another algorithm or other shapes."""
        return False
