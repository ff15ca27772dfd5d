"""`grad(y, a, b)` in a text: the derivative of a value of one element, as further nodes of the same graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlxlang.diagnostics import RlxTransformError, Span
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.postorder import unwrapped
from rlxlang.frontend.values import POISON, ListValue, Poison, describe
from rlxlang.ir import Node, topological
from rlxlang.transforms import gradients
from rlxlang.types import TensorType, dims_equal


def gradient(context: Context, parts: Sequence[Any], value: Callable[[Any], Any], span: Span) -> Any:
    """The value of `grad(y, a, …)`: a tensor for one tensor, a list for a family or for several arguments.

    Args:
        context: The elaboration.
        parts: The arguments as written.
        value: Gives the value of a part of the call.
        span: The call.
    """
    values = [value(part) for part in parts]
    if any(isinstance(v, Poison) for v in values):
        return POISON
    if len(values) < 2:
        return context.error(
            "E0220",
            "`grad` takes a value and at least one name: `grad(loss, w)`",
            span,
            notes=("its form is `grad(y, a, …)`",),
        )
    wanted = [_wanted(context, part, value) for part in parts[1:]]
    if any(isinstance(w, Poison) for w in (*wanted, _scalar(context, parts[0], values[0]))):
        return POISON
    leaves = [leaf for w in wanted for leaf in w]
    if values[0].serial < context.leaves_before and values[0] not in leaves:
        context.warn(
            "W0900",
            f"`{parts[0].span.text}` is computed outside of this body, so its derivative here is 0",
            parts[0].span,
            help_="compute it in the body, or take the derivative outside",
        )
    context.count_operations(len(topological([values[0]])), span)  # each has a derivative of some nodes
    try:
        found = iter(gradients(context.b, values[0], leaves, context.leaves_before))
    except RlxTransformError as problem:
        first = problem.diagnostics[0]
        return context.error(first.code, first.message, span, notes=first.notes, help_=first.help)
    results = [_shaped(v, found) for v in values[1:]]
    return results[0] if len(results) == 1 else ListValue(tuple(results))


def _scalar(context: Context, part: Any, y: Any) -> Any:
    if not isinstance(y, Node) or not isinstance(y.type, TensorType):
        return context.error("E0304", f"`grad` differentiates a tensor of one element, not {describe(y)}", part.span)
    if dims_equal(y.tensor.size, 1) is not True:
        return context.error(
            "E0503",
            f"`grad` differentiates a value of one element, and `{part.span.text}` is {y.type}",
            part.span,
            help_=f"reduce it: `grad(mean({part.span.text}), …)` or `grad(sum({part.span.text}), …)`",
        )
    if not y.dtype.is_float:
        return context.error("E0501", f"`{part.span.text}` is {y.dtype}, which has no gradient", part.span)
    return y


def _wanted(context: Context, part: Any, value: Callable[[Any], Any]) -> Any:
    """The tensors that an argument stands for."""
    written = part.span.text
    if not _is_name(part, value):
        return context.error(
            "E0502",
            f"`grad` takes names, elements of families and whole families, and `{written}` is an expression",
            part.span,
            help_=f"bind it before the value is computed from it: `let t = {written};`, then `grad(…, t)`",
        )
    leaves = leaves_of(value(part))
    for leaf in leaves:
        if not isinstance(leaf, Node):
            return context.error("E0304", f"`grad` takes tensors, and `{written}` is {describe(leaf)}", part.span)
        if not leaf.dtype.is_differentiable:
            return context.error(
                "E0501",
                f"`{written}` ({leaf.dtype}) cannot be differentiated",
                part.span,
                notes=("only floats and C64 have derivatives",),
            )
    return leaves


def _is_name(part: Any, value: Callable[[Any], Any]) -> bool:
    """Whether an argument is a name, an element or entry of a list, or a list of such."""
    todo = [part]
    while todo:
        inner = unwrapped(todo.pop())
        if isinstance(inner, ast.ByValue):
            todo.append(inner.value)
        elif isinstance(inner, ast.ListExpr):
            todo.extend(inner.items)
        elif isinstance(inner, ast.Index):
            if not isinstance(value(inner.value), ListValue):
                return False
        elif not isinstance(inner, (ast.Ref, ast.Field)):
            return False
    return True


def leaves_of(value: Any) -> list[Any]:
    """The value itself, or the values in a list at any depth, in order."""
    found: list[Any] = []
    todo = [value]
    while todo:
        current = todo.pop()
        if isinstance(current, ListValue):
            todo.extend(reversed(current.items))
        else:
            found.append(current)
    return found


def _shaped(value: Any, found: Any) -> Any:
    """The next derivatives in the arrangement of `value`; lists of lists are few and shallow."""
    if isinstance(value, ListValue):
        return ListValue(tuple(_shaped(item, found) for item in value.items))
    return next(found)
