"""`use`: other texts, of the standard library or of files, and what a text takes from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Label, Source, Span, did_you_mean, not_utf8
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.declarations import Declarations
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.frontend.names import Function, Scope, Unit
from rlxlang.frontend.parse import ParseResult, parse_module
from rlxlang.frontend.rules_text import attach_rule
from rlxlang.frontend.values import Unbound
from rlxlang.ir import SURFACES
from rlxlang.resources import stdlib_modules, stdlib_source

ReadFile = Callable[[Path], str]
INIT = "init"  # the module of initialisers is built in: they stand after `=` of a param and nowhere else


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    return path.read_bytes().decode("utf-8")


def define(context: Context, unit: Unit, statements: Iterable[Any]) -> None:
    """Make the fns, blocks and derivative rules of a text known, and where its `let`s are."""
    for position, statement in enumerate(statements):
        if isinstance(statement, (ast.Fn, ast.Block)):
            _define(context, unit, statement, position)
        elif isinstance(statement, ast.Let):
            for name in statement.names:
                unit.lets.setdefault(name.text, name.span)
    for statement in statements:
        if isinstance(statement, (ast.Vjp, ast.Jvp)):
            attach_rule(context, statement)


def _define(context: Context, unit: Unit, statement: ast.Fn | ast.Block, position: int) -> None:
    name, kind = statement.name.text, "block" if isinstance(statement, ast.Block) else "fn"
    earlier = unit.functions.get(name)
    if earlier is not None:
        others = (Label(earlier.definition.name.span, "defined here first"),)
        context.error("E0210", f"{kind} `{name}` is defined twice", statement.name.span, others=others)
        return
    if name in unit.imported or name in SURFACES or name in ("dim", "grad"):
        if name in unit.imported:
            context.warn(
                "W0903", f"{kind} `{name}` hides the used {unit.imported[name].kind} of that name", statement.name.span
            )
        else:
            context.warn("W0903", f"{kind} `{name}` hides the op of that name", statement.name.span)
    unit.functions[name] = Function(statement, unit, None, position)


class Modules:
    """Reads the texts that a text uses, each once.

    Args:
        context: The elaboration.
        evaluator: For configs and consts.
        main: The file of the text that is loaded; None when it is no file.
        read: Gives the text of a file; an editor gives what it shows.
    """

    def __init__(self, context: Context, evaluator: Evaluator, main: Path | None, read: ReadFile) -> None:
        self.context, self.evaluator, self.read = context, evaluator, read
        self._units: dict[str, Unit | None] = {}
        self._open: list[tuple[str, str]] = []  # key and title of the texts that are being read, outermost first
        self._spans: dict[tuple[int, str], Span] = {}
        if main is not None:
            self._open.append((str(main.resolve()), main.name))

    def use(self, unit: Unit, statement: ast.Use, folder: Path, scope: Scope) -> None:
        """Bring in what a `use` statement of `unit` asks for; values go to `scope`.

        Args:
            unit: The text it stands in.
            statement: The statement.
            folder: Where paths of files start.
            scope: Where used configs and consts are bound.
        """
        found = self._find(statement.target, folder)
        if found is None:
            self._decline(unit, statement)
        elif statement.wildcard:
            for name in [*found.functions, *_values(found)]:
                self._take(unit, found, name, ast.Name(statement.span, name), scope)
        elif statement.items is not None:
            for item in statement.items:
                self._item(unit, found, item, scope)
        else:
            alias = statement.alias or ast.Name(statement.target.span, _stem(statement.target))
            if alias.text in unit.modules and unit.modules[alias.text] is not found:
                self._twice(unit, alias)
            unit.modules[alias.text] = found
            self._spans[id(unit), alias.text] = alias.span

    # ------------------------------------------------------------------ items
    def _item(self, unit: Unit, found: Unit, item: ast.UseItem, scope: Scope) -> None:
        name, alias = item.name.text, item.alias or item.name
        if self._take(unit, found, name, alias, scope):
            return
        unit.declined.add(alias.text)
        if found.forgives(name):
            return
        known = [*found.functions, *_values(found), *(INITIALIZERS if found.name == INIT else ())]
        help_ = did_you_mean(name, known) or f"it has {_listed(known)}"
        self.context.error("E0204", f"module `{found.name}` has no `{name}`", item.name.span, help_=help_)

    def _take(self, unit: Unit, found: Unit, name: str, alias: ast.Name, scope: Scope) -> bool:
        """Take one item under a name of this text; gives False when there is none."""
        text = alias.text
        if found.name == INIT and name in INITIALIZERS:
            return True  # initialisers are in sight where they may stand
        if name in found.functions:
            if unit.imported.get(text, found.functions[name]) is not found.functions[name]:
                self._twice(unit, alias)
            elif text in SURFACES or text in ("dim", "grad"):
                self.context.warn(
                    "W0903", f"the used {found.functions[name].kind} `{text}` hides the op of that name", alias.span
                )
            unit.imported[text] = found.functions[name]
            self._spans[id(unit), text] = alias.span
            return True
        if name in _values(found):
            binding = found.values.names[name]
            earlier = scope.names.get(text)
            if earlier is not None and earlier.value is not binding.value:
                self._twice(unit, alias)
            scope.bind(text, binding.value, alias.span).used = True
            self._spans[id(unit), text] = alias.span
            return True
        return False

    def _twice(self, unit: Unit, alias: ast.Name) -> None:
        first = self._spans.get((id(unit), alias.text))
        others = () if first is None else (Label(first, "used here first"),)
        help_ = f"give one a name of its own: `{alias.text} as …`"
        self.context.error("E0210", f"`{alias.text}` is used from two places", alias.span, others=others, help_=help_)

    def _decline(self, unit: Unit, statement: ast.Use) -> None:
        """Let uses of what a refused statement would have brought in be silent."""
        if statement.wildcard:
            unit.declines_all = True
        elif statement.items is not None:
            unit.declined |= {(item.alias or item.name).text for item in statement.items}
        elif statement.alias is not None:
            unit.declined.add(statement.alias.text)
        else:
            unit.declined.add(_stem(statement.target))

    # ------------------------------------------------------------------ texts
    def _find(self, target: ast.Ref | ast.Str, folder: Path) -> Unit | None:
        """The text that is meant; None after an error."""
        if isinstance(target, ast.Str):
            path = folder / target.value
            try:
                key = str(path.resolve())
            except ValueError as problem:  # a zero byte, or half a pair of surrogates
                self.context.error("E0203", f"`{target.value}` names no file: {problem}", target.span)
                return None
            return self._once(key, target.value, target.span, lambda: self._file(path, target))
        name = target.text
        if name == INIT:
            return Unit(INIT)
        return self._once(f"stdlib:{name}", name, target.span, lambda: self._library(name, target))

    def _once(self, key: str, title: str, span: Span, load: Callable[[], Source | None]) -> Unit | None:
        if key in [k for k, _ in self._open]:
            start = [k for k, _ in self._open].index(key)
            path = " → ".join([*(t for _, t in self._open[start:]), title])
            self.context.error(
                "E0214", f"`{title}` uses itself: {path}", span, help_="put what both need into a third file"
            )
            return None
        if key not in self._units:
            source = load()
            self._open.append((key, title))
            try:
                folder = Path(key).parent if source is not None and not key.startswith("stdlib:") else None
                self._units[key] = None if source is None else self._unit(source, Path(title).stem, folder)
            finally:
                self._open.pop()
        return self._units[key]

    def _file(self, path: Path, target: ast.Str) -> Source | None:
        context = self.context
        try:
            return Source(str(path), self.read(path))
        except UnicodeDecodeError as problem:
            found = not_utf8(str(path), problem)
            context.error(found.code, found.message, target.span, help_=found.help)
        except (OSError, ValueError) as problem:  # ValueError: a zero byte in the name
            reason = getattr(problem, "strerror", None) or str(problem)
            near = sorted(p.name for p in path.parent.glob("*.rlx")) if path.parent.is_dir() else []
            help_ = f"did you mean `{path.name}.rlx`?" if f"{path.name}.rlx" in near else did_you_mean(path.name, near)
            help_ = help_ or f"paths start at the folder of the file that uses them: {path.parent}"
            context.error("E0203", f"`{target.value}` cannot be read: {reason}", target.span, help_=help_)
        return None

    def _library(self, name: str, target: ast.Ref) -> Source | None:
        text = stdlib_source(target.path[0].text) if len(target.path) == 1 else None
        if text is not None:
            return Source(f"stdlib/{name}.rlx", text)
        known = [*stdlib_modules(), INIT]
        if len(target.path) == 2 and target.path[0].text in known:
            help_ = f"to take one item write `use {target.path[0].text}::{{{target.path[1].text}}};`"
        else:
            help_ = did_you_mean(name, known) or f'a file is used by its path: `use "{name}.rlx";`'
        self.context.error("E0203", f"unknown module `{name}`", target.span, help_=help_)
        return None

    def _unit(self, source: Source, name: str, folder: Path | None) -> Unit | None:
        """Read a text that is used: its functions, and its configs and consts with their own values."""
        context = self.context
        parsed = parse_module(source) if folder is not None else _library_text(source.name, source.text)
        context.collector.extend(d for d in parsed.diagnostics if d.is_error)
        if parsed.module is None:
            return None
        unit = Unit(name)
        unit.lose(parsed.lost, parsed.is_vague)
        used = Scope(holds_declarations=True)
        unit.values = Scope(used, holds_declarations=True)
        statements = parsed.module.statements
        with context.reading(unit):
            for statement in statements:
                if isinstance(statement, ast.Use):
                    self.use(unit, statement, folder or Path.cwd(), used)
            define(context, unit, statements)
            declarations = Declarations(context, self.evaluator, unit.values)
            declarations.read_library(parsed.module)
        for function in unit.functions.values():
            function.scope = declarations.local
        return unit


@lru_cache(maxsize=64)
def _library_text(name: str, text: str) -> ParseResult:
    """A module of the standard library, parsed once in a process."""
    return parse_module(Source(name, text))


def _values(unit: Unit) -> list[str]:
    """Names of the configs and consts of a text."""
    return [name for name, binding in unit.values.names.items() if not isinstance(binding.value, Unbound)]


def _stem(target: ast.Ref | ast.Str) -> str:
    return Path(target.value).stem if isinstance(target, ast.Str) else target.path[-1].text


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return (shown + (", …" if len(names) > 8 else "")) or "nothing to use"
