"""What can be typed at a place of a session: names, ops, methods, options, keywords, commands and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlxlang.device import KINDS
from rlxlang.diagnostics import CODES
from rlxlang.tools.lsp.complete import completions as lsp_completions
from rlxlang.tools.repl.commands import ALIASES, COMMANDS
from rlxlang.tools.repl.help import known_words
from rlxlang.tools.repl.session import Session
from rlxlang.tools.repl.shell import is_command

_COMMAND = re.compile(r"\s*:\s*(\w*)\Z")
_WITH_ARGUMENT = re.compile(r"\s*:\s*(\w+)\s+")
_WORD = re.compile(r"\??[\w.]*\Z")
_FILLS = ("randn", "rand", "randint(10)", "zeros", "ones", "arange")
_SUFFIXES = {
    "graph": (".svg", ".html", ".dot", ".mmd", ".txt"),
    "load": (".rlx", ".safetensors"),
    "save": (".rlx", ".safetensors"),
    "set": (".npy", ".npz"),
    "bind": (".npy", ".npz"),
}
_MOST = 200


@dataclass(frozen=True, slots=True)
class Proposal:
    """A completion.

    Attributes:
        text: What is written in place of what was typed.
        typed: How many characters that replaces.
        label: What is shown.
        detail: Its type or form.
    """

    text: str
    typed: int
    label: str
    detail: str = ""


def completions(session: Session, text: str, place: int) -> list[Proposal]:
    """What can be typed at a place of a text, best first; nothing fails over a text that makes no sense."""
    before = text[:place]
    if is_command(before):
        return list(_in_command(session, before))[:_MOST]
    return _in_language(session, text, place)


def _in_command(session: Session, before: str) -> Iterator[Proposal]:
    word = _COMMAND.match(before)
    if word is not None:
        for name, command in COMMANDS.items():
            if name.startswith(word[1].lower()):
                yield Proposal(name, len(word[1]), f":{name}", command.doc)
        return
    match = _WITH_ARGUMENT.match(before)
    if match is None:
        return
    name = ALIASES.get(match[1].lower(), match[1].lower())
    argument = COMMANDS[name].argument if name in COMMANDS else ""
    rest = before[match.end() :]
    typed = _WORD.search(rest)
    last = typed[0] if typed else ""
    if name == "help":
        yield from _plain(COMMANDS, last)
    elif argument == "device":
        yield from _plain(("auto", *KINDS), last)
    elif argument == "code":
        yield from _plain(CODES, last)
    elif argument == "doc":
        yield from _plain(dict.fromkeys([*_session_names(session), *known_words()]), last)
    elif argument == "file":
        yield from _files(rest, _SUFFIXES[name])
    elif argument == "value" and "=" not in rest:
        configs = [n for e in session.text.entries if type(e.statement).__name__ == "Config" for _, n in e.names]
        names = [e.name for e in session.interface.inputs if e.kind != "seed"]
        yield from _plain([*names, *configs, *session.interface.axes()], last, " = ")
    elif argument == "value":
        value = rest.partition("=")[2].lstrip()
        if "/" in value or value.startswith((".", "~")):
            yield from _files(value, _SUFFIXES[name])
            return
        if value == last:
            yield from _plain(_FILLS, last)
            yield from (p for p in _files(value, _SUFFIXES[name]) if value)
        yield from _in_language(session, value, len(value))
    elif argument == "expression":
        yield from _in_language(session, rest, len(rest))


def _plain(words: Iterable[str], typed: str, behind: str = "") -> Iterator[Proposal]:
    for word in words:
        if word.startswith(typed):
            yield Proposal(word + behind, len(typed), word)


def _session_names(session: Session) -> Iterator[str]:
    for entry in session.text.entries:
        yield from (name for kind, name in sorted(entry.names) if kind not in ("graph", "output", "wildcard"))


def _files(typed: str, suffixes: tuple[str, ...]) -> Iterator[Proposal]:
    head, mark, tail = typed.rpartition("/")
    try:
        folder = Path(head + mark).expanduser()
        entries = sorted(folder.iterdir(), key=lambda e: e.name)
        for entry in entries:
            if not entry.name.startswith(tail) or (entry.name.startswith(".") and not tail):
                continue
            if entry.is_dir():
                yield Proposal(f"{entry.name}/", len(tail), f"{entry.name}/")
            elif entry.suffix in suffixes:
                yield Proposal(entry.name, len(tail), entry.name)
    except (OSError, ValueError, RuntimeError):
        return


def _in_language(session: Session, text: str, place: int) -> list[Proposal]:
    """As an editor completes below the program; at the start of a text both statements and expressions may begin."""
    program = session.text.source
    folder = session.text.folder or Path.cwd()
    typed = len(_typed(text, place))
    found = lsp_completions(program + text[:place], path=str(folder / "<session>.rlx"))
    return [
        Proposal(f.label if f.snippet or not f.insert else f.insert, typed, f.label, f.detail) for f in found[:_MOST]
    ]


def _typed(text: str, place: int) -> str:
    match = _WORD.search(text[:place])
    return match[0].rpartition(".")[2] if match else ""
