"""Threefry-2x32 with 20 rounds: a bijection of 64-bit counters for every 64-bit key, whose words are random numbers.

Nothing but additions, rotations and exclusive ors of 32-bit words, so every device computes the same bits, in any order and as often
as it likes. One text serves arrays, Python numbers and the scalar expressions of kernels.

Source:
    Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 4.2; rotations and the parity constant
    as in their Random123 1.06, whose known answers the tests repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from rlxlang.kernels import Apply, Const, Expr
from rlxlang.types import U32, DType

ROUNDS = 20
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MASK = 0xFFFFFFFF

# High words of counters beyond all positions in a tensor, so that no key is made of words that are random numbers elsewhere.
FOLDS = 0x40000000  # `fold_in`, ops and steps of loops
LANES = 0x40000001  # lanes of a batch
UPDATES = 0x40000002  # steps of a training run
PROBES = 0x40000003  # random directions of optimizers

Word = TypeVar("Word")


class Arithmetic(Protocol, Generic[Word]):
    """Arithmetic of 32-bit words, modulo 2³²."""

    def add(self, x: Word, y: Word) -> Word:
        """`x + y`."""
        ...

    def xor(self, x: Word, y: Word) -> Word:
        """`x ^ y`."""
        ...

    def rotate(self, x: Word, count: int) -> Word:
        """`x` with its bits moved up by `count` places, around the end."""
        ...

    def number(self, value: int) -> Word:
        """A known word."""
        ...


def threefry(words: Arithmetic[Word], key: tuple[Word, Word], counter: tuple[Word, Word]) -> tuple[Word, Word]:
    """The two random words of a key and a counter (low word first)."""
    parity = words.xor(words.xor(key[0], key[1]), words.number(_PARITY))
    schedule = (key[0], key[1], parity)
    x, y = words.add(counter[0], key[0]), words.add(counter[1], key[1])
    for group in range(ROUNDS // 4):
        for count in _ROTATIONS[group % 2]:
            x = words.add(x, y)
            y = words.xor(words.rotate(y, count), x)
        x = words.add(x, schedule[(group + 1) % 3])
        y = words.add(y, words.add(schedule[(group + 2) % 3], words.number(group + 1)))
    return x, y


class _Arrays:
    """NumPy arrays of uint32."""

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def xor(self, x: Any, y: Any) -> Any:
        return x ^ y

    def rotate(self, x: Any, count: int) -> Any:
        return (x << np.uint32(count)) | (x >> np.uint32(32 - count))

    def number(self, value: int) -> Any:
        return np.uint32(value)


class _Numbers:
    """Python integers."""

    def add(self, x: int, y: int) -> int:
        return (x + y) & _MASK

    def xor(self, x: int, y: int) -> int:
        return x ^ y

    def rotate(self, x: int, count: int) -> int:
        return ((x << count) | (x >> (32 - count))) & _MASK

    def number(self, value: int) -> int:
        return value


class _Expressions:
    """Scalar expressions of kernels."""

    def add(self, x: Expr, y: Expr) -> Expr:
        return Apply("add", (x, y), U32)

    def xor(self, x: Expr, y: Expr) -> Expr:
        return Apply("xor", (x, y), U32)

    def rotate(self, x: Expr, count: int) -> Expr:
        up = Apply("shl", (x, Const(count, U32)), U32)
        return Apply("or", (up, Apply("shr", (x, Const(32 - count, U32)), U32)), U32)

    def number(self, value: int) -> Expr:
        return Const(value, U32)


def random_words(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """The random words of NumPy arrays of uint32, which broadcast."""
    with np.errstate(over="ignore"):
        return threefry(_Arrays(), key, counter)


def random_expr(args: tuple[Expr, ...], attrs: Mapping[str, Any], dtype: DType) -> Expr:
    """The expression of one random word: operands are key and counter, low words first; attribute word."""
    return threefry(_Expressions(), (args[0], args[1]), (args[2], args[3]))[attrs["word"]]


def fold_number(key: tuple[int, int], number: int, domain: int) -> tuple[int, int]:
    """The key that a key and a number below 2³² make; `domain` is one of the constants above."""
    return threefry(_Numbers(), key, (number & _MASK, domain))


def key_of_seed(seed: int) -> tuple[int, int]:
    """The key of a seed: its low and its high 32 bits, negative numbers in two's complement."""
    return seed & _MASK, (seed >> 32) & _MASK
