"""The commands of a session: `:set`, `:grad`, `:load` and the rest."""

from __future__ import annotations

import re
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlxlang.device import Device, devices
from rlxlang.diagnostics import (
    RlxNameError,
    RlxRuntimeError,
    RlxSyntaxError,
    Source,
    Span,
    did_you_mean,
    error,
    error_class,
)
from rlxlang.frontend import ast
from rlxlang.frontend.values import ListValue
from rlxlang.func import Func
from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.tools.repl import program, show
from rlxlang.tools.repl.help import all_words, documentation
from rlxlang.tools.repl.interrupt import interruptible
from rlxlang.tools.repl.reading import read
from rlxlang.tools.repl.values import Fill, is_array_file

if TYPE_CHECKING:
    from rlxlang.tools.repl.session import Session
    from rlxlang.tools.repl.shell import Shell

_LINE = re.compile(r"\s*:\s*(?P<word>[A-Za-z?!]*)\s*(?P<rest>.*)", re.DOTALL)
_PATH = r"[A-Za-z_][\w.]*(?:\[\d+\])?"
_NAMES = re.compile(rf"\s*{_PATH}(?:(?:\s*,\s*|\s+){_PATH})*\s*")
_SETTING = re.compile(rf"\s*(?P<name>\?\w*|{_PATH})(?P<list>\[\])?\s*=(?!=)\s*(?P<value>.*)", re.DOTALL)
_MOST_RUNS, _LEAST_RUNS, _TIMING = 10_000, 3, 0.3  # of `:time`; the last in seconds


