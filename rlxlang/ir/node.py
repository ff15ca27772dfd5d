"""Nodes and graphs: an immutable data-flow program of named inputs, parameters and outputs."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlxlang.ir.origin import UNKNOWN, Origin
from rlxlang.types import Guard, TensorType, TupleType, ValueType, axes_of

if TYPE_CHECKING:
    from rlxlang.ir.op import Op

_serials = itertools.count()


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One application of an op; equal only to itself (a builder never makes two alike).

    Attributes:
        op: The row of the op table.
        inputs: Operands.
        attrs: Static options; never changed after construction.
        type: Type of the result; a `TupleType` for an op with several results, read by `item` nodes.
        origin: Where it comes from; no part of its identity.
        serial: Grows with creation, so sorting by it is a topological order within one builder.
    """

    op: Op
    inputs: tuple[Node, ...]
    attrs: Mapping[str, Any]
    type: ValueType
    origin: Origin = UNKNOWN
    serial: int = field(default_factory=lambda: next(_serials))

    @property
    def tensor(self) -> TensorType:
        """The type of a node with one result."""
        if isinstance(self.type, TupleType):
            raise TypeError(f"`{self.op.name}` has several results")
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        """Dims of the result: integers or `Dim`."""
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        """Element type of the result."""
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.type}>"


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The data of a constant node; equal by element type, shape and bytes (so 0.0 is not -0.0)."""

    array: np.ndarray[Any, Any]
    digest: bytes = b""

    def __post_init__(self) -> None:
        array = np.ascontiguousarray(self.array).reshape(self.array.shape)
        if array is self.array or array.base is not None:
            array = array.copy()
        array.flags.writeable = False
        key = hashlib.sha256(f"{array.dtype.name}{array.shape}".encode() + array.tobytes()).digest()
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "digest", key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.array.dtype}, {self.array.shape})"


@dataclass(frozen=True, slots=True)
class Initializer:
    """How a parameter starts: a call from the module `init`, `he_normal()`, `normal(0.02)`, or a number."""

    name: str
    args: tuple[tuple[str, float | int | bool | str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}: {v}' for k, v in self.args)})"


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A named input or parameter of a graph.

    Attributes:
        name: Run-time name.
        kind: `input` (given at each run), `param` (bound once) or `seed` (the key of the run's random numbers, known without being given).
        node: The node that stands for it.
        init: How a parameter starts, if the source says so.
        doc: The `///` text.
    """

    name: str
    kind: str
    node: Node
    init: Initializer | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """A named output; `role` is `out` (the first is the loss), or `tap` (never part of the loss)."""

    name: str
    node: Node
    role: str = "out"


@dataclass(frozen=True, slots=True)
class SourcedGuard:
    """A guard with the place that asked for it."""

    guard: Guard
    origin: Origin = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A function of named inputs and parameters.

    Attributes:
        name: Name of the model.
        inputs: Inputs and parameters, in order of declaration.
        outputs: Outputs and then taps.
        guards: Conditions on the dynamic sizes, checked at every run.
        nodes: Every node that an input or output needs, in topological order.
    """

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    guards: tuple[SourcedGuard, ...] = ()
    nodes: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        if not self.nodes:
            roots = [i.node for i in self.inputs] + [o.node for o in self.outputs]
            object.__setattr__(self, "nodes", topological(roots))

    def input(self, name: str) -> GraphInput | None:
        """The input or parameter of that name, or None."""
        return next((i for i in self.inputs if i.name == name), None)

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
        """What differs from run to run, in order of declaration: the inputs and the seed."""
        return tuple(i for i in self.inputs if i.kind != "param")

    def axes(self) -> tuple[str, ...]:
        """Names of the dynamic axes, in order of first appearance in the inputs, then any others."""
        seen: dict[str, None] = {}
        for node in (*(entry.node for entry in self.inputs), *self.nodes):
            items = node.type.items if isinstance(node.type, TupleType) else (node.type,)
            for item in items:
                for dim in item.shape:
                    seen |= dict.fromkeys(axes_of(dim))
        return tuple(seen)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)


def topological(roots: Iterable[Node]) -> tuple[Node, ...]:
    """All nodes that the roots need, operands before users."""
    seen: set[Node] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        todo.extend(node.inputs)
    return tuple(sorted(seen, key=lambda n: n.serial))
