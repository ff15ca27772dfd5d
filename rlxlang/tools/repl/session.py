"""A session: its program, the arrays of its inputs and parameters, and the device it evaluates on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlxlang.device import Device
from rlxlang.diagnostics import Diagnostic, RlxNameError, RlxValueError, Source, did_you_mean, error, raise_all
from rlxlang.frontend import ast
from rlxlang.frontend.parse import parse_module
from rlxlang.frontend.values import ListValue
from rlxlang.func import Func
from rlxlang.inputs import fault
from rlxlang.ir import Graph, GraphInput, GraphOutput, Node, declare, topological
from rlxlang.tools.repl import program
from rlxlang.tools.repl.entries import entries_of
from rlxlang.tools.repl.interrupt import interruptible
from rlxlang.tools.repl.values import Array, Fill, Values, is_array_file, read_array
from rlxlang.types import Dim, TensorType, axes_of

Arrays: TypeAlias = Mapping[Node, Array]

# Work below this many elements, with no loop in it, is done by the interpreter: it has nothing to compile.
_SMALL = 1_000_000
_LOOPS = ("scan", "loop", "while")


@dataclass(frozen=True, slots=True)
class Result:
    """What an expression evaluated to.

    Attributes:
        value: A node, a static value, a list of such.
        arrays: The arrays of its tensors.
        sizes: Known sizes of dynamic axes.
        warnings: Remarks on the expression.
    """

    value: Any
    arrays: Arrays
    sizes: Mapping[str, int]
    warnings: tuple[Diagnostic, ...]


@dataclass(eq=False)
class Session:
    """The state of a session.

    Attributes:
        device: Where expressions are evaluated; None lets small work be interpreted and the rest run on the fastest device.
        text: The program.
        values: The arrays of inputs and parameters.
        sources: Every text that was typed, by the name that messages give it.
        interface: Inputs, parameters and guards of the program.
        bound: Arrays of parameters that were bound from Python.
    """

    device: Device | None = None
    text: program.Text = field(default_factory=program.Text)
    values: Values = field(default_factory=Values)
    sources: dict[str, Source] = field(default_factory=dict)
    interface: Graph = field(default_factory=lambda: Graph("session", (), ()))
    bound: Mapping[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------------ texts
    def source(self, text: str) -> Source:
        """A text that was typed, under a name of its own."""
        made = Source(f"<input {len(self.sources) + 1}>", text)
        self.sources[made.name] = made
        return made

    def add(self, statements: Sequence[ast.Statement], source: Source) -> program.Added:
        """Put statements at the end of the program.

        Raises:
            RlxError: They are wrong; the session stays as it is.
        """
        return self._take(program.add(self.text, entries_of(statements, source), source.name))

    def _take(self, added: program.Added) -> program.Added:
        assert added.elaborated.graph is not None
        self.text, self.interface, self.bound = added.text, added.elaborated.graph, added.elaborated.bound
        return added

    def load(self, path: Path, source: Source, configs: Mapping[str, Any] | None = None) -> program.Added:
        """Take a whole text in place of the program; values of `bind` names stay, everything else is forgotten.

        Args:
            path: Its file.
            source: The text.
            configs: Values of its configs.

        Raises:
            RlxError: The text is wrong; the session stays as it is.
        """
        entries = tuple(entries_of(_statements(source), source))
        text = program.Text(entries, dict(configs or {}), self.text.binds, path.parent)
        elaborated = program.check(text)
        program.raise_errors(elaborated.diagnostics)
        self.values = Values(self.values.seed)
        return self._take(program.Added(text, elaborated))

    def reset(self) -> None:
        """Forget the program and all values."""
        self.text, self.values = program.Text(), Values(self.values.seed)
        self.interface, self.bound = Graph("session", (), ()), {}

    def restore(self, text: program.Text) -> None:
        """Go back to an earlier program."""
        elaborated = program.check(text)
        program.raise_errors(elaborated.diagnostics)
        self._take(program.Added(text, elaborated))

    def saved_text(self) -> str:
        """The program as a file: with the values of configs that were set, and `graph` first."""
        first = [e for e in self.text.entries if isinstance(e.statement, ast.Graph)]
        rest = [e for e in self.text.entries if not isinstance(e.statement, ast.Graph)]
        return "".join(f"{e.text_with(self.text.configs)}\n" for e in (*first, *rest))

    def kind_of(self, name: str) -> str:
        """What kind of statement defines the value of a name."""
        found = "let"
        for entry in self.text.entries:
            if ("value", name) in entry.names:
                found = type(entry.statement).__name__.lower() if entry.is_declaration else "let"
        return found

    def functions(self) -> list[tuple[str, str, str]]:
        """Kind, name and form of the functions and modules of the program."""
        found = []
        for entry in self.text.entries:
            statement = entry.statement
            if isinstance(statement, (ast.Fn, ast.Block)):
                formals = ", ".join(" ".join(f.span.text.split()) for f in statement.formals)
                found.append((type(statement).__name__.lower(), statement.name.text, f"({formals})"))
            elif isinstance(statement, ast.Use):
                found += [("use", name, statement.span.text.rstrip(";")) for _, name in sorted(entry.names)]
        return found

    # ------------------------------------------------------------------ values
    def reseed(self, seed: int) -> None:
        """Draw everything anew from another seed."""
        self.values.reseed(seed, self.interface.inputs)

    def entry(self, name: str) -> GraphInput | None:
        """The input or parameter of a run-time name, or of its name in the text."""
        found = self.interface.input(name)
        if found is not None:
            return found
        values, inputs = program.names_of(self.text)
        head, _, index = name.removesuffix("]").partition("[")
        value = values.get(head)
        if index and isinstance(value, ListValue) and int(index) < len(value.items):
            value = value.items[int(index)]
        meant = next((e.name for e in inputs if e.node is value), "")
        return self.interface.input(meant)

    def is_config(self, name: str) -> bool:
        """Whether the program has a config of a name."""
        return any(isinstance(e.statement, ast.Config) and ("value", name) in e.names for e in self.text.entries)

    def set_config(self, name: str, value: Any) -> program.Added:
        """Give a config another value.

        Raises:
            RlxError: The program is wrong with it; the session stays as it is.
        """
        text = replace(self.text, configs={**self.text.configs, name: value})
        elaborated = program.check(text)
        program.raise_errors(elaborated.diagnostics)
        return self._take(program.Added(text, elaborated))

    def give(self, name: str, value: Any, *, is_list: bool = False) -> program.Added:
        """A value for the `bind` statement of a name, which is added when there is none, or none for a list.

        Raises:
            RlxError: The program is wrong with it; the session stays as it is.
        """
        text = replace(self.text, binds={**self.text.binds, name: value})
        found = [
            i
            for e in text.entries
            if isinstance(e.statement, ast.Bind)
            for i in e.statement.items
            if i.name.text == name
        ]
        if not found or (is_list and not found[-1].is_list):
            source = self.source(f"bind {name}{'[]' if is_list else ''};")
            return self._take(program.add(text, entries_of(_statements(source), source), source.name))
        elaborated = program.check(text)
        program.raise_errors(elaborated.diagnostics)
        return self._take(program.Added(text, elaborated))

    def value_of(self, typed: str, name: str, expression: ast.Expr | None, own: str) -> Any:
        """What the right side of `:set` and `:bind` means: a file, or an expression."""
        if is_array_file(typed):
            return read_array(typed.strip().strip('"'), name)
        assert expression is not None
        return python_value(self.evaluate(expression, own))

    def set(self, name: str, value: Any) -> Array:
        """Set an input or parameter to an array or a fill.

        Raises:
            RlxNameError: E0807 there is none of this name.
            RlxError: The value does not fit.
        """
        entry = self.entry(name)
        if entry is None:
            names = [e.name for e in self.interface.inputs]
            help_ = did_you_mean(name, names) or (f"declare it: `input {name}: [2, 3];`" if name.isidentifier() else "")
            raise RlxNameError(error("E0807", f"the session has no input, param or config `{name}`", helps=(help_,)))
        if isinstance(value, Fill):
            return self.values.fill(entry, value, self.interface.inputs)
        if isinstance(value, np.ndarray) and value.dtype != entry.node.dtype.numpy:
            value = _weakened(value, entry)
        return self.values.set(entry, value)

    # ------------------------------------------------------------------ evaluation
    def meaning(self, expression: ast.Expr, own: str) -> program.Meaning:
        """An expression elaborated behind the program, not evaluated.

        Raises:
            RlxError: Everything that is wrong with it.
        """
        return program.evaluate(self.text, expression, own)

    def evaluate(self, expression: ast.Expr, own: str) -> Result:
        """The value of an expression.

        Raises:
            RlxError: Everything that is wrong with it, inputs without a value included.
        """
        meaning = self.meaning(expression, own)
        nodes = list(dict.fromkeys(program.nodes_of(meaning.value)))
        sizes = self.values.known_sizes(meaning.graph.inputs)
        if not nodes:
            return Result(meaning.value, {}, sizes, meaning.warnings)
        func = self.function(meaning.graph, nodes, meaning.bound)
        outputs = self.run(func)
        return Result(meaning.value, dict(zip(nodes, outputs, strict=True)), sizes, meaning.warnings)

    def function(
        self, graph: Graph, nodes: Sequence[Node], bound: Mapping[str, Any], names: Sequence[tuple[str, str]] = ()
    ) -> Func:
        """The part of the program that computes some tensors, its parameters bound.

        Args:
            graph: Inputs, parameters and guards of the program.
            nodes: What to compute.
            bound: Arrays of parameters that were bound from Python.
            names: Names and roles of the outputs.

        Raises:
            RlxError: An input or parameter has no value.
        """
        needed = set(topological(nodes))
        entries = [e for e in graph.inputs if e.node in needed and e.kind != "seed"]
        axes = {axis for node in needed for axis in _axes(node)} - _declared_axes(entries)
        for entry in graph.inputs:
            if axes & _declared_axes([entry]):
                entries.append(entry)
                axes -= _declared_axes([entry])
        entries.sort(key=graph.inputs.index)
        entries += [_seed_entry(node, entries) for node in needed if _is_seed(node)]
        missing = self.values.missing(entries, bound)
        if missing:
            raise_all(missing)
        known = _declared_axes(entries)
        guards = tuple(g for g in graph.guards if {*axes_of(g.guard.left), *axes_of(g.guard.right)} <= known)
        labels = names or [("value" if len(nodes) == 1 else f"value[{k}]", "out") for k in range(len(nodes))]
        outputs = tuple(GraphOutput(n, node, role) for (n, role), node in zip(labels, nodes, strict=True))
        func = Func.from_graph(Graph("session", tuple(entries), outputs, guards))
        params = {e.name: self._param(e, bound) for e in entries if e.kind == "param"}
        return func.with_params(params) if params else func

    def _param(self, entry: GraphInput, bound: Mapping[str, Any]) -> Array:
        own = self.values.arrays.get(entry.name)
        array = bound.get(entry.name) if own is None else own
        found = self.values.param(entry) if array is None else array
        assert found is not None
        return found

    def feeds(self, func: Func) -> dict[str, Any]:
        """The arrays of the inputs of a function, and the seed of what it draws."""
        found: dict[str, Any] = {name: self.values.arrays[name] for name in func.input_names()}
        for entry in func.graph.inputs:
            if entry.kind == "seed":
                found[entry.name] = self.values.seed
        return found

    def run(self, func: Func) -> list[Array]:
        """The outputs of a function on the device of the session."""
        device, feeds = self.device_for(func), self.feeds(func)
        return interruptible(lambda: func.run_on(device, feeds))

    def device_for(self, func: Func) -> Device:
        """The device of the session; without one, the interpreter for small work."""
        if self.device is not None:
            return self.device
        return Device.REFERENCE if _is_small(func, self.values) else func.traced.fastest()

    def gradients(self, graph: Graph, loss: Node, wrt: Sequence[str], bound: Mapping[str, Any]) -> dict[str, Array]:
        """The derivatives of a loss by inputs and parameters, by name.

        Raises:
            RlxError: The loss has more than one element, or a name cannot be differentiated by.
        """
        func = self.function(graph, [loss], bound).grad(list(wrt))
        return dict(zip(wrt, self.run(func), strict=True))

    def outputs(self) -> tuple[Graph, dict[str, Array]]:
        """The graph of the program and its outputs by name.

        Raises:
            RlxError: It has no output, or an input or parameter has no value.
        """
        graph = self.graph()
        names = [(o.name, o.role) for o in graph.outputs]
        func = self.function(graph, [o.node for o in graph.outputs], self.bound, names)
        return graph, dict(zip((n for n, _ in names), self.run(func), strict=True))

    def graph(self) -> Graph:
        """The graph of the program.

        Raises:
            RlxValueError: E0605 it has no output.
        """
        if not any(e.is_let or isinstance(e.statement, (ast.Out, ast.Tap)) for e in self.text.entries):
            raise RlxValueError(
                "the session has no output", code="E0605", helps=("bind a value with `let`, or write `out y;`",)
            )
        elaborated = program.elaborate(self.text)
        program.raise_errors(elaborated.diagnostics)
        assert elaborated.graph is not None
        return elaborated.graph


def _statements(source: Source) -> tuple[ast.Statement, ...]:
    parsed = parse_module(source)
    program.raise_errors(parsed.errors)
    assert parsed.module is not None
    return parsed.module.statements


def _axes(node: Node) -> tuple[str, ...]:
    """Dynamic axes that a node needs the sizes of."""
    if node.op.name == "dim_size":
        return axes_of(node.attrs["dim"])
    return node.type.axes() if isinstance(node.type, TensorType) else ()


def _is_seed(node: Node) -> bool:
    return node.op.name == "input" and node.attrs["kind"] == "seed"


def _seed_entry(node: Node, entries: Sequence[GraphInput]) -> GraphInput:
    """The seed of random numbers as an input, under a name that no other has."""
    taken = {e.name for e in entries}
    name, k = "seed", 2
    while name in taken:
        name, k = f"seed_{k}", k + 1
    assert isinstance(node.attrs, dict)
    node.attrs["name"] = name
    return declare(node)


def _declared_axes(entries: Sequence[GraphInput]) -> set[str]:
    return {axis for e in entries for axis in e.node.tensor.axes()}


def _is_small(func: Func, values: Values) -> bool:
    known = values.known_sizes(func.graph.inputs)
    count = 0
    for node in func.graph.nodes:
        if node.op.name in _LOOPS or not isinstance(node.type, TensorType):
            return False
        size = 1
        for dim in node.type.shape:
            size *= 64 if isinstance(dim, Dim) and not set(axes_of(dim)) <= set(known) else _size(dim, known)
        count += size
        if count > _SMALL:
            return False
    return True


def _size(dim: Dim | int, known: Mapping[str, int]) -> int:
    from rlxlang.types import evaluate

    return evaluate(dim, known)


def python_value(result: Result) -> Any:
    """A result as Python has it: arrays, numbers, texts, lists of such.

    Raises:
        RlxTypeError: It is none of these.
    """
    return _python(result.value, result.arrays, 0)


def _python(value: Any, arrays: Arrays, depth: int) -> Any:
    if isinstance(value, Node):
        return arrays[value]
    if isinstance(value, ListValue):
        if depth > 32:
            raise fault("E0812", "lists in lists in lists: too deep for an array")
        items = [_python(item, arrays, depth + 1) for item in value.items]
        return items if not any(isinstance(i, np.ndarray) for i in items) else _stacked(items)
    if isinstance(value, (bool, int, float, str)):
        return value
    raise fault("E0812", f"{type(value).__name__.lower()} is no array", helps=("write a number, a list or a tensor",))


def _stacked(items: list[Any]) -> Any:
    try:
        return np.stack([np.asarray(i) for i in items])
    except ValueError:
        return items


def _weakened(array: Array, entry: GraphInput) -> Any:
    """Values computed from numbers alone take the dtype that is declared when it holds them exactly."""
    with np.errstate(all="ignore"):
        cast = array.astype(entry.node.dtype.numpy)
        same = np.array_equal(cast.astype(array.dtype), array, equal_nan=array.dtype.kind in "fc")
    return cast if same else array
