"""Shape rules agree with what references give, for numbers and for dynamic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import Graph, Op, Sample
from rlxlang.types import F32
from rlxlang.types import evaluate as evaluate_dim
from tests.oracles import arrays_of, assert_close, cases, dynamic_graph_of, graph_of


def _has_body(sample: Sample) -> bool:
    """Graphs in attributes have sizes and a meaning of their own: tests/ops/test_control.py, test_custom.py."""
    return any(isinstance(value, Graph) for value in sample.attrs.values())


def _parts(found: Any) -> list[np.ndarray[Any, Any]]:
    """The results of an op: most have one, some a tuple."""
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


CASES = [pytest.param(op, s, id=name) for name, op, s in cases() if not _has_body(s)]
FLOATS = [
    pytest.param(op, s, id=name)
    for name, op, s in cases()
    if not _has_body(s) and any(a.dtype == np.float64 for a in s.args)
]
OPERANDS = [pytest.param(op, s, id=name) for name, op, s in cases() if not _has_body(s) and s.args]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_the_reference_has_the_inferred_type(op: Op, sample: Sample) -> None:
    graph = graph_of(op, sample)
    with np.errstate(all="ignore"):
        found = op.reference(*sample.args, **sample.attrs)
    for value, output in zip(_parts(found), graph.outputs, strict=True):
        assert value.shape == output.node.shape
        assert value.dtype == output.node.dtype.numpy


@pytest.mark.parametrize(("op", "sample"), FLOATS)
def test_f32_operands_give_the_inferred_dtype(op: Op, sample: Sample) -> None:
    narrow = Sample(tuple(a.astype(np.float32) if a.dtype == np.float64 else a for a in sample.args), sample.attrs)
    graph = graph_of(op, narrow)
    with np.errstate(all="ignore"):
        found = op.reference(*narrow.args, **narrow.attrs)
    wide = evaluate(graph_of(op, sample), arrays_of(sample))
    for value, output, expected in zip(_parts(found), graph.outputs, wide, strict=True):
        assert value.dtype == output.node.dtype.numpy
        if output.node.dtype == F32:
            assert_close(value, expected, "F32", factor=10)


@pytest.mark.parametrize(("op", "sample"), OPERANDS)
def test_dynamic_axes_give_the_same_values(op: Op, sample: Sample) -> None:
    graph, sizes = dynamic_graph_of(op, sample)
    want = evaluate(graph_of(op, sample), arrays_of(sample))
    found = evaluate(graph, arrays_of(sample))
    for value, expected, output in zip(found, want, graph.outputs, strict=True):
        assert_close(value, expected)
        assert tuple(evaluate_dim(d, sizes) for d in output.node.shape) == value.shape
