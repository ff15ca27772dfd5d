"""Numbers that a user gives."""

from __future__ import annotations

import numpy as np

from rlxlang.diagnostics import RlxValueError


def whole_number(name: str, value: object, least: int) -> int:
    """A number of rows, epochs and so forth.

    Raises:
        RlxValueError: It is no integer, or less than `least`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise RlxValueError(f"`{name}` is a whole number, at least {least}; {value!r} is given")
    return int(value)
