"""Parameter groups: settings of the parameters whose names match a pattern."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxValueError, did_you_mean

_KEYS = ("match", "lr_scale", "weight_decay", "frozen")


@dataclass(frozen=True, slots=True)
class Group:
    """Settings of some parameters.

    Attributes:
        match: A glob pattern over run-time names: `*.bias`, `embed.*`, `layers.?.w`.
        lr_scale: Factor on the learning rate, not negative.
        weight_decay: Replaces that of the optimizer; None keeps it.
        frozen: Whether the parameters stay as they are, without gradients and without state.
    """

    match: str
    lr_scale: float = 1.0
    weight_decay: float | None = None
    frozen: bool = False


class Groups:
    """Settings by name; of several groups that match, the first wins."""

    def __init__(self, groups: Iterable[Mapping[str, Any]], weight_decay: float) -> None:
        self._groups = tuple(_parse(entry) for entry in groups)
        self._weight_decay = weight_decay

    def of(self, name: str) -> Group | None:
        """The group of a parameter, or None."""
        return next((g for g in self._groups if fnmatchcase(name, g.match)), None)

    def lr_scale(self, name: str) -> float:
        """The factor on the learning rate of a parameter."""
        group = self.of(name)
        return 1.0 if group is None else group.lr_scale

    def weight_decay(self, name: str) -> float:
        """The weight decay of a parameter."""
        group = self.of(name)
        return self._weight_decay if group is None or group.weight_decay is None else group.weight_decay

    def is_frozen(self, name: str) -> bool:
        """Whether a parameter stays as it is."""
        group = self.of(name)
        return group is not None and group.frozen


def _parse(entry: Mapping[str, Any]) -> Group:
    for key in entry:
        if key not in _KEYS:
            raise RlxValueError(
                f"a parameter group has no setting {key!r}",
                notes=(f"its settings are {', '.join(_KEYS)}",),
                helps=tuple(filter(None, (did_you_mean(str(key), _KEYS),))),
            )
    if not isinstance(entry.get("match"), str):
        raise RlxValueError(
            "a parameter group needs `match`, a pattern of names", helps=('write {"match": "*.bias", …}',)
        )
    for key in ("lr_scale", "weight_decay"):
        if key in entry:
            require_not_negative("groups", **{key: entry[key]})
    frozen = entry.get("frozen", False)
    if not isinstance(frozen, bool):
        raise RlxValueError(f"`groups`: `frozen` is True or False, {frozen!r} is given")
    decay = entry.get("weight_decay")
    return Group(entry["match"], float(entry.get("lr_scale", 1.0)), None if decay is None else float(decay), frozen)


def require_not_negative(optimizer: str, **values: object) -> None:
    """Refuse settings that are negative, infinite or no numbers.

    Raises:
        RlxValueError: Naming the setting.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
            raise RlxValueError(
                f"`{optimizer}`: `{name}` is a number that is finite and not negative, {value!r} is given"
            )


def require_fraction(optimizer: str, **values: object) -> None:
    """Refuse settings outside [0, 1).

    Raises:
        RlxValueError: Naming the setting.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise RlxValueError(f"`{optimizer}`: `{name}` is a number in [0, 1), {value!r} is given")


def require_count(optimizer: str, **values: object) -> None:
    """Refuse what is no integer of 1 or more.

    Raises:
        RlxValueError: Naming the setting.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise RlxValueError(f"`{optimizer}`: `{name}` is an integer of 1 or more, {value!r} is given")
