"""The canonical form of statements: one a line, bodies indented, everything else as `format_expressions` says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rlxlang.frontend import ast
from rlxlang.frontend.format_comments import Writer
from rlxlang.frontend.format_expressions import assigned, expression
from rlxlang.frontend.format_pieces import Kind, Piece
from rlxlang.frontend.format_steps import Close, Leaf, Step, Steps, bracket, run, separated


def pieces(module: ast.Module, blanked: str) -> list[Piece]:
    """The pieces of a module.

    Args:
        module: a tree without errors.
        blanked: its text without comments (`trivia.scan`).
    """
    writer = Writer(module.source, blanked, module.comments)
    run(module, writer, _expand)
    return writer.pieces


def _expand(node: ast.Node) -> Steps:
    match node:
        case ast.Module():
            return _Lines(len(node.source.text)).steps(node.statements)
        case ast.Body():
            lines = _Lines(node.span.end - 1)
            return [Kind.JOINT, lines.open, *lines.steps(node.statements), lines.close]
        case ast.Fn() | ast.Block() | ast.Vjp() | ast.Jvp():
            return _definition(node)
        case ast.RepeatTimes() | ast.RepeatRange() | ast.Scan() | ast.Loop() | ast.If():
            return _control(node)
        case ast.Let() | ast.Out() | ast.Tap() | ast.Emit() | ast.Return():
            return _binding(node)
        case ast.Graph() | ast.Use() | ast.Config() | ast.Input() | ast.Param() | ast.Const() | ast.Bind():
            return _declaration(node)
        case ast.OutItem():
            return [node.name, *_assigned(node.value)]
        case ast.UseItem():
            return [node.name, *_maybe("as", node.alias)]
        case ast.BindItem():
            return [Leaf(node.span, node.name.text + ("[]" if node.is_list else ""))]
        case ast.Formal():
            return [node.name, *_typed(node.type), *_assigned(node.default)]
        case ast.Carry():
            return [node.name, *_maybe("=", node.start)]
        case ast.ScanSource():
            return [node.name, Kind.SPACE, "in", Kind.SPACE, node.value]
    return expression(node)


class _Lines:
    """The statements of a module or body; `stop` is the offset of its end."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self._first = True
        self._opened_at = 0

    def steps(self, statements: Sequence[ast.Node]) -> Steps:
        """All statements, each on its line, and the comments around them."""
        steps: Steps = []
        for statement in statements:
            steps += [partial(self._begin, statement), statement]
            if not _ends_with_body(statement):
                steps.append(_semicolon)
        return [*steps, self._end]

    def open(self, writer: Writer) -> None:
        """Write `{`."""
        writer.token("{", ends=True)
        writer.layout(Kind.INDENT)
        self._opened_at = len(writer.pieces)

    def close(self, writer: Writer) -> None:
        """Write `}`, on its own line unless nothing stands before it."""
        empty = len(writer.pieces) == self._opened_at
        writer.layout(Kind.DEDENT)
        if not empty:
            writer.layout(Kind.HARD)
        writer.token("}", ends=True)

    def _begin(self, statement: ast.Node, writer: Writer) -> None:
        self._first = writer.gap(statement.span.start, first=self._first)
        writer.hard(statement.span.start, first=self._first)
        writer.move_to(statement.span.start)
        self._first = False

    def _end(self, writer: Writer) -> None:
        writer.gap(self._stop, first=self._first)
        writer.move_to(self._stop)


def _semicolon(writer: Writer) -> None:
    writer.token(";", ends=True)


def _ends_with_body(node: ast.Node) -> bool:
    return isinstance(
        node,
        ast.Fn | ast.Block | ast.Vjp | ast.Jvp | ast.RepeatTimes | ast.RepeatRange | ast.Scan | ast.Loop | ast.If,
    )


def _maybe(sign: str, value: ast.Node | None) -> Steps:
    return [] if value is None else [Kind.SPACE, sign, Kind.SPACE, value]


def _assigned(value: ast.Node | None) -> Steps:
    return [] if value is None else [Kind.SPACE, *assigned(value)]


def _typed(kind: ast.Node | None) -> Steps:
    return [] if kind is None else [":", Kind.SPACE, kind]


def _each(nodes: Sequence[ast.Node]) -> list[list[Step]]:
    return [[node] for node in nodes]


def _filled(items: Sequence[ast.Node]) -> Steps:
    """Items that follow a keyword: as many on a line as fit, or one on each where there are expressions with names."""
    line = Kind.LINE if any(isinstance(item, ast.OutItem) and item.value is not None for item in items) else Kind.FILL
    return [Kind.OPEN, Kind.INDENT, *separated(_each(items), line), Kind.DEDENT, Kind.CLOSE]


# ------------------------------------------------------------------------------------------------ declarations


def _declaration(node: ast.Node) -> Steps:
    match node:
        case ast.Graph():
            return ["graph", Kind.SPACE, node.name]
        case ast.Use():
            return _use(node)
        case ast.Config():
            return ["config", Kind.SPACE, node.name, *_typed(node.type), *_assigned(node.default)]
        case ast.Input():
            return ["input", Kind.SPACE, *_fed(node)]
        case ast.Param():
            return ["param", Kind.SPACE, *_fed(node), *_maybe("=", node.init)]
        case ast.Const():
            dtype: Steps = [] if node.dtype is None else [Kind.SPACE, ":", Kind.SPACE, node.dtype]
            return ["const", Kind.SPACE, node.name, *_maybe("=", node.value), *dtype]
        case ast.Bind():
            return ["bind", Kind.SPACE, *_filled(node.items)]
    raise TypeError(f"no declaration: {type(node).__name__}")


