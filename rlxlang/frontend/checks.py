"""What the grammar lets through and the language does not: structure that needs no names or values to judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rlxlang.diagnostics import Diagnostic, did_you_mean, error
from rlxlang.frontend import ast
from rlxlang.frontend.literals import FLOAT_BOUNDS, int_bounds
from rlxlang.frontend.walk import walk

DTYPES = ("F32", "F64", "F16", "BF16", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "Bool", "C64")
CONFIG_TYPES = ("int", "float", "bool", "str")
# Names of dtypes in Python.
_FOREIGN_DTYPES = {
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    "bfloat16": "BF16", "complex64": "C64", "bool": "Bool", "float": "F32", "int": "I32", "double": "F64", "half": "F16",
    **{name.lower(): name for name in DTYPES},
}  # fmt: skip
# Literals in every expression, so nothing else may be called so.
UNBINDABLE = frozenset({"true", "false", "inf", "nan"})

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_Kinds = frozenset[type[ast.Node]]
_BINDING: _Kinds = frozenset({ast.Let, ast.RepeatTimes, ast.RepeatRange, ast.Scan, ast.Loop, ast.If})
_DECLARING: _Kinds = frozenset({ast.Param, ast.Const})
_ANYWHERE: _Kinds = frozenset(ast.Node.__subclasses__())
_TOP_LEVEL: _Kinds = _ANYWHERE - {ast.Emit, ast.Return}
_ALLOWED: dict[type[ast.Node], _Kinds] = {
    ast.Fn: _BINDING | {ast.Return},
    ast.Block: _BINDING | _DECLARING | {ast.Return},
    ast.Vjp: _BINDING | {ast.Return},
    ast.Jvp: _BINDING | {ast.Return},
    ast.RepeatTimes: _BINDING,
    ast.RepeatRange: _BINDING,
    ast.Loop: _BINDING,
    ast.Scan: _BINDING | {ast.Emit},
}
_TITLES: dict[type[ast.Node], str] = {
    ast.Graph: "`graph`",
    ast.Use: "`use`",
    ast.Config: "`config`",
    ast.Input: "`input`",
    ast.Param: "`param`",
    ast.Const: "`const`",
    ast.Bind: "`bind`",
    ast.Let: "`let`",
    ast.Out: "`out`",
    ast.Tap: "`tap`",
    ast.Emit: "`emit`",
    ast.Return: "`return`",
    ast.Fn: "a `fn`",
    ast.Block: "a `block`",
    ast.Vjp: "a `vjp` rule",
    ast.Jvp: "a `jvp` rule",
    ast.RepeatTimes: "a `repeat`",
    ast.RepeatRange: "a `repeat`",
    ast.Scan: "a `scan`",
    ast.Loop: "a `loop`",
    ast.If: "an `if`",
}


_IN_A_BLOCK = "a `block` may declare it"
_FAMILY = "declare a family before it, `param w[n]: …`, or call a `block` in it"
_REMEDIES: dict[tuple[type[ast.Node], type[ast.Node]], str] = {
    (ast.Param, ast.Fn): _IN_A_BLOCK,
    (ast.Const, ast.Fn): _IN_A_BLOCK,
    **{(ast.Param, loop): _FAMILY for loop in (ast.RepeatTimes, ast.RepeatRange, ast.Scan, ast.Loop)},
    (ast.Emit, ast.If): "bind it in the `if`, and write `emit` behind",
    (ast.Emit, ast.Loop): "only a `scan` knows how many steps there are",
    (ast.Return, ast.If): "bind a name in each branch, and return it behind",
}


class _Part(NamedTuple):
    """A run of statements with what may stand in it; `owner` is the statement it belongs to."""

    statements: tuple[ast.Statement, ...]
    owner: ast.Node
    allowed: _Kinds


def check(tree: ast.Node) -> list[Diagnostic]:
    """The structural errors of a module or an expression.

    Diagnostics:
        E0113, E0116 to E0119, E0123 to E0125, E0208, E0209, E0211, E0213, E0222, E0224, E0225, E0122, E0107.
    """
    found: list[Diagnostic] = []
    if isinstance(tree, ast.Module):
        found.extend(_placement(tree))
    negated: set[ast.Node] = set()
    for node in walk(tree):
        if isinstance(node, ast.Unary) and node.op == "-":
            negated.add(node.operand)
        if isinstance(node, ast.Int | ast.Float):
            found.extend(_fits_suffix(node, negative=node in negated))
        elif (names := _bound_names(node)) is not None:
            found.extend(_names_are_fine(*names))
        found.extend(_check_node(node))
    return found


# ------------------------------------------------------------------------------------------------ statements


def _placement(module: ast.Module) -> Iterator[Diagnostic]:
    """Statements where they may not stand, bodies without what they need."""
    todo = [_Part(module.statements, module, _TOP_LEVEL)]
    while todo:
        part = todo.pop()
        for position, statement in enumerate(part.statements):
            yield from _statement_place(part, position, statement)
            todo.extend(_parts_of(statement, part.allowed))
        if isinstance(part.owner, ast.Scan) and not part.statements:
            yield error("E0119", "the body of a `scan` is empty", part.owner.body.span)
        if isinstance(part.owner, ast.Fn | ast.Block | ast.Vjp | ast.Jvp) and not any(
            type(statement) in _BINDING or isinstance(statement, ast.Return) for statement in part.statements
        ):
            message = f"{_TITLES[type(part.owner)]} needs a result: a last `let` or a `return`"
            yield error("E0119", message, part.owner.body.span)


def _statement_place(part: _Part, position: int, statement: ast.Statement) -> Iterator[Diagnostic]:
    kind = type(statement)
    if kind not in part.allowed:
        if isinstance(part.owner, ast.Module):
            home = "a `scan`" if kind is ast.Emit else "a `fn` or `block`"
            message = f"{_TITLES[kind]} stands only inside {home}"
        else:
            message = f"{_TITLES[kind]} cannot stand inside {_TITLES[type(part.owner)]}"
        helps = [_REMEDIES.get((kind, type(part.owner)), "")]
        yield error("E0116", message, statement.span, helps=helps)
    elif kind is ast.Graph and position:
        yield error("E0117", "`graph` must be the first statement", statement.span)
    elif kind is ast.Return and position + 1 < len(part.statements):
        yield error("E0118", "`return` must be the last statement", statement.span)


def _parts_of(statement: ast.Statement, around: _Kinds) -> Iterator[_Part]:
    match statement:
        case ast.If(branches=branches, orelse=orelse):
            # As around it, but no `return`, no `emit`; declarations only where a static `if` may make them.
            inside = around - {ast.Return, ast.Emit}
            if ast.Graph in around:
                inside = _BINDING | _DECLARING
            bodies = [branch.body for branch in branches] + ([orelse] if orelse else [])
            for body in bodies:
                yield _Part(body.statements, statement, inside)
        case (
            ast.Fn(body=body)
            | ast.Block(body=body)
            | ast.Vjp(body=body)
            | ast.Jvp(body=body)
            | ast.RepeatTimes(body=body)
            | ast.RepeatRange(body=body)
            | ast.Scan(body=body)
            | ast.Loop(body=body)
        ):
            yield _Part(body.statements, statement, _ALLOWED[type(statement)])


# ------------------------------------------------------------------------------------------------ nodes


def _check_node(node: ast.Node) -> Iterator[Diagnostic]:
    match node:
        case ast.Binary(op=op, left=ast.Binary(op=first) as left) if op in _COMPARISONS and first in _COMPARISONS:
            helps = [f"write `{left.span.text} & {left.right.span.text} {op} {node.right.span.text}`"]
            yield error("E0113", "comparisons do not chain", node.span, helps=helps)
        case ast.Call(args=args) | ast.Method(args=args):
            yield from _arguments(args)
        case ast.Field(value=ast.Int() | ast.Float() as number, name=name):
            message = f"`{number.span.text}.{name.text}` is not a number"
            yield error("E0107", message, node.span)
        case ast.RepeatRange(range=range_) if range_.start is None or range_.stop is None:
            helps = ["write `a..b`, or `a..=b` to include `b`"]
            yield error("E0123", "the range of a `repeat` has both ends", range_.span, helps=helps)
        case ast.Fn(formals=formals) | ast.Block(formals=formals):
            yield from _defaults_last(formals)
        case ast.Config(type=kind, default=default):
            yield from _config(node, kind, default)
        case ast.Shape(dtype=dtype):
            yield from _dtype(dtype)
        case ast.Const(value=value, dtype=dtype):
            yield from _dtype(dtype)
            if isinstance(value, ast.ListExpr):
                yield from _array(value)


def _arguments(args: tuple[ast.Arg, ...]) -> Iterator[Diagnostic]:
    seen: dict[str, ast.Name] = {}
    for arg in args:
        if arg.name is None:
            if seen:
                yield error("E0224", "a positional argument cannot follow a named one", arg.span)
            continue
        first = seen.setdefault(arg.name.text, arg.name)
        if first is not arg.name:
            message = f"argument `{arg.name.text}` is given twice"
            yield error("E0222", message, arg.span, secondary=[(first.span, "first given here")])


def _defaults_last(formals: tuple[ast.Formal, ...]) -> Iterator[Diagnostic]:
    with_default: ast.Formal | None = None
    for formal in formals:
        if formal.default is not None:
            with_default = with_default or formal
        elif with_default is not None:
            message = "a parameter without a default cannot follow one with a default"
            secondary = [(with_default.span, "this one has a default")]
            yield error("E0225", message, formal.span, secondary=secondary)


def _config(node: ast.Node, kind: ast.Name | None, default: ast.Expr | None) -> Iterator[Diagnostic]:
    if kind is not None and kind.text not in CONFIG_TYPES:
        helps = ["the types are int, float, bool and str"]
        yield error("E0209", f"`{kind.text}` is not a type of a config", kind.span, helps=helps)
    if kind is None and default is None:
        helps = ["write `config d: int;` or `config d = 4;`"]
        yield error("E0122", "a config needs a type or a default", node.span, helps=helps)


def _dtype(dtype: ast.Name | None) -> Iterator[Diagnostic]:
    if dtype is None or dtype.text in DTYPES:
        return
    foreign = _FOREIGN_DTYPES.get(dtype.text)
    nearest = did_you_mean(dtype.text, DTYPES) if foreign is None else f"write `{foreign}`"
    helps = [nearest or "the dtypes are " + ", ".join(DTYPES)]
    yield error("E0208", f"`{dtype.text}` is not a dtype", dtype.span, helps=helps)


def _fits_suffix(literal: ast.Int | ast.Float, *, negative: bool) -> Iterator[Diagnostic]:
    if isinstance(literal, ast.Int):
        if not literal.suffix:
            return
        low, high = int_bounds(literal.suffix)
        value = -literal.value if negative else literal.value
        if not low <= value <= high:
            message = f"literal does not fit {literal.suffix}"
            yield error("E0125", message, literal.span, notes=[f"{literal.suffix} holds {low} to {high}"])
    elif literal.span.text != "inf" and literal.value >= FLOAT_BOUNDS[literal.suffix]:
        message = f"literal is finite but infinite in {literal.suffix or 'f64'}"
        yield error("E0125", message, literal.span, helps=["write `inf`"])


def _array(value: ast.ListExpr) -> Iterator[Diagnostic]:
    """Nested lists must be rectangular and not empty; lists deeper than the first fault are not compared."""
    order: list[ast.ListExpr] = []
    todo = [value]
    while todo:
        current = todo.pop()
        order.append(current)
        todo.extend(item for item in current.items if isinstance(item, ast.ListExpr))
    extents: dict[ast.Node, tuple[int, ...] | None] = {}
    for current in reversed(order):
        inner = [extents.get(item, ()) for item in current.items]
        extents[current] = None
        if not inner:
            yield error("E0124", "an array cannot be empty", current.span, helps=["write `zeros([0])`"])
        elif None not in inner:
            first = inner[0] or ()
            odd = next((k for k, extent in enumerate(inner) if extent != first), None)
            if odd is None:
                extents[current] = (len(inner), *first)
            else:
                wanted = f"the first row is {_extent(extents, current.items[0])}"
                message = f"rows of unequal length: this one is {_extent(extents, current.items[odd])}"
                yield error("E0124", message, current.items[odd].span, notes=[wanted])


def _extent(extents: dict[ast.Node, tuple[int, ...] | None], row: ast.Node) -> str:
    sizes = extents.get(row) or ()
    return "a single number" if not sizes else f"{' × '.join(map(str, sizes))} long"


# ------------------------------------------------------------------------------------------------ names


class _Bound(NamedTuple):
    """The names that a node binds, what they are, and whether they must differ."""

    names: Iterable[ast.Name]
    what: str = ""


def _bound_names(node: ast.Node) -> _Bound | None:
    match node:
        case ast.Let(names=names, is_tuple=is_tuple):
            return _Bound(names, "name" if is_tuple else "")
        case ast.Fn(formals=formals) | ast.Block(formals=formals):
            return _Bound([formal.name for formal in formals], "parameter")
        case ast.Vjp(params=params):
            return _Bound(params, "parameter")
        case ast.Jvp(params=params, tangents=tangents):
            return _Bound([*params, *tangents], "parameter")
        case ast.Scan(carries=carries, sources=sources):
            return _Bound([*(c.name for c in carries), *(s.name for s in sources)], "carry or slice")
        case ast.Loop(carries=carries):
            return _Bound([carry.name for carry in carries], "carry")
        case ast.Bind(items=items):
            return _Bound([item.name for item in items], "name")
        case ast.Config() | ast.Input() | ast.Param() | ast.Const() | ast.Emit() | ast.OutItem():
            return _Bound([node.name])
        case ast.RepeatRange(var=var):
            return _Bound([var])
    return None


def _names_are_fine(names: Iterable[ast.Name], what: str) -> Iterator[Diagnostic]:
    seen: dict[str, ast.Name] = {}
    for name in names:
        if name.text in UNBINDABLE:
            yield error("E0213", f"`{name.text}` is a literal and cannot be bound", name.span)
        first = seen.setdefault(name.text, name)
        if what and first is not name and name.text != "_":
            message = f"{what} `{name.text}` appears twice"
            yield error("E0211", message, name.span, secondary=[(first.span, "first here")])
