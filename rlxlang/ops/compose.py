"""Calls of ops by the name users know, for functions that are written in terms of them: broadcasting and options included."""

from __future__ import annotations

from typing import Any

from rlxlang.ir import SURFACES, Builder, Node


def call(b: Builder, name: str, /, *arguments: Any, **options: Any) -> Any:
    """What `name(arguments, options)` means in the language."""
    surface = SURFACES[name]
    return surface.build(b, **surface.bind(list(arguments), options))


def one(b: Builder, name: str, /, *arguments: Any, **options: Any) -> Node:
    """The same for an op with one result."""
    result = call(b, name, *arguments, **options)
    assert isinstance(result, Node)
    return result
