"""Training steps whose update runs in Python: optimizers without a traced form, quantized parameters, accumulated gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.device import Device
from rlxlang.func_training import clip_by_global_norm

if TYPE_CHECKING:
    from rlxlang.func import Func

Array: TypeAlias = "np.ndarray[Any, Any]"


class HostStep:
    """Gradients by compiled code, everything after them by the optimizer's own `step_batch`.

    Args:
        func: The forward function.
        params: Arrays of all its params; those of `names` are written in place.
        names: The params to train.
        opt: The optimizer.
        max_grad_norm: Greatest norm of all gradients together; 0 or less clips nothing.
        quant: `quant(w)` or `quant(name, shape, w)`, or None.
        device: Where to compute gradients.
        accumulate: Calls that make one update.

    Attributes:
        device: Where gradients are computed.
        is_complete: Whether the last call ended with an update.
    """

    def __init__(
        self,
        func: Func,
        params: Mapping[str, Array],
        names: Sequence[str],
        opt: Any,
        max_grad_norm: float,
        quant: Callable[..., Any] | None,
        device: Device | None,
        accumulate: int,
    ) -> None:
        self._gradient = func.value_and_grad(list(names)).traced
        self._params, self._names, self._opt = params, list(names), opt
        self._max_grad_norm, self._accumulate = max_grad_norm, accumulate
        self._quant = None if quant is None else _named(quant)
        self._compiled = self._gradient.compiled(device)
        self.device = self._compiled.device
        self._sums: list[Array] = []
        self._rows = self._calls = 0

    @property
    def waiting(self) -> int:
        """How many calls have gradients that wait for an update."""
        return self._calls

    @property
    def is_complete(self) -> bool:
        """Whether no gradients wait for an update."""
        return self._calls == 0

    def call(self, *values: object) -> float:
        """Take the inputs and the seed by position; returns the loss."""
        params = self._params if self._quant is None else {**self._params, **self._quantized()}
        feeds, sizes = self._gradient.signature.prepare(values, params)
        results = self._compiled.run(feeds, params, sizes)
        gradients = results[1 : 1 + len(self._names)]
        if self._accumulate > 1:
            gradients = self._accumulated(gradients, _row_count(feeds))
        if gradients:
            self._update(gradients)
        return float(np.reshape(results[0], ()))

    def _update(self, gradients: Sequence[Array]) -> None:
        clip_by_global_norm(gradients, self._max_grad_norm)
        params = [self._params[n] for n in self._names]
        self._opt.step_batch([(n, p.shape, p, g) for n, p, g in zip(self._names, params, gradients, strict=True)])
        self._opt.end_iteration()

    def _accumulated(self, gradients: Sequence[Array], rows: int) -> list[Array]:
        """The mean gradient when this call completes an update, else nothing."""
        # A mean over all rows weighs each part by its rows; sums are kept in float64, so parts equal the whole to rounding.
        weighed = [g.astype(np.float64) * rows for g in gradients]
        self._sums = [s + g for s, g in zip(self._sums, weighed, strict=True)] if self._calls else weighed
        self._rows += rows
        self._calls += 1
        if self._calls < self._accumulate:
            return []
        total = max(self._rows, 1)
        mean = [(s / total).astype(g.dtype) for s, g in zip(self._sums, gradients, strict=True)]
        self._sums, self._rows, self._calls = [], 0, 0
        return mean

    def _quantized(self) -> dict[str, Array]:
        assert self._quant is not None
        result = {}
        for name in self._names:
            copy = np.array(self._params[name], order="C")
            returned = self._quant(name, copy.shape, copy)
            result[name] = copy if returned is None else np.asarray(returned, copy.dtype, order="C").reshape(copy.shape)
        return result


def _row_count(feeds: Sequence[Array]) -> int:
    """Rows of a batch: the first axis of the first input that has one."""
    return next((a.shape[0] for a in feeds if a.ndim), 1)


def _named(quant: Callable[..., Any]) -> Callable[..., Any]:
    """A quantizer of name, shape and array, from one of these or of the array alone."""
    try:
        inspect.signature(quant).bind("w", (1,), None)
    except (TypeError, ValueError):
        return lambda name, shape, w: quant(w)
    return quant
