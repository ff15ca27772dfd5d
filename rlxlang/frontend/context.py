"""The state of one elaboration: the builder, the diagnostics, the names in sight and the chain of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from rlxlang.diagnostics import Collector, Diagnostic, Frame, Label, Source, Span
from rlxlang.frontend.names import Function, Observer, Scope, Unit
from rlxlang.frontend.values import POISON, Instance, ListValue, Poison
from rlxlang.ir import Builder, GraphInput, Node, Origin
from rlxlang.types import F32, DimProblem, PromotionProblem, TypeProblem

# Run in one text; what fns, blocks and repeats hold counts each time.
MOST_STATEMENTS = 100_000
MOST_OPERATIONS = 500_000  # operators, calls and indices; half of that takes some seconds


class TooManyStatements(Exception):
    """The text expands without end; reported already."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What had been reported and declared at some point of an elaboration."""

    found: dict[tuple[object, ...], Diagnostic]
    warned: set[tuple[str, int]]
    errors: int
    inputs: int
    draws: int
    instance: Instance
    made: tuple[int, int, dict[str, int]]


class Context:
    """One elaboration; see the module's text.

    Attributes:
        b: The builder of the graph.
        collector: Diagnostics so far.
        unit: The text whose names are meant at the present place.
        instance: The block call whose body is being expanded; the root for the text itself.
        inputs: Inputs and parameters declared so far, by run-time name.
        chain: Calls around the present place, innermost first.
        active: The fns and blocks being expanded, outermost first.
        early_scope: What the body of a fn sees when it is called above its definition.
        observe: Told of the value of every expression, for editors.
        leaves_before: Nodes with a smaller serial are leaves for `grad`: they were made outside of the loop body being read.
    """

    def __init__(self, b: Builder, overrides: Mapping[str, Any] | None = None) -> None:
        self.b = b
        self.collector = Collector()
        self.overrides = dict(overrides or {})
        self.unit = Unit()
        self.instance = Instance()
        self.inputs: dict[str, GraphInput] = {}
        self.input_spans: dict[str, Span] = {}
        self.chain: tuple[Frame, ...] = ()
        self.active: tuple[Function, ...] = ()
        self.early_scope: Callable[[Function], Scope] = lambda function: Scope()
        self.observe: Observer | None = None
        self.leaves_before = 0
        self.warned: set[tuple[str, int]] = set()
        self._unread: dict[Span, str] = {}
        self._read: set[Span] = set()
        self._errors = 0
        self._statements = 0
        self._operations = 0

    # ------------------------------------------------------------------ diagnostics
    def count_statement(self, span: Span) -> None:
        """Count one statement that is run, or an iteration of a loop without any.

        Raises:
            TooManyStatements: Calls or repeats inside each other multiply without end.
        """
        self._statements += 1
        if self._statements > MOST_STATEMENTS:
            self._too_many(f"{MOST_STATEMENTS} statements", span)

    def count_operations(self, count: int, span: Span) -> None:
        """Count the operations of an expression that is evaluated.

        Raises:
            TooManyStatements: Calls or repeats inside each other multiply without end.
        """
        self._operations += count
        if self._operations > MOST_OPERATIONS:
            self._too_many(f"{MOST_OPERATIONS} operations", span)

    def _too_many(self, what: str, span: Span) -> NoReturn:
        self.error("E0600", f"the text expands to more than {what}", span, help_="use a `scan`")
        raise TooManyStatements

    @property
    def errors(self) -> int:
        """How many errors have been reported; grows with each, also where one is dropped as a repetition."""
        return self._errors

    def mark(self) -> Mark:
        """What has been reported and declared so far, for `rewind`."""
        made = self.instance
        counts = (len(made.values), len(made.children), dict(made.counts))
        return Mark(self.collector.mark(), set(self.warned), self._errors, len(self.inputs), self.b.draws, made, counts)

    def rewind(self, mark: Mark) -> None:
        """Forget what was reported and declared since `mark`."""
        self.collector.rewind(mark.found)
        self.warned, self._errors = set(mark.warned), mark.errors
        self.b.draws = mark.draws
        values, children, mark.instance.counts = mark.made[0], mark.made[1], dict(mark.made[2])
        for made, size in (
            (self.inputs, mark.inputs),
            (mark.instance.values, values),
            (mark.instance.children, children),
        ):
            while len(made) > size:
                made.popitem()

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
        """Report a warning, once per place; a text that is only used has its warnings when it is checked itself."""
        if self.unit.name:
            return
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

    # ------------------------------------------------------------------ names that nothing reads
    def leave(self, scope: Scope) -> None:
        """A body has been run whose names are visible nowhere else: remember those that nothing has read."""
        for name, binding in scope.names.items():
            value = binding.value
            declared = isinstance(value, Node) and value.op.name == "input" and value.attrs["kind"] == "param"
            if binding.span is None or name.startswith("_") or declared:
                continue
            if isinstance(value, ListValue) and value.family:
                continue
            if binding.used:
                self._read.add(binding.span)
            else:
                self._unread.setdefault(binding.span, name)

    def unread(self, source: Source) -> list[tuple[str, Span]]:
        """Names that bodies of a text bind and that nothing has read in any call or iteration, with their places."""
        return [(n, s) for s, n in self._unread.items() if s not in self._read and s.source is source]

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
    def reading(self, unit: Unit) -> Iterator[None]:
        """Names of functions mean what they mean in `unit`."""
        before, self.unit = self.unit, unit
        try:
            yield
        finally:
            self.unit = before

    @contextmanager
    def calling(self, function: Function, span: Span, instance: Instance | None = None) -> Iterator[None]:
        """Expand the body of a function, called at `span`; a block fills an instance."""
        chain, active, outer = self.chain, self.active, self.instance
        title = f"`{function.name}`" if instance is None else f"`{function.name}` as `{instance.path}`"
        name = function.name if instance is None else instance.path
        frame = Frame(span, f"in {title}, called here", name, function.name)
        self.chain = (frame, *chain)
        self.active = (*active, function)
        self.instance = instance or outer
        try:
            with self.reading(function.unit):
                yield
        finally:
            self.chain, self.active, self.instance = chain, active, outer


BUILD_PROBLEMS = (TypeProblem, PromotionProblem, DimProblem)
