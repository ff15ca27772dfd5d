"""An array that is to become a trainable parameter of a program it is bound into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """An array that becomes a trainable parameter when it is bound into a program (`bind=`).

    Attributes:
        data: Its value.
        name: Its run-time name; empty: the path under which it is bound, `layers.0.w`.
    """

    data: np.ndarray[Any, Any]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", np.asarray(self.data))
