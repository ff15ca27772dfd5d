"""Random graphs on every device against the interpreter: values, derivatives, sizes, threads, updates in place."""

from __future__ import annotations

import numpy as np
import pytest

from rlxlang.interp import evaluate
from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.types import F32, Dim
from tests.devices.campaign import SIZES, check_batches, check_graph, check_modes, gradients, known_sizes
from tests.devices.random_programs import RandomProgram
from tests.devices.running import DEVICES, Array, Runner, mismatches


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_values_on_cpu(first: int) -> None:
    for seed in range(first, first + 10):
        maker = RandomProgram(seed, 25)
        check_graph(maker, maker.build(), "cpu", [maker.sizes, *SIZES])


@pytest.mark.parametrize("first", range(1000, 1040, 10))
def test_gradients_on_cpu(first: int) -> None:
    for seed in range(first, first + 10):
        maker = RandomProgram(seed, 16, smooth=True)
        check_graph(maker, gradients(maker), "cpu", [maker.sizes, *SIZES])


@pytest.mark.parametrize("first", range(5000, 5040, 20))
def test_modes_and_batches(first: int) -> None:
    for seed in range(first, first + 20):
        check_modes(RandomProgram(seed, 12, smooth=True))
        check_batches(RandomProgram(seed, 12))


@pytest.mark.skipif("opencl" not in DEVICES, reason="there is no OpenCL device")
@pytest.mark.parametrize("seed", range(4))
def test_values_and_gradients_on_opencl(seed: int) -> None:
    maker = RandomProgram(seed, 12)
    check_graph(maker, maker.build(), "opencl", [maker.sizes, *SIZES[:2]])
    maker = RandomProgram(seed + 2000, 7, smooth=True)
    check_graph(maker, gradients(maker), "opencl", [maker.sizes, *SIZES[:2]])


@pytest.mark.parametrize("seed", range(3000, 3012))
def test_threads_change_no_bit(seed: int) -> None:
    maker = RandomProgram(seed, 14, smooth=bool(seed % 2))
    graph = gradients(maker) if seed % 2 else maker.build()
    sizes = {"?a": 40, "?b": 700}  # enough work for several threads
    if known_sizes(graph, sizes) is None:
        return
    arrays = maker.arrays_for(sizes)
    alone, together = Runner(graph, "cpu", threads=1), Runner(graph, "cpu", threads=2)
    for _ in range(2):
        for left, right in zip(alone(arrays), together(arrays), strict=True):
            np.testing.assert_array_equal(left, right)


# ------------------------------------------------------------------------------------------ updates in place


def _updates(seed: int) -> tuple[Graph, dict[str, str], dict[str, Array]]:
    """A random graph that overwrites two of three states with functions of all of them."""
    rng = np.random.default_rng(seed)
    b = Builder()
    shape = (Dim.axis("?a"), 5)
    states = [b.input(f"s{k}", F32, shape) for k in range(3)]
    x = b.input("x", F32, (5, 5))
    values = list(states)
    for _ in range(8):
        p, q = (values[int(k)] for k in rng.integers(0, len(values), 2))
        kind = str(rng.choice(["add", "mul", "tanh", "dot", "flip", "mean", "softmax", "cumsum"]))
        if kind in ("add", "mul"):
            values.append(b.emit("tanh", b.emit(kind, p, q)))
        elif kind == "tanh":
            values.append(b.emit("tanh", p))
        elif kind == "dot":
            values.append(b.emit("tanh", b.emit("dot_general", p, x, batch=((), ()), contract=((1,), (0,)))))
        elif kind == "flip":
            values.append(b.emit("flip", p, axes=(int(rng.integers(0, 2)),)))
        elif kind == "mean":
            mean = b.emit("reshape", b.emit("mean", p, axes=(0,)), shape=(1, 5))
            values.append(b.emit("sub", q, b.emit("broadcast_to", mean, shape=shape)))
        elif kind == "softmax":
            values.append(b.emit("softmax", p, axis=int(rng.integers(0, 2))))
        else:
            values.append(
                b.emit("cumsum", b.emit("tanh", p), axis=int(rng.integers(0, 2)), exclusive=False, reverse=False)
            )
    chosen = [values[int(k)] for k in rng.integers(0, len(values), 3)]  # a state itself now and then: they trade places
    outputs = [GraphOutput(name, node) for name, node in zip(("new0", "new1", "y"), chosen, strict=True)]
    graph = b.finish("updates", [declare(n) for n in (*states, x)], outputs)
    arrays = {f"s{k}": rng.normal(size=(7, 5)).astype(np.float32) for k in range(3)}
    return graph, {"new0": "s0", "new1": "s1"}, {**arrays, "x": rng.normal(size=(5, 5)).astype(np.float32)}


def _check_updates(seed: int, device: str) -> None:
    graph, in_place, arrays = _updates(seed)
    runner = Runner(graph, device, in_place=in_place)
    held = {n: a.copy() for n, a in arrays.items()}
    for step in range(3):
        want = evaluate(graph, arrays)
        (y,) = runner(held)
        arrays = {**arrays, "s0": want[0], "s1": want[1]}
        for name, array in (*arrays.items(), ("y", want[2])):
            got = y if name == "y" else held[name]
            np.testing.assert_allclose(got, array, rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}, step {step}, {name}")


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_updates_in_place_on_cpu(first: int) -> None:
    for seed in range(first, first + 20):
        _check_updates(seed, "cpu")


@pytest.mark.skipif("opencl" not in DEVICES, reason="there is no OpenCL device")
@pytest.mark.parametrize("seed", range(100, 106))
def test_updates_in_place_on_opencl(seed: int) -> None:
    _check_updates(seed, "opencl")


# ------------------------------------------------------------------------------------------ found by random graphs


def test_epilogue_of_a_batched_product_that_reads_a_transposed_value(rng: np.random.Generator) -> None:
    b = Builder()
    a = Dim.axis("?a")
    x, y, t = b.input("x", F32, (a, 2, 2)), b.input("y", F32, (a, 2, 3)), b.input("t", F32, (3, 2, a))
    product = b.emit("dot_general", x, y, batch=((0,), (0,)), contract=((2,), (1,)))
    total = b.emit("add", product, b.emit("transpose", t, perm=(2, 1, 0)))
    graph = b.finish("product", [declare(n) for n in (x, y, t)], [GraphOutput("y", total)])
    shapes = {"x": (5, 2, 2), "y": (5, 2, 3), "t": (3, 2, 5)}
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    for device in DEVICES:
        assert not mismatches(graph, Runner(graph, device)(arrays), evaluate(graph, arrays), 1e-5, 1e-5)
