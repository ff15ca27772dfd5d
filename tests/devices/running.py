"""Running graphs on devices: many small graphs as one program, compiled once, compared with the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlxlang.backends.llvm import LlvmBackend
from rlxlang.backends.opencl import OpenClBackend, available_devices
from rlxlang.interp import evaluate, read_sizes
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node
from rlxlang.lower import lower
from rlxlang.transforms import replay
from rlxlang.types import Dim, DType, from_numpy
from tests.oracles import results_of

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "opencl") if available_devices() else ("cpu",)


@dataclass(frozen=True)
class Part:
    """A small graph and its arrays."""

    name: str
    graph: Graph
    arrays: Mapping[str, Array]


def merge(parts: Sequence[Part]) -> Part:
    """One graph that computes all; inputs and outputs are named `<part> <name>`, axes are shared by name."""
    b = Builder()
    inputs, outputs, arrays = [], [], {}
    for part in parts:
        env: dict[Node, Node] = {}
        for entry in part.graph.inputs:
            name = f"{part.name} {entry.name}"
            env[entry.node] = b.input(name, entry.node.dtype, entry.node.shape, entry.kind)
            inputs.append(GraphInput(name, entry.kind, env[entry.node]))
            arrays[name] = part.arrays[entry.name]
        replay(b, part.graph, env)
        outputs += [GraphOutput(f"{part.name} {o.name}", env[o.node]) for o in part.graph.outputs]
        for guard in part.graph.guards:
            b.require(guard)
    return Part("all", b.finish("all", inputs, outputs), arrays)


class Runner:
    """A graph compiled for a device.

    Args:
        graph: What to compute.
        device: `cpu` or `opencl`.
        threads: How many threads may run it.
        in_place: Outputs that overwrite inputs, by name.
    """

    def __init__(self, graph: Graph, device: str, threads: int = 2, in_place: Mapping[str, str] | None = None) -> None:
        self.graph = graph
        self.lowered = lower(graph, threads=threads, in_place=in_place)
        backend = LlvmBackend() if device == "cpu" else OpenClBackend()
        self.executable = backend.compile(self.lowered.program)

    def __call__(self, arrays: Mapping[str, Array]) -> list[Array]:
        sizes = read_sizes(self.graph, arrays)
        given = {self.lowered.buffer_of[n]: np.ascontiguousarray(a).reshape(a.shape) for n, a in arrays.items()}
        return self.executable.run(given, sizes)


def mismatches(graph: Graph, got: Sequence[Array], want: Sequence[Array], rtol: float, atol: float) -> list[str]:
    """A line for every output that differs; integers and flags must be equal."""
    found = []
    for output, left, right in zip(graph.outputs, got, want, strict=True):
        if left.shape != right.shape or left.dtype != right.dtype:
            found.append(f"{output.name}: {left.dtype}{left.shape} instead of {right.dtype}{right.shape}")
            continue
        if right.dtype.kind in "biu":
            same = np.array_equal(left, right)
        else:
            wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in (left, right)]
            # Complex numbers are of single precision, whatever the dtype of the other results is.
            near = [max(t, 1e-5) if right.dtype.kind == "c" else t for t in (rtol, atol)]
            same = np.allclose(*wide, rtol=near[0], atol=near[1], equal_nan=True)
        if not same:
            found.append(f"{output.name}: {_worst(left, right)}")
    return found


def _worst(left: Array, right: Array) -> str:
    wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64).reshape(-1) for a in (left, right)]
    with np.errstate(all="ignore"):
        gap = np.abs(wide[0] - wide[1])
        gap[(wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))] = 0
        gap = np.where(np.isnan(gap), np.inf, gap)
    where = int(np.argmax(gap))
    return f"{left.reshape(-1)[where]!r} instead of {right.reshape(-1)[where]!r} at {where} of {left.size}"


def graph_of(op: Any, args: Sequence[Array], attrs: Mapping[str, Any], tag: str, dynamic: bool = False) -> Graph:
    """The graph of one op on inputs `x0` …; with `dynamic` every axis of more than one entry has a name of its own."""
    b = Builder()
    nodes = []
    for k, array in enumerate(args):
        own = from_numpy(array.dtype)
        assert own is not None
        shape = [Dim.axis(f"?{tag}_{k}_{j}") if dynamic and n != 1 else n for j, n in enumerate(array.shape)]
        nodes.append(b.input(f"x{k}", own, tuple(shape)))
    outputs = results_of(b, b.emit(op, *nodes, **attrs))
    named = [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)]
    return b.finish(tag, [GraphInput(n.attrs["name"], "input", n) for n in nodes], named)


def cast_floats(args: Sequence[Array], dtype: DType) -> list[Array]:
    """The operands with every F64 one in another dtype."""
    return [a.astype(dtype.numpy) if a.dtype == np.float64 else a for a in args]


__all__ = ["DEVICES", "Part", "Runner", "cast_floats", "evaluate", "graph_of", "merge", "mismatches", "read_sizes"]
