"""Notebooks: `%load_ext rlxlang` gives `%%rlx name`, which defines a `Func`, and `%rlx expr`, which evaluates over arrays."""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape as html_escape
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from rlxlang.diagnostics import (
    Diagnostic,
    RlxError,
    RlxTypeError,
    Source,
    did_you_mean,
    error,
    raise_all,
    render_all,
)
from rlxlang.frontend import ast
from rlxlang.frontend.elaborate import elaborate_expression
from rlxlang.frontend.parse import parse_expression, parse_module
from rlxlang.frontend.values import ListValue
from rlxlang.frontend.walk import walk
from rlxlang.func import Func
from rlxlang.inputs import convert, python_array
from rlxlang.ir import GraphOutput, Node, Param
from rlxlang.loading import loads
from rlxlang.scope import GraphScope
from rlxlang.tools.cli import wants_colour
from rlxlang.tools.data import assignment, static_value
from rlxlang.types import F32, I32, Dim, from_numpy

USAGE = """\
%%rlx [NAME] [--config NAME=VALUE …] [--html] [--show]
TEXT

Defines NAME (default: model) as the `Func` of the text. Arrays for `bind` are taken from the namespace of the notebook.

  --config NAME=VALUE …   values of configs
  --html                  show errors as HTML
  --show                  show the function

%rlx EXPR

The value of an expression of the language over arrays, numbers and lists of the namespace.
"""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# The escapes of `render`, as colours that can be read on light and dark pages.
_STYLES = {
    "1;31": "color:#d9534f;font-weight:bold", "1;33": "color:#b5762a;font-weight:bold", "1": "font-weight:bold",
    "1;34": "color:#3b86c8", "1;36": "color:#2a9d8f;font-weight:bold",
}  # fmt: skip
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


class Notebook(Protocol):
    """What is used of IPython's `InteractiveShell`."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: Callable[..., Any], magic_kind: str, magic_name: str) -> None:
        """Make a function callable as a magic."""
        ...


class CellError(RlxError):
    """What is wrong with a cell; IPython shows the diagnostics in place of a traceback.

    Attributes:
        html: Whether to show them as HTML.
        colour: Whether to colour them as text.
    """

    html: bool = False
    colour: bool = False
    _is_shown: bool = False  # kernels render more than once

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        if self.html and (self._is_shown or show_html(diagnostics_html(self.diagnostics))):
            self._is_shown = True
            return [f"{len(self.diagnostics)} error{'' if len(self.diagnostics) == 1 else 's'}"]
        return render_all(self.diagnostics, colour=self.colour).splitlines()


def load_ipython_extension(shell: Notebook) -> None:
    """Register the magics and the completion of their texts."""
    magics = Magics(shell)
    shell.register_magic_function(magics.rlx, "line_cell", "rlx")
    completer = getattr(shell, "Completer", None)
    matchers = getattr(completer, "custom_matchers", None)
    if matchers is not None:
        unload_ipython_extension(shell)
        matchers.append(magics.matcher())


def unload_ipython_extension(shell: Any) -> None:
    """Take the completion away; IPython has no way to take a magic away, which therefore stays."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", "") != "rlxlang"]


@dataclass(frozen=True, slots=True)
class Options:
    """The line of a cell magic."""

    name: str = "model"
    configs: Mapping[str, Any] | None = None
    html: bool = False
    show: bool = False


@dataclass(eq=False)
class Magics:
    """The magics of one notebook."""

    shell: Notebook

    def rlx(self, line: str, cell: str | None = None) -> Any:
        """`%%rlx NAME` defines a function, `%rlx EXPR` evaluates an expression; `%rlx?` shows more."""
        html = False
        try:
            if cell is None:
                return self._line(line)
            options = parse_options(line)
            html = options.html
            return self._cell(options, cell)
        except RlxError as problem:
            shown = CellError(problem.diagnostics)
            shown.html, shown.colour = html, self._wants_colour()
            raise shown from None

    def _line(self, line: str) -> Any:
        if not line.strip():
            print(USAGE)
            return None
        return evaluate(line, self.shell.user_ns)

    def _cell(self, options: Options, cell: str) -> Func | None:
        # The line of the magic is the first one of the cell, so the lines of messages are those of the cell.
        text = "\n" + cell
        bind = {n: self.shell.user_ns[n] for n in bound_names(text) if n in self.shell.user_ns}
        try:
            with warnings.catch_warnings(record=True) as caught:
                func = loads(text, options.name, config=options.configs, bind=bind)
        except RlxError as problem:
            raise type(problem)([_for_notebook(d) for d in problem.diagnostics]) from None
        for warned in caught:
            print(warned.message, file=sys.stderr)
        self.shell.user_ns[options.name] = func
        return func if options.show else None

    def _wants_colour(self) -> bool:
        """Whether the place where errors are shown has colours: a terminal, or a page."""
        is_page = type(self.shell).__name__ == "ZMQInteractiveShell"
        return wants_colour(sys.stdout) or (is_page and not os.environ.get("NO_COLOR"))

    def matcher(self) -> Callable[[Any], Any]:
        """The completion of texts of the language, in the form of IPython's matchers."""
        completer: Any = import_module("IPython.core.completer")

        def matcher(context: Any) -> Any:
            found, typed = cell_completions(context.full_text, context.cursor_line, context.cursor_position, self.shell)
            if found is None:
                return {"completions": [], "suppress": False}
            return {
                "completions": [completer.SimpleCompletion(text=text, type=kind) for text, kind in found],
                "suppress": True,
                "matched_fragment": typed,
                "ordered": True,
            }

        marked: Callable[[Any], Any] = completer.context_matcher(identifier="rlxlang", priority=200)(matcher)
        return marked


