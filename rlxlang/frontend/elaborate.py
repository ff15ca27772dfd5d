"""From a syntax tree to a graph: declarations, statements in order, outputs, and what is worth a warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Diagnostic, Source, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context, Function, Scope
from rlxlang.frontend.declarations import Declarations
from rlxlang.frontend.parse import parse_expression, parse_module
from rlxlang.frontend.statements import Statements
from rlxlang.frontend.values import ListValue, Poison, Unbound, describe, is_number
from rlxlang.ir import SURFACES, Builder, Graph, GraphOutput, Node, topological
from rlxlang.types import Dim, weak_dtype


@dataclass(frozen=True)
class Elaborated:
    """A checked text.

    Attributes:
        graph: Its graph; None when there is an error.
        diagnostics: Errors and warnings, by position.
        bound: Arrays that the text has bound to parameters.
        doc: The `///` text of the graph.
    """

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    bound: Mapping[str, Any] = field(default_factory=dict)
    doc: str = ""


def elaborate_source(
    source: Source,
    configs: Mapping[str, Any] | None = None,
    bind: Mapping[str, Any] | None = None,
    base_path: Path | None = None,
) -> Elaborated:
    """Parse and elaborate a text.

    Args:
        source: The text; the stem of its name is the graph's name unless the text says another.
        configs: Values of configs by name.
        bind: Values for `bind` statements.
        base_path: Folder of the file, for `use`.
    """
    parsed = parse_module(source)
    if parsed.module is None:
        return Elaborated(None, parsed.diagnostics)
    elaboration = _Elaboration(parsed.module)
    elaboration.context.collector.extend(parsed.diagnostics)
    try:
        graph = elaboration.run(configs or {})
    except RecursionError:
        elaboration.context.error("E0607", "the text is nested too deeply", parsed.module.span)
        graph = None
    if elaboration.context.collector.has_errors:
        graph = None
    doc = next((s.doc for s in parsed.module.statements if isinstance(s, ast.Graph)), "")
    return Elaborated(graph, elaboration.context.collector.diagnostics(), {}, doc)


def elaborate_expression(source: Source, scope: Mapping[str, Any], builder: Builder) -> Any:
    """Evaluate one expression over nodes and static values.

    Args:
        source: The text of the expression.
        scope: Values of its names: nodes, numbers, lists.
        builder: Where new nodes are made.

    Returns:
        The value and the diagnostics: a node, a static value, or a `ListValue`; POISON with errors.
    """
    parsed = parse_expression(source)
    context = Context(builder)
    context.collector.extend(parsed.diagnostics)
    names = Scope()
    for name, value in scope.items():
        names.bind(name, value)
    value = None
    if parsed.expression is not None and not context.collector.has_errors:
        value = Statements(context).evaluator.evaluate(parsed.expression, names)
    return value, context.collector.diagnostics()


class _Elaboration:
    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.context = Context(Builder())
        self.statements = Statements(self.context)
        self.declared = Scope()
        self.scope = Scope(self.declared)
        self.last = ""
        self.outputs: list[tuple[ast.OutItem, str]] = []

    def run(self, configs: Mapping[str, Any]) -> Graph | None:
        context = self.context
        Declarations(context, self.statements.evaluator, self.declared).read(self.module, configs)
        for statement in self.module.statements:
            self._statement(statement)
        outputs = self._outputs()
        name = next((s.name.value for s in self.module.statements if isinstance(s, ast.Graph)), "")
        name = name or Path(self.module.source.name).stem or "graph"
        if context.collector.has_errors:
            return None
        self._warn_unused(outputs)
        return context.b.finish(name, context.inputs.values(), outputs)

    def _statement(self, statement: Any) -> None:
        context = self.context
        match statement:
            case ast.Graph() | ast.Config() | ast.Input() | ast.Param() | ast.Const():
                return
            case ast.Fn():
                self._define(statement)
            case ast.Out() | ast.Tap():
                for item in statement.items:
                    if item.value is not None:
                        value = self.statements.evaluator.evaluate(item.value, self.scope)
                        self.statements.bind(item.name, value, self.scope)
                    self.outputs.append((item, "tap" if isinstance(statement, ast.Tap) else "out"))
            case ast.Use():
                context.unsupported("`use`", statement.span)
            case ast.Bind():
                context.unsupported("`bind`", statement.span)
            case ast.Block():
                context.unsupported("`block`", statement.span)
            case ast.Vjp() | ast.Jvp():
                context.unsupported("a derivative rule in the text", statement.span)
            case _:
                self.last = self.statements.run(statement, self.scope) or self.last

    def _define(self, statement: ast.Fn) -> None:
        name = statement.name.text
        context = self.context
        if name in context.functions:
            context.error("E0210", f"fn `{name}` is defined twice", statement.name.span)
            return
        if name in SURFACES:
            context.warn("W0903", f"fn `{name}` hides the op of that name", statement.name.span)
        if statement.remat:
            context.unsupported("`remat`", statement.span)
        context.functions[name] = Function(statement, self.scope.snapshot())

    # ------------------------------------------------------------------ outputs
    def _outputs(self) -> list[GraphOutput]:
        context = self.context
        if not any(role == "out" for _, role in self.outputs):
            self._default_output()
        found: list[GraphOutput] = []
        seen: dict[str, Span] = {}
        for role in ("out", "tap"):
            for item, kind in self.outputs:
                if kind != role:
                    continue
                name = item.name.text
                if name in seen:
                    context.error("E0211", f"output `{name}` is listed twice", item.name.span)
                    continue
                seen[name] = item.name.span
                node = self._output_node(item.name)
                if node is not None:
                    found.append(GraphOutput(name, node, role))
        return found

    def _default_output(self) -> None:
        binding = self.scope.find(self.last) if self.last else None
        if binding is None:
            if not self.context.collector.has_errors:
                self.context.error(
                    "E0605",
                    "the graph has no output",
                    self.module.span,
                    help_="bind a value with `let`, or write `out y;`",
                )
            return
        binding.used = True
        span = binding.span or self.module.span
        item = ast.OutItem(span=span, name=ast.Name(span=span, text=self.last), value=None)
        self.outputs.insert(0, (item, "out"))

    def _output_node(self, name: ast.Name) -> Node | None:
        context = self.context
        binding = self.scope.find(name.text)
        if binding is None:
            help_ = did_you_mean(name.text, self.scope.visible())
            context.error("E0206", f"unknown output `{name.text}`", name.span, help_=help_)
            return None
        binding.used = True
        value = binding.value
        if isinstance(value, Poison):
            return None
        if isinstance(value, Unbound):
            context.error("E0206", f"output `{name.text}` has no value: {value.reason}", name.span)
            return None
        if is_number(value):
            with context.at(name.span):
                if isinstance(value, Dim):
                    return context.b.emit("dim_size", dim=value, dtype=weak_dtype(0))
                return context.b.full(value, weak_dtype(value))
        if isinstance(value, ListValue):
            context.error(
                "E0304",
                f"output `{name.text}` is {describe(value)}, an output is one tensor",
                name.span,
                help_="index it, or `stack` it",
            )
            return None
        if not isinstance(value, Node):
            context.error("E0304", f"output `{name.text}` is {describe(value)}, an output is a tensor", name.span)
            return None
        return value

    # ------------------------------------------------------------------ warnings
    def _warn_unused(self, outputs: list[GraphOutput]) -> None:
        context = self.context
        needed = set(topological([o.node for o in outputs]))
        sizes = {axis for n in needed if n.op.name == "dim_size" for axis in _axes(n)}
        for entry in context.inputs.values():
            if entry.node in needed or (entry.kind == "input" and sizes & set(entry.node.tensor.axes())):
                continue
            context.warn("W0902", f"{entry.kind} `{entry.name}` is not used", context.input_spans[entry.name])
        for name, binding in self.scope.names.items():
            if not binding.used and binding.span is not None and not name.startswith("_"):
                context.warn("W0902", f"`{name}` is not used", binding.span, help_="an unused name may begin with `_`")


def _axes(node: Node) -> tuple[str, ...]:
    from rlxlang.types import axes_of

    return axes_of(node.attrs["dim"])
