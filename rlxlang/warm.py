"""What a checked text is kept as on disk: its interface, without nodes, so that a warm start elaborates nothing.

The record holds names, types, initialisers, guards with their places, and the warnings to repeat. Nodes are made from the
source again when something asks for them. A record is plain data in `marshal` form under a checksum; its key is made from
everything the elaboration reads.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from rlxlang._version import __version__
from rlxlang.diagnostics import Diagnostic, Frame, Label, Source, Span
from rlxlang.ir import Graph, GraphInput, GraphOutput, Initializer, Node, Origin, SourcedGuard
from rlxlang.types import DTYPES, DType, Guard, TensorType
from rlxlang.types.portable import dim_from_plain, dim_to_plain, shape_from_plain, shape_to_plain

Plain: TypeAlias = Any
_PLAIN_NUMBERS = (bool, int, float, str)
_DATA_FOLDERS = ("grammar", "stdlib")


class Declared:
    """Stands for the node of an input or output where only its type and place are read."""

    __slots__ = ("origin", "tensor")

    def __init__(self, tensor: TensorType, origin: Origin) -> None:
        self.tensor = tensor
        self.origin = origin

    @property
    def type(self) -> TensorType:
        """Type of the value."""
        return self.tensor

    @property
    def shape(self) -> tuple[Any, ...]:
        """Dims: integers or `Dim`."""
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.tensor.dtype


class Outline:
    """A graph seen from outside; reads like a `Graph`, has no nodes.

    Attributes:
        name: Name of the graph.
        inputs: Inputs and params, in order of declaration; their nodes are `Declared`.
        outputs: Outputs and then taps; their nodes are `Declared`.
        guards: Conditions on the dynamic sizes.
        axis_names: Names of the dynamic axes.
    """

    __slots__ = ("axis_names", "guards", "inputs", "name", "outputs")

    def __init__(
        self,
        name: str,
        inputs: tuple[GraphInput, ...],
        outputs: tuple[GraphOutput, ...],
        guards: tuple[SourcedGuard, ...],
        axis_names: tuple[str, ...],
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.guards = guards
        self.axis_names = axis_names

    @property
    def params(self) -> tuple[GraphInput, ...]:
        """The parameters, in order of declaration."""
        return tuple(i for i in self.inputs if i.kind == "param")

    @property
    def feeds(self) -> tuple[GraphInput, ...]:
        """The inputs that are fed at each run, in order of declaration."""
        return tuple(i for i in self.inputs if i.kind == "input")

    @property
    def arguments(self) -> tuple[GraphInput, ...]:
        """The inputs and the seed, in order of declaration."""
        return tuple(i for i in self.inputs if i.kind != "param")

    def axes(self) -> tuple[str, ...]:
        """Names of the dynamic axes."""
        return self.axis_names


# --------------------------------------------------------------------------------------------- keys


def text_key(source: Source, configs: Mapping[str, Any]) -> str | None:
    """Where the record of a text is kept; None when a config has no exact spelling."""
    spelled = []
    for name in sorted(configs):
        value = _spelled(configs[name])
        if value is None:
            return None
        spelled.append(f"{name}={value}")
    return disk_key("text", source.name, source.text, *spelled)


def derived_key(key: str, transform: object) -> str | None:
    """Where the record of a transformed graph is kept, from the key of the graph; None without an exact spelling."""
    value = _spelled(transform)
    return None if value is None else disk_key("derived", key, value)


def disk_key(*parts: str) -> str:
    """A key of the cache for these parts and this version of the package."""
    from rlxlang.backends.llvm import cache

    encoded = (part.encode("utf-8", "surrogatepass") for part in parts)
    return cache.cache_key(
        "graph",
        __version__,
        sys.implementation.cache_tag or sys.version,
        _data_files(),
        *encoded,
        target=False,
        source=True,
    )


def _data_files() -> str:
    """Names, sizes and times of what the frontend reads besides modules: grammars and the library in the language itself."""
    import rlxlang.grammar as grammar
    import rlxlang.stdlib as stdlib

    found = []
    for package in (grammar, stdlib):
        for folder in package.__path__:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file() and not entry.name.endswith(".pyc"):
                        about = entry.stat()
                        found.append(f"{entry.name} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(sorted(found))


def _spelled(value: object) -> str | None:
    """A text that tells 1, 1.0 and True apart; None for anything but numbers, strings, None and sequences of such."""
    if value is None or type(value) in _PLAIN_NUMBERS:
        return f"{type(value).__name__}:{value!r}"
    if not isinstance(value, (tuple, list)):
        return None
    parts = [_spelled(item) for item in value]
    if None in parts:
        return None
    return f"{type(value).__name__}({', '.join(cast('list[str]', parts))})"


# --------------------------------------------------------------------------------------------- on disk


def load_record(key: str, source: Source | None) -> tuple[Outline, tuple[Diagnostic, ...]] | None:
    """The outline and the warnings kept under a key, or None."""
    from rlxlang.backends.llvm import cache

    data = cache.load("graph", key)
    return None if data is None else from_bytes(data, source)


def store_record(key: str, graph: Graph, diagnostics: Iterable[Diagnostic], source: Source | None) -> bool:
    """Keep the record of a graph; whether there is one to keep (the disk may still refuse it)."""
    from rlxlang.backends.llvm import cache

    data = to_bytes(graph, diagnostics, source)
    if data is None:
        return False
    cache.store("graph", key, data)
    return True


# --------------------------------------------------------------------------------------------- to plain data


class _OtherSource(Exception):
    """A place lies in another text than the one whose record is made."""


def to_bytes(graph: Graph | Outline, diagnostics: Iterable[Diagnostic], source: Source | None) -> bytes | None:
    """The record of a checked text; None when something in it lies in another text or has no plain form."""
    try:
        return marshal.dumps(
            (
                graph.name,
                tuple(_input_to_plain(entry, source) for entry in graph.inputs),
                tuple((o.name, o.role, _type_to_plain(o.node.tensor)) for o in graph.outputs),
                tuple(_guard_to_plain(guard, source) for guard in graph.guards),
                tuple(graph.axes()),
                tuple(_diagnostic_to_plain(d, source) for d in diagnostics),
            )
        )
    except (_OtherSource, TypeError, ValueError):
        return None


def _type_to_plain(tensor: TensorType) -> Plain:
    return tensor.dtype.name, shape_to_plain(tensor.shape)


def _span_to_plain(span: Span | None, source: Source | None) -> Plain:
    if span is None:
        return None
    if span.source is not source:
        raise _OtherSource
    return span.start, span.end


def _frames_to_plain(chain: Iterable[Frame], source: Source | None) -> Plain:
    return tuple((_span_to_plain(frame.span, source), frame.text) for frame in chain)


def _origin_to_plain(origin: Origin, source: Source | None) -> Plain:
    return _span_to_plain(origin.span, source), _frames_to_plain(origin.chain, source), tuple(origin.via)


def _input_to_plain(entry: GraphInput, source: Source | None) -> Plain:
    init = None if entry.init is None else (entry.init.name, tuple(entry.init.args))
    place = _origin_to_plain(entry.node.origin, source)
    return entry.name, entry.kind, _type_to_plain(entry.node.tensor), place, init, entry.doc


def _guard_to_plain(sourced: SourcedGuard, source: Source | None) -> Plain:
    guard = sourced.guard
    return (
        dim_to_plain(guard.left),
        guard.relation,
        dim_to_plain(guard.right),
        guard.what,
        _origin_to_plain(sourced.origin, source),
    )


def _diagnostic_to_plain(diagnostic: Diagnostic, source: Source | None) -> Plain:
    labels = tuple((_span_to_plain(label.span, source), label.text, label.primary) for label in diagnostic.labels)
    chain = _frames_to_plain(diagnostic.chain, source)
    return diagnostic.code, diagnostic.severity, diagnostic.message, labels, diagnostic.notes, diagnostic.helps, chain


# --------------------------------------------------------------------------------------------- from plain data


def from_bytes(data: bytes, source: Source | None) -> tuple[Outline, tuple[Diagnostic, ...]] | None:
    """The outline and the warnings of a record; None when it is none of ours."""
    try:
        name, inputs, outputs, guards, axes, diagnostics = marshal.loads(data)
        outline = Outline(
            name,
            tuple(_input_from_plain(row, source) for row in inputs),
            tuple(GraphOutput(n, _declared(kind, Origin()), role) for n, role, kind in outputs),
            tuple(_guard_from_plain(row, source) for row in guards),
            axes,
        )
        return outline, tuple(_diagnostic_from_plain(row, source) for row in diagnostics)
    except (EOFError, KeyError, TypeError, ValueError):
        return None


def _declared(kind: Plain, origin: Origin) -> Node:
    dtype, shape = kind
    return cast("Node", Declared(TensorType(DTYPES[dtype], shape_from_plain(shape)), origin))


def _span_from_plain(data: Plain, source: Source | None) -> Span | None:
    if data is None:
        return None
    if source is None:
        raise ValueError("a place without a source")
    return Span(source=source, start=data[0], end=data[1])


def _frames_from_plain(data: Plain, source: Source | None) -> tuple[Frame, ...]:
    return tuple(Frame(cast("Span", _span_from_plain(span, source)), text) for span, text in data)


def _origin_from_plain(data: Plain, source: Source | None) -> Origin:
    span, chain, via = data
    return Origin(_span_from_plain(span, source), _frames_from_plain(chain, source), via)


def _input_from_plain(data: Plain, source: Source | None) -> GraphInput:
    name, kind, tensor, origin, init, doc = data
    initializer = None if init is None else Initializer(*init)
    return GraphInput(name, kind, _declared(tensor, _origin_from_plain(origin, source)), initializer, doc)


def _guard_from_plain(data: Plain, source: Source | None) -> SourcedGuard:
    left, relation, right, what, origin = data
    guard = Guard(dim_from_plain(left), relation, dim_from_plain(right), what)
    return SourcedGuard(guard, _origin_from_plain(origin, source))


def _diagnostic_from_plain(data: Plain, source: Source | None) -> Diagnostic:
    code, severity, message, labels, notes, helps, chain = data
    return Diagnostic(
        code,
        severity,
        message,
        tuple(Label(cast("Span", _span_from_plain(s, source)), text, primary) for s, text, primary in labels),
        notes,
        helps,
        _frames_from_plain(chain, source),
    )
