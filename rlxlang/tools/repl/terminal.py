"""Sessions at a terminal: editing of several lines, colours, completion and history, by prompt_toolkit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer, PygmentsLexer
from prompt_toolkit.output import Output

from rlxlang.frontend.highlight import RlxLexer
from rlxlang.tools.repl.complete import completions
from rlxlang.tools.repl.loop import CONTINUATION, PROMPT
from rlxlang.tools.repl.shell import Shell, is_command


def run_terminal(
    shell: Shell, *, with_history: bool = True, input_: Input | None = None, output: Output | None = None
) -> None:
    """Run a session until the user leaves.

    Args:
        shell: The session.
        with_history: Whether lines of earlier sessions are there.
        input_: Where keys come from instead of the terminal.
        output: Where the screen is instead of the terminal.
    """
    prompt = prompt_session(shell, with_history=with_history, input_=input_, output=output)

    while True:
        try:
            if not shell.run(prompt.prompt(PROMPT)):
                return
        except KeyboardInterrupt:  # drops the line
            continue
        except EOFError:
            return


def prompt_session(
    shell: Shell, *, with_history: bool, input_: Input | None = None, output: Output | None = None
) -> PromptSession[str]:
    """The prompt of a session: Enter runs a text that is complete, and continues one that is not."""
    return PromptSession(
        multiline=True,
        lexer=_InputLexer(),
        completer=ThreadedCompleter(_Proposals(shell)),
        complete_while_typing=False,
        history=_history() if with_history else InMemoryHistory(),
        auto_suggest=AutoSuggestFromHistory(),
        key_bindings=_bindings(shell),
        prompt_continuation=CONTINUATION,
        include_default_pygments_style=True,
        input=input_,
        output=output,
    )


def history_file() -> Path:
    """Where lines are kept: in `RLX_CACHE_DIR`, else in the folder for state of the XDG base directories."""
    cache = os.environ.get("RLX_CACHE_DIR")
    if cache:
        return Path(cache) / "repl_history"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "rlxlang" / "repl_history"


def _history() -> History:
    """The lines of earlier sessions; none where they cannot be kept."""
    try:
        file = history_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)
        with file.open("ab"):
            pass
        file.read_bytes().decode("utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError):
        return InMemoryHistory()
    return FileHistory(str(file))


def _bindings(shell: Shell) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        document = buffer.document
        forced = not document.text_after_cursor.strip() and not document.current_line.strip()
        if forced or not shell.wants_more(document.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n" + _indent(document.current_line_before_cursor))

    @bindings.add("}")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        before = buffer.document.current_line_before_cursor
        if buffer.document.cursor_position_row and before.endswith("  ") and not before.strip():
            buffer.delete_before_cursor(2)
        buffer.insert_text("}")

    return bindings


def _indent(line: str) -> str:
    """The blanks for the line after one: two more behind an open brace."""
    blanks = line[: len(line) - len(line.lstrip())]
    return blanks + ("  " if line.rstrip().endswith(("{", "(", "[")) else "")


class _InputLexer(Lexer):
    """Colours of the language; the word of a command is a keyword."""

    def __init__(self) -> None:
        self._language = PygmentsLexer(RlxLexer)

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = self._language.lex_document(document)
        if not is_command(document.text):
            return lines

        def with_command(number: int) -> StyleAndTextTuples:
            if number:
                return lines(number)
            text = document.lines[0]
            word = len(text) - len(text.lstrip()) + len(text.split(maxsplit=1)[0])
            rest = self._language.lex_document(Document(text[word:]))(0)
            return [("class:pygments.keyword", text[:word]), *rest]

        return with_command

    def invalidation_hash(self) -> Any:
        return self._language.invalidation_hash()


class _Proposals(Completer):
    """The completion of a session."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for found in completions(self._shell.session, document.text, document.cursor_position):
            yield Completion(found.text, start_position=-found.typed, display=found.label, display_meta=found.detail)
