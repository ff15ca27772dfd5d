"""What the steps of a trainer keep beside parameters and optimizer state: gathered gradients, averages, the loss scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxValueError
from rlxlang.ir import GraphOutput
from rlxlang.resident import aligned_zeros

if TYPE_CHECKING:
    from rlxlang.training.metrics import Metric

Array: TypeAlias = "np.ndarray[Any, Any]"

LEAST_SCALE = 2.0**-24
GREATEST_SCALE = 2.0**24


@dataclass(frozen=True, slots=True)
class LossScale:
    """A factor on the loss that keeps small gradients of half precision from vanishing.

    The gradients are divided by it again in F32. A step whose gradients are not all finite changes neither parameters nor optimizer
    state, and a dynamic scale is halved; after `growth_steps` good steps in a row it is doubled.

    Args:
        start: The scale of the first step, in [2⁻²⁴, 2²⁴].
        growth_steps: Good steps before it is doubled; None keeps the scale constant.

    Raises:
        RlxValueError: A number is out of its range.

    Source:
        Micikevicius et al. 2018, "Mixed precision training", section 3.2.
    """

    start: float = 2.0**15
    growth_steps: int | None = 2000

    def __post_init__(self) -> None:
        if not LEAST_SCALE <= self.start <= GREATEST_SCALE:
            raise RlxValueError(f"a loss scale is in [2⁻²⁴, 2²⁴], {self.start!r} is given")
        if self.growth_steps is not None and self.growth_steps < 1:
            raise RlxValueError(f"`growth_steps` is at least 1, {self.growth_steps} is given")

    @classmethod
    def of(cls, given: object) -> LossScale | None:
        """The scale of the option `loss_scale`: None, a number, `"dynamic"`, or a `LossScale`.

        Raises:
            RlxValueError: It is something else.
        """
        if given is None or isinstance(given, LossScale):
            return given
        if given == "dynamic":
            return cls()
        if isinstance(given, (int, float)) and not isinstance(given, bool):
            return cls(float(given), None)
        raise RlxValueError(f'`loss_scale` is None, a number, "dynamic" or a LossScale; {given!r} is given')


class StepState:
    """Arrays that the steps of a trainer write in place.

    Args:
        params: The trained parameters by name.
        accumulate: Calls whose gradients make one update.
        ema: Decay of the averages of the parameters, in [0, 1), or None.
        scale: The loss scale, or None.
        metrics: What each call counts, with the names of output and label.

    Attributes:
        sums: Gradients of the calls so far, weighed by their rows, where several make an update.
        rows: The rows of these calls.
        averages: Moving averages of the parameters.
        loss_scale: The scale of the next step.
        good_steps: Good steps in a row, since the scale has changed.
        is_finite: Whether the gradients of the last update were finite (1 or 0).
        counts: What the last call counted.

    Raises:
        RlxValueError: `ema` is out of its range.
    """

    def __init__(
        self,
        params: Mapping[str, Array],
        accumulate: int,
        ema: float | None,
        scale: LossScale | None,
        metrics: Sequence[Metric] = (),
    ) -> None:
        if ema is not None and not 0 <= ema < 1:
            raise RlxValueError(f"`ema` is the decay of the averages, in [0, 1); {ema!r} is given")
        self.accumulate, self.ema, self.scale = accumulate, ema, scale
        self.sums = {n: aligned_zeros(a.shape, wide_of(a)) for n, a in params.items()} if accumulate > 1 else {}
        self.rows = aligned_zeros((), np.dtype(np.float32))
        self.averages: dict[str, Array] = {}
        for name, array in params.items() if ema is not None else ():
            self.averages[name] = aligned_zeros(array.shape, wide_of(array))
            self.averages[name][...] = array
        self.loss_scale = aligned_zeros((), np.dtype(np.float32))
        self.loss_scale[...] = 1 if scale is None else scale.start
        self.good_steps = aligned_zeros((), np.dtype(np.int32))
        self.is_finite = aligned_zeros((), np.dtype(np.int32))
        self.metrics = tuple(metrics)
        self.counts: list[Array] = []

    def make_counts(self, outputs: Sequence[GraphOutput]) -> None:
        """Make the arrays of `counts` for these outputs of a step, unless they are there."""
        if not self.counts:
            self.counts = [aligned_zeros(tuple(o.node.shape), o.node.dtype.numpy) for o in outputs]

    def arrays(self, is_gathering: bool) -> dict[str, Array]:
        """What a checkpoint keeps; the gathered gradients only when there are any."""
        found = {f"ema/{name}": array for name, array in self.averages.items()}
        if self.scale is not None:
            found |= {"loss_scale": self.loss_scale, "good_steps": self.good_steps}
        if is_gathering:
            found |= {"rows": self.rows, **{f"sum/{name}": array for name, array in self.sums.items()}}
        return found

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what a checkpoint has kept; what it lacks starts anew."""
        for name, own in self.arrays(is_gathering=True).items():
            if name in arrays:
                own[...] = arrays[name]

    # ----------------------------------------------------------------------------------------- steps in Python

    def gather(self, gradients: Mapping[str, Array], rows: int) -> None:
        """Add the gradients of a call."""
        for name, gradient in gradients.items():
            self.sums[name] += gradient.astype(self.sums[name].dtype) * self.sums[name].dtype.type(rows)
        self.rows += np.float32(rows)

    def gathered(self) -> dict[str, Array]:
        """The mean gradients of all calls; the next one begins anew."""
        total = max(float(self.rows), 1.0)
        # Of no axes, too, an array: gradients are clipped in place.
        means = {name: np.asarray(array / array.dtype.type(total)) for name, array in self.sums.items()}
        for array in (*self.sums.values(), self.rows):
            array[...] = 0
        return means

    def judge(self, gradients: Sequence[Array]) -> bool:
        """Whether an update may be made of the gradients; the scale is adapted."""
        if self.scale is None:
            return True
        finite = all(bool(np.all(np.isfinite(g))) for g in gradients)
        self.is_finite[...] = finite
        if self.scale.growth_steps is None:
            return finite
        self.good_steps[...] = self.good_steps + 1 if finite else 0
        if not finite:
            self.loss_scale[...] = max(float(self.loss_scale) / 2, LEAST_SCALE)
        elif self.good_steps >= self.scale.growth_steps:
            self.loss_scale[...] = min(float(self.loss_scale) * 2, GREATEST_SCALE)
            self.good_steps[...] = 0
        return finite

    def average(self, params: Mapping[str, Array]) -> None:
        """Move the averages towards the parameters."""
        for name, average in self.averages.items():
            decay, rest = average.dtype.type(self.ema), average.dtype.type(1 - (self.ema or 0))
            average[...] = decay * average + rest * params[name].astype(average.dtype)


def wide_of(array: Array) -> np.dtype[Any]:
    """The dtype of sums over an array: F64 for F64, else F32."""
    return np.dtype(np.float64 if array.dtype.name == "float64" else np.float32)


def is_hopeless(state: StepState) -> bool:
    """Whether gradients are not finite at the least scale that there is."""
    is_least = state.scale is not None and float(state.loss_scale) <= LEAST_SCALE
    return is_least and not state.is_finite and not math.isnan(float(state.loss_scale))
