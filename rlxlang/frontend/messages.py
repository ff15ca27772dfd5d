"""What to say about a token that cannot stand where it stands.

Common mistakes are recognised by example: each is parsed once, and the parser's state together with the offending
token becomes a key. (Lark's own `match_examples` compares the depth of the stack too, so an example would match
only as the first statement of a text.) Everything else is described by what the grammar could accept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken

from rlxlang.diagnostics import Diagnostic, Source, Span, did_you_mean, error

STATEMENT_WORDS = {
    "_GRAPH": "graph",
    "_USE": "use",
    "_CONFIG": "config",
    "_INPUT": "input",
    "_PARAM": "param",
    "_CONST": "const",
    "_BIND": "bind",
    "_LET": "let",
    "_OUT": "out",
    "_OUTPUT": "output",
    "_TAP": "tap",
    "_EMIT": "emit",
    "_RETURN": "return",
    "_FN": "fn",
    "_BLOCK": "block",
    "REMAT": "remat",
    "_VJP": "vjp",
    "_JVP": "jvp",
    "_REPEAT": "repeat",
    "_SCAN": "scan",
    "_LOOP": "loop",
    "_IF": "if",
}

# Words that begin a statement in other languages.
_FOREIGN_STATEMENTS = {
    "def": "a function is written `fn f(x) { … }`",
    "func": "a function is written `fn f(x) { … }`",
    "function": "a function is written `fn f(x) { … }`",
    "class": "there are no classes; see `block`",
    "struct": "there are no structs; see `block`",
    "for": "loops are `repeat`, `scan` and `loop`",
    "while": "a while loop is written `loop h = h0 while cond max 100 { … }`",
    "import": "write `use nn;`",
    "from": "write `use nn::{dense};`",
    "else": "`else` must follow the `}` of an `if`",
    "elif": "write `else if` after the `}` of an `if`",
    "var": "write `let`",
    "mut": "every `let` may be bound again",
    "pub": "everything is public",
    "static": "write `const` or `config`",
    "lambda": "there are no closures; write a `fn`",
    "module": "a file is a module",
    "mod": "a file is a module",
    "assert": "sizes are checked by the declared shapes",
    "print": "write `tap y;` to see a value",
}


# Words between operands that are operators in other languages.
_FOREIGN_OPERATORS = {"and": "write `&`; comparisons bind tighter", "or": "write `|`; comparisons bind tighter"}


class _Mistake(NamedTuple):
    code: str
    message: str
    help: str
    examples: tuple[str, ...]


_MUT = "`let` has no `mut`: every name may be bound again"
_COLON = "`:` is missing between the name and the shape"
_EXPRESSION = "expected an expression"
_OPTION = "an option is written with `:`"
_MISTAKES = (
    _Mistake(
        "E0111",
        "`&&` is not an operator",
        "write `&`",
        ("let a = b && c;", "let a = (b && c);", "let a = f(b && c);", "repeat b && c {}"),
    ),
    _Mistake("E0111", "`||` is not an operator", "write `|`", ("let a = b || c;", "let a = f(b || c);")),
    _Mistake(
        "E0112",
        "there is no conditional expression",
        "write `where(c, a, b)`, or an `if` statement",
        ("let a = b if c else d;", "let a = (b if c else d);"),
    ),
    _Mistake("E0112", "`=` does not compare", "write `==`", ("if a = b {}", "loop h = a while h = b {}")),
    _Mistake(
        "E0112",
        "the arguments of a fn or block are fixed",
        "name each; one that may be missing has a default, `p = none`",
        ("fn f(*a) {}", "fn f(a, *b) {}", "fn f(**a) {}", "fn f(a, **b) {}"),
    ),
    _Mistake(
        "E0112", "a shape stands in brackets", "write `[3, 4]`, a scalar is `[]`", ("input x: (3);", "param x: (3);")
    ),
    _Mistake("E0112", _MUT, "leave it out", ("let mut a = 1;",)),
    _Mistake(
        "E0112",
        "`let` takes no type",
        "a cast is written `cast(x, F16)`",
        ("let a: F32 = 1;", "let a: [2] = b;"),
    ),
    _Mistake("E0112", "several names stand in parentheses", "write `let (a, b) = …;`", ("let a, b = c;",)),
    _Mistake("E0112", "the dtype stands at the end", "write `const x = 1.0 : F32;`", ("const x: F32 = 1.0;",)),
    _Mistake(
        "E0121",
        _COLON,
        "",
        (
            "input x [2];",
            "input x [2, 3];",
            "input x [?n, 3];",
            "input x [F32; 3];",
            "param w [2] = 1;",
            "param w [2, 3] = 1;",
        ),
    ),
    _Mistake(
        "E0121",
        "a declaration has a shape",
        "write `: [dims]`, a scalar is `: []`",
        ("input x;", "param w;", "input x: 3;", "input x: F32;", "param w: F32;", "input x = 2;"),
    ),
    _Mistake(
        "E0112",
        _OPTION,
        "write `f(x, axis: 1)`",
        ("let a = f(axis=1);", "let a = x.f(axis=1);", "let a = f(x, axis=1);", "let a = x.f(1, axis=1);"),
    ),
    _Mistake(
        "E0112",
        "a slice is written with `..`",
        "`x[1..5]`, with a step `x[0..10 by 2]`",
        ("let a = x[1:5];", "let a = x[:5];", "let a = x[:];", "let a = x[1, :];", "let a = x[1..2, :];"),
    ),
    _Mistake(
        "E0111",
        "`&` and `~` are allowed only in front of an argument",
        "for `not` write `!`",
        ("let a = &b;", "let a = ~b;", "let a = (~b);", "let a = b + ~c;", "let a = b + &c;"),
    ),
    _Mistake(
        "E0112",
        "the result type of a `fn` is inferred",
        "leave out `-> …`",
        ("fn f(x) -> T { }", "fn f() -> T {}"),
    ),
    _Mistake("E0111", "`+` has no unary form", "leave it out", ("let a = +b;", "let a = b * +c;", "let a = b + +c;")),
    _Mistake(
        "E0110",
        _EXPRESSION,
        "",
        ("let a = ;", "let a = b + ;", "let a = (;", "let a = f(;", "let a = b * ;", "out a = ;"),
    ),
    _Mistake(
        "E0110",
        "a loop needs a start value",
        "write `scan h = h0 …`",
        ("scan h over x in xs {}", "scan h for 3 {}", "loop h while a {}"),
    ),
    _Mistake(
        "E0101",
        "an `if` has braces around its branches",
        "write `if c { … } else { … }`",
        ("if a let b = 1;", "if a { } else let b = 1;"),
    ),
    _Mistake(
        "E0115",
        "`..` is not an expression; ranges belong in an index, an argument or `repeat`",
        "write the range where it is used, as in `x[1..4]`; a tensor of numbers is `arange(n)`",
        ("let a = 1..2;", "let a = b + 1 .. 2;"),
    ),
    _Mistake(
        "E0101",
        "calling the result of a call is not possible",
        "bind it with `let`, then call a name",
        ("let a = f(x)(y);",),
    ),
    _Mistake("E0101", "field or method name expected after `.`", "", ("let a = x.;", "let a = x.1;")),
)
_PREFIXES = ("", "let z = 1; ", "fn g(x) { ", "repeat 2 { let z = 1; ")
# Words that make a difference to what is meant.
_TELLING_WORDS = frozenset({"mut", "if"})

_Key = tuple[int, str, str]
_tables: dict[int, dict[_Key, _Mistake]] = {}

_SPELLINGS = {
    "$END": "the end",
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "DYN": "a dynamic size `?`",
}
_BROKEN_NUMBER = re.compile(r"\.?[0-9][0-9A-Za-z_.]*")
_LAST_OPERATOR = re.compile(r"(\*\*|[<>=!]=|[-+*/%@&|^<>!]|\bdiv)\s*$")
_LAST_NAME = re.compile(r"\w+\s*$")
_ENDS_WITH_IF = re.compile(r"\bif\s*$")
_ENDS_WITH_NOT = re.compile(r"\bnot\s*$")
_ENDS_WITH_LET_MUT = re.compile(r"\blet\s+mut\s+$")
_ENDS_WITH_MUT = re.compile(r"&\s*mut\s+$")
_ASSIGNMENT = re.compile(r"\s*(\*\*|[-+*/@%])=")
_DECLARATION = re.compile(r"\b(?P<word>input|param)\s+(?P<name>\w+)\s*(?P<bracket>\[)")
_CLOSERS = ("`)`", "`]`", "`{`", "`;`", "`,`")


@dataclass(frozen=True, slots=True)
class Place:
    """Where parsing stopped.

    Args:
        source: the text.
        blanked: the text without comments.
        error: what Lark raised.
        start, end: the offending characters.
        expected: terminals the grammar would accept.
        statement_start: whether a statement could begin here.
        opening: span of the innermost open bracket.
    """

    source: Source
    blanked: str
    error: UnexpectedInput
    start: int
    end: int
    expected: tuple[str, ...]
    statement_start: bool
    opening: Span | None

    def report(
        self, code: str, message: str, help_: str = "", *, start: int | None = None, end: int | None = None
    ) -> Diagnostic:
        """A diagnostic at this place, or from `start` or to `end`."""
        start, end = self.start if start is None else start, self.end if end is None else end
        span = Span(source=self.source, start=start, end=end)
        return error(code, message, span, helps=[help_])


def describe(parser: Lark, place: Place) -> Diagnostic:
    """The diagnostic for an unexpected token or character.

    Diagnostics:
        E0101, E0102, E0106, E0107, E0109 to E0112, E0115, E0121.
    """
    before = place.blanked[max(0, place.start - 40) : place.start]
    if _ENDS_WITH_NOT.search(before):
        return place.report("E0111", "`not` is not an operator", "write `!`")
    word = str(getattr(place.error, "token", ""))
    if word in _FOREIGN_OPERATORS and not place.statement_start:
        return place.report("E0111", f"`{word}` is not an operator", _FOREIGN_OPERATORS[word])
    mistake = _mistakes(parser).get(_key(place.error))
    if _ENDS_WITH_IF.search(before) and not place.statement_start and not _is_statement_if(before):
        mistake = _mistakes_named("there is no conditional expression")
    if mistake is not None and mistake.message == _MUT and not _ENDS_WITH_LET_MUT.search(before):
        mistake = None
    if mistake is not None:
        return _describe_mistake(place, mistake, before)
    if not isinstance(place.error, UnexpectedToken):
        return _describe_character(place)
    token = place.error.token
    what = "the end of the text" if token.type == "$END" else f"`{token}`"
    if _ENDS_WITH_MUT.search(before):
        return place.report("E0112", f"there is no `&mut`, but {what} was expected after one", "leave it out")
    if place.statement_start:
        return _describe_statement(place, token.type, str(token), what)
    return _describe_expected(parser, place, what, token.type)


def _describe_mistake(place: Place, mistake: _Mistake, before: str) -> Diagnostic:
    start, help_ = place.start, mistake.help
    if mistake.message.startswith(("`&&`", "`||`")):
        start -= 1  # the first half can be an operator and has been taken
    if mistake.message == _COLON and (declarations := list(_DECLARATION.finditer(before))):
        return _describe_colon(place, declarations[-1], place.start - len(before))
    if mistake.message == _EXPRESSION:
        return _describe_missing(place, before)
    if mistake.message == _OPTION and (option := _LAST_NAME.search(before)):
        help_ = f"write `{option[0].strip()}: …`"
    return place.report(mistake.code, mistake.message, help_, start=start)


def _describe_missing(place: Place, before: str, help_: str = "") -> Diagnostic:
    """An expression is missing, perhaps as the operand of an operator."""
    token = getattr(place.error, "token", "")
    what = "the end of the text" if getattr(token, "type", "") == "$END" else f"`{token}`"
    if not help_ and (operator := _LAST_OPERATOR.search(before)):
        help_ = f"an operand is missing behind `{operator[1]}`"
    return place.report("E0110", f"{_EXPRESSION}, found {what}", help_)


def _describe_colon(place: Place, declaration: re.Match[str], offset: int) -> Diagnostic:
    """`input x [?b];`: what is read as the number of a family is meant as the shape."""
    text, bracket = place.blanked, offset + declaration.start("bracket")
    close = text.find("]", bracket)
    shape = text[bracket : close + 1] if 0 <= close < bracket + 60 and "\n" not in text[bracket:close] else "[dims]"
    help_ = f"write `{declaration['word']} {declaration['name']}: {shape}`"
    end = offset + declaration.end("name")
    return place.report("E0121", _COLON, help_, start=end, end=end)


def _is_statement_if(before: str) -> bool:
    """Whether the trailing `if` begins a statement (after `;`, a brace, `else` or the start of the text)."""
    head = _ENDS_WITH_IF.sub("", before).rstrip()
    return not head or head[-1] in ";{}" or head.endswith("else")


def _mistakes_named(message: str) -> _Mistake:
    return next(mistake for mistake in _MISTAKES if mistake.message == message)


def _describe_character(place: Place) -> Diagnostic:
    text, start = place.blanked, place.start
    char = text[start]
    if match := _BROKEN_NUMBER.match(text, start):
        return place.report("E0107", f"`{match[0]}` is not a number", end=match.end())
    if char == '"':
        stop = text.find("\n", start)
        end = len(text.rstrip()) if stop < 0 else stop
        helps = 'put `"` at its end; a line end in a string is written `\\n`'
        return place.report("E0106", "string is not closed on its line", helps, end=max(end, start + 1))
    if char == "'":
        return place.report("E0112", "strings are written in double quotes")
    if char == "#":
        if text.startswith("#[", start):
            return place.report("E0112", "there are no attributes", "comments start with `//`")
        return place.report("E0112", "comments start with `//`")
    if char in "“”‘’":
        return place.report("E0102", "typographic quote", "strings are written in straight double quotes")
    if char in "−–—":
        return place.report("E0102", "typographic dash", "write `-`")
    if char.isalpha():
        helps = "names consist of ASCII letters, digits and `_`"
        return place.report("E0102", f"unexpected character {char!r}", helps)
    return place.report("E0102", f"unexpected character {char!r}")


def _describe_statement(place: Place, kind: str, word: str, what: str) -> Diagnostic:
    rest = place.blanked[place.end : place.end + 40]
    begins = f"{what} does not begin a statement"
    if word == "rlx" and re.match(r"\s*!", rest):
        message = "`rlx! { … }` is the macro of another system"
        return place.report("E0112", message, "write its contents, without the braces")
    if word in _FOREIGN_STATEMENTS:
        return place.report("E0109", begins, _FOREIGN_STATEMENTS[word])
    if kind == "NAME" and re.match(r"\s*=(?!=)", rest):
        return place.report("E0109", begins, f"to bind it write `let {word} = …;`")
    if kind == "NAME" and (operator := _ASSIGNMENT.match(rest)):
        helps = f"write `let {word} = {word} {operator[1]} …;`"
        return place.report("E0112", "there is no assignment operator", helps)
    if kind == "NAME" and re.match(r"\s*(?:[\[(.}]|[-+*@])", rest):
        helps = "bind it with `let`, or in a `fn` use `return`"
        return place.report("E0109", "an expression is not a statement", helps)
    if kind == "NAME":
        return place.report("E0109", begins, did_you_mean(word, STATEMENT_WORDS.values()))
    if kind in ("INT", "FLOAT", "STRING", "LPAR", "LSQB", "MINUS", "BANG"):
        return place.report("E0109", begins, "bind the value with `let`, or in a `fn` use `return`")
    return place.report("E0109", begins)


def _describe_expected(parser: Lark, place: Place, what: str, kind: str) -> Diagnostic:
    expected = sorted({_spell(parser, terminal) for terminal in place.expected})
    if "a name" in expected and "a number" in expected:
        before = place.blanked[max(0, place.start - 40) : place.start]
        return _describe_missing(place, before, "there are no closures; write a `fn`" if kind == "OR" else "")
    closers = [closer for closer in _CLOSERS if closer in expected]
    shown = closers[:2] if closers else expected[:5]
    found = place.report("E0101", f"expected {' or '.join(shown)}, found {what}")
    if place.opening is not None and closers and closers[0] in ("`)`", "`]`"):
        secondary = [(place.opening, "opened here")]
        return error(found.code, found.message, found.span, secondary=secondary)
    return found


def _spell(parser: Lark, terminal: str) -> str:
    """What the user calls a terminal."""
    if terminal in _SPELLINGS:
        return _SPELLINGS[terminal]
    pattern = parser.get_terminal(terminal).pattern
    text = pattern.value if pattern.type == "str" else pattern.value.split("\\b")[0].split("(?")[0]
    return f"`{text}`"


def _key(error_: UnexpectedInput) -> _Key:
    state: int = error_.interactive_parser.parser_state.position
    if isinstance(error_, UnexpectedToken):
        token = error_.token
        word = str(token) if token.type == "NAME" and str(token) in _TELLING_WORDS else ""
        return state, token.type, word
    return state, getattr(error_, "char", ""), ""


def _mistakes(parser: Lark) -> dict[_Key, _Mistake]:
    """The table of common mistakes of a parser, made at the first error."""
    table = _tables.get(id(parser))
    if table is None:
        table = _tables[id(parser)] = {}
        for mistake in _MISTAKES:
            for example in mistake.examples:
                for prefix in _PREFIXES:
                    try:
                        parser.parse(prefix + example, start="program")
                    except UnexpectedInput as error_:
                        table.setdefault(_key(error_), mistake)
    return table
