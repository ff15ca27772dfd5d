"""`einsum`: products and sums of tensors with named axes, as pairwise contractions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rlxlang.ir import Builder, Node, Parameter
from rlxlang.ops import emit
from rlxlang.ops.arguments import surface
from rlxlang.ops.broadcasting import promoted
from rlxlang.ops.precision import PRECISION, of_precision
from rlxlang.ops.rules import require_guards
from rlxlang.ops.surface_make import diagonal
from rlxlang.types import ShapeContext, TypeProblem


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A tensor with one label per axis; labels do not repeat."""

    node: Node
    labels: tuple[str, ...]


def _problem(spec: str, text: str) -> TypeProblem:
    return TypeProblem("E0350", f'`einsum` "{spec}": {text}')


def _split(spec: str, count: int) -> tuple[list[str], str | None]:
    compact = re.sub(r"\s+", "", spec)
    left, arrow, right = compact.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term):
            raise _problem(spec, f'"{term}" is no list of axis letters')
    if len(terms) != count:
        raise _problem(spec, f"it names {len(terms)} operands, {count} are given")
    return terms, right if arrow else None


def _labels(spec: str, term: str, node: Node) -> tuple[str, ...]:
    """One label per axis; axes under `...` are called `.0`, `.1` … counted from the right."""
    rank = len(node.shape)
    letters = term.replace("...", "")
    hidden = rank - len(letters)
    if hidden < 0 or (hidden and "..." not in term):
        raise TypeProblem("E0404", f'`einsum` "{spec}": "{term}" has {len(letters)} axes, the operand is {node.type}')
    before, _, after = term.partition("...")
    return (*before, *(f".{hidden - 1 - k}" for k in range(hidden)), *after)


def _without_repeats(b: Builder, item: _Labelled) -> _Labelled:
    """Axes of one label replaced by their diagonal."""
    node, labels = item.node, list(item.labels)
    k = 0
    while k < len(labels):
        again = next((j for j in range(k + 1, len(labels)) if labels[j] == labels[k]), None)
        if again is None:
            k += 1
            continue
        context = ShapeContext()
        context.same(node.shape[k], node.shape[again], f"the axes `{labels[k]}` of one operand of `einsum`")
        require_guards(b, context)
        node = diagonal(b, node, k, again)
        del labels[again]
    return _Labelled(node, tuple(labels))


def _summed(b: Builder, item: _Labelled, keep: set[str]) -> _Labelled:
    """Axes summed that neither another operand nor the result has."""
    gone = [k for k, label in enumerate(item.labels) if label not in keep]
    if not gone:
        return item
    labels = tuple(label for label in item.labels if label in keep)
    return _Labelled(emit.reduce_sum(b, item.node, gone), labels)


def _squeezed(b: Builder, item: _Labelled, sizes: dict[str, Any]) -> _Labelled:
    """Without axes of static size 1 whose label has another size elsewhere: they broadcast."""
    gone = [k for k, label in enumerate(item.labels) if item.node.shape[k] == 1 and sizes[label] != 1]
    if not gone:
        return item
    node = emit.reshape(b, item.node, emit.without_axes(item.node.shape, gone))
    return _Labelled(node, tuple(label for k, label in enumerate(item.labels) if k not in gone))


def _pair(b: Builder, left: _Labelled, right: _Labelled, keep: set[str]) -> _Labelled:
    """The product of two operands, summed over shared labels that nothing else needs."""
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in keep]
    inner = [label for label in shared if label not in keep]

    def places(item: _Labelled, wanted: list[str]) -> tuple[int, ...]:
        return tuple(item.labels.index(label) for label in wanted)

    node = emit.dot(
        b,
        left.node,
        right.node,
        (places(left, inner), places(right, inner)),
        (places(left, batch), places(right, batch)),
    )
    free = [label for item in (left, right) for label in item.labels if label not in shared]
    return _Labelled(node, (*batch, *free))


def einsum(b: Builder, spec: str, operands: Any, precision: Any = "highest") -> Node:
    """The sum of products that a specification in Einstein's notation names."""
    if not isinstance(spec, str):
        raise TypeProblem("E0306", 'the first argument of `einsum` is a string such as "ij,jk->ik"')
    given = operands if isinstance(operands, tuple) else (operands,)
    nodes = promoted(b, "einsum", [of_precision(b, "einsum", v, precision) for v in given])
    terms, result = _split(spec, len(nodes))
    items = [_Labelled(n, _labels(spec, t, n)) for n, t in zip(nodes, terms, strict=True)]
    order = _result_labels(spec, result, items)
    sizes = _sizes(b, spec, items)
    items = [_squeezed(b, _without_repeats(b, i), sizes) for i in items]
    missing = [label for label in order if all(label not in i.labels for i in items) and sizes.get(label) != 1]
    if missing:
        raise _problem(spec, f"the result has the axis `{missing[0]}`, no operand has it")
    while len(items) > 1:
        left, right, *rest = items
        keep = {label for i in rest for label in i.labels} | set(order)
        left = _summed(b, left, keep | set(right.labels))
        right = _summed(b, right, keep | set(left.labels))
        items = [_pair(b, left, right, keep), *rest]
    last = _summed(b, items[0], set(order))
    present = [label for label in order if label in last.labels]
    node = emit.transpose(b, last.node, [last.labels.index(label) for label in present])
    return emit.reshape(b, node, tuple(node.shape[present.index(x)] if x in present else 1 for x in order))


def _result_labels(spec: str, result: str | None, items: list[_Labelled]) -> tuple[str, ...]:
    everything = [label for i in items for label in i.labels]
    hidden = sorted({label for label in everything if label.startswith(".")}, key=lambda x: -int(x[1:]))
    if result is None:
        once = sorted(label for label in set(everything) if everything.count(label) == 1 and not label.startswith("."))
        return (*hidden, *once)
    before, dots, after = result.partition("...")
    order = (*before, *(hidden if dots else ()), *after)
    if len(set(order)) != len(order):
        raise _problem(spec, "the result lists an axis twice")
    unknown = [label for label in order if label not in everything]
    if unknown:
        raise _problem(spec, f"the result has the axis `{unknown[0]}`, no operand has it")
    return order


def _sizes(b: Builder, spec: str, items: list[_Labelled]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    context = ShapeContext()
    for item in items:
        for label, dim in zip(item.labels, item.node.shape, strict=True):
            known = sizes.get(label)
            if known is None or known == 1:
                sizes[label] = dim
            elif dim != 1:
                sizes[label] = context.same(known, dim, f'the sizes of axis `{label}` of `einsum` "{spec}"', "E0402")
    require_guards(b, context)
    return sizes


surface(
    "einsum",
    (Parameter("spec", "str"), Parameter("operands", "tensors"), PRECISION),
    einsum,
    'Products and sums of named axes, `einsum("bij,bjk->bik", x, y)`; `precision` as of `matmul`.',
    variadic=True,
    method=False,
)
