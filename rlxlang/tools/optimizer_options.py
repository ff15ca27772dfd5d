"""Optimizers and courses of the learning rate, as the command line names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from rlxlang import optim
from rlxlang.diagnostics import RlxValueError, did_you_mean
from rlxlang.schedules import LrSchedule
from rlxlang.tools.data import assignment, static_value

# The learning rate of each optimizer where none is given: what its authors recommend for networks of moderate size.
RATES = {
    "adafactor": 1e-2,
    "adam": 3e-3,
    "adamw": 3e-3,
    "kronpsgd": 3e-3,
    "lamb": 1e-2,
    "lion": 3e-4,
    "mars": 3e-3,
    "muon": 2e-2,
    "nadamw": 3e-3,
    "qhadamw": 3e-3,
    "radam": 3e-3,
    "sgd": 0.1,
    "soap": 3e-3,
    "sophia": 1e-3,
    "stiefel": 0.1,
}
_CLASSES = {name.lower(): getattr(optim, name) for name in optim.__all__ if name.lower() in RATES}
# What `rlx train` sets where nothing is said.
_DEFAULTS: dict[str, dict[str, Any]] = {"sgd": {"momentum": 0.9}}
SCHEDULES: dict[str, Callable[[float, int, int], LrSchedule]] = {
    "constant": lambda rate, steps, warmup: LrSchedule.warmup(rate, warmup),
    "cosine": lambda rate, steps, warmup: LrSchedule.warmup_cosine(rate, 0.01 * rate, warmup, max(steps, warmup)),
    "linear": lambda rate, steps, warmup: _behind_warmup(
        LrSchedule.linear(rate, 0.0, max(steps - warmup, 1)), rate, warmup
    ),
    "exponential": lambda rate, steps, warmup: _behind_warmup(
        LrSchedule.exponential(rate, 0.01 ** (1 / max(steps - warmup, 1))), rate, warmup
    ),
    "one_cycle": lambda rate, steps, warmup: LrSchedule.one_cycle(rate, max(steps, 1)),
}


def _behind_warmup(schedule: LrSchedule, rate: float, warmup: int) -> LrSchedule:
    return LrSchedule.join([LrSchedule.warmup(rate, warmup), schedule], [warmup]) if warmup else schedule


def keywords(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """The keywords of an optimizer from `KEY=VALUE`; several numbers with commas between are a tuple.

    Raises:
        RlxValueError: It has no such keyword.
    """
    known = [p for p in inspect.signature(_CLASSES[name].__init__).parameters if p not in ("self", "lr", "groups")]
    found: dict[str, Any] = {}
    for setting in settings:
        key, text = assignment(setting, "--opt")
        if key not in known:
            raise RlxValueError(
                f"the optimizer {name} has no setting `{key}`",
                notes=(f"it has {', '.join(known)}",),
                helps=(did_you_mean(key, known) or "the learning rate is given by `--lr`",),
            )
        parts = [static_value(part.strip()) for part in text.split(",")]
        found[key] = parts[0] if len(parts) == 1 else tuple(parts)
    return found


def optimizer_of(name: str, rate: float | None, settings: dict[str, Any]) -> optim.Optimizer:
    """An optimizer by its lower-case name.

    Args:
        name: A key of `RATES`.
        rate: The learning rate; that of `RATES` when left out.
        settings: Keywords that it has.

    Raises:
        RlxValueError: A setting is out of its range or of another kind.
    """
    try:
        made: optim.Optimizer = _CLASSES[name](
            RATES[name] if rate is None else rate, **{**_DEFAULTS.get(name, {}), **settings}
        )
    except (TypeError, AttributeError) as problem:
        shown = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        raise RlxValueError(f"the optimizer {name} does not take {shown}: {problem}") from problem
    return made


def schedule_of(name: str, rate: float, steps: int, warmup: int) -> LrSchedule:
    """A course of the learning rate over so many steps, of which the first ones rise to `rate`.

    Raises:
        RlxValueError: A number is out of its range, or the course rises by itself.
    """
    if warmup < 0:
        raise RlxValueError(f"`--warmup` is 0 or more, {warmup} is given")
    if warmup and name == "one_cycle":
        raise RlxValueError("`--warmup` does not go with the schedule one_cycle, which begins with one")
    return SCHEDULES[name](rate, steps, warmup)
