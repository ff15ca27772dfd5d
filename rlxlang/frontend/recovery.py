"""Recovery from syntax errors: one report for a broken statement, then on with the next one.

Keywords are ordinary names inside expressions, so after an open bracket the `let` of the next line reads as a name;
recovery therefore goes back to a line that begins like a statement when it lies within the broken one.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.parsers.lalr_analysis import Shift

from rlxlang.diagnostics import Diagnostic, Source, Span, error
from rlxlang.frontend import messages
from rlxlang.frontend.trivia import Trivia, reads_like_code

_WORDS = "|".join(sorted(messages.STATEMENT_WORDS.values(), key=len, reverse=True))
_LINE_STATEMENT = re.compile(rf"[ \t]*(?:{_WORDS})\b")
_SCANNED = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{};\n]')
_REST_OF_SHAPE = re.compile(r"[^\[\](){};\n]*\]")  # behind the `;` of `[F32; 3]`
_OPENING = {"LPAR": "RPAR", "LSQB": "RSQB"}
_FLOOR_HELP = "`//` starts a comment; for floor division write `a div b`"
# A garbage file would be read to its end error by error; more than this many reports help nobody.
_MOST_ERRORS = 100


class Recovery:
    """The `on_error` callback of one parse; `diagnostics` and `skipped`, what is left out of the tree, fill as it goes."""

    def __init__(self, parser: Lark, source: Source, trivia: Trivia) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.told_floor_division = False
        self.skipped: list[Span] = []
        self._parser = parser
        self._source = source
        self._text = trivia.blanked
        self._end = len(trivia.blanked.rstrip())
        self._comments = trivia.comments

    def __call__(self, problem: UnexpectedInput) -> bool:
        """Report `problem` and put the parser back on its feet; False gives up."""
        interactive: Any = problem.interactive_parser
        token: Token | None = getattr(problem, "token", None)
        if len(self.diagnostics) >= _MOST_ERRORS:
            return False
        if token is None:
            start = getattr(problem, "pos_in_stream", 0)
            end = start + 1
        elif token.type == "$END":
            start = end = self._end
        else:
            start, end = token.start_pos or 0, token.end_pos or 0
        self._settle(interactive)
        if token is not None and self._supply_semicolon(interactive, token, start):
            return self._read_again(interactive, token)
        at_end = token is not None and token.type == "$END"
        if at_end and self._at_statement_start(interactive) and (opened := _open_braces(interactive)):
            return self._close_braces(interactive, opened)
        self._report(problem, interactive, start, end)
        broken_from = self._drop_statement(interactive, start)
        if broken_from is None:
            return False
        opened = _open_braces(interactive)
        if at_end:
            self._skip(broken_from, len(self._text))
            if opened:
                return self._close_braces(interactive, opened)
            self._move(interactive, len(self._text))
            return True
        resume = self._resume_at(start, broken_from, nested=bool(opened))
        self._skip(broken_from, resume)
        self._move(interactive, resume)
        return True

    def _skip(self, start: int, end: int) -> None:
        self.skipped.append(Span(source=self._source, start=start, end=max(start, end)))

    # -- the state of the parser

    def _actions(self, interactive: Any) -> dict[str, tuple[Any, Any]]:
        state = interactive.parser_state
        actions: dict[str, tuple[Any, Any]] = state.parse_conf.states[state.position]
        return actions

    def _at_statement_start(self, interactive: Any) -> bool:
        action = self._actions(interactive).get("_LET")
        return action is not None and action[0] is Shift

    def _settle(self, interactive: Any) -> None:
        """Do the reductions that a following statement would cause.

        The contextual lexer stops before the parser can reduce `let e = 5;`; popping then would lose it.
        """
        state = interactive.parser_state
        states, callbacks = state.parse_conf.states, state.parse_conf.callbacks
        while (action := self._actions(interactive).get("_LET")) is not None and action[0] is not Shift:
            rule = action[1]
            size = len(rule.expansion)
            children = state.value_stack[-size:] if size else []
            if size:
                del state.state_stack[-size:], state.value_stack[-size:]
            state.value_stack.append(callbacks[rule](children))
            state.state_stack.append(states[state.position][rule.origin.name][1])

    def _accepts(self, interactive: Any, terminal: str) -> bool:
        """Whether the parser would come to shift `terminal`, found by simulating it."""
        state = interactive.parser_state
        states, end_state = state.parse_conf.states, state.parse_conf.end_state
        stack = list(state.state_stack)
        while (action := states[stack[-1]].get(terminal)) is not None:
            if action[0] is Shift:
                return True
            rule = action[1]
            if rule.expansion:
                del stack[-len(rule.expansion) :]
            stack.append(states[stack[-1]][rule.origin.name][1])
            if terminal == "$END" and stack[-1] == end_state:
                return True
        return False

    def _expected(self, interactive: Any) -> tuple[str, ...]:
        candidates = [name for name in self._actions(interactive) if name.isupper()]
        return tuple(name for name in candidates if self._accepts(interactive, name))

    def _move(self, interactive: Any, position: int) -> None:
        """Let the lexer go on at `position`."""
        counter = interactive.lexer_thread.state.line_ctr
        line = self._source.line_column(position)[0]
        counter.char_pos = position
        counter.line = line
        counter.line_start_pos = self._source.line_start(line)
        counter.column = position - counter.line_start_pos + 1

    # -- reporting

    def _report(self, problem: UnexpectedInput, interactive: Any, start: int, end: int) -> None:
        brackets = _open_brackets(interactive)
        opening = self._span_of(brackets[-1]) if brackets else None
        place = messages.Place(
            source=self._source,
            blanked=self._text,
            error=problem,
            start=start,
            end=end,
            expected=self._expected(interactive),
            statement_start=self._at_statement_start(interactive),
            opening=opening,
        )
        found = messages.describe(self._parser, place)
        if self._swallowed_by_comment(_last_end(interactive), start):
            found = error(found.code, found.message, found.span, helps=[_FLOOR_HELP])
            self.told_floor_division = True
        self.diagnostics.append(found)

    def _span_of(self, token: Token) -> Span:
        return Span(source=self._source, start=token.start_pos or 0, end=token.end_pos or 0)

    def _swallowed_by_comment(self, last_end: int, start: int) -> bool:
        """Whether a comment between the last good token and the error may be meant as a division."""
        start = len(self._text) if start == self._end else start
        return any(
            last_end <= comment.span.start and comment.span.end <= start and reads_like_code(comment)
            for comment in self._comments
        )

    # -- a missing semicolon

    def _supply_semicolon(self, interactive: Any, token: Token, start: int) -> bool:
        """Report and feed a `;` when only that is missing before the next statement, `}` or the end."""
        if token.type not in messages.STATEMENT_WORDS and token.type not in ("RBRACE", "$END"):
            return False
        last_end = _last_end(interactive)
        if token.type == "_IF" and "\n" not in self._text[last_end:start]:
            return False  # more likely `a if c else b`
        if last_end == 0 or self._at_statement_start(interactive):
            return False
        if _open_brackets(interactive):
            return False
        if not self._accepts(interactive, "SEMICOLON"):
            return False
        swallowed = self._swallowed_by_comment(last_end, start)
        self.told_floor_division |= swallowed
        helps = [_FLOOR_HELP] if swallowed else []
        place = Span(source=self._source, start=last_end, end=last_end)
        self.diagnostics.append(error("E0103", "`;` is missing here", place, helps=helps))
        interactive.feed_token(_made_token("SEMICOLON", ";", last_end, token))
        return True

    def _read_again(self, interactive: Any, token: Token) -> bool:
        """Read the offending token once more in the new state."""
        if token.type != "$END":
            self._move(interactive, token.start_pos or 0)
            return True
        opened = _open_braces(interactive)
        return self._close_braces(interactive, opened) if opened else True

    def _close_braces(self, interactive: Any, opened: list[Token]) -> bool:
        """At the end of the text: report every open `{` and feed a `}` for it."""
        for brace in reversed(opened):
            self.diagnostics.append(error("E0104", "`{` is never closed", self._span_of(brace)))
            if not self._accepts(interactive, "RBRACE"):
                return False
            interactive.feed_token(_made_token("RBRACE", "}", self._end, brace))
        return True

    # -- skipping

    def _drop_statement(self, interactive: Any, start: int) -> int | None:
        """Forget the broken statement; where it began, or None when there is nothing to resume at."""
        stack = interactive.parser_state.state_stack
        values = interactive.parser_state.value_stack
        first = start
        while not self._at_statement_start(interactive):
            if len(stack) == 1:
                return None
            stack.pop()
            dropped = values.pop()
            if isinstance(dropped, Token):
                first = dropped.start_pos or 0
            elif isinstance(dropped, Tree) and not dropped.meta.empty:
                first = getattr(dropped.meta, "container_start_pos", dropped.meta.start_pos)
        return first

    def _resume_at(self, start: int, broken_from: int, nested: bool) -> int:
        line_start = self._text.rfind("\n", 0, start) + 1
        line = _LINE_STATEMENT.match(self._text, line_start)
        if line is not None:
            word = line_start + len(line[0]) - len(line[0].lstrip())
            if broken_from < word <= start:
                return word
        return max(self._end_of_statement(start, nested), start + (0 if nested else 1))

    def _end_of_statement(self, start: int, nested: bool) -> int:
        """After the `;` or block that ends the broken statement, or before the `}` of the body around it."""
        depth = 0
        for match in _SCANNED.finditer(self._text, start):
            symbol = match[0]
            if symbol == "{":
                depth += 1
            elif symbol == "}":
                if depth == 0:
                    return match.start() if nested else match.end()
                depth -= 1
                if depth == 0:
                    return match.end()
            elif depth == 0:
                new_line = symbol == "\n" and _LINE_STATEMENT.match(self._text, match.end())
                if symbol == ";" and _REST_OF_SHAPE.match(self._text, match.end()):
                    continue
                if symbol == ";" or new_line:
                    return match.end()
        return len(self._text)


def _values(interactive: Any) -> list[object]:
    values: list[object] = interactive.parser_state.value_stack
    return values


def _open_braces(interactive: Any) -> list[Token]:
    values = _values(interactive)
    return [value for value in values if isinstance(value, Token) and value.type == "LBRACE"]


def _open_brackets(interactive: Any) -> list[Token]:
    """The brackets and parentheses that are open; those of a call may not have been reduced although they are closed."""
    brackets: list[Token] = []
    for value in _values(interactive):
        if isinstance(value, Token) and value.type in _OPENING:
            brackets.append(value)
        elif isinstance(value, Token) and brackets and value.type == _OPENING[brackets[-1].type]:
            brackets.pop()
    return brackets


def _last_end(interactive: Any) -> int:
    """End of the last thing the parser has taken, 0 at the start of the text."""
    for value in reversed(_values(interactive)):
        if isinstance(value, Token) and value.end_pos is not None:
            return value.end_pos
        if isinstance(value, Tree) and not value.meta.empty:
            end: int = getattr(value.meta, "container_end_pos", value.meta.end_pos)
            return end
    return 0


def _made_token(kind: str, text: str, position: int, near: Token) -> Token:
    return Token(
        kind,
        text,
        position,
        near.line,
        near.column,
        near.line,
        near.column,
        position,
    )
