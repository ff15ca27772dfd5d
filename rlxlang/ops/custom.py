"""Functions as nodes: `custom` carries its own derivative rules, `remat` is computed again in the backward pass.

Node inputs are the arguments of the function; the attribute `body` is the function, a graph with as many inputs. One output
is the node's value, several are read by `item` nodes. Both ops vanish into their bodies before kernels are made.

`barrier` is the identity that keeps apart what is computed on its two sides: no pass merges a value behind it with the equal
value in front of it, so a recomputation stays one (Griewank & Walther 2000; Chen et al. 2016, arXiv:1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import VIA_DECOMPOSITION, Builder, Graph, GraphOutput, Node, Op, Sample, declare, register
from rlxlang.ops import emit
from rlxlang.ops.control import batched_transform, float_flags, forward_transform, inline, pull_transform
from rlxlang.ops.lowering import Barrier
from rlxlang.types import F64, DimLike, ShapeContext, TensorType, TupleType, TypeProblem

# --------------------------------------------------------------------------------------------- barrier


BARRIER = register(
    Op(
        "barrier",
        "The operand; what is computed from it is never merged with what is computed from the operand itself.",
        lambda context, x: x,
        lambda x: x,
        lambda b, node, primals, tangents: b.emit("barrier", tangents[0]),
        lambda b, node, primals, ct: (ct,),
        lambda b, node, args, axes, size: (b.emit("barrier", args[0]), axes[0]),
        Barrier(),
        lambda rng: [Sample((rng.normal(size=(2, 3)),), {})],
    )
)


def fresh(b: Builder, node: Node) -> Node:
    """The value behind a barrier; known data as it is."""
    known = not node.inputs and node.op.name != "input"
    return node if known else b.emit("barrier", node)


# --------------------------------------------------------------------------------------------- what both ops share


def call(b: Builder, op: str, arguments: Sequence[Node], **attrs: Any) -> list[Node]:
    """Emit `custom` or `remat`; returns the results."""
    return results_of(b, b.emit(op, *arguments, **attrs))


def results_of(b: Builder, node: Node) -> list[Node]:
    """The results of a node, one or several."""
    if not isinstance(node.type, TupleType):
        return [node]
    return [b.emit("item", node, index=k) for k in range(len(node.type.items))]


def _infer(context: ShapeContext, *types: TensorType, body: Graph, **rules: Graph | None) -> TensorType | TupleType:
    if len(types) != len(body.inputs):
        raise TypeProblem("E0600", f"`{body.name}` has {len(body.inputs)} inputs, {len(types)} values are given")
    for given, entry in zip(types, body.inputs, strict=True):
        want = entry.node.tensor
        if given.dtype != want.dtype:
            raise TypeProblem("E0302", f"`{entry.name}` of `{body.name}` is {want.dtype}, and {given.dtype} is given")
        context.same_shape(given.shape, want.shape, f"the shapes of `{entry.name}` inside and outside of `{body.name}`")
    results = tuple(o.node.tensor for o in body.outputs)
    return results[0] if len(results) == 1 else TupleType(results)


def _reference(
    *arrays: np.ndarray[Any, Any],
    body: Graph,
    run_graph: Callable[[Graph, Sequence[Any]], list[Any]],
    **rules: Graph | None,
) -> Any:
    results = run_graph(body, arrays)
    return results[0] if len(results) == 1 else tuple(results)


def _decompose(b: Builder, *inputs: Node, body: Graph, **rules: Graph | None) -> Any:
    results = inline(b, body, inputs)
    return results[0] if len(results) == 1 else tuple(results)


def _seeds(b: Builder, node: Node, cotangents: Any) -> list[Node]:
    """The cotangents of the float results, zeros for absent ones."""
    several = isinstance(node.type, TupleType)
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    return [
        b.full(0, t.dtype, t.shape) if ct is None else ct
        for ct, t in zip(cotangents if several else [cotangents], types, strict=True)
        if t.dtype.is_differentiable
    ]


def _spread(found: Sequence[Node], flags: Sequence[bool]) -> tuple[Node | None, ...]:
    """The values at the places that are set, None at the others."""
    rest = iter(found)
    return tuple(next(rest) if on else None for on in flags)


def _tangents(node: Node, found: Sequence[Node]) -> Any:
    """Tangents of the float results as the rules of ops give them."""
    parts = _spread(found, float_flags(node.attrs["body"].outputs))
    return parts if isinstance(node.type, TupleType) else parts[0]


def _changed(graph: Graph, change: Callable[[Builder, list[Node]], list[Node]]) -> Graph:
    """The graph with its outputs replaced by what `change` makes of them."""
    b = Builder()
    inputs = [b.input(e.name, e.node.dtype, e.node.shape) for e in graph.inputs]
    results = change(b, inline(b, graph, inputs))
    outputs = [GraphOutput(f"y{k}", r) for k, r in enumerate(results)]
    return b.finish(graph.name, map(declare, inputs), outputs)


# --------------------------------------------------------------------------------------------- remat


def _jvp_remat(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Any:
    body: Graph = node.attrs["body"]
    given = [t for t in tangents if t is not None]
    forward = forward_transform(body, [t is not None for t in tangents])
    pushed = forward.outputs[len(body.outputs) :]
    kept = tuple(o for o, on in zip(pushed, float_flags(body.outputs), strict=True) if on)
    if not kept:
        return None
    return _tangents(
        node,
        call(b, "remat", [*primals, *given], body=Graph(forward.name, forward.inputs, kept, forward.guards)),
    )


def _vjp_remat(b: Builder, node: Node, primals: Sequence[Node], cotangents: Any) -> tuple[Node | None, ...]:
    body: Graph = node.attrs["body"]
    active = float_flags(body.inputs)
    pulled = pull_transform(body, active)
    return _spread(inline(b, pulled, [*(fresh(b, p) for p in primals), *_seeds(b, node, cotangents)]), active)


def _batch_remat(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Any:
    body, flags = batched_transform(node.attrs["body"], [a is not None for a in axes], size)
    moved = [x if a is None else emit.move_axis(b, x, a, 0) for x, a in zip(args, axes, strict=True)]
    where = tuple(0 if on else None for on in flags)
    return b.emit("remat", *moved, body=body), where if isinstance(node.type, TupleType) else where[0]


# --------------------------------------------------------------------------------------------- custom


def _jvp_custom(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> Any:
    body, rule = node.attrs["body"], node.attrs["jvp"]
    if rule is None:
        raise RlxTransformError(
            f"`{body.name}` has a `vjp` rule alone, so forward mode through it is not defined",
            code="E0501",
            span=node.origin.span,
            helps=(f"add a rule `jvp {body.name}(…; …) {{ … }}`",),
        )
    floats = float_flags(body.inputs)
    given = [b.zeros_like(p) if t is None else t for p, t, on in zip(primals, tangents, floats, strict=True) if on]
    return _tangents(node, inline(b, rule, [*primals, *given]))


def _vjp_custom(b: Builder, node: Node, primals: Sequence[Node], cotangents: Any) -> tuple[Node | None, ...]:
    body, rule = node.attrs["body"], node.attrs["vjp"]
    floats = float_flags(body.inputs)
    seeds = _seeds(b, node, cotangents)
    if rule is not None:
        return _spread(inline(b, rule, [*primals, *seeds]), floats)
    # The jvp rule is linear in its tangents, so its pull-back by them, at zero as at any place, is its transpose.
    forward: Graph = node.attrs["jvp"]
    count = len(body.inputs)
    transposed = pull_transform(forward, [k >= count for k in range(len(forward.inputs))])
    at = [b.zeros_like(p) for p, on in zip(primals, floats, strict=True) if on]
    return _spread(inline(b, transposed, [*primals, *at, *seeds]), floats)


def _batch_custom(b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike) -> Any:
    body: Graph = node.attrs["body"]
    on = [a is not None for a in axes]
    active = [flag for flag, is_float in zip(on, float_flags(body.inputs), strict=True) if is_float]
    rules: dict[str, Graph | None] = {"vjp": None, "jvp": None}
    if node.attrs["jvp"] is not None:
        rules["jvp"] = _repeated(node.attrs["jvp"], [*on, *active], size)
    if node.attrs["vjp"] is not None:
        results = sum(float_flags(body.outputs))
        rules["vjp"] = _summed(node.attrs["vjp"], [*on, *([True] * results)], active, size)
    moved = [x if a is None else emit.move_axis(b, x, a, 0) for x, a in zip(args, axes, strict=True)]
    return b.emit("custom", *moved, body=_repeated(body, on, size), **rules), 0


def _repeated(graph: Graph, batched: Sequence[bool], size: DimLike) -> Graph:
    """The graph over a batch, with all results batched: shared ones are repeated, so that each lane has its own cotangent."""
    inner, flags = batched_transform(graph, batched, size)

    def change(b: Builder, results: list[Node]) -> list[Node]:
        return [r if on else emit.insert_axis(b, r, 0, size) for r, on in zip(results, flags, strict=True)]

    return inner if all(flags) else _changed(inner, change)


def _summed(rule: Graph, batched: Sequence[bool], active: Sequence[bool], size: DimLike) -> Graph:
    """A vjp rule over a batch: cotangents of shared arguments (not `active`) are sums over the lanes."""
    inner = _repeated(rule, batched, size)

    def change(b: Builder, results: list[Node]) -> list[Node]:
        return [r if on else emit.reduce_sum(b, r, (0,)) for r, on in zip(results, active, strict=True)]

    return inner if all(active) else _changed(inner, change)


# --------------------------------------------------------------------------------------------- samples


def _sample_body() -> Graph:
    """x, w ↦ tanh(x·w)."""
    b = Builder()
    x, w = b.input("x", F64, (3,)), b.input("w", F64, (3,))
    return b.finish("f", map(declare, (x, w)), [GraphOutput("y", b.emit("tanh", emit.mul(b, x, w)))])


def _sample_jvp() -> Graph:
    """x, w, x', w' ↦ (1 - tanh(x·w)²)·(x'·w + x·w')."""
    b = Builder()
    x, w, dx, dw = (b.input(n, F64, (3,)) for n in ("x", "w", "dx", "dw"))
    slope = emit.one_minus(b, emit.square(b, b.emit("tanh", emit.mul(b, x, w))))
    result = emit.mul(b, slope, emit.add(b, emit.mul(b, dx, w), emit.mul(b, x, dw)))
    return b.finish("f", map(declare, (x, w, dx, dw)), [GraphOutput("t", result)])


def _sample_vjp() -> Graph:
    """x, w, g ↦ the transpose of that."""
    b = Builder()
    x, w, g = (b.input(n, F64, (3,)) for n in ("x", "w", "g"))
    scaled = emit.mul(b, g, emit.one_minus(b, emit.square(b, b.emit("tanh", emit.mul(b, x, w)))))
    outputs = [GraphOutput("dx", emit.mul(b, scaled, w)), GraphOutput("dw", emit.mul(b, scaled, x))]
    return b.finish("f", map(declare, (x, w, g)), outputs)


def _samples_custom(rng: np.random.Generator) -> list[Sample]:
    rules = [(_sample_vjp(), _sample_jvp()), (None, _sample_jvp())]
    args = (rng.normal(size=3), rng.normal(size=3))
    return [Sample(args, {"body": _sample_body(), "vjp": vjp, "jvp": jvp}) for vjp, jvp in rules]


def _samples_remat(rng: np.random.Generator) -> list[Sample]:
    return [Sample((rng.normal(size=3), rng.normal(size=3)), {"body": _sample_body()})]


CUSTOM = register(
    Op(
        "custom",
        "A function with derivative rules of its own: graphs `vjp` and `jvp`, either may be None.",
        _infer,
        _reference,
        _jvp_custom,
        _vjp_custom,
        _batch_custom,
        VIA_DECOMPOSITION,
        _samples_custom,
        decompose=_decompose,
    )
)

REMAT = register(
    Op(
        "remat",
        "A function that the backward pass computes again from its arguments instead of keeping what is in between.",
        _infer,
        _reference,
        _jvp_remat,
        _vjp_remat,
        _batch_remat,
        VIA_DECOMPOSITION,
        _samples_remat,
        decompose=_decompose,
    )
)