def _use(node: ast.Use) -> Steps:
    start: Steps = ["use", Kind.SPACE, node.target]
    if node.wildcard:
        return [*start, "::", "*"]
    if node.items is not None:
        return [*start, "::", *bracket("{", separated(_each(node.items), Kind.LINE), "}")]
    return [*start, *_maybe("as", node.alias)]


def _fed(node: ast.Input | ast.Param) -> Steps:
    steps: Steps = [node.name]
    if node.family is not None:
        steps += bracket("[", [node.family], "]", comma=False)
    if node.alias is not None:
        steps += [Kind.SPACE, "@", Kind.SPACE, node.alias]
    return [*steps, ":", Kind.SPACE, node.shape]


# ------------------------------------------------------------------------------------------------ bindings


def _binding(node: ast.Node) -> Steps:
    match node:
        case ast.Let():
            names: Steps = [node.names[0]]
            if node.is_tuple:
                names = bracket("(", separated(_each(node.names), Kind.LINE), ")")
            return ["let", Kind.SPACE, *names, *_assigned(node.value)]
        case ast.Out():
            return [_out, Kind.SPACE, *_filled(node.items)]
        case ast.Tap():
            return ["tap", Kind.SPACE, *_filled(node.items)]
        case ast.Emit():
            # The name of `emit y;` is the value itself.
            name = node.name if node.name.span.start >= node.value.span.end else None
            return ["emit", Kind.SPACE, node.value, *_maybe("as", name)]
        case ast.Return():
            return ["return", Kind.SPACE, *_filled(node.values)]
    raise TypeError(f"no binding: {type(node).__name__}")


def _out(writer: Writer) -> None:
    writer.token("output" if writer.peek("output") else "out", written="out")


# ------------------------------------------------------------------------------------------------ definitions


def _definition(node: ast.Fn | ast.Block | ast.Vjp | ast.Jvp) -> Steps:
    match node:
        case ast.Fn() | ast.Block():
            remat: Steps = ["remat", Kind.SPACE] if node.remat else []
            word = "fn" if isinstance(node, ast.Fn) else "block"
            formals = bracket("(", separated(_each(node.formals), Kind.LINE), ")")
            return [*remat, word, Kind.SPACE, node.name, *formals, node.body]
        case ast.Vjp():
            params = bracket("(", separated(_each(node.params), Kind.LINE), ")")
            return ["vjp", Kind.SPACE, node.name, *params, node.body]
        case ast.Jvp():
            return ["jvp", Kind.SPACE, node.name, *_jvp_formals(node), node.body]


def _jvp_formals(node: ast.Jvp) -> Steps:
    primals = separated(_each(node.params), Kind.LINE)
    tangents = separated(_each(node.tangents), Kind.LINE)
    start: Steps = [Kind.SOFT] if primals else []
    between: Steps = [Kind.LINE] if tangents else []
    end = Close(")", comma=bool(tangents), soft=bool(tangents), indented=True)
    inner: Steps = [*start, *primals, _jvp_semicolon, *between, *tangents, end]
    return [Kind.OPEN, "(", Kind.INDENT, *inner, Kind.CLOSE]


def _jvp_semicolon(writer: Writer) -> None:
    writer.drop(",")
    writer.token(";")


def _control(node: ast.Node) -> Steps:
    match node:
        case ast.RepeatTimes():
            return ["repeat", Kind.SPACE, node.count, node.body]
        case ast.RepeatRange():
            return ["repeat", Kind.SPACE, node.var, Kind.SPACE, "in", Kind.SPACE, node.range, node.body]
        case ast.Scan():
            if node.length is not None:
                over: Steps = ["for", Kind.SPACE, node.length]
            else:
                over = ["over", Kind.SPACE, *_group(node.sources)]
                over += [Kind.SPACE, "reverse"] if node.reverse else []
            return _looping("scan", node.carries, [over], node.body)
        case ast.Loop():
            clauses: list[Steps] = [["while", Kind.SPACE, node.condition]]
            clauses += [] if node.limit is None else [["max", Kind.SPACE, node.limit]]
            return _looping("loop", node.carries, clauses, node.body)
        case ast.If():
            return _if(node)
    raise TypeError(f"no control form: {type(node).__name__}")


def _looping(word: str, carries: Sequence[ast.Node], clauses: Sequence[Steps], body: ast.Node) -> Steps:
    """A loop with carries: its clauses are on lines of their own when the head does not fit on one."""
    head: Steps = _group(carries)
    for clause in clauses:
        head += [Kind.LINE, *clause]
    return [word, Kind.SPACE, Kind.OPEN, Kind.INDENT, *head, Kind.DEDENT, Kind.CLOSE, body]


def _group(nodes: Sequence[ast.Node]) -> Steps:
    """As many on a line as fit."""
    return [Kind.OPEN, *separated(_each(nodes), Kind.FILL), Kind.CLOSE]


def _if(node: ast.If) -> Steps:
    steps: Steps = []
    for branch in node.branches:
        if steps:
            steps += [Writer.after, Kind.JOINT, "else", Kind.SPACE]
        steps += ["if", Kind.SPACE, branch.condition, branch.body]
    if node.orelse is not None:
        steps += [Writer.after, Kind.JOINT, "else", node.orelse]
    return steps
