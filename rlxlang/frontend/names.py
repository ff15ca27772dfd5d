"""What names of a text mean: scopes of values, the fns and blocks of a text, and the texts it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.lost import Lost
from rlxlang.frontend.values import POISON, Binding, Unbound

# Told of every binding (span, name, value) and of every expression (span, "", value).
Observer: TypeAlias = Callable[[Span, str, Any], None]


@dataclass(eq=False)
class Scope:
    """Names and their values; `parent` is looked at for names that are not here.

    Attributes:
        parent: The scope around it.
        names: What is bound here.
        holds_declarations: Whether these are the declarations of a text, or what it uses of others.
        observe: Told of every binding, here and in the scopes inside.
    """

    parent: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict)
    holds_declarations: bool = False
    observe: Observer | None = None

    def __post_init__(self) -> None:
        if self.observe is None and self.parent is not None:
            self.observe = self.parent.observe

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
        if self.observe is not None and span is not None:
            self.observe(span, name, value)
        return binding

    def visible(self) -> list[str]:
        """All names in sight that have a value."""
        found: dict[str, None] = {}
        scope: Scope | None = self
        while scope is not None:
            found |= {n: None for n, b in scope.names.items() if not isinstance(b.value, Unbound)}
            scope = scope.parent
        return list(found)

    def lose(self, part: Lost) -> None:
        """Give no value to the names that a lost statement would have bound here."""
        for name in part.values:
            self.bind(name, POISON)

    def snapshot(self) -> Scope:
        """A scope with the bindings of now, whatever is bound later."""
        return Scope(self.parent, dict(self.names), self.holds_declarations, self.observe)


@dataclass(eq=False)
class Function:
    """A `fn` or `block` of a text.

    Attributes:
        definition: Its text.
        unit: The text that defines it, where its body looks for functions.
        scope: The names that its body sees; None until its definition is reached.
        position: Which statement of the text defines it.
        rules: Its derivative rules, by `vjp` and `jvp`.
    """

    definition: ast.Fn | ast.Block
    unit: Unit
    scope: Scope | None = None
    position: int = 0
    rules: dict[str, ast.Vjp | ast.Jvp] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name where it is defined."""
        return self.definition.name.text

    @property
    def kind(self) -> str:
        """`fn` or `block`."""
        return "block" if isinstance(self.definition, ast.Block) else "fn"


@dataclass(eq=False)
class Unit:
    """One text: the functions it defines and what it uses of other texts.

    Attributes:
        name: What messages call it; the text that is loaded has none.
        functions: Its fns and blocks.
        imported: Fns and blocks of other texts that it calls by a name of their own.
        modules: Texts whose functions it calls by path, `nn::dense`.
        values: Its configs and consts, for texts that use it.
        lets: Where its top-level `let`s first bind a name.
        declined: Names that a refused statement would have defined: their uses are silent.
        declines_all: Whether such a statement brings in names that are not known.
        lost: What syntax errors have left out of the text.
        lost_values: Names of values that it would have bound.
    """

    name: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    imported: dict[str, Function] = field(default_factory=dict)
    modules: dict[str, Unit] = field(default_factory=dict)
    values: Scope = field(default_factory=lambda: Scope(holds_declarations=True))
    lets: dict[str, Span] = field(default_factory=dict)
    declined: set[str] = field(default_factory=set)
    declines_all: bool = False
    lost: tuple[Lost, ...] = ()
    lost_values: set[str] = field(default_factory=set)

    def lose(self, lost: tuple[Lost, ...], is_vague: bool) -> None:
        """Be silent about what syntax errors have left out; `is_vague` when that is not known."""
        self.lost = lost
        self.declines_all |= is_vague
        for part in lost:
            self.declines_all |= part.everything
            self.declined |= part.functions
            self.lost_values |= part.values

    def function(self, name: str) -> Function | None:
        """The fn or block of a name: of the text itself, else one it uses."""
        return self.functions.get(name) or self.imported.get(name)

    def function_names(self) -> list[str]:
        """Names of all functions in sight."""
        return list({**self.functions, **self.imported})

    def forgives(self, name: str) -> bool:
        """Whether a name that is not known may stem from a statement that has been refused."""
        if self.declines_all or name in self.declined:
            return True
        family, _, element = name.rpartition("_")
        return name in self.lost_values or (element.isdecimal() and family in self.lost_values)
