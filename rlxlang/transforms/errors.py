"""Errors of transforms, worded in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from rlxlang.diagnostics import RlxTransformError, did_you_mean
from rlxlang.ir import Graph, GraphInput, GraphOutput, Node
from rlxlang.types import TypeProblem, dims_equal


def wanted_inputs(graph: Graph, names: Sequence[str], transform: str) -> list[GraphInput]:
    """The inputs and params with these names.

    Raises:
        RlxTransformError: A name is unknown, given twice, or its values have no derivative (integers, Bool).
    """
    known = [i.name for i in graph.inputs]
    found = []
    if isinstance(names, str):
        raise RlxTransformError(
            f"`{transform}` takes a list of names, not the string {names!r}",
            code="E0502",
            helps=(f'write ["{names}"]',),
        )
    for k, name in enumerate(names):
        entry = graph.input(name)
        if entry is None:
            suggestion = did_you_mean(str(name), known)
            raise RlxTransformError(
                f"`{transform}`: the graph `{graph.name}` has no input or param `{name}`",
                code="E0502",
                notes=(f"it has {', '.join(known) or 'none'}",),
                helps=(suggestion,) if suggestion else (),
            )
        if name in names[:k]:
            raise RlxTransformError(f"`{transform}`: `{name}` is listed twice", code="E0502")
        found.append(entry)
    return found


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of 1 or more; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def require_differentiable(entries: Iterable[GraphInput], transform: str) -> None:
    """Refuse inputs whose values have no derivative.

    Raises:
        RlxTransformError: E0501 naming them all.
    """
    bad = [e for e in entries if not e.node.dtype.is_differentiable]
    if bad:
        listed = ", ".join(f"`{e.name}` ({e.node.dtype})" for e in bad)
        raise RlxTransformError(
            f"`{transform}`: {listed} cannot be differentiated",
            code="E0501",
            notes=("only floats and C64 have derivatives",),
        )


def require_scalar_loss(graph: Graph, transform: str) -> Node:
    """The node of the first output, which must have exactly one element and be a float.

    Raises:
        RlxTransformError: E0503 with what to write instead.
    """
    if not graph.outputs:
        raise RlxTransformError(f"`{transform}`: the graph `{graph.name}` has no output", code="E0503")
    loss = graph.outputs[0]
    if dims_equal(loss.node.tensor.size, 1) is not True:
        raise RlxTransformError(
            f"`{transform}`: the first output `{loss.name}` is the loss and must have one element, it has shape {loss.node.type}",
            code="E0503",
            span=loss.node.origin.span,
            helps=(f"reduce it, `mean({_written(loss)})`, or use `vjp` to give a cotangent",),
        )
    if not loss.node.dtype.is_float:
        raise RlxTransformError(
            f"`{transform}`: the loss `{loss.name}` is {loss.node.dtype}, which has no gradient",
            code="E0501",
            span=loss.node.origin.span,
        )
    return loss.node


def not_differentiable(node: Node, transform: str) -> RlxTransformError:
    """The error for an op that must not be differentiated."""
    return RlxTransformError(f"`{transform}`: `{node.op.name}` has no derivative", code="E0501", span=node.origin.span)


def _written(output: GraphOutput) -> str:
    """The expression of an output as the text has it, its name where that is long."""
    span = output.node.origin.span
    text = "" if span is None else span.text
    return text if 0 < len(text) <= 30 and "\n" not in text else output.name


def located(problem: TypeProblem, node: Node, transform: str) -> RlxTransformError:
    """A type problem inside a rule, told as a fault at the node's place."""
    return RlxTransformError(
        f"`{transform}` of `{node.op.name}`: {problem.message}",
        code="E0500",
        span=node.origin.span,
        notes=problem.notes,
    )
