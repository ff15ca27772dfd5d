"""Evaluation of expressions: static values at once, tensors into nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi
from typing import Any

import numpy as np

from rlxlang.diagnostics import Label, did_you_mean
from rlxlang.frontend import ast, habits, statics
from rlxlang.frontend.calls import CallFunction, Calls
from rlxlang.frontend.context import BUILD_PROBLEMS, Context
from rlxlang.frontend.indexing import EllipsisItem, NewAxisItem, index_tensor
from rlxlang.frontend.names import Scope
from rlxlang.frontend.postorder import postorder, unwrapped
from rlxlang.frontend.values import (
    NONE,
    POISON,
    BoundObject,
    Instance,
    ListValue,
    Poison,
    Unbound,
    describe,
    is_number,
    is_static,
)
from rlxlang.ir import SURFACES, Node, RangeValue, SourcedGuard
from rlxlang.types import DTYPES, F32, I32, Dim, DType, Guard, TypeProblem

OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "div": "floor_div", "%": "mod", "**": "pow", "@": "matmul",
    "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
_BY_OPERATOR = {"&": "bit_and", "|": "bit_or", "^": "bit_xor", "!": "bit_not", "-": "neg"}
_OPERATIONS = (ast.Unary, ast.Binary, ast.Index, ast.Field, ast.Call, ast.Method)
_PREDEFINED = {"inf": inf, "nan": nan, "pi": pi, "true": True, "false": False, "none": NONE}


class Evaluator:
    """Evaluates expressions in a scope.

    Args:
        context: The elaboration.
        call_function: Expands a fn or block.
    """

    def __init__(self, context: Context, call_function: CallFunction) -> None:
        self.context = context
        self.calls = Calls(context, call_function)

    def evaluate(self, root: Any, scope: Scope) -> Any:
        """The value of an expression; POISON when it (or a part of it) is wrong."""
        values: dict[int, Any] = {}
        nodes = list(postorder(root))
        self.context.count_operations(sum(isinstance(node, _OPERATIONS) for node in nodes), root.span)
        for node in nodes:
            with self.context.at(node.span):
                try:
                    values[id(node)] = self._one(node, values, scope)
                except BUILD_PROBLEMS as problem:
                    values[id(node)] = self.context.problem(problem, node.span)
            if self.context.observe is not None:
                self.context.observe(node.span, "", values[id(node)])
        return values[id(root)]

    def _one(self, node: Any, values: dict[int, Any], scope: Scope) -> Any:
        def value(part: Any) -> Any:
            return values[id(part)]

        match node:
            case ast.Int():
                return statics.limited(node.value)
            case ast.Float() | ast.Bool() | ast.Str():
                return node.value
            case ast.Dyn():
                return Dim.axis(f"?{node.label}")
            case ast.Ref():
                return self._reference(node, scope)
            case ast.Group():
                return value(node.inner)
            case ast.Unary():
                return self._unary(node, value(node.operand))
            case ast.Binary():
                return self._binary(node, value(node.left), value(node.right))
            case ast.ByValue():
                return self._by_value(node, value(node.value))
            case ast.ListExpr():
                items = tuple(value(i) for i in node.items)
                return POISON if any(isinstance(i, Poison) for i in items) else statics.limited(ListValue(items))
            case ast.Range():
                return self._range(node, value)
            case ast.Index():
                return self._index(node, values)
            case ast.Field():
                return self._field(node, value(node.value))
            case ast.Call():
                return self.calls.call(node, value)
            case ast.Method():
                return self.calls.method(node, value)
            case ast.Named():
                return self.calls.named(node, value, scope)
        raise AssertionError(f"no evaluation for {type(node).__name__}")

    # ------------------------------------------------------------------ names
    def _reference(self, node: ast.Ref, scope: Scope) -> Any:
        if len(node.path) > 1:
            return self.calls.path(node)
        name = node.path[0].text
        binding = scope.find(name)
        if binding is not None:
            binding.used = True
            if isinstance(binding.value, Unbound):
                message = f"`{name}` has no value here: {binding.value.reason}"
                return self.context.error("E0201", message, node.span, help_=binding.value.help)
            return binding.value
        if name in _PREDEFINED:
            return _PREDEFINED[name]
        if name in DTYPES:
            return DTYPES[name]
        if self.context.unit.forgives(name):
            return POISON
        notes: tuple[str, ...] = ()
        if name in SURFACES or self.context.unit.function(name) is not None:
            notes = (f"`{name}` is a function: call it, `{name}(…)`",)
        later = self.context.unit.lets.get(name)
        others = () if later is None else (Label(later, "a `let` is seen by what follows it"),)
        help_ = "" if later is not None else habits.VALUES.get(name) or did_you_mean(name, scope.visible())
        if name in self.context.unit.modules:
            help_ = f"`{name}` is a module, its items are written `{name}::…`"
        return self.context.error("E0201", f"unknown name `{name}`", node.span, others=others, notes=notes, help_=help_)

    # ------------------------------------------------------------------ operators
    def _unary(self, node: ast.Unary, operand: Any) -> Any:
        if isinstance(operand, Poison):
            return POISON
        if is_static(operand) and operand is not NONE:
            return statics.unary(node.op, operand)
        if not isinstance(operand, Node):
            return self.context.error(
                "E0304", f"`{node.op}` takes a tensor or a number, not {describe(operand)}", node.span
            )
        return SURFACES[_BY_OPERATOR[node.op]].build(self.context.b, operand)

    def _binary(self, node: ast.Binary, left: Any, right: Any) -> Any:
        if isinstance(left, Poison) or isinstance(right, Poison):
            return POISON
        if node.op in ("==", "!=") and (left is NONE or right is NONE):
            return (left is right) == (node.op == "==")  # known now, whatever the other side is
        for side, value in ((node.left, left), (node.right, right)):
            if not isinstance(value, Node) and not is_number(value) and not isinstance(value, str):
                return self.context.error(
                    "E0304", f"`{node.op}` takes tensors or numbers, not {describe(value)}", side.span
                )
        sized = isinstance(left, Dim) or isinstance(right, Dim)
        strings = isinstance(left, str) or isinstance(right, str)
        if (
            not isinstance(left, Node)
            and not isinstance(right, Node)
            and (not sized or strings or statics.is_sizes(node.op, left, right))
        ):
            if statics.needs_exact(node.op, left, right):
                guard = Guard(right, "divides", left, f"`{left} / {right}` must divide exactly, the division")
                self.context.b.require(SourcedGuard(guard, self.context.b.origin))
            return statics.binary(node.op, left, right)
        if strings:
            return self.context.error("E0304", f"`{node.op}` cannot combine a tensor and a string", node.span)
        name = _BY_OPERATOR.get(node.op) or OPERATORS[node.op]
        if node.op == "-":
            name = "sub"
        for number, other, side in ((left, right, node.left), (right, left, node.right)):
            dtype = other.dtype if isinstance(other, Node) and other.dtype.is_float else F32
            if isinstance(number, float) and _vanishes(number, dtype):
                least = float(np.finfo(dtype.numpy).smallest_subnormal) if dtype.name != "BF16" else 2.0**-133
                help_ = f"the smallest positive {dtype} is {least:.2g}"
                self.context.warn("W0904", f"{number} becomes 0 in {dtype}", side.span, help_=help_)
        try:
            return SURFACES[name].build(self.context.b, left, right)
        except TypeProblem as problem:
            sides = (Label(node.left.span, _shown(left)), Label(node.right.span, _shown(right)))
            message, *notes = (t.replace(f"`{name}`", f"`{node.op}`") for t in (problem.message, *problem.notes))
            return self.context.error(
                problem.code, message, node.op_span, notes=tuple(notes), help_=problem.help, others=sides
            )

    def _by_value(self, node: ast.ByValue, inner: Any) -> Any:
        if node.op == "~" and isinstance(inner, Node):
            return self.context.error(
                "E0303",
                "`~` passes a static number by value, this is a tensor",
                node.span,
                help_="to negate a mask write `!e`",
            )
        return inner

    def _range(self, node: ast.Range, value: Callable[[Any], Any]) -> Any:
        ends = [None if p is None else value(p) for p in (node.start, node.stop, node.step)]
        for part, end in zip((node.start, node.stop, node.step), ends, strict=True):
            if isinstance(end, Poison):
                return POISON
            if part is not None and (isinstance(end, bool) or not isinstance(end, (int, Dim))):
                return self.context.error(
                    "E0303",
                    f"the ends of a range are integers known while the graph is built, not {describe(end)}",
                    part.span,
                )
        step = 1 if ends[2] is None else ends[2]
        return RangeValue(ends[0], ends[1], step, node.inclusive)

    # ------------------------------------------------------------------ indices and fields
    def _index(self, node: ast.Index, values: dict[int, Any]) -> Any:
        base = values[id(node.value)]
        items: list[Any] = []
        for item in node.items:
            if isinstance(item, ast.Ellipsis):
                items.append(EllipsisItem())
            elif isinstance(item, ast.NewAxis):
                items.append(NewAxisItem())
            else:
                items.append(values[id(item)])
        if isinstance(base, Poison) or any(isinstance(i, Poison) for i in items):
            return POISON
        if isinstance(base, ListValue):
            return self._list_item(node, base, items)
        if not isinstance(base, Node):
            return self.context.error("E0304", f"{describe(base)} cannot be indexed", node.value.span)
        items = [self._positions(i) if isinstance(i, ListValue) else i for i in items]
        found = index_tensor(self.context.b, base, items)
        for warning in found.warnings:
            self.context.warn("W0906", warning, node.span, help_="without a bound a slice goes to the end")
        return found.node

    def _positions(self, value: ListValue) -> Any:
        """A list of static integers as an integer tensor; any other list as it is."""
        low, high = I32.integer_range
        numbers = [i for i in value.items if isinstance(i, int) and not isinstance(i, bool) and low <= i <= high]
        if not numbers or len(numbers) != len(value.items):
            return value
        return self.context.b.constant(np.array(numbers, np.int32), I32)

    def _list_item(self, node: ast.Index, base: ListValue, items: list[Any]) -> Any:
        what = f"family `{base.family}`" if base.family else "list"
        if len(items) != 1:
            return self.context.error("E0404", f"a {what} takes one index", node.span)
        position = items[0]
        if isinstance(position, bool) or not isinstance(position, int):
            return self.context.error(
                "E0303",
                f"the index of a {what} is an integer known while the graph is built, not {describe(position)}",
                node.items[0].span,
            )
        if not 0 <= position < len(base.items):
            return self.context.error(
                "E0406", f"index {position} is out of range for the {what} of {len(base.items)}", node.items[0].span
            )
        return base.items[position]

    def _field(self, node: ast.Field, base: Any) -> Any:
        if isinstance(base, Poison):
            return POISON
        name = node.name.text
        if isinstance(base, Instance):
            found = base.values.get(name, base.children.get(name))
            known = [*base.values, *base.children]
        elif isinstance(base, BoundObject):
            found, known = base.read(name), list(base.fields)
        else:
            found, known = None, []
        if found is not None:
            return found
        if known:
            help_ = did_you_mean(name, known) or f"it has {', '.join(known[:8])}"
            return self.context.error("E0207", f"{describe(base)} has no `{name}`", node.name.span, help_=help_)
        help_ = f"for the op write `x.{name}(…)`" if name in SURFACES else ""
        if isinstance(base, Node):
            help_ = habits.FIELDS.get(name, help_)
        return self.context.error("E0207", f"{describe(base)} has no field `{name}`", node.name.span, help_=help_)


def _shown(value: Any) -> str:
    return str(value.type) if isinstance(value, Node) else describe(value)


def _vanishes(value: Any, dtype: DType) -> bool:
    """Whether a number that is not zero is zero in a float dtype."""
    if not isinstance(value, float) or value == 0 or not abs(value) < 1:
        return False
    return float(np.asarray(value).astype(dtype.numpy)) == 0


__all__ = ["Evaluator", "unwrapped"]
