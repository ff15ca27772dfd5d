"""Training steps whose update runs in Python: optimizers without a traced form, parameters quantized in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.compiler import Traced
from rlxlang.device import Device
from rlxlang.func_training import clip_by_global_norm
from rlxlang.hessian_estimates import observe_hessian
from rlxlang.trainer_step import gradient_graph
from rlxlang.training.data import batch_input
from rlxlang.training.quantizers import Quantizer
from rlxlang.training.step_state import StepState, wide_of

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
        quantizer: Rounds the parameters at which gradients are computed, or None.
        device: Where to compute gradients.
        state: What else is written in place.

    Attributes:
        device: Where gradients are computed.
    """

    def __init__(
        self,
        func: Func,
        params: Mapping[str, Array],
        names: Sequence[str],
        opt: Any,
        max_grad_norm: float,
        quantizer: Quantizer | None,
        device: Device | None,
        state: StepState,
    ) -> None:
        self._func, self._params, self._names, self._opt, self._state = func, params, list(names), opt, state
        self._max_grad_norm = max_grad_norm
        self._quantizer = quantizer
        self._scale: dict[str, Array] = {}
        if state.scale is None and not state.metrics:
            self._gradient = func.value_and_grad(self._names).traced
        else:
            graph = gradient_graph(func.graph, self._names, state)
            self._gradient = Traced(graph)
            self._scale = {} if state.scale is None else {graph.inputs[-1].name: state.loss_scale}
        first = batch_input(func.graph.feeds)
        names_of_feeds = [e.name for e in self._gradient.signature.feeds]
        self._counted = None if first is None else names_of_feeds.index(first.name)
        self._compiled = self._gradient.compiled(device)
        self.device = self._compiled.device

    def gather(self, *values: object) -> float:
        """Take the inputs and the seed by position and keep the gradients for later; returns the loss."""
        loss, gradients, rows = self._gradients(values)
        self._state.gather(gradients, rows)
        return loss

    def call(self, *values: object) -> float:
        """Take the inputs and the seed by position and make an update; returns the loss."""
        loss, gradients, rows = self._gradients(values)
        if self._state.accumulate > 1:
            self._state.gather(gradients, rows)
            gradients = self._state.gathered()
        if self._state.judge(list(gradients.values())):
            clip_by_global_norm(list(gradients.values()), self._max_grad_norm)
            if getattr(self._opt, "needs_hessian", False):
                observe_hessian(self._opt, self._func, self._names, values, self._at(), self.device)
            self._opt.step_batch([(n, g.shape, self._params[n], g) for n, g in gradients.items()])
            self._opt.end_iteration()
            self._state.average(self._params)
        return loss

    def _gradients(self, values: Sequence[object]) -> tuple[float, dict[str, Array], int]:
        """The loss, the gradients by name, and the rows of the batch."""
        params = {**self._at(), **self._scale}
        feeds, sizes = self._gradient.signature.prepare(values, params)
        results = self._compiled.run(feeds, params, sizes)
        gradients = dict(zip(self._names, results[1 : 1 + len(self._names)], strict=True))
        for own, found in zip(self._state.counts, results[1 + len(self._names) :], strict=bool(self._state.metrics)):
            own[...] = found
        if self._scale:
            factor = np.float32(1) / np.float32(self._state.loss_scale)
            gradients = {n: np.asarray(g.astype(wide_of(g)) * factor) for n, g in gradients.items()}
        return float(np.reshape(results[0], ())), gradients, self._rows(feeds)

    def _rows(self, feeds: Sequence[Array]) -> int:
        """Rows of a batch (see `batch_input`)."""
        return 1 if self._counted is None else int(feeds[self._counted].shape[0])

    def _at(self) -> dict[str, Array]:
        """The parameters at which derivatives are taken."""
        rounded = {} if self._quantizer is None else self._quantizer.arrays(self._params, self.device)
        return {**self._params, **rounded}
