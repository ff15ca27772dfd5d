"""The commands of a session: `:set`, `:grad`, `:load` and the rest."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from rlxlang.device import Device, devices
from rlxlang.diagnostics import (
    RlxNameError,
    Span,
    did_you_mean,
    error,
)
from rlxlang.tools.repl import asking, keeping, setting
from rlxlang.tools.repl.command import Command, Line
from rlxlang.tools.repl.help import all_words, documentation

if TYPE_CHECKING:
    from rlxlang.tools.repl.shell import Shell

_LINE = re.compile(r"\s*:\s*(?P<word>[A-Za-z?!]*)\s*(?P<rest>.*)", re.DOTALL)


def run_command(shell: Shell, text: str) -> None:
    """Run a line that begins with a colon.

    Raises:
        RlxError: There is no such command, or it fails.
    """
    source = shell.session.source(text)
    match = _LINE.fullmatch(text)
    assert match is not None
    word = match["word"].lower()
    name = ALIASES.get(word, word)
    if name not in COMMANDS or (not word and match["rest"]):
        close = [n for n in COMMANDS if word and n.startswith(word)]
        help_ = (
            f"did you mean `:{close[0]}`?" if len(close) == 1 else _colons(did_you_mean(word, [*COMMANDS, *ALIASES]))
        )
        span = Span(source=source, start=text.index(":"), end=match.end("word") if word else len(text.rstrip()))
        raise RlxNameError(
            error("E0200", f"unknown command `:{word}`", span, helps=(help_ or "`:help` lists the commands",))
        )
    COMMANDS[name].run(shell, Line(source, match.start("rest")))


def _colons(help_: str) -> str:
    return help_.replace(" `", " `:")


def _device(shell: Shell, line: Line) -> None:
    session = shell.session
    if not line.rest:
        shell.say(str(session.device) if session.device else "auto: reference for small work, else the fastest")
        shell.say(f"there are auto, {', '.join(str(d) for d in devices())}")
        return
    if line.rest.lower() == "auto":
        session.device = None
        return
    device = Device.parse(line.rest)
    if device.kind != "reference":
        from rlxlang.device import backend_of

        backend_of(device)
    session.device = device


def _doc(shell: Shell, line: Line) -> None:
    if not line.rest:
        for title, names in all_words().items():
            shell.say(f"{title}:")
            shell.say(textwrap.fill(", ".join(names), 98, initial_indent="  ", subsequent_indent="  "))
        return
    text = documentation(line.rest, shell.session)
    if isinstance(text, str):
        shell.say(text)
        return
    raise line.fail("E0202", f"nothing is known of `{line.rest}`", did_you_mean(line.rest, text))


def _explain(shell: Shell, line: Line) -> None:
    from rlxlang.resources import error_page
    from rlxlang.tools.explain import code_of, plain

    code = code_of(line.rest) if line.rest else shell.last_code
    if not code:
        raise line.fail("E0223", "nothing has gone wrong yet", "`:explain E0401`")
    shell.say(plain(error_page(code)))


def _help(shell: Shell, line: Line) -> None:
    word = line.rest.removeprefix(":")
    name = ALIASES.get(word, word)
    if word and name in COMMANDS:
        shell.say(f"{COMMANDS[name].form}\n  {COMMANDS[name].doc}")
        return
    if word:
        raise line.fail("E0200", f"unknown command `:{word}`", _colons(did_you_mean(word, COMMANDS)))
    width = max(len(c.form) for c in COMMANDS.values())
    shell.say("Type an expression to see its value, or a statement to define something. Commands:")
    for command in COMMANDS.values():
        shell.say(f"  {command.form:<{width}}  {command.doc}")


def _quit(shell: Shell, line: Line) -> None:
    from rlxlang.tools.repl.shell import Leave

    raise Leave


COMMANDS: dict[str, Command] = {
    "type": Command(asking.type_, ":type EXPR", "the type of an expression, which is not evaluated", "expression"),
    "shape": Command(asking.shape, ":shape EXPR", "the shape of an expression, which is not evaluated", "expression"),
    "grad": Command(asking.grad, ":grad LOSS [X …]", "derivatives of a loss, by all parameters when none is named", "expression"),
    "time": Command(asking.time_, ":time EXPR", "how long an expression takes once it is compiled", "expression"),
    "ir": Command(asking.ir, ":ir [EXPR]", "the graph of an expression, or of the program", "expression"),
    "graph": Command(asking.graph, ":graph [FILE]", "a picture of the program: .svg, .html, .dot, .mmd, or a tree of lines", "file"),
    "run": Command(asking.run, ":run", "the outputs of the program"),
    "set": Command(
        setting.set_, ":set NAME = VALUE", "a value for an input, param, config or axis: an expression, randn, a .npy or .npz file", "value"
    ),
    "bind": Command(setting.bind, ":bind NAME = VALUE", "a value for `bind NAME;`", "value"),
    "names": Command(keeping.names, ":names", "what is defined, with types"),
    "list": Command(keeping.list_, ":list", "the program as it stands"),
    "undo": Command(keeping.undo, ":undo", "take the last definition back"),
    "load": Command(keeping.load, ":load FILE", "a model in place of the program; weights from .safetensors", "file"),
    "save": Command(keeping.save, ":save FILE", "the program as a model; its weights as .safetensors", "file"),
    "device": Command(_device, ":device [NAME]", "where to evaluate: auto, cpu, opencl, reference", "device"),
    "seed": Command(setting.seed, ":seed N", "of parameters and of everything else that is drawn"),
    "doc": Command(_doc, ":doc [NAME]", "what an op, keyword, dtype, initialiser or error code is; all of them", "doc"),
    "explain": Command(_explain, ":explain [CODE]", "what the code of an error means; the last one", "code"),
    "reset": Command(keeping.reset, ":reset", "forget everything"),
    "help": Command(_help, ":help [COMMAND]", "this list"),
    "quit": Command(_quit, ":quit", "leave"),
}  # fmt: skip
ALIASES = {"env": "names", "exit": "quit", "q": "quit", "h": "help", "?": "help", "t": "type", "l": "load", "": "help"}