@dataclass(frozen=True, slots=True)
class Line:
    """A command as typed.

    Attributes:
        source: The line.
        start: Where its arguments begin.
    """

    source: Source
    start: int

    @property
    def rest(self) -> str:
        """The arguments, without the blanks around them."""
        return self.source.text[self.start :].strip()

    def fail(self, code: str, message: str, help_: str = "") -> Exception:
        """The exception for arguments that make no sense."""
        text = self.source.text.rstrip()
        start = min(self.start, len(text))
        span = Span(source=self.source, start=start, end=max(start, len(text)))
        return error_class(code)(error(code, message, span, helps=(help_,)))


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        run: What it does.
        form: How it is written.
        doc: What it does, in a line.
        argument: What its argument is, for completion.
    """

    run: Callable[[Shell, Line], None]
    form: str
    doc: str
    argument: str = ""


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


# ------------------------------------------------------------------------------------------------ about expressions


def _type(shell: Shell, line: Line) -> None:
    meaning = shell.session.meaning(shell.expression(line.source, line.start), line.source.name)
    shell.report(meaning.warnings)
    shell.say(show.type_of(meaning.value))


def _shape(shell: Shell, line: Line) -> None:
    meaning = shell.session.meaning(shell.expression(line.source, line.start), line.source.name)
    shell.report(meaning.warnings)
    shell.say(show.shape_of(meaning.value))


def _ir(shell: Shell, line: Line) -> None:
    if not line.rest:
        shell.write(str(Func.from_graph(shell.session.graph())))
        return
    meaning = shell.session.meaning(shell.expression(line.source, line.start), line.source.name)
    nodes = program.nodes_of(meaning.value)
    if not nodes:
        raise line.fail("E0304", f"this is no tensor but {show.type_of(meaning.value)}")
    needed = set(Graph("", (), tuple(GraphOutput(str(k), n) for k, n in enumerate(nodes))).nodes)
    names = ["value"] if len(nodes) == 1 else [f"value[{k}]" for k in range(len(nodes))]
    outputs = tuple(GraphOutput(n, node) for n, node in zip(names, nodes, strict=True))
    inputs = tuple(e for e in meaning.graph.inputs if e.node in needed)
    shell.write(str(Func.from_graph(Graph("session", inputs, outputs))))


def _graph(shell: Shell, line: Line) -> None:
    from rlxlang import pictures
    from rlxlang.tools.graph import FORMATS

    func = Func.from_graph(shell.session.graph())
    if not line.rest:
        shell.write(pictures.text(func))
        return
    path = _path(line.rest)
    chosen = FORMATS.get(path.suffix.lower())
    if chosen is None:
        raise line.fail("E0350", f"the ending of `{path}` names no format", f"the endings are {', '.join(FORMATS)}")
    draw = {"svg": pictures.svg, "html": pictures.html, "dot": pictures.dot, "mermaid": pictures.mermaid}
    _write_text(path, draw.get(chosen, pictures.text)(func))
    shell.say(f"saved to {path}")


def _time(shell: Shell, line: Line) -> None:
    session = shell.session
    meaning = session.meaning(shell.expression(line.source, line.start), line.source.name)
    nodes = program.nodes_of(meaning.value)
    if not nodes:
        raise line.fail("E0304", f"this is no tensor but {show.type_of(meaning.value)}")
    func = session.function(meaning.graph, nodes, meaning.bound)
    shell.say(interruptible(lambda: _timing(session, func)))


def _timing(session: Session, func: Func) -> str:
    device = session.device or func.traced.fastest()
    begin = time.perf_counter()
    jitted = func.jit(device)
    feeds = session.feeds(func)
    values = [feeds.pop(name) for name in func.input_names()]
    seed = dict.fromkeys(("seed",) if feeds else (), session.values.seed)
    jitted.call(*values, **seed)
    compiling = time.perf_counter() - begin
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < _LEAST_RUNS or (len(times) < _MOST_RUNS and time.perf_counter() - begin < _TIMING):
        start = time.perf_counter()
        jitted.call(*values, **seed)
        times.append(time.perf_counter() - start)
    return (
        f"{_seconds(statistics.median(times))} on {device}, best {_seconds(min(times))} of {len(times):,} runs; "
        f"first call {_seconds(compiling)}"
    )


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _grad(shell: Shell, line: Line) -> None:
    """The loss may hold blanks: it is the shortest beginning that is an expression with only names behind it."""
    session, source = shell.session, line.source
    text = source.text.rstrip()
    if not line.rest:
        raise line.fail("E0223", "a loss is missing", "`:grad loss x`, or `:grad loss` for all parameters")
    end = len(text)
    names: list[str] = []
    for gap in re.finditer(r"\s+", text[line.start :]):
        place = line.start + gap.start()
        if _NAMES.fullmatch(text[place:]) and not read(Source("", text[line.start : place])).has_errors:
            end, names = place, re.split(r"[\s,]+", text[place:].strip())
            break
    loss = shell.expression(source, line.start, end)
    meaning = session.meaning(loss, source.name)
    by_path = all(
        "." in name and meaning.graph.input(name) is not None for name in names
    )  # `h.0.w` can be no expression
    if not by_path:
        call = _gradient_call(loss, names, shell, source, end)
        result = session.evaluate(call, source.name)
        values = result.value.items if isinstance(result.value, ListValue) else (result.value,)
        for name, value in zip(names, values, strict=True):
            shell.say(f"d_{name}: {show.value_text(value, result.arrays, result.sizes)}")
        return
    if not isinstance(meaning.value, Node):
        raise line.fail("E0304", f"a loss is a tensor of one element, this is {show.type_of(meaning.value)}")
    by = names or _params_of(meaning.graph, meaning.value)
    if not by:
        raise line.fail("E0223", "the loss depends on no parameter", "name what to differentiate by: `:grad loss x`")
    for name, array in session.gradients(meaning.graph, meaning.value, by, meaning.bound).items():
        shell.say(f"d_{name}: {show.array_text(array)}")


def _params_of(graph: Graph, loss: Node) -> list[str]:
    """The parameters that a loss can be differentiated by."""
    needed = set(Graph("", (), (GraphOutput("loss", loss),)).nodes)
    return [e.name for e in graph.inputs if e.kind == "param" and e.node in needed and e.node.dtype.is_differentiable]


def _gradient_call(loss: ast.Expr, names: list[str], shell: Shell, source: Source, start: int) -> ast.Call:
    """`grad(loss, x, y)`, its parts where they were typed."""
    args = [ast.Arg(loss.span, None, loss)]
    place = start
    for name in names:
        place = source.text.index(name, place)
        wrt = shell.expression(source, place, place + len(name))
        args.append(ast.Arg(wrt.span, None, wrt))
        place += len(name)
    return ast.Call(loss.span, ast.Ref(loss.span, (ast.Name(loss.span, "grad"),)), tuple(args))


def _run(shell: Shell, line: Line) -> None:
    if line.rest:
        raise line.fail("E0220", "`:run` takes no argument", "type an expression to evaluate it")
    _, outputs = shell.session.outputs()
    for name, array in outputs.items():
        shell.say(f"{name}: {show.array_text(array)}")


# ------------------------------------------------------------------------------------------------ values


def _set(shell: Shell, line: Line) -> None:
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
        shell.say(f"{entry.name}: {_state(shell, entry.name)}")
    if not entries:
        shell.say("there are no inputs and no params")


def _state(shell: Shell, name: str) -> str:
    session = shell.session
    entry = session.interface.input(name)
    array = session.values.arrays.get(name)
    if array is not None:
        return f"set, {show.type_text(array)}"
    if entry is not None and entry.kind == "param":
        if name in session.bound:
            return "bound"
        return f"starts with {entry.init}" if entry.init is not None else "no value"
    return "no value"


def _bind(shell: Shell, line: Line) -> None:
    match = _SETTING.fullmatch(line.source.text, line.start)
    if match is None or not match["name"].isidentifier() or not match["value"].strip():
        raise line.fail("E0101", "`NAME = VALUE` is expected", "`:bind t = [1.0, 2.0]`, `:bind t = file.npy`")
    value = _right_side(shell, line, match, match["name"])
    shell.session.give(match["name"], value, is_list=bool(match["list"]))


def _seed(shell: Shell, line: Line) -> None:
    if not re.fullmatch(r"-?\d+", line.rest):
        raise line.fail("E0305", "a seed is an integer", "`:seed 1`")
    shell.session.reseed(int(line.rest))


# ------------------------------------------------------------------------------------------------ the program


def _load(shell: Shell, line: Line) -> None:
    if not line.rest:
        raise line.fail("E0223", "a file is missing", "`:load model.rlx`, `:load weights.safetensors`")
    path = _path(line.rest)
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


def _save(shell: Shell, line: Line) -> None:
    if not line.rest:
        raise line.fail("E0223", "a file is missing", "`:save model.rlx`, `:save weights.safetensors`")
    path = _path(line.rest)
    if path.suffix == ".safetensors":
        _save_weights(shell, path)
        return
    from rlxlang.tools.fmt import format_source

    _write_text(path, format_source(shell.session.saved_text()))
    count = len(shell.session.text.entries)
    shell.say(f"{count} statement{'' if count == 1 else 's'} saved to {path}")


def _write_text(path: Path, text: str) -> None:
    if path.is_dir():
        raise RlxRuntimeError(f"`{path}` cannot be written: it is a folder")
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise RlxRuntimeError(f"`{path}` cannot be written: {why}") from None


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


def _path(text: str) -> Path:
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    try:
        return Path(bare).expanduser()
    except RuntimeError:  # no such user
        return Path(bare)


def _names(shell: Shell, line: Line) -> None:
    session = shell.session
    rows: list[tuple[str, str, str]] = []
    values, inputs = program.names_of(session.text)
    by_node = {e.node: e for e in inputs}
    for name, value in values.items():
        entry = by_node.get(value) if isinstance(value, Node) else None
        kind = entry.kind if entry is not None else session.kind_of(name)
        more = _state(shell, entry.name) if entry is not None else ""
        what = show.type_of(value) if isinstance(value, (Node, ListValue)) else show.value_text(value, {}, {})
        rows.append((kind, name, "; ".join(filter(None, (what, more)))))
    listed = {e.node for e in (by_node.get(v) for v in values.values() if isinstance(v, Node)) if e is not None}
    for entry in inputs:
        if entry.kind != "seed" and entry.node not in listed:
            rows.append((entry.kind, entry.name, f"{entry.node.type}; {_state(shell, entry.name)}"))
    rows += session.functions()
    if not rows:
        shell.say("nothing is defined yet")
        return
    for text in _columns(rows):
        shell.say(text)


def _columns(rows: list[tuple[str, str, str]]) -> Iterable[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    return (f"{kind:<{widths[0]}}  {name:<{widths[1]}}  {what}".rstrip() for kind, name, what in rows)


def _list(shell: Shell, line: Line) -> None:
    shell.write(shell.session.text.source or "nothing is defined yet\n")


def _undo(shell: Shell, line: Line) -> None:
    if not shell.undo:
        raise line.fail("E0200", "there is nothing to undo")
    before = shell.session.text
    shell.session.restore(shell.undo.pop())
    kept = set(shell.session.text.entries)
    for entry in before.entries:
        if entry not in kept:
            shell.say(f"undone: {entry.statement.span.text.partition(chr(10))[0]}")
    shell.session.values.forget_misfits(shell.session.interface.inputs)


def _reset(shell: Shell, line: Line) -> None:
    shell.session.reset()
    shell.undo.clear()


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
    "type": Command(_type, ":type EXPR", "the type of an expression, which is not evaluated", "expression"),
    "shape": Command(_shape, ":shape EXPR", "the shape of an expression, which is not evaluated", "expression"),
    "grad": Command(_grad, ":grad LOSS [X …]", "derivatives of a loss, by all parameters when none is named", "expression"),
    "time": Command(_time, ":time EXPR", "how long an expression takes once it is compiled", "expression"),
    "ir": Command(_ir, ":ir [EXPR]", "the graph of an expression, or of the program", "expression"),
    "graph": Command(_graph, ":graph [FILE]", "a picture of the program: .svg, .html, .dot, .mmd, or a tree of lines", "file"),
    "run": Command(_run, ":run", "the outputs of the program"),
    "set": Command(
        _set, ":set NAME = VALUE", "a value for an input, param, config or axis: an expression, randn, a .npy or .npz file", "value"
    ),
    "bind": Command(_bind, ":bind NAME = VALUE", "a value for `bind NAME;`", "value"),
    "names": Command(_names, ":names", "what is defined, with types"),
    "list": Command(_list, ":list", "the program as it stands"),
    "undo": Command(_undo, ":undo", "take the last definition back"),
    "load": Command(_load, ":load FILE", "a model in place of the program; weights from .safetensors", "file"),
    "save": Command(_save, ":save FILE", "the program as a model; its weights as .safetensors", "file"),
    "device": Command(_device, ":device [NAME]", "where to evaluate: auto, cpu, opencl, reference", "device"),
    "seed": Command(_seed, ":seed N", "of parameters and of everything else that is drawn"),
    "doc": Command(_doc, ":doc [NAME]", "what an op, keyword, dtype, initialiser or error code is; all of them", "doc"),
    "explain": Command(_explain, ":explain [CODE]", "what the code of an error means; the last one", "code"),
    "reset": Command(_reset, ":reset", "forget everything"),
    "help": Command(_help, ":help [COMMAND]", "this list"),
    "quit": Command(_quit, ":quit", "leave"),
}  # fmt: skip
ALIASES = {"env": "names", "exit": "quit", "q": "quit", "h": "help", "?": "help", "t": "type", "l": "load", "": "help"}
