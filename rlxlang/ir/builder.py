"""The builder: the only way to make nodes. It infers types, interns equal nodes and keeps guards and origins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlxlang.ir.node import Constant, Graph, GraphInput, GraphOutput, Initializer, Node, SourcedGuard, topological
from rlxlang.ir.op import OPS, Op
from rlxlang.ir.origin import UNKNOWN, Origin
from rlxlang.types import (
    U32,
    Dim,
    DType,
    Guard,
    Shape,
    ShapeContext,
    TensorType,
    from_numpy,
)


def attribute_key(value: Any) -> Any:
    """A hashable key under which equal attributes meet and 1, 1.0, True, 0.0 and -0.0 stay apart."""
    if isinstance(value, (bool, int, str, Dim, DType)) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, (tuple, list)):
        return ("tuple", *(attribute_key(v) for v in value))
    if isinstance(value, Graph):
        return ("graph", id(value))
    return (type(value).__name__, value)


class Builder:
    """Makes nodes; one builder makes one graph.

    Attributes:
        origin: The origin given to new nodes; set it with `at`.
        guards: Conditions collected so far, without repetition.
        draws: How many ops have drawn random numbers of the run's seed.
        steps: Step numbers, U32 scalars, of the loops whose bodies are being built, outermost first.
    """

    def __init__(self) -> None:
        self._pool: dict[tuple[Any, ...], Node] = {}
        self.guards: dict[Guard, SourcedGuard] = {}
        self.origin: Origin = UNKNOWN
        self.draws = 0
        self.steps: tuple[Node, ...] = ()
        self._seed: Node | None = None
        self._kept: list[Graph] = []

    @contextmanager
    def at(self, origin: Origin) -> Iterator[None]:
        """Give nodes made inside this origin."""
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Make nodes inside anew, also those that equal one made before; among themselves they are interned."""
        before, self._pool = self._pool, {}
        try:
            yield
        finally:
            self._pool = before

    def emit(self, op: Op | str, *inputs: Node, **attrs: Any) -> Node:
        """The node that applies `op`; an equal node made before is returned instead of a new one.

        Raises:
            TypeProblem: The op's shape rule refuses the operands.
        """
        row = OPS[op] if isinstance(op, str) else op
        key = (row.name, *map(id, inputs), *((k, attribute_key(attrs[k])) for k in sorted(attrs)))
        found = self._pool.get(key)
        if found is not None:
            return found
        context = ShapeContext()
        result = row.infer(context, *[i.type for i in inputs], **attrs)
        for guard in context.guards:
            self.guards.setdefault(guard, SourcedGuard(guard, self.origin))
        self._kept += [v for v in attrs.values() if isinstance(v, Graph)]  # their ids are part of keys
        node = Node(row, tuple(inputs), dict(attrs), result, self.origin)
        self._pool[key] = node
        return node

    def require(self, guard: SourcedGuard) -> None:
        """Add a guard that an earlier graph already had."""
        self.guards.setdefault(guard.guard, guard)

    def input(self, name: str, dtype: DType, shape: Shape, kind: str = "input") -> Node:
        """The node of a named input (`kind` `input` or `param`); every call makes a new one."""
        node = Node(OPS["input"], (), {"name": name, "kind": kind}, TensorType(dtype, tuple(shape)), self.origin)
        self._pool[("input", id(node))] = node
        return node

    def seed(self) -> Node:
        """The key of the run's random numbers, U32 [2]; the graph gets an input of kind `seed` for it if an output needs it."""
        if self._seed is None:
            self._seed = self.input("seed", U32, (2,), "seed")
        return self._seed

    @contextmanager
    def stepping(self, step: Node) -> Iterator[None]:
        """Random numbers drawn inside differ from step to step of a loop."""
        before, self.steps = self.steps, (*self.steps, step)
        try:
            yield
        finally:
            self.steps = before

    def constant(self, value: Any, dtype: DType | None = None) -> Node:
        """A constant of a NumPy array or number.

        Raises:
            TypeError: The array's dtype has no counterpart in the language.
        """
        array = np.asarray(value, None if dtype is None else dtype.numpy)
        own = dtype or from_numpy(array.dtype)
        if own is None:
            raise TypeError(f"arrays of dtype {array.dtype} cannot be constants")
        return self.emit("constant", data=Constant(array))

    def full(self, value: float | int | bool, dtype: DType, shape: Sequence[Any] = ()) -> Node:
        """A tensor filled with one number."""
        scalar = self.constant(np.asarray(value).astype(dtype.numpy))
        return scalar if not shape else self.emit("broadcast_to", scalar, shape=tuple(shape))

    def full_like(self, node: Node, value: float | int | bool) -> Node:
        """A tensor of the type of `node` filled with one number."""
        return self.full(value, node.tensor.dtype, node.tensor.shape)

    def zeros_like(self, node: Node) -> Node:
        """A tensor of zeros of the type of `node`."""
        return self.full_like(node, 0)

    def finish(self, name: str, inputs: Iterable[GraphInput], outputs: Iterable[GraphOutput]) -> Graph:
        """The graph of these inputs and outputs, with all guards collected."""
        inputs, outputs = tuple(inputs), tuple(outputs)
        if self._seed is not None and self._seed in topological(o.node for o in outputs):
            inputs = (*inputs, self._named_seed(self._seed, {i.name for i in inputs}))
        return Graph(name, inputs, outputs, tuple(self.guards.values()))

    def _named_seed(self, seed: Node, taken: set[str]) -> GraphInput:
        """The seed under a name of its own, settled now that all others are known."""
        name, k = "seed", 2
        while name in taken:
            name, k = f"seed_{k}", k + 1
        assert isinstance(seed.attrs, dict)
        seed.attrs["name"] = name
        return declare(seed)


def declare(node: Node, init: Initializer | None = None, doc: str = "") -> GraphInput:
    """The graph input that belongs to a node made by `Builder.input`."""
    return GraphInput(node.attrs["name"], node.attrs["kind"], node, init, doc)
