"""Options of a command in a TOML file, which those of the command line come before."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlxlang.diagnostics import RlxRuntimeError, RlxValueError, did_you_mean

# Tables of the file, and the options of the form NAME=VALUE that they stand for.
TABLES = {"set": "set", "opt": "opt"}
_NEVER = ("settings", "help", "run", "command", "model", "resume")


def read_settings(path: str | Path, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Defaults of a command's options from a TOML file.

    Names are those of the long options, with `-` or `_`; the tables `[set]` and `[opt]` hold what `--set` and `--opt` take.

    Raises:
        RlxRuntimeError: It cannot be read.
        RlxValueError: It is no TOML, or a name or a value is none of the options.
    """
    try:
        with Path(path).open("rb") as file:
            table = tomllib.load(file)
    except OSError as problem:
        raise RlxRuntimeError(f"`{path}` cannot be read: {problem.strerror or problem}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise RlxValueError(f"`{path}` is no TOML: {problem}") from problem
    actions = {a.dest: a for a in parser._actions if a.option_strings and a.dest not in _NEVER}
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in TABLES:
            found[name] = _assignments(path, key, value)
        elif name in actions:
            found[name] = _checked(path, key, value, actions[name])
        else:
            known = [*actions, *TABLES]
            raise RlxValueError(
                f"`{path}`: there is no setting `{key}`",
                notes=(f"there are {', '.join(dict.fromkeys(known))}",),
                helps=(did_you_mean(name, known),),
            )
    return found


def _assignments(path: str | Path, key: str, value: object) -> list[str]:
    if not isinstance(value, Mapping):
        raise RlxValueError(f"`{path}`: `[{key}]` is a table of names and values, {value!r} is given")
    return [f"{name}={_text(item)}" for name, item in value.items()]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _checked(path: str | Path, key: str, value: Any, action: argparse.Action) -> Any:
    """A value as the option itself would make it."""
    if isinstance(action, argparse._StoreTrueAction):
        wanted, fits = "true or false", isinstance(value, bool)
    elif action.type is int:
        wanted, fits = "a whole number", isinstance(value, int) and not isinstance(value, bool)
    elif action.type is float:
        wanted, fits = "a number", isinstance(value, (int, float)) and not isinstance(value, bool)
    elif isinstance(action, argparse._AppendAction):
        wanted, fits = "a list of strings", isinstance(value, list) and all(isinstance(v, str) for v in value)
    elif action.choices is not None:
        wanted, fits = f"one of {', '.join(action.choices)}", value in action.choices
    else:
        wanted, fits = "a string", isinstance(value, str)
    if not fits:
        raise RlxValueError(f"`{path}`: `{key}` is {wanted}, {value!r} is given")
    return float(value) if action.type is float else value


def written(options: argparse.Namespace, parser: argparse.ArgumentParser) -> str:
    """The options that differ from the defaults, as a TOML file from which the command does the same again."""
    lines, tables = [], []
    for action in parser._actions:
        name = action.dest
        if not action.option_strings or name in _NEVER:
            continue
        value = getattr(options, name)
        if name in TABLES:
            if value:
                pairs = [text.partition("=") for text in value]
                tables.append(
                    "\n".join(["", f"[{name}]", *(f"{_key(k.strip())} = {_toml(v.strip())}" for k, _, v in pairs)])
                )
        elif value is not None and value != [] and value is not False:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    escaped = "".join(
        c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04X}" if ord(c) < 1 << 16 else f"\\U{ord(c):08X}"
        for c in value
    )
    return f'"{escaped}"'
