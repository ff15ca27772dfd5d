"""A lint of numbers: constants of a graph that can only give NaN or infinity, such as `log` of a negative one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import Diagnostic, Label
from rlxlang.interp import apply_op
from rlxlang.ir import Graph, Node
from rlxlang.ops import lowering as how
from rlxlang.types import TensorType

LARGEST = 4096
"""Elements of constants that are looked at; repeated numbers count once."""

_FOLDED = (how.Elementwise, how.Reduction, how.View, how.Reshape, how.Identity, how.Concat, how.Iota, how.Prefix)
"""What is computed of constants: cheap, and never an error."""

Value = np.ndarray[Any, Any]


def lint_numbers(graph: Graph) -> list[Diagnostic]:
    """Warnings W0908 about numbers of a graph that are NaN or infinite whatever its inputs are.

    Constants are folded, `inf` and `nan` that the text itself writes are meant; so is what only `where` chooses from.
    """
    found: list[Diagnostic] = []
    todo = [graph]
    while todo:
        present = todo.pop()
        found += _Lint(present).run()
        for node in present.nodes:
            todo += [v for v in node.attrs.values() if isinstance(v, Graph)]
    return found


class _Lint:
    """One graph or body. Values are arrays of a node's shape, or one number that is repeated everywhere."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[Node, Value] = {}
        self.readers: dict[Node, list[Node]] = {}
        for node in graph.nodes:
            for operand in node.inputs:
                self.readers.setdefault(operand, []).append(node)

    def run(self) -> list[Diagnostic]:
        found = []
        for node in self.graph.nodes:
            if not isinstance(node.type, TensorType):
                continue
            with np.errstate(all="ignore"):
                value = self._fold(node)
            if value is not None:
                self.values[node] = value
            check = _CHECKS.get(node.op.name)
            checked = "" if check is None else check(self, node)
            text = checked or self._fault(node, value)
            if text and node.origin.span is not None and not node.origin.via and not self._is_chosen_from(node):
                labels = (Label(node.origin.span, "", primary=True),)
                found.append(
                    Diagnostic("W0908", "warning", text, labels, (), () if checked else _HELP, node.origin.chain)
                )
        return found

    def _is_chosen_from(self, node: Node) -> bool:
        """Whether only `where` reads a value, which may leave out what is not finite."""
        readers = self.readers.get(node, [])
        outputs = {o.node for o in self.graph.outputs}
        return bool(readers) and node not in outputs and all(r.op.name == "select" for r in readers)

    # ------------------------------------------------------------------ folding
    def _fold(self, node: Node) -> Value | None:
        name = node.op.name
        if name == "constant":
            array: Value = node.attrs["data"].array
            return array if array.size <= LARGEST else None
        if name == "broadcast_to":
            return self._repeated(node)
        if name == "select":
            return self._selected(node)
        operands = [self.values.get(i) for i in node.inputs]
        if not isinstance(node.op.lower, _FOLDED) or any(o is None for o in operands):
            return None
        known = [o for o in operands if o is not None]
        if isinstance(node.op.lower, how.Elementwise) and known and all(o.size == 1 for o in known):
            return self._computed(node, [o.reshape(()) for o in known], ())
        whole = [self._whole(i) for i in node.inputs]
        if any(w is None for w in whole) or not self._is_small(node):
            return None
        return self._computed(node, [w for w in whole if w is not None], node.shape)

    def _computed(self, node: Node, operands: list[Value], shape: tuple[Any, ...]) -> Value:
        result: Value = apply_op(node, operands, TensorType(node.dtype, shape))
        return result

    def _repeated(self, node: Node) -> Value | None:
        value = self.values.get(node.inputs[0])
        if value is None or value.size == 1:
            return None if value is None else value.reshape(())
        return np.broadcast_to(value, node.shape) if self._is_small(node) else None

    def _selected(self, node: Node) -> Value | None:
        """`where` with a condition that is the same everywhere is the operand that it chooses."""
        condition = self.values.get(node.inputs[0])
        if condition is None or not condition.size or condition.min() != condition.max():
            return None
        return self.values.get(node.inputs[1 if condition.flat[0] else 2])

    def _is_small(self, node: Node) -> bool:
        size = node.tensor.size
        return node.tensor.is_static and isinstance(size, int) and size <= LARGEST

    def _whole(self, node: Node) -> Value | None:
        value = self.values[node]
        if value.shape == tuple(node.shape):
            return value
        return np.broadcast_to(value, node.shape) if self._is_small(node) else None

    # ------------------------------------------------------------------ faults
    def _fault(self, node: Node, value: Value | None) -> str:
        """What to say of a value that has been folded."""
        if value is None or not _is_float(value) or node.op.name in ("constant", "broadcast_to", "select"):
            return ""
        operands = [self.values[i] for i in node.inputs]
        if not _new_faults(value, operands):
            return ""
        return f"`{node.op.name}`{_of(operands, value)} gives {_worst(value)}{_in(node)}"

    def zero_divisor(self, node: Node) -> str:
        """A float divided by a constant that has zeros."""
        divisor = self.values.get(node.inputs[1])
        if node.inputs[0] in self.values or divisor is None or not _is_float(divisor) or (divisor != 0).all():
            return ""
        word = "NaN" if node.op.name == "mod" else "NaN or infinity"
        where = "by 0" if divisor.size == 1 else f"by a constant that is 0 at {_first(divisor == 0)}"
        return f"`{node.op.name}` {where} gives {word}"

    def empty_mean(self, node: Node) -> str:
        """The mean of an axis without elements, or a variance of fewer than its degrees of freedom."""
        shape = node.inputs[0].shape
        count = 1
        for axis in node.attrs["axes"]:
            if not isinstance(shape[axis], int):
                return ""
            count *= shape[axis]
        taken = node.attrs.get("ddof", 0)
        if count > taken or node.tensor.size == 0:
            return ""
        less = f" less `ddof` {taken}" if taken else ""
        return f"`{node.op.name}` over {count} element{'s' * (count != 1)}{less} gives NaN"

    def closed_mask(self, node: Node) -> str:
        """`where` that takes an infinite number everywhere."""
        value = self.values.get(node)
        condition = self.values.get(node.inputs[0])
        if value is None or condition is None or not _is_float(value) or np.isfinite(value).any() or not value.size:
            return ""
        if node.inputs[1] in self.values and node.inputs[2] in self.values:
            return ""
        return f"`where` gives {_worst(value)} everywhere: its condition is {str(bool(condition.flat[0])).lower()}"


