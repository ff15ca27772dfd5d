"""Loops, choices and functions with rules of their own, of Python functions over tensors of a graph.

Values are tensors, numbers and arrays, and tuples, lists and dicts of such; what a function gives back has the same structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxTypeError, RlxValueError
from rlxlang.ir import Builder, Graph, Node
from rlxlang.ops import emit
from rlxlang.scope import GraphScope, Tensor, typed_errors
from rlxlang.transforms.segments import scan_in_segments, segment_length
from rlxlang.types import BOOL, U32, Dim, DimLike

Structure: TypeAlias = Any
"""Tensors and what they are held in."""


# ------------------------------------------------------------------------------------------ structures
def _leaves(value: Structure) -> list[Any]:
    """The tensors, numbers and arrays of a structure in order; dicts by sorted key."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _filled(like: Structure, leaves: Any) -> Structure:
    """A structure of the same kind with other leaves, taken in order."""
    if isinstance(like, dict):
        return {key: _filled(like[key], leaves) for key in sorted(like)}
    if isinstance(like, (tuple, list)):
        items = [_filled(item, leaves) for item in like]
        return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)
    return None if like is None else next(leaves)


def _shape_of(value: Structure) -> Any:
    """What two structures must share."""
    if isinstance(value, dict):
        return "dict", tuple((key, _shape_of(value[key])) for key in sorted(value))
    if isinstance(value, (tuple, list)):
        return "list", tuple(_shape_of(item) for item in value)
    return "none" if value is None else "leaf"


def _scope(what: str, *values: Structure) -> GraphScope:
    for leaf in _leaves(values):
        if isinstance(leaf, Tensor):
            return leaf.scope
    raise RlxTypeError(
        f"`{what}` needs at least one Tensor among its values",
        code="E0304",
        helps=("make one with `scope.constant(value)`",),
    )


def _nodes(scope: GraphScope, value: Structure) -> list[Node]:
    return [_node(scope, leaf) for leaf in _leaves(value)]


def _node(scope: GraphScope, leaf: Any) -> Node:
    return scope.node_of(leaf if isinstance(leaf, Tensor) else scope.constant(leaf))


def _wrapped(scope: GraphScope, like: Structure, nodes: Sequence[Node]) -> Structure:
    return _filled(like, iter([Tensor(scope, n) for n in nodes]))


def _computed(scope: GraphScope, like: Structure, nodes: Sequence[Node]) -> Structure:
    """What has been computed, in the structure of `like`."""
    return _filled(like, iter([scope.computed(n) for n in nodes]))


def _same_structure(what: str, value: Structure, like: Structure) -> None:
    if _shape_of(value) != _shape_of(like):
        raise RlxTypeError(f"{what} is {_described(value)}, expected {_described(like)}", code="E0306")


def _described(value: Structure) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_described(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(_described, value)) + ("," if len(value) == 1 else "") + ")"
    return "None" if value is None else str(value.node.type) if isinstance(value, Tensor) else type(value).__name__


def _same_types(what: str, given: Sequence[Node], wanted: Sequence[Node]) -> None:
    """Each value has the type of the one it takes the place of."""
    for k, (new, old) in enumerate(zip(given, wanted, strict=True)):
        if new.dtype != old.dtype or tuple(new.shape) != tuple(old.shape):
            place = f" (value {k})" if len(wanted) > 1 else ""
            raise RlxShapeError(
                f"{what}{place} changes from {old.type} to {new.type}",
                code="E0603",
                helps=("it keeps its shape and dtype: `cast` or `broadcast_to` it",),
            )


def _holes(b: Builder, nodes: Sequence[Node], names: str) -> list[Node]:
    return [b.input(f"{names}{k}", n.dtype, n.shape) for k, n in enumerate(nodes)]


def _items(b: Builder, node: Node, count: int) -> list[Node]:
    return [b.emit("item", node, index=k) for k in range(count)]


