"""Rows of elementwise ops in a few lines: shape rule, batching, lowering and samples follow from a handful of facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.ir import VIA_DECOMPOSITION, ZERO, Op, Rule, Sample, register
from rlxlang.ops.lowering import Elementwise, ScalarBuilder
from rlxlang.ops.rules import Partial, batch_elementwise, derivative_rules, infer_elementwise
from rlxlang.types import DType

REAL = ("float", "int", "uint")
FLOAT = ("float",)
BITS = ("int", "uint", "bool")
ANY = ("float", "int", "uint", "bool", "complex")
ORDERED = ("float", "int", "uint", "bool")

Derivatives = tuple[Partial | None, ...] | Rule | tuple[Callable[..., Any], Callable[..., Any]]


def uniform(*ranges: tuple[float, float]) -> Callable[[np.random.Generator], list[Sample]]:
    """Samples of shapes [3], [2, 3], [] and [2, 1, 4] with each operand drawn from its range."""

    def samples(rng: np.random.Generator) -> list[Sample]:
        shapes: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (), (2, 1, 4))
        return [Sample(tuple(rng.uniform(*r, size=s) for r in ranges), {}) for s in shapes]

    return samples


def integers(low: int, high: int, count: int, dtype: str = "int32") -> Callable[[np.random.Generator], list[Sample]]:
    """Samples of integer operands."""

    def samples(rng: np.random.Generator) -> list[Sample]:
        return [
            Sample(tuple(rng.integers(low, high, size=s).astype(dtype) for _ in range(count)), {}, smooth=False)
            for s in ((4,), (2, 3))
        ]

    return samples


def elementwise(
    name: str,
    doc: str,
    reference: Callable[..., Any],
    samples: Callable[[np.random.Generator], list[Sample]],
    partials: Sequence[Partial | None] | Rule,
    *,
    kinds: Sequence[str] = FLOAT,
    result: DType | None = None,
    guarded: bool = False,
    function: str | ScalarBuilder | None = None,
    decompose: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
) -> Op:
    """Add the row of an elementwise op.

    Args:
        name: Its name, also that of the scalar function unless `function` says otherwise.
        doc: One sentence.
        reference: NumPy function of the operands.
        samples: See `Sample`.
        partials: One partial derivative per operand (None: zero), or a `Rule` for both derivatives.
        kinds: Kinds of dtype it takes.
        result: Dtype of the result when it is not that of the operands.
        guarded: Whether zero tangents and cotangents give zero where a derivative is unbounded.
        function: Scalar function or builder of the expression.
        decompose: For a composite op; it then lowers through its decomposition.
        jvp: A rule that replaces the one from the partials.
        vjp: Likewise.
    """
    if isinstance(partials, Rule):
        rules: tuple[Any, Any] = (partials, partials)
    else:
        rules = derivative_rules(*partials, guarded=guarded)
    composite = decompose is not None and function is None
    return register(
        Op(
            name,
            doc,
            infer_elementwise(name, kinds, result),
            reference,
            jvp or rules[0],
            vjp or rules[1],
            batch_elementwise,
            VIA_DECOMPOSITION if composite else Elementwise(function or name),
            samples,
            decompose=decompose,
        )
    )


def constant_valued(name: str, doc: str, reference: Callable[..., Any], samples: Any, **options: Any) -> Op:
    """Add the row of an elementwise op whose derivative is zero everywhere."""
    return elementwise(name, doc, reference, samples, ZERO, **options)
