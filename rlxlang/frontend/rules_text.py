"""fns that become one node: those with a `vjp` or `jvp` rule of the text (`custom`), and `remat fn`s.

The body, and each rule, is elaborated around placeholders for the tensors it is given, and cut out as a graph of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlxlang.diagnostics import Frame, Label, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.derivatives import leaves_of
from rlxlang.frontend.loops import closed_graph, cut
from rlxlang.frontend.lost import Lost, loses_part, with_lost
from rlxlang.frontend.names import Function, Scope
from rlxlang.frontend.values import POISON, ListValue, Poison, Unbound, describe, is_number, is_static
from rlxlang.ir import Graph, Node, SourcedGuard, topological
from rlxlang.ops.broadcasting import as_node, number_node
from rlxlang.ops.custom import call
from rlxlang.types import Guard, dims_equal

# A fn called in its own rule has that rule again, so deep; further in it is differentiated as any other.
DEEPEST_RULES = 2

RunFn = Callable[[Any, Scope, Span], Any]
RunStatement = Callable[[Any, Scope], str]


class TextRules:
    """Builds the nodes of fns with rules and of `remat` fns.

    Args:
        context: The elaboration.
        evaluate: Evaluates an expression in a scope.
        run_statement: Runs one statement in a scope.
        run_fn: Runs the body of a fn in a scope that holds its arguments; gives its result.
    """

    def __init__(
        self, context: Context, evaluate: Callable[[Any, Scope], Any], run_statement: RunStatement, run_fn: RunFn
    ) -> None:
        self.context, self.evaluate = context, evaluate
        self.run_statement, self.run_fn = run_statement, run_fn
        self._depth: dict[Function, int] = {}

    def applies(self, function: Function) -> bool:
        """Whether a call of this fn here takes its rules."""
        return bool(function.rules) and self._depth.get(function, 0) < DEEPEST_RULES

    # ------------------------------------------------------------------ remat
    def remat(self, function: Function, scope: Scope, span: Span) -> Any:
        """The result of a `remat` fn whose arguments stand in `scope`."""
        definition, b = function.definition, self.context.b
        values = [scope.names[f.name.text].value for f in definition.formals]
        tensors, holes = self._with_holes(definition, values, scope)
        result = self.run_fn(definition, scope, span)
        leaves = [leaf for leaf in leaves_of(result) if isinstance(leaf, Node)]
        if isinstance(result, Poison) or not holes or not leaves:
            return result
        body, closed = cut(holes, leaves, b)
        body = Graph(definition.name.text, body.inputs, body.outputs, body.guards)
        with self.context.at(span):
            found = iter(call(b, "remat", [*tensors, *closed], body=body))
        return _map_leaves(result, lambda leaf: next(found) if isinstance(leaf, Node) else leaf)

    def _with_holes(self, definition: Any, values: Sequence[Any], scope: Scope) -> tuple[list[Node], list[Node]]:
        """Bind parameters to placeholders of the tensors in these values; gives the tensors and the placeholders."""
        tensors: list[Node] = []
        holes: list[Node] = []
        formals = None if isinstance(definition, (ast.Vjp, ast.Jvp)) else definition.formals
        names = [f.name for f in formals] if formals is not None else list(definition.params)

        def hole(leaf: Any) -> Any:
            if not isinstance(leaf, Node):
                return leaf
            tensors.append(leaf)
            holes.append(self.context.b.input(f"x{len(holes)}", leaf.dtype, leaf.shape))
            return holes[-1]

        for name, value in zip(names, values, strict=False):
            scope.bind(name.text, _map_leaves(value, hole), name.span).used = True
        return tensors, holes

    # ------------------------------------------------------------------ fns with rules
    def visible(self, scope: Scope, name: str) -> Scope:
        """What a fn with a rule, and the rule, see: configs and consts."""
        reason = f"`{name}` has a derivative rule, so it sees its parameters, configs and consts alone"
        levels: list[Scope] = []
        level: Scope | None = scope
        while level is not None:
            levels.append(level)
            level = level.parent
        seen = Scope(observe=scope.observe)
        for level in reversed(levels):
            for key, binding in level.names.items():
                if level.holds_declarations and _is_known(binding.value):
                    seen.names[key] = binding
                elif isinstance(binding.value, Poison):
                    seen.bind(key, POISON)
                else:
                    seen.bind(key, Unbound(reason))
        return seen

    def custom(self, function: Function, scope: Scope, span: Span) -> Any:
        """The result of a fn with rules whose arguments stand in `scope`; its parent is what the rules see."""
        context, definition = self.context, function.definition
        name, base = definition.name.text, scope.parent
        assert base is not None
        values = [scope.names[f.name.text].value for f in definition.formals]
        tensors, holes = self._with_holes(definition, values, scope)
        result = self.run_fn(definition, scope, span)
        results = self._tensors(result, span)
        if results is None or isinstance(result, Poison):
            return POISON
        if not holes:
            return result
        graphs: dict[str, Graph | None] = {"vjp": None, "jvp": None}
        active, context.active = context.active, tuple(f for f in context.active if f is not function)
        self._depth[function] = self._depth.get(function, 0) + 1
        try:
            for kind, rule in function.rules.items():
                with context.within(Frame(rule.span, f"in the `{kind}` rule of `{name}`")):
                    inner = Scope(base)
                    if isinstance(rule, ast.Vjp):
                        graphs[kind] = self._vjp(function, rule, values, results, inner)
                    else:
                        graphs[kind] = self._jvp(rule, values, results, inner)
                if graphs[kind] is None:
                    return POISON
        finally:
            context.active = active
            self._depth[function] -= 1
        body = self._closed_graph(name, holes, results, span)
        if body is None:
            return POISON
        with context.at(span):
            found = iter(call(context.b, "custom", tensors, body=body, **graphs))
        return _map_leaves(result, lambda leaf: next(found))

    def _tensors(self, result: Any, span: Span) -> list[Node] | None:
        """The results as tensors; None when one is none."""
        found: list[Node] = []
        for leaf in leaves_of(result):
            if isinstance(leaf, Poison):
                return None
            if not isinstance(leaf, Node) and not is_number(leaf):
                self.context.error("E0304", f"a fn with a derivative rule gives tensors, not {describe(leaf)}", span)
                return None
            with self.context.at(span):
                found.append(leaf if isinstance(leaf, Node) else as_node(self.context.b, leaf))
        return found

    # ------------------------------------------------------------------ vjp
    def _vjp(
        self, function: Function, rule: ast.Vjp, values: Sequence[Any], results: list[Node], scope: Scope
    ) -> Graph | None:
        context, count = self.context, len(values)
        seeds = rule.params[count:]
        if len(seeds) != len(results):
            form = ", ".join(
                [*(f.name.text for f in function.definition.formals), *(f"g{k}" for k in range(len(results)))]
            )
            context.error(
                "E0220",
                f"the rule takes {len(seeds)} cotangents, and `{rule.name.text}` has {len(results)} results",
                rule.name.span,
                help_=f"one for each result: `vjp {rule.name.text}({form})`",
            )
            return None
        _, holes = self._with_holes(rule, values, scope)
        for seed, result in zip(seeds, results, strict=True):
            if result.dtype.is_differentiable:
                holes.append(context.b.input(seed.text, result.dtype, result.shape))
                scope.bind(seed.text, holes[-1], seed.span).used = True
            else:
                scope.bind(seed.text, Unbound(f"the result is {result.dtype} and has no cotangent"), seed.span)
        given = self._cotangents(rule, values, scope)
        context.leave(scope)
        if given is None:
            return None
        found: list[Node] = []
        for name, value, cotangent in zip(rule.params, values, given, strict=False):
            targets = [leaf for leaf in leaves_of(value) if isinstance(leaf, Node)]
            if not targets:
                continue
            parts = leaves_of(cotangent) if cotangent is not None else [0] * len(targets)
            nodes = self._fitting(f"the cotangent of `{name.text}`", parts, targets, rule.name.span)
            if nodes is None:
                return None
            found += nodes
        return self._closed_graph(rule.name.text, holes, found, rule.name.span)

    def _cotangents(self, rule: ast.Vjp, values: Sequence[Any], scope: Scope) -> list[Any] | None:
        """What a vjp rule gives for each parameter, None where it gives nothing."""
        errors = self.context.errors
        returned = self._run(rule, scope)
        if self.context.errors != errors or loses_part(rule.body.span, self.context.unit.lost):
            return None
        names = rule.params[: len(values)]
        if returned is None:
            found = [scope.names.get(f"d{n.text}") for n in names]
            if not any(found):
                wanted = " or ".join(f"`d{n.text}`" for n in names) or "a cotangent"
                self.context.error("E0119", f"the rule binds no {wanted}, and returns nothing", rule.name.span)
                return None
            given = [None if f is None else f.value for f in found]
            for binding in found:
                if binding is not None:
                    binding.used = True
            return None if any(isinstance(leaf, Poison) for g in given for leaf in leaves_of(g)) else given
        tensor = [any(isinstance(leaf, Node) for leaf in leaves_of(v)) for v in values]
        floats = [any(isinstance(leaf, Node) and leaf.dtype.is_differentiable for leaf in leaves_of(v)) for v in values]
        for flags in (tensor, floats):
            if len(returned) == sum(flags):
                rest = iter(returned)
                return [next(rest) if on else None for on in flags]
        self.context.error(
            "E0220",
            f"the rule returns {len(returned)} values, and `{rule.name.text}` has {sum(tensor)} tensor parameters",
            rule.name.span,
            help_="return a cotangent for each in their order, or bind some of "
            + ", ".join(f"`d{n.text}`" for n, on in zip(names, tensor, strict=True) if on),
        )
        return None

    def _run(self, rule: ast.Vjp, scope: Scope) -> list[Any] | None:
        """Run the body of a rule; gives what it returns, None without a `return`."""
        for statement in with_lost(rule.body.statements, self.context.unit.lost, rule.body.span):
            if isinstance(statement, Lost):
                scope.lose(statement)
                continue
            if isinstance(statement, ast.Return):
                return [self.evaluate(v, scope) for v in statement.values]
            self.run_statement(statement, scope)
        return None

    # ------------------------------------------------------------------ jvp
    def _jvp(self, rule: ast.Jvp, values: Sequence[Any], results: list[Node], scope: Scope) -> Graph | None:
        context = self.context
        _, holes = self._with_holes(rule, values, scope)
        tensor = [v for v in values if any(isinstance(leaf, Node) for leaf in leaves_of(v))]
        floats = [
            v for v in tensor if any(leaf.dtype.is_differentiable for leaf in leaves_of(v) if isinstance(leaf, Node))
        ]
        moving = next((g for g in (tensor, floats) if len(g) == len(rule.tangents)), None)
        if moving is None:
            context.error(
                "E0220",
                f"the rule takes {len(rule.tangents)} tangents, and `{rule.name.text}` has {len(tensor)} tensor parameters",
                rule.name.span,
            )
            return None

        def hole(leaf: Any) -> Any:
            if not isinstance(leaf, Node) or not leaf.dtype.is_differentiable:
                return 0
            holes.append(context.b.input(f"t{len(holes)}", leaf.dtype, leaf.shape))
            return holes[-1]

        for name, value in zip(rule.tangents, moving, strict=True):
            scope.bind(name.text, _map_leaves(value, hole), name.span).used = True
        result = self.run_fn(rule, scope, rule.name.span)
        parts = leaves_of(result)
        if any(isinstance(p, Poison) for p in parts):
            return None
        targets = [r for r in results if r.dtype.is_differentiable] if len(parts) != len(results) else results
        nodes = self._fitting("the tangent", parts, targets, rule.name.span)
        return None if nodes is None else self._closed_graph(rule.name.text, holes, nodes, rule.name.span)

    # ------------------------------------------------------------------ results
    def _fitting(self, what: str, parts: Sequence[Any], targets: Sequence[Node], span: Span) -> list[Node] | None:
        """The values as tensors of the types of the float targets; None after an error."""
        context, b = self.context, self.context.b
        if len(parts) != len(targets):
            context.error("E0408", f"{what} is {len(parts)} values, and {len(targets)} are expected", span)
            return None
        found: list[Node] = []
        for part, target in zip(parts, targets, strict=True):
            if not target.dtype.is_differentiable:
                continue
            with context.at(span):
                if is_number(part) and part == 0:
                    part = b.zeros_like(target)
                elif is_number(part):
                    part = number_node(b, part, target.dtype)
            if not isinstance(part, Node):
                context.error("E0304", f"{what} is {describe(part)}, and a tensor {target.type} is expected", span)
                return None
            if part.dtype != target.dtype:
                context.error("E0302", f"{what} is {part.type}, and {target.type} is expected", span)
                return None
            pairs = list(zip(part.shape, target.shape, strict=False))
            if len(part.shape) != len(target.shape) or any(dims_equal(p, q) is False for p, q in pairs):
                context.error("E0400", f"{what} has the type {part.type}, and {target.type} is expected", span)
                return None
            for p, q in pairs:
                if dims_equal(p, q) is None:
                    with context.at(span):
                        b.require(SourcedGuard(Guard(p, "==", q, f"the sizes of {what}"), b.origin))
            found.append(part)
        return found

    def _closed_graph(self, name: str, holes: Sequence[Node], results: Sequence[Node], span: Span) -> Graph | None:
        """Everything that the results need as a graph of its own, whose inputs are the placeholders; None after an error."""
        found = closed_graph(name, holes, results)
        if isinstance(found, Graph):
            return found
        if found.attrs["kind"] == "seed":
            message = f"`{name}` has a derivative rule and draws random numbers of the run's seed"
            self.context.error("E0201", message, span, help_="pass a key as an argument")
        else:
            message = f"`{name}` has a derivative rule and calls a fn that reads `{found.attrs['name']}`"
            self.context.error("E0201", message, span, help_="pass it as an argument")
        return None


def attach_rule(context: Context, rule: ast.Vjp | ast.Jvp) -> None:
    """Give a fn of the text its rule; refuse a rule without a fn, a second one, and one that cannot fit."""
    name, kind = rule.name.text, "vjp" if isinstance(rule, ast.Vjp) else "jvp"
    function = context.unit.functions.get(name)
    if function is None:
        if not context.unit.forgives(name):
            help_ = did_you_mean(name, context.unit.functions) or f"define it: `fn {name}(…) {{ … }}`"
            context.error(
                "E0202", f"the `{kind}` rule is for the fn `{name}`, which does not exist", rule.name.span, help_=help_
            )
        return
    if function.kind != "fn":
        message = f"the `{kind}` rule is for a fn, and `{name}` is a block"
        context.error("E0202", message, rule.name.span, help_="put what the rule is for into a fn that the block calls")
        return
    if kind in function.rules:
        others = (Label(function.rules[kind].name.span, "the first one"),)
        context.error("E0210", f"`{name}` has two `{kind}` rules", rule.name.span, others=others)
        return
    formals = function.definition.formals
    counted = "the parameter" if len(formals) == 1 else f"the {len(formals)} parameters"
    needs = f"takes {counted} of `{name}` and then one cotangent for each result"
    if kind == "vjp" and len(rule.params) <= len(formals):
        context.error("E0220", f"the `vjp` rule {needs}, and it has {len(rule.params)} in all", rule.name.span)
        return
    if kind == "jvp" and len(rule.params) != len(formals):
        message = f"the `jvp` rule takes the {len(formals)} parameters of `{name}`, and it has {len(rule.params)}"
        context.error("E0220", message, rule.name.span, help_=f"its form is `jvp {name}(parameters; tangents)`")
        return
    function.rules[kind] = rule


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with its tensors and numbers replaced, lists (which are shallow) kept."""
    if isinstance(value, ListValue):
        return replace(value, items=tuple(_map_leaves(item, change) for item in value.items))
    return change(value)


def _is_known(value: Any) -> bool:
    """Whether a declared value depends on no input: a config or a const."""
    if isinstance(value, Node):
        return all(n.op.name != "input" for n in topological([value]))
    return is_static(value)
