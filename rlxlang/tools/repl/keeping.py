"""Commands about the program: reading, writing, listing, taking back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang.diagnostics import (
    RlxRuntimeError,
    RlxSyntaxError,
    Source,
)
from rlxlang.frontend.values import ListValue
from rlxlang.func import Func
from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.tools.repl import program, show
from rlxlang.tools.repl.command import Line, path_of, state, write_text

if TYPE_CHECKING:
    from rlxlang.tools.repl.shell import Shell


def load(shell: Shell, line: Line) -> None:
    """`:load`."""
    if not line.rest:
        raise line.fail("E0223", "a file is missing", "`:load model.rlx`, `:load weights.safetensors`")
    path = path_of(line.rest)
    if path.suffix == ".safetensors":
        _load_weights(shell, path)
        return
    before = shell.session.text
    load_program(shell, path)
    shell.undo.append(before)


def load_program(shell: Shell, path: Path, configs: dict[str, Any] | None = None) -> None:
    """Take a file in place of the program, and say what it holds.

    Raises:
        RlxError: It cannot be read or is wrong.
    """
    session = shell.session
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as problem:
        raise RlxSyntaxError(f"{path} is not valid UTF-8 at byte {problem.start}", code="E0127") from None
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise RlxSyntaxError(f"{path} cannot be read: {why}", code="E0128") from None
    added = session.load(path, Source(str(path), text), configs)
    shell.report(added.warnings)
    counts = {"input": 0, "param": 0}
    for entry in session.interface.inputs:
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
    parts = [f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in counts.items() if n and kind != "seed"]
    count = len(session.text.entries)
    shell.say(f"{path.name}: {', '.join([f'{count} statement' + ('' if count == 1 else 's'), *parts])}")


def _load_weights(shell: Shell, path: Path) -> None:
    from rlxlang.checkpoint import load_weights

    session = shell.session
    params = tuple(e for e in session.interface.inputs if e.kind == "param")
    if not params:
        raise RlxRuntimeError("the session has no parameters to load", helps=("load the model first",))
    outputs = tuple(GraphOutput(e.name, e.node) for e in params)
    func = load_weights(Func.from_graph(Graph("session", params, outputs)), path)
    for entry in params:
        session.values.set(entry, func.bindings[entry.name])
    shell.say(f"{path.name}: {len(params)} param{'' if len(params) == 1 else 's'}")


def save(shell: Shell, line: Line) -> None:
    """`:save`."""
    if not line.rest:
        raise line.fail("E0223", "a file is missing", "`:save model.rlx`, `:save weights.safetensors`")
    path = path_of(line.rest)
    if path.suffix == ".safetensors":
        _save_weights(shell, path)
        return
    from rlxlang.tools.fmt import format_source

    write_text(path, format_source(shell.session.saved_text()))
    count = len(shell.session.text.entries)
    shell.say(f"{count} statement{'' if count == 1 else 's'} saved to {path}")


def _save_weights(shell: Shell, path: Path) -> None:
    from rlxlang.checkpoint import write_tensors

    values, bound = shell.session.values, shell.session.bound
    found = {}
    for entry in shell.session.interface.params:
        array = values.param(entry)
        if entry.name not in values.arrays and entry.name in bound:
            array = bound[entry.name]
        if array is not None:
            found[entry.name] = array
    write_tensors(path, found, {"format": "rlxlang-weights"})
    shell.say(f"{len(found)} param{'' if len(found) == 1 else 's'} saved to {path}")


def names(shell: Shell, line: Line) -> None:
    """`:names`."""
    session = shell.session
    rows: list[tuple[str, str, str]] = []
    values, inputs = program.names_of(session.text)
    by_node = {e.node: e for e in inputs}
    for name, value in values.items():
        entry = by_node.get(value) if isinstance(value, Node) else None
        kind = entry.kind if entry is not None else session.kind_of(name)
        more = state(shell, entry.name) if entry is not None else ""
        what = show.type_of(value) if isinstance(value, (Node, ListValue)) else show.value_text(value, {}, {})
        rows.append((kind, name, "; ".join(filter(None, (what, more)))))
    listed = {e.node for e in (by_node.get(v) for v in values.values() if isinstance(v, Node)) if e is not None}
    for entry in inputs:
        if entry.kind != "seed" and entry.node not in listed:
            rows.append((entry.kind, entry.name, f"{entry.node.type}; {state(shell, entry.name)}"))
    rows += session.functions()
    if not rows:
        shell.say("nothing is defined yet")
        return
    for text in _columns(rows):
        shell.say(text)


def _columns(rows: list[tuple[str, str, str]]) -> Iterable[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    return (f"{kind:<{widths[0]}}  {name:<{widths[1]}}  {what}".rstrip() for kind, name, what in rows)


def list_(shell: Shell, line: Line) -> None:
    """`:list`."""
    shell.write(shell.session.text.source or "nothing is defined yet\n")


def undo(shell: Shell, line: Line) -> None:
    """`:undo`."""
    if not shell.undo:
        raise line.fail("E0200", "there is nothing to undo")
    before = shell.session.text
    shell.session.restore(shell.undo.pop())
    kept = set(shell.session.text.entries)
    for entry in before.entries:
        if entry not in kept:
            shell.say(f"undone: {entry.statement.span.text.partition(chr(10))[0]}")
    shell.session.values.forget_misfits(shell.session.interface.inputs)


def reset(shell: Shell, line: Line) -> None:
    """`:reset`."""
    shell.session.reset()
    shell.undo.clear()
