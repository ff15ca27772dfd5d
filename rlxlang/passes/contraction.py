"""Rules of reductions and products of matrices."""

from __future__ import annotations

from rlxlang.ir import Node
from rlxlang.passes.rule import Rewriting, Rule


def _nothing_reduced(r: Rewriting, node: Node) -> Node | None:
    """A reduction over axes of size 1 only moves elements; a sum of floats would make 0.0 of -0.0, so it stays."""
    x, axes = node.inputs[0], node.attrs["axes"]
    if any(x.shape[k] != 1 for k in axes) or (node.op.name == "sum" and not x.dtype.is_integer):
        return None
    if node.op.name == "prod" and x.dtype.kind == "complex":
        return None
    wide = x if x.dtype == node.dtype else r.b.emit("cast", x, dtype=node.dtype)
    return r.b.emit("reshape", wide, shape=node.shape)


def _only_position(r: Rewriting, node: Node) -> Node | None:
    """The extremum of one element is at position 0."""
    alone = node.inputs[0].shape[node.attrs["axis"]] == 1
    return r.b.full(0, node.dtype, node.shape) if alone else None


def _factors_swapped(r: Rewriting, node: Node) -> Node | None:
    """A transpose of a product that keeps its batch axes in front is a product again, with the factors in the other order."""
    product = node.inputs[0]
    if product.op.name != "dot_general" or r.is_shared(product):
        return None
    (left_batch, right_batch), (left_sum, right_sum) = product.attrs["batch"], product.attrs["contract"]
    shared = len(left_batch)
    rank = product.tensor.rank
    rows = product.inputs[0].tensor.rank - shared - len(left_sum)
    perm = tuple(node.attrs["perm"])
    front, rest = perm[:shared], perm[shared:]
    if sorted(front) != list(range(shared)):
        return None
    left, right = product.inputs
    batch = (tuple(left_batch[k] for k in front), tuple(right_batch[k] for k in front))
    contract = (left_sum, right_sum)
    if rest == (*range(shared + rows, rank), *range(shared, shared + rows)) and 0 < rows < rank - shared:
        left, right = right, left
        batch, contract = (batch[1], batch[0]), (right_sum, left_sum)
    elif rest != tuple(range(shared, rank)):
        return None
    return r.b.emit("dot_general", left, right, batch=batch, contract=contract)


CONTRACTION: tuple[Rule, ...] = (
    *(
        Rule(f"{name} over axes of size 1 -> reshape", name, _nothing_reduced)
        for name in ("sum", "prod", "max", "min", "any", "all")
    ),
    *(Rule(f"{name} over an axis of size 1 -> 0", name, _only_position) for name in ("argmax", "argmin")),
    Rule("transpose that swaps factors -> the other product", "transpose", _factors_swapped),
)
