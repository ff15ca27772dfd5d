"""The syntax tree of a `.rlx` text: what was written, nothing resolved.

Every node has `span`, from its first to the end of its last character (a statement: keyword to `;` or `}`;
a `Group`: with its parentheses). Fields stand in source order, sequences are tuples, an absent part is None.
Nodes compare and hash by identity, so they may key dicts; `walk.structurally_equal` compares ignoring spans
and comments, `walk.dump` prints. A tree may be 20,000 levels deep (a long sum leans to the left): go over it
with `walk.walk` or a stack, never by recursion.

The parser guarantees, so that later stages need not check again:

* statements stand where they may (see `checks`), `graph` first, `return` last;
* the body of a fn, block or rule binds or returns something;
* empty statements are dropped; `if … else if … else` is ONE `If` with several `Branch`es;
* `true`, `false` are `Bool`, `inf`, `nan` are `Float`, none of them is bound by anything; `pi` is a `Ref`;
* literals are Python values: `Int` unbounded, `Float` a float64, `Str` unescaped; a numeric suffix was
  range-checked and has no further meaning;
* strings after `@` and `as` are `Template`s, already split into text and `{name}` places;
* `out`, `tap`, `emit` always have a name; `out y;` has `value` None, `emit y;` has the `Ref` `y` as value;
* arguments: no positional after a named one, no name twice; comparisons do not chain; `as` follows one call;
* formals, tuple patterns, carries, slices of one statement have distinct names (`_` may repeat in patterns);
* a nested-list value of `const` is not ragged and not empty; both ends of a `repeat` range are there;
* config types are int, float, bool or str; dtype names of shapes and consts are those of the language.

Left to the elaborator: everything about names and values. In particular a `Ref` may name a binding, a
config, a dtype (`F16`), `MaskKind::Causal` …; a `Call` path may be a fn, block or op; a `Field` an attribute of
a bound object or a param of a named block instance (`fc.w`); types of formals are any name as written.

The forms:

    Module      statements, comments, source
    Graph       graph "name";                      Use     use nn; use nn::{a, b as c}; use "f.rlx" as m;
    Config      config d: int = 4;                 Input   input x[n] @ "t": [F16; ?, 4];
    Param       param w[n] @ "t": [4] = init();    Const   const e = 1 : F32;
    Bind        bind t, ls[];                      Let     let a = e;  let (a, b) = e;
    Out, Tap    out y, n = e;  tap y;              Emit    emit e as n;      Return  return a, b;
    Fn, Block   remat fn f(x, n: int = 4) { … }    Vjp     vjp f(x, g) { … } Jvp     jvp f(x; dx) { … }
    RepeatTimes repeat n { … }                     RepeatRange  repeat i in a..b { … }
    Scan        scan h = h0 for n { … }  scan h = h0 over x in xs reverse { … }
    Loop        loop h = h0 while c max 9 { … }    If      if p { … } else if q { … } else { … }

    Int Float Bool Str   literals                  Dyn     ?  ?3  ?batch
    Ref         x, nn::f                           Call    f(x, n: 3)        Method  x.f(3)
    Field       x.w                                Index   x[1..2, new, ...] ListExpr [a, b]
    Unary       -x !x                              Binary  x @ w, a < b      Group   (x)
    Named       f(x) as "h.{i}"                    Range   a..=b by s        ByValue ~x &x
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rlxlang.diagnostics import Source, Span


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """Base of everything in the tree."""

    span: Span

    def __repr__(self) -> str:
        text = self.span.text
        return f"<{type(self).__name__} {text if len(text) <= 40 else text[:37] + '...'!r}>"


# ------------------------------------------------------------------------------------------------ parts


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Name(Node):
    """An identifier as written."""

    text: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Template(Node):
    """The name after `@` or `as`: literal text (str) and `{name}` places (Name), in order.

    `quoted` is False for an identifier (`as fc`), which is one literal part.
    """

    parts: tuple[str | Name, ...]
    quoted: bool

    @property
    def placeholders(self) -> tuple[Name, ...]:
        """The `{name}` places."""
        return tuple(part for part in self.parts if isinstance(part, Name))

    def substitute(self, values: dict[str, str]) -> str:
        """The text with every place filled.

        Raises:
            KeyError: when a place has no value.
        """
        return "".join(part if isinstance(part, str) else values[part.text] for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shape(Node):
    """`[F16; ?, 128]`; without a dtype F32."""

    dtype: Name | None
    dims: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comment(Node):
    """A comment; not part of the tree, see `trivia.attach`.

    Args:
        text: as written, with its delimiters.
        own_line: whether only blanks stand before it on its line.
        is_doc: whether it is a `///` comment.
    """

    text: str
    own_line: bool
    is_doc: bool


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Int(Node):
    """`1_000`, `0xff`, `2u32`."""

    value: int
    suffix: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Float(Node):
    """`0.5`, `1e-6f32`, `inf`, `nan`; never negative."""

    value: float
    suffix: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bool(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Str(Node):
    """A string, unescaped."""

    value: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dyn(Node):
    """A dynamic size; `label` is what follows the `?`, possibly empty."""

    label: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ref(Node):
    """A name, or a path `a::b`."""

    path: tuple[Name, ...]

    @property
    def text(self) -> str:
        """The path with `::`."""
        return "::".join(name.text for name in self.path)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Arg(Node):
    """One argument; `name` is None for a positional one."""

    name: Name | None
    value: Item


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Node):
    """`f(x, axis: 1)`; `func` may be a path."""

    func: Ref
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Method(Node):
    """`x.f(1)`: the receiver is the first argument."""

    receiver: Expr
    name: Name
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Field(Node):
    """`layers[0].w` or `fc.w`."""

    value: Expr
    name: Name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Index(Node):
    """`x[i, 1..5, ..., new]`; at least one item."""

    value: Expr
    items: tuple[IndexItem, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Range(Node):
    """`a..b`, `a..=b`, `.. by 2`; only as an index item, argument, list item or in `repeat`."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None
    inclusive: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ellipsis(Node):
    """`...` in an index."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewAxis(Node):
    """`new` in an index."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Node):
    """`-x`, `!x`; `op_span` is the operator."""

    op: str
    op_span: Span
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Node):
    """`** @ * / % div + - == != < <= > >= & ^ |`; `op_span` is the operator."""

    op: str
    op_span: Span
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Group(Node):
    """Parentheses; means what it holds."""

    inner: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Named(Node):
    """`dense(x, 4) as fc`: names the params of one block call."""

    call: Expr
    name: Template


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListExpr(Node):
    """`[a, b]`, `vec![a, b]`; may be empty."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ByValue(Node):
    """`~e` (static scalars only) or `&e` (means `e`) before an argument or list item; `op` is the sign."""

    op: str
    value: Expr


Expr: TypeAlias = (
    "Int | Float | Bool | Str | Dyn | Ref | Call | Method | Field | Index | Unary | Binary | Group | Named | ListExpr"
)
Item: TypeAlias = "Expr | Range | ByValue"
IndexItem: TypeAlias = "Expr | Range | Ellipsis | NewAxis"


# ------------------------------------------------------------------------------------------------ statements


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Body(Node):
    """`{ … }`."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Graph(Node):
    """`graph "name";`."""

    name: Str
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UseItem(Node):
    """`dense` or `dense as fc`."""

    name: Name
    alias: Name | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Use(Node):
    """`use target [as alias];`, `use target::{items};`, `use target::*;`.

    Args:
        target: a module path (`Ref`) or the path of a file (`Str`).
        alias: local name of the module.
        items: None unless braces were written.
        wildcard: whether `::*` was written.
    """

    target: Ref | Str
    alias: Name | None
    items: tuple[UseItem, ...] | None
    wildcard: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Config(Node):
    """`config name: type = default;`; at least one of type and default."""

    name: Name
    type: Name | None
    default: Expr | None
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Input(Node):
    """`input name[family] @ "alias": shape;`."""

    name: Name
    family: Expr | None
    alias: Template | None
    shape: Shape
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Param(Node):
    """`param name[family] @ "alias": shape = init;`."""

    name: Name
    family: Expr | None
    alias: Template | None
    shape: Shape
    init: Expr | None
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Const(Node):
    """`const name = value : dtype;`."""

    name: Name
    value: Expr
    dtype: Name | None
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BindItem(Node):
    """`t`, or `ts[]`."""

    name: Name
    is_list: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bind(Node):
    """`bind a, bs[];`."""

    items: tuple[BindItem, ...]
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Node):
    """`let a = value;` or, with `is_tuple`, `let (a, b) = value;` (one name is possible there too)."""

    names: tuple[Name, ...]
    is_tuple: bool
    value: Expr
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OutItem(Node):
    """`y` (value None) or `y = value`."""

    name: Name
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Out(Node):
    """`out a, b = e;` or `output …`."""

    items: tuple[OutItem, ...]
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tap(Node):
    """`tap a, b = e;`."""

    items: tuple[OutItem, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Emit(Node):
    """`emit value as name;`; for `emit y;` the name is that of the value."""

    value: Expr
    name: Name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Return(Node):
    """`return a, b;`."""

    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Formal(Node):
    """A parameter: `x`, `n: int`, `n: int = 4`."""

    name: Name
    type: Name | None
    default: Expr | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fn(Node):
    """`[remat] fn name(formals) body`."""

    remat: bool
    name: Name
    formals: tuple[Formal, ...]
    body: Body
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Node):
    """`[remat] block name(formals) body`."""

    remat: bool
    name: Name
    formals: tuple[Formal, ...]
    body: Body
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vjp(Node):
    """`vjp name(params) body`: the last params are the cotangents, one per result of the fn."""

    name: Name
    params: tuple[Name, ...]
    body: Body
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Jvp(Node):
    """`jvp name(params; tangents) body`."""

    name: Name
    params: tuple[Name, ...]
    tangents: tuple[Name, ...]
    body: Body
    doc: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepeatTimes(Node):
    """`repeat count body`."""

    count: Expr
    body: Body


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepeatRange(Node):
    """`repeat var in a..b body`; start and stop of the range are there."""

    var: Name
    range: Range
    body: Body


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Carry(Node):
    """`h = h0`."""

    name: Name
    start: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScanSource(Node):
    """`x in xs`."""

    name: Name
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scan(Node):
    """`scan carries for length body`, or with length None `scan carries over sources [reverse] body`."""

    carries: tuple[Carry, ...]
    length: Expr | None
    sources: tuple[ScanSource, ...]
    reverse: bool
    body: Body


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Loop(Node):
    """`loop carries while condition [max limit] body`."""

    carries: tuple[Carry, ...]
    condition: Expr
    limit: Expr | None
    body: Body


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Branch(Node):
    """`if condition body`; the span starts at its own `if`."""

    condition: Expr
    body: Body


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """One or more branches, tried in order, and perhaps an `else`."""

    branches: tuple[Branch, ...]
    orelse: Body | None


Declaration: TypeAlias = "Config | Input | Param | Const | Bind"
Definition: TypeAlias = "Fn | Block | Vjp | Jvp"
Statement: TypeAlias = (
    "Graph | Use | Config | Input | Param | Const | Bind | Let | Out | Tap | Emit | Return"
    " | Fn | Block | Vjp | Jvp | RepeatTimes | RepeatRange | Scan | Loop | If"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module(Node):
    """A whole text. `comments` holds every comment in order (see `trivia.attach`)."""

    source: Source
    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...]