_HELP = ("write `inf` or `nan` where one is meant",)
_CHECKS: dict[str, Callable[[_Lint, Node], str]] = {
    "div": _Lint.zero_divisor,
    "mod": _Lint.zero_divisor,
    "mean": _Lint.empty_mean,
    "var": _Lint.empty_mean,
    "std": _Lint.empty_mean,
    "select": _Lint.closed_mask,
}


def _is_float(value: Value) -> bool:
    return value.dtype.kind in "fc" or value.dtype.name == "bfloat16"


def _new_faults(value: Value, operands: Sequence[Value]) -> bool:
    """Whether an op has made NaN of numbers, or infinity of finite ones."""
    floats = [o for o in operands if _is_float(o)]
    if np.isnan(value).any() and not any(np.isnan(o).any() for o in floats):
        return True
    return bool(np.isinf(value).any()) and all(np.isfinite(o).all() for o in floats)


def _first(bad: Value) -> str:
    place = [int(i) for i in np.argwhere(bad)[0]]
    return str(place[0] if len(place) == 1 else place)


def _worst(value: Value) -> str:
    bad = value[~np.isfinite(value)].flat[0]
    return "NaN" if np.isnan(bad) else "infinity" if bad.real > 0 else "-infinity"


def _in(node: Node) -> str:
    return f" in {node.dtype}" if node.dtype.name in ("F16", "BF16") else ""


def _of(operands: Sequence[Value], value: Value) -> str:
    """The numbers that a result comes from, where it is plain which these are."""
    same = [o for o in operands if o.size == 1 or o.shape == value.shape]
    if not operands or len(same) < len(operands):
        return ""
    bad = ~np.isfinite(value)
    place = tuple(np.argwhere(bad)[0]) if value.ndim else ()
    numbers = [o.reshape(()).item() if o.size == 1 else o[place].item() for o in operands]
    shown = " and ".join(f"{n:g}" if isinstance(n, float) else str(n) for n in numbers)
    return f" of {shown}" + (f" at {_first(bad)}" if value.ndim else "")
