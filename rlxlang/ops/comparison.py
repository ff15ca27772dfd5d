"""Comparisons, tests of floats, and the choice between two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Node, Op, Sample, register
from rlxlang.ops import emit
from rlxlang.ops.elementwise import ANY, FLOAT, ORDERED, constant_valued, uniform
from rlxlang.ops.lowering import Elementwise
from rlxlang.ops.rules import batch_elementwise
from rlxlang.types import BOOL, ShapeContext, TensorType, TypeProblem

_PAIRS = ((-2.0, 2.0), (-2.0, 2.0))
for _name, _function, _doc in (
    ("eq", np.equal, "Equal."),
    ("ne", np.not_equal, "Not equal; NaN differs from everything."),
    ("lt", np.less, "Less."),
    ("le", np.less_equal, "Less or equal."),
    ("gt", np.greater, "Greater."),
    ("ge", np.greater_equal, "Greater or equal."),
):
    _kinds = ANY if _name in ("eq", "ne") else ORDERED
    constant_valued(_name, _doc, _function, uniform(*_PAIRS), kinds=_kinds, result=BOOL)

for _name, _test, _doc in (
    ("isnan", np.isnan, "Whether a value is NaN."),
    ("isinf", np.isinf, "Whether a value is inf or -inf."),
    ("isfinite", np.isfinite, "Whether a value is neither NaN nor infinite."),
):
    constant_valued(_name, _doc, _test, uniform((-2.0, 2.0)), kinds=FLOAT, result=BOOL)


def _infer_select(context: ShapeContext, condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if condition.dtype != BOOL:
        raise TypeProblem("E0301", f"the condition of `where` is Bool, and {condition.dtype} is given")
    if x.dtype != y.dtype:
        raise TypeProblem("E0302", f"the dtypes of the branches of `where` differ: {x.dtype} and {y.dtype}")
    what = "the shapes of the operands of `where`"
    shape = context.same_shape(condition.shape, x.shape, what)
    return TensorType(x.dtype, context.same_shape(shape, y.shape, what))


def _jvp_select(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Node | None:
    x, y = tangents[1:]
    if x is None and y is None:
        return None
    zero = b.zeros_like(node)
    return emit.select(b, primals[0], zero if x is None else x, zero if y is None else y)


def _vjp_select(b: Builder, node: Node, primals: Sequence[Node], ct: Node) -> tuple[Any, ...]:
    return None, emit.keep(b, primals[0], ct), emit.drop(b, primals[0], ct)


def _samples_select(rng: np.random.Generator) -> list[Sample]:
    shapes: tuple[tuple[int, ...], ...] = ((5,), (2, 3), ())
    return [
        Sample((rng.integers(0, 2, size=s).astype(bool), rng.normal(size=s), rng.normal(size=s)), {}) for s in shapes
    ]


SELECT = register(
    Op(
        "select",
        "The second operand where the first is true, else the third.",
        _infer_select,
        np.where,
        _jvp_select,
        _vjp_select,
        batch_elementwise,
        Elementwise("where"),
        _samples_select,
    )
)
