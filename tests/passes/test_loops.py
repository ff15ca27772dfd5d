"""Results of loops and branches that nothing reads are not computed, and what is left keeps its value."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.interp import evaluate
from rlxlang.passes import simplify

SCAN = """
input x: [4]; input k: []; input z: [];
scan a = 0.0, c = 1.0, d = 2.0 over t in x {
    let a = a + t * c; let c = c * k; let d = d * sin(z);
    emit a * 2.0 as first; emit exp(d) as second;
}
"""
WHILE = """
input k: []; input z: [];
loop i = 0.0, a = 1.0, c = 2.0 while i < 3.0 max 10 { let i = i + 1.0; let a = a * k; let c = c + exp(z); }
"""
COND = "input k: []; input z: []; if k > 0.0 { let a = k * 2.0; let c = exp(z); } else { let a = k; let c = z; }"
GIVEN = {"x": np.arange(4, dtype=np.float32), "k": np.float32(0.5), "z": np.float32(0.3)}


@pytest.mark.parametrize(
    ("text", "outputs", "results", "inputs", "gone"),
    [
        (SCAN, "first", 3, 4, {"exp", "sin"}),  # a, its c, the emit · a, c, x, k
        (SCAN, "d", 1, 2, {"add"}),
        (SCAN, "a, second", 4, 6, set()),
        (WHILE, "a", 2, 3, {"exp"}),  # i, which the condition asks for, stays
        (COND, "a", 1, 2, {"exp"}),
        (COND, "a, c", 2, 3, set()),
    ],
)
def test_what_nobody_reads_goes(text: str, outputs: str, results: int, inputs: int, gone: set[str]) -> None:
    names = outputs.split(", ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rlx.RlxWarning)  # names that are not used
        graph = rlx.loads(text + "".join(f"out y{k} = {n};" for k, n in enumerate(names))).graph
    simple = simplify(graph)
    node = next(n for n in simple.nodes if n.op.name in ("scan", "while", "cond"))
    bodies = [v for v in node.attrs.values() if hasattr(v, "outputs")]
    assert len(bodies[-1].outputs) == results
    assert len(node.inputs) == inputs
    assert not gone & {n.op.name for body in bodies for n in body.nodes}
    given = {e.name: GIVEN[e.name] for e in graph.inputs}
    for left, right in zip(evaluate(simple, given), evaluate(graph, given), strict=True):
        np.testing.assert_array_equal(left, right)
    for device in ("cpu", "reference"):
        func = rlx.Func.from_graph(graph)
        for left, right in zip(func.run_on(device, given), evaluate(graph, given), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-6)
