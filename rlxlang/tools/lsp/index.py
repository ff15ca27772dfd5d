"""Where names are bound and where they are read in one text: the facts behind definitions, references and renaming.

`resolve.index_module` fills an `Index` from the syntax tree alone, so that it exists for texts with errors. What other
files define is found by `workspace`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlxlang.diagnostics import Source, Span
from rlxlang.frontend import ast

# Kinds of definitions that other files see.
EXPORTED = frozenset({"config", "const", "fn", "block"})
# Kinds that belong to functions: looked up in calls only.
FUNCTIONS = frozenset({"fn", "block"})


@dataclass(eq=False, slots=True)
class Definition:
    """One place that binds a name.

    Attributes:
        name: The name.
        kind: `config`, `input`, `param`, `const`, `bind`, `let`, `out`, `emit`, `carry`, `slice`, `variable` (of a `repeat`),
            `formal`, `tangent`, `fn`, `block`, `module`, `import`, `instance` (`as fc`), `axis`.
        span: The name in the text.
        node: The statement, formal, item or expression that binds it.
        doc: Its `///` text.
        visible: First and last offset of the text where it can be read by name, unless a later one hides it.
        owner: The fn or block around it.
        target: For a `module` or `import`: the module or file of the `use` statement.
        item: For an `import`: the name it has in its own file.
        bound_at: The place by which elaboration knows it, when that is neither the name nor the node.
        callee: For an `instance`: the use of the block's name.
        formals: For a fn or block: its parameters by name.
        fields: For a block: what can be read of an instance of it, `fc.w`.
    """

    name: str
    kind: str
    span: Span
    node: ast.Node
    doc: str = ""
    visible: tuple[int, int] = (0, 0)
    owner: Definition | None = None
    target: ast.Ref | ast.Str | None = None
    item: str = ""
    bound_at: Span | None = None
    callee: Use | None = None
    formals: dict[str, Definition] = field(default_factory=dict)
    fields: dict[str, Definition] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} at {self.span.line}:{self.span.column}>"


@dataclass(eq=False, slots=True)
class Use:
    """One place that reads a name.

    Attributes:
        name: The name.
        role: `value`, `function`, `module`, `item` (of a module), `argument` (its name), `field`, `axis`, `op`, `option`,
            `dtype`, `type`, `initializer`, `constant`.
        span: The name in the text.
        found: The definitions of this text that it may read.
        base: For an `item`: the module's definition or use; for an `argument` or `option`: the use of what is called; for
            a `field`: the use before the point.
        method: Whether it is called as a method.
    """

    name: str
    role: str
    span: Span
    found: tuple[Definition, ...] = ()
    base: Definition | Use | None = None
    method: bool = False

    def __repr__(self) -> str:
        return f"<{self.role} {self.name} at {self.span.line}:{self.span.column}>"


@dataclass(eq=False)
class Index:
    """All definitions and uses of a text, in order.

    Attributes:
        source: The text.
        module: Its tree.
        definitions: By place.
        uses: By place.
        wildcards: Targets of `use …::*;`.
        links: Pairs of definitions that stand for one variable although nothing reads both.
    """

    source: Source
    module: ast.Module
    definitions: list[Definition] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    wildcards: list[ast.Ref | ast.Str] = field(default_factory=list)
    links: list[tuple[Definition, Definition]] = field(default_factory=list)
    _places: list[tuple[int, int, Definition | Use]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _group: dict[Definition, list[Definition]] = field(default_factory=dict)
    _readers: dict[Definition, list[Use]] = field(default_factory=dict)
    _exports: dict[str, Definition] | None = None

    def finish(self) -> None:
        """Sort, and find which definitions are one variable."""
        self.definitions.sort(key=lambda d: d.span.start)
        self.uses.sort(key=lambda u: u.span.start)
        everything: list[Definition | Use] = [*self.uses, *self.definitions]
        self._places = sorted(((o.span.start, o.span.end, o) for o in everything), key=lambda place: place[:2])
        self._starts = [place[0] for place in self._places]
        parent = {d: d for d in self.definitions}

        def root(d: Definition) -> Definition:
            while parent[d] is not d:
                parent[d] = parent[parent[d]]
                d = parent[d]
            return d

        for use in self.uses:
            for definition in use.found:
                if definition in parent:
                    parent[root(definition)] = root(use.found[0])
                    self._readers.setdefault(definition, []).append(use)
        for a, b in self.links:
            parent[root(a)] = root(b)
        for definition in self.definitions:
            self._group.setdefault(root(definition), []).append(definition)
        self._group = {d: members for members in self._group.values() for d in members}

    # ------------------------------------------------------------------ places
    def at(self, offset: int) -> list[Definition | Use]:
        """What has a name at an offset; the end of a name counts. Uses come before definitions of the same span."""
        last = bisect_right(self._starts, offset)
        near = [p for p in self._places[max(0, last - 4) : last] if p[0] <= offset <= p[1]]
        inside = [p for p in near if offset < p[1]] or near
        return sorted((p[2] for p in inside), key=lambda o: isinstance(o, Definition))

    # ------------------------------------------------------------------ variables
    def variable(self, definition: Definition) -> list[Definition]:
        """All definitions of the variable that a definition belongs to: a loop's carry and what rebinds it, for example."""
        return self._group.get(definition, [definition])

    def readers(self, definition: Definition) -> list[Use]:
        """The uses of this text that may read one definition."""
        return self._readers.get(definition, [])

    def occurrences(self, definition: Definition) -> list[Span]:
        """Every place of the variable that a definition belongs to, in order, each once."""
        spans: dict[tuple[int, int], Span] = {}
        for member in self.variable(definition):
            spans[member.span.start, member.span.end] = member.span
            for use in self.readers(member):
                spans[use.span.start, use.span.end] = use.span
        return [spans[key] for key in sorted(spans)]

    # ------------------------------------------------------------------ what is in sight
    def visible(self, offset: int) -> list[Definition]:
        """Definitions that can be read at an offset by name, values and functions; of equal names the last one."""
        found: dict[tuple[bool, str], Definition] = {}
        for definition in self.definitions:
            first, last = definition.visible
            if definition.kind == "axis" or not first <= offset <= last:
                continue
            key = (definition.kind in FUNCTIONS, definition.name)
            earlier = found.get(key)
            if earlier is None or earlier.visible[0] <= first:
                found[key] = definition
        return list(found.values())

    def exports(self) -> dict[str, Definition]:
        """What other files see, by name: configs, consts, fns and blocks."""
        if self._exports is None:
            self._exports = {}
            for definition in self.definitions:
                if definition.kind in EXPORTED and definition.owner is None:
                    self._exports.setdefault(definition.name, definition)
        return self._exports

    def axes(self) -> list[str]:
        """Names of the dynamic axes, with their `?`, in order."""
        return list(dict.fromkeys(d.name for d in self.definitions if d.kind == "axis"))

    def of_kind(self, *kinds: str) -> Iterator[Definition]:
        """The definitions of some kinds, in order."""
        return (d for d in self.definitions if d.kind in kinds)
