"""Graphs as text: one line for each node, readable, and read back by `rlxlang.ir.parser`.

    graph "model" {
      %0: [F32; ?batch, 4] = input "x"
      %1: [F32; 4, 3] = param "w" init normal(std: 0.02) doc "weights"
      %2: [F32; ?batch, 3] = dot_general(%0, %1; batch: [[], []], contract: [[1], [0]])
      require ?batch <= 1024 for "the batch"
      out "y" = %2
    }

Graphs in options (bodies of loops, branches) stand above the graph that uses them, once each, as `graph #1 "body" {…}`, and
are named `#1`. Constants are written with all their numbers (`F32[2]{1.0, -0.0}`), long ones as base64 of their bytes.
Origins are no part of the text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlxlang.ir.node import Constant, Graph, GraphInput, Node
from rlxlang.types import Dim, DType, from_numpy

_NUMBERS_SHOWN = 16


def print_graph(graph: Graph, *, exact: bool = True) -> str:
    """The text of a graph and of all graphs inside it.

    Args:
        graph: What to print.
        exact: Whether constants are complete, so that the text can be read back; else long ones show only their size.

    Raises:
        TypeError: `exact`, and an option of an op has no text.
    """
    numbers = number_bodies(graph)
    parts = []
    for body, number in [*numbers.items(), (graph, 0)]:
        title = f"#{number} " if number else ""
        lines = [f"graph {title}{quoted(body.name)} {{", *(f"  {line}" for line in _lines(body, numbers, exact)), "}"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def number_bodies(graph: Graph) -> dict[Graph, int]:
    """The graphs inside a graph, at any depth, inner ones first, numbered from 1."""
    numbers: dict[Graph, int] = {}
    todo: list[tuple[Graph, bool]] = [(graph, False)]
    while todo:
        current, ready = todo.pop()
        if current in numbers:
            continue
        if ready:
            if current is not graph:
                numbers[current] = len(numbers) + 1
            continue
        todo.append((current, True))
        todo.extend((b, False) for node in reversed(current.nodes) for b in reversed(bodies_of(node)))
    return numbers


def bodies_of(node: Node) -> list[Graph]:
    """The graphs in the options of a node, in order."""
    found: list[Graph] = []
    todo: list[Any] = [node.attrs[k] for k in sorted(node.attrs, reverse=True)]
    while todo:
        value = todo.pop()
        if isinstance(value, Graph):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            todo.extend(reversed(value))
    return found


def name_nodes(graph: Graph) -> dict[Node, str]:
    """The name `%k` of every node: inputs first, then the others in order."""
    names: dict[Node, str] = {}
    for node in (*(e.node for e in graph.inputs), *graph.nodes):
        names.setdefault(node, f"%{len(names)}")
    return names


def node_line(node: Node, names: Mapping[Node, str], numbers: Mapping[Graph, int], exact: bool = False) -> str:
    """The line of one node that is no input; operands without a name show as `%?`."""
    operands = ", ".join(names.get(i, "%?") for i in node.inputs)
    options = ", ".join(f"{k}: {_value(node.attrs[k], numbers, exact)}" for k in sorted(node.attrs))
    inside = f"{operands}; {options}" if options and operands else operands or (options and f"; {options}")
    return f"{names.get(node, '%?')}: {node.type} = {node.op.name}({inside})"


def quoted(text: str) -> str:
    """A string with all but ASCII letters and signs escaped."""
    return json.dumps(text)


def _lines(graph: Graph, numbers: Mapping[Graph, int], exact: bool) -> Iterator[str]:
    names = name_nodes(graph)
    for entry in graph.inputs:
        yield _input_line(entry, names)
    given = {e.node for e in graph.inputs}
    for node in graph.nodes:
        if node not in given:
            yield node_line(node, names, numbers, exact)
    for sourced in graph.guards:
        yield f"require {sourced.guard} for {quoted(sourced.guard.what)}"
    for output in graph.outputs:
        yield f"{output.role} {quoted(output.name)} = {names[output.node]}"


def _input_line(entry: GraphInput, names: Mapping[Node, str]) -> str:
    text = f"{names[entry.node]}: {entry.node.type} = {entry.kind} {quoted(entry.name)}"
    if entry.init is not None:
        args = ", ".join(f"{k}: {_value(v, {}, True)}" for k, v in entry.init.args)
        text += f" init {entry.init.name}({args})"
    return f"{text} doc {quoted(entry.doc)}" if entry.doc else text


def _value(value: Any, numbers: Mapping[Graph, int], exact: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, (int, Dim, DType)):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_value(v, numbers, exact) for v in value) + "]"
    if isinstance(value, Graph):
        return f"#{numbers.get(value, '?')}"
    if isinstance(value, Constant):
        return _constant(value.array, exact)
    if exact:
        raise TypeError(f"an option of type {type(value).__name__} has no text")
    return repr(value)


def _constant(array: np.ndarray[Any, Any], exact: bool) -> str:
    dtype = from_numpy(array.dtype)
    head = f"{dtype}[{', '.join(map(str, array.shape))}]"
    if array.size <= _NUMBERS_SHOWN and array.dtype.kind != "c":
        numbers = [_value(v, {}, True) for v in array.astype(_shown_as(array.dtype)).reshape(-1).tolist()]
        # The bits of a NaN do not show in its name.
        if dtype is None or not dtype.is_float or not np.isnan(array).any():
            return f"{head}{{{', '.join(numbers)}}}"
    if not exact and array.size <= _NUMBERS_SHOWN and array.dtype.kind == "c":
        return f"{head}{{{', '.join(f'{z.real}{z.imag:+}j' for z in array.reshape(-1).tolist())}}}"
    if not exact:
        return f"{head}{{…}}"
    return f"{head}{{{quoted(base64.b64encode(array.tobytes()).decode())}}}"


def _shown_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Floats are written as those of 64 bits, which hold all others exactly."""
    return dtype if dtype.kind in "biu" else np.dtype(np.float64)
