"""Complex numbers before kernels are made: every C64 value becomes two F32 values, its real and imaginary parts.

What comes in and goes out keeps its memory, which is that of F32 with a last axis of 2 (op `reinterpret`); so do carries of loops
and what routines are given. Everything else works on the parts, so kernels and backends know real numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxBackendError
from rlxlang.ir import OPS, UNDEFINED, Builder, Graph, GraphInput, GraphOutput, Node, Op, declare
from rlxlang.kernels import call_routine
from rlxlang.kernels.fourier import joined, parted
from rlxlang.lower.complex_functions import FUNCTIONS
from rlxlang.ops import emit
from rlxlang.ops import lowering as how
from rlxlang.transforms import expand, replay
from rlxlang.types import BOOL, C64, F32, I32, DType, ShapeContext, TensorType, TupleType


def _infer_reinterpret(context: ShapeContext, x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(dtype, (*x.shape, 2) if dtype == F32 else x.shape[:-1])


# Rows that only lowered graphs have; the table of ops that users see is without them.
_REINTERPRET = Op(
    "reinterpret",
    "C64 as F32 with a last axis of 2, or back.",
    _infer_reinterpret,
    lambda x, *, dtype: parted(x) if dtype == F32 else joined(x),
    UNDEFINED,
    UNDEFINED,
    UNDEFINED,
    how.Reinterpret(),
    lambda rng: [],
)


class Parts:
    """A complex value: its parts, or memory that holds both, or all three; what is missing is made when asked for."""

    def __init__(self, b: Builder, re: Node | None = None, im: Node | None = None, packed: Node | None = None) -> None:
        self._b, self._re, self._im, self._packed = b, re, im, packed

    def _taken(self, k: int) -> Node:
        packed = self._packed
        assert packed is not None
        last = len(packed.shape) - 1
        return emit.reshape(self._b, emit.slice_axis(self._b, packed, last, k, k + 1), packed.shape[:-1])

    @property
    def re(self) -> Node:
        """Real part."""
        if self._re is None:
            self._re = self._taken(0)
        return self._re

    @property
    def im(self) -> Node:
        """Imaginary part."""
        if self._im is None:
            self._im = self._taken(1)
        return self._im

    @property
    def packed(self) -> Node:
        """Both parts along a new last axis."""
        if self._packed is None:
            both = [emit.reshape(self._b, x, (*x.shape, 1)) for x in (self.re, self.im)]
            self._packed = emit.concat(self._b, both, len(both[0].shape) - 1)
        return self._packed


Value: TypeAlias = "Node | Parts"
Rule: TypeAlias = Callable[[Builder, Node, "list[Any]"], Value]


def complex_as_parts(graph: Graph) -> Graph:
    """The same function in real numbers; a graph without C64 is given back as it is.

    Args:
        graph: One without ops that are lowered by their decomposition; the result may have some again.

    Raises:
        RlxBackendError: E0702, an op has no form in real numbers.
    """
    if not mentions_complex(graph):
        return graph
    b = Builder()
    env: dict[Node, Any] = {}
    inputs: list[GraphInput] = []
    for entry in graph.inputs:
        with b.at(entry.node.origin):
            node = b.input(entry.name, entry.node.dtype, entry.node.shape, entry.kind)
            packed = b.emit(_REINTERPRET, node, dtype=F32) if node.dtype == C64 else None
        env[entry.node] = node if packed is None else Parts(b, packed=packed)
        inputs.append(declare(node, entry.init, entry.doc))
    replay(b, graph, env, lambda node, operands: _apart(b, node, operands))  # type: ignore[arg-type, return-value]
    outputs = []
    for o in graph.outputs:
        value = env[o.node]
        if isinstance(value, Parts):
            packed = value.packed
            value = packed.inputs[0] if packed.op is _REINTERPRET else b.emit(_REINTERPRET, packed, dtype=C64)
        outputs.append(GraphOutput(o.name, value, o.role))
    return b.finish(graph.name, inputs, outputs)


def _body_as_parts(body: Graph) -> Graph:
    """The body of a loop or branch; complex inputs and outputs become F32 with a last axis of 2."""
    if not mentions_complex(body):
        return body
    body = expand(body, "lower")[0]
    b = Builder()
    env: dict[Node, Any] = {}
    inputs: list[GraphInput] = []
    for entry in body.inputs:
        old = entry.node
        is_complex = old.dtype == C64
        node = b.input(entry.name, F32 if is_complex else old.dtype, (*old.shape, 2) if is_complex else old.shape)
        env[old] = Parts(b, packed=node) if is_complex else node
        inputs.append(declare(node))
    replay(b, body, env, lambda node, operands: _apart(b, node, operands))  # type: ignore[arg-type, return-value]
    return b.finish(body.name, inputs, [GraphOutput(o.name, _whole(env[o.node]), o.role) for o in body.outputs])


def mentions_complex(graph: Graph) -> bool:
    """Whether some value is C64, in the graph or in a body inside."""
    todo = [graph]
    while todo:
        for node in todo.pop().nodes:
            items = node.type.items if isinstance(node.type, TupleType) else (node.type,)
            if any(t.dtype == C64 for t in items):
                return True
            todo += [v for v in node.attrs.values() if isinstance(v, Graph)]
    return False


def _whole(value: Value) -> Node:
    return value.packed if isinstance(value, Parts) else value


def _apart(b: Builder, node: Node, operands: list[Any]) -> Value:
    """A node for operands of which some are parts."""
    bodies = {k: _body_as_parts(v) for k, v in node.attrs.items() if isinstance(v, Graph)}
    if bodies:
        return b.emit(node.op, *map(_whole, operands), **{**node.attrs, **bodies})
    is_complex = isinstance(node.type, TensorType) and node.type.dtype == C64
    if node.op.name == "item":
        item = b.emit(node.op, operands[0], **node.attrs)
        return Parts(b, packed=item) if is_complex else item
    if not is_complex and not any(isinstance(x, Parts) for x in operands):
        return b.emit(node.op, *operands, **node.attrs)
    name = node.op.name
    if name in FUNCTIONS:
        found = FUNCTIONS[name](b, *((x.re, x.im) for x in operands))
        return Parts(b, *found) if isinstance(found, tuple) else found
    if name in _PARTWISE:
        return _partwise(b, node, operands)
    rule = _RULES.get(name)
    if rule is None:
        raise RlxBackendError(
            f"`{name}` of C64 is not available in compiled kernels", code="E0702", span=node.origin.span
        )
    return rule(b, node, operands)


# Ops that treat real and imaginary parts alike; operands that are real (conditions, indices) serve both.
_PARTWISE = frozenset(
    (
        "add", "sub", "neg", "sum", "cumsum", "select", "concat", "reshape", "transpose", "broadcast_to", "slice", "flip", "windows",
        "fold", "take", "take_along_axis", "scatter_add", "scatter_set", "stop_gradient", "barrier",
    )
)  # fmt: skip


def _partwise(b: Builder, node: Node, operands: Sequence[Any]) -> Parts:
    re, im = (
        b.emit(node.op, *[(x.re, x.im)[k] if isinstance(x, Parts) else x for x in operands], **node.attrs)
        for k in (0, 1)
    )
    return Parts(b, re, im)


def _of_real(b: Builder, re: Node) -> Parts:
    return Parts(b, re, b.zeros_like(re))


def _constant(b: Builder, node: Node, operands: list[Any]) -> Parts:
    data = node.attrs["data"].array
    return Parts(b, b.constant(np.array(data.real)), b.constant(np.array(data.imag)))


def _positions(b: Builder, node: Node, operands: list[Any]) -> Parts:
    return _of_real(b, b.emit(node.op, **{**node.attrs, "dtype": F32}))


def _cast(b: Builder, node: Node, operands: list[Any]) -> Value:
    x, dtype = operands[0], node.attrs["dtype"]
    if not isinstance(x, Parts):
        return _of_real(b, emit.cast(b, x, F32))
    if dtype == C64:
        return x
    if dtype == BOOL:
        return b.emit("bit_or", emit.cast(b, x.re, BOOL), emit.cast(b, x.im, BOOL))
    return emit.cast(b, x.re, dtype)


def _pad(b: Builder, node: Node, operands: list[Any]) -> Parts:
    x, value = operands[0], complex(node.attrs["value"])
    re, im = (
        b.emit("pad", part, **{**node.attrs, "value": number})
        for part, number in ((x.re, value.real), (x.im, value.imag))
    )
    return Parts(b, re, im)


def _dot(b: Builder, node: Node, operands: list[Any]) -> Parts:
    x, y = operands
    rr, ii, ri, ir = (
        b.emit("dot_general", p, q, **node.attrs) for p, q in ((x.re, y.re), (x.im, y.im), (x.re, y.im), (x.im, y.re))
    )
    return Parts(b, emit.sub(b, rr, ii), emit.add(b, ri, ir))


def _infer_pairs(context: ShapeContext, x: TensorType, **attrs: Any) -> TensorType:
    return x


def _packed_row(name: str, infer: Callable[..., TensorType]) -> Op:
    """The routine of an op on memory with a last axis of 2."""
    return replace(
        OPS[name], infer=infer, reference=lambda *arrays, **attrs: call_routine(name, arrays, attrs)[0], surface=None
    )


def _infer_packed_rfft(context: ShapeContext, x: TensorType, *, axis: int) -> TensorType:
    found: TensorType = OPS["rfft"].infer(context, x, axis=axis)
    return TensorType(F32, (*found.shape, 2))


def _fft(b: Builder, node: Node, operands: list[Any]) -> Parts:
    return Parts(b, packed=b.emit(_packed_row("fft", _infer_pairs), operands[0].packed, **node.attrs))


def _rfft(b: Builder, node: Node, operands: list[Any]) -> Parts:
    return Parts(b, packed=b.emit(_packed_row("rfft", _infer_packed_rfft), operands[0], **node.attrs))


def _irfft(b: Builder, node: Node, operands: list[Any]) -> Node:
    """The length goes to the routine as a value, as it may be a dynamic size."""
    n, result = node.attrs["n"], node.tensor
    count = b.emit("dim_size", dim=n, dtype=I32)
    row = _packed_row("irfft", lambda context, x, count, *, axis: result)
    return b.emit(row, operands[0].packed, count, axis=node.attrs["axis"])


_RULES: dict[str, Rule] = {
    "constant": _constant,
    "iota": _positions,
    "dim_size": _positions,
    "cast": _cast,
    "pad": _pad,
    "dot_general": _dot,
    "complex": lambda b, node, operands: Parts(b, *operands),
    "real": lambda b, node, operands: operands[0].re,
    "imag": lambda b, node, operands: operands[0].im,
    "conj": lambda b, node, operands: Parts(b, operands[0].re, emit.neg(b, operands[0].im)),
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
}
