"""`scan`: a body graph run once per step, with carries handed from step to step.

Node inputs are the starts of the carries, then the sources (stacked along axis 0), then values the body closes over. The body
has the inputs carries, slices of the sources, closed-over values, and the outputs new carries, emitted values. The results
are the last carries and the emitted values stacked along a new axis 0. With `reverse` the steps run from the last slice to
the first, and emitted values stay aligned with their slices.

Derivative and batching rules need transforms of the body, which belong to a higher layer: `rlxlang.transforms` fills in
`BODY_TRANSFORMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, Op, Sample, declare, register
from rlxlang.ops import emit
from rlxlang.ops.lowering import ScanLoop
from rlxlang.types import F64, DimLike, ShapeContext, TensorType, TupleType, TypeProblem


@dataclass(slots=True)
class BodyTransforms:
    """Transforms of a scan's body, filled in by `rlxlang.transforms`.

    Attributes:
        jvp: `jvp(body, active)`: inputs of the body, then tangents of the active ones; outputs of the body, then a tangent of each.
        vjp: `vjp(body, active)`: inputs of the body, then a cotangent of each float output; cotangents of the active inputs.
        vmap: `vmap(body, batched, size)`: the body with the batch axis in front of batched inputs, and which outputs are batched.
    """

    jvp: Callable[[Graph, Sequence[bool]], Graph] | None = None
    vjp: Callable[[Graph, Sequence[bool]], Graph] | None = None
    vmap: Callable[[Graph, list[bool], DimLike], tuple[Graph, list[bool]]] | None = None


BODY_TRANSFORMS = BodyTransforms()


def _ready(transform: Any) -> Any:
    """A transform of bodies; those of `rlxlang.transforms` must have been put in place."""
    if transform is None:
        raise RuntimeError("the transforms of scan bodies are not registered: import rlxlang.transforms")
    return transform


def forward_transform(body: Graph, active: Sequence[bool]) -> Graph:
    """The body with tangents; see `BodyTransforms.jvp`."""
    return _ready(BODY_TRANSFORMS.jvp)(body, active)  # type: ignore[no-any-return]


def pull_transform(body: Graph, active: Sequence[bool]) -> Graph:
    """The pull-back of the body; see `BodyTransforms.vjp`."""
    return _ready(BODY_TRANSFORMS.vjp)(body, active)  # type: ignore[no-any-return]


def batched_transform(body: Graph, batched: Sequence[bool], size: DimLike) -> tuple[Graph, list[bool]]:
    """The body over a batch, and which of its outputs are batched; see `BodyTransforms.vmap`."""
    return _ready(BODY_TRANSFORMS.vmap)(body, list(batched), size)  # type: ignore[no-any-return]


def float_flags(entries: Sequence[GraphInput | GraphOutput]) -> list[bool]:
    """Which inputs or outputs have derivatives."""
    return [_is_float(e) for e in entries]


def inline(b: Builder, graph: Graph, arguments: Sequence[Node]) -> list[Node]:
    """The outputs of a graph for these values of its inputs, emitted into `b`."""
    env = {entry.node: value for entry, value in zip(graph.inputs, arguments, strict=True)}
    for guard in graph.guards:
        b.require(guard)
    for node in graph.nodes:
        if node not in env:
            with b.at(node.origin):
                env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    return [env[o.node] for o in graph.outputs]


def scan(
    b: Builder,
    body: Graph,
    starts: Sequence[Node],
    sources: Sequence[Node],
    closed: Sequence[Node],
    length: DimLike,
    reverse: bool = False,
) -> tuple[list[Node], list[Node]]:
    """Emit a scan; returns the last carries and the stacked emitted values."""
    node = b.emit(
        "scan",
        *starts,
        *sources,
        *closed,
        body=body,
        length=length,
        carries=len(starts),
        sources=len(sources),
        reverse=reverse,
    )
    assert isinstance(node.type, TupleType)
    items = [b.emit("item", node, index=k) for k in range(len(node.type.items))]
    return items[: len(starts)], items[len(starts) :]


# --------------------------------------------------------------------------------------------- shape rule, meaning


def _infer(
    context: ShapeContext, *types: TensorType, body: Graph, length: DimLike, carries: int, sources: int, reverse: bool
) -> TupleType:
    if len(types) != len(body.inputs):
        raise TypeProblem("E0600", f"the body of `scan` has {len(body.inputs)} inputs, {len(types)} values are given")
    for k, (given, entry) in enumerate(zip(types, body.inputs, strict=True)):
        want = entry.node.tensor
        shape = given.shape
        if carries <= k < carries + sources:
            if not shape:
                raise TypeProblem("E0404", "`scan` runs over the first axis of a tensor, and a scalar is given")
            context.same(shape[0], length, "the lengths of the sources of `scan`")
            shape = shape[1:]
        if given.dtype != want.dtype:
            raise TypeProblem("E0302", f"`{entry.name}` of `scan` is {want.dtype}, and {given.dtype} is given")
        context.same_shape(shape, want.shape, f"the shapes of `{entry.name}` inside and outside of `scan`")
    results = []
    for k, output in enumerate(body.outputs):
        found = output.node.tensor
        if k >= carries:
            results.append(found.with_shape((length, *found.shape)))
            continue
        start = body.inputs[k].node.tensor
        if found.dtype != start.dtype:
            raise TypeProblem("E0603", f"the carry `{body.inputs[k].name}` starts as {start} and becomes {found}")
        context.same_shape(start.shape, found.shape, f"the shapes of the carry `{body.inputs[k].name}`", "E0603")
        results.append(start)
    return TupleType(tuple(results))


def _reference(
    *arrays: np.ndarray[Any, Any],
    body: Graph,
    length: int,
    carries: int,
    sources: int,
    reverse: bool,
    run_body: Callable[..., Any],
) -> tuple[Any, ...]:
    names = [i.name for i in body.inputs]
    state = list(arrays[:carries])
    stacks, closed = arrays[carries : carries + sources], arrays[carries + sources :]
    emitted: list[list[Any]] = [[] for _ in body.outputs[carries:]]
    for step in range(length):
        place = length - 1 - step if reverse else step
        values = [*state, *(s[place] for s in stacks), *closed]
        results = run_body(dict(zip(names, values, strict=True)))
        state = results[:carries]
        for stack, value in zip(emitted, results[carries:], strict=True):
            stack.append(value)
    if length == 0:
        return (*state, *(None for _ in emitted))
    return (*state, *(np.stack(s[::-1] if reverse else s) for s in emitted))


# --------------------------------------------------------------------------------------------- derivatives


def _parts(node: Node, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Per-input values as those of carries, of sources and of closed-over values."""
    c, s = node.attrs["carries"], node.attrs["sources"]
    return list(values[:c]), list(values[c : c + s]), list(values[c + s :])


