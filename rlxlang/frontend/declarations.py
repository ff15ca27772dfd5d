"""Declarations: configs, inputs, parameters with their initialisers, families, constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlxlang.diagnostics import Label, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.context import BUILD_PROBLEMS, Context, Scope
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.postorder import unwrapped
from rlxlang.frontend.values import POISON, Binding, ListValue, Poison, describe, is_number
from rlxlang.ir import GraphInput, Initializer, Node, declare
from rlxlang.types import DTYPES, F32, Dim, DType, Shape, weak_dtype

_CONFIG_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}

# Names of the module `init` with their arguments in order; `init_params` knows what they compute.
INITIALIZERS: dict[str, tuple[str, ...]] = {
    "zeros": (), "ones": (), "constant": ("value",), "eye": ("gain",), "uniform": ("low", "high"), "normal": ("mean", "std"),
    "trunc_normal": ("mean", "std"), "he_normal": ("gain",), "he_uniform": ("gain",), "glorot_normal": ("gain",),
    "glorot_uniform": ("gain",), "xavier_normal": ("gain",), "xavier_uniform": ("gain",), "lecun_normal": ("gain",),
    "lecun_uniform": ("gain",), "orthogonal": ("gain",),
}  # fmt: skip


class Declarations:
    """Reads the declarations of a text into its scope."""

    def __init__(self, context: Context, evaluator: Evaluator, scope: Scope) -> None:
        self.context, self.evaluator, self.scope = context, evaluator, scope
        self.spans: dict[str, Span] = {}

    def read(self, module: ast.Module, configs: Mapping[str, Any]) -> None:
        """Declare everything: configs first, each seeing the ones before it, then inputs, params and consts in order."""
        declared = [s for s in module.statements if isinstance(s, ast.Config)]
        for statement in declared:
            self._config(statement, configs)
        names = [s.name.text for s in declared]
        for name in configs:
            if name not in names:
                place = declared[0].span if declared else module.span
                help_ = did_you_mean(name, names) or (
                    f"the configs are {', '.join(names)}" if names else "the text declares no config"
                )
                self.context.error("E0205", f"unknown config `{name}`", place, help_=help_)
        for statement in module.statements:
            match statement:
                case ast.Input() | ast.Param():
                    self._tensor(statement)
                case ast.Const():
                    self._const(statement)

    def _fresh(self, name: ast.Name) -> bool:
        """Whether a name is not declared yet; reports it otherwise."""
        if name.text in ("true", "false", "inf", "nan"):
            self.context.error("E0213", f"`{name.text}` cannot be declared", name.span)
            return False
        earlier = self.spans.get(name.text)
        if earlier is not None:
            others = (Label(earlier, "declared here first"),)
            self.context.error("E0210", f"`{name.text}` is declared twice", name.span, others=others)
            return False
        self.spans[name.text] = name.span
        return True

    # ------------------------------------------------------------------ configs
    def _config(self, statement: ast.Config, given: Mapping[str, Any]) -> None:
        if not self._fresh(statement.name):
            return
        name = statement.name.text
        default = POISON if statement.default is None else self.evaluator.evaluate(statement.default, self.scope)
        kind = statement.type.text if statement.type else _kind_of(default)
        value = default
        if name in given:
            value = given[name].item() if isinstance(given[name], np.generic) else given[name]
        elif statement.default is None:
            self.context.error(
                "E0353",
                f"config `{name}` has no default and is not given",
                statement.name.span,
                help_=f"give it: `{name}=…`",
            )
        if not isinstance(value, Poison):
            value = self._typed(name, value, kind, statement.name.span)
        self.scope.bind(name, value, statement.name.span)

    def _typed(self, name: str, value: Any, kind: str, span: Span) -> Any:
        wanted = _CONFIG_TYPES.get(kind)
        if wanted is None:
            return self.context.error(
                "E0303", f"config `{name}` is a number, a Bool or a string, not {describe(value)}", span
            )
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        exact = isinstance(value, bool) if kind == "bool" else isinstance(value, wanted) and not isinstance(value, bool)
        if not exact:
            shown = describe(value) if isinstance(value, (bool, int, float, str, Dim)) else repr(value)
            return self.context.error("E0305", f"config `{name}` is of type {kind}, the given value is {shown}", span)
        return value

    # ------------------------------------------------------------------ inputs and parameters
    def _tensor(self, statement: ast.Input | ast.Param) -> None:
        if not self._fresh(statement.name):
            return
        name = statement.name.text
        kind = "param" if isinstance(statement, ast.Param) else "input"
        found = self.shape(statement.shape)
        init = self._initializer(statement.init) if isinstance(statement, ast.Param) and statement.init else None
        if statement.family is None:
            runtime = name
            if statement.alias is not None:
                runtime = self._alias(statement.alias, {})
            value = POISON if found is None else self._declare(runtime, kind, found, statement, init)
            self.scope.bind(name, value, statement.name.span)
            return
        count = self.evaluator.evaluate(statement.family, self.scope)
        if isinstance(count, Poison) or found is None:
            self.scope.bind(name, POISON, statement.name.span)
            return
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            self.context.error(
                "E0602",
                f"a family has a static number of elements, 0 or more, not {describe(count)}",
                statement.family.span,
            )
            self.scope.bind(name, POISON, statement.name.span)
            return
        elements: list[Any] = []
        for k in range(count):
            runtime = f"{name}_{k}" if statement.alias is None else self._alias(statement.alias, {"i": str(k)})
            element = self._declare(runtime, kind, found, statement, init)
            elements.append(element)
            if f"{name}_{k}" not in self.scope.names:
                self.scope.bind(f"{name}_{k}", element, statement.name.span).used = True
        whole = POISON if any(isinstance(e, Poison) for e in elements) else ListValue(tuple(elements), name)
        self.scope.bind(name, whole, statement.name.span)

    def _alias(self, template: ast.Template, values: dict[str, str]) -> str:
        known = dict(values)
        for place in template.placeholders:
            if place.text in known:
                continue
            binding = self.scope.find(place.text)
            if binding is not None and isinstance(binding.value, (int, str)) and not isinstance(binding.value, bool):
                binding.used = True
                known[place.text] = str(binding.value)
                continue
            self.context.error("E0126", f"`{{{place.text}}}` is no static int or str here", place.span)
            known[place.text] = place.text
        return template.substitute(known)

    def _declare(
        self,
        runtime: str,
        kind: str,
        found: tuple[DType, Shape],
        statement: ast.Input | ast.Param,
        init: Initializer | None,
    ) -> Node | Poison:
        context = self.context
        if runtime in context.inputs:
            others = (Label(context.input_spans[runtime], "taken here"),)
            help_ = "write `{i}` in the name of a family" if statement.family is not None and statement.alias else ""
            return context.error(
                "E0212", f"run-time name `{runtime}` is used twice", statement.name.span, others=others, help_=help_
            )
        with context.at(statement.name.span):
            node = context.b.input(runtime, found[0], found[1], kind)
        entry: GraphInput = declare(node, init, statement.doc)
        context.inputs[runtime] = entry
        context.input_spans[runtime] = statement.name.span
        return node

    def shape(self, shape: ast.Shape) -> tuple[DType, Shape] | None:
        """Element type and dims of a declared shape, or None when they are wrong."""
        dtype = F32 if shape.dtype is None else DTYPES[shape.dtype.text]
        dims: list[Any] = []
        for part in shape.dims:
            dim = self.evaluator.evaluate(part, self.scope)
            if isinstance(dim, Poison):
                return None
            if isinstance(dim, float):
                self.context.error(
                    "E0407", f"the dim is {dim}, dims are integers", part.span, help_="floor a quotient with `a div b`"
                )
                return None
            if isinstance(dim, bool) or not isinstance(dim, (int, Dim)):
                self.context.error(
                    "E0303", f"a dim is a static integer or a dynamic size, not {describe(dim)}", part.span
                )
                return None
            if isinstance(dim, int) and dim < 0:
                self.context.error("E0350", f"the dim is {dim}, dims are 0 or more", part.span)
                return None
            dims.append(dim)
        return dtype, tuple(dims)

    def _initializer(self, expr: Any) -> Initializer | None:
        node = unwrapped(expr)
        if isinstance(node, ast.Call) and [n.text for n in node.func.path[:-1]] in ([], ["init"]):
            return self._initializer_call(node)
        value = self.evaluator.evaluate(expr, self.scope)
        if isinstance(value, Poison):
            return None
        if is_number(value) and not isinstance(value, Dim):
            return Initializer("constant", (("value", value),))
        self.context.error(
            "E0303", f"an initialiser is a call such as `he_normal()` or a number, not {describe(value)}", expr.span
        )
        return None

    def _initializer_call(self, node: ast.Call) -> Initializer | None:
        name = node.func.path[-1].text
        if name not in INITIALIZERS:
            self.context.error(
                "E0202", f"unknown initialiser `{name}`", node.func.span, help_=did_you_mean(name, INITIALIZERS)
            )
            return None
        parameters = list(INITIALIZERS[name])
        positional = [a for a in node.args if a.name is None]
        if name in ("normal", "trunc_normal") and len(positional) == 1 and len(node.args) == 1:
            parameters = ["std"]  # `normal(0.02)` gives the deviation, as one writes it in models
        if name == "uniform" and len(node.args) == 1 and positional:
            parameters = ["high"]  # `uniform(0.1)` is symmetric: -0.1 to 0.1
        if len(positional) > len(parameters):
            self.context.error(
                "E0220",
                f"`{name}` takes at most {len(INITIALIZERS[name])} arguments, {len(positional)} given",
                node.span,
            )
            return None
        args: dict[str, Any] = {}
        for k, arg in enumerate(node.args):
            key = parameters[k] if arg.name is None else arg.name.text
            if key not in INITIALIZERS[name] and key not in parameters:
                self.context.error(
                    "E0221", f"`{name}` has no argument `{key}`", arg.span, help_=did_you_mean(key, INITIALIZERS[name])
                )
                return None
            value = self.evaluator.evaluate(arg.value, self.scope)
            if isinstance(value, Poison):
                return None
            if not is_number(value) or isinstance(value, Dim):
                self.context.error(
                    "E0303", f"arguments of an initialiser are static numbers, not {describe(value)}", arg.span
                )
                return None
            args[key] = value
        if name == "uniform" and list(args) == ["high"] and parameters == ["high"]:
            args = {"low": -args["high"], "high": args["high"]}
        return Initializer(name, tuple(args.items()))

    # ------------------------------------------------------------------ constants
    def _const(self, statement: ast.Const) -> None:
        if not self._fresh(statement.name):
            return
        value = self.evaluator.evaluate(statement.value, self.scope)
        self.scope.bind(statement.name.text, self._constant(statement, value), statement.name.span)

    def _constant(self, statement: ast.Const, value: Any) -> Any:
        if isinstance(value, Poison):
            return POISON
        nested = _nested(value)
        if nested is None:
            return self.context.error(
                "E0303", f"a constant is made of static numbers, not {describe(value)}", statement.value.span
            )
        dtype = DTYPES[statement.dtype.text] if statement.dtype else None
        flat = _flat(nested)
        if dtype is None:
            if not isinstance(nested, list):
                return nested  # stays weak
            dtype = weak_dtype(max(flat, key=_width)) if flat else F32
        bad = next((v for v in flat if not _fits(v, dtype)), None)
        if bad is not None:
            return self.context.error("E0351", f"{bad} is out of range for {dtype}", statement.value.span)
        if any(
            v != 0 and isinstance(v, float) and dtype.is_float and float(np.asarray(v).astype(dtype.numpy)) == 0
            for v in flat
        ):
            self.context.warn("W0904", f"a literal becomes 0 in {dtype}", statement.value.span)
        with self.context.at(statement.span):
            try:
                return self.context.b.constant(np.asarray(nested).astype(dtype.numpy), dtype)
            except BUILD_PROBLEMS as problem:
                return self.context.problem(problem, statement.span)


def _kind_of(value: Any) -> str:
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("str", str)):
        if isinstance(value, kind):
            return name
    return ""


def _nested(value: Any) -> Any:
    """A list value as nested Python lists of numbers, or None when something else is inside."""
    if isinstance(value, ListValue):
        items = [_nested(v) for v in value.items]
        return None if any(i is None for i in items) else items
    return value if isinstance(value, (bool, int, float)) else None


def _flat(nested: Any) -> list[Any]:
    result, todo = [], [nested]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo.extend(part)
        else:
            result.append(part)
    return result


def _width(value: Any) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def _fits(value: Any, dtype: DType) -> bool:
    if dtype.is_integer:
        low, high = dtype.integer_range
        return isinstance(value, (bool, int)) and low <= value <= high
    if dtype.kind == "bool":
        return isinstance(value, bool) or value in (0, 1)
    if dtype.is_float and isinstance(value, (int, float)) and abs(value) != float("inf") and value == value:
        return abs(value) <= dtype.largest
    return True


__all__ = ["INITIALIZERS", "Binding", "Declarations"]
