"""Random directions of optimizers: the same for the same seed, step and name, in host form and compiled."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from rlxlang.ops.threefry import PROBES, fold_number, key_of_seed
from rlxlang.optim.arrays import Arithmetic, Value

_PARTS = ("key0", "key1", "key2", "key3")


def key_scalars(seed: int, t: int) -> dict[str, float]:
    """The key of step `t` in four numbers below 2¹⁶, which every float dtype of an update holds exactly."""
    words = fold_number(key_of_seed(seed), t, PROBES)
    return dict(zip(_PARTS, (float(half) for w in words for half in (w & 0xFFFF, w >> 16)), strict=True))


def random_signs(x: Arithmetic, name: str, like: Value, hyper: Mapping[str, Value]) -> Value:
    """-1 or 1 for every element of the parameter `name`, by the scalars of `key_scalars`.

    Independent entries of mean 0 and variance 1 are all that the estimates made from such directions ask for.
    """
    return x.signs(like, [hyper[part] for part in _PARTS], zlib.crc32(name.encode()))