def _is_float(entry: GraphInput | GraphOutput) -> bool:
    return bool(entry.node.dtype.is_differentiable)


def _jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    body: Graph = node.attrs["body"]
    carries = node.attrs["carries"]
    # A carry may become active in any step, so all float carries have tangents.
    active = [
        _is_float(entry) and (k < carries or t is not None)
        for k, (entry, t) in enumerate(zip(body.inputs, tangents, strict=True))
    ]
    given = [
        (b.zeros_like(p) if t is None else t) if on else None
        for p, t, on in zip(primals, tangents, active, strict=True)
    ]
    forward: Graph = _ready(BODY_TRANSFORMS.jvp)(body, active)
    count = len(body.inputs)
    extra = iter(forward.inputs[count:])
    tangent_inputs = [next(extra) if on else None for on in active]
    own, moved = _parts(node, forward.inputs[:count]), _parts(node, tangent_inputs)
    inputs = [e for a, t in zip(own, moved, strict=True) for e in (*a, *(x for x in t if x is not None))]
    floats = [_is_float(o) for o in body.outputs]
    n = len(body.outputs)
    plain, pushed = forward.outputs[:n], [o if on else None for o, on in zip(forward.outputs[n:], floats, strict=True)]
    next_carries = [*plain[:carries], *(o for o in pushed[:carries] if o is not None)]
    emits = [*plain[carries:], *(o for o in pushed[carries:] if o is not None)]
    joint = Graph(forward.name, tuple(inputs), (*next_carries, *emits), forward.guards)
    groups = [
        [*a, *(x for x in t if x is not None)] for a, t in zip(_parts(node, primals), _parts(node, given), strict=True)
    ]
    last, stacked = scan(b, joint, groups[0], groups[1], groups[2], node.attrs["length"], node.attrs["reverse"])
    found = iter([*last[carries:], *stacked[n - carries :]])
    return tuple(next(found) if on else None for on in floats)


def _with_residuals(body: Graph, carries: int) -> Graph:
    """The body that emits nothing but the carries it was given."""
    kept = tuple(GraphOutput(f"residual_{i.name}", i.node) for i in body.inputs[:carries])
    return Graph(body.name, body.inputs, (*body.outputs[:carries], *kept), body.guards)


def _vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    body: Graph = node.attrs["body"]
    carries, length, reverse = node.attrs["carries"], node.attrs["length"], node.attrs["reverse"]
    assert isinstance(node.type, TupleType)
    starts, stacks, closed = _parts(node, primals)
    _, residuals = scan(b, _with_residuals(body, carries), starts, stacks, closed, length, reverse)
    active = [_is_float(i) for i in body.inputs]
    back = _backward_body(body, carries, node.attrs["sources"], active)
    cts = [
        b.full(0, t.dtype, t.shape) if ct is None else ct
        for ct, t in zip(cotangents, node.type.items, strict=True)
        if t.dtype.is_differentiable
    ]
    carry_count = sum(_is_float(o) for o in body.outputs[:carries])
    sums = [b.zeros_like(p) for p, on in zip(closed, active[carries + len(stacks) :], strict=True) if on]
    last, stacked = scan(
        b, back, [*cts[:carry_count], *sums], [*residuals, *stacks, *cts[carry_count:]], closed, length, not reverse
    )
    # Carries of the backward scan: cotangents of the starts, then sums for closed-over values; it emits those of the slices.
    order = iter([*last[:carry_count], *stacked, *last[carry_count:]])
    return tuple(next(order) if on else None for on in active)


