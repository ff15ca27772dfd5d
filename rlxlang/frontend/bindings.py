"""`bind`: values given from Python become constants, parameters, static values, lists and objects with fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import Label, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.names import Scope
from rlxlang.frontend.values import POISON, BoundObject, ListValue, Poison
from rlxlang.ir import Node, Param, declare
from rlxlang.types import DTYPES, F64, DType

_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.numpy: dtype for dtype in DTYPES.values()}


class Bindings:
    """The values given for the `bind` statements of a text.

    Args:
        context: The elaboration.
        given: Values by name.

    Attributes:
        bound: Arrays of the parameters that the values hold, by run-time name.
    """

    def __init__(self, context: Context, given: Mapping[str, Any]) -> None:
        self.context, self.given = context, given
        self.bound: dict[str, np.ndarray[Any, Any]] = {}
        self._params: dict[int, Node | Poison] = {}  # by identity: one parameter under two names is one parameter
        self._keep: list[Any] = []  # so that no identity is used again while the text is read

    def refuse_unknown(self, statements: Sequence[Any]) -> None:
        """Report values for names that no `bind` of the text declares."""
        names = [item.name.text for s in statements if isinstance(s, ast.Bind) for item in s.items]
        for name in self.given:
            if name not in names and not self.context.unit.forgives(str(name)):
                help_ = did_you_mean(str(name), names) or (
                    f"the bound names are {', '.join(names)}" if names else f"declare it: `bind {name};`"
                )
                self.context.error("E0201", f"unknown bound name `{name}`", None, help_=help_)

    def declare(self, item: ast.BindItem, scope: Scope) -> None:
        """Bind one name of a `bind` statement."""
        scope.bind(item.name.text, self._value(item), item.name.span)

    def _value(self, item: ast.BindItem) -> Any:
        name, context = item.name.text, self.context
        if name not in self.given:
            how = f'bind={{"{name}": {"[…]" if item.is_list else "array"}}}'
            return context.error("E0215", f"`{name}` is not given", item.span, help_=f"give it: `{how}`")
        value = self.given[name]
        is_list = isinstance(value, (list, tuple))
        if item.is_list and not is_list:
            message = f"`{name}[]` is a list, a value of type {type(value).__name__} is given"
            return context.error("E0305", message, item.span, help_=f"write `bind {name};` for a single value")
        if is_list and not item.is_list:
            message = f"`{name}` is a single value, a {type(value).__name__} of {len(value)} is given"
            help_ = f"write `bind {name}[];` for a list, or give an array"
            return context.error("E0305", message, item.span, help_=help_)
        return self._convert(value, name, item.name.span)

    def _convert(self, value: Any, path: str, span: Span) -> Any:
        """What a Python value means; lists may hold lists."""
        context = self.context
        self._keep.append(value)
        if isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic):
            return value
        if isinstance(value, Param):
            return self._param(value, path, span)
        if isinstance(value, (list, tuple)):
            items = tuple(self._convert(item, f"{path}.{k}", span) for k, item in enumerate(value))
            return POISON if any(isinstance(i, Poison) for i in items) else ListValue(items, path)
        if isinstance(value, Mapping):
            fields = {str(k): self._convert(v, f"{path}.{k}", span) for k, v in value.items()}
            return BoundObject(path, fields.get, tuple(fields))
        if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
            array = _as_array(value)
            dtype = None if array is None else _BY_NUMPY.get(array.dtype)
            if array is None or dtype is None:
                what = type(value).__name__ if array is None else f"an array of {array.dtype}"
                return context.error("E0806", f"`{path}` is {what}, which no dtype of the language holds", span)
            self._warn_wide(dtype, path, span)
            with context.at(span):
                return context.b.constant(np.array(array), dtype)
        return self._object(value, path, span)

    def _warn_wide(self, dtype: DType, path: str, span: Span) -> None:
        if dtype == F64:
            help_ = "give float32 unless double precision is meant"
            self.context.warn(
                "W0907", f"`{path}` is an array of float64 and makes F64 what it meets", span, help_=help_
            )

    def _param(self, value: Param, path: str, span: Span) -> Node | Poison:
        context = self.context
        if id(value) in self._params:
            return self._params[id(value)]
        name, dtype = value.name or path, _BY_NUMPY.get(value.data.dtype)
        found: Node | Poison
        if dtype is None:
            message = f"parameter `{name}` is an array of {value.data.dtype}, which no dtype of the language holds"
            found = context.error("E0806", message, span)
        elif name in context.inputs:
            others = (Label(context.input_spans[name], "taken here"),)
            found = context.error("E0212", f"run-time name `{name}` is used twice", span, others=others)
        else:
            self._warn_wide(dtype, path, span)
            with context.at(span):
                found = context.b.input(name, dtype, value.data.shape, "param")
            context.inputs[name] = declare(found)
            context.input_spans[name] = span
            self.bound[name] = value.data
        self._params[id(value)] = found
        return found

    def _object(self, value: Any, path: str, span: Span) -> Any:
        """An object of Python: its attributes are read when the text asks for them."""
        if callable(value) or isinstance(value, type) or value is None:
            return self.context.error(
                "E0306",
                f"`{path}` is {'None' if value is None else f'a {type(value).__name__}'}, which cannot be bound",
                span,
                help_="bind arrays, numbers, `rlx.Param`s, and lists, dicts or objects that hold such",
            )
        fields = tuple(name for name in dir(value) if not name.startswith("_"))
        seen: dict[str, Any] = {}

        def read(name: str) -> Any:
            if name not in seen and name in fields:
                seen[name] = self._convert(getattr(value, name), f"{path}.{name}", span)
            return seen.get(name)

        return BoundObject(path, read, fields)


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The array of anything that says it is one."""
    try:
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError):
        return None
