"""From a graph and a device to something that runs, compiled once and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from rlxlang.device import Device, backend_of, candidates, thread_count
from rlxlang.diagnostics import RlxBackendError, Source
from rlxlang.inputs import Signature
from rlxlang.ir import Graph

if TYPE_CHECKING:
    from rlxlang.backends.base import Executable, Prepare
    from rlxlang.backends.llvm import LlvmBackend
    from rlxlang.warm import Outline

Array: TypeAlias = "np.ndarray[Any, Any]"
Params: TypeAlias = Mapping[str, Array]


class Compiled(Protocol):
    """A graph made ready for a device, for every combination of sizes."""

    device: Device

    def run(self, feeds: Sequence[Array], params: Params, sizes: Mapping[str, int]) -> list[Array]:
        """New arrays of all outputs.

        Args:
            feeds: Arrays of the inputs and the seed in order of declaration, exact (see `Signature.prepare`).
            params: Arrays of the params by name.
            sizes: The size of every dynamic axis.
        """
        ...

    def bind(self, params: Params, prepare: Prepare, result: str, name: str) -> Callable[..., object]:
        """A function of the inputs and the seed by position with the params fixed; see `backends.base.Executable.bind`."""
        ...


class ReferenceCompiled:
    """A graph run by the interpreter, op by op in NumPy."""

    def __init__(self, graph: Graph) -> None:
        self.device = Device.REFERENCE
        self._graph = graph
        self._names = tuple(e.name for e in graph.arguments)

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
    """Kernels compiled by a backend.

    Args:
        device: Where they run.
        executable: The compiled kernels.
        feeds: Buffers of the inputs and the seed, in order of declaration.
        params: Names and buffers of the params.
    """

    def __init__(
        self, device: Device, executable: Executable, feeds: Sequence[int], params: Sequence[tuple[str, int]]
    ) -> None:
        self.device = device
        self.executable = executable
        self._feeds = tuple(feeds)
        self._params = tuple(params)

    def run(self, feeds: Sequence[Array], params: Params, sizes: Mapping[str, int]) -> list[Array]:
        """See `Compiled.run`."""
        arrays = {buffer: params[name] for name, buffer in self._params}
        arrays.update(zip(self._feeds, feeds, strict=True))
        return self.executable.run(arrays, sizes)

    def bind(self, params: Params, prepare: Prepare, result: str, name: str) -> Callable[..., object]:
        """See `Compiled.bind`."""
        fixed = {buffer: params[n] for n, buffer in self._params}
        return self.executable.bind(fixed, prepare, result, name)


def compile_graph(graph: Graph, device: Device, record_key: str | None = None) -> Compiled:
    """The graph made ready for one device.

    Args:
        graph: The graph.
        device: Where to run it.
        record_key: What the graph was made from; with it the executable is kept on disk for `load_compiled`.

    Raises:
        RlxBackendError: The device is not there, or cannot run an op of the graph.
    """
    if device.kind == "reference":
        return ReferenceCompiled(graph)
    from rlxlang.graph_key import graph_key
    from rlxlang.lower import lower

    backend = backend_of(device)
    threads = thread_count()
    lowered = lower(graph, threads=threads)
    buffer_of, key = lowered.buffer_of, graph_key(graph, str(device), str(threads))
    executable: Executable
    if device.kind == "cpu" and record_key is not None:
        native = cast("LlvmBackend", backend)
        executable = native.compile(lowered.program, key, native.plan_key(record_key, threads))
    else:
        executable = backend.compile(lowered.program, key)
    feeds = [buffer_of[e.name] for e in graph.arguments]
    return NativeCompiled(device, executable, feeds, [(e.name, buffer_of[e.name]) for e in graph.params])


def load_compiled(outline: Outline | Graph, device: Device, record_key: str) -> Compiled | None:
    """What an earlier process compiled from the same source for this device, or None.

    Raises:
        RlxBackendError: The device is not there.
    """
    if device.kind != "cpu":
        return None
    backend = cast("LlvmBackend", backend_of(device))
    executable = backend.load(backend.plan_key(record_key, thread_count()))
    if executable is None:
        return None
    buffer_of = executable.given()
    if any(e.name not in buffer_of for e in outline.inputs):
        return None
    feeds = [buffer_of[e.name] for e in outline.arguments]
    return NativeCompiled(device, executable, feeds, [(e.name, buffer_of[e.name]) for e in outline.params])


class Traced:
    """A graph with everything made from it: compiled forms by device, transformed graphs by transform.

    All `Func`s over one graph share it, whatever their params are, so a new binding compiles nothing.

    Args:
        graph: The graph, or what makes it when something asks for its nodes.
        outline: The interface of a graph that is not made yet.
        record_key: What the graph is made from, as a key of the disk cache; None when that is not known.
        source: The text that places in the graph point into.
        configs: Values that the configs of the text were given.

    Attributes:
        outline: Names, types and guards: the graph, or its outline where nodes have not been needed.
        signature: Its inputs and params.
        configs: Values that the configs of the text were given.
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph],
        outline: Outline | None = None,
        record_key: str | None = None,
        source: Source | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        self.configs = dict(configs or {})
        self._graph = None if callable(graph) else graph
        self._make = graph if callable(graph) else None
        # Whoever reads an outline reads nothing that only a graph has.
        self.outline = cast("Graph", outline if outline is not None else self.graph)
        self.signature = Signature(self.outline)
        self.record_key = record_key
        self._source = source
        self._lock = threading.RLock()
        self._compiled: dict[tuple[Device, int], Compiled] = {}
        self._derived: dict[object, Traced] = {}
        self._fastest: dict[int, Device] = {}

    @property
    def source(self) -> Source | None:
        """The text that it was made from, or that the function was made from of which it is the derivative."""
        return self._source

    @property
    def graph(self) -> Graph:
        """The graph; made now if nothing has asked for it before."""
        found = self._graph
        if found is not None:
            return found
        with self._lock:
            if self._graph is None:
                assert self._make is not None
                self._graph = self._make()
                self._make = None
            return self._graph

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
                found = None if self.record_key is None else load_compiled(self.outline, device, self.record_key)
                found = found or compile_graph(self.graph, device, self.record_key)
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
        raise RlxBackendError(f"no device can run `{self.outline.name}`", code="E0702", notes=refusals)

    def derive(self, key: object, make: Callable[[Graph], Graph]) -> Traced:
        """The transformed graph of a key, made once, or its outline where an earlier process made it."""
        with self._lock:
            found = self._derived.get(key)
            if found is None:
                found = self._derived[key] = self._derive(key, make)
            return found

    def _derive(self, key: object, make: Callable[[Graph], Graph]) -> Traced:
        if self.record_key is None:
            return Traced(make(self.graph))
        from rlxlang import warm

        record_key = warm.derived_key(self.record_key, key)
        outline = None if record_key is None else warm.load_record(record_key, self._source)
        if outline is not None:
            return Traced(lambda: make(self.graph), outline[0], record_key, self._source)
        graph = make(self.graph)
        if record_key is not None and not warm.store_record(record_key, graph, (), self._source):
            record_key = None
        return Traced(graph, None, record_key, self._source)
