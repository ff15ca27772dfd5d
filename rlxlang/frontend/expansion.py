"""Calls of fns and blocks: arguments, bodies, and the parameters that each call of a block makes for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlxlang.diagnostics import Label, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.calls import Arguments, InstanceName
from rlxlang.frontend.context import Context
from rlxlang.frontend.declarations import Declarations, declared_names
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.habits import option_help
from rlxlang.frontend.lost import Lost, loses_part, with_lost
from rlxlang.frontend.names import Function, Scope
from rlxlang.frontend.rules_text import TextRules
from rlxlang.frontend.values import POISON, Binding, Instance, ListValue, Poison, Unbound, describe, is_static
from rlxlang.ir import Node
from rlxlang.types import Dim

DEEPEST_CALLS = 1000  # fns inside fns; expansion recurses once a level

_STATIC_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}


class Expansion:
    """Expands calls.

    Args:
        context: The elaboration.
        run: Runs one statement in a scope; gives the last name it binds, or "".
    """

    def __init__(self, context: Context, run: Callable[[Any, Scope], str]) -> None:
        self.context, self.run = context, run
        self.evaluator = Evaluator(context, self.call)
        self.rules = TextRules(context, self.evaluator.evaluate, run, self._run_body)
        self._declarations: dict[int, Declarations] = {}  # of the instances being made, by identity of their scope

    def call(self, function: Function, given: Arguments, named: InstanceName | None) -> Any:
        """Expand a call; gives its result.

        Args:
            function: What is called.
            given: Its arguments.
            named: The name after `as`; only for a block.
        """
        context, span, name = self.context, given.span, function.name
        definition = function.definition
        if function in context.active:
            cycle = context.active[context.active.index(function) :]
            path = " → ".join((*(f.name for f in cycle), name))
            return context.error(
                "E0601",
                f"`{name}` calls itself: {path}",
                span,
                help_=f"a `{function.kind}` is expanded where it is called; use `repeat` or `scan`",
            )
        if len(context.active) >= DEEPEST_CALLS:
            return context.error("E0607", f"more than {DEEPEST_CALLS} fns call each other", span)
        seen = function.scope if function.scope is not None else context.early_scope(function)
        scope = Scope(self.rules.visible(seen, name) if function.rules else seen)
        with context.reading(function.unit):
            if not self._bind_arguments(function, given, scope):
                return POISON
        instance = None
        if isinstance(definition, ast.Block):
            instance = self._instance(function, named, span)
            if instance is None:
                return POISON
            self._forward(definition, scope)
            self._declarations[id(scope)] = Declarations(context, self.evaluator, scope, local=scope)
        try:
            with context.calling(function, span, instance):
                if self.rules.applies(function):
                    return self.rules.custom(function, scope, span)
                if definition.remat and not function.rules:
                    return self.rules.remat(function, scope, span)
                return self._run_body(definition, scope, span)
        finally:
            self._declarations.pop(id(scope), None)

    # ------------------------------------------------------------------ blocks
    def _instance(self, function: Function, named: InstanceName | None, span: Span) -> Instance | None:
        """The namespace that this call of a block fills; None when its name is taken."""
        context, outer = self.context, self.context.instance
        if named is None:
            count = outer.counts.get(function.name, 0)
            outer.counts[function.name] = count + 1
            named = InstanceName(f"{function.name}_{count}", span, is_template=False)
        path = outer.join(named.text)
        earlier = outer.children.get(named.text)
        if earlier is not None:
            help_ = 'inside a `repeat` write its variable into the name: `as "h.{i}"`'
            if named.is_template:
                help_ = "each call of a block needs a name of its own"
            first = earlier.span
            others = (Label(first, "first used here"),) if first is not None and first != named.span else ()
            context.error("E0212", f"the name `{path}` is used twice", named.span, others=others, help_=help_)
            return None
        instance = outer.children[named.text] = Instance(path, named.span)
        return instance

    def declare(self, statement: ast.Param | ast.Const, scope: Scope) -> None:
        """A declaration in the body of a block; those of a text have been read before its statements run."""
        declarations = self._declarations.get(id(scope))
        if declarations is None:
            if scope.find(statement.name.text) is None:  # where none may stand, which has been reported
                scope.bind(statement.name.text, POISON, statement.name.span).used = True
            return
        declarations.one(statement)
        if isinstance(statement, ast.Param):
            name = statement.name.text
            self.context.instance.values[name] = scope.names[name].value

    @staticmethod
    def _forward(definition: ast.Block, scope: Scope) -> None:
        """Names declared in a block are its own from the start, and have a value from their declaration on."""
        for name in declared_names(definition.body):
            if name not in scope.names:
                scope.bind(name, Unbound("it is declared below")).used = True

    def leave_out(self, statement: ast.If, scope: Scope) -> None:
        """Say why what the branches not taken of an `if` in a block declare has no value."""
        if id(scope) not in self._declarations:
            return
        for body in [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]:
            for name in declared_names(body):
                if isinstance(scope.names[name].value, Unbound):
                    reason = "the branch of the `if` that declares it is not taken"
                    scope.bind(name, Unbound(reason)).used = True

    # ------------------------------------------------------------------ arguments
    def _bind_arguments(self, function: Function, given: Arguments, scope: Scope) -> bool:
        context, definition = self.context, function.definition
        positional, named, span = given.positional, given.named, given.span
        name, formals = function.name, definition.formals
        notes = (f"its form is `{name}({', '.join(f.span.text for f in formals)})`",)
        if len(positional) > len(formals):
            message = f"`{name}` takes {len(formals)} argument{'s' * (len(formals) != 1)}, {len(positional)} are given"
            context.error("E0220", message, span, notes=notes)
            return False
        known = [f.name.text for f in formals]
        for key in named:
            place = given.named_spans[key]
            if key not in known:
                message, help_ = f"`{name}` has no argument `{key}`", option_help(key, known)
                context.error("E0221", message, place, notes=notes, help_=help_)
                return False
            if key in known[: len(positional)]:
                context.error("E0222", f"argument `{key}` of `{name}` is given twice", place, notes=notes)
                return False
        for k, formal in enumerate(formals):
            key = formal.name.text
            if k < len(positional):
                value = positional[k]
            elif key in named:
                value = named[key]
            elif formal.default is not None:
                value = self.evaluator.evaluate(formal.default, scope)
            else:
                context.error("E0223", f"`{name}` lacks its argument `{key}`", span, notes=notes)
                return False
            if isinstance(value, Poison):
                return False
            value = self._typed(formal, value, name, given.place(key, known))
            if isinstance(value, Poison):
                return False
            scope.bind(key, value, formal.span).used = True
        return True

    def _typed(self, formal: ast.Formal, value: Any, function: str, span: Span) -> Any:
        if formal.type is None:
            return value
        kind, context, what = formal.type.text, self.context, f"`{formal.name.text}` of `{function}`"
        if kind == "tensor":
            if isinstance(value, Node):
                return value
            return context.error("E0304", f"{what} is a tensor, not {describe(value)}", span)
        if kind not in _STATIC_TYPES:
            help_ = did_you_mean(kind, (*_STATIC_TYPES, "tensor")) or "the types are int, float, bool, str and tensor"
            return context.error("E0209", f"`{kind}` is not a type of a parameter", formal.type.span, help_=help_)
        if kind == "int" and isinstance(value, Dim):
            return value
        fits = isinstance(value, _STATIC_TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))
        if not is_static(value) or not fits:
            return context.error("E0303", f"{what} is a static {kind}, not {describe(value)}", span)
        return float(value) if kind == "float" else value

    # ------------------------------------------------------------------ bodies
    def _run_body(self, definition: ast.Fn | ast.Block | ast.Jvp, scope: Scope, span: Span) -> Any:
        try:
            return self._result(definition, scope, span)
        finally:
            self.context.leave(scope)

    def _result(self, definition: ast.Fn | ast.Block | ast.Jvp, scope: Scope, span: Span) -> Any:
        bindings: list[Binding] = []
        errors = self.context.errors
        lost = self.context.unit.lost
        loses = bool(lost) and loses_part(definition.body.span, lost)
        for statement in with_lost(definition.body.statements, lost, definition.body.span):
            if isinstance(statement, Lost):
                scope.lose(statement)
                continue
            if isinstance(statement, ast.Return):
                self.context.count_statement(statement.span)
                values = tuple(self.evaluator.evaluate(v, scope) for v in statement.values)
                if loses or any(isinstance(v, Poison) for v in values):
                    return POISON
                return values[0] if len(values) == 1 else ListValue(values)
            name = self.run(statement, scope)
            if isinstance(statement, ast.Let) and statement.is_tuple:
                names = [n.text for n in statement.names if n.text != "_"]
                bindings = [scope.names[n] for n in names if n in scope.names]
            elif name and (binding := scope.find(name)) is not None:
                bindings = [binding]
        for binding in bindings:
            binding.used = True
        if loses or not definition.body.statements:  # an empty body has been reported with the definition
            return POISON
        if not bindings:
            return self._no_result(definition, span, "nothing in its body is bound", errors)
        result = bindings[0].value if len(bindings) == 1 else ListValue(tuple(b.value for b in bindings))
        if isinstance(result, Unbound):
            return self._no_result(definition, span, result.reason, None)
        return POISON if any(isinstance(b.value, Poison) for b in bindings) else result

    def _no_result(
        self, definition: ast.Fn | ast.Block | ast.Jvp, span: Span, reason: str, errors: int | None
    ) -> Poison:
        """Report that a body gives nothing, unless that follows from what has been reported since `errors`."""
        if errors is not None and self.context.errors != errors:
            return POISON
        return self.context.error("E0119", f"`{definition.name.text}` has no result here: {reason}", span)
