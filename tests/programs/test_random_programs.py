"""Random programs: devices agree with the interpreter, gradients too, and the canonical layout changes nothing.

A longer run: `python tools/random_programs.py --start 1000 --count 20000`.
"""

from __future__ import annotations

import pytest

from tests.programs.campaign import check_format, check_gradients, check_values
from tests.programs.random_programs import RandomProgram


@pytest.mark.parametrize("seed", range(16))
def test_values(seed: int) -> None:
    check_values(RandomProgram(seed))


@pytest.mark.parametrize("seed", range(40, 46))
def test_gradients(seed: int) -> None:
    check_gradients(RandomProgram(seed, 5))


@pytest.mark.parametrize("seed", range(100, 160))
def test_layout(seed: int) -> None:
    check_format(RandomProgram(seed))
