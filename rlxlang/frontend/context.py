"""The state of one elaboration: the builder, the diagnostics, the names in sight and the chain of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rlxlang.diagnostics import Collector, Diagnostic, Frame, Label, Span
from rlxlang.frontend import ast
from rlxlang.frontend.values import POISON, Binding, Poison, Unbound
from rlxlang.ir import Builder, GraphInput, Origin
from rlxlang.types import F32, DimProblem, PromotionProblem, TypeProblem


@dataclass(eq=False)
class Scope:
    """Names and their values; `parent` is looked at for names that are not here."""

    parent: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> Binding | None:
        """The innermost binding of a name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def bind(self, name: str, value: Any, span: Span | None = None) -> Binding:
        """Bind a name here; an earlier binding is hidden."""
        binding = self.names[name] = Binding(value, span)
        return binding

    def visible(self) -> list[str]:
        """All names in sight that have a value."""
        found: dict[str, None] = {}
        scope: Scope | None = self
        while scope is not None:
            found |= {n: None for n, b in scope.names.items() if not isinstance(b.value, Unbound)}
            scope = scope.parent
        return list(found)

    def snapshot(self) -> Scope:
        """A scope with the bindings of now, whatever is bound later."""
        return Scope(self.parent, dict(self.names))


MOST_STATEMENTS = 100_000  # run in one text, those of fns and repeats counted each time


class TooManyStatements(Exception):
    """The text expands without end; reported already."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What had been reported at some point of an elaboration."""

    found: dict[tuple[object, ...], Diagnostic]
    warned: set[tuple[str, int]]
    errors: int


@dataclass(eq=False)
class Function:
    """A `fn` of the text.

    Attributes:
        definition: Its text.
        scope: The names that its body sees; None until its definition is reached.
        position: Which statement of the text defines it.
        rules: Its derivative rules, by `vjp` and `jvp`.
    """

    definition: ast.Fn
    scope: Scope | None = None
    position: int = 0
    rules: dict[str, ast.Vjp | ast.Jvp] = field(default_factory=dict)


class Context:
    """One elaboration; see the module's text.

    Attributes:
        b: The builder of the graph.
        collector: Diagnostics so far.
        functions: The fns in sight, by name.
        inputs: Inputs and parameters declared so far, by run-time name.
        chain: Calls around the present place, innermost first.
        active: Names of the fns being expanded, outermost first.
        early_scope: What the body of a fn sees when it is called above its definition.
        declined: Names of blocks, modules and imported items whose statement has been refused: their uses are silent.
        declines_all: Whether a refused `use` brings in names that are not known.
        leaves_before: Nodes with a smaller serial are leaves for `grad`: they were made outside of the loop body being read.
    """

    def __init__(self, b: Builder, overrides: Mapping[str, Any] | None = None) -> None:
        self.b = b
        self.collector = Collector()
        self.overrides = dict(overrides or {})
        self.functions: dict[str, Function] = {}
        self.inputs: dict[str, GraphInput] = {}
        self.input_spans: dict[str, Span] = {}
        self.chain: tuple[Frame, ...] = ()
        self.active: tuple[str, ...] = ()
        self.early_scope: Callable[[Function], Scope] = lambda function: Scope()
        self.declined: set[str] = set()
        self.declines_all = False
        self.leaves_before = 0
        self.warned: set[tuple[str, int]] = set()
        self._errors = 0
        self._statements = 0

    # ------------------------------------------------------------------ diagnostics
    def count_statement(self, span: Span) -> None:
        """Count one statement that is run.

        Raises:
            TooManyStatements: Calls or repeats inside each other multiply without end.
        """
        self._statements += 1
        if self._statements > MOST_STATEMENTS:
            self.error(
                "E0600", f"the text expands to more than {MOST_STATEMENTS} statements", span, help_="use a `scan`"
            )
            raise TooManyStatements

    @property
    def errors(self) -> int:
        """How many errors have been reported; grows with each, also where one is dropped as a repetition."""
        return self._errors

    def mark(self) -> Mark:
        """What has been reported so far, for `rewind`."""
        return Mark(self.collector.mark(), set(self.warned), self._errors)

    def rewind(self, mark: Mark) -> None:
        """Forget what was reported since `mark`."""
        self.collector.rewind(mark.found)
        self.warned, self._errors = set(mark.warned), mark.errors

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        *,
        label: str = "",
        notes: tuple[str, ...] = (),
        help_: str = "",
        others: tuple[Label, ...] = (),
    ) -> Poison:
        """Report an error; gives the value of what is wrong."""
        self._errors += 1
        own = () if span is None else (Label(span, label, primary=True),)
        labels = (*own, *others)
        self.collector.add(Diagnostic(code, "error", message, labels, notes, (help_,) if help_ else (), self.chain))
        return POISON

    def warn(self, code: str, message: str, span: Span, *, help_: str = "") -> None:
        """Report a warning, once per place."""
        key = (code, span.start)
        if key in self.warned:
            return
        self.warned.add(key)
        labels = (Label(span, "", primary=True),)
        self.collector.add(Diagnostic(code, "warning", message, labels, (), (help_,) if help_ else (), self.chain))

    def problem(self, problem: Exception, span: Span) -> Poison:
        """Report what a shape rule, a promotion or a size refused."""
        if isinstance(problem, TypeProblem):
            return self.error(problem.code, problem.message, span, notes=problem.notes, help_=problem.help)
        code = "E0302" if isinstance(problem, PromotionProblem) else "E0407"
        return self.error(code, str(problem), span)

    def unsupported(self, what: str, span: Span) -> Poison:
        """Report a form of the language that this version does not build."""
        return self.error("E0606", f"{what} is not supported yet", span)

    # ------------------------------------------------------------------ origins
    @contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Nodes made inside come from `span`, within the present chain of calls."""
        with self.b.at(Origin(span, self.chain)):
            yield

    @contextmanager
    def within(self, frame: Frame) -> Iterator[None]:
        """Report what goes wrong inside with one more step of the chain."""
        chain = self.chain
        self.chain = (frame, *chain)
        try:
            yield
        finally:
            self.chain = chain

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Read the body of a loop or of a branch: for `grad` the values from outside are leaves there."""
        before = self.leaves_before
        self.leaves_before = self.b.input("inside", F32, ()).serial
        try:
            with self.b.apart():  # so that what the body computes is not a value from outside that happens to be equal
                yield
        finally:
            self.leaves_before = before

    @contextmanager
    def calling(self, name: str, span: Span) -> Iterator[None]:
        """Expand the body of fn `name`, called at `span`."""
        chain, active = self.chain, self.active
        self.chain = (Frame(span, f"in `{name}`, called here"), *chain)
        self.active = (*active, name)
        try:
            yield
        finally:
            self.chain, self.active = chain, active


BUILD_PROBLEMS = (TypeProblem, PromotionProblem, DimProblem)
