"""The parts of an expression in the order in which they are evaluated, without recursion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlxlang.frontend import ast


def parts(node: Any) -> tuple[Any, ...]:
    """The expressions directly below one that are evaluated before it."""
    if isinstance(node, ast.Binary):
        return (node.left, node.right)
    if isinstance(node, ast.Unary):
        return (node.operand,)
    if isinstance(node, ast.Group):
        return (node.inner,)
    if isinstance(node, ast.Named):
        return parts(unwrapped(node.call))
    if isinstance(node, ast.Call):
        return tuple(a.value for a in node.args)
    if isinstance(node, ast.Method):
        return (node.receiver, *(a.value for a in node.args))
    if isinstance(node, ast.Field):
        return (node.value,)
    if isinstance(node, ast.Index):
        return (node.value, *(i for i in node.items if not isinstance(i, (ast.Ellipsis, ast.NewAxis))))
    if isinstance(node, ast.Range):
        return tuple(p for p in (node.start, node.stop, node.step) if p is not None)
    if isinstance(node, ast.ListExpr):
        return node.items
    if isinstance(node, ast.ByValue):
        return (node.value,)
    return ()


def unwrapped(node: Any) -> Any:
    """The expression inside any parentheses."""
    while isinstance(node, ast.Group):
        node = node.inner
    return node


def postorder(root: Any) -> Iterator[Any]:
    """Every part, operands before what uses them, left to right."""
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            yield node
            continue
        todo.append((node, True))
        todo.extend((p, False) for p in reversed(parts(node)))