def parse_options(line: str) -> Options:
    """The options of `%%rlx`.

    Raises:
        RlxTypeError: They make no sense.
    """
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise _usage(f"`%%rlx {line}`: {problem}") from None
    names: list[str] = []
    settings: list[str] = []
    flags: set[str] = set()
    in_configs = False
    for word in words:
        if word in ("--html", "--show"):
            flags.add(word)
            in_configs = False
        elif word in ("--config", "-c"):
            in_configs = True
        elif word.startswith("--config="):
            settings.append(word.removeprefix("--config="))
        elif word.startswith("-"):
            help_ = did_you_mean(word, ("--config", "--html", "--show"))
            raise _usage(f"`%%rlx` has no option `{word}`", help_)
        elif in_configs and "=" in word:
            settings.append(word)
        else:
            names.append(word)
            in_configs = False
    if len(names) > 1:
        raise _usage(f"`%%rlx` takes one name, {len(names)} are given: {', '.join(names)}")
    name = names[0] if names else "model"
    if not _IDENTIFIER.fullmatch(name):
        raise _usage(f"`{name}` is no name")
    pairs = [assignment(setting, "--config") for setting in settings]
    configs = {key: static_value(value) for key, value in pairs}
    return Options(name, configs, "--html" in flags, "--show" in flags)


def _usage(message: str, help_: str = "") -> RlxTypeError:
    return RlxTypeError(message, code="E0221", helps=(help_ or "`%%rlx NAME --config d=64 --html --show`",))


def bound_names(text: str) -> list[str]:
    """The names of the `bind` statements of a text."""
    if "bind" not in text:
        return []
    module = parse_module(Source("", text)).module
    statements = module.statements if module is not None else ()
    return [item.name.text for s in statements if isinstance(s, ast.Bind) for item in s.items]


def _for_notebook(diagnostic: Diagnostic) -> Diagnostic:
    if diagnostic.code != "E0215":
        return diagnostic
    return replace(diagnostic, helps=("assign it in a cell above, to an array, a list or an `rlx.Param`",))


