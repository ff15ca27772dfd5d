"""From a syntax tree to a graph: declarations, statements in order, outputs, and what is worth a warning."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Diagnostic, Label, Source, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.bindings import Bindings
from rlxlang.frontend.context import BUILD_PROBLEMS, Context, TooManyStatements
from rlxlang.frontend.declarations import Declarations
from rlxlang.frontend.lost import Lost, with_lost
from rlxlang.frontend.modules import Modules, ReadFile, define, read_text
from rlxlang.frontend.names import Function, Observer, Scope
from rlxlang.frontend.numeric import lint_numbers
from rlxlang.frontend.parse import ParseResult, parse_expression, parse_module
from rlxlang.frontend.statements import Statements, top_level_names
from rlxlang.frontend.values import ListValue, Poison, Unbound, describe, is_number
from rlxlang.ir import Builder, Graph, GraphOutput, Node, topological
from rlxlang.ops.broadcasting import as_node
from rlxlang.types import TensorType, axes_of

_UNUSED = "an unused name may begin with `_`"
_FRAMES = 40_000  # of Python while a text is expanded


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
    read: ReadFile = read_text,
) -> Elaborated:
    """Parse and elaborate a text.

    Args:
        source: The text; the stem of its name is the graph's name unless the text says another.
        configs: Values of configs by name.
        bind: Values for `bind` statements.
        base_path: Folder of the file, where paths of `use` start; None for the present folder.
        read: Gives the texts of files that are used.
    """
    return elaborate_parsed(parse_module(source), configs, bind, base_path, read)


def elaborate_parsed(
    parsed: ParseResult,
    configs: Mapping[str, Any] | None = None,
    bind: Mapping[str, Any] | None = None,
    base_path: Path | None = None,
    read: ReadFile = read_text,
    observe: Observer | None = None,
) -> Elaborated:
    """Elaborate a text that has been parsed.

    Args:
        parsed: What `parse_module` gave; its diagnostics are among those of the result.
        configs: Values of configs by name.
        bind: Values for `bind` statements.
        base_path: Folder of the file, where paths of `use` start; None for the present folder.
        read: Gives the texts of files that are used.
        observe: Told of every binding and expression; what it raises ends the elaboration.
    """
    if parsed.module is None:
        return Elaborated(None, parsed.diagnostics)
    elaboration = _Elaboration(parsed.module, bind or {}, base_path, read)
    elaboration.context.observe = elaboration.declared.observe = elaboration.scope.observe = observe
    elaboration.context.collector.extend(parsed.diagnostics)
    elaboration.context.unit.lose(parsed.lost, parsed.is_vague)
    graph = None
    try:
        with _deep_stack():
            graph = elaboration.run(configs or {})
    except TooManyStatements:
        pass  # reported where it happened
    except RecursionError:
        elaboration.context.error("E0607", "the text is nested too deeply", parsed.module.span)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        if not parsed.errors:
            raise  # else the tree does not hold what `ast` promises, and its errors have been reported
    if elaboration.context.collector.has_errors:
        graph = None
    doc = next((s.doc for s in parsed.module.statements if isinstance(s, ast.Graph)), "")
    return Elaborated(graph, elaboration.context.collector.diagnostics(), elaboration.bindings.bound, doc)


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
        with suppress(TooManyStatements):  # reported where it happened
            value = Statements(context).evaluator.evaluate(parsed.expression, names)
    return value, context.collector.diagnostics()


class _Elaboration:
    def __init__(self, module: ast.Module, bind: Mapping[str, Any], base_path: Path | None, read: ReadFile) -> None:
        self.module = module
        self.context = Context(Builder())
        self.statements = Statements(self.context)
        self.bindings = Bindings(self.context, bind)
        file = None if base_path is None else base_path / Path(module.source.name).name
        self.folder = base_path or Path.cwd()
        self.modules = Modules(self.context, self.statements.evaluator, file, read)
        self.used = Scope(holds_declarations=True)
        self.declared = Scope(self.used, holds_declarations=True)
        self.scope = Scope(self.declared)
        self.last = ""
        self.position = 0
        self.context.early_scope = self._early_scope
        self.outputs: list[tuple[ast.OutItem, str]] = []

    def run(self, configs: Mapping[str, Any]) -> Graph | None:
        context = self.context
        for statement in self.module.statements:
            if isinstance(statement, ast.Use):
                self.modules.use(context.unit, statement, self.folder, self.used)
        define(context, context.unit, self.module.statements)
        self.bindings.refuse_unknown(self.module.statements)
        declarations = Declarations(context, self.statements.evaluator, self.declared, bindings=self.bindings)
        declarations.read(self.module, configs)
        position = 0
        for statement in with_lost(self.module.statements, context.unit.lost, self.module.span):
            if isinstance(statement, Lost):
                self.scope.lose(statement)
                continue
            self.position = position
            self._statement(statement)
            position += 1
        outputs = self._outputs()
        name = next((s.name.value for s in self.module.statements if isinstance(s, ast.Graph)), "")
        name = name or Path(self.module.source.name).stem or "graph"
        if context.collector.has_errors:
            return None
        self._warn_unused(outputs, {name for name, binding in declarations.local.names.items() if binding.used})
        graph = context.b.finish(name, context.inputs.values(), outputs)
        for found in lint_numbers(graph):
            span = found.span
            key = (found.code, 0 if span is None else span.start)
            # A text that is only used has its warnings when it is checked itself.
            if span is not None and span.source is self.module.source and key not in context.warned:
                context.warned.add(key)
                context.collector.add(found)
        return graph

    def _statement(self, statement: Any) -> None:
        context = self.context
        match statement:
            case ast.Graph() | ast.Config() | ast.Input() | ast.Param() | ast.Const():
                return
            case ast.Fn() | ast.Block():
                function = context.unit.functions[statement.name.text]
                if function.definition is statement:
                    function.scope = self.scope.snapshot()
            case ast.Out() | ast.Tap():
                for item in statement.items:
                    if item.value is not None:
                        value = self.statements.evaluator.evaluate(item.value, self.scope)
                        self.statements.bind(item.name, value, self.scope)
                    self.outputs.append((item, "tap" if isinstance(statement, ast.Tap) else "out"))
            case ast.Use() | ast.Bind() | ast.Vjp() | ast.Jvp():
                return
            case _:
                self.last = self.statements.run(statement, self.scope) or self.last

    # ------------------------------------------------------------------ definitions
    def _early_scope(self, function: Function) -> Scope:
        """What the body of a fn sees that is called above its definition: bindings in between have no value yet."""
        scope = self.scope.snapshot()
        between = self.module.statements[self.position : function.position]
        for name in top_level_names(between):
            scope.bind(name, Unbound("it is bound below this call"))
        return scope

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
                    others = (Label(seen[name], "listed here first"),)
                    context.error("E0211", f"output `{name}` is listed twice", item.name.span, others=others)
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
        if binding is None and context.unit.forgives(name.text):
            return None
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
                try:
                    return as_node(context.b, value)
                except BUILD_PROBLEMS as problem:
                    context.problem(problem, name.span)
                    return None
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
    def _warn_unused(self, outputs: list[GraphOutput], read_by_declarations: set[str]) -> None:
        context = self.context
        needed = set(topological([o.node for o in outputs]))
        read = {axis for e in context.inputs.values() if e.node in needed for axis in e.node.tensor.axes()}
        sizes = {axis for node in needed for axis in _axes(node)} - read
        for entry in context.inputs.values():
            if entry.node in needed or (entry.kind == "input" and sizes & set(entry.node.tensor.axes())):
                continue
            context.warn("W0902", f"{entry.kind} `{entry.name}` is not used", context.input_spans[entry.name])
        for name, span in context.unread(self.module.source):
            context.warn("W0902", f"`{name}` is not used", span, help_=_UNUSED)
        for name, binding in self.scope.names.items():
            if name in read_by_declarations or name.startswith("_"):
                continue
            if not binding.used and binding.span is not None:
                context.warn("W0902", f"`{name}` is not used", binding.span, help_=_UNUSED)


def _axes(node: Node) -> tuple[str, ...]:
    """Dynamic axes that a node needs the sizes of."""
    if node.op.name == "dim_size":
        return axes_of(node.attrs["dim"])
    return node.type.axes() if isinstance(node.type, TensorType) else ()


@contextmanager
def _deep_stack() -> Iterator[None]:
    """Room for fns inside fns: expansion takes about ten Python frames a call."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
