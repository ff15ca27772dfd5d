"""while and cond: values, both derivatives, batching with its own number of steps in each lane, no NaN from steps not taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rlxlang.diagnostics import RlxTransformError
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.ops.control_branch import cond
from rlxlang.ops.control_loop import while_loop
from rlxlang.transforms import grad, hvp, jvp, vmap
from rlxlang.types import BOOL, F64, I32, DimLike, TypeProblem

Array = np.ndarray


def _graph(shapes: dict[str, tuple[object, tuple[int, ...]]], make: Callable[..., list[Node]]) -> Graph:
    b = Builder()
    nodes = [b.input(name, dtype, shape) for name, (dtype, shape) in shapes.items()]
    results = make(b, *nodes)
    return b.finish("g", map(declare, nodes), [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])


def _total(b: Builder, x: Node) -> Node:
    return emit.reduce_sum(b, x, range(len(x.shape)))


def _growth(limit: DimLike | None) -> Graph:
    """loss = Σ h² after `h ← h·w + sin h; n ← n + 1` while Σ h < bound."""
    kinds = {"h": (F64, (2,)), "n": (I32, ()), "w": (F64, (2,)), "bound": (F64, ())}
    test = _graph(kinds, lambda b, h, n, w, bound: [b.emit("lt", _total(b, h), bound)])
    body = _graph(
        kinds,
        lambda b, h, n, w, bound: [emit.add(b, emit.mul(b, h, w), b.emit("sin", h)), emit.shift(b, n, 1)],
    )

    def make(b: Builder, h: Node, w: Node, bound: Node) -> list[Node]:
        last, steps = while_loop(b, test, body, [h, b.constant(np.int32(0))], [w, bound], limit)
        return [_total(b, emit.square(b, last)), steps]

    return _graph({k: v for k, v in kinds.items() if k != "n"}, make)


def _grown(h: Array, w: Array, bound: Array, limit: int = 1000) -> tuple[float, int]:
    steps = 0
    while steps < limit and h.sum() < bound:
        h, steps = h * w + np.sin(h), steps + 1
    return float((h**2).sum()), steps


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict[str, Array]:
    return {"h": rng.uniform(0.2, 0.5, 2), "w": rng.uniform(1.2, 1.6, 2), "bound": np.array(20.0)}


def _numeric(value: Callable[[dict[str, Array]], float], arrays: dict[str, Array], name: str) -> Array:
    gradient = np.zeros_like(arrays[name])
    for place in np.ndindex(gradient.shape):
        moved = {k: a.copy() for k, a in arrays.items()}
        moved[name][place] += 1e-6
        up = value(moved)
        moved[name][place] -= 2e-6
        gradient[place] = (up - value(moved)) / 2e-6
    return gradient


@pytest.mark.parametrize("limit", [None, 50, 3, 0])
def test_values_of_while(arrays: dict[str, Array], limit: int | None) -> None:
    want, steps = _grown(**arrays, limit=1000 if limit is None else limit)
    found = evaluate(_growth(limit), arrays)
    assert_allclose(found[0], want)
    assert found[1] == steps
    assert steps == limit if limit in (0, 3) else 3 < steps < 50


@pytest.mark.parametrize("limit", [50, 3, 0])
def test_gradients_of_while(arrays: dict[str, Array], limit: int) -> None:
    found = evaluate(grad(_growth(limit), ["h", "w"]), arrays)
    for name, gradient in zip(("h", "w"), found, strict=True):
        assert_allclose(gradient, _numeric(lambda a: _grown(**a, limit=limit)[0], arrays, name), rtol=1e-5, atol=1e-6)


def test_zero_trips(arrays: dict[str, Array]) -> None:
    still = arrays | {"bound": np.array(-1.0)}
    found = evaluate(grad(_growth(50), ["h", "w", "bound"]), still)
    assert_allclose(found[0], 2 * arrays["h"])
    assert_array_equal(found[1], np.zeros(2))
    assert found[2] == 0


@pytest.mark.parametrize("limit", [None, 50, 3])
def test_tangents_of_while(arrays: dict[str, Array], rng: np.random.Generator, limit: int | None) -> None:
    way = {"tangent_h": rng.normal(size=2), "tangent_w": rng.normal(size=2)}
    tangent = evaluate(jvp(_growth(limit), ["h", "w"]), arrays | way)[2]
    gradients = evaluate(grad(_growth(limit or 50), ["h", "w"]), arrays)
    assert_allclose(tangent, way["tangent_h"] @ gradients[0] + way["tangent_w"] @ gradients[1])


def test_second_order_of_while(arrays: dict[str, Array], rng: np.random.Generator) -> None:
    way = rng.normal(size=2)
    arrays = arrays | {"bound": np.array(3.0)}  # few steps: the curvature stays within reach of differences
    found = evaluate(hvp(_growth(50), ["w"]), arrays | {"tangent_w": way})[0]
    up = evaluate(grad(_growth(50), ["w"]), arrays | {"w": arrays["w"] + 1e-6 * way})[0]
    down = evaluate(grad(_growth(50), ["w"]), arrays | {"w": arrays["w"] - 1e-6 * way})[0]
    assert_allclose(found, (up - down) / 2e-6, rtol=1e-4, atol=1e-4)
    twice = _graph(
        {"h": (F64, (2,)), "w": (F64, (2,)), "bound": (F64, ())},
        lambda b, h, w, bound: [
            _total(b, emit.mul(b, b.constant(way), _inlined(b, grad(_growth(50), ["w"]), h, w, bound)))
        ],
    )
    assert_allclose(evaluate(grad(twice, ["w"]), arrays)[0], found)


def _inlined(b: Builder, graph: Graph, *values: Node) -> Node:
    from rlxlang.ops.control import inline

    return inline(b, graph, values)[0]


def test_reverse_mode_without_a_bound_proposes_one(arrays: dict[str, Array]) -> None:
    with pytest.raises(RlxTransformError) as caught:
        grad(_growth(None), ["h"])
    assert caught.value.diagnostics[0].code == "E0501"
    assert "max" in caught.value.diagnostics[0].help


@pytest.mark.parametrize("axes", [{"h": 1}, {"bound": 0}, {"w": 0}, {"h": 0, "w": 1, "bound": 0}])
@pytest.mark.parametrize("transform", [None, "grad"])
def test_lanes_end_on_their_own(arrays: dict[str, Array], axes: dict[str, int], transform: str | None) -> None:
    graph = _growth(50) if transform is None else grad(_growth(50), ["h", "w"])
    lanes = [arrays | {n: arrays[n] * f for n in axes} for f in (1.0, 0.1, 30.0, 3.0)]
    batch = arrays | {n: np.stack([lane[n] for lane in lanes], k) for n, k in axes.items()}
    found = evaluate(vmap(graph, axes, 4), batch)
    want = [evaluate(graph, lane) for lane in lanes]
    for k, result in enumerate(found):
        assert_allclose(result, np.stack([w[k] for w in want]))
    if transform is None:
        assert len(set(found[1].tolist())) > 1


def test_the_gradient_of_a_batch_is_that_of_its_lanes(arrays: dict[str, Array]) -> None:
    lanes = [arrays | {"h": arrays["h"] * f} for f in (1.0, 0.3, 1.4)]
    whole = vmap(_growth(50), {"h": 0}, 3)
    b = Builder()
    nodes = [b.input(e.name, e.node.dtype, e.node.shape) for e in whole.inputs]
    loss = b.finish("loss", map(declare, nodes), [GraphOutput("loss", _total(b, _inlined(b, whole, *nodes)))])
    found = evaluate(grad(loss, ["h", "w"]), arrays | {"h": np.stack([lane["h"] for lane in lanes])})
    want = [evaluate(grad(_growth(50), ["h", "w"]), lane) for lane in lanes]
    assert_allclose(found[0], np.stack([w[0] for w in want]))
    assert_allclose(found[1], sum(w[1] for w in want))


def test_an_unbatched_condition_stays_one(arrays: dict[str, Array]) -> None:
    kinds = {"h": (F64, (2,)), "n": (I32, ())}
    test = _graph(kinds, lambda b, h, n: [b.emit("lt", n, b.constant(np.int32(3)))])
    body = _graph(kinds, lambda b, h, n: [b.emit("sin", h), emit.shift(b, n, 1)])
    graph = _graph({"h": (F64, (2,))}, lambda b, h: while_loop(b, test, body, [h, b.constant(np.int32(0))], []))
    batched = vmap(graph, {"h": 0}, 5)
    loop = next(n for n in batched.nodes if n.op.name == "while")
    assert loop.type.items[1].shape == ()  # type: ignore[union-attr]
    values = np.linspace(0, 1, 10).reshape(5, 2)
    assert_allclose(evaluate(batched, {"h": values})[0], np.sin(np.sin(np.sin(values))))


@pytest.mark.parametrize("order", [1, 2])
def test_steps_not_taken_leak_no_nan(order: int) -> None:
    """x ← sqrt(x - 1) while x > 1: one more step would be the square root of a negative number, at 1 its slope is infinite."""
    kinds = {"x": (F64, ())}
    test = _graph(kinds, lambda b, x: [emit.compare(b, "gt", x, 1.0)])
    body = _graph(kinds, lambda b, x: [b.emit("sqrt", emit.shift(b, x, -1))])
    graph = _graph(kinds, lambda b, x: while_loop(b, test, body, [x], [], 8))
    want = {
        2.0: 0.5,
        0.5: 1.0,
        1.0: 1.0,
        1.5: 0.5 / np.sqrt(0.5),
        17.0: 0.125 * 0.5 / np.sqrt(3) * 0.5 / np.sqrt(np.sqrt(3) - 1 + 1),
    }
    want[17.0] = float(_numeric(lambda a: _shrunk(float(a["x"])), {"x": np.array(17.0)}, "x"))
    transformed = grad(graph, ["x"])
    for value, slope in want.items():
        assert_allclose(evaluate(transformed, {"x": np.array(value)})[0], slope, rtol=1e-6)
    if order == 2:
        twice = grad(transformed, ["x"])
        assert_allclose(evaluate(twice, {"x": np.array(1.5)})[0], -0.25 * 0.5**-1.5)
        assert evaluate(twice, {"x": np.array(1.0)})[0] == 0
    batch = np.array(list(want))
    found = evaluate(vmap(transformed, {"x": 0}, len(batch)), {"x": batch})[0]
    assert_allclose(found, list(want.values()), rtol=1e-6)


def _shrunk(x: float) -> float:
    while x > 1:
        x = float(np.sqrt(x - 1))
    return x


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda b, h, n: [emit.cast(b, h, I32), n], "E0603"),
        (lambda b, h, n: [emit.reshape(b, h, (1, 2)), n], "E0603"),
        (lambda b, h, n: [h], "E0600"),
    ],
)
def test_carries_keep_their_types(make: Callable[..., list[Node]], code: str) -> None:
    kinds = {"h": (F64, (2,)), "n": (I32, ())}
    test = _graph(kinds, lambda b, h, n: [b.emit("lt", n, b.constant(np.int32(3)))])
    with pytest.raises(TypeProblem) as caught:
        _graph(kinds, lambda b, h, n: while_loop(b, test, _graph(kinds, make), [h, n], []))
    assert caught.value.code == code


def test_conditions_are_one_bool() -> None:
    kinds = {"h": (F64, (2,))}
    body = _graph(kinds, lambda b, h: [h])
    test = _graph(kinds, lambda b, h: [emit.compare(b, "gt", h, 0.0)])
    with pytest.raises(TypeProblem) as caught:
        _graph(kinds, lambda b, h: while_loop(b, test, body, [h], []))
    assert caught.value.code == "E0301"
    with pytest.raises(TypeProblem) as caught:
        _graph(kinds, lambda b, h: cond(b, emit.compare(b, "gt", h, 0.0), body, body, [h]))
    assert caught.value.code == "E0301"


# --------------------------------------------------------------------------------------------- cond


def _choice() -> Graph:
    """(Σ log x · w, x) if p, else (Σ x - w, w): defined where x ≤ 0 only if p does not hold."""
    kinds = {"x": (F64, (3,)), "w": (F64, (3,))}
    then = _graph(kinds, lambda b, x, w: [_total(b, emit.mul(b, b.emit("log", x), w)), x])
    orelse = _graph(kinds, lambda b, x, w: [_total(b, emit.sub(b, x, w)), w])
    return _graph({"p": (BOOL, ()), **kinds}, lambda b, p, x, w: cond(b, p, then, orelse, [x, w]))


@pytest.mark.parametrize("p", [True, False])
def test_derivatives_of_cond(rng: np.random.Generator, p: bool) -> None:
    arrays = {"p": np.array(p), "x": rng.uniform(1, 2, 3), "w": rng.normal(size=3)}
    found = evaluate(_choice(), arrays)
    assert_allclose(found[0], (np.log(arrays["x"]) * arrays["w"]).sum() if p else (arrays["x"] - arrays["w"]).sum())
    assert_allclose(found[1], arrays["x" if p else "w"])
    gradients = evaluate(grad(_choice(), ["x", "w"]), arrays)
    assert_allclose(gradients[0], arrays["w"] / arrays["x"] if p else np.ones(3))
    assert_allclose(gradients[1], np.log(arrays["x"]) if p else -np.ones(3))
    way = {"tangent_x": rng.normal(size=3)}
    pushed = evaluate(jvp(_choice(), ["x"]), arrays | way)
    assert_allclose(pushed[2], gradients[0] @ way["tangent_x"])
    assert_allclose(pushed[3], way["tangent_x"] if p else np.zeros(3))
    second = evaluate(hvp(_choice(), ["x"]), arrays | way)[0]
    assert_allclose(second, -arrays["w"] / arrays["x"] ** 2 * way["tangent_x"] if p else np.zeros(3))


def test_the_other_branch_does_not_run() -> None:
    arrays = {"p": np.array(False), "x": np.array([0.0, -1.0, 2.0]), "w": np.ones(3)}
    for result in evaluate(grad(_choice(), ["x", "w"]), arrays):
        assert np.isfinite(result).all()


@pytest.mark.parametrize("names", [("p",), ("x",), ("w",), ("p", "x"), ("p", "x", "w")])
@pytest.mark.parametrize("transform", [None, "grad"])
def test_batching_of_cond(rng: np.random.Generator, names: tuple[str, ...], transform: str | None) -> None:
    graph = _choice() if transform is None else grad(_choice(), ["x", "w"])
    single = {"p": np.array(True), "x": rng.uniform(1, 2, 3), "w": rng.normal(size=3)}
    stacks = {"p": np.array([True, False, False, True]), "x": rng.uniform(1, 2, (4, 3)), "w": rng.normal(size=(4, 3))}
    batched = vmap(graph, dict.fromkeys(names, 0), 4)
    found = evaluate(batched, single | {n: stacks[n] for n in names})
    want = [evaluate(graph, single | {n: stacks[n][k] for n in names}) for k in range(4)]
    for k, result in enumerate(found):
        assert_allclose(result, np.stack([w[k] for w in want]))
    assert any(n.op.name == "cond" for n in batched.nodes) == ("p" not in names)


def test_branches_agree() -> None:
    kinds = {"x": (F64, (3,))}
    same = _graph(kinds, lambda b, x: [x])
    for other in (
        _graph(kinds, lambda b, x: [_total(b, x)]),
        _graph(kinds, lambda b, x: [emit.cast(b, x, I32)]),
        _graph(kinds, lambda b, x: [x, x]),
    ):
        with pytest.raises(TypeProblem) as caught:
            _graph({"p": (BOOL, ()), **kinds}, lambda b, p, x, other=other: cond(b, p, same, other, [x]))
        assert caught.value.code == "E0604"
