"""Func.remat as a transform of graphs: names, order, guards and derivatives stay."""

from __future__ import annotations

import numpy as np

from rlxlang.interp import evaluate
from rlxlang.transforms import grad, jvp, remat, vmap
from tests.frontend.elaboration import graph_of

TEXT = "input x: [?n]; param w: [?m]; let h = tanh(x * w); out loss = sum(h * h), other = h; tap h;"
GIVEN = {"x": np.array([0.5, -1.0], np.float32), "w": np.array([2.0, 0.3], np.float32)}


def test_the_interface_stays() -> None:
    graph = graph_of(TEXT)
    found = remat(graph)
    assert [(i.name, i.kind) for i in found.inputs] == [("x", "input"), ("w", "param")]
    assert [(o.name, o.role) for o in found.outputs] == [("loss", "out"), ("other", "out"), ("h", "tap")]
    assert {str(g.guard) for g in found.guards} >= {str(g.guard) for g in graph.guards}


def test_transforms_in_any_order() -> None:
    graph = graph_of(TEXT)
    way = {"tangent_w": GIVEN["x"]}
    lanes = GIVEN | {"x": np.stack([GIVEN["x"], GIVEN["w"]])}
    for transform, arrays in (
        (lambda g: grad(g, ["x", "w"]), GIVEN),
        (lambda g: jvp(g, ["w"]), GIVEN | way),
        (lambda g: jvp(grad(g, ["x"]), ["w"]), GIVEN | way),
        (lambda g: vmap(grad(g, ["w"]), {"x": 0}, 2), lanes),
    ):
        want = evaluate(transform(graph), arrays)
        for found in (transform(remat(graph)), remat(transform(graph)), remat(transform(remat(graph)))):
            for a, b in zip(evaluate(found, arrays), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_recomputation_starts_behind_barriers() -> None:
    found = grad(remat(graph_of(TEXT)), ["x"])
    tanhs = [n for n in found.nodes if n.op.name == "tanh"]
    assert tanhs
    for node in tanhs:
        assert all(factor.op.name == "barrier" for factor in node.inputs[0].inputs)
