"""From Lark's tree to the syntax tree: one method a rule, children before parents, no recursion.

Forms that the syntax tree cannot hold (an output without a name, `as` after something that is no call) are reported
here and left out; everything else that is wrong is found by `checks` afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token, Tree

from rlxlang.diagnostics import Diagnostic, Source, Span, error
from rlxlang.frontend import ast
from rlxlang.frontend.checks import DTYPES
from rlxlang.frontend.literals import parse_float, parse_int, parse_string, parse_template
from rlxlang.frontend.trivia import Trivia

_LONGEST_NUMBER = 20_000  # characters; static integers end long before
_CONSTANTS: dict[str, float | bool] = {
    "true": True,
    "false": False,
    "inf": float("inf"),
    "nan": float("nan"),
}
_CASTS = {
    **{name.lower(): name for name in DTYPES},
    "usize": "I64",
    "isize": "I64",
}

# A child is a token, something built, a tuple of such, or None for an absent optional part.
_Children = list[Any]


class Builder:
    """Builds the tree of one text; `diagnostics` fills as it goes."""

    def __init__(self, source: Source, trivia: Trivia) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._source = source
        self._comments = trivia.comments
        self._docs = trivia.docs

    def build(self, tree: Tree[Token]) -> Any:
        """The syntax tree of a parse tree: a module, or an expression for that start."""
        order = []
        todo: list[Tree[Token]] = [tree]
        while todo:
            node = todo.pop()
            order.append(node)
            for child in node.children:
                if isinstance(child, Tree):
                    todo.append(child)
        built: dict[int, Any] = {}
        source, whole = self._source, self._whole()
        for node in reversed(order):
            children = [built.pop(id(child)) if isinstance(child, Tree) else child for child in node.children]
            meta = node.meta
            span = whole if meta.empty else Span(source=source, start=meta.start_pos, end=meta.end_pos)
            built[id(node)] = _METHODS[node.data](self, span, children)
        return built[id(tree)]

    # -- small parts

    def _whole(self) -> Span:
        return Span(source=self._source, start=0, end=len(self._source.text))

    def _span(self, token: Token) -> Span:
        return Span(source=self._source, start=token.start_pos or 0, end=token.end_pos or 0)

    def _name(self, token: Token) -> ast.Name:
        return ast.Name(self._span(token), str(token))

    def _maybe_name(self, token: Token | None) -> ast.Name | None:
        return None if token is None else self._name(token)

    def _doc(self, span: Span) -> str:
        return self._docs.get(span.start, "")

    def _report(self, code: str, span: Span, message: str, help_: str = "") -> None:
        self.diagnostics.append(error(code, message, span, helps=[help_]))

    # -- the whole

    def _on_program(self, span: Span, children: _Children) -> ast.Module:
        statements = tuple(child for child in children if child is not None)
        return ast.Module(self._whole(), self._source, statements, self._comments)

    def _on_expression(self, span: Span, children: _Children) -> Any:
        return children[0]

    def _on_empty_stmt(self, span: Span, children: _Children) -> None:
        return None

    def _on_body(self, span: Span, children: _Children) -> ast.Body:
        return ast.Body(span, tuple(child for child in children if child is not None))

    # -- declarations

    def _on_graph_stmt(self, span: Span, children: _Children) -> ast.Graph:
        return ast.Graph(span, self._on_string(self._span(children[0]), children), self._doc(span))

    def _target(self, tokens: list[Token]) -> ast.Ref | ast.Str:
        if tokens[0].type == "STRING":
            return self._on_string(self._span(tokens[0]), tokens)
        names = tuple(self._name(token) for token in tokens)
        return ast.Ref(names[0].span.to(names[-1].span), names)

    def _on_use_module(self, span: Span, children: _Children) -> ast.Use:
        alias = self._maybe_name(children[-1])
        return ast.Use(span, self._target(children[:-1]), alias, None, wildcard=False)

    def _on_use_items(self, span: Span, children: _Children) -> ast.Use:
        tokens = [child for child in children if isinstance(child, Token)]
        items = tuple(child for child in children if isinstance(child, ast.UseItem))
        return ast.Use(span, self._target(tokens), None, items, wildcard=False)

    def _on_use_all(self, span: Span, children: _Children) -> ast.Use:
        return ast.Use(span, self._target(children[:-1]), None, None, wildcard=True)

    def _on_use_item(self, span: Span, children: _Children) -> ast.UseItem:
        return ast.UseItem(span, self._name(children[0]), self._maybe_name(children[1]))

    def _on_config_stmt(self, span: Span, children: _Children) -> ast.Config:
        name, kind, default = children
        return ast.Config(span, self._name(name), self._maybe_name(kind), default, self._doc(span))

    def _on_input_stmt(self, span: Span, children: _Children) -> ast.Input:
        name, family, alias, shape = children
        return ast.Input(span, self._name(name), family, alias, shape, self._doc(span))

    def _on_param_stmt(self, span: Span, children: _Children) -> ast.Param:
        name, family, alias, shape, init = children
        return ast.Param(span, self._name(name), family, alias, shape, init, self._doc(span))

    def _on_const_stmt(self, span: Span, children: _Children) -> ast.Const:
        name, value, dtype = children
        return ast.Const(span, self._name(name), value, self._maybe_name(dtype), self._doc(span))

    def _on_bind_stmt(self, span: Span, children: _Children) -> ast.Bind:
        return ast.Bind(span, tuple(children), self._doc(span))

    def _on_bind_one(self, span: Span, children: _Children) -> ast.BindItem:
        return ast.BindItem(span, self._name(children[0]), is_list=False)

    def _on_bind_list(self, span: Span, children: _Children) -> ast.BindItem:
        return ast.BindItem(span, self._name(children[0]), is_list=True)

    def _on_family(self, span: Span, children: _Children) -> Any:
        return children[0]

    def _on_run_name(self, span: Span, children: _Children) -> ast.Template:
        return parse_template(self._span(children[0]), self.diagnostics)

    def _on_shape(self, span: Span, children: _Children) -> ast.Shape:
        dtype, dims = children
        return ast.Shape(span, dtype, dims or ())

    def _on_dtype(self, span: Span, children: _Children) -> ast.Name:
        return self._name(children[0])

    def _on_dims(self, span: Span, children: _Children) -> tuple[Any, ...]:
        return tuple(children)

    # -- bindings and outputs

    def _on_let_stmt(self, span: Span, children: _Children) -> ast.Let:
        (names, is_tuple), value = children
        return ast.Let(span, names, is_tuple, value, self._doc(span))

    def _on_one_name(self, span: Span, children: _Children) -> tuple[tuple[ast.Name, ...], bool]:
        return (self._name(children[0]),), False

    def _on_tuple_names(self, span: Span, children: _Children) -> tuple[tuple[ast.Name, ...], bool]:
        return tuple(self._name(token) for token in children), True

    def _on_out_stmt(self, span: Span, children: _Children) -> ast.Out:
        return ast.Out(span, tuple(item for item in children if item is not None), self._doc(span))

    def _on_tap_stmt(self, span: Span, children: _Children) -> ast.Tap:
        return ast.Tap(span, tuple(item for item in children if item is not None))

    def _on_out_name(self, span: Span, children: _Children) -> ast.OutItem | None:
        name = _plain_name(children[0])
        if name is None:
            self._report("E0120", span, "an output needs a name", "write `out y = …;`")
            return None
        return ast.OutItem(span, name, None)

    def _on_out_value(self, span: Span, children: _Children) -> ast.OutItem:
        return ast.OutItem(span, self._name(children[0]), children[1])

    def _on_emit_stmt(self, span: Span, children: _Children) -> ast.Emit | None:
        value, token = children
        name = self._maybe_name(token) or _plain_name(value)
        if name is None:
            self._report("E0120", span, "an emitted expression needs a name", "write `emit … as ys;`")
            return None
        return ast.Emit(span, value, name)

    def _on_return_stmt(self, span: Span, children: _Children) -> ast.Return:
        return ast.Return(span, tuple(children))

    # -- definitions

    def _on_fn_def(self, span: Span, children: _Children) -> ast.Fn:
        remat, name, formals, body = children
        return ast.Fn(span, remat is not None, self._name(name), formals or (), body, self._doc(span))

    def _on_block_def(self, span: Span, children: _Children) -> ast.Block:
        remat, name, formals, body = children
        return ast.Block(span, remat is not None, self._name(name), formals or (), body, self._doc(span))

    def _on_formals(self, span: Span, children: _Children) -> tuple[ast.Formal, ...]:
        return tuple(children)

    def _on_formal(self, span: Span, children: _Children) -> ast.Formal:
        name, kind, default = children
        return ast.Formal(span, self._name(name), self._maybe_name(kind), default)

    def _on_vjp_def(self, span: Span, children: _Children) -> ast.Vjp:
        name, params, body = children
        return ast.Vjp(span, self._name(name), params or (), body, self._doc(span))

    def _on_jvp_def(self, span: Span, children: _Children) -> ast.Jvp:
        name, params, tangents, body = children
        return ast.Jvp(span, self._name(name), params or (), tangents or (), body, self._doc(span))

    def _on_names(self, span: Span, children: _Children) -> tuple[ast.Name, ...]:
        return tuple(self._name(token) for token in children)

    # -- control

    def _on_repeat_times(self, span: Span, children: _Children) -> ast.RepeatTimes:
        return ast.RepeatTimes(span, *children)

    def _on_repeat_range(self, span: Span, children: _Children) -> ast.RepeatRange:
        name, range_, body = children
        return ast.RepeatRange(span, self._name(name), range_, body)

    def _on_carries(self, span: Span, children: _Children) -> tuple[ast.Carry, ...]:
        return tuple(children)

    def _on_carry(self, span: Span, children: _Children) -> ast.Carry:
        return ast.Carry(span, self._name(children[0]), children[1])

    def _on_sources(self, span: Span, children: _Children) -> tuple[ast.ScanSource, ...]:
        return tuple(children)

    def _on_source(self, span: Span, children: _Children) -> ast.ScanSource:
        return ast.ScanSource(span, self._name(children[0]), children[1])

    def _on_scan_for(self, span: Span, children: _Children) -> ast.Scan:
        carries, length, body = children
        return ast.Scan(span, carries, length, (), reverse=False, body=body)

    def _on_scan_over(self, span: Span, children: _Children) -> ast.Scan:
        carries, sources, reverse, body = children
        return ast.Scan(span, carries, None, sources, reverse=reverse is not None, body=body)

    def _on_loop_stmt(self, span: Span, children: _Children) -> ast.Loop:
        return ast.Loop(span, *children)

    def _on_if_stmt(self, span: Span, children: _Children) -> ast.If:
        condition, body, orelse = children
        place = Span(source=self._source, start=span.start, end=body.span.end)
        branch = ast.Branch(place, condition, body)
        if isinstance(orelse, ast.If):
            return ast.If(span, (branch, *orelse.branches), orelse.orelse)
        return ast.If(span, (branch,), orelse)

    # -- expressions

    def _on_named(self, span: Span, children: _Children) -> Any:
        value, token = children
        name = str(token)
        is_call = isinstance(value, ast.Call | ast.Method)
        if token.type == "NAME" and (name in _CASTS or (name in DTYPES and not is_call)):
            self._report("E0114", span, "`as` is not a cast", f"write `cast(x, {_CASTS[name.lower()]})`")
            return value
        if not is_call:
            helps = "put the call and its name in parentheses: `x + (dense(x, 4) as fc)`"
            self._report("E0114", span, "`as` names the parameters of one block call", helps)
            return value
        place = self._span(token)
        if token.type == "STRING":
            return ast.Named(span, value, parse_template(place, self.diagnostics))
        return ast.Named(span, value, ast.Template(place, (name,), quoted=False))

    def _on_binary(self, span: Span, children: _Children) -> ast.Binary:
        left, operator, right = children
        return ast.Binary(span, str(operator), self._span(operator), left, right)

    def _on_unary_op(self, span: Span, children: _Children) -> ast.Unary:
        operator, operand = children
        return ast.Unary(span, str(operator), self._span(operator), operand)

    def _on_field(self, span: Span, children: _Children) -> ast.Field:
        return ast.Field(span, children[0], self._name(children[1]))

    def _arguments(self, items: _Children) -> tuple[ast.Arg, ...]:
        return tuple(
            item if isinstance(item, ast.Arg) else ast.Arg(item.span, None, item) for item in items if item is not None
        )

    def _on_method(self, span: Span, children: _Children) -> ast.Method:
        receiver, name, *items = children
        return ast.Method(span, receiver, self._name(name), self._arguments(items))

    def _on_call(self, span: Span, children: _Children) -> ast.Call:
        func, *items = children
        if not isinstance(func, ast.Ref):  # `inf(…)`: a name in the namespace of functions
            func = ast.Ref(func.span, (ast.Name(func.span, func.span.text),))
        return ast.Call(span, func, self._arguments(items))

    def _on_keyword_arg(self, span: Span, children: _Children) -> ast.Arg:
        return ast.Arg(span, self._name(children[0]), children[1])

    def _on_index(self, span: Span, children: _Children) -> ast.Index:
        value, *items = children
        return ast.Index(span, value, tuple(items))

    def _on_int(self, span: Span, children: _Children) -> ast.Int:
        return ast.Int(span, *parse_int(self._digits(span, str(children[0]), "0")))

    def _on_float(self, span: Span, children: _Children) -> ast.Float:
        return ast.Float(span, *parse_float(self._digits(span, str(children[0]), "0.0")))

    def _digits(self, span: Span, text: str, instead: str) -> str:
        """The text of a number; one that would take long to read is refused, and another stands in its place."""
        if len(text) <= _LONGEST_NUMBER:
            return text
        self._report("E0107", span, f"a number of {len(text)} characters", f"{_LONGEST_NUMBER} are the most")
        return instead

    def _on_string(self, span: Span, children: _Children) -> ast.Str:
        return ast.Str(span, parse_string(span, self.diagnostics))

    def _on_dyn(self, span: Span, children: _Children) -> ast.Dyn:
        return ast.Dyn(span, str(children[0])[1:])

    def _on_group(self, span: Span, children: _Children) -> ast.Group:
        return ast.Group(span, children[0])

    def _on_list(self, span: Span, children: _Children) -> ast.ListExpr:
        return ast.ListExpr(span, tuple(item for item in children if item is not None))

    def _on_ref(self, span: Span, children: _Children) -> ast.Ref | ast.Bool | ast.Float:
        if len(children) == 1 and (word := str(children[0])) in _CONSTANTS:
            value = _CONSTANTS[word]
            return ast.Bool(span, value) if isinstance(value, bool) else ast.Float(span, value, "")
        return ast.Ref(span, tuple(self._name(token) for token in children))

    def _on_by_value(self, span: Span, children: _Children) -> ast.ByValue:
        return ast.ByValue(span, str(children[0]), children[1])

    def _on_ellipsis(self, span: Span, children: _Children) -> ast.Ellipsis:
        return ast.Ellipsis(span)

    def _on_new_axis(self, span: Span, children: _Children) -> ast.NewAxis:
        return ast.NewAxis(span)

    def _on_range(self, span: Span, children: _Children) -> ast.Range:
        start, dots, stop, step = children
        return ast.Range(span, start, stop, step, inclusive=dots.type == "DOTDOTEQ")


def _plain_name(value: object) -> ast.Name | None:
    return value.path[0] if isinstance(value, ast.Ref) and len(value.path) == 1 else None


_METHODS: dict[str, Callable[[Builder, Span, _Children], Any]] = {
    name.removeprefix("_on_"): method for name, method in vars(Builder).items() if name.startswith("_on_")
}
