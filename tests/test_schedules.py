"""Learning-rate schedules: no idle first step, none left out, the end value held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlxlang.diagnostics import RlxValueError
from rlxlang.schedules import LrSchedule as S


@pytest.mark.parametrize(
    ("schedule", "steps", "rates"),
    [
        (S.constant(0.3), (0, 10**6), (0.3, 0.3)),
        (S.warmup(0.4, 4), range(6), (0.1, 0.2, 0.3, 0.4, 0.4, 0.4)),
        (S.warmup(0.4, 0), (0, 1), (0.4, 0.4)),
        (S.step(1.0, 3, 0.1), range(7), (1, 1, 1, 0.1, 0.1, 0.1, 0.01)),
        (S.cosine(1.0, 0.2, 10), (0, 5, 10, 11, 1000), (1, 0.6, 0.2, 0.2, 0.2)),
        (S.cosine(1.0, 0.2, 0), (0, 1), (0.2, 0.2)),
        (S.warmup_cosine(1.0, 0.2, 4, 14), (0, 3, 4, 9, 14, 15, 999), (0.25, 1, 1, 0.6, 0.2, 0.2, 0.2)),
        (S.warmup_cosine(1.0, 0.2, 0, 10), (0, 5, 10), (1, 0.6, 0.2)),
        (S.warmup_cosine(1.0, 0.2, 4, 4), (0, 3, 4, 5), (0.25, 1, 0.2, 0.2)),
        (S.linear(1.0, 0.0, 4), range(6), (1, 0.75, 0.5, 0.25, 0, 0)),
        (S.linear(0.0, 1.0, 0), (0,), (1,)),
        (S.exponential(1.0, 0.5), range(4), (1, 0.5, 0.25, 0.125)),
        (S.one_cycle(1.0, 10, rise=0.4, start_factor=10, end_factor=10), (0, 2, 4, 7, 10, 99), (0.1, 0.55, 1, 0.505, 0.01, 0.01)),
        (S.piecewise([1.0, 0.5, 0.1], [2, 5]), range(7), (1, 1, 0.5, 0.5, 0.5, 0.1, 0.1)),
        (S.join([S.warmup(1.0, 2), S.linear(1.0, 0.0, 2)], [2]), range(5), (0.5, 1, 1, 0.5, 0)),
        (S(lambda step: 1.0 / (1 + step)), (0, 1), (1, 0.5)),
    ],
)  # fmt: skip
def test_rates(schedule: S, steps: Any, rates: Any) -> None:
    assert [schedule.lr_at(step) for step in steps] == pytest.approx(list(rates), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: S.constant(-1.0),
        lambda: S.constant(float("nan")),
        lambda: S.step(1.0, 0, 0.1),
        lambda: S.step(1.0, 1.5, 0.1),  # type: ignore[arg-type]
        lambda: S.cosine(1.0, 0.0, -1),
        lambda: S.one_cycle(1.0, 10, rise=1.5),
        lambda: S.one_cycle(1.0, 10, start_factor=0),
        lambda: S.piecewise([1.0, 2.0], []),
        lambda: S.piecewise([1.0, 2.0, 3.0], [5, 5]),
        lambda: S.join([], []),
        lambda: S.constant(0.1).lr_at(-1),
    ],
)
def test_wrong_arguments(make: Callable[[], object]) -> None:
    with pytest.raises(RlxValueError):
        make()


def test_steps_of_numpy_and_text() -> None:
    assert S.step(1.0, 3).lr_at(np.int64(3)) == pytest.approx(0.1)  # type: ignore[arg-type]
    assert repr(S.warmup(0.4, 4)) == "LrSchedule.warmup(0.4, 4)"
