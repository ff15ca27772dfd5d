"""What results are measured against: finite differences, inner products, loops; and how close they must come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlxlang import ops  # fills the op table
from rlxlang.interp import evaluate
from rlxlang.ir import OPS, Builder, Graph, GraphOutput, Node, Op, Sample, declare
from rlxlang.types import Dim, DType, TupleType, from_numpy

Array = np.ndarray[Any, Any]

# Relative and absolute tolerance of results computed in a dtype, against the same in F64. The one table for all tests.
TOLERANCES: dict[str, tuple[float, float]] = {
    "F64": (1e-11, 1e-12),
    "F32": (2e-5, 2e-6),
    "F16": (5e-3, 2e-3),
    "BF16": (4e-2, 2e-2),
    "C64": (2e-5, 2e-6),  # two F32; there is no wider complex type to measure against
}
FINITE_DIFFERENCE = (1e-5, 2e-6)  # central differences of step 1e-6 in F64


def assert_close(actual: Array, expected: Array, dtype: str = "F64", factor: float = 1.0) -> None:
    """Arrays of one shape that agree to the tolerance of a dtype (of complex numbers always C64), infinities and NaN included."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    rtol, atol = TOLERANCES["C64" if actual.dtype.kind == "c" else dtype]
    assert actual.shape == expected.shape
    wide = [a.astype(np.float64) if a.dtype.kind not in "c" else a for a in (actual, expected)]
    np.testing.assert_allclose(wide[0], wide[1], rtol=factor * rtol, atol=factor * atol)


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Normal random numbers: directions and cotangents; of complex ones both parts."""
    found = np.asarray(rng.normal(size=shape))
    if dtype.kind == "complex":
        return np.asarray(found + 1j * rng.normal(size=shape)).astype(dtype.numpy)
    return found


def lanes_of(array: Array, count: int, rng: np.random.Generator, *, mixable: bool) -> list[Array]:
    """Different operands of one kind: a permutation of the entries, or a multiple, keeps each in the domain of the op."""
    if not mixable:
        return [array * (1 + 0.5 * k) for k in range(count)]
    flat = [rng.permutation(array.reshape(-1)).reshape(array.shape) for _ in range(count - 1)]
    return [array, *flat]


def cases() -> list[tuple[str, Op, Sample]]:
    """Every sample of every op, with a name."""
    assert ops.METHODS
    found = []
    for op in OPS.values():
        for k, sample in enumerate(op.samples(np.random.default_rng(len(op.name)))):
            found.append((f"{op.name}-{k}", op, sample))
    return found


def results_of(b: Builder, node: Node) -> list[Node]:
    """The node itself, or the items of a node with several results."""
    if isinstance(node.type, TupleType):
        return [b.emit("item", node, index=k) for k in range(len(node.type.items))]
    return [node]


def graph_of(op: Op, sample: Sample, dtypes: Mapping[int, DType] | None = None) -> Graph:
    """The graph of one op on inputs `x0`, `x1` … with outputs `y0` …"""
    b = Builder()
    nodes = []
    for k, array in enumerate(sample.args):
        own = (dtypes or {}).get(k) or from_numpy(array.dtype)
        assert own is not None
        nodes.append(b.input(f"x{k}", own, array.shape))
    outputs = results_of(b, b.emit(op, *nodes, **sample.attrs))
    return b.finish(op.name, [declare(n) for n in nodes], [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)])


def dynamic_graph_of(op: Op, sample: Sample) -> tuple[Graph, dict[str, int]]:
    """The same with a dynamic axis of its own for every axis, except those of static size 1; and their sizes."""
    b = Builder()
    nodes, sizes = [], {}
    for k, array in enumerate(sample.args):
        own = from_numpy(array.dtype)
        assert own is not None
        shape = []
        for axis, size in enumerate(array.shape):
            name = f"?x{k}_{axis}"
            sizes[name] = size
            shape.append(1 if size == 1 else Dim.axis(name))
        nodes.append(b.input(f"x{k}", own, tuple(shape)))
    outputs = results_of(b, b.emit(op, *nodes, **sample.attrs))
    graph = b.finish(op.name, [declare(n) for n in nodes], [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)])
    return graph, sizes


def arrays_of(sample: Sample) -> dict[str, Array]:
    """The operands by the names that `graph_of` gives them."""
    return {f"x{k}": a for k, a in enumerate(sample.args)}


def float_inputs(graph: Graph) -> list[str]:
    """Names of the inputs that have derivatives."""
    return [i.name for i in graph.inputs if i.node.dtype.is_differentiable]


def float_outputs(graph: Graph) -> list[int]:
    """Positions of the outputs that have derivatives."""
    return [k for k, o in enumerate(graph.outputs) if o.node.dtype.is_differentiable]


def directional_difference(
    graph: Graph, arrays: Mapping[str, Array], directions: Mapping[str, Array], step: float = 1e-6
) -> list[Array]:
    """Central differences of all outputs along directions; NaN where an output is infinite."""

    def at(t: float) -> list[Array]:
        return evaluate(graph, {n: a + t * directions[n] if n in directions else a for n, a in arrays.items()})

    with np.errstate(invalid="ignore"):
        differences = []
        for up, down in zip(at(step), at(-step), strict=True):
            wide = [v.astype(np.float64) for v in (up, down)]
            differences.append((wide[0] - wide[1]) / (2 * step))
    return differences
