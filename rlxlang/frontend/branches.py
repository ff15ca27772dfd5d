"""`loop … while` and `if` on a tensor: conditions and bodies are elaborated once, then cut out of the graph as graphs of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlxlang.diagnostics import Label
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.loops import BodyEnd, Scans, cut, drawing
from rlxlang.frontend.names import Scope
from rlxlang.frontend.values import POISON, Binding, ListValue, Poison, Unbound, describe, is_number
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, SourcedGuard, declare
from rlxlang.ops import emit
from rlxlang.ops.broadcasting import number_node, weak_type
from rlxlang.types import BOOL, U32, Dim, DimLike, DType, Guard, TensorType, dims_equal

RunBody = Callable[[ast.Body, Scope], BodyEnd]


def condition_node(context: Context, value: Any, expr: Any) -> Node | None:
    """A condition as a Bool scalar of the graph; None when it is none, which is reported."""
    if isinstance(value, Poison):
        return None
    if isinstance(value, bool):
        with context.at(expr.span):
            return context.b.full(value, BOOL)
    if isinstance(value, Node) and value.type == TensorType(BOOL, ()):
        return value
    help_ = ""
    if isinstance(value, Node) and isinstance(value.type, TensorType):
        help_ = "reduce it: `any(…)` or `all(…)`" if value.dtype == BOOL else "compare it: `… != 0`"
    context.error("E0301", f"a condition is one Bool, not {describe(value)}", expr.span, help_=help_)
    return None


# --------------------------------------------------------------------------------------------- loops


class Loops:
    """Builds while loops.

    Args:
        context: The elaboration.
        evaluator: For starts, conditions and limits.
        run_body: Runs the statements of a body in a scope, as a graph of its own.
        scans: Checks new carries.
    """

    def __init__(self, context: Context, evaluator: Evaluator, run_body: RunBody, scans: Scans) -> None:
        self.context, self.evaluator, self.run_body, self.scans = context, evaluator, run_body, scans

    def run(self, statement: ast.Loop, scope: Scope) -> list[str]:
        """Build one loop and bind its carries; returns their names."""
        names = [c.name.text for c in statement.carries]
        values = self._build(statement, scope)
        for k, name in enumerate(names):
            # A counter has served in the loop, whether or not anything reads it afterwards.
            scope.bind(name, POISON if values is None else values[k], statement.span).used = True
        return names

    def _build(self, statement: ast.Loop, scope: Scope) -> list[Node] | None:
        starts = [self.evaluator.evaluate(c.start, scope) for c in statement.carries]
        bounded, limit = self._limit(statement, scope)
        if not bounded or any(isinstance(s, Poison) for s in starts):
            return None
        for carry, start in zip(statement.carries, starts, strict=True):
            if not isinstance(start, Node) and not is_number(start):
                self.context.error(
                    "E0304", f"carry `{carry.name.text}` starts as a tensor, not {describe(start)}", carry.start.span
                )
                return None
        dtypes = [s.dtype if isinstance(s, Node) else weak_type(s) for s in starts]
        for last in (False, False, True):
            mark = self.context.mark()
            built = self._attempt(statement, scope, starts, dtypes, strict=last)
            if built is None:
                return None
            # A weak start takes the dtype of what the body makes of it: elaborate once more with that.
            begin, holes, results = built
            carried = results[1 : 1 + len(starts)]
            wanted = [r.dtype if is_number(s) else d for s, d, r in zip(starts, dtypes, carried, strict=True)]
            if wanted == dtypes:
                return self._node(statement, begin, holes, results, limit)
            self.context.rewind(mark)
            dtypes = wanted
        return None

    def _limit(self, statement: ast.Loop, scope: Scope) -> tuple[bool, DimLike | None]:
        """Whether the `max` of a loop is fine, and what it is."""
        if statement.limit is None:
            return True, None
        limit = self.evaluator.evaluate(statement.limit, scope)
        if isinstance(limit, Poison):
            return False, None
        if isinstance(limit, bool) or not isinstance(limit, (int, Dim)) or (isinstance(limit, int) and limit < 0):
            self.context.error(
                "E0602", f"the `max` of a loop is an integer of 0 or more, not {describe(limit)}", statement.limit.span
            )
            return False, None
        return True, limit

    def _attempt(
        self, statement: ast.Loop, scope: Scope, starts: list[Any], dtypes: list[DType], *, strict: bool
    ) -> tuple[list[Node], list[Node], list[Node]] | None:
        """Elaborate condition and body; gives the starts, placeholders, and then condition and new carries.

        Where random numbers are drawn the step's number is one more carry.
        """
        context, b = self.context, self.context.b
        inner = Scope(scope)
        begin: list[Node] = []
        holes: list[Node] = []
        for carry, start, dtype in zip(statement.carries, starts, dtypes, strict=True):
            with context.at(carry.span):
                begin.append(start if isinstance(start, Node) else number_node(b, start, dtype))
                holes.append(b.input(carry.name.text, begin[-1].dtype, begin[-1].shape))
            inner.bind(carry.name.text, holes[-1], carry.name.span).used = True
        with drawing(b) as steps:
            with context.inside():
                asked = self.evaluator.evaluate(statement.condition, inner)
            condition = condition_node(context, asked, statement.condition)
            end = self.run_body(statement.body, inner)
        weak = [not strict and is_number(s) for s in starts]
        results = self.scans.new_carries(statement, inner, holes, end, weak)
        if results is None or condition is None:
            return None
        for step in steps:
            begin.append(b.full(0, U32))
            holes.append(step)
            results.append(emit.shift(b, step, 1))
        return begin, holes, [condition, *results]

    def _node(
        self, statement: ast.Loop, begin: list[Node], holes: list[Node], results: list[Node], limit: DimLike | None
    ) -> list[Node]:
        b = self.context.b
        whole, closed = cut(holes, results, b)
        condition = Graph("condition", whole.inputs, whole.outputs[:1], whole.guards)
        body = Graph("body", whole.inputs, whole.outputs[1:], whole.guards)
        with self.context.at(statement.span):
            node = b.emit("while", *begin, *closed, cond=condition, body=body, carries=len(begin), limit=limit)
            return [b.emit("item", node, index=k) for k in range(len(begin))]


# --------------------------------------------------------------------------------------------- branches


@dataclass(eq=False)
class _Side:
    """One branch: its scope after it ran, and the serial from which on nodes are its own."""

    scope: Scope
    since: int
    values: list[Node] = field(default_factory=list)


class Branches:
    """Builds choices.

    Args:
        context: The elaboration.
        run_body: Runs the statements of a body in a scope.
    """

    def __init__(self, context: Context, run_body: RunBody) -> None:
        self.context, self.run_body = context, run_body

    def run(self, statement: ast.If, predicate: Node, then: ast.Body, orelse: ast.Body | None, scope: Scope) -> str:
        """Build one choice and bind what is visible after it; returns the last such name, or ""."""
        sides = [self._side(then, scope), self._side(orelse, scope)]
        names = list(dict.fromkeys([*sides[0].scope.names, *sides[1].scope.names]))
        plans: list[tuple[str, Any]] = []
        for name in names:
            pair = [self._binding(name, side, scope) for side in sides]
            if any(isinstance(p.value, Poison) for p in pair):
                plans.append((name, POISON))
            elif any(isinstance(p.value, Unbound) for p in pair):
                reason = next(p.value for p in pair if isinstance(p.value, Unbound))
                plans.append((name, reason))
            else:
                plans.append((name, self._joined(name, pair, sides, statement)))
        items = self._emit(predicate, sides, statement)
        last = ""
        for name, value in plans:
            inner = [side.scope.names[name] for side in sides if name in side.scope.names]
            binding = scope.bind(name, _filled(value, items), inner[0].span or statement.span)
            binding.used = any(i.used for i in inner)  # what a branch made for itself need not be read after it
            last = last if isinstance(value, Unbound) else name
        return last

    def _side(self, body: ast.Body | None, scope: Scope) -> _Side:
        inner = Scope(scope)
        with self.context.inside():
            since = self.context.leaves_before
            for part in body.statements if body is not None else ():
                if isinstance(part, (ast.Param, ast.Const)):
                    self.context.error(
                        "E0303",
                        "a declaration stands in an `if` only if its condition is known while the graph is built",
                        part.span,
                        help_="declare it above the `if`",
                    )
                    inner.bind(part.name.text, POISON)
            if body is not None:
                self.run_body(body, inner)
        return _Side(inner, since)

    def _binding(self, name: str, side: _Side, scope: Scope) -> Binding:
        """What a name is at the end of a branch: a name that exists outside keeps its value where it is not bound."""
        found = side.scope.names.get(name) or scope.find(name)
        if found is None:
            return Binding(Unbound("only one branch of the `if` binds it"))
        if name not in side.scope.names:
            found.used = True
        return found

    def _joined(self, name: str, pair: Sequence[Binding], sides: Sequence[_Side], statement: ast.If) -> Any:
        """The value after the choice: itself where both agree, else places in the results."""
        left, right = (p.value for p in pair)
        if left is right or (type(left) is type(right) and is_number(left) and left == right):
            return left
        if isinstance(left, ListValue) and isinstance(right, ListValue) and len(left.items) == len(right.items):
            parts = [
                self._joined(f"{name}[{k}]", [Binding(x, pair[0].span), Binding(y, pair[1].span)], sides, statement)
                for k, (x, y) in enumerate(zip(left.items, right.items, strict=True))
            ]
            return POISON if any(isinstance(p, Poison) for p in parts) else ListValue(tuple(parts))
        nodes = self._nodes(left, right, statement)
        if nodes is None:
            places = [p.span or statement.span for p in pair]
            return self.context.error(
                "E0604",
                f"`{name}` is {describe(left)} in one branch and {describe(right)} in the other",
                places[0],
                label=describe(left),
                others=(Label(places[1], describe(right)),),
                help_="both branches give it one shape and one dtype",
            )
        for side, node in zip(sides, nodes, strict=True):
            side.values.append(node)
        return _Result(len(sides[0].values) - 1)

    def _nodes(self, left: Any, right: Any, statement: ast.If) -> tuple[Node, Node] | None:
        """Both values as tensors of one type; weak numbers take the dtype of the other side. None when they disagree."""
        for value in (left, right):
            if not is_number(value) and not (isinstance(value, Node) and isinstance(value.type, TensorType)):
                return None
        types = [v.dtype if isinstance(v, Node) else weak_type(v) for v in (left, right)]
        dtype = types[1] if is_number(left) and not is_number(right) else types[0]
        if is_number(left) and is_number(right) and BOOL not in types and types[1].is_float:
            dtype = types[1]
        for value, own in zip((left, right), types, strict=True):
            kinds = ("bool",) if own == BOOL else ("float",) if own.is_float else ("float", "int", "uint")
            if own != dtype and (not is_number(value) or dtype.kind not in kinds):
                return None
        with self.context.at(statement.span):
            x, y = (v if isinstance(v, Node) else number_node(self.context.b, v, dtype) for v in (left, right))
        if len(x.shape) != len(y.shape):
            return None
        for p, q in zip(x.shape, y.shape, strict=True):
            if dims_equal(p, q) is False:
                return None
        for p, q in zip(x.shape, y.shape, strict=True):
            if dims_equal(p, q) is None:
                guard = Guard(p, "==", q, "the sizes in the branches of an `if`")
                with self.context.at(statement.span):
                    self.context.b.require(SourcedGuard(guard, self.context.b.origin))
        return x, y

    def _emit(self, predicate: Node, sides: Sequence[_Side], statement: ast.If) -> list[Node]:
        b = self.context.b
        if not sides[0].values:
            return []
        (then, orelse), closed = cut_branches(sides[0].since, [s.values for s in sides], b)
        with self.context.at(statement.span):
            node = b.emit("cond", predicate, *closed, then=then, orelse=orelse)
            return [b.emit("item", node, index=k) for k in range(len(sides[0].values))]


@dataclass(frozen=True, slots=True)
class _Result:
    """The place of a value among the results of a choice."""

    index: int


def _filled(value: Any, items: Sequence[Node]) -> Any:
    """The value with results in their places; lists of lists are few and shallow."""
    if isinstance(value, _Result):
        return items[value.index]
    if isinstance(value, ListValue):
        return ListValue(tuple(_filled(v, items) for v in value.items), value.family)
    return value


def cut_branches(since: int, results: Sequence[Sequence[Node]], outer: Builder) -> tuple[list[Graph], list[Node]]:
    """Parts of a graph made since some serial, each as a graph of its own over the same inputs.

    Returns:
        A graph for each list of results, whose inputs are the older values that any of them needs, and those values.
    """
    bodies: list[list[Node]] = []
    closed: dict[Node, None] = {}
    for wanted in results:
        seen: set[Node] = set()
        todo = list(wanted)
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            if node.inputs and node.serial >= since:
                todo.extend(node.inputs)
            elif node.inputs or node.op.name == "input":
                closed[node] = None
                continue
            seen.add(node)
        bodies.append(sorted(seen, key=lambda n: n.serial))
    given = sorted(closed, key=lambda n: n.serial)
    graphs = []
    for name, nodes, wanted in zip(("then", "else"), bodies, results, strict=True):
        b = Builder()
        inputs: list[GraphInput] = []
        env: dict[Node, Node] = {}
        for k, node in enumerate(given):
            env[node] = b.input(f"closed_{k}", node.dtype, node.shape)
            inputs.append(declare(env[node]))
        for node in nodes:
            with b.at(node.origin):
                env[node] = b.emit(node.op, *(env[i] for i in node.inputs), **node.attrs)
        graphs.append(b.finish(name, inputs, [GraphOutput(f"r{k}", env[w]) for k, w in enumerate(wanted)]))
    return graphs, given


__all__ = ["Branches", "Loops", "condition_node", "cut_branches"]
