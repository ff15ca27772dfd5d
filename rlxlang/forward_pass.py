"""Derivatives in two halves: a forward pass that is run once, and a linear function of what it kept, run as often as wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from rlxlang.compiler import Traced
    from rlxlang.device import Device
    from rlxlang.func import Func

    Array: TypeAlias = "np.ndarray[Any, Any]"
    Inputs: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]] | None"


class ForwardPass:
    """A function whose run also gives its derivative at that place, as a `Func`.

    What the derivative needs of the forward pass is kept as arrays, which are params of that `Func`: nothing is computed twice, except
    inside of `remat`. It can be transformed further and run on any device. Both halves are compiled once for all runs.

    Attributes:
        forward: The function; behind its outputs come the arrays that are kept.
    """

    __slots__ = ("_count", "_second", "forward")

    def __init__(self, forward: Func, second: Traced, count: int) -> None:
        self.forward = forward
        self._second = second
        self._count = count

    def __call__(self, *values: object, **named: object) -> tuple[Array | tuple[Array, ...], Func]:
        """The output, or a tuple of all of them, and the derivative; inputs by position or by name, as for a `Func`."""
        from rlxlang.func import merged

        inputs, rest = merged(self.forward.input_names(), values, named, self.forward.name)
        outputs, derivative = self.run(inputs, **rest)
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), derivative

    def run(self, inputs: Inputs = None, **named: object) -> tuple[list[Array], Func]:
        """A list of all outputs, and the derivative; raises as `Func.run`."""
        return self._split(self.forward.run(inputs, **named))

    def run_on(self, device: Device | str, inputs: Inputs = None, **named: object) -> tuple[list[Array], Func]:
        """The same with the forward pass on a given device."""
        return self._split(self.forward.run_on(device, inputs, **named))

    def _split(self, results: list[Array]) -> tuple[list[Array], Func]:
        outputs, kept = results[: self._count], iter(results[self._count :])
        own = self.forward.bindings
        bound = {}
        for entry in self._second.outline.params:
            array = own[entry.name] if entry.name in own else next(kept)
            array.flags.writeable = False
            bound[entry.name] = array
        return outputs, self.forward._over(self._second, bound)

    def __repr__(self) -> str:
        return f"<ForwardPass of {self.forward!r}>"
