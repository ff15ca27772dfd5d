"""What may be written at a place of a text that is being typed: found from the tokens before it, for any broken text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rlxlang.frontend.trivia import Trivia
from rlxlang.tools.lsp.words import STATEMENTS

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|$))|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<axis>\?[A-Za-z0-9_]*)'
    r"|(?P<number>\d[\dA-Za-z_]*(?:\.\d[\dA-Za-z_]*)?|\.\d[\dA-Za-z_]*)|(?P<symbol>::|\.\.\.|\.\.=|\.\.|\*\*|[=!<>]=|->|\S)"
)
_WORD = re.compile(r"\??[A-Za-z0-9_]*\Z")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is `name`, `axis`, `number`, `string` or `symbol`."""

    kind: str
    text: str
    start: int


@dataclass(eq=False, slots=True)
class Bracket:
    """An open bracket.

    Attributes:
        symbol: `(`, `[`, `{`, or `use` for the braces of a `use` statement.
        at: The number of its token.
        statement: Keyword of the statement it stands in.
        callee: For the parenthesis of a call: the names of the path before it.
        method: Whether the callee is a method.
        first: The number of the first token of its present argument.
        commas: How many commas have been passed at its level.
        given: Names of the arguments given by name.
        naming: The name of the present argument when it is given by name.
    """

    symbol: str
    at: int
    statement: str
    callee: tuple[str, ...] = ()
    method: bool = False
    first: int = 0
    commas: int = 0
    given: list[str] = field(default_factory=list)
    naming: str = ""


@dataclass(eq=False, slots=True)
class Cursor:
    """A place of a text and what stands before it.

    Attributes:
        offset: The place.
        word: The start of the name that is being typed, in a string of its last part after `/`.
        statement: Tokens of the present statement before the word.
        brackets: Open brackets, outermost first.
        in_comment: Whether it is in a comment.
        in_string: What has been typed of a string; None outside.
        closed: Keyword of the statement whose body has just ended, at the start of another.
    """

    offset: int
    word: str
    statement: list[Token]
    brackets: list[Bracket]
    in_comment: bool = False
    in_string: str | None = None
    closed: str = ""

    @property
    def before(self) -> str:
        """The token before the word, empty at the start of a statement."""
        return self.statement[-1].text if self.statement else ""

    @property
    def keyword(self) -> str:
        """The first token of the statement."""
        return self.statement[0].text if self.statement else ""

    @property
    def container(self) -> str:
        """The keyword of the innermost statement whose body this is in, empty at top level."""
        return next((b.statement for b in reversed(self.brackets) if b.symbol == "{"), "")

    @property
    def containers(self) -> list[str]:
        """Keywords of the statements around, outermost first."""
        return [b.statement for b in self.brackets if b.symbol == "{"]

    @property
    def call(self) -> Bracket | None:
        """The innermost call whose arguments this is among; brackets of lists and groups are looked through."""
        for bracket in reversed(self.brackets):
            if bracket.symbol in ("{", "use"):
                return None
            if bracket.callee:
                return bracket
        return None

    @property
    def in_brackets(self) -> bool:
        """Whether a bracket of the present statement is open."""
        return bool(self.brackets) and self.brackets[-1].symbol != "{"

    @property
    def inner(self) -> str:
        """The innermost bracket, `{` or empty between statements."""
        return self.brackets[-1].symbol if self.brackets else ""


def cursor_at(text: str, trivia: Trivia, offset: int) -> Cursor:
    """The cursor at an offset.

    Args:
        text: The text.
        trivia: Its comments.
        offset: The place.
    """
    for comment in trivia.comments:
        open_end = not comment.text.startswith("/*") or not comment.text.endswith("*/")
        if comment.span.start < offset < comment.span.end or (open_end and offset == comment.span.end):
            return Cursor(offset, "", [], [], in_comment=True)
    before = trivia.blanked[:offset]
    match = _WORD.search(before)
    word = match[0] if match else ""
    tokens = [Token(m.lastgroup or "", m[0], m.start()) for m in _TOKEN.finditer(before)]
    if tokens and tokens[-1].kind == "string" and not _is_closed(tokens[-1].text):
        typed = tokens[-1].text[1:]
        cursor = _read(tokens[:-1], before, offset, typed.rpartition("/")[2])
        cursor.in_string = typed
        return cursor
    if tokens and word and tokens[-1].start + len(tokens[-1].text) == offset:
        tokens.pop()
    return _read(tokens, before, offset, word)


def _is_closed(string: str) -> bool:
    return len(string) > 1 and string.endswith('"') and not re.search(r'(?<!\\)(?:\\\\)*\\"\Z', string)


def _read(tokens: list[Token], text: str, offset: int, word: str) -> Cursor:
    brackets: list[Bracket] = []
    start, closed = 0, ""
    for k, token in enumerate(tokens):
        symbol = token.text if token.kind == "symbol" else ""
        innermost = brackets[-1].symbol if brackets else ""
        if innermost in ("(", "[") and _begins_statement(tokens, k, text):
            while brackets and brackets[-1].symbol != "{":
                brackets.pop()
            start = k
        elif symbol in ("(", "[", "{"):
            keyword = tokens[start].text if start < k else ""
            if keyword == "else" and tokens[start + 1].text == "if":
                keyword = "if"
            bracket = Bracket(symbol, k, keyword, first=k + 1)
            if symbol == "{" and k and tokens[k - 1].text == "::":
                bracket.symbol = "use"
            elif symbol == "{":
                start = k + 1
            elif symbol == "(" and k > start and tokens[k - 1].kind == "name":
                bracket.callee, bracket.method = _callee(tokens, k - 1)
            brackets.append(bracket)
        elif symbol in _PAIRS:
            ended = None
            while brackets and (ended is None or ended.symbol not in (_PAIRS[symbol], "use" if symbol == "}" else "")):
                ended = brackets.pop()
            if symbol == "}" and innermost != "use":
                start, closed = k + 1, ended.statement if ended is not None else ""
        elif symbol == ";" and innermost in ("", "{"):
            start = k + 1
        elif symbol == "," and brackets:
            brackets[-1].commas += 1
            brackets[-1].first = k + 1
            brackets[-1].naming = ""
        elif symbol == ":" and brackets and brackets[-1].first == k - 1:
            brackets[-1].naming = tokens[k - 1].text
            brackets[-1].given.append(tokens[k - 1].text)
    ends = start == len(tokens) and bool(tokens) and tokens[-1].text == "}"
    return Cursor(offset, word, tokens[start:], brackets, closed=closed if ends else "")


def _begins_statement(tokens: list[Token], k: int, text: str) -> bool:
    """Whether a token is a keyword at the start of a line with a name behind it: the bracket before was never closed."""
    token = tokens[k]
    if token.kind != "name" or token.text not in STATEMENTS or k + 1 >= len(tokens) or tokens[k + 1].kind != "name":
        return False
    line = text[text.rfind("\n", 0, token.start) + 1 : token.start]
    return not line.strip()


def _callee(tokens: list[Token], k: int) -> tuple[tuple[str, ...], bool]:
    """The path that ends at token `k`, and whether it is a method."""
    names = [tokens[k].text]
    while k >= 2 and tokens[k - 1].text == "::" and tokens[k - 2].kind == "name":
        k -= 2
        names.insert(0, tokens[k].text)
    method = k >= 1 and tokens[k - 1].text == "."
    if k >= 1 and tokens[k - 1].text in ("fn", "block", "vjp", "jvp"):
        return (), False
    return tuple(names), method and len(names) == 1
