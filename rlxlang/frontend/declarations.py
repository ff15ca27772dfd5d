"""Declarations: configs, inputs, parameters with their initialisers, families, constants, bound values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlxlang.diagnostics import Label, Span, did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.bindings import Bindings
from rlxlang.frontend.context import Context
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.initializer_calls import Initializers
from rlxlang.frontend.names import Scope
from rlxlang.frontend.statics import STATIC_FUNCTIONS
from rlxlang.frontend.templates import fill
from rlxlang.frontend.values import POISON, ListValue, Poison, Unbound, describe, is_static
from rlxlang.frontend.walk import walk
from rlxlang.ir import GraphInput, Initializer, Node, declare
from rlxlang.types import DTYPES, F32, Dim, DType, Shape, weak_dtype

MOST_AXES = 64  # of a constant, as in NumPy
LARGEST_FAMILY = 100_000  # elements; each is a parameter of its own, so more can only be a slip
_CONFIG_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


class Declarations:
    """Reads the declarations of a text, or of the body of a block, into its scope.

    Args:
        context: The elaboration.
        evaluator: For sizes, initialisers and values.
        scope: Where declarations are bound.
        local: What they see; when None the scope and the static `let`s above them.
        bindings: The values of `bind` statements.
    """

    def __init__(
        self,
        context: Context,
        evaluator: Evaluator,
        scope: Scope,
        local: Scope | None = None,
        bindings: Bindings | None = None,
    ) -> None:
        self.context, self.evaluator, self.scope, self.bindings = context, evaluator, scope, bindings
        self.initializers = Initializers(context, evaluator)
        self.spans: dict[str, Span] = {}
        self.local = Scope(scope) if local is None else local

    def one(self, statement: ast.Param | ast.Const) -> None:
        """Declare one parameter or constant."""
        if isinstance(statement, ast.Param):
            self._tensor(statement)
        else:
            self._const(statement)

    def read_library(self, module: ast.Module) -> None:
        """Declare what other texts see of this one: its configs with their defaults, and its consts."""
        reason = "of a used text only configs, consts, fns and blocks are seen"
        for statement in module.statements:
            match statement:
                case ast.Config(default=None):
                    self.scope.bind(statement.name.text, Unbound("it has no default, and a used text is given none"))
                case ast.Config():
                    self._config(statement, {})
                case ast.Input() | ast.Param():
                    self.scope.bind(statement.name.text, Unbound(reason))
                case ast.Bind():
                    for item in statement.items:
                        self.scope.bind(item.name.text, Unbound(reason))
        for statement in module.statements:
            if isinstance(statement, ast.Const):
                self._const(statement)
            elif isinstance(statement, ast.Let) and not statement.is_tuple:
                self._static_let(statement)

    def read(self, module: ast.Module, configs: Mapping[str, Any]) -> None:
        """Declare everything: configs first, each seeing the ones before it, then inputs, params and consts in order.

        A `let` of a static value above a declaration is seen by it, and an `if` on a config Bool chooses declarations.
        """
        declared = [s for s in module.statements if isinstance(s, ast.Config)]
        for statement in declared:
            self._config(statement, configs)
        names = [s.name.text for s in declared]
        for name in configs:
            if name not in names and not self.context.unit.forgives(str(name)):
                help_ = did_you_mean(name, names) or (
                    f"the configs are {', '.join(names)}" if names else "the text declares no config"
                )
                self.context.error("E0205", f"unknown config `{name}`", None, help_=help_)
        todo: list[Any] = list(reversed(module.statements))
        while todo:
            part = todo.pop()
            match part:
                case ast.Input():
                    self._tensor(part)
                case ast.Param() | ast.Const():
                    self.one(part)
                case ast.Bind():
                    self._bind(part)
                case ast.Let() if not part.is_tuple:
                    self._static_let(part)
                case ast.If() if _declares(part):
                    todo.extend(reversed(self._chosen(part)))

    def _bind(self, statement: ast.Bind) -> None:
        seen: set[str] = set()
        for item in statement.items:
            again = item.name.text in seen  # which the parser reports
            seen.add(item.name.text)
            if not again and self._fresh(item.name) and self.bindings is not None:
                self.bindings.declare(item, self.scope)

    def _static_let(self, statement: ast.Let) -> None:
        """Let declarations below see a static value; whatever is wrong with it is reported where the `let` runs."""
        name = statement.names[0].text
        if self._is_static(statement.value):
            mark = self.context.mark()
            value = self.evaluator.evaluate(statement.value, self.local)
            self.context.rewind(mark)
        else:
            value = Unbound("a declaration cannot depend on a tensor")
        if is_static(value):
            self.local.bind(name, value, statement.names[0].span)
        elif name not in self.scope.names:
            self.local.bind(name, Unbound("a declaration cannot depend on a tensor"), statement.names[0].span)

    def _is_static(self, expr: Any) -> bool:
        """Whether an expression is built of static values, and of sizes of declared tensors."""
        sized: set[Any] = set()
        for node in walk(expr):
            if isinstance(node, ast.Call) and node.func.text == "dim" and node.args:
                sized.add(node.args[0].value)
            elif isinstance(node, ast.Method) and node.name.text == "dim":
                sized.add(node.receiver)
            elif isinstance(node, (ast.Call, ast.Method)):
                if not isinstance(node, ast.Call) or node.func.text not in STATIC_FUNCTIONS:
                    return False
            elif isinstance(node, (ast.Index, ast.Field, ast.Named, ast.ListExpr)):
                return False
            elif isinstance(node, ast.Ref) and len(node.path) == 1 and node not in sized:
                binding = self.local.find(node.text)
                if binding is not None and not is_static(binding.value):
                    return False
        return True

    def _chosen(self, statement: ast.If) -> tuple[Any, ...]:
        """The statements of the branch that is taken; names that only other branches declare are without a value."""
        taken: ast.Body | None = statement.orelse
        for branch in statement.branches:
            mark = self.context.mark()
            chosen = (
                self.evaluator.evaluate(branch.condition, self.local) if self._is_static(branch.condition) else None
            )
            self.context.rewind(mark)  # reported where the `if` runs
            if not isinstance(chosen, bool):
                for name in _declares(statement):
                    self.scope.bind(name, POISON)
                return ()
            if chosen:
                taken = branch.body
                break
        mine = set(declared_names(taken)) if taken is not None else set()
        for name in _declares(statement):
            if name not in mine and self.scope.find(name) is None:
                self.scope.bind(name, Unbound("the branch of the `if` that declares it is not taken"))
        return taken.statements if taken is not None else ()

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
        elif statement.default is None and statement.type is not None:  # without a type, too, it is malformed
            self.context.error(
                "E0353",
                f"config `{name}` has no default and is not given",
                statement.name.span,
                help_=f"give it: `{name}=…`",
            )
        if statement.type is not None and kind not in _CONFIG_TYPES:
            value = POISON  # reported by the parser
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
            whole = kind == "int" and isinstance(value, float) and value.is_integer()
            message = f"config `{name}` is of type {kind}, the given value is {shown}"
            return self.context.error("E0305", message, span, help_=f"write `{name}={int(value)}`" if whole else "")
        return value

    # ------------------------------------------------------------------ inputs and parameters
    def _tensor(self, statement: ast.Input | ast.Param) -> None:
        if not self._fresh(statement.name):
            return
        name = statement.name.text
        if statement.shape.dtype is not None and statement.shape.dtype.text not in DTYPES:
            self.scope.bind(name, POISON, statement.name.span)  # reported by the parser
            return
        kind = "param" if isinstance(statement, ast.Param) else "input"
        found = self.shape(statement.shape)
        init = (
            self.initializers.read(statement.init, self.local)
            if isinstance(statement, ast.Param) and statement.init
            else None
        )
        if statement.family is None:
            runtime = name if statement.alias is None else fill(self.context, statement.alias, self.local)
            value: Any = POISON
            if found is not None and runtime is not None:
                value = self._declare(runtime, kind, found, statement, init)
            self.scope.bind(name, value, statement.name.span)
            return
        count = self.evaluator.evaluate(statement.family, self.local)
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
        if count > LARGEST_FAMILY:
            message = f"a family of {count} is too large, it has at most {LARGEST_FAMILY} elements"
            self.context.error("E0602", message, statement.family.span, help_="use one tensor with one more axis")
            self.scope.bind(name, POISON, statement.name.span)
            return
        elements: list[Any] = []
        for k in range(count):
            runtime = f"{name}_{k}"
            if statement.alias is not None:
                runtime = fill(self.context, statement.alias, self.local, {"i": str(k)})
            element = POISON if runtime is None else self._declare(runtime, kind, found, statement, init)
            elements.append(element)
            if f"{name}_{k}" not in self.scope.names:
                self.scope.bind(f"{name}_{k}", element, statement.name.span).used = True
        whole = POISON if any(isinstance(e, Poison) for e in elements) else ListValue(tuple(elements), name)
        self.scope.bind(name, whole, statement.name.span)

    def _declare(
        self,
        runtime: str,
        kind: str,
        found: tuple[DType, Shape],
        statement: ast.Input | ast.Param,
        init: Initializer | None,
    ) -> Node | Poison:
        context = self.context
        place = statement.name.span if statement.alias is None else statement.alias.span
        runtime = context.instance.join(runtime)
        if runtime in context.inputs:
            others = (Label(context.input_spans[runtime], "taken here"),)
            help_ = "write `{i}` in the name of a family" if statement.family is not None and statement.alias else ""
            return context.error("E0212", f"run-time name `{runtime}` is used twice", place, others=others, help_=help_)
        with context.at(statement.name.span):
            node = context.b.input(runtime, found[0], found[1], kind)
        entry: GraphInput = declare(node, init, statement.doc)
        context.inputs[runtime] = entry
        context.input_spans[runtime] = place
        return node

    def shape(self, shape: ast.Shape) -> tuple[DType, Shape] | None:
        """Element type and dims of a declared shape, or None when they are wrong."""
        dtype = F32 if shape.dtype is None else DTYPES[shape.dtype.text]
        dims: list[Any] = []
        found = [self.evaluator.evaluate(part, self.local) for part in shape.dims]
        if any(isinstance(dim, Poison) for dim in found):
            return None
        for part, dim in zip(shape.dims, found, strict=True):
            if isinstance(dim, float):
                self.context.error(
                    "E0407", f"the dim is {dim}, dims are integers", part.span, help_="floor a quotient with `a div b`"
                )
                return None
            if isinstance(dim, bool) or not isinstance(dim, (int, Dim)):
                self.context.error(
                    "E0303",
                    f"a dim is a static integer or a dynamic size, not {describe(dim)}",
                    part.span,
                    help_=f"a dtype stands in front of the dims: `[{dim}; …]`" if isinstance(dim, DType) else "",
                )
                return None
            if isinstance(dim, int) and not 0 <= dim < 1 << 63:
                size = f"{dim}" if abs(dim) < 1 << 70 else "huge"
                self.context.error("E0350", f"the dim is {size}, dims are 0 or more and below 2 ** 63", part.span)
                return None
            dims.append(dim)
        return dtype, tuple(dims)

    # ------------------------------------------------------------------ constants
    def _const(self, statement: ast.Const) -> None:
        if not self._fresh(statement.name):
            return
        value = self.evaluator.evaluate(statement.value, self.local)
        self.scope.bind(statement.name.text, self._constant(statement, value), statement.name.span)

    def _constant(self, statement: ast.Const, value: Any) -> Any:
        if isinstance(value, Poison):
            return POISON
        nested = _nested(value)
        if nested is None:
            return self.context.error(
                "E0303", f"a constant is made of static numbers, not {describe(value)}", statement.value.span
            )
        if statement.dtype is not None and statement.dtype.text not in DTYPES:
            return POISON  # reported by the parser
        if not _rectangular(nested):
            if self.context.collector.has_errors:
                return POISON  # most likely reported by the parser
            return self.context.error("E0124", "rows of unequal length, or an empty one", statement.value.span)
        if _rank(nested) > MOST_AXES:
            return self.context.error("E0404", f"a constant has at most {MOST_AXES} axes", statement.value.span)
        dtype = DTYPES[statement.dtype.text] if statement.dtype else None
        flat = _flat(nested)
        if dtype is None:
            if not isinstance(nested, list):
                return nested  # stays weak
            dtype = weak_dtype(max(flat, key=_width)) if flat else F32
        bad = next((v for v in flat if not _fits(v, dtype)), None)
        if bad is not None:
            number = "an integer" if dtype.is_integer and isinstance(bad, float) and bad == bad // 1 else "in range"
            why = "is no integer" if dtype.is_integer and isinstance(bad, float) else "is out of range"
            help_ = f"write it without a point, it is {number}" if number == "an integer" else ""
            return self.context.error("E0351", f"{bad} {why} for {dtype}", statement.value.span, help_=help_)
        kind = {"bool": np.bool_, "complex": np.complex64, "float": np.float64}.get(dtype.kind, dtype.numpy)
        array = np.array(nested, kind).astype(dtype.numpy)
        if dtype.is_float and any(v != 0 and e == 0 for v, e in zip(flat, array.ravel().tolist(), strict=True)):
            self.context.warn("W0904", f"a literal becomes 0 in {dtype}", statement.value.span)
        with self.context.at(statement.span):
            return self.context.b.constant(array, dtype)


def declared_names(body: ast.Body) -> list[str]:
    """Names that the params and consts in a body declare, those of branches included."""
    names: list[str] = []
    todo = list(reversed(body.statements))
    while todo:
        statement = todo.pop()
        if isinstance(statement, (ast.Param, ast.Const)):
            names.append(statement.name.text)
        elif isinstance(statement, ast.If):
            bodies = [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]
            todo.extend(s for inner in reversed(bodies) for s in reversed(inner.statements))
    return names


def _declares(statement: ast.If) -> list[str]:
    """Names that the branches of an `if` declare."""
    bodies = [*(b.body for b in statement.branches), *([statement.orelse] if statement.orelse else [])]
    return [name for body in bodies for name in declared_names(body)]


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


def _rectangular(nested: Any) -> bool:
    """Whether nested lists have rows of one length and no empty row."""
    level = [nested]
    while any(isinstance(part, list) for part in level):
        lengths = {len(part) if isinstance(part, list) else -1 for part in level}
        if len(lengths) != 1 or lengths == {0}:
            return False
        level = [item for part in level for item in part]
    return True


def _rank(nested: Any) -> int:
    """How deep rectangular lists are nested."""
    rank = 0
    while isinstance(nested, list):
        nested, rank = nested[0] if nested else None, rank + 1
    return rank


def _flat(nested: Any) -> list[Any]:
    result, todo = [], [nested]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo.extend(reversed(part))
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
