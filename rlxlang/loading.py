"""From a text of the language to a `Func`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlxlang import warm
from rlxlang.compiler import Traced
from rlxlang.diagnostics import (
    Diagnostic,
    RlxTypeError,
    Source,
    did_you_mean,
    error,
    error_class,
    not_utf8,
    raise_all,
    warn_all,
)
from rlxlang.func import Func

if TYPE_CHECKING:
    from rlxlang.frontend.elaborate import Elaborated
    from rlxlang.ir import Graph

_UNNAMED = "<text>"
_FOREIGN = re.compile(r"\bbind\b|\buse\s*\"")


def load(
    path: str | os.PathLike[str],
    *,
    config: Mapping[str, Any] | None = None,
    bind: Mapping[str, Any] | None = None,
    **config_overrides: Any,
) -> Func:
    """A checked model from a file.

    Args:
        path: The `.rlx` file.
        config: Values of its configs by name.
        bind: Values for its `bind` statements.
        config_overrides: Values of its configs by keyword.

    Raises:
        RlxError: Everything that is wrong with the text, in one exception; E0127, E0128 the file cannot be read.
    """
    file = Path(path)
    source, problem = _read(file)
    if source is None:
        raise error_class(problem.code)(problem)
    return _checked(source, _configs(config, config_overrides), bind, file.parent)


def loads(
    source: str,
    name: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    bind: Mapping[str, Any] | None = None,
    **config_overrides: Any,
) -> Func:
    """A checked model from a text.

    Args:
        source: The text.
        name: What to call it in messages; also the graph's name unless the text says another.
        config: Values of its configs by name.
        bind: Values for its `bind` statements.
        config_overrides: Values of its configs by keyword.

    Raises:
        RlxError: Everything that is wrong with the text, in one exception.
    """
    if not isinstance(source, str):
        raise RlxTypeError(f"`loads` takes a text, {type(source).__name__} is given", helps=("`load` takes a path",))
    return _checked(Source(name or _UNNAMED, source), _configs(config, config_overrides), bind, None)


def check(
    path_or_source: str | os.PathLike[str],
    *,
    config: Mapping[str, Any] | None = None,
    bind: Mapping[str, Any] | None = None,
) -> list[Diagnostic]:
    """All errors and warnings of a text, without an exception.

    Args:
        path_or_source: A path if it ends in `.rlx` and has no line break, else the text itself.
        config: Values of its configs by name.
        bind: Values for its `bind` statements.
    """
    if isinstance(path_or_source, str) and not _is_path(path_or_source):
        source: Source | None = Source(_UNNAMED, path_or_source)
        folder = None
    else:
        file = Path(path_or_source)
        folder = file.parent
        source, problem = _read(file)
        if source is None:
            return [problem]
    assert source is not None
    return list(_elaborate(source, _configs(config, {}), bind, folder).diagnostics)


def expr(source: str, /, **tensors: Any) -> Any:
    """One expression of the language over tensors of a graph that is being built.

    Args:
        source: The expression, ``"gelu(linear(h, w, b))"``.
        tensors: What its names stand for: tensors, numbers, lists of such.

    Returns:
        A tensor, or a tuple of tensors for a list value.

    Raises:
        RlxError: Everything that is wrong with the expression, in one exception.
    """
    from rlxlang.frontend.elaborate import elaborate_expression
    from rlxlang.frontend.values import ListValue
    from rlxlang.scope import Tensor

    scope = next((t.scope for t in tensors.values() if isinstance(t, Tensor)), None)
    if scope is None:
        raise RlxTypeError(
            "`expr` needs at least one Tensor", code="E0304", helps=('pass it by name: `expr("relu(x)", x=x)`',)
        )
    values = {name: scope.expression_value(value) for name, value in tensors.items()}
    value, diagnostics = elaborate_expression(Source("<expr>", source), values, scope.builder)
    if any(d.is_error for d in diagnostics):
        raise_all(diagnostics)
    warn_all(diagnostics)
    return scope.wrap(value.items if isinstance(value, ListValue) else value)


def _is_path(text: str) -> bool:
    return text.endswith(".rlx") and "\n" not in text


def _read(file: Path) -> tuple[Source | None, Any]:
    """The text of a file, or None and what is wrong with it."""
    try:
        return Source(str(file), file.read_bytes().decode("utf-8")), None
    except UnicodeDecodeError as problem:
        return None, not_utf8(str(file), problem)
    except OSError as problem:
        near = [p.name for p in file.parent.glob("*.rlx")] if isinstance(problem, FileNotFoundError) else []
        helps = [did_you_mean(file.name, near)]
        return None, error("E0128", f"{file} cannot be read: {problem.strerror or problem}", helps=helps)


def _configs(config: Mapping[str, Any] | None, overrides: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(config or {})
    for name, value in overrides.items():
        if name in given:
            raise RlxTypeError(f"config `{name}` is given twice", code="E0222")
        given[name] = value
    return {n: v.item() if isinstance(v, np.generic) else v for n, v in given.items()}


def _elaborate(
    source: Source, configs: Mapping[str, Any], bind: Mapping[str, Any] | None, folder: Path | None
) -> Elaborated:
    from rlxlang.frontend.elaborate import elaborate_source

    return elaborate_source(source, configs, dict(bind or {}), folder)


def _checked(source: Source, configs: Mapping[str, Any], bind: Mapping[str, Any] | None, folder: Path | None) -> Func:
    """The function of a text; one that was checked before, unchanged, is only outlined until its nodes are needed."""
    # Files that a text draws in, and what is bound to it, are not part of the key; the standard library is.
    is_alone = not bind and _FOREIGN.search(source.text) is None
    key = warm.text_key(source, configs) if is_alone else None
    found = None if key is None else warm.load_record(key, source)
    if found is not None:
        outline, diagnostics = found
        warn_all(diagnostics, stacklevel=3)
        return Func._over(
            Traced(lambda: _graph_of(_elaborate(source, configs, None, folder)), outline, key, source, configs), {}
        )
    elaborated = _elaborate(source, configs, bind, folder)
    graph = _graph_of(elaborated)
    warn_all(elaborated.diagnostics, stacklevel=3)
    if key is not None and (elaborated.bound or not warm.store_record(key, graph, elaborated.diagnostics, source)):
        key = None
    func = Func._over(Traced(graph, None, key, source, configs), {})
    return func.with_params(elaborated.bound) if elaborated.bound else func


def _graph_of(elaborated: Elaborated) -> Graph:
    graph = elaborated.graph
    if graph is None:
        raise_all(elaborated.diagnostics)
    return replace(graph, name="graph") if graph.name == _UNNAMED else graph
