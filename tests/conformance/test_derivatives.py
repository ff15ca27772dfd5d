"""Forward rules are finite differences, reverse rules are their transposes, and both hold again one order higher."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import Graph, Op, Sample
from rlxlang.transforms import jvp, vjp
from tests.oracles import (
    FINITE_DIFFERENCE,
    Array,
    arrays_of,
    assert_close,
    cases,
    directional_difference,
    float_inputs,
    float_outputs,
    graph_of,
)

STRAIGHT_THROUGH = ("round",)  # its derivative is meant to differ from that of its values
SMOOTH = [
    pytest.param(op, s, id=name)
    for name, op, s in cases()
    if s.smooth and any(a.dtype == np.float64 for a in s.args) and op.name not in STRAIGHT_THROUGH
]


def _is_differentiable(op: Op, sample: Sample) -> bool:
    return bool(float_outputs(graph_of(op, sample)))


def _is_finite(op: Op, sample: Sample) -> bool:
    return all(np.all(np.isfinite(v)) for v in evaluate(graph_of(op, sample), arrays_of(sample)))


# Some exclusive prefixes start at -inf, where no difference is defined.
REVERSE = [p for p in SMOOTH if _is_differentiable(*p.values)]
TWICE = [p for p in REVERSE if _is_finite(*p.values)]


def _directions(names: list[str], arrays: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    return {n: rng.normal(size=arrays[n].shape) for n in names}


def _tangents(ways: dict[str, Array]) -> dict[str, Array]:
    return {f"tangent_{n}": w for n, w in ways.items()}


def _check_forward(graph: Graph, arrays: dict[str, Array], names: list[str], rng: np.random.Generator) -> None:
    ways = _directions(names, arrays, rng)
    results = evaluate(jvp(graph, names), arrays | _tangents(ways))
    count = len(graph.outputs)
    differences = directional_difference(graph, arrays, ways)
    for k in float_outputs(graph):
        known = np.isfinite(differences[k])
        rtol, atol = FINITE_DIFFERENCE
        tangent = results[count + k]
        np.testing.assert_allclose(tangent[known], differences[k][known], rtol=rtol, atol=atol)


def _check_reverse(graph: Graph, arrays: dict[str, Array], names: list[str], rng: np.random.Generator) -> None:
    ways = _directions(names, arrays, rng)
    count = len(graph.outputs)
    pushed = evaluate(jvp(graph, names), arrays | _tangents(ways))
    outputs = float_outputs(graph)
    weights = {k: rng.normal(size=pushed[k].shape) for k in outputs}
    reverse_graph = vjp(graph, names)
    new = [entry.name for entry in reverse_graph.inputs[len(graph.inputs) :]]
    pulled = evaluate(reverse_graph, arrays | dict(zip(new, weights.values(), strict=True)))[count:]
    forward = sum(np.vdot(weights[k], pushed[count + k]) for k in outputs)
    reverse = sum(np.vdot(p, ways[n]) for p, n in zip(pulled, names, strict=True))
    assert_close(np.array(reverse), np.array(forward), factor=1000)


@pytest.mark.parametrize(("op", "sample"), SMOOTH)
def test_jvp_is_the_directional_derivative(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(op, sample)
    _check_forward(graph, arrays_of(sample), float_inputs(graph), rng)


@pytest.mark.parametrize(("op", "sample"), SMOOTH)
def test_jvp_by_one_operand(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(op, sample)
    for name in float_inputs(graph):
        _check_forward(graph, arrays_of(sample), [name], rng)


@pytest.mark.parametrize(("op", "sample"), REVERSE)
def test_vjp_is_the_transpose_of_jvp(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(op, sample)
    names = float_inputs(graph)
    _check_reverse(graph, arrays_of(sample), names, rng)
    _check_reverse(graph, arrays_of(sample), names[:1], rng)


@pytest.mark.parametrize(("op", "sample"), TWICE)
def test_second_order(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(op, sample)
    names = float_inputs(graph)
    reverse = vjp(graph, names)
    arrays = arrays_of(sample)
    for entry in reverse.inputs:
        arrays.setdefault(entry.name, rng.normal(size=entry.node.shape))
    names = float_inputs(reverse)
    _check_forward(reverse, arrays, names, rng)
    _check_reverse(reverse, arrays, names, rng)
