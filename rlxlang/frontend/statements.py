"""Statements inside a text, a fn, a block or a loop body: bindings, repeats, branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlxlang.diagnostics import Frame, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.branches import Branches, Loops, condition_node
from rlxlang.frontend.context import BUILD_PROBLEMS, Context
from rlxlang.frontend.expansion import Expansion
from rlxlang.frontend.loops import BodyEnd, Scans
from rlxlang.frontend.lost import Lost, with_lost
from rlxlang.frontend.names import Scope
from rlxlang.frontend.values import POISON, ListValue, Poison, Unbound, describe
from rlxlang.ir import Node

LARGEST_REPEAT = 100_000  # iterations; a repeat is unrolled, so more can only be a slip


class Statements:
    """Runs statements: `let`, `repeat`, `scan`, `loop`, `if`.

    Args:
        context: The elaboration.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.expansion = Expansion(context, self.run)
        self.evaluator = self.expansion.evaluator
        self.scans = Scans(context, self.evaluator, self.run_inside)
        self.loops = Loops(context, self.evaluator, self.run_inside, self.scans)
        self.branches = Branches(context, self.run_body)

    # ------------------------------------------------------------------ bodies
    def run_body(self, body: ast.Body, scope: Scope) -> BodyEnd:
        """Run the statements of a body; bindings are made in `scope`."""
        end = BodyEnd()
        for statement in with_lost(body.statements, self.context.unit.lost, body.span):
            if isinstance(statement, Lost):
                scope.lose(statement)
                continue
            if isinstance(statement, ast.Emit):
                value = self.evaluator.evaluate(statement.value, scope)
                end.emits[statement.name.text] = (value, statement.span)
                continue
            end.last = self.run(statement, scope) or end.last
        return end

    def run_inside(self, body: ast.Body, scope: Scope) -> BodyEnd:
        """The same for a body that becomes a graph of its own."""
        with self.context.inside():
            return self.run_body(body, scope)

    def run(self, statement: Any, scope: Scope) -> str:
        """Run one statement; gives the last name it binds, or ""."""
        self.context.count_statement(statement.span)
        try:
            return self._run(statement, scope)
        except BUILD_PROBLEMS as problem:
            self.context.problem(problem, statement.span)
            self._poison(ast.Body(statement.span, (statement,)), scope)
            return ""

    def _poison(self, body: ast.Body, scope: Scope) -> None:
        for name in bound_names(body):
            scope.bind(name, POISON, body.span)

    def _run(self, statement: Any, scope: Scope) -> str:
        match statement:
            case ast.Let():
                return self._let(statement, scope)
            case ast.RepeatTimes() | ast.RepeatRange():
                return self._repeat(statement, scope)
            case ast.Scan():
                return self.scans.run(statement, scope)[-1]
            case ast.If():
                return self._if(statement, scope)
            case ast.Loop():
                return self.loops.run(statement, scope)[-1]
            case ast.Param() | ast.Const():
                self.expansion.declare(statement, scope)
                return ""
        raise AssertionError(f"no rule for {type(statement).__name__}")

    def bind(self, name: ast.Name, value: Any, scope: Scope) -> None:
        """Bind a name; words that stand for values of their own cannot be bound."""
        if name.text in ("true", "false", "inf", "nan"):
            self.context.error("E0213", f"`{name.text}` cannot be rebound", name.span)
            return
        scope.bind(name.text, value, name.span)

    def _let(self, statement: ast.Let, scope: Scope) -> str:
        value = self.evaluator.evaluate(statement.value, scope)
        if not statement.is_tuple:
            self.bind(statement.names[0], value, scope)
            return statement.names[0].text
        values: Sequence[Any]
        if isinstance(value, Poison):
            values = [POISON] * len(statement.names)
        elif not isinstance(value, ListValue):
            self.context.error(
                "E0408",
                f"the right side is one value, {describe(value)}, and {_names(statement)} left",
                statement.value.span,
            )
            values = [POISON] * len(statement.names)
        elif len(value.items) != len(statement.names):
            self.context.error(
                "E0408",
                f"the right side has {len(value.items)} values, {_names(statement)} left",
                statement.value.span,
                help_="`_` takes a value that is not needed" if len(value.items) > len(statement.names) else "",
            )
            values = [POISON] * len(statement.names)
        else:
            values = value.items
        for name, item in zip(statement.names, values, strict=True):
            if name.text != "_":
                self.bind(name, item, scope)
        return next((n.text for n in reversed(statement.names) if n.text != "_"), "")

    # ------------------------------------------------------------------ repeat
    def _counts(self, statement: ast.RepeatTimes | ast.RepeatRange, scope: Scope) -> range | None:
        if isinstance(statement, ast.RepeatTimes):
            count = self._static_int(statement.count, scope, "the count of a `repeat`")
            if count is None:
                return None
            if count < 0:
                self.context.error("E0602", f"the count of a `repeat` is {count}", statement.count.span)
                return None
            return self._bounded(range(count), statement.span)
        part = statement.range
        assert part.start is not None
        assert part.stop is not None
        start = self._static_int(part.start, scope, "the start of a `repeat`")
        stop = self._static_int(part.stop, scope, "the end of a `repeat`")
        step = 1 if part.step is None else self._static_int(part.step, scope, "the step of a `repeat`")
        if start is None or stop is None or step is None:
            return None
        if step == 0:
            self.context.error("E0602", "the step of a `repeat` is 0", statement.range.span)
            return None
        if part.inclusive:
            stop += 1 if step > 0 else -1
        return self._bounded(range(start, stop, step), statement.span)

    def _bounded(self, counts: range, span: Span) -> range | None:
        length = max(0, -((counts.start - counts.stop) // counts.step))  # `len` overflows for huge ranges
        if length > LARGEST_REPEAT:
            help_ = "a `scan` is one loop, whatever its length"
            self.context.error("E0602", f"a `repeat` of {length} would be unrolled", span, help_=help_)
            return None
        return counts

    def _static_int(self, expr: Any, scope: Scope, what: str) -> int | None:
        value = self.evaluator.evaluate(expr, scope)
        if isinstance(value, Poison):
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            help_ = "a `scan` may have a dynamic length" if "repeat" in what else ""
            self.context.error(
                "E0303",
                f"{what} is an integer known while the graph is built, not {describe(value)}",
                expr.span,
                help_=help_,
            )
            return None
        return value

    def _repeat(self, statement: ast.RepeatTimes | ast.RepeatRange, scope: Scope) -> str:
        counts = self._counts(statement, scope)
        names = bound_names(statement.body)
        before = {n: scope.find(n) for n in names}
        if counts is None or not counts:
            reason = "the loop that binds it did not run" if counts is not None else ""
            for name in names:
                if counts is None:
                    scope.bind(name, POISON, statement.span)
                elif before[name] is None:
                    scope.bind(name, Unbound(reason), statement.span).used = True
            return next((n for n in reversed(names) if before[n] is not None), "")
        variable = statement.var.text if isinstance(statement, ast.RepeatRange) else ""
        hidden = scope.names.get(variable) if variable else None
        last = ""
        place = statement.range.span if isinstance(statement, ast.RepeatRange) else statement.count.span
        for step, count in enumerate(counts):
            if not statement.body.statements:
                self.context.count_statement(place)
            if variable:
                scope.bind(variable, count, statement.span).used = True
            errors = self.context.errors
            text = f"in the iteration {variable} = {count}" if variable else f"in iteration {step + 1} of {len(counts)}"
            with self.context.within(Frame(place, text)):
                last = self.run_body(statement.body, scope).last
            if self.context.errors != errors:
                self._poison(statement.body, scope)  # the same errors again would say nothing new
                break
        if variable and variable not in names:
            if hidden is None:
                scope.names.pop(variable, None)
            else:
                scope.names[variable] = hidden
        return last

    def _if(self, statement: ast.If, scope: Scope) -> str:
        for place, branch in enumerate(statement.branches):
            chosen = self.evaluator.evaluate(branch.condition, scope)
            if isinstance(chosen, Poison):
                return self._poisoned(statement, scope)
            if isinstance(chosen, Node):
                return self._choice(statement, place, chosen, scope)
            if not isinstance(chosen, bool):
                self.context.error(
                    "E0303", f"the condition of an `if` is a Bool, not {describe(chosen)}", branch.condition.span
                )
                return self._poisoned(statement, scope)
            if chosen:
                last = self.run_body(branch.body, scope).last
                break
        else:
            last = self.run_body(statement.orelse, scope).last if statement.orelse is not None else ""
        reason = _not_taken(statement, scope)
        for body in _bodies(statement):
            for name in bound_names(body):
                if scope.find(name) is None:
                    scope.bind(name, reason, statement.span).used = True  # there is nothing to warn of
        self.expansion.leave_out(statement, scope)
        return last

    def _choice(self, statement: ast.If, place: int, chosen: Node, scope: Scope) -> str:
        """Build an `if` from its branch number `place` on, whose condition is a tensor; those before it are not taken."""
        branch, rest = statement.branches[place], statement.branches[place + 1 :]
        predicate = condition_node(self.context, chosen, branch.condition)
        if predicate is None:
            return self._poisoned(statement, scope)
        orelse = statement.orelse
        if rest:
            span = rest[0].span
            orelse = ast.Body(span, (ast.If(span, rest, statement.orelse),))
        return self.branches.run(statement, predicate, branch.body, orelse, scope)

    def _poisoned(self, statement: ast.If, scope: Scope) -> str:
        for body in _bodies(statement):
            self._poison(body, scope)
        return ""


def _not_taken(statement: ast.If, scope: Scope) -> Unbound:
    """Why what the branches bind has no value; of a choice between words, which is not among them."""
    known = []
    names = set()
    for branch in statement.branches:
        match branch.condition:
            case ast.Binary(op="==", left=ast.Ref(path=(name,)), right=ast.Str(value=word)):
                names.add(name.text)
                known.append(word)
    binding = scope.find(names.pop()) if len(names) == 1 and len(known) == len(statement.branches) else None
    if statement.orelse is not None or binding is None or binding.value in known:
        return Unbound("the branch of the `if` that binds it is not taken")
    given = str(binding.value)
    help_ = did_you_mean(given, known) or f"the branches are for {', '.join(known)}"
    return Unbound(f'no branch of the `if` is for "{given}"', help_)


def _names(statement: ast.Let) -> str:
    count = len(statement.names)
    return "1 name stands" if count == 1 else f"{count} names stand"


def _bodies(statement: ast.If) -> list[ast.Body]:
    return [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]


def top_level_names(statements: Sequence[Any]) -> list[str]:
    """Names that statements of a text bind, outputs with a value of their own included."""
    names: dict[str, None] = {}
    for statement in statements:
        if isinstance(statement, (ast.Out, ast.Tap)):
            names |= {item.name.text: None for item in statement.items if item.value is not None}
        elif not isinstance(statement, (ast.Fn, ast.Block)):
            names |= dict.fromkeys(bound_names(ast.Body(statement.span, (statement,))))
    return list(names)


def bound_names(body: ast.Body) -> list[str]:
    """Names that the statements of a body bind in the scope around it, in order."""
    names: dict[str, None] = {}
    todo: list[Any] = list(reversed(body.statements))
    while todo:
        statement = todo.pop()
        match statement:
            case ast.Let():
                names |= {n.text: None for n in statement.names if n.text != "_"}
            case ast.RepeatTimes() | ast.RepeatRange():
                todo.extend(reversed(statement.body.statements))
            case ast.Scan():
                names |= {c.name.text: None for c in statement.carries}
                names |= {s.name.text: None for s in statement.body.statements if isinstance(s, ast.Emit)}
            case ast.Loop():
                names |= {c.name.text: None for c in statement.carries}
            case ast.If():
                todo.extend(s for inner in reversed(_bodies(statement)) for s in reversed(inner.statements))
    return list(names)
