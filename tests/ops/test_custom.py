"""custom, remat and barrier as nodes: several results, mixed dtypes, batches, and what lowering leaves of them."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.lower import lower
from rlxlang.ops import emit
from rlxlang.ops.custom import call
from rlxlang.passes import simplify
from rlxlang.transforms import expand, grad, gradients, hvp, jvp, replay, replay_inputs, vmap
from rlxlang.types import F64, I32, TypeProblem

X, W = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.3, -0.7])
N = np.array([1, 2, 3], np.int32)


def _body() -> Graph:
    """x, n, w ↦ tanh(x·w), n + 1, x·w."""
    b = Builder()
    x, n, w = b.input("x", F64, (3,)), b.input("n", I32, (3,)), b.input("w", F64, (3,))
    product = emit.mul(b, x, w)
    results = [b.emit("tanh", product), emit.shift(b, n, 1), product]
    return b.finish("f", map(declare, (x, n, w)), [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])


def _pull() -> Graph:
    """The exact cotangents of x and w."""
    b = Builder()
    x, n, w, g, h = (b.input(k, I32 if k == "n" else F64, (3,)) for k in ("x", "n", "w", "g", "h"))
    slope = emit.one_minus(b, emit.square(b, b.emit("tanh", emit.mul(b, x, w))))
    inner = emit.add(b, emit.mul(b, g, slope), h)
    outputs = [GraphOutput("dx", emit.mul(b, inner, w)), GraphOutput("dw", emit.mul(b, inner, x))]
    return b.finish("f", map(declare, (x, n, w, g, h)), outputs)


def _push() -> Graph:
    """The exact tangents of the two float results."""
    b = Builder()
    x, n, w, t, u = (b.input(k, I32 if k == "n" else F64, (3,)) for k in ("x", "n", "w", "t", "u"))
    inner = emit.add(b, emit.mul(b, t, w), emit.mul(b, x, u))
    slope = emit.one_minus(b, emit.square(b, b.emit("tanh", emit.mul(b, x, w))))
    outputs = [GraphOutput("t0", emit.mul(b, inner, slope)), GraphOutput("t2", inner)]
    return b.finish("f", map(declare, (x, n, w, t, u)), outputs)


FORMS = {
    "vjp": ("custom", {"vjp": _pull(), "jvp": None}),
    "jvp": ("custom", {"vjp": None, "jvp": _push()}),
    "both": ("custom", {"vjp": _pull(), "jvp": _push()}),
    "remat": ("remat", {}),
}


def _loss(form: str | None) -> Graph:
    """Σ (y0 · n' + y2²) with the function as a node, or plain for None; n' as a further output."""
    b = Builder()
    inputs = [b.input("x", F64, (3,)), b.input("n", I32, (3,)), b.input("w", F64, (3,))]
    if form is None:
        y0, count, y2 = _plain(b, *inputs)
    else:
        op, rules = FORMS[form]
        y0, count, y2 = call(b, op, inputs, body=_body(), **rules)
    terms = emit.add(b, emit.mul(b, y0, emit.cast(b, count, F64)), emit.square(b, y2))
    outputs = [GraphOutput("loss", emit.reduce_sum(b, terms, (0,))), GraphOutput("count", count)]
    return b.finish("loss", map(declare, inputs), outputs)


def _plain(b: Builder, x: Node, n: Node, w: Node) -> list[Node]:
    product = emit.mul(b, x, w)
    return [b.emit("tanh", product), emit.shift(b, n, 1), product]


GIVEN = {"x": X, "n": N, "w": W}


@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients(form: str) -> None:
    for transform in (lambda g: g, lambda g: grad(g, ["x", "w"]), lambda g: vmap(grad(g, ["w"]), {"n": 0}, 2)):
        arrays = GIVEN | (
            {"n": np.stack([N, N + 1])} if transform(_loss(None)).input("n").node.tensor.rank == 2 else {}
        )
        found, want = evaluate(transform(_loss(form)), arrays), evaluate(transform(_loss(None)), arrays)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("form", ["jvp", "both", "remat"])
def test_forward_and_mixed_mode(form: str) -> None:
    way = {"tangent_x": W, "tangent_w": X}
    for transform in (jvp, hvp):
        found = evaluate(transform(_loss(form), ["x", "w"]), GIVEN | way)
        want = evaluate(transform(_loss(None), ["x", "w"]), GIVEN | way)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("form", FORMS)
def test_reverse_over_reverse(form: str) -> None:
    def twice(form: str | None) -> Graph:
        first = grad(_loss(form), ["x"])
        b = Builder()
        env, inputs = replay_inputs(b, first)
        replay(b, first, env)
        d = env[first.outputs[0].node]
        (dd,) = gradients(b, emit.reduce_sum(b, emit.square(b, d), (0,)), [env[first.inputs[2].node]])
        return b.finish("twice", inputs, [GraphOutput("dd", dd)])

    np.testing.assert_allclose(evaluate(twice(form), GIVEN)[0], evaluate(twice(None), GIVEN)[0])


def test_lowering_leaves_nothing_of_them() -> None:
    for form in FORMS:
        graph = expand(_loss(form), "lower")[0]
        assert not {n.op.name for n in graph.nodes} & {"custom", "remat", "item"}


def test_a_barrier_keeps_equal_values_apart() -> None:
    b = Builder()
    x = b.input("x", F64, (3,))
    pair = [b.emit("tanh", x), b.emit("tanh", b.emit("barrier", x))]
    outputs = [GraphOutput("y", emit.mul(b, *pair))]
    graph = simplify(b.finish("g", [declare(x)], outputs))
    assert sum(n.op.name == "tanh" for n in graph.nodes) == 2
    # One kernel for each side: the recomputation is not fused with what came before.
    steps = lower(grad(_chain(), ["x"])).program.steps
    assert len(steps) >= 2
    np.testing.assert_allclose(evaluate(graph, {"x": X})[0], np.tanh(X) ** 2)


def _chain() -> Graph:
    b = Builder()
    x = b.input("x", F64, (3,))
    inner = Builder()
    y = inner.input("y", F64, (3,))
    body = inner.finish("f", [declare(y)], [GraphOutput("r", inner.emit("tanh", y))])
    (r,) = call(b, "remat", [b.emit("exp", x)], body=body)
    return b.finish("g", [declare(x)], [GraphOutput("loss", emit.reduce_sum(b, r, (0,)))])


def test_types_are_those_of_the_body() -> None:
    b = Builder()
    x = b.input("x", F64, (3,))
    with pytest.raises(TypeProblem) as caught:
        b.emit("remat", x, body=_body())
    assert caught.value.code == "E0600"
    with pytest.raises(TypeProblem) as caught:
        b.emit("remat", x, x, x, body=_body())
    assert caught.value.code == "E0302"