# ------------------------------------------------------------------------------------------ loops
def scan(
    step: Callable[..., tuple[Structure, Structure]],
    init: Structure,
    xs: Structure = None,
    *,
    length: int | Dim | None = None,
    reverse: bool = False,
    checkpoint: int | Literal["sqrt"] | None = None,
) -> tuple[Structure, Structure]:
    """Run `carry, y = step(carry, x)` for every slice of `xs` along its first axis.

    Args:
        step: A function of the carry and of the slices; it is called once, while the graph is built.
        init: The first carry.
        xs: Tensors that are gone through together; None for a loop of `length` steps, whose `x` is None.
        length: How many steps, when `xs` is None.
        reverse: From the last slice to the first; the stacked results stay aligned with `xs`.
        checkpoint: Reverse mode keeps the carry once in so many steps instead of in every step, and computes the steps in between
            again; `"sqrt"` for the square root of the number of steps, which is what memory then grows with.

    Returns:
        The last carry, and `y` of all steps stacked along a new first axis.

    Raises:
        RlxShapeError: E0401 the sources differ in length; E0603 the carry changes its type.
        RlxTypeError: A structure differs, or nothing is a tensor.
        RlxValueError: Neither or both of `xs` and `length` are given, or `checkpoint` is no number of steps.
        RlxTransformError: E0500 `"sqrt"` of a dynamic length.
    """
    from rlxlang.frontend.loops import cut, drawing

    scope = _scope("scan", init, xs)
    b = scope.builder
    starts, sources = _nodes(scope, init), _nodes(scope, xs)
    if bool(sources) == (length is not None):
        raise RlxValueError("`scan` takes either `xs` or `length=`")
    count = _length(sources, length)
    carry, slices = _holes(b, starts, "carry"), [b.input(f"x{k}", s.dtype, s.shape[1:]) for k, s in enumerate(sources)]
    with drawing(b) as steps:
        found: Any = step(_wrapped(scope, init, carry), _wrapped(scope, xs, slices))
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise RlxTypeError(f"the step of a scan gives `(carry, y)`, {_described(found)} is given", code="E0306")
    after, emitted = found
    _same_structure("the carry after a step", after, init)
    results, stacked = _nodes(scope, after), _nodes(scope, emitted)
    _same_types("the carry", results, starts)
    body, closed = cut([*carry, *slices, *steps], [*results, *stacked], b)
    with typed_errors():
        if steps:
            sources = [*sources, emit.iota(b, (count,), 0, U32)]
        node = b.emit(
            "scan", *starts, *sources, *closed,
            body=body, length=count, carries=len(starts), sources=len(sources), reverse=bool(reverse),
        )  # fmt: skip
        items = _items(b, node, len(results) + len(stacked))
        if checkpoint is not None:
            if checkpoint != "sqrt":
                _steps("`checkpoint`", checkpoint, least=1)
            items = [*scan_in_segments(b, node, node.inputs, segment_length(count, checkpoint))]
    return _computed(scope, init, items[: len(starts)]), _computed(scope, emitted, items[len(starts) :])


def _length(sources: Sequence[Node], length: Any) -> DimLike:
    if not sources:
        if isinstance(length, Dim):
            return length
        return _steps("the length of a scan", length)
    for source in sources:
        if not source.tensor.rank:
            raise RlxShapeError("a scan goes through tensors with an axis, and a scalar is given", code="E0404")
    count: DimLike = sources[0].shape[0]
    for other in sources[1:]:
        if other.shape[0] != count:
            raise RlxShapeError(f"the sources of a scan differ in length: {count} and {other.shape[0]}", code="E0401")
    return count


