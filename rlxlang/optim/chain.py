"""Transformations of gradients, and the optimizer that takes what they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxTypeError, RlxValueError
from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.optim.arrays import HOST, Arithmetic, Value
from rlxlang.optim.base import Array, Optimizer, OptItem
from rlxlang.optim.gradient_transforms import GradientTransform
from rlxlang.optim.traced import GRAPH, Traced
from rlxlang.optim.wrapper import Wrapper
from rlxlang.types import from_numpy


class Chain(Wrapper):
    """Gradients go through transformations in their order, and then to an optimizer.

    `Chain(SkipNonFinite(), ClipByValue(1.0), ClipByGlobalNorm(1.0), AdamW(3e-4))`. Its state is that of the optimizer, under that
    optimizer's name, so transformations may be added to or taken from a run. Gradients of frozen parameters take no part.

    Args:
        parts: Transformations, and an optimizer at the end, which may be a `Chain` or `Lookahead`.

    Raises:
        RlxTypeError: A part is something else, or there is no optimizer at the end.
    """

    def __init__(self, *parts: GradientTransform | Optimizer) -> None:
        *transforms, last = parts or (None,)
        if not isinstance(last, Optimizer):
            raise RlxTypeError(
                f"a `Chain` ends with an optimizer, {_described(last)} is given",
                helps=("write `Chain(ClipByGlobalNorm(1.0), AdamW(3e-4))`",),
            )
        found = []
        for part in transforms:
            if not isinstance(part, GradientTransform):
                raise RlxTypeError(f"before its optimizer a `Chain` has transformations, {_described(part)} is given")
            found.append(part)
        super().__init__(last)
        self.transforms = tuple(found)

    def _applied(self, x: Arithmetic, gradients: Mapping[str, Value]) -> tuple[Mapping[str, Value], list[Value]]:
        """The transformed gradients, and the numbers of which none may be greater than 0."""
        vetoes = []
        for transform in self.transforms:
            veto = transform.veto(x, gradients)
            if veto is not None:
                vetoes.append(veto)
            gradients = transform.apply(x, gradients)
        return gradients, vetoes

    # ----------------------------------------------------------------------------------------- the host form

    def step(self, name: str, shape: tuple[int, ...], param: Array, grad: Array) -> None:
        """Update one parameter in place; see `Optimizer.step`.

        Raises:
            RlxValueError: A transformation looks at all gradients together, which `step_batch` has.
        """
        joint = next((type(t).__name__ for t in self.transforms if t.is_joint), None)
        if joint is not None:
            raise RlxValueError(
                f"`{joint}` looks at all gradients together, and `step` has that of `{name}` alone",
                helps=("give all parameters of the step to `step_batch`",),
            )
        self.step_batch([(name, shape, param, grad)])

    def step_batch(self, items: Sequence[OptItem]) -> None:
        """Transform all gradients, and update all parameters in place, or none where a transformation says so."""
        gradients = {
            name: np.asarray(grad).astype(self.compute_dtype(np.asarray(param).dtype))
            for name, _, param, grad in items
            if not self.is_frozen(name)
        }
        with np.errstate(all="ignore"):
            new, vetoes = self._applied(HOST, gradients)
        if any(veto > 0 for veto in vetoes):
            return
        self.inner.step_batch([(n, shape, param, new[n]) for n, shape, param, _ in items if n in new])

    # ----------------------------------------------------------------------------------------- the compiled form

    @property
    def is_traceable(self) -> bool:
        """Whether a `Trainer` may compile the update: the optimizer can be traced, and this is no subclass."""
        return type(self) is Chain and super().is_traceable

    def trace_gradients(self, b: Builder, gradients: Mapping[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """See `Algorithm.trace_gradients`."""
        wide = {}
        for name, node in gradients.items():
            dtype = from_numpy(self.compute_dtype(node.dtype.numpy))
            assert dtype is not None
            wide[name] = Traced(b, emit.cast(b, node, dtype))
        new, vetoes = self._applied(GRAPH, wide)
        found, applied = super().trace_gradients(b, {name: value.node for name, value in new.items()})
        for veto in vetoes:
            free = emit.compare(b, "le", veto.node, 0)
            applied = free if applied is None else b.emit("bit_and", applied, free)
        return found, applied


def _described(part: Any) -> str:
    if part is None:
        return "nothing"
    return f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__
