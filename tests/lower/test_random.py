"""Lowered programs compute what the graph means: random graphs, interpreted both ways."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rlxlang.backends.reference import ReferenceBackend
from rlxlang.interp import evaluate
from rlxlang.lower import lower

sys.path.insert(0, str(Path(__file__).parent))
from random_graphs import RandomGraph


@pytest.mark.parametrize("seed", range(150))
def test_lowered_program_agrees_with_the_graph(seed: int) -> None:
    maker = RandomGraph(seed)
    graph, arrays = maker.build(), maker.arrays()
    lowered = lower(graph, threads=2)
    executable = ReferenceBackend().compile(lowered.program)
    with np.errstate(all="ignore"):
        want = evaluate(graph, arrays, maker.sizes)
        got = executable.run({lowered.buffer_of[name]: array for name, array in arrays.items()}, maker.sizes)
    for output, left, right in zip(graph.outputs, got, want, strict=True):
        assert left.shape == right.shape
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed}, {output.name}")
