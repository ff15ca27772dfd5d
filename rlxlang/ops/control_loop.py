"""`while`: a body graph run as long as a condition graph says so, with carries handed from step to step.

Node inputs are the starts of the carries, then values that condition and body close over. Both graphs have the inputs carries,
closed-over values; the condition gives one Bool scalar, the body the new carries. The results are the last carries. With a
`limit` the loop stops after so many steps with the carries as they are.

Reverse mode needs the limit: a loop of at most `limit` steps is a scan of that many steps, each of which is a `cond` that does
nothing once the condition has failed. Its derivative is that of the steps taken, and steps that are not taken compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, GraphOutput, Node, Op, Sample, declare, register
from rlxlang.ops import emit
from rlxlang.ops.control import batched_transform, float_flags, forward_transform, inline, pull_transform, scan
from rlxlang.ops.control_branch import cond, select_lanes
from rlxlang.ops.lowering import WhileLoop
from rlxlang.types import BOOL, F64, I32, DimLike, ShapeContext, TensorType, TupleType, TypeProblem


def while_loop(
    b: Builder,
    condition: Graph,
    body: Graph,
    starts: Sequence[Node],
    closed: Sequence[Node],
    limit: DimLike | None = None,
) -> list[Node]:
    """Emit a while loop; returns the last carries."""
    node = b.emit("while", *starts, *closed, cond=condition, body=body, carries=len(starts), limit=limit)
    return [b.emit("item", node, index=k) for k in range(len(starts))]


# --------------------------------------------------------------------------------------------- shape rule, meaning


def check_inputs(context: ShapeContext, op: str, types: Sequence[TensorType], graph: Graph) -> None:
    """Refuse values that do not fit the inputs of a body.

    Raises:
        TypeProblem: E0600 another count, E0302 another dtype, E0401 another shape.
    """
    if len(types) != len(graph.inputs):
        raise TypeProblem("E0600", f"the body of `{op}` has {len(graph.inputs)} inputs, {len(types)} values are given")
    for given, entry in zip(types, graph.inputs, strict=True):
        want = entry.node.tensor
        if given.dtype != want.dtype:
            raise TypeProblem("E0302", f"`{entry.name}` of `{op}` is {want.dtype}, and {given.dtype} is given")
        context.same_shape(given.shape, want.shape, f"the shapes of `{entry.name}` inside and outside of `{op}`")


def _infer(
    context: ShapeContext, *types: TensorType, cond: Graph, body: Graph, carries: int, limit: DimLike | None
) -> TupleType:
    for graph in (cond, body):
        check_inputs(context, "while", types, graph)
    if len(cond.outputs) != 1 or cond.outputs[0].node.tensor != TensorType(BOOL, ()):
        found = ", ".join(str(o.node.type) for o in cond.outputs)
        raise TypeProblem("E0301", f"the condition of a loop is one Bool scalar, and it is {found}")
    if len(body.outputs) != carries:
        raise TypeProblem("E0600", f"the body of `while` gives {len(body.outputs)} values for {carries} carries")
    if isinstance(limit, int) and limit < 0:
        raise TypeProblem("E0602", f"the limit of a loop is 0 or more, and {limit} is given")
    results = []
    for entry, output in zip(body.inputs[:carries], body.outputs, strict=True):
        start, found_type = entry.node.tensor, output.node.tensor
        if found_type.dtype != start.dtype:
            raise TypeProblem("E0603", f"the carry `{entry.name}` starts as {start} and becomes {found_type}")
        context.same_shape(start.shape, found_type.shape, f"the shapes of the carry `{entry.name}`", "E0603")
        results.append(start)
    return TupleType(tuple(results))


def _reference(
    *arrays: np.ndarray[Any, Any],
    cond: Graph,
    body: Graph,
    carries: int,
    limit: int | None,
    run_graph: Callable[[Graph, Sequence[Any]], list[Any]],
) -> tuple[Any, ...]:
    state, closed = list(arrays[:carries]), arrays[carries:]
    steps = 0
    while (limit is None or steps < limit) and bool(run_graph(cond, [*state, *closed])[0]):
        state = run_graph(body, [*state, *closed])
        steps += 1
    return tuple(state)


# --------------------------------------------------------------------------------------------- derivatives


def _jvp(b: Builder, node: Node, primals: Sequence[Node], tangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    body: Graph = node.attrs["body"]
    carries = node.attrs["carries"]
    # A carry may become active in any step, so all float carries have tangents.
    floats = float_flags(body.inputs)
    active = [on and (k < carries or t is not None) for k, (on, t) in enumerate(zip(floats, tangents, strict=True))]
    given = [(b.zeros_like(p) if t is None else t) for p, t, on in zip(primals, tangents, active, strict=True) if on]
    moving = sum(active[:carries])
    forward = forward_transform(body, active)

    def parts(values: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """Values of the joint loop as primal values and tangents, each carries first."""
        own = [*values[:carries], *values[carries + moving : carries + moving + len(primals) - carries]]
        return own, [*values[carries : carries + moving], *values[moving + len(primals) :]]

    joint = [*primals[:carries], *given[:moving], *primals[carries:], *given[moving:]]
    step = Builder()
    inputs = [step.input(f"x{k}", n.dtype, n.shape) for k, n in enumerate(joint)]
    own, pushed = parts(inputs)
    results = inline(step, forward, [*own, *pushed])
    plain, moved = results[:carries], results[carries:]
    outputs = [*plain, *(t for t, on in zip(moved, active[:carries], strict=True) if on)]
    last = while_loop(
        b,
        over_inputs(node.attrs["cond"], joint, lambda values: parts(values)[0]),
        step.finish(body.name, map(declare, inputs), [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)]),
        joint[: carries + moving],
        joint[carries + moving :],
        node.attrs["limit"],
    )
    found = iter(last[carries:])
    return tuple(next(found) if on else None for on in active[:carries])


def over_inputs(graph: Graph, like: Sequence[Node], pick: Callable[[Sequence[Node]], Sequence[Node]]) -> Graph:
    """The graph as a function of inputs like these, `pick` chooses those that it takes."""
    b = Builder()
    inputs = [b.input(f"x{k}", n.dtype, n.shape) for k, n in enumerate(like)]
    results = inline(b, graph, pick(inputs))
    return b.finish(graph.name, map(declare, inputs), [GraphOutput(f"y{k}", n) for k, n in enumerate(results)])


def _vjp(b: Builder, node: Node, primals: Sequence[Node], cotangents: Sequence[Node | None]) -> tuple[Node | None, ...]:
    if node.attrs["limit"] is None:
        raise RlxTransformError(
            "`grad`: a loop without a bound cannot be differentiated in reverse mode",
            code="E0501",
            span=node.origin.span,
            notes=("the values of every step are kept, so their number must be bounded",),
            helps=("bound the number of steps: `while … max 100`",),
        )
    bounded = _as_scan(node)
    active = float_flags(bounded.inputs)
    pulled = pull_transform(bounded, active)
    seeds = [
        b.full(0, o.node.dtype, o.node.shape) if ct is None else ct
        for ct, o in zip(cotangents, bounded.outputs, strict=True)
        if o.node.dtype.is_differentiable
    ]
    found = iter(inline(b, pulled, [*primals, *seeds]))
    return tuple(next(found) if on else None for on in active)


def _as_scan(node: Node) -> Graph:
    """The loop as a scan of `limit` steps over the carries and whether the loop still runs."""
    condition, body, carries = node.attrs["cond"], node.attrs["body"], node.attrs["carries"]
    step = Builder()
    state = [step.input(f"c{k}", i.node.dtype, i.node.shape) for k, i in enumerate(body.inputs[:carries])]
    runs = step.input("runs", BOOL, ())
    closed = [step.input(f"x{k}", i.node.dtype, i.node.shape) for k, i in enumerate(body.inputs[carries:])]
    still = step.emit("bit_and", runs, inline(step, condition, [*state, *closed])[0])
    stay = over_inputs(body, [*state, *closed], lambda values: values)
    stay = Graph(
        "stay",
        stay.inputs,
        tuple(GraphOutput(f"y{k}", i.node) for k, i in enumerate(stay.inputs[:carries])),
    )
    results = cond(step, still, body, stay, [*state, *closed])
    outputs = [GraphOutput(f"y{k}", n) for k, n in enumerate([*results, still])]
    inner = step.finish("step", map(declare, (*state, runs, *closed)), outputs)
    whole = Builder()
    inputs = [whole.input(f"x{k}", i.node.dtype, i.node.shape) for k, i in enumerate(body.inputs)]
    starts = [*inputs[:carries], whole.constant(np.array(True))]
    last, _ = scan(whole, inner, starts, [], inputs[carries:], node.attrs["limit"])
    return whole.finish(
        "bounded", map(declare, inputs), [GraphOutput(f"y{k}", n) for k, n in enumerate(last[:carries])]
    )


# --------------------------------------------------------------------------------------------- batching


def _batch(
    b: Builder, node: Node, args: Sequence[Node], axes: Sequence[int | None], size: DimLike
) -> tuple[Node, tuple[int | None, ...]]:
    condition, body, carries = node.attrs["cond"], node.attrs["body"], node.attrs["carries"]
    batched = [a is not None for a in axes]
    while True:  # a carry that becomes batched in a step is batched from the start; each round adds at least one
        lanes, flags = batched_transform(body, batched, size)
        test, asks = batched_transform(condition, batched, size)
        # Lanes that end at different steps hold different values of every carry.
        grown = [on or (k < carries and (asks[0] or flags[k])) for k, on in enumerate(batched)]
        if grown == batched:
            break
        batched = grown
    moved = [
        x if not on else emit.insert_axis(b, x, 0, size) if axis is None else emit.move_axis(b, x, axis, 0)
        for x, axis, on in zip(args, axes, batched, strict=True)
    ]
    step = Builder()
    inputs = [step.input(f"x{k}", n.dtype, n.shape) for k, n in enumerate(moved)]
    runs = inline(step, test, inputs)[0] if asks[0] else None
    results = inline(step, lanes, inputs if runs is None else _of_running_lanes(step, runs, inputs, batched))
    results = [
        emit.insert_axis(step, r, 0, size) if on and not flag else r
        for r, flag, on in zip(results, flags, batched[:carries], strict=True)
    ]
    if runs is not None:
        results = [select_lanes(step, runs, r, old) for r, old in zip(results, inputs[:carries], strict=True)]
    inner = step.finish(body.name, map(declare, inputs), [GraphOutput(f"y{k}", r) for k, r in enumerate(results)])
    if asks[0]:
        test = _any_lane(test)
    result = b.emit("while", *moved, **{**node.attrs, "cond": test, "body": inner})
    return result, tuple(0 if on else None for on in batched[:carries])


def _of_running_lanes(b: Builder, runs: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> list[Node]:
    """The inputs of a step with those of finished lanes replaced by those of the first that still runs.

    The results of finished lanes are dropped. But a step may be out of its domain there, and its derivative infinite, which times the
    cotangent 0 of a dropped result would be NaN.
    """
    first = b.emit("argmax", emit.cast(b, runs, I32), axis=0)
    found = []
    for x, on in zip(inputs, batched, strict=True):
        if on:
            one = b.emit("stop_gradient", emit.take(b, x, emit.reshape(b, first, (1,)), 0))
            x = select_lanes(b, runs, x, emit.broadcast_to(b, one, x.shape))
        found.append(x)
    return found


def _any_lane(condition: Graph) -> Graph:
    """The condition that holds as long as it does for one lane."""
    b = Builder()
    inputs = [b.input(i.name, i.node.dtype, i.node.shape) for i in condition.inputs]
    answer = b.emit("any", inline(b, condition, inputs)[0], axes=(0,))
    return b.finish(condition.name, map(declare, inputs), [GraphOutput("any", answer)])


# --------------------------------------------------------------------------------------------- samples


def _samples(rng: np.random.Generator) -> list[Sample]:
    """h, n ↦ tanh(h·w) + h, n + 1 while n < 3; once to its end, once stopped by the limit, once with zero steps."""
    test = Builder()
    h, n, w = test.input("h", F64, (2,)), test.input("n", I32, ()), test.input("w", F64, (2,))
    answer = test.emit("lt", n, test.constant(np.int32(3)))
    condition = test.finish("condition", map(declare, (h, n, w)), [GraphOutput("runs", answer)])
    b = Builder()
    h, n, w = b.input("h", F64, (2,)), b.input("n", I32, ()), b.input("w", F64, (2,))
    new = emit.add(b, b.emit("tanh", emit.mul(b, h, w)), h)
    outputs = [GraphOutput("h", new), GraphOutput("n", emit.shift(b, n, 1))]
    body = b.finish("body", map(declare, (h, n, w)), outputs)
    attrs = {"cond": condition, "body": body, "carries": 2}
    return [
        Sample((rng.normal(size=2), np.asarray(start, np.int32), rng.normal(size=2)), {**attrs, "limit": limit})
        for start, limit in ((0, 5), (0, 2), (7, 4))
    ]


WHILE = register(
    Op(
        "while",
        "A body graph run as long as a condition holds, with carries handed from step to step.",
        _infer,
        _reference,
        _jvp,
        _vjp,
        _batch,
        WhileLoop(),
        _samples,
    )
)
