"""Batching rules are loops: every mix of batched and shared operands, batch axes anywhere."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import Graph, Node, Op, Sample
from rlxlang.transforms import jvp, vjp, vmap
from tests.oracles import (
    Array,
    arrays_of,
    assert_close,
    cases,
    float_inputs,
    float_outputs,
    graph_of,
    lanes_of,
    random_array,
)

LANES = 3
CASES = [pytest.param(op, s, id=name) for name, op, s in cases() if s.args]


def _is_differentiable(op: Op, sample: Sample) -> bool:
    graph = graph_of(op, sample)
    return bool(sample.smooth and float_inputs(graph) and float_outputs(graph))


SMOOTH = [p for p in CASES if _is_differentiable(*p.values)]


def _check(
    graph: Graph, arrays: dict[str, Array], axes: dict[str, int], rng: np.random.Generator, *, mixable: bool
) -> None:
    lanes = {n: lanes_of(arrays[n], LANES, rng, mixable=mixable) for n in axes}
    stacked = {n: np.stack(lanes[n], axes[n]) if n in axes else a for n, a in arrays.items()}
    found = evaluate(vmap(graph, axes, LANES), stacked)
    loop = [evaluate(graph, {n: lanes[n][k] if n in axes else a for n, a in arrays.items()}) for k in range(LANES)]
    for k, value in enumerate(found):
        assert_close(value, np.stack([results[k] for results in loop]), factor=100)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_batch_is_a_loop(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph, arrays = graph_of(op, sample), arrays_of(sample)
    for mix in product((False, True), repeat=len(arrays)):
        if any(mix):
            chosen = [n for n, on in zip(arrays, mix, strict=True) if on]
            _check(
                graph,
                arrays,
                {n: int(rng.integers(0, arrays[n].ndim + 1)) for n in chosen},
                rng,
                mixable=sample.mixable,
            )
            _check(graph, arrays, {n: arrays[n].ndim for n in chosen}, rng, mixable=sample.mixable)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_batch_of_a_dynamic_number(op: Op, sample: Sample) -> None:
    graph, arrays = graph_of(op, sample), arrays_of(sample)
    name = next(iter(arrays))
    whole = vmap(graph, {name: 0})
    for count in (1, 2):
        stacked = arrays | {name: np.stack([arrays[name]] * count)}
        for value, one in zip(evaluate(whole, stacked), evaluate(graph, arrays), strict=True):
            assert_close(value, np.stack([one] * count), factor=100)


def _direction(node: Node, rng: np.random.Generator) -> Array:
    return random_array(node.dtype, node.shape, rng).astype(node.dtype.numpy)


@pytest.mark.parametrize(("op", "sample"), SMOOTH)
def test_batch_of_derivatives(op: Op, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(op, sample)
    names = float_inputs(graph)
    for transform in (jvp, vjp):
        derived = transform(graph, names)
        arrays = arrays_of(sample)
        for entry in derived.inputs:
            if entry.name not in arrays:
                arrays[entry.name] = _direction(entry.node, rng)
        _check(
            derived, arrays, {n: 0 for n in arrays if n.startswith(("ct_", "tangent_"))}, rng, mixable=sample.mixable
        )
        _check(derived, arrays, dict.fromkeys(arrays, 0), rng, mixable=sample.mixable)
