"""Graphs built by hand for the tests of transforms, and derivatives of them by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops import emit
from rlxlang.types import F64, I32, Dim, DType

Array = np.ndarray[Any, Any]
N = Dim.axis("?n")


def graph_of(
    build: Callable[..., Any],
    inputs: Mapping[str, tuple[Any, ...]],
    names: Sequence[str] = ("loss",),
    dtypes: Mapping[str, DType] | None = None,
    taps: Sequence[str] = (),
) -> Graph:
    """The graph of `build(b, **inputs)` with F64 inputs of these shapes; the results get the names."""
    b = Builder()
    nodes = {n: b.input(n, (dtypes or {}).get(n, F64), s) for n, s in inputs.items()}
    made = build(b, *nodes.values())
    results = made if isinstance(made, tuple) else (made,)
    outputs = [GraphOutput(n, r, "tap" if n in taps else "out") for n, r in zip(names, results, strict=True)]
    return b.finish("model", [declare(i) for i in nodes.values()], outputs)


def total(b: Builder, x: Node) -> Node:
    """The sum of all elements."""
    return emit.reduce_sum(b, x, range(x.tensor.rank))


def matmul(b: Builder, x: Node, w: Node) -> Node:
    """The product of two matrices."""
    return emit.dot(b, x, w, ((1,), (0,)))


def network() -> Graph:
    """Two layers with softmax: the loss, the probabilities, the predicted classes, and the hidden values as a tap."""

    def build(b: Builder, x: Node, w: Node, v: Node, t: Node) -> tuple[Node, ...]:
        h = b.emit("tanh", matmul(b, x, w))
        p = b.emit("softmax", matmul(b, h, v), axis=1)
        picked = b.emit("take_along_axis", p, emit.reshape(b, t, (N, 1)), axis=1)
        loss = emit.neg(b, b.emit("mean", b.emit("log", picked), axes=(0, 1)))
        return loss, p, b.emit("argmax", p, axis=1), h

    return graph_of(
        build,
        {"x": (N, 4), "w": (4, 3), "v": (3, 3), "t": (N,)},
        ("loss", "p", "class", "hidden"),
        {"t": I32},
        ("hidden",),
    )


def network_arrays(rng: np.random.Generator, batch: int = 5) -> dict[str, Array]:
    """Arrays for `network`."""
    return {
        "x": rng.normal(size=(batch, 4)),
        "w": rng.normal(size=(4, 3)),
        "v": rng.normal(size=(3, 3)),
        "t": rng.integers(0, 3, batch).astype(np.int32),
    }


def outputs_of(graph: Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> dict[str, Array]:
    """The outputs by name."""
    given = {i.name: arrays[i.name] for i in graph.inputs}
    values = evaluate(graph, given, sizes)
    return dict(zip([o.name for o in graph.outputs], values, strict=True))


def difference(function: Callable[[Array], Array], at: Array, direction: Array, step: float = 1e-6) -> Array:
    """The central difference of a function along a direction."""
    return (np.asarray(function(at + step * direction)) - function(at - step * direction)) / (2 * step)


def gradient_by_differences(graph: Graph, arrays: Mapping[str, Array], name: str, output: str = "loss") -> Array:
    """The derivative of a scalar output in every element of an input."""

    def value(array: Array) -> Array:
        return outputs_of(graph, {**arrays, name: array})[output]

    found = np.zeros_like(arrays[name])
    for place in np.ndindex(found.shape):
        unit = np.zeros_like(found)
        unit[place] = 1
        found[place] = difference(value, arrays[name], unit)
    return found


def names_of(graph: Graph) -> tuple[list[str], list[str]]:
    """Names of the inputs and of the outputs."""
    return [i.name for i in graph.inputs], [o.name for o in graph.outputs]


def close(left: Array, right: Array) -> None:
    """Equal up to the error of finite differences."""
    np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-7)
