"""Name resolution on the syntax tree: which definitions each use of a name may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlxlang.frontend import ast
from rlxlang.frontend.statements import bound_names
from rlxlang.tools.lsp.index import Definition, Index, Use
from rlxlang.tools.lsp.resolve_expressions import IDENTIFIER, Env, Expressions, Join, Meaning, find_field, flat

_DEEPEST = 100  # bodies inside bodies; what lies deeper has no index


def index_module(module: ast.Module) -> Index:
    """The index of a text; never fails on trees of broken texts."""
    return _Resolver(module).run()


class _Resolver(Expressions):
    def __init__(self, module: ast.Module) -> None:
        super().__init__(module)
        self.made: dict[ast.Node, Definition] = {}  # fns and blocks by their statement
        self.depth = 0

    def run(self) -> Index:
        """Read the whole text."""
        statements = self.module.statements
        for statement in statements:
            self._announce(statement)
        self._declare_all(statements, top_level=True)
        env: Env = {}
        outputs: list[ast.Name] = []
        for statement in statements:
            if isinstance(statement, (ast.Out, ast.Tap)):
                outputs += self._outputs(statement, env)
            else:
                self._statement(statement, env)
        for name in outputs:
            self.use_value(name, env)
        for use, meaning in self.pending:
            use.found = flat(meaning)
        for instance, name in self.instances:
            instance.callee = self.callees.get(name)
        for use in self.fields:
            find_field(use)
        self.index.finish()
        return self.index

    # ------------------------------------------------------------------ definitions of the whole text
    def _announce(self, statement: Any) -> None:
        everywhere = (0, self.end)
        match statement:
            case ast.Fn() | ast.Block():
                kind = "fn" if isinstance(statement, ast.Fn) else "block"
                definition = self.define(statement.name, kind, statement, everywhere, doc=statement.doc)
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
                module = self.define(name, "module", statement, everywhere, target=statement.target)
                target.found = () if statement.alias is not None or isinstance(statement.target, ast.Str) else (module,)
                self.modules.setdefault(name.text, module)
            case ast.Use():
                target = self._use_target(statement)
                for item in statement.items or ():
                    self.use(item.name.text, "item", item.name.span, base=target)
                    imported = self.define(
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
        return self.use(
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
        definition = self.define(name, kind, node, self.extent, doc=doc or getattr(node, "doc", ""))
        self.declared[-1].setdefault(name.text, definition)
        if self.owner is not None and isinstance(node, ast.Param):
            self.owner.fields.setdefault(name.text, definition)

    # ------------------------------------------------------------------ statements
    def _body(self, statements: tuple[Any, ...], env: Env) -> None:
        if self.depth >= _DEEPEST:
            return
        self.depth += 1
        for statement in statements:
            self._statement(statement, env)
        self.depth -= 1

    def _statement(self, statement: Any, env: Env) -> None:
        match statement:
            case ast.Let():
                self.expression(statement.value, env)
                self._bind(statement.names, "let", statement, env, statement.doc)
            case ast.Fn() | ast.Block():
                self._function(statement, env)
            case ast.Vjp() | ast.Jvp():
                self._rule(statement, env)
            case ast.Input() | ast.Param():
                self._declaration(statement, env)
            case ast.Config():
                if statement.type is not None:
                    self.use(statement.type.text, "type", statement.type.span)
                self.expression(statement.default, {})
            case ast.Const():
                self.expression(statement.value, env)
                if statement.dtype is not None:
                    self.use(statement.dtype.text, "dtype", statement.dtype.span)
            case ast.RepeatTimes() | ast.RepeatRange():
                self._repeat(statement, env)
            case ast.Scan() | ast.Loop():
                self._carrying(statement, env)
            case ast.If():
                self._if(statement, env)
            case ast.Return():
                for value in statement.values:
                    self.expression(value, env)
            case ast.Emit():
                self.expression(statement.value, env)
            case ast.Out() | ast.Tap():  # out of place
                for name in self._outputs(statement, env):
                    self.use_value(name, env)

    def _bind(self, names: Any, kind: str, statement: ast.Node, env: Env, doc: str = "") -> None:
        for name in names:
            if name.text != "_":
                visible = (statement.span.end, self.extent[1])
                env[name.text] = (self.define(name, kind, statement, visible, doc=doc),)

    def _outputs(self, statement: ast.Out | ast.Tap, env: Env) -> list[ast.Name]:
        """Read outputs with a value; gives the names of the others, which are read after the whole text."""
        names = []
        for item in statement.items:
            if item.value is None:
                names.append(item.name)
                continue
            self.expression(item.value, env)
            self._bind((item.name,), "out", item, env, getattr(statement, "doc", ""))
        return names

    def _declaration(self, statement: ast.Input | ast.Param, env: Env) -> None:
        if statement.family is not None:
            self.expression(statement.family, env)
        for place in () if statement.alias is None else statement.alias.placeholders:
            if statement.family is None or place.text != "i":
                self.use_value(place, env)
        if statement.shape.dtype is not None:
            self.use(statement.shape.dtype.text, "dtype", statement.shape.dtype.span)
        for dim in statement.shape.dims:
            self.expression(dim, env)
        if isinstance(statement, ast.Param):
            self.expression(statement.init, env, initializer=True)

    def _function(self, statement: ast.Fn | ast.Block, env: Env) -> None:
        definition = self.made.get(statement) or self.define(statement.name, "fn", statement, self.extent)
        inner = self._enter(definition, statement.body, env)
        for formal in statement.formals:
            if formal.type is not None:
                self.use(formal.type.text, "type", formal.type.span)
            self.expression(formal.default, inner)
            made = self.define(formal.name, "formal", formal, (formal.span.end, statement.body.span.end))
            definition.formals.setdefault(formal.name.text, made)
            inner[formal.name.text] = (made,)
        self._declare_all(statement.body.statements if isinstance(statement, ast.Block) else (), top_level=False)
        self._body(statement.body.statements, inner)
        self._leave()

    def _enter(self, owner: Definition | None, body: ast.Body, env: Env) -> Env:
        self.declared.append({})
        self.owner, self.extent = owner, (body.span.start, body.span.end)
        return dict(env)

    def _leave(self) -> None:
        self.declared.pop()
        self.owner, self.extent = None, (0, self.end)

    def _rule(self, statement: ast.Vjp | ast.Jvp, env: Env) -> None:
        self.use_function(statement.name, method=False)
        inner = self._enter(self.functions.get(statement.name.text), statement.body, env)
        tangents = statement.tangents if isinstance(statement, ast.Jvp) else ()
        for kind, names in (("formal", statement.params), ("tangent", tangents)):
            for name in names:
                inner[name.text] = (self.define(name, kind, statement, self.extent),)
        self._body(statement.body.statements, inner)
        self._leave()

    # ------------------------------------------------------------------ loops and branches
    def _repeat(self, statement: ast.RepeatTimes | ast.RepeatRange, env: Env) -> None:
        names = bound_names(statement.body)
        joins = {name: Join(list(self.meaning_of(name, env))) for name in names}
        inner = dict(env)
        inner.update({name: (join,) for name, join in joins.items()})
        if isinstance(statement, ast.RepeatTimes):
            self.expression(statement.count, env)
        else:
            self.expression(statement.range, env)
            place = (statement.body.span.start, statement.body.span.end)
            inner[statement.var.text] = (self.define(statement.var, "variable", statement, place),)
        self._body(statement.body.statements, inner)
        for name, join in joins.items():
            join.sources += [m for m in inner.get(name, ()) if m is not join]
            env[name] = (join,)

    def _carrying(self, statement: ast.Scan | ast.Loop, env: Env) -> None:
        for carry in statement.carries:
            self.expression(carry.start, env)
        sources = statement.sources if isinstance(statement, ast.Scan) else ()
        for source in sources:
            self.expression(source.value, env)
        self.expression(statement.length if isinstance(statement, ast.Scan) else statement.limit, env)
        outside = self.extent
        body = statement.body.span
        inner = dict(env)
        carries: dict[str, tuple[Definition, Join]] = {}
        for carry in statement.carries:
            made = self.define(carry.name, "carry", statement, (carry.name.span.end, outside[1]))
            carries[carry.name.text] = (made, Join([made]))
            inner[carry.name.text] = (carries[carry.name.text][1],)
        for source in sources:
            inner[source.name.text] = (self.define(source.name, "slice", statement, (body.start, body.end)),)
        self.extent = (body.start, body.end)
        if isinstance(statement, ast.Loop):
            self.expression(statement.condition, inner)
        emitted: list[tuple[ast.Emit, Meaning]] = []
        if self.depth < _DEEPEST:
            self.depth += 1
            for part in statement.body.statements:
                if isinstance(part, ast.Emit):
                    self.expression(part.value, inner)
                    emitted.append((part, inner.get(part.name.text, ())))
                else:
                    self._statement(part, inner)
            self.depth -= 1
        self.extent = outside
        for name, (made, join) in carries.items():
            join.sources += [m for m in inner[name] if m is not join]
            self.index.links += [(made, m) for m in flat((join,)) if m is not made]
            env[name] = (join,)
        for part, meaning in emitted:
            visible = (statement.span.end, outside[1])
            made = self.define(part.name, "emit", part, visible, bound_at=statement.span)
            env[part.name.text] = (made,)
            if part.name.span == part.value.span:  # `emit y;`: both are called y
                self.index.links += [(m, made) for m in flat(meaning)]

    def _if(self, statement: ast.If, env: Env) -> None:
        ends: list[Env] = []
        for branch in statement.branches:
            self.expression(branch.condition, env)
            ends.append(dict(env))
            self._body(branch.body.statements, ends[-1])
        ends.append(dict(env))
        if statement.orelse is not None:
            self._body(statement.orelse.statements, ends[-1])
        names = {name: None for end in ends for name, meaning in end.items() if env.get(name) is not meaning}
        for name in names:
            before = self.meaning_of(name, env)
            met = [m for end in ends for m in end.get(name, before)]
            env[name] = (Join(list(dict.fromkeys(met))),)


def _stem(target: ast.Ref | ast.Str) -> ast.Name | None:
    """The name by which a module is known without `as`."""
    if isinstance(target, ast.Ref):
        return target.path[-1]
    stem = Path(target.value).stem
    return ast.Name(target.span, stem) if IDENTIFIER.fullmatch(stem) else None
