"""What the tests of elaboration share: values of a text's outputs, and its diagnostics as short records."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.diagnostics import Diagnostic, Source
from rlxlang.frontend import Elaborated, elaborate_source
from rlxlang.interp import evaluate
from rlxlang.ir import Graph

Array = np.ndarray[Any, Any]


def elaborated(text: str, **configs: Any) -> Elaborated:
    return elaborate_source(Source("model.rlx", text), configs)


def graph_of(text: str, **configs: Any) -> Graph:
    found = elaborated(text, **configs)
    assert found.graph is not None, "\n".join(map(str, found.diagnostics))
    return found.graph


def values(text: str, arrays: dict[str, Any] | None = None, **configs: Any) -> dict[str, Array]:
    graph = graph_of(text, **configs)
    given = {entry.name: np.asarray((arrays or {})[entry.name], entry.node.dtype.numpy) for entry in graph.inputs}
    return {o.name: r for o, r in zip(graph.outputs, evaluate(graph, given), strict=True)}


def value(text: str, arrays: dict[str, Any] | None = None, **configs: Any) -> Array:
    """The only output."""
    (result,) = values(text, arrays, **configs).values()
    return result


def underlined(diagnostic: Diagnostic) -> str:
    return "" if diagnostic.span is None else diagnostic.span.text


def errors(text: str, **configs: Any) -> list[tuple[str, str]]:
    """Code and underlined text of every error."""
    found = elaborated(text, **configs)
    result = [(d.code, underlined(d)) for d in found.diagnostics if d.is_error]
    assert (found.graph is None) == bool(result)
    return result


def only_error(text: str, **configs: Any) -> Diagnostic:
    found = [d for d in elaborated(text, **configs).diagnostics if d.is_error]
    assert len(found) == 1, "\n".join(map(str, found)) or "no error"
    return found[0]


def warnings_of(text: str, **configs: Any) -> list[tuple[str, str]]:
    graph_of(text, **configs)
    return [(d.code, underlined(d)) for d in elaborated(text, **configs).diagnostics]
