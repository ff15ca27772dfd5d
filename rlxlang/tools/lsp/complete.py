"""What can be written at a place: the completion of editors, the REPL and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.checks import CONFIG_TYPES, DTYPES
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.ir import SURFACES
from rlxlang.ops import METHODS
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp import words
from rlxlang.tools.lsp.analysis import Analysis, Document
from rlxlang.tools.lsp.cursor import Bracket, Cursor, cursor_at
from rlxlang.tools.lsp.hover import declaration
from rlxlang.tools.lsp.index import FUNCTIONS, Definition
from rlxlang.tools.lsp.resolve_expressions import CONSTANTS
from rlxlang.tools.lsp.workspace import Workspace

_FORMAL_TYPES = ("int", "float", "bool", "str", "tensor")
_JOINING = ("in", "over", "for", "while", "max", "by", "div", "as", "reverse", "else", "if")
_NAMING = frozenset({"let", "config", "input", "param", "const", "bind", "graph", "fn", "block", "remat"})


@dataclass(frozen=True, slots=True)
class Completion:
    """One proposal.

    Attributes:
        label: What is shown, and what is written unless `insert` says another.
        kind: `value`, `config`, `param`, `input`, `fn`, `block`, `op`, `option`, `keyword`, `dtype`, `type`, `module`, `constant`,
            `initializer`, `axis`, `field`, `file`.
        detail: Its type or form.
        doc: Its text in Markdown.
        insert: What is written.
        snippet: Whether `insert` has places to fill, in the notation of the protocol.
        rank: Lower ones come first.
    """

    label: str
    kind: str
    detail: str = ""
    doc: str = ""
    insert: str = ""
    snippet: bool = False
    rank: int = 5


def completions(text: str, offset: int | None = None, *, path: str = "<text>") -> list[Completion]:
    """The proposals for a text outside of an editor, where an expression may stand in place of a statement.

    Args:
        text: All that has been entered, then what is being typed.
        offset: The place in it; the end without one.
        path: The file of the text, or a name in the folder where paths of `use` start.
    """
    workspace = Workspace()
    workspace.open(path, text)
    document = workspace.document(path)
    assert document is not None
    return complete(
        workspace, document, len(text) if offset is None else offset, workspace.analysis(path), anywhere=True
    )


def complete(
    workspace: Workspace,
    document: Document,
    offset: int,
    analysis: Analysis | None = None,
    *,
    anywhere: bool = False,
) -> list[Completion]:
    """The proposals at an offset, best first.

    Args:
        workspace: For what other texts define.
        document: The text.
        offset: The place.
        analysis: Types are shown when there is one, perhaps of an earlier version of the text.
        anywhere: Whether an expression may stand where a statement begins.
    """
    cursor = cursor_at(document.text, document.trivia, offset)
    if cursor.in_comment:
        return []
    with workspace.still():
        found = {c.label: c for c in reversed(list(_Completer(workspace, document, cursor, analysis, anywhere).run()))}
    wanted = cursor.word.lower()
    fitting = [c for c in found.values() if _fits(c.label.lower(), wanted)]
    return sorted(fitting, key=lambda c: (not c.label.lower().startswith(wanted), c.rank, c.label))


def _fits(label: str, wanted: str) -> bool:
    """Whether the letters that were typed stand in a label, in order, from its start or the start of a part after `_`."""
    if not wanted or label.startswith(wanted):
        return True
    starts = [k for k in range(len(label)) if label[k] == wanted[0] and (k == 0 or label[k - 1] == "_")]
    return any(_in_order(wanted, label[start:]) for start in starts)


def _in_order(wanted: str, text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in wanted)


class _Completer:
    def __init__(
        self, workspace: Workspace, document: Document, cursor: Cursor, analysis: Analysis | None, anywhere: bool
    ) -> None:
        self.workspace, self.document, self.cursor, self.analysis = workspace, document, cursor, analysis
        self.anywhere = anywhere
        self.index = document.index

    def run(self) -> Iterable[Completion]:
        """All proposals for the place, not yet filtered by what has been typed."""
        cursor = self.cursor
        keyword, before = cursor.keyword, cursor.before
        if cursor.in_string is not None:
            return self._files() if keyword == "use" else ()
        if cursor.inner == "use":
            return self._items()
        if before == "::":
            return self._path()
        if before == "." and len(cursor.statement) > 1:
            return self._methods()
        if not cursor.statement:
            if self.anywhere:  # statements stand between names in sight and ops
                return [*(replace(k, rank=4) for k in self._keywords()), *self._expression()]
            return self._keywords()
        if keyword == "use":
            return self._modules() if len(cursor.statement) == 1 else ()
        if before == "as":
            return ()
        if keyword in ("vjp", "jvp"):
            return self._definitions("fn") if len(cursor.statement) == 1 else ()
        if keyword in _NAMING and (declared := self._declaring()) is not None:
            return declared
        if keyword in ("out", "output", "tap") and not any(t.text == "=" for t in cursor.statement):
            return self._values()
        return self._joining() if self._follows_operand() else self._expression()

    def _follows_operand(self) -> bool:
        """Whether an expression has just ended, so that an operator or a word that joins must follow."""
        last = self.cursor.statement[-1]
        if last.kind in ("number", "string", "axis") or last.text in (")", "]"):
            return True
        return last.kind == "name" and last.text not in (*_JOINING, self.cursor.keyword)

    def _joining(self) -> list[Completion]:
        """Words that may follow an expression."""
        cursor, texts = self.cursor, [t.text for t in self.cursor.statement]
        wanted: tuple[str, ...] = ("div",)
        if cursor.in_brackets:
            wanted = ("div", "by") if ".." in texts else ("div", "as")
        elif cursor.keyword == "scan":
            wanted = ("reverse", "div") if "over" in texts and texts[-2] != "over" else ("div",)
            wanted = wanted if {"for", "over"} & set(texts) else ("for", "over", "div")
            wanted = ("in",) if texts[-2] == "over" else wanted
        elif cursor.keyword == "loop":
            wanted = ("max", "div") if "while" in texts else ("while", "div")
        elif cursor.keyword == "repeat":
            wanted = (
                ("in", "div")
                if len(texts) == 2 and cursor.statement[1].kind == "name"
                else ("by", "div")
                if ".." in texts
                else ("div",)
            )
        elif cursor.keyword in ("let", "out", "tap", "emit", "return"):
            wanted = ("as", "div")
        return _words(wanted, "keyword", words.JOINING)

    # ------------------------------------------------------------------ declarations
    def _declaring(self) -> Iterable[Completion] | None:
        """Proposals in the head of a declaration; None where an expression stands."""
        cursor, keyword = self.cursor, self.cursor.keyword
        texts = [t.text for t in cursor.statement]
        if keyword in ("fn", "block", "remat"):
            bracket = cursor.brackets[-1] if cursor.brackets else None
            if keyword == "remat" and len(texts) == 1:
                return _words(("fn", "block"), "keyword", {})
            if cursor.before == ":" and bracket is not None and bracket.symbol == "(":
                return _words(_FORMAL_TYPES, "type", words.TYPE_DOCS)
            return None if "=" in texts else ()
        if "=" in texts and texts.index("=") > 0:
            if keyword == "const" and cursor.before == ":" and not cursor.in_brackets:
                return _words(DTYPES, "dtype", words.DTYPE_DOCS)
            if keyword == "param" and not cursor.in_brackets:
                return [*_initializers(), *self._expression()]
            return None
        if keyword == "config":
            return _words(CONFIG_TYPES, "type", words.TYPE_DOCS) if cursor.before == ":" else ()
        if keyword in ("input", "param") and cursor.inner == "[":
            first = cursor.before == "[" and ":" in texts
            return [
                *(_words(DTYPES, "dtype", words.DTYPE_DOCS, rank=4) if first else ()),
                *self._axes(),
                *self._sizes(),
            ]
        return ()

    def _sizes(self) -> Iterator[Completion]:
        """What may stand in a shape: configs and other static values."""
        for completion in self._values():
            if completion.kind in ("config", "value", "module"):
                yield completion
        yield from self._ops(("dim",))

    def _axes(self) -> list[Completion]:
        return [Completion(name, "axis", "a dynamic axis", rank=4) for name in self.index.axes()]

    # ------------------------------------------------------------------ statements
    def _keywords(self) -> Iterator[Completion]:
        containers = self.cursor.containers
        innermost = next((c for c in reversed(containers) if c not in ("if", "else")), "")
        allowed: tuple[str, ...]
        if not containers:
            allowed = words.AT_TOP
        elif innermost in ("fn", "vjp", "jvp"):
            allowed = words.IN_FUNCTION
        elif innermost in ("block", "remat"):
            allowed = words.IN_BLOCK
        elif innermost == "scan":
            allowed = words.IN_SCAN
        else:
            allowed = (*words.IN_LOOP, "param", "const") if not innermost else words.IN_LOOP
        if "graph" in allowed and self.document.module.statements:
            first = self.document.module.statements[0]
            allowed = tuple(w for w in allowed if w != "graph" or self.cursor.offset <= first.span.start)
        if containers and containers[-1] in ("if", "else"):
            allowed = tuple(w for w in allowed if w not in ("return", "emit"))
        if self.cursor.closed == "if":
            yield Completion("else", "keyword", words.JOINING["else"], insert="else {\n  $0\n}", snippet=True, rank=0)
        for rank, word in enumerate(allowed):
            doc, snippet = words.STATEMENTS[word]
            yield Completion(word, "keyword", doc, insert=snippet, snippet=True, rank=rank)

    # ------------------------------------------------------------------ modules
    def _modules(self) -> Iterator[Completion]:
        for name in stdlib_modules():
            yield Completion(name, "module", f"stdlib module `{name}`", rank=1)
        yield Completion("init", "module", "initialisers", rank=2)

    def _files(self) -> Iterator[Completion]:
        typed = self.cursor.in_string or ""
        folder = self.document.folder / typed.rpartition("/")[0]
        try:
            entries = sorted(folder.iterdir())
        except (OSError, ValueError):
            return
        own = Path(self.document.path)
        for entry in entries:
            if entry.suffix == ".rlx" and entry != own:
                yield Completion(entry.name, "file", str(entry), rank=1)
            elif entry.is_dir() and not entry.name.startswith("."):
                yield Completion(f"{entry.name}/", "file", str(entry), rank=2)

    def _items(self) -> Iterator[Completion]:
        """Inside the braces of a `use` statement."""
        bracket = self.cursor.brackets[-1]
        tokens = self.cursor.statement
        target = next((t for t in tokens if t.text not in ("use",) and t.kind in ("name", "string")), None)
        if target is None or self.cursor.before == "as":
            return
        taken = {t.text for t in tokens if t.start > target.start}
        node = _target(target.text, target.kind, self.document)
        yield from (c for c in self._exports(node) if c.label not in taken)
        if target.text == "init" and bracket.symbol == "use":
            yield from (c for c in _initializers() if c.label not in taken)

    def _path(self) -> Iterator[Completion]:
        """After `::`."""
        tokens = self.cursor.statement
        head = tokens[-2] if len(tokens) > 1 else None
        if head is None:
            return
        if head.text == "DType":
            yield from _words(DTYPES, "dtype", words.DTYPE_DOCS)
        elif head.text == "MaskKind":
            yield from _words(("Causal", "None", "SlidingWindow"), "constant", words.CONSTANT_DOCS)
        elif head.text == "init":
            yield from _initializers()
        elif self.cursor.keyword == "use":
            yield from self._exports(_target(head.text, head.kind, self.document))
        else:
            module = next((d for d in self.index.of_kind("module") if d.name == head.text), None)
            if module is not None:
                yield from self._exports(module.target)

    def _exports(self, target: ast.Ref | ast.Str | None) -> Iterator[Completion]:
        for definition in self.workspace.exports(target, self.document.path).values():
            yield self._definition(definition, rank=1)

    # ------------------------------------------------------------------ expressions
    def _methods(self) -> Iterator[Completion]:
        """After a point: methods, and what an instance of a block holds."""
        receiver = self.cursor.statement[-2]
        if receiver.kind == "name":
            instances = [d for d in self.index.visible(self.cursor.offset) if d.name == receiver.text]
            if any(d.kind == "instance" for d in instances) and not any(d.kind != "instance" for d in instances):
                for definition in self._fields(instances[0]).values():
                    yield self._definition(definition, rank=0, kind="field")
                return
        for definition in self._functions():
            node = definition.node
            if isinstance(node, (ast.Fn, ast.Block)) and node.formals:
                yield self._definition(definition, rank=2)
        names = {**{n: s for n, s in SURFACES.items() if s.method}, **METHODS}
        yield from self._ops(sorted(n for n in names if n.isidentifier()), method=True)
        yield from self._ops(("dim",), method=True)

    def _fields(self, instance: Definition) -> dict[str, Definition]:
        if instance.callee is None:
            return {}
        blocks = self.workspace.resolve(instance.callee, self.document)
        return blocks[0].fields if blocks else {}

    def _expression(self) -> Iterator[Completion]:
        cursor = self.cursor
        call = cursor.call
        own_level = call is not None and cursor.brackets[-1] is call
        if call is not None and own_level and cursor.before == ":" and call.given:
            kind = self._option_kind(call)
            if kind == "bool":
                yield from _words(("true", "false"), "constant", {}, rank=0)
            elif kind == "dtype":
                yield from _words(DTYPES, "dtype", words.DTYPE_DOCS, rank=0)
            elif kind == "mask":
                for name in ("Causal", "None", "SlidingWindow"):
                    yield Completion(f"MaskKind::{name}", "constant", doc=words.CONSTANT_DOCS[name], rank=0)
        if call is not None and own_level and cursor.before in ("(", ","):
            yield from self._options(call)
        if call is not None and call.callee[-1] in ("cast", "zeros", "ones", "full"):
            yield from _words(DTYPES, "dtype", words.DTYPE_DOCS, rank=2)
        yield from self._values()
        for definition in self._functions():
            yield self._definition(definition, rank=3)
        for definition in self.index.of_kind("module"):
            yield Completion(definition.name, "module", declaration(definition, []), rank=3)
        yield from self._ops(sorted(n for n in SURFACES if n.isidentifier()))
        yield from self._ops(("dim", "grad"))
        yield from self._axes()
        yield from _words(words.CONSTANT_DOCS, "constant", words.CONSTANT_DOCS, rank=6, only=CONSTANTS)
        yield from _words(DTYPES, "dtype", words.DTYPE_DOCS, rank=7)
        yield from _words(("MaskKind", "DType"), "constant", {}, rank=7)

    def _options(self, call: Bracket) -> Iterator[Completion]:
        """Arguments of a call that may be given by name and are not given yet."""
        name = call.callee[-1]
        definition = self._function(call.callee)
        if definition is not None:
            for text in definition.formals:
                if text not in call.given:
                    formal = definition.formals[text].node
                    detail = words.formal_text(formal) if isinstance(formal, ast.Formal) else ""
                    yield Completion(f"{text}:", "option", detail, insert=f"{text}: ", rank=1)
        elif name in INITIALIZERS and self.cursor.keyword == "param":
            for text in INITIALIZERS[name]:
                if text not in call.given:
                    yield Completion(f"{text}:", "option", insert=f"{text}: ", rank=1)
        else:
            first = call.commas - len(call.given) + int(call.method)  # how many are given by position
            surface = words.surface_of(name, method=call.method)
            for place, parameter in enumerate(surface.parameters if surface else ()):
                if place >= first and parameter.kind not in ("tensor", "tensors") and parameter.name not in call.given:
                    label, detail = f"{parameter.name}:", words.parameter_text(parameter)
                    doc = words.kind_text(parameter)
                    yield Completion(label, "option", detail, doc, insert=f"{parameter.name}: ", rank=1)

    def _option_kind(self, call: Bracket) -> str:
        surface = words.surface_of(call.callee[-1], method=call.method)
        given = call.given[-1]
        return next((p.kind for p in surface.parameters if p.name == given), "") if surface is not None else ""

    def _function(self, path: tuple[str, ...]) -> Definition | None:
        return self.workspace.function(self.document, path)

    def _functions(self) -> Iterator[Definition]:
        """Fns and blocks in sight, imported ones included."""
        for definition in self.index.of_kind("fn", "block"):
            yield definition
        for definition in self.index.of_kind("import"):
            yield from (d for d in self.workspace.resolve(definition, self.document) if d.kind in FUNCTIONS)
        for target in self.index.wildcards:
            yield from (d for d in self.workspace.exports(target, self.document.path).values() if d.kind in FUNCTIONS)

    def _definitions(self, *kinds: str) -> list[Completion]:
        return [self._definition(d, rank=1) for d in self.index.of_kind(*kinds)]

    def _values(self) -> Iterator[Completion]:
        """Values in sight."""
        for definition in self.index.visible(self.cursor.offset):
            if definition.kind in FUNCTIONS or definition.kind == "module":
                continue
            found = definition
            if definition.kind == "import":
                outside = self.workspace.resolve(definition, self.document)
                if not outside or outside[0].kind in FUNCTIONS:
                    continue
                found = outside[0]
            yield self._definition(found, rank=1 if found.owner is not None else 2, label=definition.name)
        for target in self.index.wildcards:
            for definition in self.workspace.exports(target, self.document.path).values():
                if definition.kind not in FUNCTIONS:
                    yield self._definition(definition, rank=3)

    def _definition(self, definition: Definition, *, rank: int, kind: str = "", label: str = "") -> Completion:
        types = self.analysis.types_in(self.document, definition) if self.analysis is not None else []
        own = definition.kind if definition.kind in ("config", "param", "input", "fn", "block") else "value"
        return Completion(
            label or definition.name, kind or own, declaration(definition, types), definition.doc, rank=rank
        )

    def _ops(self, names: Iterable[str], *, method: bool = False) -> Iterator[Completion]:
        for name in names:
            form = words.op_form(name, method=method)
            if form is not None:
                yield Completion(name, "op", form[0], form[1], rank=5)


def _words(
    names: Iterable[str], kind: str, docs: Any, *, rank: int = 1, only: tuple[str, ...] | None = None
) -> list[Completion]:
    return [Completion(n, kind, doc=docs.get(n, ""), rank=rank) for n in names if only is None or n in only]


def _initializers() -> list[Completion]:
    found = []
    for name in INITIALIZERS:
        form, doc = words.initializer_form(name)
        found.append(Completion(name, "initializer", form, doc, rank=1))
    return found


def _target(text: str, kind: str, document: Document) -> ast.Ref | ast.Str:
    """The target of a `use` statement from its token."""
    span = Span(source=document.source, start=0, end=0)
    if kind == "string":
        return ast.Str(span, text[1:-1])
    return ast.Ref(span, (ast.Name(span, text),))
