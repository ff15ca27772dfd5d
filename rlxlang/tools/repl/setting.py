"""Commands that give values: to inputs, parameters, configs, axes, binds and the seed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rlxlang.diagnostics import (
    RlxNameError,
    did_you_mean,
    error,
)
from rlxlang.tools.repl import show
from rlxlang.tools.repl.command import NAME, Line, state
from rlxlang.tools.repl.values import Fill, is_array_file

if TYPE_CHECKING:
    from rlxlang.tools.repl.shell import Shell

_SETTING = re.compile(rf"\s*(?P<name>\?\w*|{NAME})(?P<list>\[\])?\s*=(?!=)\s*(?P<value>.*)", re.DOTALL)


def set_(shell: Shell, line: Line) -> None:
    """`:set`."""
    session = shell.session
    if not line.rest:
        _values(shell)
        return
    match = _SETTING.fullmatch(line.source.text, line.start)
    if match is None or match["list"]:
        raise line.fail("E0101", "`NAME = VALUE` is expected", "`:set x = [[1, 2], [3, 4]]`, `:set x = randn`")
    name, typed = match["name"], match["value"].strip()
    if not typed:
        raise line.fail("E0110", "a value is missing", f"`:set {name} = randn`, or a number, a list, a file")
    if name.startswith("?"):
        _set_axis(shell, line, name, typed)
        return
    if session.is_config(name):
        result = session.evaluate(shell.expression(line.source, match.start("value")), line.source.name)
        if not isinstance(result.value, (bool, int, float, str)):
            raise line.fail("E0305", f"a config is a number, a Bool or a text, this is {show.type_of(result.value)}")
        shell.undo.append(session.text)
        shell.tell_gone(session.set_config(name, result.value))
        return
    fill = Fill.parse(typed)
    value: Any = fill
    if fill is None and session.entry(name) is not None:
        value = _right_side(shell, line, match, name)
    array = session.set(name, value)
    if fill is not None:
        shell.say(f"{name}: {show.type_text(array)}")


def _right_side(shell: Shell, line: Line, match: re.Match[str], name: str) -> Any:
    typed = match["value"].strip()
    expression = None if is_array_file(typed) else shell.expression(line.source, match.start("value"))
    return shell.session.value_of(typed, name, expression, line.source.name)


def _set_axis(shell: Shell, line: Line, name: str, typed: str) -> None:
    session = shell.session
    if not typed.isdigit():
        raise line.fail("E0407", "the size of an axis is an integer of 0 or more")
    axes = session.interface.axes()
    if name not in axes:
        help_ = did_you_mean(name, axes) or (f"the axes are {', '.join(axes)}" if axes else "")
        raise RlxNameError(error("E0201", f"no input has the axis `{name}`", helps=(help_,)))
    again = session.values.resize(name, int(typed), session.interface.inputs)
    if again:
        shell.say(f"filled again: {', '.join(again)}")


def _values(shell: Shell) -> None:
    entries = [e for e in shell.session.interface.inputs if e.kind != "seed"]
    for entry in entries:
        shell.say(f"{entry.name}: {state(shell, entry.name)}")
    if not entries:
        shell.say("there are no inputs and no params")


def bind(shell: Shell, line: Line) -> None:
    """`:bind`."""
    match = _SETTING.fullmatch(line.source.text, line.start)
    if match is None or not match["name"].isidentifier() or not match["value"].strip():
        raise line.fail("E0101", "`NAME = VALUE` is expected", "`:bind t = [1.0, 2.0]`, `:bind t = file.npy`")
    value = _right_side(shell, line, match, match["name"])
    shell.session.give(match["name"], value, is_list=bool(match["list"]))


def seed(shell: Shell, line: Line) -> None:
    """`:seed`."""
    if not re.fullmatch(r"-?\d+", line.rest):
        raise line.fail("E0305", "a seed is an integer", "`:seed 1`")
    shell.session.reseed(int(line.rest))
