"""What to say about a token that cannot stand where it stands.

Common mistakes are recognised by example: each is parsed once, and the parser's state together with the offending
token becomes a key. (Lark's own `match_examples` compares the depth of the stack too, so an example would match
only as the first statement of a text.) Everything else is described by what the grammar could accept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken

from rlxlang.diagnostics import Diagnostic, Source, Span, did_you_mean, error
from rlxlang.frontend.mistakes import (
    COLON,
    CONDITIONAL,
    EXPRESSION,
    FOREIGN_OPERATORS,
    FOREIGN_STATEMENTS,
    MISTAKES,
    MUT,
    OPTION,
    PREFIXES,
    TELLING_WORDS,
    Mistake,
)
from rlxlang.ir import SURFACES

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

_Key = tuple[int, str, str]
_tables: dict[int, dict[_Key, Mistake]] = {}

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
    if word in FOREIGN_OPERATORS and not place.statement_start:
        return place.report("E0111", f"`{word}` is not an operator", FOREIGN_OPERATORS[word])
    mistake = _mistakes(parser).get(_key(place.error))
    if _ENDS_WITH_IF.search(before) and not place.statement_start and not _is_statement_if(before):
        mistake = CONDITIONAL
    if mistake is not None and mistake.message == MUT and not _ENDS_WITH_LET_MUT.search(before):
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


def _describe_mistake(place: Place, mistake: Mistake, before: str) -> Diagnostic:
    start, help_ = place.start, mistake.help
    if mistake.message.startswith(("`&&`", "`||`")):
        start -= 1  # the first half can be an operator and has been taken
    if mistake.message == COLON and (declarations := list(_DECLARATION.finditer(before))):
        return _describe_colon(place, declarations[-1], place.start - len(before))
    if mistake.message == EXPRESSION:
        return _describe_missing(place, before)
    if mistake.message == OPTION and (option := _LAST_NAME.search(before)):
        help_ = f"write `{option[0].strip()}: …`"
    return place.report(mistake.code, mistake.message, help_, start=start)


def _describe_missing(place: Place, before: str, help_: str = "") -> Diagnostic:
    """An expression is missing, perhaps as the operand of an operator."""
    token = getattr(place.error, "token", "")
    what = "the end of the text" if getattr(token, "type", "") == "$END" else f"`{token}`"
    if not help_ and (operator := _LAST_OPERATOR.search(before)):
        help_ = f"an operand is missing behind `{operator[1]}`"
    return place.report("E0110", f"{EXPRESSION}, found {what}", help_)


def _describe_colon(place: Place, declaration: re.Match[str], offset: int) -> Diagnostic:
    """`input x [?b];`: what is read as the number of a family is meant as the shape."""
    text, bracket = place.blanked, offset + declaration.start("bracket")
    close = text.find("]", bracket)
    shape = text[bracket : close + 1] if 0 <= close < bracket + 60 and "\n" not in text[bracket:close] else "[dims]"
    help_ = f"write `{declaration['word']} {declaration['name']}: {shape}`"
    end = offset + declaration.end("name")
    return place.report("E0121", COLON, help_, start=end, end=end)


def _is_statement_if(before: str) -> bool:
    """Whether the trailing `if` begins a statement (after `;`, a brace, `else` or the start of the text)."""
    head = _ENDS_WITH_IF.sub("", before).rstrip()
    return not head or head[-1] in ";{}" or head.endswith("else")


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
    if word in FOREIGN_STATEMENTS:
        return place.report("E0109", begins, FOREIGN_STATEMENTS[word])
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
    if kind == "DYN" and closers:
        return place.report(CONDITIONAL.code, CONDITIONAL.message, CONDITIONAL.help)
    if kind in ("NAME", "INT", "FLOAT", "STRING") and (called := _LAST_NAME.search(place.blanked[: place.start][-40:])):
        word = called[0].strip()
        if word == "lambda":
            return place.report("E0112", "there are no closures", "write a `fn`")
        if word in SURFACES:
            return place.report("E0101", f"expected `(` after `{word}`, found {what}", f"a call is written `{word}(…)`")
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
        word = str(token) if token.type == "NAME" and str(token) in TELLING_WORDS else ""
        return state, token.type, word
    return state, getattr(error_, "char", ""), ""


def _mistakes(parser: Lark) -> dict[_Key, Mistake]:
    """The table of common mistakes of a parser, made at the first error."""
    table = _tables.get(id(parser))
    if table is None:
        table = _tables[id(parser)] = {}
        for mistake in MISTAKES:
            for example in mistake.examples:
                for prefix in PREFIXES:
                    try:
                        parser.parse(prefix + example, start="program")
                    except UnexpectedInput as error_:
                        table.setdefault(_key(error_), mistake)
    return table