def _backward_body(body: Graph, carries: int, sources: int, active: Sequence[bool]) -> Graph:
    """One step backwards.

    Carries: cotangents of the carries, sums for the closed-over values. Sources: the carries the step was given, its slices,
    cotangents of what it emitted. Outputs: the carries of the step before, then cotangents of the slices.
    """
    pulled: Graph = _ready(BODY_TRANSFORMS.vjp)(body, active)
    b = Builder()
    count = len(body.inputs)

    def twin(entry: GraphInput, name: str) -> Node:
        return b.input(name, entry.node.dtype, entry.node.shape)

    own = [twin(e, f"x{k}") for k, e in enumerate(pulled.inputs[:count])]
    cts = [twin(e, f"ct{k}") for k, e in enumerate(pulled.inputs[count:])]
    closed_entries = [
        e for e, on in zip(pulled.inputs[carries + sources : count], active[carries + sources :], strict=True) if on
    ]
    sums = [twin(e, f"sum{k}") for k, e in enumerate(closed_entries)]
    results = inline(b, pulled, [*own, *cts])
    split = sum(active[:carries])
    slices = sum(active[carries : carries + sources])
    d_carries, d_slices, d_closed = results[:split], results[split : split + slices], results[split + slices :]
    added = [emit.add(b, s, d) for s, d in zip(sums, d_closed, strict=True)]
    carry_cts = sum(_is_float(o) for o in body.outputs[:carries])
    inputs = [
        *cts[:carry_cts],
        *sums,
        *own[:carries],
        *own[carries : carries + sources],
        *cts[carry_cts:],
        *own[carries + sources :],
    ]
    outputs = [GraphOutput(f"y{k}", n) for k, n in enumerate((*d_carries, *added, *d_slices))]
    return b.finish(body.name, [declare(n) for n in inputs], outputs)


# --------------------------------------------------------------------------------------------- batching


def _batch(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> tuple[Node, tuple[int | None, ...]]:
    body: Graph = node.attrs["body"]
    carries, sources = node.attrs["carries"], node.attrs["sources"]
    batched = [a is not None for a in axes]
    while True:  # a carry that becomes batched in a step is batched from the start; each round adds at least one
        inner, flags = _ready(BODY_TRANSFORMS.vmap)(body, list(batched), size)
        grown = [on or (k < carries and flags[k]) for k, on in enumerate(batched)]
        if grown == batched:
            break
        batched = grown
    inner = _batched_carries(inner, [on and not out for on, out in zip(batched, flags[:carries], strict=False)], size)
    flags = [on or batched[k] if k < carries else on for k, on in enumerate(flags)]
    moved = []
    for k, (x, axis, on) in enumerate(zip(args, axes, batched, strict=True)):
        front = 1 if carries <= k < carries + sources else 0  # axis 0 of a source is the step
        if not on:
            moved.append(x)
        elif axis is None:
            moved.append(emit.insert_axis(b, x, front, size))
        else:
            moved.append(emit.move_axis(b, x, axis, front))
    result = b.emit("scan", *moved, **{**node.attrs, "body": inner})
    return result, tuple((0 if k < carries else 1) if on else None for k, on in enumerate(flags))


def _batched_carries(body: Graph, missing: Sequence[bool], size: DimLike) -> Graph:
    """The body with those new carries repeated over the batch that a step does not batch by itself."""
    if not any(missing):
        return body
    b = Builder()
    inputs = [b.input(e.name, e.node.dtype, e.node.shape) for e in body.inputs]
    results = inline(b, body, inputs)
    for k, lacks in enumerate(missing):
        if lacks:
            results[k] = emit.insert_axis(b, results[k], 0, size)
    outputs = [GraphOutput(o.name, r) for o, r in zip(body.outputs, results, strict=True)]
    return b.finish(body.name, [declare(n) for n in inputs], outputs)


# --------------------------------------------------------------------------------------------- samples


def _sample_body() -> Graph:
    """h, c, x, w ↦ h' = tanh(h·w + x), c' = c + h'; emits h'·x."""
    b = Builder()
    h, c, x, w = (b.input(n, F64, (2,)) for n in ("h", "c", "x", "w"))
    new = b.emit("tanh", emit.add(b, emit.mul(b, h, w), x))
    outputs = [GraphOutput("h", new), GraphOutput("c", emit.add(b, c, new)), GraphOutput("e", emit.mul(b, new, x))]
    return b.finish("body", [declare(n) for n in (h, c, x, w)], outputs)


def _samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample(
            (rng.normal(size=2), rng.normal(size=2), rng.normal(size=(4, 2)), rng.normal(size=2)),
            {"body": _sample_body(), "length": 4, "carries": 2, "sources": 1, "reverse": reverse},
        )
        for reverse in (False, True)
    ]


SCAN = register(
    Op(
        "scan",
        "A body graph run step by step, with carries, slices of sources and stacked emitted values.",
        _infer,
        _reference,
        _jvp,
        _vjp,
        _batch,
        ScanLoop(),
        _samples,
    )
)
