"""Every row of the op table is complete, and composite ops mean what their decomposition means."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import OPS, SURFACES, Builder, GraphOutput, Op, Rule, Sample, declare
from rlxlang.kernels import FUNCTIONS, REDUCTIONS
from rlxlang.ops import METHODS
from rlxlang.ops.lowering import Elementwise, Prefix, Reduction
from rlxlang.types import BF16, F16, F32, from_numpy
from tests.oracles import arrays_of, assert_close, cases, graph_of

NO_SAMPLES = ("input", "item")
COMPOSITE = [pytest.param(op, s, id=name) for name, op, s in cases() if op.decompose is not None]


def _takes_floats(op: Op, sample: Sample) -> bool:
    """Whether the dtype of the result is that of float operands: not that of a body or of an attribute, and no position."""
    if "body" in sample.attrs or not any(a.dtype == np.float64 for a in sample.args):
        return False
    return bool(graph_of(op, sample).outputs[0].node.dtype.is_float)


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_rows_are_complete(op: Op) -> None:
    assert op.doc.endswith(".")
    assert callable(op.batch) or op.batch is Rule.VIA_DECOMPOSITION
    for rule in (op.jvp, op.vjp):
        assert callable(rule) or isinstance(rule, Rule)
    assert bool(op.samples(np.random.default_rng(0))) != (op.name in NO_SAMPLES)


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_lowering_names_known_functions(op: Op) -> None:
    record = op.lower
    if isinstance(record, Elementwise) and isinstance(record.function, str):
        assert record.function in FUNCTIONS
    if isinstance(record, (Reduction, Prefix)):
        assert record.op in REDUCTIONS


@pytest.mark.parametrize("name", SURFACES)
def test_surfaces_are_documented(name: str) -> None:
    surface = SURFACES[name]
    assert surface.doc.endswith(".")
    required = [p.default for p in surface.parameters]
    assert required == sorted(required, key=lambda d: repr(d) != "required"), "options come after required parameters"


@pytest.mark.parametrize("name", [*SURFACES, *METHODS])
def test_surfaces_build_from_their_parameters(name: str) -> None:
    for surface in (SURFACES.get(name), METHODS.get(name)):
        if surface is not None:
            given = dict.fromkeys(p.name for p in surface.parameters)
            inspect.signature(surface.build).bind(Builder(), **given)


@pytest.mark.parametrize(("op", "sample"), COMPOSITE)
def test_the_decomposition_has_the_meaning_of_the_reference(op: Op, sample: Sample) -> None:
    b = Builder()
    inputs = [b.input(f"x{k}", from_numpy(a.dtype), a.shape) for k, a in enumerate(sample.args)]
    result = op.decompose(b, *inputs, **sample.attrs)
    graph = b.finish("parts", [declare(n) for n in inputs], [GraphOutput("y", result)])
    whole = graph_of(op, sample)
    assert result.type == whole.outputs[0].node.type
    assert_close(evaluate(graph, arrays_of(sample))[0], evaluate(whole, arrays_of(sample))[0], factor=100)


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize(("op", "sample"), [p for p in COMPOSITE if _takes_floats(*p.values)])
def test_half_precision_decompositions(op: Op, sample: Sample, dtype: object) -> None:
    half = {k: dtype for k, a in enumerate(sample.args) if a.dtype == np.float64}
    arrays = {n: a.astype(dtype.numpy) if a.dtype == np.float64 else a for n, a in arrays_of(sample).items()}
    b = Builder()
    inputs = [b.input(n, from_numpy(a.dtype), a.shape) for n, a in arrays.items()]
    result = op.decompose(b, *inputs, **sample.attrs)
    assert result.dtype == dtype
    graph = b.finish("parts", [declare(n) for n in inputs], [GraphOutput("y", result)])
    found = evaluate(graph, arrays)[0]
    want = evaluate(graph_of(op, sample, half), arrays)[0]
    assert found.dtype == want.dtype == dtype.numpy
    assert_close(found, want, dtype.name, factor=4)
    assert F32.numpy != found.dtype
