"""From a graph and a device to something that runs, compiled once and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from rlxlang.device import Device, backend_of, candidates, thread_count
from rlxlang.diagnostics import RlxBackendError
from rlxlang.graph_text import graph_key
from rlxlang.inputs import Signature
from rlxlang.ir import Graph

if TYPE_CHECKING:
    from rlxlang.backends.base import Executable, Prepare

Array: TypeAlias = "np.ndarray[Any, Any]"
Params: TypeAlias = Mapping[str, Array]


class Compiled(Protocol):
    """A graph made ready for a device, for every combination of sizes."""

    device: Device

    def run(self, feeds: Sequence[Array], params: Params, sizes: Mapping[str, int]) -> list[Array]:
        """New arrays of all outputs.

        Args:
            feeds: Arrays of the inputs in order of declaration, exact (see `Signature.prepare`).
            params: Arrays of the params by name.
            sizes: The size of every dynamic axis.
        """
        ...

    def bind(self, params: Params, prepare: Prepare, result: str, name: str) -> Callable[..., object]:
        """A function of the inputs by position with the params fixed; see `backends.base.Executable.bind`."""
        ...


class ReferenceCompiled:
    """A graph run by the interpreter, op by op in NumPy."""

    def __init__(self, graph: Graph) -> None:
        self.device = Device.REFERENCE
        self._graph = graph
        self._names = tuple(e.name for e in graph.feeds)

    def run(self, feeds: Sequence[Array], params: Params, sizes: Mapping[str, int]) -> list[Array]:
        """See `Compiled.run`."""
        from rlxlang.interp import evaluate

        arrays = {**params, **dict(zip(self._names, feeds, strict=True))}
        # The interpreter may hand out views of what it was given; a caller owns what it gets.
        return [np.array(a, order="C") for a in evaluate(self._graph, arrays, sizes)]

    def bind(self, params: Params, prepare: Prepare, result: str, name: str) -> Callable[..., object]:
        """See `Compiled.bind`."""

        def call(*values: object) -> object:
            feeds, sizes = prepare(values)
            outputs = self.run(feeds, params, sizes)
            if result == "array":
                return outputs[0]
            return float(outputs[0].reshape(())) if result == "float" else tuple(outputs)

        call.__name__ = call.__qualname__ = name
        return call


class NativeCompiled:
    """A graph lowered to kernels and compiled by a backend."""

    def __init__(self, graph: Graph, device: Device) -> None:
        from rlxlang.lower import lower

        backend = backend_of(device)
        threads = thread_count()
        lowered = lower(graph, threads=threads)
        self.device = device
        self._buffer_of = lowered.buffer_of
        self._feeds = tuple(lowered.buffer_of[e.name] for e in graph.feeds)
        self._params = tuple((e.name, lowered.buffer_of[e.name]) for e in graph.params)
        self.executable: Executable = backend.compile(lowered.program, graph_key(graph, str(device), str(threads)))

    def run(self, feeds: Sequence[Array], params: Params, sizes: Mapping[str, int]) -> list[Array]:
        """See `Compiled.run`."""
        arrays = {buffer: params[name] for name, buffer in self._params}
        arrays.update(zip(self._feeds, feeds, strict=True))
        return self.executable.run(arrays, sizes)

    def bind(self, params: Params, prepare: Prepare, result: str, name: str) -> Callable[..., object]:
        """See `Compiled.bind`."""
        fixed = {buffer: params[n] for n, buffer in self._params}
        return self.executable.bind(fixed, prepare, result, name)


def compile_graph(graph: Graph, device: Device) -> Compiled:
    """The graph made ready for one device.

    Raises:
        RlxBackendError: The device is not there, or cannot run an op of the graph.
    """
    return ReferenceCompiled(graph) if device.kind == "reference" else NativeCompiled(graph, device)


class Traced:
    """A graph with everything made from it: compiled forms by device, transformed graphs by transform.

    All `Func`s over one graph share it, whatever their params are, so a new binding compiles nothing.

    Attributes:
        graph: The graph.
        signature: Its inputs and params.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.signature = Signature(graph)
        self._lock = threading.RLock()
        self._compiled: dict[tuple[Device, int], Compiled] = {}
        self._derived: dict[object, Traced] = {}
        self._fastest: dict[int, Device] = {}

    def compiled(self, device: Device | None) -> Compiled:
        """The compiled form for a device, or for the fastest one that can run the graph (None).

        Raises:
            RlxBackendError: An explicit device cannot run the graph, or no device can.
        """
        from rlxlang.debugging import WatchedCompiled, is_watching

        if is_watching():
            return WatchedCompiled(self.graph)
        threads = thread_count()
        wanted = device or self._fastest.get(threads)
        if wanted is None:
            return self._choose(threads)
        found = self._compiled.get((wanted, threads))
        return found if found is not None else self._compile(wanted, threads)

    def fastest(self) -> Device:
        """The fastest device that can run the graph.

        Raises:
            RlxBackendError: There is none.
        """
        threads = thread_count()
        return self._fastest.get(threads) or self._choose(threads).device

    def _compile(self, device: Device, threads: int) -> Compiled:
        with self._lock:
            found = self._compiled.get((device, threads))
            if found is None:
                found = compile_graph(self.graph, device)
                self._compiled[device, threads] = found
            return found

    def _choose(self, threads: int) -> Compiled:
        refusals: list[str] = []
        for device in candidates():
            try:
                compiled = self._compile(device, threads)
            except RlxBackendError as problem:
                refusals.append(f"{device}: {problem.diagnostics[0].message}")
                continue
            self._fastest[threads] = device
            return compiled
        raise RlxBackendError(f"no device can run `{self.graph.name}`", code="E0702", notes=refusals)

    def derive(self, key: object, make: Callable[[Graph], Graph]) -> Traced:
        """The transformed graph of a key, made once."""
        with self._lock:
            found = self._derived.get(key)
            if found is None:
                found = self._derived[key] = Traced(make(self.graph))
            return found
