"""Commands about expressions: their types, graphs, derivatives and times."""

from __future__ import annotations

import re
import statistics
import time
from typing import TYPE_CHECKING

from rlxlang.diagnostics import (
    Source,
)
from rlxlang.frontend import ast
from rlxlang.frontend.values import ListValue
from rlxlang.func import Func
from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.tools.repl import program, show
from rlxlang.tools.repl.command import NAME, Line, path_of, write_text
from rlxlang.tools.repl.interrupt import interruptible
from rlxlang.tools.repl.reading import read

if TYPE_CHECKING:
    from rlxlang.tools.repl.session import Session
    from rlxlang.tools.repl.shell import Shell

_NAMES = re.compile(rf"\s*{NAME}(?:(?:\s*,\s*|\s+){NAME})*\s*")
_MOST_RUNS, _LEAST_RUNS, _TIMING = 10_000, 3, 0.3  # of `:time`; the last in seconds


def type_(shell: Shell, line: Line) -> None:
    """`:type`."""
    meaning = shell.session.meaning(shell.expression(line.source, line.start), line.source.name)
    shell.report(meaning.warnings)
    shell.say(show.type_of(meaning.value))


def shape(shell: Shell, line: Line) -> None:
    """`:shape`."""
    meaning = shell.session.meaning(shell.expression(line.source, line.start), line.source.name)
    shell.report(meaning.warnings)
    shell.say(show.shape_of(meaning.value))


def ir(shell: Shell, line: Line) -> None:
    """`:ir`."""
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


def graph(shell: Shell, line: Line) -> None:
    """`:graph`."""
    from rlxlang import pictures
    from rlxlang.tools.graph import FORMATS

    func = Func.from_graph(shell.session.graph())
    if not line.rest:
        shell.write(pictures.text(func))
        return
    path = path_of(line.rest)
    chosen = FORMATS.get(path.suffix.lower())
    if chosen is None:
        raise line.fail("E0350", f"the ending of `{path}` names no format", f"the endings are {', '.join(FORMATS)}")
    draw = {"svg": pictures.svg, "html": pictures.html, "dot": pictures.dot, "mermaid": pictures.mermaid}
    write_text(path, draw.get(chosen, pictures.text)(func))
    shell.say(f"saved to {path}")


def time_(shell: Shell, line: Line) -> None:
    """`:time`."""
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


def grad(shell: Shell, line: Line) -> None:
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


def run(shell: Shell, line: Line) -> None:
    """`:run`."""
    if line.rest:
        raise line.fail("E0220", "`:run` takes no argument", "type an expression to evaluate it")
    _, outputs = shell.session.outputs()
    for name, array in outputs.items():
        shell.say(f"{name}: {show.array_text(array)}")