# ------------------------------------------------------------------------------------------------ expressions


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over arrays, numbers and lists of a namespace.

    Args:
        text: The expression.
        names: Values by name; float64 is taken as F32 and int64 as I32, as for inputs.

    Returns:
        An array, a number, or a list of such.

    Raises:
        RlxError: Everything that is wrong with the expression.
    """
    source = Source("%rlx", text)
    parsed = parse_expression(source)
    if parsed.errors or parsed.expression is None:
        raise_all(parsed.errors)
    scope = GraphScope()
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name in _read_names(parsed.expression):
        if name in names:
            values[name] = _as_value(names[name], name, scope, arrays)
    value, diagnostics = elaborate_expression(source, values, scope.builder)
    if any(d.is_error for d in diagnostics):
        raise_all([_with_hint(d, names) for d in diagnostics])
    for diagnostic in diagnostics:
        print(diagnostic, file=sys.stderr)
    return _computed(value, scope, arrays)


def _read_names(expression: ast.Expr) -> list[str]:
    """The names of values in an expression, in order."""
    called = {id(node.func) for node in walk(expression) if isinstance(node, ast.Call)}
    refs = [node for node in walk(expression) if isinstance(node, ast.Ref) and len(node.path) == 1]
    return list(dict.fromkeys(ref.path[0].text for ref in refs if id(ref) not in called))


def _as_value(value: Any, name: str, scope: GraphScope, arrays: dict[str, Any]) -> Any:
    """A value of the namespace as the language has it.

    Arrays become inputs, so that new values compile nothing; so do lists of numbers, unless all are integers: a list of
    sizes or axes.
    """
    if isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, Param):
        value = value.data
    if isinstance(value, (list, tuple)):
        is_shape = all(type(v) is int for v in value)
        if not is_shape and all(isinstance(v, (bool, int, float, list, tuple)) for v in value):
            return _input(python_array(value, f"`{name}`"), name, scope, arrays)
        return ListValue(tuple(_as_value(v, f"{name}[{k}]", scope, arrays) for k, v in enumerate(value)))
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return _input(np.asarray(value), name, scope, arrays)
    raise RlxTypeError(
        error(
            "E0306",
            f"`{name}` is a {type(value).__name__} of the namespace, which an expression cannot use",
            helps=("arrays, numbers, texts and lists of such can be used",),
        )
    )


def _input(array: np.ndarray[Any, Any], name: str, scope: GraphScope, arrays: dict[str, Any]) -> Node:
    dtype = {np.dtype(np.float64): F32, np.dtype(np.int64): I32}.get(array.dtype, from_numpy(array.dtype))
    if dtype is None:
        raise RlxTypeError(f"`{name}` is an array of {array.dtype}, which no dtype of the language holds", code="E0806")
    arrays[name] = convert(array, dtype, f"`{name}`")
    return scope.node_of(scope.input(name, array.shape, dtype))


def _with_hint(diagnostic: Diagnostic, names: Mapping[str, Any]) -> Diagnostic:
    """For a name that is not known: the nearest array of the namespace."""
    if diagnostic.code != "E0201" or diagnostic.span is None or diagnostic.helps:
        return diagnostic
    usable = [n for n, v in names.items() if not n.startswith("_") and isinstance(v, (np.ndarray, int, float, list))]
    help_ = did_you_mean(diagnostic.span.text, usable)
    return diagnostic.with_helps(help_) if help_ else diagnostic


def _computed(value: Any, scope: GraphScope, arrays: Mapping[str, Any]) -> Any:
    """A value of the language as Python has it."""
    nodes: dict[Node, None] = {}
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, ListValue):
            todo.extend(item.items)
        elif isinstance(item, Node):
            nodes[item] = None
    computed: dict[Node, Any] = {}
    if nodes:
        outputs = [GraphOutput(f"value_{k}", node) for k, node in enumerate(nodes)]
        func = Func.from_graph(scope.finish("expression", outputs))
        computed = dict(zip(nodes, func.run(arrays), strict=True))
    return _python(value, computed)


def _python(value: Any, computed: Mapping[Node, Any]) -> Any:
    if isinstance(value, Node):
        return computed[value]
    if isinstance(value, ListValue):
        return [_python(item, computed) for item in value.items]
    return str(value) if isinstance(value, Dim) else value


# ------------------------------------------------------------------------------------------------ HTML


def diagnostics_html(diagnostics: Iterable[Diagnostic]) -> str:
    """Diagnostics as HTML, every text in it escaped."""
    text = render_all(diagnostics, colour=True)
    parts: list[str] = []
    place, is_open = 0, False
    for match in _ESCAPE.finditer(text):
        parts.append(html_escape(text[place : match.start()]))
        place = match.end()
        if is_open:
            parts.append("</span>")
        is_open = match[1] in _STYLES
        if is_open:
            parts.append(f'<span style="{_STYLES[match[1]]}">')
    parts.append(html_escape(text[place:]))
    parts.append("</span>" if is_open else "")
    return f'<pre style="background:transparent;overflow-x:auto;line-height:1.3">{"".join(parts)}</pre>'


def show_html(html: str) -> bool:
    """Show HTML in the notebook; False where there is none."""
    try:
        shown: Any = import_module("IPython.display")
    except ModuleNotFoundError:
        return False
    shown.display(shown.HTML(html))
    return True


# ------------------------------------------------------------------------------------------------ completion


def cell_completions(text: str, line: int, column: int, shell: Notebook) -> tuple[list[tuple[str, str]] | None, str]:
    """Completions of a cell and what they replace; None where the cell is not of this language.

    Args:
        text: The cell.
        line: Of the cursor, from 0.
        column: Of the cursor.
        shell: The notebook.
    """
    from rlxlang.tools.lsp.complete import completions

    lines = text.split("\n")
    head = lines[0]
    before = "\n".join([*lines[1:line], lines[line][:column]] if line else [])
    if head.startswith("%%rlx") and line:
        start = ""
    elif (match := re.match(r"(?:\w[\w, ]*=\s*)?%rlx\s+", lines[line])) is not None and column >= match.end():
        start, before = _as_inputs(shell.user_ns), lines[line][match.end() : column]
    else:
        return None, ""
    typed = re.search(r"\??\w*\Z", before)
    found = completions(start + before)
    return [(c.label if c.snippet or not c.insert else c.insert, c.kind) for c in found], typed[0] if typed else ""


def _as_inputs(names: Mapping[str, Any]) -> str:
    """Declarations of the arrays of a namespace, for completion."""
    shapes = {n: v.shape for n, v in names.items() if isinstance(v, np.ndarray) and not n.startswith("_")}
    return "".join(f"input {n}: [{', '.join(map(str, s))}];\n" for n, s in shapes.items() if n.isidentifier())
