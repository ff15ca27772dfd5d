"""Values as text."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from rlxlang.diagnostics import escape
from rlxlang.frontend.values import Absent, BoundObject, Instance, ListValue
from rlxlang.ir import MaskKind, Node
from rlxlang.types import Dim, DimProblem, DType, evaluate, from_numpy, shape_text

Array: TypeAlias = "np.ndarray[Any, Any]"

_MOST_ELEMENTS = 200  # of an array that are shown
_EDGE = 3
_PRECISION = 6  # digits behind the point
_MOST_ITEMS = 20  # of a list
_MOST_DEPTH = 8  # of lists in lists that are shown in one line


class _More(int):
    """How many items of a list are not shown."""


def array_text(array: Array) -> str:
    """dtype, shape and value: `[F32; 2] [1. 2.]`; several lines for matrices."""
    width = max(20, shutil.get_terminal_size().columns)
    dtype = from_numpy(array.dtype)
    shown = (
        array.astype(np.float32) if dtype is not None and dtype.is_differentiable and array.dtype.kind == "V" else array
    )
    body = np.array2string(
        shown, threshold=_MOST_ELEMENTS, edgeitems=_EDGE, precision=_PRECISION, max_line_width=width - 1
    )
    head = type_text(array)
    one_line = "\n" not in body and len(head) + len(body) < width
    return f"{head} {body}" if one_line else f"{head}\n{body}"


def type_text(array: Array) -> str:
    """`[F32; 2, 3]`."""
    dtype = from_numpy(array.dtype)
    sizes = ", ".join(str(n) for n in array.shape)
    return f"[{dtype or array.dtype};{' ' if sizes else ''}{sizes}]"


def value_text(value: Any, arrays: Mapping[Node, Array], sizes: Mapping[str, int]) -> str:
    """A value of the language.

    Args:
        value: What an expression evaluates to.
        arrays: The arrays of its tensors; those without one are shown by their type.
        sizes: Known sizes of dynamic axes.
    """
    return "\n".join(_lines(value, arrays, sizes))


def _lines(value: Any, arrays: Mapping[Node, Array], sizes: Mapping[str, int]) -> Iterator[str]:
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        label, item = todo.pop()
        if isinstance(item, _More):
            yield f"… {int(item)} more"
        elif isinstance(item, ListValue) and item.leaves <= _MOST_ITEMS and is_plain(item):
            yield f"{label}list {static_text(item)}"
        elif isinstance(item, ListValue):
            yield f"{label}{'family' if item.family else 'list'} of {len(item.items)}"
            inner: list[tuple[str, Any]] = [
                (f"{label.removesuffix(': ')}[{k}]: ", i) for k, i in enumerate(item.items[:_MOST_ITEMS])
            ]
            if len(item.items) > _MOST_ITEMS:
                inner.append(("", _More(len(item.items) - _MOST_ITEMS)))
            todo.extend(reversed(inner))
        elif isinstance(item, Node):
            array = arrays.get(item)
            yield label + (str(item.type) if array is None else array_text(array))
        else:
            yield label + _described(item, sizes)


def is_plain(value: ListValue) -> bool:
    """Whether a list holds no tensor, at any depth."""
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Node):
            return False
        if isinstance(item, ListValue):
            todo.extend(item.items)
    return True


def _described(value: Any, sizes: Mapping[str, int]) -> str:
    match value:
        case bool():
            return f"bool {static_text(value)}"
        case int() | float():
            return f"{type(value).__name__} {value}"
        case str():
            return f"str {static_text(value)}"
        case Dim():
            try:
                return f"size {value} = {evaluate(value, sizes)}"
            except DimProblem:
                return f"size {value}"
        case DType():
            return f"dtype {value}"
        case Instance():
            return f"block instance {escape(value.path)}: {', '.join(value.values) or 'no parameters'}"
        case BoundObject():
            return f"bound object {escape(value.path)}: {', '.join(value.fields)}"
        case Absent():
            return "none"
        case MaskKind():
            return f"MaskKind::{value.name}{f'({value.window})' if value.window else ''}"
    return str(value)


def static_text(value: Any, depth: int = 0) -> str:
    """A static value as the language writes it."""
    if isinstance(value, ListValue):
        inner = "…" if depth > _MOST_DEPTH else ", ".join(static_text(i, depth + 1) for i in value.items)
        return f"[{inner}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + escape(value).replace('"', '\\"') + '"'
    return str(value)


def type_of(value: Any) -> str:
    """The type of a value: `[F32; ?n, 4]`, `int`, `list of 2: [F32; 4], [F32; 4]`."""
    if isinstance(value, Node):
        return str(value.type)
    if isinstance(value, ListValue):
        inner = ", ".join(type_of(i) for i in value.items[:_MOST_ITEMS])
        more = ", …" if len(value.items) > _MOST_ITEMS else ""
        return f"{'family' if value.family else 'list'} of {len(value.items)}{': ' if inner else ''}{inner}{more}"
    return _described(value, {}).split(" ")[0] if isinstance(value, (bool, int, float, str)) else _described(value, {})


def shape_of(value: Any) -> str:
    """The shape of a value; that of a number is `[]`."""
    if isinstance(value, Node):
        return shape_text(value.tensor.shape)
    if isinstance(value, ListValue):
        return "\n".join(f"[{k}]: {shape_of(i)}" for k, i in enumerate(value.items[:_MOST_ITEMS])) or "[]"
    return "[]" if isinstance(value, (bool, int, float, Dim)) else type_of(value)