def _steps(what: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise RlxValueError(f"{what} is an integer of {least} or more, not {value!r}", code="E0602")
    return int(value)


def while_loop(
    condition: Callable[..., Tensor],
    body: Callable[..., Structure],
    init: Structure,
    *,
    max_steps: int | None = None,
) -> Structure:
    """Run `carry = body(carry)` as long as `condition(carry)` holds.

    Args:
        condition: Gives a Bool scalar.
        body: Gives the next carry, of the same structure and types.
        init: The first carry.
        max_steps: Stop after so many steps; reverse mode needs it, as it keeps the carries of all steps.

    Raises:
        RlxShapeError: E0603 the carry changes its type.
        RlxTypeError: The condition is no Bool scalar, a structure differs, or nothing is a tensor.
        RlxValueError: `max_steps` is no integer of 0 or more.
    """
    from rlxlang.frontend.loops import cut, drawing

    scope = _scope("while_loop", init)
    b = scope.builder
    limit = None if max_steps is None else _steps("`max_steps`", max_steps)
    starts = _nodes(scope, init)
    holes = _holes(b, starts, "carry")
    with drawing(b) as steps:
        asked = condition(_wrapped(scope, init, holes))
        after = body(_wrapped(scope, init, holes))
    _same_structure("the carry after a step", after, init)
    results = _nodes(scope, after)
    _same_types("the carry", results, starts)
    test = _predicate(scope, asked, "the condition of a loop")
    for number in steps:
        starts.append(b.full(0, U32))
        holes.append(number)
        results.append(emit.shift(b, number, 1))
    whole, closed = cut(holes, [test, *results], b)
    asks = Graph("condition", whole.inputs, whole.outputs[:1], whole.guards)
    steps_once = Graph("body", whole.inputs, whole.outputs[1:], whole.guards)
    with typed_errors():
        node = b.emit("while", *starts, *closed, cond=asks, body=steps_once, carries=len(starts), limit=limit)
    return _computed(scope, init, _items(b, node, len(_leaves(init))))


def _predicate(scope: GraphScope, value: Any, what: str) -> Node:
    node = _node(scope, value)
    if node.dtype != BOOL or node.tensor.rank:
        raise RlxTypeError(f"{what} is a Bool scalar, and {node.type} is given", code="E0303")
    return node


# ------------------------------------------------------------------------------------------ choices
def cond(
    predicate: Any, then: Callable[..., Structure], orelse: Callable[..., Structure], *operands: Structure
) -> Structure:
    """`then(*operands)` if a Bool scalar is true, else `orelse(*operands)`; at run time only that one is computed.

    Args:
        predicate: A Bool scalar, or a Python bool, which decides while the graph is built.
        then: A function of the operands.
        orelse: Another, which gives the same structure and types.
        operands: What both are given; they may also use tensors of the graph.

    Raises:
        RlxShapeError: E0604 the branches differ in type.
        RlxTypeError: The predicate is no Bool scalar, or the branches differ in structure.
    """
    from rlxlang.frontend.branches import cut_branches

    if isinstance(predicate, (bool, np.bool_)):
        return (then if predicate else orelse)(*operands)
    scope = _scope("cond", predicate, operands)
    b = scope.builder
    test = _predicate(scope, predicate, "the condition of a choice")
    since = b.full(0, U32).serial
    with b.apart():
        first = then(*operands)
        left = _nodes(scope, first)
    with b.apart():
        second = orelse(*operands)
        right = _nodes(scope, second)
    _same_structure("the second branch", second, first)
    for k, (x, y) in enumerate(zip(left, right, strict=True)):
        if x.dtype != y.dtype or tuple(x.shape) != tuple(y.shape):
            raise RlxShapeError(
                f"result {k} is {x.type} in one branch and {y.type} in the other",
                code="E0604",
                helps=("both branches give one shape and one dtype",),
            )
    if not left:
        return first
    (yes, no), closed = cut_branches(since, [left, right], b)
    with typed_errors():
        node = b.emit("cond", test, *closed, then=yes, orelse=no)
    return _computed(scope, first, _items(b, node, len(left)))


# ------------------------------------------------------------------------------------------ rules of their own
def remat(function: Callable[..., Structure]) -> Callable[..., Structure]:
    """The same function of tensors; derivatives compute its inner values again instead of keeping them.

    Source: Griewank & Walther 2000; Chen et al. 2016, arXiv:1604.06174.
    """

    def call(*arguments: Structure) -> Structure:
        from rlxlang.frontend.loops import cut
        from rlxlang.ops import custom

        scope = _scope("remat", arguments)
        nodes = _nodes(scope, arguments)
        holes, results, like = _called(scope, function, arguments, nodes)
        body, closed = cut(holes, results, scope.builder)
        with typed_errors():
            return _computed(scope, like, custom.call(scope.builder, "remat", [*nodes, *closed], body=body))

    return call


def custom_vjp(
    function: Callable[..., Structure], rule: Callable[..., Structure], *, jvp: Callable[..., Structure] | bool = False
) -> Callable[..., Structure]:
    """A function of tensors with its own reverse rule.

    Args:
        function: What it computes.
        rule: `rule(*arguments, *cotangents)` gives the cotangents of the arguments, in order, of those that are floats; one cotangent
            is given for each result that is a float.
        jvp: `jvp(*arguments, *tangents)` for forward mode; True takes the derivative of `function` itself; False refuses forward mode.

    Returns:
        A function of the same arguments; tensors of the graph that are no arguments are refused, as no rule would see them.

    Raises:
        RlxTypeError: When it is called: the rule gives another structure, or uses what is no argument.
        RlxShapeError: A cotangent has another type than its argument.
    """
    return lambda *arguments: _custom(function, rule, jvp, arguments)


def custom_jvp(function: Callable[..., Structure], rule: Callable[..., Structure]) -> Callable[..., Structure]:
    """A function of tensors with its own forward rule, whose transpose also serves reverse mode.

    Args:
        function: What it computes.
        rule: `rule(*arguments, *tangents)`, one tangent for each argument that is a float, gives the tangents of the float results.

    Returns:
        A function of the same arguments; raises as `custom_vjp`.
    """
    return lambda *arguments: _custom(function, None, rule, arguments)


def _custom(
    function: Callable[..., Structure],
    vjp: Callable[..., Structure] | None,
    jvp: Callable[..., Structure] | bool,
    arguments: tuple[Structure, ...],
) -> Structure:
    from rlxlang.ops import control, custom

    name = getattr(function, "__name__", "function")
    scope = _scope(name, arguments)
    b, nodes = scope.builder, _nodes(scope, arguments)
    holes, results, like = _called(scope, function, arguments, nodes)
    body = _alone(f"`{name}`", holes, results)
    rules: dict[str, Graph | None] = {"vjp": None, "jvp": None}
    if vjp is not None:
        rules["vjp"] = _rule(
            scope, vjp, f"the vjp rule of `{name}`", arguments, nodes, _floats(results), _floats(nodes)
        )
    if jvp is True:
        pushed = control.forward_transform(body, control.float_flags(body.inputs))
        tangents = pushed.outputs[len(body.outputs) :]
        kept = [o for o, on in zip(tangents, control.float_flags(body.outputs), strict=True) if on]
        rules["jvp"] = Graph(name, pushed.inputs, tuple(kept), pushed.guards)
    elif callable(jvp):
        rules["jvp"] = _rule(
            scope, jvp, f"the jvp rule of `{name}`", arguments, nodes, _floats(nodes), _floats(results)
        )
    with typed_errors():
        return _computed(scope, like, custom.call(b, "custom", nodes, body=body, **rules))


def _called(
    scope: GraphScope, function: Callable[..., Structure], arguments: tuple[Structure, ...], nodes: list[Node]
) -> tuple[list[Node], list[Node], Structure]:
    """Placeholders of the arguments, what the function makes of them, and what its result looks like."""
    holes = _holes(scope.builder, nodes, "x")
    result = function(*_wrapped(scope, arguments, holes))
    found = _nodes(scope, result)
    if not found:
        raise RlxTypeError("a function that gives no tensor has no derivative", code="E0304")
    return holes, found, result


def _floats(nodes: Sequence[Node]) -> list[Node]:
    return [n for n in nodes if n.dtype.is_differentiable]


def _rule(
    scope: GraphScope,
    rule: Callable[..., Structure],
    what: str,
    arguments: tuple[Structure, ...],
    nodes: list[Node],
    given: list[Node],
    wanted: list[Node],
) -> Graph:
    """A rule as a graph of the arguments and of `given`, whose results have the types of `wanted`."""
    b = scope.builder
    holes, seeds = _holes(b, nodes, "x"), _holes(b, given, "g")
    result = rule(*_wrapped(scope, arguments, holes), *(Tensor(scope, s) for s in seeds))
    leaves = result if isinstance(result, (tuple, list)) else [result]
    if len(leaves) != len(wanted):
        raise RlxTypeError(f"{what} gives {len(leaves)} values, expected {len(wanted)}", code="E0306")
    found = [b.zeros_like(w) if leaf is None else _node(scope, leaf) for leaf, w in zip(leaves, wanted, strict=True)]
    _same_types(f"what {what} gives", found, wanted)
    return _alone(what, [*holes, *seeds], found)


def _alone(what: str, holes: Sequence[Node], results: Sequence[Node]) -> Graph:
    """The results as a graph of the placeholders alone.

    Raises:
        RlxTypeError: They depend on anything else.
    """
    from rlxlang.frontend.loops import closed_graph

    found = closed_graph(what.replace("`", ""), holes, results)
    if isinstance(found, Graph):
        return found
    seed = found.attrs["kind"] == "seed"
    name = "the run's seed" if seed else f"`{found.attrs['name']}`, {found.type},"
    raise RlxTypeError(
        f"{what} uses {name} which is no argument, so that no rule would see it",
        code="E0306",
        helps=("draw with `key:`, and make the key an argument" if seed else "make it an argument",),
    )
