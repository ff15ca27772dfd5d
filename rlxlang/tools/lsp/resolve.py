"""Name resolution on the syntax tree: which definitions each use of a name may read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import Span
from rlxlang.frontend import ast
from rlxlang.frontend.checks import DTYPES
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.frontend.statements import bound_names
from rlxlang.frontend.walk import strip_groups, walk
from rlxlang.ir import SURFACES
from rlxlang.tools.lsp.index import Definition, Index, Use

CONSTANTS = ("true", "false", "inf", "nan", "pi", "none")
BUILTIN_CALLS = ("dim", "grad")
_ELEMENT = re.compile(r"(.+)_[0-9]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEEPEST = 200  # bodies inside bodies; what lies deeper has no index


@dataclass(eq=False, slots=True)
class _Join:
    """What a name may mean where several paths of a loop or branch meet; grows until the loop has been read."""

    sources: list[Definition | _Join] = field(default_factory=list)


_Meaning = tuple[Definition | _Join, ...]
_Env = dict[str, _Meaning]


def index_module(module: ast.Module) -> Index:
    """The index of a text; never fails on trees of broken texts."""
    return _Resolver(module).run()


class _Resolver:
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
        self.depth = 0
        self.pending: list[tuple[Use, _Meaning]] = []
        self.fields: list[Use] = []
        self.made: dict[ast.Node, Definition] = {}  # fns and blocks by their statement
        self.callees: dict[ast.Name, Use] = {}
        self.instances: list[tuple[Definition, ast.Name]] = []  # with the name of the block that is called

    def run(self) -> Index:
        """Read the whole text."""
        statements = self.module.statements
        for statement in statements:
            self._announce(statement)
        self._declare_all(statements, top_level=True)
        env: _Env = {}
        outputs: list[ast.Name] = []
        for statement in statements:
            if isinstance(statement, (ast.Out, ast.Tap)):
                outputs += self._outputs(statement, env)
            else:
                self._statement(statement, env)
        for name in outputs:
            self._use_value(name, env)
        for use, meaning in self.pending:
            use.found = _flat(meaning)
        for instance, name in self.instances:
            instance.callee = self.callees.get(name)
        for use in self.fields:
            _find_field(use)
        self.index.finish()
        return self.index

    # ------------------------------------------------------------------ records
    def _define(self, name: ast.Name, kind: str, node: ast.Node, visible: tuple[int, int], **facts: Any) -> Definition:
        definition = Definition(name.text, kind, name.span, node, visible=visible, owner=self.owner, **facts)
        self.index.definitions.append(definition)
        return definition

    def _use(self, name: str, role: str, span: Span, **facts: Any) -> Use:
        use = Use(name, role, span, **facts)
        self.index.uses.append(use)
        return use

    # ------------------------------------------------------------------ definitions of the whole text
    def _announce(self, statement: Any) -> None:
        everywhere = (0, self.end)
        match statement:
            case ast.Fn() | ast.Block():
                kind = "fn" if isinstance(statement, ast.Fn) else "block"
                definition = self._define(statement.name, kind, statement, everywhere, doc=statement.doc)
                self.made[statement] = definition
                self.functions.setdefault(statement.name.text, definition)
            case ast.Use(wildcard=True):
                self._use_target(statement)
                self.index.wildcards.append(statement.target)
            case ast.Use(items=None):
                target = self._use_target(statement)
                name = statement.alias or _stem(statement.target)
                if name is None:
                    return
                module = self._define(name, "module", statement, everywhere, target=statement.target)
                target.found = () if statement.alias is not None or isinstance(statement.target, ast.Str) else (module,)
                self.modules.setdefault(name.text, module)
            case ast.Use():
                target = self._use_target(statement)
                for item in statement.items or ():
                    self._use(item.name.text, "item", item.name.span, base=target)
                    imported = self._define(
                        item.alias or item.name,
                        "import",
                        item,
                        everywhere,
                        target=statement.target,
                        item=item.name.text,
                    )
                    self.imports.setdefault(imported.name, imported)

    def _use_target(self, statement: ast.Use) -> Use:
        target = statement.target
        name = target.value if isinstance(target, ast.Str) else target.text
        return self._use(
            name, "module", target.span, base=Definition(name, "module", target.span, statement, target=target)
        )

    def _declare_all(self, statements: tuple[Any, ...], *, top_level: bool) -> None:
        """Make declarations known that every statement around them may read."""
        todo: list[Any] = list(reversed(statements))
        while todo:
            statement = todo.pop()
            match statement:
                case ast.If():
                    bodies = [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]
                    todo.extend(s for body in reversed(bodies) for s in reversed(body.statements))
                case ast.Param() | ast.Const():
                    self._declare(statement.name, statement)
                case ast.Config() | ast.Input() if top_level:
                    self._declare(statement.name, statement)
                case ast.Bind() if top_level:
                    for item in statement.items:
                        self._declare(item.name, item, statement.doc)

    def _declare(self, name: ast.Name, node: Any, doc: str = "") -> None:
        kind = "bind" if isinstance(node, ast.BindItem) else type(node).__name__.lower()
        definition = self._define(name, kind, node, self.extent, doc=doc or getattr(node, "doc", ""))
        self.declared[-1].setdefault(name.text, definition)
        if self.owner is not None and isinstance(node, ast.Param):
            self.owner.fields.setdefault(name.text, definition)

    # ------------------------------------------------------------------ statements
    def _body(self, statements: tuple[Any, ...], env: _Env) -> None:
        if self.depth >= _DEEPEST:
            return
        self.depth += 1
        for statement in statements:
            self._statement(statement, env)
        self.depth -= 1

    def _statement(self, statement: Any, env: _Env) -> None:
        match statement:
            case ast.Let():
                self._expression(statement.value, env)
                self._bind(statement.names, "let", statement, env, statement.doc)
            case ast.Fn() | ast.Block():
                self._function(statement, env)
            case ast.Vjp() | ast.Jvp():
                self._rule(statement, env)
            case ast.Input() | ast.Param():
                self._declaration(statement, env)
            case ast.Config():
                if statement.type is not None:
                    self._use(statement.type.text, "type", statement.type.span)
                self._expression(statement.default, {})
            case ast.Const():
                self._expression(statement.value, env)
                if statement.dtype is not None:
                    self._use(statement.dtype.text, "dtype", statement.dtype.span)
            case ast.RepeatTimes() | ast.RepeatRange():
                self._repeat(statement, env)
            case ast.Scan() | ast.Loop():
                self._carrying(statement, env)
            case ast.If():
                self._if(statement, env)
            case ast.Return():
                for value in statement.values:
                    self._expression(value, env)
            case ast.Emit():
                self._expression(statement.value, env)
            case ast.Out() | ast.Tap():  # out of place
                for name in self._outputs(statement, env):
                    self._use_value(name, env)

    def _bind(self, names: Any, kind: str, statement: ast.Node, env: _Env, doc: str = "") -> None:
        for name in names:
            if name.text != "_":
                visible = (statement.span.end, self.extent[1])
                env[name.text] = (self._define(name, kind, statement, visible, doc=doc),)

    def _outputs(self, statement: ast.Out | ast.Tap, env: _Env) -> list[ast.Name]:
        """Read outputs with a value; gives the names of the others, which are read after the whole text."""
        names = []
        for item in statement.items:
            if item.value is None:
                names.append(item.name)
                continue
            self._expression(item.value, env)
            self._bind((item.name,), "out", item, env, getattr(statement, "doc", ""))
        return names

    def _declaration(self, statement: ast.Input | ast.Param, env: _Env) -> None:
        if statement.family is not None:
            self._expression(statement.family, env)
        for place in () if statement.alias is None else statement.alias.placeholders:
            if statement.family is None or place.text != "i":
                self._use_value(place, env)
        if statement.shape.dtype is not None:
            self._use(statement.shape.dtype.text, "dtype", statement.shape.dtype.span)
        for dim in statement.shape.dims:
            self._expression(dim, env)
        if isinstance(statement, ast.Param):
            self._expression(statement.init, env, initializer=True)

    def _function(self, statement: ast.Fn | ast.Block, env: _Env) -> None:
        definition = self.made.get(statement) or self._define(statement.name, "fn", statement, self.extent)
        inner = self._enter(definition, statement.body, env)
        for formal in statement.formals:
            if formal.type is not None:
                self._use(formal.type.text, "type", formal.type.span)
            self._expression(formal.default, inner)
            made = self._define(formal.name, "formal", formal, (formal.span.end, statement.body.span.end))
            definition.formals.setdefault(formal.name.text, made)
            inner[formal.name.text] = (made,)
        self._declare_all(statement.body.statements if isinstance(statement, ast.Block) else (), top_level=False)
        self._body(statement.body.statements, inner)
        self._leave()

    def _enter(self, owner: Definition | None, body: ast.Body, env: _Env) -> _Env:
        self.declared.append({})
        self.owner, self.extent = owner, (body.span.start, body.span.end)
        return dict(env)

    def _leave(self) -> None:
        self.declared.pop()
        self.owner, self.extent = None, (0, self.end)

    def _rule(self, statement: ast.Vjp | ast.Jvp, env: _Env) -> None:
        self._use_function(statement.name, method=False)
        inner = self._enter(self.functions.get(statement.name.text), statement.body, env)
        tangents = statement.tangents if isinstance(statement, ast.Jvp) else ()
        for kind, names in (("formal", statement.params), ("tangent", tangents)):
            for name in names:
                inner[name.text] = (self._define(name, kind, statement, self.extent),)
        self._body(statement.body.statements, inner)
        self._leave()

    # ------------------------------------------------------------------ loops and branches
    def _repeat(self, statement: ast.RepeatTimes | ast.RepeatRange, env: _Env) -> None:
        names = bound_names(statement.body)
        joins = {name: _Join(list(self._meaning(name, env))) for name in names}
        inner = dict(env)
        inner.update({name: (join,) for name, join in joins.items()})
        if isinstance(statement, ast.RepeatTimes):
            self._expression(statement.count, env)
        else:
            self._expression(statement.range, env)
            place = (statement.body.span.start, statement.body.span.end)
            inner[statement.var.text] = (self._define(statement.var, "variable", statement, place),)
        self._body(statement.body.statements, inner)
        for name, join in joins.items():
            join.sources += [m for m in inner.get(name, ()) if m is not join]
            env[name] = (join,)

    def _carrying(self, statement: ast.Scan | ast.Loop, env: _Env) -> None:
        for carry in statement.carries:
            self._expression(carry.start, env)
        sources = statement.sources if isinstance(statement, ast.Scan) else ()
        for source in sources:
            self._expression(source.value, env)
        self._expression(statement.length if isinstance(statement, ast.Scan) else statement.limit, env)
        outside = self.extent
        body = statement.body.span
        inner = dict(env)
        carries: dict[str, tuple[Definition, _Join]] = {}
        for carry in statement.carries:
            made = self._define(carry.name, "carry", statement, (carry.name.span.end, outside[1]))
            carries[carry.name.text] = (made, _Join([made]))
            inner[carry.name.text] = (carries[carry.name.text][1],)
        for source in sources:
            inner[source.name.text] = (self._define(source.name, "slice", statement, (body.start, body.end)),)
        self.extent = (body.start, body.end)
        if isinstance(statement, ast.Loop):
            self._expression(statement.condition, inner)
        emitted: list[tuple[ast.Emit, _Meaning]] = []
        if self.depth < _DEEPEST:
            self.depth += 1
            for part in statement.body.statements:
                if isinstance(part, ast.Emit):
                    self._expression(part.value, inner)
                    emitted.append((part, inner.get(part.name.text, ())))
                else:
                    self._statement(part, inner)
            self.depth -= 1
        self.extent = outside
        for name, (made, join) in carries.items():
            join.sources += [m for m in inner[name] if m is not join]
            self.index.links += [(made, m) for m in _flat((join,)) if m is not made]
            env[name] = (join,)
        for part, meaning in emitted:
            visible = (statement.span.end, outside[1])
            made = self._define(part.name, "emit", part, visible, bound_at=statement.span)
            env[part.name.text] = (made,)
            if part.name.span == part.value.span:  # `emit y;`: both are called y
                self.index.links += [(m, made) for m in _flat(meaning)]

    def _if(self, statement: ast.If, env: _Env) -> None:
        ends: list[_Env] = []
        for branch in statement.branches:
            self._expression(branch.condition, env)
            ends.append(dict(env))
            self._body(branch.body.statements, ends[-1])
        ends.append(dict(env))
        if statement.orelse is not None:
            self._body(statement.orelse.statements, ends[-1])
        names = {name: None for end in ends for name, meaning in end.items() if env.get(name) is not meaning}
        for name in names:
            before = self._meaning(name, env)
            met = [m for end in ends for m in end.get(name, before)]
            env[name] = (_Join(list(dict.fromkeys(met))),)

    # ------------------------------------------------------------------ expressions
    def _expression(self, root: Any, env: _Env, *, initializer: bool = False) -> None:
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

    def _meaning(self, name: str, env: _Env) -> _Meaning:
        if name in env:
            return env[name]
        for level in reversed(self.declared):
            if name in level:
                return (level[name],)
        imported = self.imports.get(name)
        return () if imported is None else (imported,)

    def _use_value(self, name: ast.Name, env: _Env) -> Use:
        meaning = self._meaning(name.text, env)
        if not meaning and (family := _ELEMENT.fullmatch(name.text)):
            element = self._meaning(family[1], {})
            if element and isinstance(element[0], Definition) and getattr(element[0].node, "family", None) is not None:
                start = name.span.start
                span = Span(source=name.span.source, start=start, end=start + len(family[1]))
                return self._use(family[1], "value", span, found=(element[0],))
        role = "value"
        if not meaning and name.text in CONSTANTS:
            role = "constant"
        elif not meaning and name.text in DTYPES:
            role = "dtype"
        use = self._use(name.text, role, name.span)
        self.pending.append((use, meaning))
        return use

    def _reference(self, node: ast.Ref, env: _Env) -> None:
        if len(node.path) == 1:
            self._use_value(node.path[0], env)
        else:
            self._path(node)

    def _path(self, node: ast.Ref) -> Use:
        """`nn::dense`, `DType::F16`, `init::zeros`; gives the use of the last name."""
        head, last = node.path[0], node.path[-1]
        if head.text == "init" and last.text in INITIALIZERS and len(node.path) == 2:
            return self._use(last.text, "initializer", last.span)
        if head.text in ("DType", "MaskKind"):
            return self._use(last.text, "dtype" if head.text == "DType" else "constant", last.span)
        module = self.modules.get(head.text)
        use = self._use(head.text, "module", head.span, found=() if module is None else (module,))
        return self._use(last.text, "item", last.span, base=use)

    def _use_function(self, name: ast.Name, *, method: bool) -> Use:
        definition = self.functions.get(name.text) or self.imports.get(name.text)
        if definition is not None:
            return self._use(name.text, "function", name.span, found=(definition,), method=method)
        role = "op" if name.text in SURFACES or name.text in BUILTIN_CALLS else "function"
        return self._use(name.text, role, name.span, method=method)

    def _callee_use(self, node: ast.Call | ast.Method, *, initializer: bool) -> Use:
        if isinstance(node, ast.Method):
            return self._use_function(node.name, method=True)
        path = node.func.path
        if len(path) > 1:
            return self._path(node.func)
        if initializer and path[0].text in INITIALIZERS:
            return self._use(path[0].text, "initializer", path[0].span)
        return self._use_function(path[0], method=False)

    def _call(self, node: ast.Call | ast.Method, *, initializer: bool) -> None:
        callee = self._callee_use(node, initializer=initializer)
        self.callees[_called(node)] = callee
        self._arguments(node.args, callee)

    def _arguments(self, args: tuple[ast.Arg, ...], callee: Use) -> None:
        role = "option" if callee.role in ("op", "initializer") else "argument"
        for arg in args:
            if arg.name is not None:
                use = self._use(arg.name.text, role, arg.name.span, base=callee)
                if role == "argument":
                    self.fields.append(use)

    def _axis(self, node: ast.Dyn) -> None:
        name = f"?{node.label}"
        if name not in self.axes:
            self.axes[name] = self._define(ast.Name(node.span, name), "axis", node, (0, self.end))
            return
        self._use(name, "axis", node.span, found=(self.axes[name],))

    def _instance(self, node: ast.Named, env: _Env) -> None:
        template = node.name
        for place in template.placeholders:
            self._use_value(place, env)
        text = "".join(p for p in template.parts if isinstance(p, str))
        if template.placeholders or not _IDENTIFIER.fullmatch(text):
            return
        edge = 1 if template.quoted else 0
        span = Span(source=template.span.source, start=template.span.start + edge, end=template.span.end - edge)
        if span.text != text:
            return  # written with escapes
        instance = self._define(ast.Name(span, text), "instance", node, (node.span.end, self.extent[1]))
        env[f"as {text}"] = (instance,)
        call: Any = strip_groups(node.call)
        if isinstance(call, (ast.Call, ast.Method)):
            self.instances.append((instance, _called(call)))
        if self.owner is not None:
            self.owner.fields.setdefault(text, instance)

    def _field(self, node: ast.Field, env: _Env, done: set[ast.Node]) -> None:
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
        if self._meaning(name.text, env) or f"as {name.text}" not in env:
            self._use_value(name, env)
            return
        use = self._use(name.text, "value", name.span)
        self.pending.append((use, env[f"as {name.text}"]))
        for part in reversed(chain):
            use = self._use(part.text, "field", part.span, base=use)
            self.fields.append(use)


def _called(node: ast.Call | ast.Method) -> ast.Name:
    """The name of what is called."""
    return node.name if isinstance(node, ast.Method) else node.func.path[-1]


def _find_field(use: Use) -> None:
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


def _flat(meaning: _Meaning) -> tuple[Definition, ...]:
    """The definitions behind joins, each once."""
    found: dict[Definition, None] = {}
    seen: set[int] = set()
    todo: list[Definition | _Join] = list(reversed(meaning))
    while todo:
        part = todo.pop()
        if isinstance(part, Definition):
            found[part] = None
        elif id(part) not in seen:
            seen.add(id(part))
            todo.extend(reversed(part.sources))
    return tuple(found)


def _stem(target: ast.Ref | ast.Str) -> ast.Name | None:
    """The name by which a module is known without `as`."""
    if isinstance(target, ast.Ref):
        return target.path[-1]
    stem = Path(target.value).stem
    return ast.Name(target.span, stem) if _IDENTIFIER.fullmatch(stem) else None
