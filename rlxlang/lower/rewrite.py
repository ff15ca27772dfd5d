"""Replacing expressions inside expressions; what is shared stays shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rlxlang.kernels import Apply, Expr, Gathered, Index, Load, Reduce, Store, walk


def rewrite(root: Expr, change: Callable[[Expr], Expr | None], memo: dict[int, Expr]) -> Expr:
    """The expression with every part for which `change` gives something replaced by that (parts below it are not looked at).

    `memo` keeps results by identity; use one for expressions that share parts, and keep those alive.
    """
    for expr in walk(root):
        if id(expr) in memo:
            continue
        new = change(expr)
        if new is None:
            new = _rebuilt(expr, memo)
        memo[id(expr)] = new
    return memo[id(root)]


def _rebuilt(expr: Expr, memo: Mapping[int, Expr]) -> Expr:
    if isinstance(expr, Apply):
        args = tuple(memo[id(a)] for a in expr.args)
        same = all(a is b for a, b in zip(args, expr.args, strict=True))
        return expr if same else Apply(expr.function, args, expr.dtype)
    if isinstance(expr, Load):
        index = changed_index(expr.index, memo)
        where = None if expr.where is None else memo[id(expr.where)]
        if index is expr.index and where is expr.where:
            return expr
        return replace(expr, index=index, where=where)
    return expr


def changed_index(index: Index, memo: Mapping[int, Expr]) -> Index:
    """The index with its gathered parts replaced."""
    parts = tuple(Gathered(memo[id(g.value)], g.size, g.stride) for g in index.gathered)
    if all(a.value is b.value for a, b in zip(parts, index.gathered, strict=True)):
        return index
    return Index(index.offset, index.strides, parts)


def rewrite_store(store: Store, change: Callable[[Expr], Expr | None], memo: dict[int, Expr]) -> Store:
    """A store with the expressions in it rewritten."""
    for part in (
        store.value,
        *(g.value for g in store.index.gathered),
        *([store.where] if store.where is not None else []),
    ):
        rewrite(part, change, memo)
    where = None if store.where is None else memo[id(store.where)]
    return Store(store.buffer, changed_index(store.index, memo), memo[id(store.value)], store.mode, where)


def rewrite_reduce(reduce: Reduce, change: Callable[[Expr], Expr | None], memo: dict[int, Expr]) -> Reduce:
    """A reduction with its value rewritten."""
    return replace(reduce, value=rewrite(reduce.value, change, memo))
