"""Learning-rate schedules: the rate of a step, counted from 0."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from rlxlang.diagnostics import RlxValueError

Rate = Callable[[int], float]


class LrSchedule:
    """A learning rate by step; made by the functions of this class, immutable.

    Every schedule starts to act at step 0 (no idle first step) and holds its last value for ever.

    Example:
        >>> schedule = LrSchedule.warmup_cosine(1.0, 0.2, 4, 14)
        >>> [schedule.lr_at(step) for step in (0, 3, 4, 14, 999)]
        [0.25, 1.0, 1.0, 0.2, 0.2]
    """

    __slots__ = ("_rate", "_text")

    def __init__(self, rate: Rate, text: str = "LrSchedule(function)") -> None:
        self._rate = rate
        self._text = text

    def lr_at(self, step: int) -> float:
        """The learning rate of a step counted from 0.

        Raises:
            RlxValueError: `step` is negative.
        """
        number = operator.index(step)
        if number < 0:
            raise RlxValueError(f"steps are counted from 0, {number} is given")
        return float(self._rate(number))

    def __repr__(self) -> str:
        return self._text

    @classmethod
    def constant(cls, lr: float) -> LrSchedule:
        """The same rate at every step."""
        _require_rate("constant", lr=lr)
        return cls(lambda step: lr, f"LrSchedule.constant({lr!r})")

    @classmethod
    def step(cls, base: float, step_size: int, gamma: float = 0.1) -> LrSchedule:
        """`base · gamma^floor(t / step_size)`."""
        _require_rate("step", base=base, gamma=gamma)
        size = _require_count("step", "step_size", step_size, least=1)
        return cls(lambda step: base * gamma ** (step // size), f"LrSchedule.step({base!r}, {size}, {gamma!r})")

    @classmethod
    def exponential(cls, base: float, gamma: float) -> LrSchedule:
        """`base · gamma^t`."""
        _require_rate("exponential", base=base, gamma=gamma)
        return cls(lambda step: base * gamma**step, f"LrSchedule.exponential({base!r}, {gamma!r})")

    @classmethod
    def linear(cls, base: float, end: float, total: int) -> LrSchedule:
        """A straight line from `base` at step 0 to `end` at step `total`."""
        _require_rate("linear", base=base, end=end)
        count = _require_count("linear", "total", total)
        return cls(
            lambda step: base + (end - base) * _progress(step, count), f"LrSchedule.linear({base!r}, {end!r}, {count})"
        )

    @classmethod
    def cosine(cls, base: float, min: float, total: int) -> LrSchedule:
        """Half a cosine from `base` at step 0 to `min` at step `total`.

        Source:
            Loshchilov and Hutter 2017, "SGDR: stochastic gradient descent with warm restarts" (without restarts).
        """
        _require_rate("cosine", base=base, min=min)
        count = _require_count("cosine", "total", total)
        return cls(
            lambda step: _half_cosine(base, min, _progress(step, count)),
            f"LrSchedule.cosine({base!r}, {min!r}, {count})",
        )

    @classmethod
    def warmup(cls, base: float, warmup: int) -> LrSchedule:
        """`base · (t + 1) / warmup` for the first `warmup` steps, then `base`; `base` at once for 0 steps."""
        _require_rate("warmup", base=base)
        count = _require_count("warmup", "warmup", warmup)
        return cls(lambda step: base * _ramp(step, count), f"LrSchedule.warmup({base!r}, {count})")

    @classmethod
    def warmup_cosine(cls, base: float, min: float, warmup: int, total: int) -> LrSchedule:
        """`warmup`, then half a cosine from `base` at step `warmup` to `min` at step `total`."""
        _require_rate("warmup_cosine", base=base, min=min)
        first = _require_count("warmup_cosine", "warmup", warmup)
        last = _require_count("warmup_cosine", "total", total)

        def rate(step: int) -> float:
            if step < first:
                return base * _ramp(step, first)
            return _half_cosine(base, min, _progress(step - first, last - first))

        return cls(rate, f"LrSchedule.warmup_cosine({base!r}, {min!r}, {first}, {last})")

    @classmethod
    def one_cycle(
        cls, peak: float, total: int, rise: float = 0.3, start_factor: float = 25.0, end_factor: float = 1e4
    ) -> LrSchedule:
        """Up from `peak / start_factor` to `peak` and down to `peak / start_factor / end_factor`, both along half a cosine.

        Args:
            peak: The highest rate.
            total: Steps of the whole cycle; the end value is reached at this step.
            rise: Fraction of the steps before the peak, in [0, 1].
            start_factor: Greater than 0.
            end_factor: Greater than 0.

        Source:
            Smith and Topin 2019, "Super-convergence: very fast training of neural networks using large learning rates".
        """
        _require_rate("one_cycle", peak=peak)
        count = _require_count("one_cycle", "total", total)
        if not 0 <= rise <= 1:
            raise RlxValueError(f"`one_cycle`: `rise` is a fraction of the steps, in [0, 1]; {rise!r} is given")
        if not (start_factor > 0 and end_factor > 0):
            raise RlxValueError("`one_cycle`: `start_factor` and `end_factor` are greater than 0")
        top = round(rise * count)
        low = peak / start_factor

        def rate(step: int) -> float:
            if step < top:
                return _half_cosine(low, peak, step / top)
            return _half_cosine(peak, low / end_factor, _progress(step - top, count - top))

        return cls(rate, f"LrSchedule.one_cycle({peak!r}, {count}, {rise!r}, {start_factor!r}, {end_factor!r})")

    @classmethod
    def piecewise(cls, rates: Sequence[float], boundaries: Sequence[int]) -> LrSchedule:
        """`rates[0]` before step `boundaries[0]`, `rates[1]` from there on, and so forth; one rate more than boundaries."""
        steps = _require_boundaries("piecewise", "rates", rates, boundaries)
        for rate in rates:
            _require_rate("piecewise", rate=rate)
        values = tuple(rates)
        return cls(
            lambda step: values[_section(step, steps)], f"LrSchedule.piecewise({list(values)!r}, {list(steps)!r})"
        )

    @classmethod
    def join(cls, schedules: Sequence[LrSchedule], boundaries: Sequence[int]) -> LrSchedule:
        """One schedule after another: each counts its steps from the boundary at which it begins."""
        steps = _require_boundaries("join", "schedules", schedules, boundaries)
        parts = tuple(schedules)

        def rate(step: int) -> float:
            k = _section(step, steps)
            return parts[k].lr_at(step - (steps[k - 1] if k else 0))

        return cls(rate, f"LrSchedule.join({list(parts)!r}, {list(steps)!r})")


def _progress(step: int, total: int) -> float:
    """How much of `total` steps is over, in [0, 1]; 1 when there are none."""
    return 1.0 if step >= total else step / total


def _ramp(step: int, warmup: int) -> float:
    return 1.0 if step + 1 >= warmup else (step + 1) / warmup


def _half_cosine(start: float, end: float, progress: float) -> float:
    if progress >= 1:
        return end
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * progress))


def _section(step: int, boundaries: tuple[int, ...]) -> int:
    return sum(step >= boundary for boundary in boundaries)


def _require_rate(schedule: str, **rates: float) -> None:
    for name, rate in rates.items():
        if not (math.isfinite(rate) and rate >= 0):
            raise RlxValueError(f"`{schedule}`: `{name}` is finite and not negative, {rate!r} is given")


def _require_count(schedule: str, name: str, value: int, least: int = 0) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise RlxValueError(f"`{schedule}`: `{name}` is a number of steps, {value!r} is given") from None
    if count < least:
        raise RlxValueError(f"`{schedule}`: `{name}` is at least {least}, {count} is given")
    return count


def _require_boundaries(schedule: str, what: str, parts: Sequence[Any], boundaries: Sequence[int]) -> tuple[int, ...]:
    steps = tuple(_require_count(schedule, "boundaries", b, least=1) for b in boundaries)
    if len(parts) != len(steps) + 1:
        raise RlxValueError(
            f"`{schedule}`: {len(parts)} {what} need {len(parts) - 1} boundaries, {len(steps)} are given"
        )
    if any(a >= b for a, b in pairwise(steps)):
        raise RlxValueError(f"`{schedule}`: boundaries increase, {list(steps)} are given")
    return steps
