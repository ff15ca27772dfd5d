"""`scan`: the body is elaborated once around placeholders, then cut out of the graph as the body of one loop node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlxlang.diagnostics import Label, Span
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.names import Scope
from rlxlang.frontend.values import POISON, ListValue, Poison, describe, is_number
from rlxlang.ir import Builder, Graph, GraphOutput, Node, SourcedGuard, declare, topological
from rlxlang.ops import emit
from rlxlang.ops.broadcasting import number_node, weak_type
from rlxlang.types import U32, Dim, DimLike, DType, Guard, dims_equal

RunBody = Callable[[ast.Body, Scope], "BodyEnd"]


class BodyEnd:
    """What a body left behind: the last name bound by a `let`, and the emitted values by name."""

    def __init__(self) -> None:
        self.last: str = ""
        self.emits: dict[str, tuple[Any, Span]] = {}


class Scans:
    """Builds scan nodes.

    Args:
        context: The elaboration.
        evaluator: For starts, lengths and sources.
        run_body: Runs the statements of a body in a scope.
    """

    def __init__(self, context: Context, evaluator: Evaluator, run_body: RunBody) -> None:
        self.context, self.evaluator, self.run_body = context, evaluator, run_body

    def run(self, statement: ast.Scan, scope: Scope) -> list[str]:
        """Build one scan and bind its carries and emits; returns the names of the carries."""
        carries = [c.name for c in statement.carries]
        emits = [s.name for s in statement.body.statements if isinstance(s, ast.Emit)]
        values = self._build(statement, scope)
        for k, name in enumerate([*carries, *emits]):
            binding = scope.bind(name.text, POISON if values is None else values[k], name.span)
            # A carry has served what the scan emits, whether or not anything reads its last value.
            binding.used = binding.used or (bool(emits) and k < len(carries))
        return [c.text for c in carries]

    def _build(self, statement: ast.Scan, scope: Scope) -> list[Any] | None:
        starts = [self.evaluator.evaluate(c.start, scope) for c in statement.carries]
        found = self._sources(statement, scope)
        if found is None or any(isinstance(s, Poison) for s in starts):
            return None
        stacks, length = found
        for carry, start in zip(statement.carries, starts, strict=True):
            if not isinstance(start, Node) and not is_number(start):
                self.context.error(
                    "E0304", f"carry `{carry.name.text}` starts as a tensor, not {describe(start)}", carry.start.span
                )
                return None
        if not self._names_are_new(statement):
            return None
        dtypes = [s.dtype if isinstance(s, Node) else weak_type(s) for s in starts]
        for last in (False, False, True):
            mark = self.context.mark()
            built = self._attempt(statement, scope, starts, stacks, dtypes, strict=last)
            if built is None:
                return None
            # A weak start takes the dtype of what the body makes of it: elaborate once more with that.
            wanted = [r.dtype if is_number(s) else d for s, d, r in zip(starts, dtypes, built[1], strict=True)]
            if wanted == dtypes:
                return self._node(statement, stacks, length, built)
            self.context.rewind(mark)
            dtypes = wanted
        return None

    def _names_are_new(self, statement: ast.Scan) -> bool:
        """Whether the names of carries and emits, all visible after the scan, differ."""
        seen = {c.name.text: c.name.span for c in statement.carries}
        for part in statement.body.statements:
            if not isinstance(part, ast.Emit):
                continue
            name = part.name.text
            if name in seen:
                help_ = f"give it a name of its own: `emit {name} as {name}s;`"
                others = (Label(seen[name], "first here"),)
                self.context.error(
                    "E0211",
                    f"`{name}` would be two values after the scan",
                    part.name.span,
                    others=others,
                    help_=help_,
                )
                return False
            seen[name] = part.name.span
        return True

    def _sources(self, statement: ast.Scan, scope: Scope) -> tuple[list[Node], DimLike] | None:
        if statement.length is not None:
            length = self.evaluator.evaluate(statement.length, scope)
            if isinstance(length, Poison):
                return None
            if (
                isinstance(length, bool)
                or not isinstance(length, (int, Dim))
                or (isinstance(length, int) and length < 0)
            ):
                self.context.error(
                    "E0602",
                    f"the length of a scan is an integer of 0 or more, not {describe(length)}",
                    statement.length.span,
                )
                return None
            return [], length
        stacks: list[Node] = []
        for source in statement.sources:
            value = self.evaluator.evaluate(source.value, scope)
            if isinstance(value, Poison):
                return None
            if not isinstance(value, Node) or not value.tensor.rank:
                self.context.error(
                    "E0304",
                    f"a scan runs over a tensor with at least one axis, not {describe(value)}",
                    source.value.span,
                )
                return None
            stacks.append(value)
        length = stacks[0].shape[0]
        for source, stack in zip(statement.sources[1:], stacks[1:], strict=True):
            answer = dims_equal(length, stack.shape[0])
            if answer is False:
                self.context.error(
                    "E0401", f"the sources of a scan differ in length: {length} and {stack.shape[0]}", source.value.span
                )
                return None
            if answer is None:
                with self.context.at(source.value.span):
                    guard = Guard(length, "==", stack.shape[0], "the lengths of the sources of a scan")
                    self.context.b.require(SourcedGuard(guard, self.context.b.origin))
        return stacks, length

    def _attempt(
        self,
        statement: ast.Scan,
        scope: Scope,
        starts: list[Any],
        stacks: list[Node],
        dtypes: list[DType],
        *,
        strict: bool,
    ) -> tuple[list[Node], list[Node], list[Node], list[Node]] | None:
        """Elaborate the body; gives placeholders (carries, slices), new carries, emits and the starts as nodes.

        Where random numbers are drawn the step's number is one more placeholder.
        """
        context, b = self.context, self.context.b
        inner = Scope(scope)
        holes: list[Node] = []
        begin: list[Node] = []
        for carry, start, dtype in zip(statement.carries, starts, dtypes, strict=True):
            with context.at(carry.span):
                node = start if isinstance(start, Node) else number_node(b, start, dtype)
                hole = b.input(carry.name.text, node.dtype, node.shape)
            begin.append(node)
            holes.append(hole)
            inner.bind(carry.name.text, hole, carry.name.span).used = True
        for source, stack in zip(statement.sources, stacks, strict=True):
            with context.at(source.span):
                hole = b.input(source.name.text, stack.dtype, stack.shape[1:])
            holes.append(hole)
            inner.bind(source.name.text, hole, source.name.span)
        with drawing(b) as steps:
            end = self.run_body(statement.body, inner)
        weak = [not strict and is_number(s) for s in starts]
        results = self.new_carries(statement, inner, holes, end, weak)
        if results is None:
            return None
        holes += steps
        emitted: list[Node] = []
        for name, (value, span) in end.emits.items():
            if isinstance(value, Poison):
                return None
            if is_number(value):
                with context.at(span):
                    value = number_node(b, value, weak_type(value))
            if not isinstance(value, Node):
                context.error("E0304", f"`emit {name}` takes a tensor, not {describe(value)}", span)
                return None
            emitted.append(value)
        return holes, results, emitted, begin

    def new_carries(
        self, statement: ast.Scan | ast.Loop, inner: Scope, holes: list[Node], end: BodyEnd, weak: list[bool]
    ) -> list[Node] | None:
        """The values of the carries after a step; None when one of them changes its type, which is reported."""
        context = self.context
        for carry in statement.carries:
            inner.names[carry.name.text].used = True
        values = [inner.names[c.name.text].value for c in statement.carries]
        unbound = [v is h for v, h in zip(values, holes, strict=False)]
        single = isinstance(statement, ast.Scan) and len(values) == 1 and unbound[0] and not end.emits
        if single and end.last and end.last in inner.names:
            inner.names[end.last].used = True
            values = [inner.names[end.last].value]
            context.warn(
                "W0905",
                f"the last `let`, `{end.last}`, becomes the next `{statement.carries[0].name.text}`",
                statement.span,
                help_=f"write `let {statement.carries[0].name.text} = …;`",
            )
        else:
            for carry, still in zip(statement.carries, unbound, strict=True):
                if still and statement.body.statements:  # an empty body is an error already
                    context.warn(
                        "W0905", f"carry `{carry.name.text}` keeps its value: the body does not bind it", carry.span
                    )
        context.leave(inner)
        results: list[Node] = []
        for carry, value, hole, open_ in zip(statement.carries, values, holes, weak, strict=False):
            if isinstance(value, Poison):
                return None
            if is_number(value):
                with context.at(carry.span):
                    value = number_node(context.b, value, weak_type(value) if open_ else hole.dtype)
            if not isinstance(value, Node):
                context.error("E0603", f"carry `{carry.name.text}` becomes {describe(value)}", carry.span)
                return None
            same = len(value.shape) == len(hole.shape)
            same = same and all(dims_equal(p, q) is not False for p, q in zip(value.shape, hole.shape, strict=True))
            if not same or (value.dtype != hole.dtype and not open_):
                others = (Label(carry.start.span, f"starts as {hole.type}"),)
                context.error(
                    "E0603",
                    f"carry `{carry.name.text}` changes from {hole.type} to {value.type}",
                    carry.name.span,
                    others=others,
                    help_="a carry keeps its shape and dtype",
                )
                return None
            for p, q in zip(value.shape, hole.shape, strict=True):
                if dims_equal(p, q) is None:
                    guard = Guard(p, "==", q, f"the sizes of carry `{carry.name.text}`")
                    context.b.require(SourcedGuard(guard, context.b.origin))
            results.append(value)
        return results

    def _node(
        self,
        statement: ast.Scan,
        stacks: list[Node],
        length: DimLike,
        built: tuple[list[Node], list[Node], list[Node], list[Node]],
    ) -> list[Any]:
        holes, results, emitted, begin = built
        body, closed = cut(holes, [*results, *emitted], self.context.b)
        with self.context.at(statement.span):
            if len(holes) > len(begin) + len(stacks):
                stacks = [*stacks, emit.iota(self.context.b, (length,), 0, U32)]
            node = self.context.b.emit(
                "scan",
                *begin,
                *stacks,
                *closed,
                body=body,
                length=length,
                carries=len(begin),
                sources=len(stacks),
                reverse=statement.reverse,
            )
            return [self.context.b.emit("item", node, index=k) for k in range(len(results) + len(emitted))]


@contextmanager
def drawing(b: Builder) -> Iterator[list[Node]]:
    """Build the body of a loop: a placeholder of the step's number, listed afterwards if random numbers of the run's seed need it."""
    step, before = b.input("step", U32, ()), b.draws
    needed: list[Node] = []
    with b.stepping(step):
        yield needed
    if b.draws > before:
        needed.append(step)


def _since(holes: list[Node], results: list[Node]) -> list[Node]:
    """Nodes made after the placeholders that the results need, operands first; nothing older depends on a placeholder."""
    oldest = min((h.serial for h in holes), default=0)
    seen: set[Node] = set()
    todo = list(results)
    while todo:
        node = todo.pop()
        if node in seen or node.serial < oldest:
            continue
        seen.add(node)
        todo.extend(node.inputs)
    return sorted(seen, key=lambda n: n.serial)


def cut(holes: list[Node], results: list[Node], outer: Builder) -> tuple[Graph, list[Node]]:
    """The part of a graph that depends on placeholders, as a graph of its own.

    Returns:
        The body, whose inputs are the placeholders and then the values it closes over, and those values.
    """
    inside = set(holes)
    for node in _since(holes, results):
        if any(i in inside for i in node.inputs):
            inside.add(node)
    b = Builder()
    env: dict[Node, Node] = {}
    inputs = []
    for hole in holes:
        env[hole] = b.input(hole.attrs["name"], hole.dtype, hole.shape)
        inputs.append(declare(env[hole]))
    closed: list[Node] = []

    def outside(node: Node) -> Node:
        if node not in env:
            if not node.inputs and node.op.name != "input":
                env[node] = b.emit(node.op, **node.attrs)
            else:
                env[node] = b.input(f"closed_{len(closed)}", node.dtype, node.shape)
                inputs.append(declare(env[node]))
                closed.append(node)
        return env[node]

    for node in sorted(inside, key=lambda n: n.serial):
        if node not in env:
            operands = [env[i] if i in inside else outside(i) for i in node.inputs]
            with b.at(node.origin):
                env[node] = b.emit(node.op, *operands, **node.attrs)
    outputs = [GraphOutput(f"r{k}", env[r] if r in inside else outside(r)) for k, r in enumerate(results)]
    return b.finish("body", inputs, outputs), closed


def closed_graph(name: str, holes: Sequence[Node], results: Sequence[Node]) -> Graph | Node:
    """Everything that the results need as a graph of its own, whose inputs are the placeholders.

    Returns:
        The graph, or an input beside the placeholders that the results depend on.
    """
    b = Builder()
    env: dict[Node, Node] = {h: b.input(h.attrs["name"], h.dtype, h.shape) for h in holes}
    inputs = [declare(env[h]) for h in holes]
    for node in topological(results):
        if node in env:
            continue
        if node.op.name == "input":
            return node
        with b.at(node.origin):
            env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    return b.finish(name, inputs, [GraphOutput(f"r{k}", env[r]) for k, r in enumerate(results)])


__all__ = ["BodyEnd", "ListValue", "Scans", "closed_graph", "cut", "drawing"]
