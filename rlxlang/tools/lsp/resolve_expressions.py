"""Names in expressions: records of definitions and uses, and what a name may mean at a place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.checks import DTYPES
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.frontend.walk import strip_groups, walk
from rlxlang.ir import SURFACES
from rlxlang.tools.lsp.index import Definition, Index, Use

CONSTANTS = ("true", "false", "inf", "nan", "pi", "none")
BUILTIN_CALLS = ("dim", "grad")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"(.+)_[0-9]+")


@dataclass(eq=False, slots=True)
class Join:
    """What a name may mean where several paths of a loop or branch meet; grows until the loop has been read."""

    sources: list[Definition | Join] = field(default_factory=list)


Meaning = tuple[Definition | Join, ...]
Env = dict[str, Meaning]


class Expressions:
    """Records the names of expressions.

    Args:
        module: The text.

    Attributes:
        index: What has been found.
        declared: Declarations of the text, then those of the function being read.
        functions: The fns and blocks of the text by name.
        modules: The modules that it uses.
        imports: What it takes from modules.
        owner: The fn or block being read.
        extent: The part of the text in which a binding made now is in sight.
        pending: Uses with what they may mean, which loops that are not read to their end may still extend.
        fields: Uses of arguments and fields, whose owners are known at the end.
        instances: Instances with the name of the block that is called.
    """

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.index = Index(module.source, module)
        self.end = len(module.source.text)
        self.declared: list[dict[str, Definition]] = [{}]  # of the text, then of the block being read
        self.functions: dict[str, Definition] = {}
        self.modules: dict[str, Definition] = {}
        self.imports: dict[str, Definition] = {}
        self.axes: dict[str, Definition] = {}
        self.owner: Definition | None = None
        self.extent = (0, self.end)
        self.pending: list[tuple[Use, Meaning]] = []
        self.fields: list[Use] = []
        self.callees: dict[ast.Name, Use] = {}
        self.instances: list[tuple[Definition, ast.Name]] = []  # with the name of the block that is called

    # ------------------------------------------------------------------ records
    def define(self, name: ast.Name, kind: str, node: ast.Node, visible: tuple[int, int], **facts: Any) -> Definition:
        """Record a definition."""
        definition = Definition(name.text, kind, name.span, node, visible=visible, owner=self.owner, **facts)
        self.index.definitions.append(definition)
        return definition

    def use(self, name: str, role: str, span: Span, **facts: Any) -> Use:
        """Record a use."""
        use = Use(name, role, span, **facts)
        self.index.uses.append(use)
        return use

    # ------------------------------------------------------------------ expressions
    def expression(self, root: Any, env: Env, *, initializer: bool = False) -> None:
        """Record the names of an expression; `initializer` where one of the module `init` may stand."""
        if root is None:
            return
        done: set[ast.Node] = set()
        for node in walk(root):
            match node:
                case ast.Ref() if node not in done:
                    self._reference(node, env)
                case ast.Call():
                    done.add(node.func)
                    self._call(node, initializer=initializer and node is root)
                case ast.Method():
                    self._call(node, initializer=False)
                case ast.Field() if node not in done:
                    self._field(node, env, done)
                case ast.Named():
                    self._instance(node, env)
                case ast.Dyn() if node.label:
                    self._axis(node)

    def meaning_of(self, name: str, env: Env) -> Meaning:
        """What a value's name may mean: bound before, declared, or taken from a module; empty when unknown."""
        if name in env:
            return env[name]
        for level in reversed(self.declared):
            if name in level:
                return (level[name],)
        imported = self.imports.get(name)
        return () if imported is None else (imported,)

    def use_value(self, name: ast.Name, env: Env) -> Use:
        """Record a use of a value."""
        meaning = self.meaning_of(name.text, env)
        if not meaning and (family := _ELEMENT.fullmatch(name.text)):
            element = self.meaning_of(family[1], {})
            if element and isinstance(element[0], Definition) and getattr(element[0].node, "family", None) is not None:
                start = name.span.start
                span = Span(source=name.span.source, start=start, end=start + len(family[1]))
                return self.use(family[1], "value", span, found=(element[0],))
        role = "value"
        if not meaning and name.text in CONSTANTS:
            role = "constant"
        elif not meaning and name.text in DTYPES:
            role = "dtype"
        use = self.use(name.text, role, name.span)
        self.pending.append((use, meaning))
        return use

    def _reference(self, node: ast.Ref, env: Env) -> None:
        if len(node.path) == 1:
            self.use_value(node.path[0], env)
        else:
            self._path(node)

    def _path(self, node: ast.Ref) -> Use:
        """`nn::dense`, `DType::F16`, `init::zeros`; gives the use of the last name."""
        head, last = node.path[0], node.path[-1]
        if head.text == "init" and last.text in INITIALIZERS and len(node.path) == 2:
            return self.use(last.text, "initializer", last.span)
        if head.text in ("DType", "MaskKind"):
            return self.use(last.text, "dtype" if head.text == "DType" else "constant", last.span)
        module = self.modules.get(head.text)
        use = self.use(head.text, "module", head.span, found=() if module is None else (module,))
        return self.use(last.text, "item", last.span, base=use)

    def use_function(self, name: ast.Name, *, method: bool) -> Use:
        """Record a use of a fn, block or op."""
        definition = self.functions.get(name.text) or self.imports.get(name.text)
        if definition is not None:
            return self.use(name.text, "function", name.span, found=(definition,), method=method)
        role = "op" if name.text in SURFACES or name.text in BUILTIN_CALLS else "function"
        return self.use(name.text, role, name.span, method=method)

    def _callee_use(self, node: ast.Call | ast.Method, *, initializer: bool) -> Use:
        if isinstance(node, ast.Method):
            return self.use_function(node.name, method=True)
        path = node.func.path
        if len(path) > 1:
            return self._path(node.func)
        if initializer and path[0].text in INITIALIZERS:
            return self.use(path[0].text, "initializer", path[0].span)
        return self.use_function(path[0], method=False)

    def _call(self, node: ast.Call | ast.Method, *, initializer: bool) -> None:
        callee = self._callee_use(node, initializer=initializer)
        self.callees[_called(node)] = callee
        self._arguments(node.args, callee)

    def _arguments(self, args: tuple[ast.Arg, ...], callee: Use) -> None:
        role = "option" if callee.role in ("op", "initializer") else "argument"
        for arg in args:
            if arg.name is not None:
                use = self.use(arg.name.text, role, arg.name.span, base=callee)
                if role == "argument":
                    self.fields.append(use)

    def _axis(self, node: ast.Dyn) -> None:
        name = f"?{node.label}"
        if name not in self.axes:
            self.axes[name] = self.define(ast.Name(node.span, name), "axis", node, (0, self.end))
            return
        self.use(name, "axis", node.span, found=(self.axes[name],))

    def _instance(self, node: ast.Named, env: Env) -> None:
        template = node.name
        for place in template.placeholders:
            self.use_value(place, env)
        text = "".join(p for p in template.parts if isinstance(p, str))
        if template.placeholders or not IDENTIFIER.fullmatch(text):
            return
        edge = 1 if template.quoted else 0
        span = Span(source=template.span.source, start=template.span.start + edge, end=template.span.end - edge)
        if span.text != text:
            return  # written with escapes
        instance = self.define(ast.Name(span, text), "instance", node, (node.span.end, self.extent[1]))
        env[f"as {text}"] = (instance,)
        call: Any = strip_groups(node.call)
        if isinstance(call, (ast.Call, ast.Method)):
            self.instances.append((instance, _called(call)))
        if self.owner is not None:
            self.owner.fields.setdefault(text, instance)

    def _field(self, node: ast.Field, env: Env, done: set[ast.Node]) -> None:
        """`fc.w`, `fc.inner.w`: what an instance of a block holds."""
        chain: list[ast.Name] = []
        base: Any = node
        while isinstance(base, ast.Field):
            done.add(base)
            chain.append(base.name)
            base = base.value
        if not isinstance(base, ast.Ref) or len(base.path) != 1:
            return
        done.add(base)
        name = base.path[0]
        if self.meaning_of(name.text, env) or f"as {name.text}" not in env:
            self.use_value(name, env)
            return
        use = self.use(name.text, "value", name.span)
        self.pending.append((use, env[f"as {name.text}"]))
        for part in reversed(chain):
            use = self.use(part.text, "field", part.span, base=use)
            self.fields.append(use)


def _called(node: ast.Call | ast.Method) -> ast.Name:
    """The name of what is called."""
    return node.name if isinstance(node, ast.Method) else node.func.path[-1]


def find_field(use: Use) -> None:
    """An argument's or field's definition when this text has it; `workspace` looks in other files."""
    base = use.base
    definition = base.found[0] if isinstance(base, Use) and base.found else None
    if definition is not None and definition.kind == "instance":
        callee = definition.callee
        definition = callee.found[0] if callee is not None and callee.found else None
    if definition is None:
        return
    table = definition.formals if use.role == "argument" else definition.fields
    if use.name in table:
        use.found = (table[use.name],)


def flat(meaning: Meaning) -> tuple[Definition, ...]:
    """The definitions behind joins, each once."""
    found: dict[Definition, None] = {}
    seen: set[int] = set()
    todo: list[Definition | Join] = list(reversed(meaning))
    while todo:
        part = todo.pop()
        if isinstance(part, Definition):
            found[part] = None
        elif id(part) not in seen:
            seen.add(id(part))
            todo.extend(reversed(part.sources))
    return tuple(found)
