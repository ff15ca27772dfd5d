"""The key of a graph in the disk cache: a digest of a canonical text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from rlxlang._version import __version__
from rlxlang.diagnostics import escape
from rlxlang.ir import Constant, Graph, Node
from rlxlang.types import Dim, DType


class _NoCanonicalText(Exception):
    """An attribute has no exact text."""


def graph_key(graph: Graph, *salt: str) -> bytes | None:
    """A digest of everything that decides the compiled code: ops, attributes, types, wiring, constants, versions.

    Origins of nodes do not count, so that moving a line in the source does not recompile. None when an attribute is of a
    kind that has no exact text: then there is no key to look under.
    """
    digest = hashlib.sha256(f"rlxlang {__version__}\n".encode())
    for text in salt:
        digest.update(f"{len(text)} {text}\n".encode())
    return digest.digest() if _take_in(graph, digest) else None


def fingerprint(graph: Graph) -> str | None:
    """A digest of what a graph computes, whatever its name and the version of this library; None as in `graph_key`."""
    digest = hashlib.sha256()
    return digest.hexdigest() if _take_in(replace(graph, name=""), digest) else None


def _take_in(graph: Graph, digest: hashlib._Hash) -> bool:
    """Add the canonical text to a digest; False when there is none."""
    try:
        for line in _lines(graph):
            digest.update(line.encode())
            digest.update(b"\n")
    except _NoCanonicalText:
        return False
    return True


def _lines(graph: Graph, indent: str = "") -> Iterator[str]:
    names: dict[Node, str] = {}
    yield f"{indent}graph {escape(graph.name)!r}"
    for entry in graph.inputs:
        names[entry.node] = f"%{len(names)}"
        yield f"{indent}  {names[entry.node]} = {entry.kind} {escape(entry.name)!r} : {entry.node.type}"
    for node in graph.nodes:
        if node in names:
            continue
        names[node] = f"%{len(names)}"
        bodies: list[tuple[str, Graph]] = []
        options = []
        for key in sorted(node.attrs):
            value = node.attrs[key]
            if isinstance(value, Graph):
                bodies.append((key, value))
            else:
                options.append(f"{key}: {_attribute(value)}")
        operands = ", ".join([*(names[i] for i in node.inputs), *options])
        yield f"{indent}  {names[node]} = {node.op.name}({operands}) : {node.type}"
        for key, body in bodies:
            yield f"{indent}    {key}:"
            yield from _lines(body, indent + "      ")
    for output in graph.outputs:
        yield f"{indent}  {output.role} {escape(output.name)!r} = {names[output.node]}"
    for sourced in graph.guards:
        yield f"{indent}  require {sourced.guard}"


def _attribute(value: Any) -> str:
    if isinstance(value, Constant):
        return f"{value.array.dtype.name}{list(value.array.shape)} {value.digest.hex()}"
    if isinstance(value, float):
        return float(value).hex()
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_attribute(v) for v in value) + "]"
    if isinstance(value, (Dim, DType)):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    return _composite(value)


def _composite(value: Any) -> str:
    if isinstance(value, Graph):  # inside a tuple, such as the branches of a choice
        return "{" + "; ".join(_lines(value)) + "}"
    if isinstance(value, Enum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, (type, Node)):
        parts = [_attribute(getattr(value, f.name)) for f in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    raise _NoCanonicalText
